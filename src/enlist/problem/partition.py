"""Ways to deal a data set to workers, from identical to very different shares.

Each function takes a `Dataset` and a seed and returns a `Federation`; test rows are dealt by the same rule,
so that every worker also has test rows like its training rows where the rule says which those are.
"""

from collections.abc import Callable

import numpy as np

from enlist.errors import BadInput, unknown
from enlist.problem.dataset import Dataset
from enlist.problem.federation import Federation, Holding
from enlist.problem.sharing import share as share

# Separate streams for train and test rows, so that neither's size changes the other's deal.
TRAIN, TEST, PLAN = 0, 1, 2


def iid(data: Dataset, workers: int = 100, seed: int = 0) -> Federation:
    """Rows shuffled and dealt evenly; sizes differ by at most one."""
    _check_workers(data, workers)
    train = np.array_split(_rng(seed, TRAIN).permutation(len(data.x_train)), workers)
    test = np.array_split(_rng(seed, TEST).permutation(len(data.x_test)), workers)
    return Federation(data, Holding.of(train), Holding.of(test), "iid")


def digits(data: Dataset, per_worker: int = 2, workers: int = 100, seed: int = 0) -> Federation:
    """Exactly `per_worker` classes a worker (the paper's p), equal shares, no row in two workers.

    Every class is held by equally many workers, m p / classes of them, and each share is the largest that all
    classes can fill. What is left over is reported in `Federation.left_over`.
    """
    classes = _classes(data, "digits")
    _check_workers(data, workers)
    if not 1 <= per_worker <= classes:
        raise BadInput(f"partition digits:{per_worker}: classes a worker must be from 1 to {classes}")
    if workers * per_worker % classes:
        step = classes // np.gcd(classes, per_worker)
        raise BadInput(
            f"partition digits:{per_worker} cannot share {classes} classes evenly among {workers} workers: "
            f"the number of workers must be a multiple of {step}"
        )
    held = _deal_classes(_rng(seed, PLAN), workers, per_worker, classes)
    name = f"digits:{per_worker}"
    train = _deal_shares(_rng(seed, TRAIN), data.y_train, held, classes)
    if min(map(len, train)) == 0:
        fewest = int(np.bincount(data.y_train, minlength=classes).min())
        most = fewest * classes // per_worker
        raise BadInput(
            f"partition {name}: the smallest class of {data.name} has {fewest} rows, too few for "
            f"{workers * per_worker // classes} workers: at most {most} workers are possible"
        )
    test = _deal_shares(_rng(seed, TEST), data.y_test, held, classes)
    return Federation(data, Holding.of(train), Holding.of(test), name)


def shards(data: Dataset, per_worker: int = 2, workers: int = 100, seed: int = 0) -> Federation:
    """Rows sorted by label, cut into `workers * per_worker` equal shards, `per_worker` dealt to each.

    CIFAR-10 with 100 workers and 2 a worker: 200 shards of 250 rows (McMahan et al., 2016).
    """
    _classes(data, "shards")
    _check_workers(data, workers)
    count = workers * per_worker
    if per_worker < 1 or count > len(data.x_train):
        most = len(data.x_train) // workers
        raise BadInput(
            f"partition shards:{per_worker}: shards a worker must be from 1 to {most} for {workers} workers"
        )
    deal = _rng(seed, PLAN).permutation(count).reshape(workers, per_worker)

    def cut(role: int, labels: np.ndarray) -> Holding | None:
        if len(labels) < count:
            return None
        # Shuffled before the stable sort: rows of one class have no order of their own.
        mixed = _rng(seed, role).permutation(len(labels))
        by_label = mixed[np.argsort(labels[mixed], kind="stable")]
        size = len(labels) // count
        table = by_label[: size * count].reshape(count, size)
        return Holding.of([table[mine].ravel() for mine in deal])

    train = cut(TRAIN, data.y_train)
    assert train is not None
    return Federation(data, train, cut(TEST, data.y_test), f"shards:{per_worker}")


