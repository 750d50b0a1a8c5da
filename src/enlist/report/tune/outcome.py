"""A tune: the candidates, the rungs that they climbed, and who won."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from enlist.report.comparison.outcome import falls
from enlist.report.record import RunRecord
from enlist.report.sweep.outcome import Measure, axes_of

if TYPE_CHECKING:
    from rich.table import Table

# What may decide.
BY = ("train_loss", "test_metric", "rounds")


class Entry(NamedTuple):
    """A candidate on a rung.

    Args:
        candidate: its place among all.
        scores: of its seeds; None: diverged, or the target was not reached.
        then: the mean of the test metric, which decides between candidates that have not reached the target.
        diverged: how many of its seeds did.
        kept: whether it goes on, or won.
    """

    candidate: int
    scores: Sequence[float | None]
    then: float | None
    diverged: int
    kept: bool = False

    @property
    def mean(self) -> float | None:
        """Over the seeds that have a score; None where none has, or one diverged."""
        known = self.known
        return statistics.mean(known) if known and not self.diverged else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation (n - 1); None for fewer than two."""
        return statistics.stdev(self.known) if self.known[1:] and not self.diverged else None

    @property
    def known(self) -> list[float]:
        """The scores that there are."""
        return [score for score in self.scores if score is not None]


class Rung(NamedTuple):
    """What happened up to a number of rounds.

    Args:
        rounds: that number.
        entries: the candidates that came so far, the best first.
        device_seconds: what their rounds took, without compiling.
        wall_seconds: all of it.
        advanced: rounds that were run for it, of all runs together.
    """

    rounds: int
    entries: Sequence[Entry]
    device_seconds: float
    wall_seconds: float
    advanced: int


class Cost(NamedTuple):
    """What a tune took.

    Args:
        runs: how many there were.
        rounds: that were run, of all runs together.
        wall_seconds: of all rungs, compiling and files included.
        device_seconds: of their rounds and evaluations alone.
        full_run_seconds: those of one full run of the winner, alone.
        measured: how that was found.
        estimate: device time in full runs, as it was estimated beforehand for runs side by side.
    """

    runs: int
    rounds: int
    wall_seconds: float
    device_seconds: float
    full_run_seconds: float
    measured: str
    estimate: float

    @property
    def full_runs(self) -> float:
        """The device time of the tune in full runs."""
        return self.device_seconds / max(self.full_run_seconds, 1e-12)


@dataclass(frozen=True)
class Tuned:
    """What came of a tune.

    Args:
        candidates: the options that set each apart.
        seeds: that each ran with.
        measure: what decided.
        eta: one in so many went on.
        rungs: in order.
        cost: what it took.
        runs: those of the candidates that came furthest, the winner's first.
        config: what `enlist run --config` takes to run the winner; None for a tune begun from Python.
    """

    candidates: Sequence[Mapping[str, Any]]
    seeds: Sequence[int]
    measure: Measure
    eta: int
    rungs: Sequence[Rung]
    cost: Cost
    runs: Sequence[RunRecord] = field(repr=False)
    config: Mapping[str, Any] | None = field(default=None, repr=False)

    @cached_property
    def axes(self) -> dict[str, list[Any]]:
        """The options that differ, each with its values."""
        return axes_of(self.candidates)

    @property
    def best(self) -> Entry:
        """The winner on the last rung."""
        return self.rungs[-1].entries[0]

    @property
    def winner(self) -> Mapping[str, Any]:
        """Its options."""
        return self.candidates[self.best.candidate]

    @cached_property
    def reached(self) -> dict[int, tuple[int, Entry]]:
        """The last rung, from 1, that each candidate ran on, and how it stood there; the best first."""
        found: dict[int, tuple[int, Entry]] = {}
        for number in range(len(self.rungs), 0, -1):
            for entry in self.rungs[number - 1].entries:
                found.setdefault(entry.candidate, (number, entry))
        return found

    @property
    def diverged(self) -> int:
        """How many candidates did."""
        return sum(entry.diverged > 0 for _, entry in self.reached.values())

    @cached_property
    def edges(self) -> list[str]:
        """Rates of the winner that lie at the edge of what was tried."""
        tried = {name: values for name, values in self.axes.items() if name.endswith("_lr")}
        return [name for name, values in tried.items() if self.winner[name] in (min(values), max(values))]

    def table(self) -> "Table":
        """The best candidates, for a terminal or a notebook."""
        from enlist.report.tune.tables import candidates_table

        return candidates_table(self)


def measure_of(by: str, metric: str, target: float | None) -> Measure:
    """The number that decides.

    Args:
        by: one of `BY`.
        metric: the name of the test metric.
        target: the value of it that is to be reached, where rounds decide.
    """
    words, percent = metric.replace("_", " "), metric == "accuracy"
    if by == "rounds":
        assert target is not None
        goal = f"{100 * target:g}% test accuracy" if percent else f"{words} {target:g}"
        return Measure("rounds_to_target", "rounds", f"rounds to {goal}", True)
    if by == "test_metric":
        return Measure(f"test_{metric}", f"test {words}", f"test {words}", falls(metric), percent)
    return Measure("train_loss", "training loss", "training loss", True)


def ranked(entries: Sequence[Entry], measure: Measure, then_falls: bool) -> list[Entry]:
    """The best first. Those that diverged are last, those of which a seed has no score before them; what ties goes by
    the test metric where rounds decide, and else by the order in which candidates were given."""

    def place(entry: Entry) -> tuple[float, ...]:
        mean, then = entry.mean, entry.then
        return (
            entry.diverged > 0,
            sum(score is None for score in entry.scores),
            math.inf if mean is None else mean if measure.falls else -mean,
            0.0 if then is None else then if then_falls else -then,
            entry.candidate,
        )

    return sorted(entries, key=place)
