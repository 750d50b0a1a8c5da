"""A person's own data: one .npz file, checked as it enters."""

import contextlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from enlist.errors import BadInput
from enlist.problem.dataset import Dataset

NEEDED = ("x_train", "y_train", "x_test", "y_test")
OPTIONAL = ("worker", "worker_test")


def from_npz(path: str | Path) -> Dataset:
    """Read a data set from a file made by `numpy.savez`.

    Args:
        path: the file. It holds x_train, y_train, x_test, y_test and, where rows have natural holders, worker
            and worker_test (an integer for each row).

    Returns:
        x as float32, where uint8 is taken for pixels and scaled to [0, 1]; integer y as int32 labels, the
        classes counted from the largest; floating y as float32 targets of a regression, `classes` None.
    """
    path = Path(path)
    arrays = _read(path)
    y_train, y_test, classes = _targets(path, arrays["y_train"], arrays["y_test"])
    checked = Dataset(
        _inputs(path, "x_train", arrays["x_train"]),
        y_train,
        _inputs(path, "x_test", arrays["x_test"]),
        y_test,
        worker=_holders(path, "worker", arrays.get("worker")),
        worker_test=_holders(path, "worker_test", arrays.get("worker_test")),
        classes=classes,
        name=str(path),  # so that its own checks name the file
    )
    return replace(checked, name=path.stem)


def _read(path: Path) -> dict[str, np.ndarray]:
    if not os.path.isfile(path):  # unlike Path.is_file, never raises
        raise BadInput(f"{path}: no such file; give the path of a .npz that holds {', '.join(NEEDED)}")
    with contextlib.ExitStack() as stack:
        try:
            # Opened here because np.load leaves a damaged file open.
            bundle = np.load(stack.enter_context(path.open("rb")), allow_pickle=False)
        # Damaged zips and headers fail in many ways (zipfile, zlib, struct, ...): all mean the same.
        except Exception as error:
            raise BadInput(
                f"{path}: not a readable .npz ({_short(error)}); make it with numpy.savez"
            ) from None
        if not isinstance(bundle, np.lib.npyio.NpzFile):
            raise BadInput(f"{path}: a single array; make a .npz with numpy.savez and {', '.join(NEEDED)}")
        return _members(path, stack.enter_context(bundle))


def _members(path: Path, bundle: np.lib.npyio.NpzFile) -> dict[str, np.ndarray]:
    missing = [key for key in NEEDED if key not in bundle.files]
    if missing:
        held = ", ".join(bundle.files) or "nothing"
        raise BadInput(
            f"{path}: {', '.join(missing)} missing; it holds {held}, and {', '.join(NEEDED)} are needed"
        )
    return {key: _member(path, bundle, key) for key in (*NEEDED, *OPTIONAL) if key in bundle.files}


def _member(path: Path, bundle: np.lib.npyio.NpzFile, key: str) -> np.ndarray:
    try:
        array = bundle[key]
    except Exception as error:  # as above, and pickled objects, which are never loaded
        if "allow_pickle" in str(error):
            raise BadInput(
                f"{path}: {key} holds Python objects (a pickle): save plain numbers instead"
            ) from None
        raise BadInput(f"{path}: {key} cannot be read ({_short(error)}): the file is damaged") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "buif":
        raise BadInput(
            f"{path}: {key} is {getattr(array, 'dtype', 'not an array')}: it must hold real numbers"
        )
    return array


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:100] or type(error).__name__


def _inputs(path: Path, key: str, x: np.ndarray) -> np.ndarray:
    if x.ndim < 2 or 0 in x.shape[1:]:
        raise BadInput(f"{path}: {key} has shape {x.shape}: it needs rows and at least one axis of features")
    return _finite(path, key, x) / np.float32(255 if x.dtype == np.uint8 else 1)


def _finite(path: Path, key: str, array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        small = array.astype(np.float32)
    if not np.isfinite(small).all():
        raise BadInput(f"{path}: {key} holds NaN or numbers too large for float32: remove or replace them")
    return small


def _targets(path: Path, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray, int | None]:
    floating = {array.dtype.kind == "f" for array in (train, test)}
    if len(floating) > 1:
        raise BadInput(
            f"{path}: y_train is {train.dtype} but y_test is {test.dtype}: both labels, or both targets"
        )
    if floating == {True}:
        for key, y in (("y_train", train), ("y_test", test)):
            if y.ndim not in (1, 2):
                raise BadInput(
                    f"{path}: {key} has shape {y.shape}: targets are one number, or one row, an example"
                )
        if train.shape[1:] != test.shape[1:]:
            raise BadInput(
                f"{path}: y_train has shape {train.shape} but y_test {test.shape}: they must agree"
            )
        return _finite(path, "y_train", train), _finite(path, "y_test", test), None
    for key, y in (("y_train", train), ("y_test", test)):
        if y.ndim != 1:
            raise BadInput(
                f"{path}: {key} has shape {y.shape}: labels are one integer an example; flatten them"
            )
    present = [int(bound) for y in (train, test) if len(y) for bound in (y.min(), y.max())] or [0]
    low, high = min(present), max(present)
    if low != 0 or high >= 2**31 - 1:
        raise BadInput(f"{path}: labels go from {low} to {high}: number the classes 0, 1, 2, ...")
    return train.astype(np.int32), test.astype(np.int32), high + 1


def _holders(path: Path, key: str, keys: np.ndarray | None) -> np.ndarray | None:
    if keys is not None and (keys.ndim != 1 or keys.dtype.kind not in "ui"):
        raise BadInput(
            f"{path}: {key} is {keys.dtype} of shape {keys.shape}: one integer for each row is needed"
        )
    return None if keys is None else keys.astype(np.int64)