def dirichlet(data: Dataset, alpha: float = 0.3, workers: int = 100, seed: int = 0) -> Federation:
    """Each class is split among the workers by proportions drawn from Dirichlet(alpha); sizes become unequal.

    A worker that would hold nothing is given one row of the largest holder.
    """
    classes = _classes(data, "dirichlet")
    _check_workers(data, workers)
    _check_positive("dirichlet", "concentration", alpha)
    shares = _rng(seed, PLAN).dirichlet(np.full(workers, alpha), size=classes)
    train = _split_classes(_rng(seed, TRAIN), data.y_train, shares)
    test = _split_classes(_rng(seed, TEST), data.y_test, shares)
    return Federation(data, Holding.of(_nobody_bare(train)), Holding.of(test), f"dirichlet:{alpha:g}")


def quantity(data: Dataset, power: float = 1.5, workers: int = 100, seed: int = 0) -> Federation:
    """Same distribution, very different amounts: worker sizes follow rank^(-power), in random order."""
    _check_workers(data, workers)
    _check_positive("quantity", "power", power)
    weight = np.arange(1, workers + 1, dtype=np.float64) ** -power
    weight = _rng(seed, PLAN).permutation(weight / weight.sum())

    def cut(role: int, rows: int, least: int) -> list[np.ndarray]:
        sizes = least + np.floor(weight * (rows - least * workers)).astype(np.int64)
        sizes[np.argmax(sizes)] += rows - sizes.sum()
        return np.split(_rng(seed, role).permutation(rows), np.cumsum(sizes)[:-1])

    train = cut(TRAIN, len(data.x_train), 1)
    test = cut(TEST, len(data.x_test), 0)
    return Federation(data, Holding.of(train), Holding.of(test), f"quantity:{power:g}")


def by_key(data: Dataset) -> Federation:
    """Every row with its natural holder: `data.worker[r]`. Workers are numbered by ascending key."""
    if data.worker is None:
        raise BadInput(
            f"partition by-key: {data.name} does not say who holds which row (it has no array 'worker')"
        )
    if (data.worker[1:] >= data.worker[:-1]).all():
        # Rows that lie worker after worker stay where they are.
        begins = np.flatnonzero(np.concatenate([[True], data.worker[1:] != data.worker[:-1]]))
        keys = data.worker[begins]
        sizes = np.diff(np.append(begins, len(data.worker)))
        rows = np.arange(len(data.worker), dtype=np.int32)
        train = Holding(rows, begins.astype(np.int32), sizes.astype(np.int32))
    else:
        keys = np.unique(data.worker)
        train = _group(data.worker, keys)
    test = None if data.worker_test is None else _group(data.worker_test, keys)
    return Federation(data, train, test, "by-key")


def parse(text: str) -> Callable[[Dataset, int, int], Federation]:
    """`iid`, `digits:2`, `shards:2`, `dirichlet:0.3`, `quantity:1.5` or `by-key`, as `deal(data, workers, seed)`."""
    kind, _, argument = text.partition(":")
    plain: dict[str, Callable[..., Federation]] = {
        "iid": iid,
        "by-key": lambda data, workers, seed: by_key(data),
    }
    counted: dict[str, Callable[..., Federation]] = {"digits": digits, "shards": shards}
    measured: dict[str, Callable[..., Federation]] = {"dirichlet": dirichlet, "quantity": quantity}
    if kind in plain:
        if argument:
            raise BadInput(f"partition {text!r}: {kind} takes no number")
        return lambda data, workers, seed: plain[kind](data, workers=workers, seed=seed)
    if kind not in counted | measured:
        raise unknown("partition", kind, [*plain, *counted, *measured])
    try:
        number = int(argument) if kind in counted else float(argument)
    except ValueError:
        example = {
            "digits": "digits:2",
            "shards": "shards:2",
            "dirichlet": "dirichlet:0.3",
            "quantity": "quantity:1.5",
        }
        raise BadInput(
            f"partition {text!r}: write a number after the colon, for example {example[kind]}"
        ) from None
    deal = (counted | measured)[kind]
    return lambda data, workers, seed: deal(data, number, workers=workers, seed=seed)


