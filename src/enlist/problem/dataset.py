"""A data set before it is dealt to workers: plain arrays, nothing more."""

from dataclasses import dataclass

import numpy as np

from enlist.errors import BadInput


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test examples as NumPy arrays, first axis the example.

    Args:
        x_train, y_train: training examples and what is to be predicted for each.
        x_test, y_test: held-out examples.
        worker: for each training row the holder's key (any integers), where the data has natural holders.
        worker_test: the same for test rows.
        classes: number of classes when `y` is an integer label in [0, classes); None for regression.
        name: how tables and figures call it.
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    worker: np.ndarray | None = None
    worker_test: np.ndarray | None = None
    classes: int | None = None
    name: str = "data"

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            x, y = getattr(self, f"x_{part}"), getattr(self, f"y_{part}")
            if len(x) != len(y):
                raise BadInput(
                    f"{self.name}: x_{part} has {len(x)} rows but y_{part} has {len(y)}: they must agree"
                )
            if len(x) == 0:
                raise BadInput(f"{self.name}: x_{part} is empty: at least one row is needed")
        if self.x_train.shape[1:] != self.x_test.shape[1:]:
            raise BadInput(
                f"{self.name}: an example has shape {self.x_train.shape[1:]} in x_train "
                f"but {self.x_test.shape[1:]} in x_test: they must agree"
            )
        for key, rows in (("worker", len(self.x_train)), ("worker_test", len(self.x_test))):
            held = getattr(self, key)
            if held is not None and len(held) != rows:
                raise BadInput(
                    f"{self.name}: {key} has {len(held)} entries for {rows} rows: one for each row is needed"
                )
