"""A grid of runs: what each came to, what the seeds of a combination agree on, and which combination is best.

A run that diverged has no final value, and the best that it saw before does not count for its combination. If it
reached the target before, it did reach it; how many runs diverged is said beside.
"""

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from enlist.report.comparison.outcome import falls
from enlist.report.record import RunRecord, number, outcome, plain

if TYPE_CHECKING:
    from rich.table import Table

SEED = "seed"
# A file's name may have 255 bytes; some are left for what is put before and after it.
_LONGEST_NAME = 200


class Swept(NamedTuple):
    """One run, and the options that set it apart."""

    values: Mapping[str, Any]
    run: RunRecord


class Measure(NamedTuple):
    """A number by which combinations are judged.

    Args:
        key: of a row.
        head: what it is, for the head of a column.
        words: what it is, where there is more room.
        falls: whether less is better.
        is_percent: whether people read it in percent.
    """

    key: str
    head: str
    words: str
    falls: bool
    is_percent: bool = False


class Spread(NamedTuple):
    """Over the seeds that have a value: their mean, standard deviation (n - 1; None for one seed) and number."""

    mean: float
    deviation: float | None
    known: int


@dataclass(frozen=True)
class Cell:
    """One combination of options, over its seeds: a row for each."""

    values: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]

    @property
    def diverged(self) -> int:
        """How many of its runs diverged."""
        return sum(row["status"] == "diverged" for row in self.rows)

    def spread(self, key: str) -> Spread | None:
        """Of that number over the seeds; None where no seed has one."""
        # A run that reached the target and diverged later did reach it.
        counts = [row for row in self.rows if row["status"] != "diverged" or key.endswith("_to_target")]
        known = [float(row[key]) for row in counts if row[key] is not None]
        if not known:
            return None
        return Spread(statistics.mean(known), statistics.stdev(known) if known[1:] else None, len(known))


@dataclass(frozen=True)
class Sweep:
    """The runs of a grid.

    Args:
        axes: the options that differ between the runs, each with its values in the order given.
        runs: at least one.
    """

    axes: Mapping[str, Sequence[Any]]
    runs: Sequence[Swept]

    @cached_property
    def metric(self) -> str:
        """The name of the test metric; `metric` where the runs do not agree on one."""
        names = {each.run.metric_key.removeprefix("test_") for each in self.runs if each.run.metrics}
        return names.pop() if len(names) == 1 else "metric"

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each run: its options, how it ended, what it reached and what that cost. None: no such number."""
        return [_row(each, self.axes, self.metric) for each in self.runs]

    @cached_property
    def cells(self) -> list[Cell]:
        """The combinations, each with its seeds."""
        found: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}
        for row in self.rows:
            values = {name: row[name] for name in self.axes if name != SEED}
            found.setdefault(repr(values), (values, []))[1].append(row)
        return [Cell(*each) for each in found.values()]

    @property
    def seeds(self) -> int:
        """The most seeds that a combination has."""
        return max(len(cell.rows) for cell in self.cells)

    @cached_property
    def measures(self) -> list[Measure]:
        """What combinations are judged by, the first of these first."""
        metric, key = self.metric.replace("_", " "), f"test_{self.metric}"
        percent = self.metric == "accuracy"
        found = [
            Measure(f"best_{self.metric}", f"best {metric}", f"best test {metric}", falls(key), percent),
            Measure(f"final_{self.metric}", f"final {metric}", f"final test {metric}", falls(key), percent),
            Measure("train_loss", "training loss", "final training loss", True),
        ]
        if any(row["target"] is not None for row in self.rows):
            found[:0] = [
                Measure("rounds_to_target", "rounds", f"rounds to {self.goal}", True),
                Measure("mib_to_target", "MiB", f"MiB (one worker) to {self.goal}", True),
                Measure("seconds_to_target", "seconds", f"simulated seconds to {self.goal}", True),
            ]
        return found

    @property
    def goal(self) -> str:
        """The target in words."""
        targets = {row["target"] for row in self.rows if row["target"] is not None}
        if len(targets) != 1:
            return "the target"
        target = targets.pop()
        return f"{100 * target:g}% test accuracy" if self.metric == "accuracy" else f"{target:g}"

    def ranked(self, measure: Measure | None = None) -> list[Cell]:
        """The combinations, the best first; those of which every seed has a value before those with fewer."""
        first = measure or self.measures[0]
        then = next(each for each in self.measures if each.key.startswith("best_"))

        def place(cell: Cell) -> tuple[float, ...]:
            order: list[float] = []
            for each in (first, then):
                spread = cell.spread(each.key)
                order.append(math.inf if spread is None else len(cell.rows) - spread.known)
                order.append(math.inf if spread is None else spread.mean if each.falls else -spread.mean)
            return tuple(order)

        return sorted(self.cells, key=place)

    def best(self) -> Cell:
        """The best combination: by the rounds to the target where there is one, else by the best test metric."""
        return self.ranked()[0]

    def table(self) -> "Table":
        """The combinations as a table for a terminal or a notebook, the best first."""
        from enlist.report.sweep.tables import terminal_table

        return terminal_table(self)


def axes_of(combinations: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The options that differ, each with its values in the order in which they first occur."""
    found: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for each in combinations for name in each):
        values: list[Any] = []
        for each in combinations:
            if not any(_same(each[name], value) for value in values):
                values.append(each[name])
        found[name] = values
    return {name: values for name, values in found.items() if len(values) > 1}