def _rng(seed: int, role: int) -> np.random.Generator:
    return np.random.default_rng([seed, role])


def _classes(data: Dataset, kind: str) -> int:
    if data.classes is None:
        raise BadInput(
            f"partition {kind} needs class labels, but {data.name} is a regression: use iid, quantity or by-key"
        )
    return data.classes


def _check_workers(data: Dataset, workers: int) -> None:
    if not 1 <= workers <= len(data.x_train):
        raise BadInput(f"workers = {workers}: {data.name} has rows for 1 to {len(data.x_train)} workers")


def _check_positive(kind: str, what: str, value: float) -> None:
    if not 0 < value <= 1e100:  # beyond, sums of such numbers overflow
        raise BadInput(f"partition {kind}:{value:g}: the {what} must be a number above 0, at most 1e100")


def _deal_classes(rng: np.random.Generator, workers: int, per_worker: int, classes: int) -> np.ndarray:
    """A random workers x per_worker table of distinct classes in each row, every class equally often.

    Each worker takes the classes with most places left, ties broken at random: this never gets stuck, because
    the largest remaining demands are always met first (Gale-Ryser).
    """
    left = np.full(classes, workers * per_worker // classes)
    held = np.empty((workers, per_worker), np.int64)
    for worker in range(workers):
        tie = rng.random(classes)
        held[worker] = np.lexsort((tie, -left))[:per_worker]
        left[held[worker]] -= 1
    return rng.permutation(held)


def _deal_shares(
    rng: np.random.Generator, labels: np.ndarray, held: np.ndarray, classes: int
) -> list[np.ndarray]:
    """Rows for each worker: an equal share of each class it holds, the largest share all classes can fill."""
    holders = held.size // classes
    counts = np.bincount(labels, minlength=classes)
    share = int(counts.min()) // holders
    pools = [rng.permutation(np.flatnonzero(labels == c)) for c in range(classes)]
    given = np.zeros(classes, np.int64)
    mine: list[np.ndarray] = []
    for row in held:
        mine.append(np.concatenate([pools[c][given[c] * share : (given[c] + 1) * share] for c in row]))
        given[row] += 1
    return mine


def _split_classes(rng: np.random.Generator, labels: np.ndarray, shares: np.ndarray) -> list[np.ndarray]:
    """Each class cut at the cumulated shares (classes x workers); a worker's pieces joined."""
    parts: list[list[np.ndarray]] = [[] for _ in range(shares.shape[1])]
    for c, part in enumerate(shares):
        rows = rng.permutation(np.flatnonzero(labels == c))
        cuts = np.round(np.cumsum(part)[:-1] * len(rows)).astype(np.int64)
        for worker, piece in enumerate(np.split(rows, cuts)):
            parts[worker].append(piece)
    return [np.concatenate(pieces) for pieces in parts]


def _nobody_bare(rows: list[np.ndarray]) -> list[np.ndarray]:
    rows = list(rows)
    for bare in [i for i, mine in enumerate(rows) if len(mine) == 0]:
        rich = max(range(len(rows)), key=lambda i: len(rows[i]))
        rows[bare], rows[rich] = rows[rich][-1:], rows[rich][:-1]
    return rows


def _group(holder: np.ndarray, keys: np.ndarray) -> Holding:
    place = np.searchsorted(keys, holder)
    known = (place < len(keys)) & (keys[np.minimum(place, len(keys) - 1)] == holder)
    rows = np.flatnonzero(known)
    rows = rows[np.argsort(place[rows], kind="stable")]
    sizes = np.bincount(place[known], minlength=len(keys)).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
    return Holding(rows.astype(np.int32), offsets, sizes)
