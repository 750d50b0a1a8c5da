"""A worker's own rows: one .npz file that never leaves its machine."""

import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from enlist.errors import BadInput
from enlist.problem.arrays import checked

NAMES = (("x_train", "y_train"), ("x", "y"))


class Rows(NamedTuple):
    """Examples, and what is to be predicted for each; `classes` is None where that is a number."""

    x: np.ndarray
    y: np.ndarray
    classes: int | None


def read_rows(path: Path, names: tuple[tuple[str, str], ...] = NAMES) -> Rows:
    """The rows in a file made by `numpy.savez`: x_train and y_train, or x and y.

    Args:
        names: pairs of arrays, of which the first that the file has is taken.
    """
    wanted = " or ".join(" and ".join(pair) for pair in names)
    if not path.is_file():
        raise BadInput(f"{path}: no such file; give a .npz that holds {wanted}")
    arrays = _read(path, {name for pair in names for name in pair})
    pair = next((each for each in names if set(each) <= arrays.keys()), None)
    if pair is None:
        raise BadInput(f"{path}: holds {', '.join(arrays) or 'nothing'} of what is needed: {wanted}")
    x, y = (arrays[name] for name in pair)
    _check(path, {pair[0]: x, pair[1]: y})
    # A worker may hold few of the classes, so labels are not asked to begin at 0 here.
    lowest = np.zeros(1, y.dtype) if y.dtype.kind in "iu" else y[:1]
    data = checked(str(path), {"x_train": x, "y_train": y, "x_test": x[:1], "y_test": lowest})
    return Rows(data.x_train, data.y_train, data.classes)


def _read(path: Path, wanted: set[str]) -> dict[str, np.ndarray]:
    """Those of the wanted arrays that the file has."""
    try:
        with np.load(path, allow_pickle=False) as bundle:
            return {name: bundle[name] for name in bundle.files if name in wanted}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, AttributeError, TypeError) as error:
        raise BadInput(f"{path}: not a readable .npz ({' '.join(str(error).split())[:100]})") from None


def _check(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Numbers, and equally many rows."""
    for name, array in arrays.items():
        if array.ndim == 0 or array.dtype.kind not in "biuf":
            raise BadInput(f"{path}: {name} is {array.dtype} of shape {array.shape}, not rows of numbers")
    (one, x), (other, y) = arrays.items()
    if len(x) != len(y) or not len(x):
        raise BadInput(
            f"{path}: {one} has {len(x)} rows and {other} {len(y)}: they must agree, and not be none"
        )
