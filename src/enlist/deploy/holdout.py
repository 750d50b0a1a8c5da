"""The rows that the server itself has: the model is looked at on them, and takes its shapes from them."""

from pathlib import Path

import numpy as np

from enlist.deploy.rows import Rows, read_rows
from enlist.problem import datasets
from enlist.problem.dataset import Dataset

NAMES = (("x_test", "y_test"), ("x", "y"))


def read_holdout(dataset: str, workers: int, seed: int) -> Rows:
    """The test rows of a data set by its name, or those of a .npz, which needs no other rows."""
    if dataset.lower().endswith(".npz"):
        return read_rows(Path(dataset), NAMES)
    data = datasets.load(dataset, workers=workers, seed=seed)
    return Rows(np.asarray(data.x_test), np.asarray(data.y_test), data.classes)


def as_dataset(rows: Rows, name: str) -> Dataset:
    """The same as a data set whose training rows are elsewhere; its test rows stand in for their shapes."""
    return Dataset(rows.x, rows.y, rows.x, rows.y, classes=rows.classes, name=name)