def _same(one: Any, other: Any) -> bool:
    """1 and 1.0 are the same; 1 and True are not."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def word(value: Any) -> str:
    """A value the way a person types it.

    Example:
        >>> word(0.1), word(1.0), word(None), word(True)
        ('0.1', '1', 'none', 'true')
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return plain(value)


def label(values: Mapping[str, Any]) -> str:
    """What sets a run apart, in words.

    Example:
        >>> label({"worker_lr": 0.1, "partition": "digits:2"})
        'worker_lr=0.1, partition=digits:2'
    """
    return ", ".join(f"{name}={word(value)}" for name, value in values.items())


def folder_names(combinations: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for the folder of each run, no two the same, with nothing that a file system or a shell minds.

    Example:
        >>> folder_names([{"worker_lr": 0.1, "partition": "digits:2"}])
        ['worker_lr=0.1,partition=digits_2']
    """
    taken: dict[str, int] = {}
    names = []
    for values in combinations:
        told = ",".join(f"{name}={word(value)}" for name, value in values.items())
        name = re.sub(r"[^A-Za-z0-9_.=+,-]+", "_", told)[:_LONGEST_NAME]
        # Some file systems take a and A for the same.
        taken[name.lower()] = taken.get(name.lower(), 0) + 1
        names.append(name if taken[name.lower()] == 1 else f"{name}~{taken[name.lower()]}")
    return names


def _row(swept: Swept, axes: Mapping[str, Any], metric: str) -> dict[str, Any]:
    run = swept.run
    end = outcome(run)
    goal = run.summary.get("target") or {}
    ended = end.status != "diverged"
    return {
        **{name: swept.values[name] for name in axes},
        "status": end.status,
        "rounds": end.rounds,
        f"final_{metric}": _known(end.final) if ended else None,
        f"best_{metric}": _known(end.best),
        "best_round": end.best_round,
        "train_loss": _known(end.train_loss) if ended else None,
        "test_loss": _known(end.test_loss) if ended else None,
        "target": end.target,
        "rounds_to_target": end.target_rounds,
        "mib_to_target": _known(number(goal.get("comm_mib"))),
        "seconds_to_target": _known(number(goal.get("seconds"))),
        "comm_mib": _known(end.comm_mib),
        "wall_seconds": _known(end.wall_seconds),
        "run": run.name,
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
