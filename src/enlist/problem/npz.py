"""A person's own data: one .npz file, checked as it enters."""

import contextlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from enlist.errors import BadInput
from enlist.problem.arrays import checked
from enlist.problem.dataset import Dataset

NEEDED = ("x_train", "y_train", "x_test", "y_test")
OPTIONAL = ("worker", "worker_test")


def from_npz(path: str | Path) -> Dataset:
    """Read a data set from a file made by `numpy.savez`.

    Args:
        path: the file. It holds x_train, y_train, x_test, y_test and, where rows have natural holders, worker
            and worker_test (an integer for each row).

    Returns:
        The arrays as `enlist.problem.arrays.checked` makes them.
    """
    path = Path(path)
    # Named by the file while it is checked, by its stem from then on.
    return replace(checked(str(path), _read(path)), name=path.stem)


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
    # NumPy takes whatever it does not know for a pickle.
    if "pickle" in str(error):
        return "neither a zip archive nor an array"
    return " ".join(str(error).split())[:100] or type(error).__name__
