"""Who holds what: flat example arrays, and for each worker the rows that are its own."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from enlist.errors import BadInput
from enlist.problem.dataset import Dataset

# Examples, and bytes of them, that a fingerprint reads: all of them would take longer than many a run.
SAMPLED_ROWS, SAMPLED_BYTES = 256, 2**24


@dataclass(frozen=True)
class Holding:
    """Rows by worker, without copying an example: worker i holds `order[offsets[i] : offsets[i] + sizes[i]]`."""

    order: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray

    @staticmethod
    def of(rows_by_worker: Sequence[Sequence[int] | np.ndarray]) -> "Holding":
        """From one array of row numbers for each worker."""
        sizes = np.array([len(rows) for rows in rows_by_worker], np.int32)
        offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
        order = np.concatenate([np.asarray(rows, np.int64) for rows in rows_by_worker]).astype(np.int32)
        return Holding(order, offsets, sizes)

    def rows(self, worker: int) -> np.ndarray:
        """The row numbers that one worker holds."""
        start = int(self.offsets[worker])
        return self.order[start : start + int(self.sizes[worker])]

    def holder(self) -> np.ndarray:
        """For each entry of `order` the worker that holds it."""
        return np.repeat(np.arange(len(self.sizes), dtype=np.int32), self.sizes)


@dataclass(frozen=True, eq=False)
class Federation:
    """A data set dealt to m workers. Unequal sizes are ordinary.

    Args:
        data: the examples.
        train: which training rows each worker holds; every worker holds at least one, and no row has two holders
            unless it is common.
        test: which test rows are each worker's own, for accuracy by worker; None where there are none.
        partition: how it was dealt, in the words of the command line.
        common: training rows that may be with many workers, as `partition.share` gives them; None for none.
    """

    data: Dataset
    train: Holding
    test: Holding | None = None
    partition: str = "given"
    common: np.ndarray | None = None
    left_over: int = field(init=False)

    def __post_init__(self) -> None:
        rows = len(self.data.x_train)
        order = self.train.order
        if len(self.train.sizes) == 0:
            raise BadInput(f"{self.data.name}: a federation needs at least one worker")
        if (self.train.sizes < 1).any():
            bare = int(np.argmin(self.train.sizes))
            raise BadInput(
                f"{self.data.name}: worker {bare} holds no training row: every worker needs at least one"
            )
        if len(order) and (order.min() < 0 or order.max() >= rows):
            raise BadInput(f"{self.data.name}: a worker is given a row outside [0, {rows - 1}]")
        # Millions of rows mostly lie in their order, and then need no sorting to see that none is there twice.
        ascending = bool((order[1:] > order[:-1]).all())
        held, holders = (order, None) if ascending else np.unique(order, return_counts=True)
        if holders is not None and not np.isin(held[holders > 1], self._common).all():
            raise BadInput(
                f"{self.data.name}: a training row has two holders: each row belongs to one worker"
            )
        if len(self._common) and len(np.unique(self.train.holder() * np.int64(rows) + order)) < len(order):
            raise BadInput(f"{self.data.name}: a worker holds a training row twice")
        object.__setattr__(self, "left_over", rows - len(held))

    @property
    def workers(self) -> int:
        """m."""
        return len(self.train.sizes)

    @property
    def sizes(self) -> np.ndarray:
        """Training rows of each worker."""
        return self.train.sizes

    @property
    def offsets(self) -> np.ndarray:
        """Where each worker's rows begin in `order`."""
        return self.train.offsets

    @property
    def order(self) -> np.ndarray:
        """Training row numbers, worker after worker."""
        return self.train.order

    @property
    def classes(self) -> int | None:
        """Number of classes; None for regression."""
        return self.data.classes

    @property
    def name(self) -> str:
        """The data set's name."""
        return self.data.name

    @property
    def _common(self) -> np.ndarray:
        return np.zeros(0, np.int64) if self.common is None else self.common

    @property
    def shared_rows(self) -> int:
        """How many common rows a worker holds, at most."""
        if self.common is None:
            return 0
        shared = np.isin(self.order, self._common)
        return int(np.bincount(self.train.holder()[shared]).max(initial=0))

    @property
    def shared_bytes(self) -> int:
        """Bytes of the common rows that a worker is sent, as its examples lie in memory."""
        return self.shared_rows * sum(part[0].nbytes for part in (self.data.x_train, self.data.y_train))

    def fingerprint(self) -> str:
        """A name for who holds which rows of what data; of the examples only a few are read."""
        x, y = self.data.x_train, self.data.y_train
        rows = min(SAMPLED_ROWS, max(1, SAMPLED_BYTES // max(1, x[:1].nbytes)))
        some = np.unique(np.linspace(0, len(x) - 1, rows).astype(np.int64))
        hashed = hashlib.sha256(repr([x.shape, str(x.dtype), y.shape, str(y.dtype)]).encode())
        for part in (self.order, self.offsets, self.sizes, x[some], y[some]):
            hashed.update(np.ascontiguousarray(part).tobytes())
        return hashed.hexdigest()

    def class_counts(self, workers: int | None = None) -> np.ndarray | None:
        """How many rows of each class the first `workers` workers hold; None for regression."""
        if self.classes is None:
            return None
        counted = self.workers if workers is None else min(workers, self.workers)
        holder = self.train.holder()
        seen = holder < counted
        counts = np.zeros((counted, self.classes), np.int64)
        np.add.at(counts, (holder[seen], self.data.y_train[self.order[seen]]), 1)
        return counts


def federation(
    x_train: np.ndarray,
    y_train: np.ndarray,
    x_test: np.ndarray,
    y_test: np.ndarray,
    worker: np.ndarray,
    worker_test: np.ndarray | None = None,
    name: str = "data",
) -> Federation:
    """A federation from any NumPy arrays in one call; `worker[r]` is the holder of training row r.

    Integer `y` are class labels 0, 1, 2, ...; floating `y` are regression targets; uint8 `x` are pixels and scaled to
    [0, 1].

    Example:
        >>> import numpy as np
        >>> fed = federation(np.eye(4, dtype="f"), np.array([0, 1, 0, 1]), np.eye(4, dtype="f"),
        ...                  np.array([0, 1, 0, 1]), worker=np.array([7, 7, 7, 9]))
        >>> fed.workers, fed.sizes.tolist()
        (2, [3, 1])
    """
    from enlist.problem.arrays import checked
    from enlist.problem.partition import by_key

    given = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test, "worker": worker}
    if worker_test is not None:
        given["worker_test"] = worker_test
    return by_key(checked(name, {key: np.asarray(value) for key, value in given.items()}))
