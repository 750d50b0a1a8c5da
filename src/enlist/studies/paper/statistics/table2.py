"""The cells of table 2: what each method took to its target here, beside what the paper prints."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from enlist.studies.paper.claims.judging import NOT_RUN, UNREACHABLE
from enlist.studies.paper.raw import Curve, Raw, seconds_key
from enlist.studies.paper.recipes.table2 import BANDWIDTH, METHODS, ROWS, TARGETS, Row, model_of
from enlist.studies.paper.setting import Scale
from enlist.studies.paper.statistics.seeds import curves, median

EPOCHS = 5
# What counts as the paper's number of rounds: within this factor.
CLOSE = 2.0
REACHED, SLOWER, FASTER, NOT_REACHED = "reached", "slower", "faster", "not reached"


class Cost(NamedTuple):
    """What so many rounds cost one worker.

    Args:
        computing, sending: seconds; the first None where a worker's computing was not measured.
    """

    mib: float
    computing: float | None
    sending: float

    @property
    def seconds(self) -> float | None:
        """Of both."""
        return None if self.computing is None else self.computing + self.sending


class Cell(NamedTuple):
    """One row of the table by one method.

    Args:
        model: what was run, at small scale not always the row's.
        rounds: to the target, by seed; None for a run that did not get there.
        diverged: how many runs did.
        median: of the rounds; None where fewer than half of the runs got there.
        cost: of the median; None where there is none.
        paper: its rounds, MB and seconds.
        ceiling: the best test accuracy of training in one place on all rows; None where it was not run.
        verdict: reached (within a factor 2 of the paper's rounds), slower, faster, not reached, cannot be reached
            (at full scale the ceiling stays below the target) or not run.
    """

    row: Row
    method: str
    model: str
    target: float
    rounds: tuple[int | None, ...]
    diverged: int
    median: float | None
    cost: Cost | None
    paper: tuple[int, float, float]
    ceiling: float | None
    verdict: str

    @property
    def reached(self) -> int:
        """How many runs got there."""
        return sum(each is not None for each in self.rounds)


def table2_cells(raw: Raw, scale: Scale) -> list[Cell]:
    """Every row by both methods, in the table's order."""
    return [cell(raw, scale, row, method) for row in ROWS for method in METHODS]


def cell(raw: Raw, scale: Scale, row: Row, method: str) -> Cell:
    """One row by one method."""
    runs, target, model = row_runs(raw, scale, row, method), TARGETS[row.dataset], model_of(scale, row)
    rounds = tuple(run.rounds_to(target) for run in runs)
    middle, most = median(rounds), ceiling(raw, scale, row.dataset, model)
    paper = row.printed(method)
    # Some rows and some rounds, as at small scale, prove nothing impossible.
    proof = most if scale.name == "full" else None
    return Cell(
        row=row,
        method=method,
        model=model,
        target=target,
        rounds=rounds,
        diverged=sum(run.status != "done" for run in runs),
        median=middle,
        cost=None if middle is None else cost(raw, runs[0], middle),
        paper=paper,
        ceiling=most,
        verdict=_verdict(runs, middle, paper[0], proof, target),
    )


def row_runs(raw: Raw, scale: Scale, row: Row, method: str) -> list[Curve]:
    """The runs of a row by a method, by seed."""
    model = model_of(scale, row)
    return curves(raw, scale, model, row.partition, row.cohort, EPOCHS, row.dataset, method)


def cost(raw: Raw, run: Curve, rounds: float) -> Cost:
    """What so many rounds of such a run cost one worker."""
    mib = rounds * (run.uplink_bytes + run.downlink_bytes) / 2**20
    once = raw.seconds.get(seconds_key(run.setting))
    return Cost(mib, None if once is None else rounds * once, mib / BANDWIDTH)


def best_accuracy(runs: Iterable[Curve]) -> float | None:
    """The highest test accuracy of any of the runs; None where there is none."""
    known = (run.best_accuracy() for run in runs)
    return max((value for value in known if value is not None), default=None)


def ceiling(raw: Raw, scale: Scale, dataset: str, model: str) -> float | None:
    """The best test accuracy that one worker with all rows comes to, at any round and rate; None where not run."""
    alone = raw.where(dataset=dataset, model=model, workers=1, rows=scale.rows)
    return best_accuracy(alone)


def _verdict(
    runs: Sequence[Curve], middle: float | None, paper: int, most: float | None, target: float
) -> str:
    if not runs:
        return NOT_RUN
    if middle is None:
        return UNREACHABLE if most is not None and most < target - 1e-9 else NOT_REACHED
    if middle > CLOSE * paper:
        return SLOWER
    return FASTER if middle < paper / CLOSE else REACHED
