"""A person's own data larger than memory: a folder of .npy files that are mapped, not read."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from enlist.errors import BadInput
from enlist.problem.arrays import both_pixels, holders, targets
from enlist.problem.dataset import Dataset
from enlist.problem.gather import release
from enlist.problem.npz import NEEDED, OPTIONAL

# Rows, and bytes of them, that are looked at before a run: all of them would take longer than many a run.
SAMPLED_ROWS, SAMPLED_BYTES = 1024, 2**24
KINDS = (np.dtype(np.float32), np.dtype(np.uint8))


def from_folder(path: str | Path) -> Dataset:
    """A data set from the files x_train.npy, y_train.npy, x_test.npy, y_test.npy of a folder, made by `numpy.save`.

    Args:
        path: the folder. Where rows have natural holders it has worker.npy and worker_test.npy too.

    Returns:
        x mapped as it lies on disk, float32 or uint8 (pixels, scaled to [0, 1] where a model sees them); the other
        arrays in memory. Only some rows of x are checked for numbers that are not finite.
    """
    path = Path(path)
    arrays = {key: _mapped(path, key) for key in NEEDED}
    arrays |= {key: _mapped(path, key) for key in OPTIONAL if (path / f"{key}.npy").is_file()}
    for key in ("x_train", "x_test"):
        _check_inputs(path, key, arrays[key])
    both_pixels(str(path), arrays["x_train"], arrays["x_test"])
    y_train, y_test, classes = targets(str(path), np.asarray(arrays["y_train"]), np.asarray(arrays["y_test"]))
    made = Dataset(
        arrays["x_train"],
        y_train,
        arrays["x_test"],
        y_test,
        worker=holders(str(path), "worker", arrays.get("worker")),
        worker_test=holders(str(path), "worker_test", arrays.get("worker_test")),
        classes=classes,
        name=str(path),
    )
    return replace(made, name=path.resolve().name)


def digest(path: Path) -> str | None:
    """A name for what the files hold, from their headers and some of their rows; None where they cannot be read."""
    found = hashlib.sha256()
    try:
        for key in (*NEEDED, *OPTIONAL):
            if (path / f"{key}.npy").is_file():
                array = _mapped(path, key)
                found.update(repr([key, array.shape, str(array.dtype)]).encode())
                found.update(np.ascontiguousarray(_some(array)).tobytes())
    except (BadInput, OSError):
        return None
    return found.hexdigest()


def _mapped(path: Path, key: str) -> np.ndarray:
    file = path / f"{key}.npy"
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise BadInput(
            f"{path}: {key}.npy missing; {', '.join(f'{name}.npy' for name in NEEDED)} are needed"
        ) from None
    except (OSError, ValueError, EOFError) as error:
        raise BadInput(
            f"{file}: not a readable .npy ({' '.join(str(error).split())[:100]}); make it with numpy.save"
        ) from None
    if not isinstance(array, np.memmap) or array.dtype.kind not in "buif":
        kind = getattr(array, "dtype", "not an array")
        raise BadInput(f"{file}: {kind}: it must hold real numbers, saved with numpy.save")
    return array


def _check_inputs(path: Path, key: str, x: np.ndarray) -> None:
    if x.dtype not in KINDS:
        raise BadInput(
            f"{path}/{key}.npy is {x.dtype}: rows are used as they lie on disk, so save them as float32, or uint8 "
            "for pixels"
        )
    if x.ndim < 2 or 0 in x.shape[1:]:
        raise BadInput(f"{path}: {key} has shape {x.shape}: it needs rows and at least one axis of features")
    if not x.flags.c_contiguous:
        raise BadInput(f"{path}/{key}.npy is in Fortran order: save numpy.ascontiguousarray of it")
    if x.dtype.kind == "f" and not np.isfinite(_some(x)).all():
        raise BadInput(f"{path}: {key} holds NaN or infinity: remove or replace them")


def _some(array: np.ndarray) -> np.ndarray:
    """Rows from the first to the last, a bounded number."""
    count = min(len(array), SAMPLED_ROWS, max(1, SAMPLED_BYTES // max(1, array[:1].nbytes)))
    found = array[np.unique(np.linspace(0, max(0, len(array) - 1), count).astype(np.int64))]
    release(array)
    return np.asarray(found)
