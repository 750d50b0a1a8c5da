"""A person's own arrays, from Python or from a file, checked as they enter."""

from collections.abc import Mapping

import numpy as np

from enlist.errors import BadInput
from enlist.problem.dataset import Dataset


def checked(name: str, arrays: Mapping[str, np.ndarray]) -> Dataset:
    """A data set of x_train, y_train, x_test, y_test and, where rows have holders, worker and worker_test.

    Returns:
        x as float32, where uint8 is taken for pixels and scaled to [0, 1]; integer y as int32 labels, which must
        be 0, 1, 2, ...; floating y as float32 targets of a regression, `classes` None.
    """
    for key, array in arrays.items():
        if array.dtype.kind not in "buif":
            raise BadInput(f"{name}: {key} is {array.dtype}: plain numbers are needed")
    y_train, y_test, classes = targets(name, arrays["y_train"], arrays["y_test"])
    both_pixels(name, arrays["x_train"], arrays["x_test"])
    return Dataset(
        _inputs(name, "x_train", arrays["x_train"]),
        y_train,
        _inputs(name, "x_test", arrays["x_test"]),
        y_test,
        worker=holders(name, "worker", arrays.get("worker")),
        worker_test=holders(name, "worker_test", arrays.get("worker_test")),
        classes=classes,
        name=name,
    )


def both_pixels(name: str, train: np.ndarray, test: np.ndarray) -> None:
    """uint8 are pixels and scaled: where only one of the two is, the other would be on another scale."""
    if (train.dtype == np.uint8) != (test.dtype == np.uint8):
        raise BadInput(
            f"{name}: x_train is {train.dtype} but x_test is {test.dtype}: uint8 are pixels and divided by 255; "
            "give both alike"
        )


def _inputs(name: str, key: str, x: np.ndarray) -> np.ndarray:
    if x.ndim < 2 or 0 in x.shape[1:]:
        raise BadInput(f"{name}: {key} has shape {x.shape}: it needs rows and at least one axis of features")
    return _finite(name, key, x) / np.float32(255 if x.dtype == np.uint8 else 1)


def _finite(name: str, key: str, array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        small = array.astype(np.float32)
    if not np.isfinite(small).all():
        raise BadInput(f"{name}: {key} holds NaN or numbers too large for float32: remove or replace them")
    return small


def targets(name: str, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray, int | None]:
    """What is to be predicted: labels and how many classes they are, or numbers and None."""
    floating = {array.dtype.kind == "f" for array in (train, test)}
    if len(floating) > 1:
        raise BadInput(
            f"{name}: y_train is {train.dtype} but y_test is {test.dtype}: both labels, or both targets"
        )
    if floating == {True}:
        for key, y in (("y_train", train), ("y_test", test)):
            if y.ndim not in (1, 2):
                raise BadInput(
                    f"{name}: {key} has shape {y.shape}: targets are one number, or one row, an example"
                )
        if train.shape[1:] != test.shape[1:]:
            raise BadInput(
                f"{name}: y_train has shape {train.shape} but y_test {test.shape}: they must agree"
            )
        return _finite(name, "y_train", train), _finite(name, "y_test", test), None
    for key, y in (("y_train", train), ("y_test", test)):
        if y.ndim != 1:
            raise BadInput(
                f"{name}: {key} has shape {y.shape}: labels are one integer an example; flatten them"
            )
    present = [int(bound) for y in (train, test) if len(y) for bound in (y.min(), y.max())] or [0]
    low, high = min(present), max(present)
    if low != 0 or high >= 2**31 - 1:
        raise BadInput(f"{name}: labels go from {low} to {high}: number the classes 0, 1, 2, ...")
    return train.astype(np.int32), test.astype(np.int32), high + 1


def holders(name: str, key: str, keys: np.ndarray | None) -> np.ndarray | None:
    """For each row the key of its holder."""
    if keys is not None and (keys.ndim != 1 or keys.dtype.kind not in "ui"):
        raise BadInput(
            f"{name}: {key} is {keys.dtype} of shape {keys.shape}: one integer for each row is needed"
        )
    return None if keys is None else keys.astype(np.int64)
