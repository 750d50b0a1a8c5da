"""The official files, and the forms in which package indexes carry them, decoded into uint8 arrays.

Nothing here touches a network or trusts its input: archives are read in memory and never unpacked to disk,
pickles may build NumPy arrays and nothing else. Whether the result is the true data is decided by its hash
(`fetch.verify`).
"""

import gzip
import io
import json
import pickle
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Files = dict[str, bytes]  # contents by base name, decompressed
Arrays = dict[str, np.ndarray]  # x_train, y_train, x_test, y_test
GZIP = b"\x1f\x8b"


class Layout(NamedTuple):
    """A set of files that together hold a whole data set, and how to read them."""

    files: tuple[str, ...]
    decode: Callable[[Files], Arrays]


# ---- getting at the files ------------------------------------------------------------------------------


def plain_name(path: str) -> str:
    """The official base name of a file: no folder, no .gz, `train-images.idx3-ubyte` with its dash."""
    base = path.replace("\\", "/").rsplit("/", 1)[-1]
    return base.removesuffix(".gz").replace(".idx", "-idx")


def collect(path: Path, wanted: Collection[str]) -> Files:
    """The wanted files in a folder, a tar (.tgz, .tar.gz), a zip (.whl) or a Debian package."""
    if path.is_dir():
        return _pick(((p.name, p.read_bytes) for p in sorted(path.iterdir()) if p.is_file()), wanted)
    if path.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(path) as bundle:
            return _pick(((name, partial(bundle.read, name)) for name in bundle.namelist()), wanted)
    if path.suffix == ".deb":
        return _from_tar(io.BytesIO(deb_tar(path)), wanted)
    with path.open("rb") as stream:
        return _from_tar(stream, wanted)


def _from_tar(stream: Any, wanted: Collection[str]) -> Files:
    with tarfile.open(fileobj=stream, mode="r:*") as bundle:

        def entries() -> Iterable[tuple[str, Callable[[], bytes]]]:
            for member in bundle:
                content = bundle.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield member.name, content.read

        return _pick(entries(), wanted)


def _pick(entries: Iterable[tuple[str, Callable[[], bytes]]], wanted: Collection[str]) -> Files:
    files: Files = {}
    for path, read in entries:
        name = plain_name(path)
        if name in wanted and name not in files:
            content = read()
            # By its first bytes, not its name: browsers decompress .gz files and leave the name as it was.
            files[name] = gzip.decompress(content) if content.startswith(GZIP) else content
    return files


def deb_tar(path: Path) -> bytes:
    """The tar of installed files inside a .deb; by dpkg-deb where present, as it knows every compression."""
    if tool := shutil.which("dpkg-deb"):
        done = subprocess.run(
            [tool, "--fsys-tarfile", str(path)], capture_output=True, timeout=120, stdin=subprocess.DEVNULL
        )
        if done.returncode == 0:
            return done.stdout
    return deb_member(path.read_bytes(), "data.tar")


def deb_member(content: bytes, prefix: str) -> bytes:
    """The first member whose name starts with `prefix` of an ar archive, which is what a .deb is."""
    if not content.startswith(b"!<arch>\n"):
        raise ValueError("not a Debian package")
    at = 8
    while at + 60 <= len(content):
        name, size = content[at : at + 16].decode("ascii").strip(), int(content[at + 48 : at + 58])
        if name.startswith(prefix):
            return content[at + 60 : at + 60 + size]
        at += 60 + size + size % 2  # members start at even places
    raise ValueError(f"no {prefix} in the Debian package")


# ---- reading them --------------------------------------------------------------------------------------


def idx(content: bytes) -> np.ndarray:
    """An array of bytes in the IDX format: 0, 0, 8 (uint8), rank, sizes as big-endian uint32, the data."""
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise ValueError("not an IDX file of unsigned bytes")
    rank = content[3]
    shape = np.frombuffer(content, ">u4", count=rank, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def _idx_set(files: Files) -> Arrays:
    x_train, y_train, x_test, y_test = (idx(files[name]) for name in IDX.files)
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}


IDX = Layout(
    (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ),
    _idx_set,
)


def _csv_rows(content: bytes) -> np.ndarray:
    body = content.partition(b"\n")[2].replace(b"\r", b"").replace(b"\n", b",")
    # fromstring parses 47 million numbers in about a second; loadtxt takes several times that.
    return np.fromstring(body, dtype=np.int16, sep=",").reshape(-1, 785).astype(np.uint8)


def _csv_set(files: Files) -> Arrays:
    train, test = (_csv_rows(files[name]) for name in MNIST_CSV.files)
    return {"x_train": train[:, 1:], "y_train": train[:, 0], "x_test": test[:, 1:], "y_test": test[:, 0]}


MNIST_CSV = Layout(("mnist_train.csv", "mnist_test.csv"), _csv_set)


class _ArraysOnly(pickle.Unpickler):
    """Builds NumPy arrays and plain containers; any other name in the pickle is refused."""

    _reconstruct = np.empty(0).__reduce__()[0]
    _allowed = {  # noqa: RUF012
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._allowed:
            raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}: refused")
        return self._allowed[module, name]


def _cifar_pickle(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    batch = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
    # Keys are bytes in the official files, which Python 2 wrote, and text where someone wrote them anew.
    planes, labels = (batch[key] if key in batch else batch[key.decode()] for key in (b"data", b"labels"))
    return np.asarray(planes, np.uint8), np.asarray(labels, np.uint8)


def _cifar_record(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    rows = np.frombuffer(content, np.uint8).reshape(-1, 3073)
    return rows[:, 1:], rows[:, 0]


def _cifar_set(batches: list[tuple[np.ndarray, np.ndarray]]) -> Arrays:
    """Train and test from batches of (planes of red, green, blue; labels), the last of them to test."""
    x = [planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1) for planes, _ in batches]
    y = [labels for _, labels in batches]
    return {
        "x_train": np.concatenate(x[:-1]),
        "y_train": np.concatenate(y[:-1]),
        "x_test": x[-1],
        "y_test": y[-1],
    }


_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
CIFAR_PICKLES = Layout(_BATCHES, lambda files: _cifar_set([_cifar_pickle(files[n]) for n in _BATCHES]))
CIFAR_BINARY = Layout(
    tuple(f"{name}.bin" for name in _BATCHES),
    lambda files: _cifar_set([_cifar_record(files[f"{n}.bin"]) for n in _BATCHES]),
)


def _png_rows(content: bytes) -> np.ndarray:
    from PIL import Image

    # One image a row of 1024 pixels, the pixels in the order of the 32 x 32 picture.
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).reshape(-1, 32, 32, 3)


def _png_set(files: Files) -> Arrays:
    x = [_png_rows(files[f"{name}.png"]) for name in _BATCHES]
    y_train, y_test = (np.array(json.loads(files[name]), np.uint8) for name in CIFAR_PNG.files[-2:])
    return {"x_train": np.concatenate(x[:-1]), "y_train": y_train, "x_test": x[-1], "y_test": y_test}


# "lables" is how the package spells it.
CIFAR_PNG = Layout((*(f"{name}.png" for name in _BATCHES), "train_lables.json", "test_lables.json"), _png_set)
