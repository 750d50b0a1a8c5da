"""FedAvg and SCAFFOLD to one accuracy: the target, or, where they miss it, what both come to."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from enlist.studies.paper.raw import Curve, Raw
from enlist.studies.paper.recipes.table2 import METHODS, TARGETS, Row
from enlist.studies.paper.setting import Scale
from enlist.studies.paper.statistics.seeds import GUESSED, median, rounded
from enlist.studies.paper.statistics.table2 import row_runs

# Where a target is missed, rounds are counted to this part of the best accuracy that every run comes to.
SHARED = 0.99
# Who comes to no more than so many times what guessing gives has learned nothing that could be raced to.
LEARNED = 1.5


class Race(NamedTuple):
    """Both methods to one accuracy.

    Args:
        level: that accuracy.
        runs: of both methods.
    """

    level: float
    runs: Mapping[str, list[Curve]]

    def median(self, method: str) -> float:
        """Rounds; infinite where most runs did not get there."""
        return median([run.rounds_to(self.level) for run in self.runs[method]]) or math.inf

    @property
    def scaffold(self) -> float:
        """SCAFFOLD's median rounds."""
        return self.median("scaffold")

    @property
    def fedavg(self) -> float:
        """FedAvg's."""
        return self.median("fedavg")

    def per_seed(self, method: str) -> dict[int, int]:
        """The rounds of the seeds that got there."""
        rounds = {run.setting.seed: run.rounds_to(self.level) for run in self.runs[method]}
        return {seed: count for seed, count in rounds.items() if count is not None}

    def facts(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "level": rounded(self.level),
            "scaffold": rounded(self.scaffold),
            "fedavg": rounded(self.fedavg),
            "seeds": min(map(len, self.runs.values())),
        }


def raced(raw: Raw, scale: Scale, row: Row) -> Race | None:
    """To the target where a method comes to it, else to what both come to; None where one was not run."""
    runs, target = _runs(raw, scale, row), TARGETS[row.dataset]
    if runs is None:
        return None
    arrived = any(_come_to(own, target) for own in runs.values())
    return Race(target if arrived else _shared(runs) or target, runs)


def costed(raw: Raw, scale: Scale, row: Row) -> Race | None:
    """To the target where both come to it, else to what both do; None where there is no such accuracy."""
    runs, target = _runs(raw, scale, row), TARGETS[row.dataset]
    if runs is None:
        return None
    both = all(_come_to(own, target) for own in runs.values())
    level = target if both else _shared(runs)
    return None if level is None else Race(level, runs)


def _runs(raw: Raw, scale: Scale, row: Row) -> dict[str, list[Curve]] | None:
    runs = {method: row_runs(raw, scale, row, method) for method in METHODS}
    return runs if all(runs.values()) else None


def _come_to(runs: Sequence[Curve], level: float) -> bool:
    return median([run.rounds_to(level) for run in runs]) is not None


def _shared(runs: Mapping[str, Sequence[Curve]]) -> float | None:
    """What every run that did not diverge comes to; None where all runs of a method did, or one learned nothing."""
    whole = [[run for run in own if run.status == "done"] for own in runs.values()]
    if not all(whole):
        return None
    level = SHARED * min(float(run.test_accuracy.max()) for own in whole for run in own)
    return level if level > LEARNED * GUESSED["test_accuracy"] else None
