"""Data sharing: a small set of examples that every worker holds beside its own (Zhao et al., 2018).

The server keeps a set G with equally many rows of each class, which belong to no worker, and before the first round
sends each worker a random portion of it. Workers of few classes then see some rows of the others too, and drift apart
less. Zhao et al. also train the initial model on G; here a run begins from the model's own initial parameters.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from enlist.errors import BadInput
from enlist.problem.dataset import Dataset
from enlist.problem.federation import Federation, Holding

# Separate streams, beside those of `partition`.
COMMON, GIVEN = 3, 4


def share(
    data: Dataset,
    fraction: float,
    deal: Callable[[Dataset], Federation],
    portion: float = 1.0,
    seed: int = 0,
) -> Federation:
    """Holds out rows for all, deals the others, and gives every worker some of those held out.

    Args:
        data: the examples; they are not copied into the federation.
        fraction: |G| as a part of the training rows: 0.05 for 3,000 of 60,000. G has equally many rows of each class
            (to within one) where labels are classes, else it is a uniform sample. Zhao et al. write beta for |G| over
            the rows that the workers keep to themselves, which is fraction / (1 - fraction).
        deal: how the remaining rows are dealt, for instance `lambda rest: digits(rest, per_worker=2, workers=100)`.
        portion: how much of G a worker receives (their alpha), drawn for each worker without replacement.

    Returns:
        A federation in which the rows of G have many holders. F_i, and so f, are means over all rows that a worker
        holds, those of G included.
    """
    _check(fraction, portion)
    common = np.sort(_held_out(data, fraction, seed))
    rest = np.setdiff1d(np.arange(len(data.x_train)), common)
    left = _only(data, rest)
    private = deal(left)
    if private.data is not left:
        raise BadInput("share-data: `deal` must deal the rows that it is given")
    _check_holders(data, private, fraction)
    rng, count = np.random.default_rng([seed, GIVEN]), max(1, round(portion * len(common)))
    rows = [
        np.concatenate([rest[private.train.rows(worker)], rng.choice(common, count, replace=False)])
        for worker in range(private.workers)
    ]
    return Federation(data, Holding.of(rows), private.test, private.partition, common)


def _held_out(data: Dataset, fraction: float, seed: int) -> np.ndarray:
    """The rows of G."""
    rng = np.random.default_rng([seed, COMMON])
    rows = len(data.x_train)
    total = max(1, round(fraction * rows))
    if data.classes is None:
        return rng.choice(rows, total, replace=False)
    wanted = np.full(data.classes, total // data.classes)
    wanted[rng.permutation(data.classes)[: total % data.classes]] += 1
    there = np.bincount(data.y_train, minlength=data.classes)
    if (there < wanted).any():
        rare = int(np.argmin(there))
        most = math.floor(1e4 * there[rare] * data.classes / rows) / 1e4
        raise BadInput(
            f"share-data = {fraction:g}: {data.name} has only {there[rare]} rows of class {rare}, too few for "
            f"equally many of each class: give at most {most:g}"
        )
    by_class = (rng.permutation(np.flatnonzero(data.y_train == c)) for c in range(data.classes))
    return np.concatenate([mine[:count] for mine, count in zip(by_class, wanted, strict=True)])


def _only(data: Dataset, rows: np.ndarray) -> Dataset:
    """The data with these training rows alone."""
    worker = None if data.worker is None else data.worker[rows]
    return replace(data, x_train=data.x_train[rows], y_train=data.y_train[rows], worker=worker)


def _check(fraction: float, portion: float) -> None:
    if not 0 < fraction < 1:
        raise BadInput(f"share-data = {fraction:g}: must be above 0 and below 1, for instance 0.05")
    if not 0 < portion <= 1:
        raise BadInput(f"share-portion = {portion:g}: must be above 0 and at most 1")


def _check_holders(data: Dataset, private: Federation, fraction: float) -> None:
    """Nobody whom the data names vanishes because all that was his is held out."""
    if private.partition == "by-key" and data.worker is not None:
        named = len(np.unique(data.worker))
        if named != private.workers:
            raise BadInput(
                f"share-data = {fraction:g}: {named - private.workers} of the {named} holders that {data.name} names "
                "would keep no row of their own: give less"
            )
