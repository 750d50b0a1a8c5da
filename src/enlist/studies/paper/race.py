"""FedAvg and SCAFFOLD to one accuracy: the target, or, where one of them misses it, what both come to."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from enlist.studies.paper.raw import Curve, Raw
from enlist.studies.paper.setting import Scale
from enlist.studies.paper.statistics import median, over_rounds, rounded
from enlist.studies.paper.statistics_table2 import row_runs
from enlist.studies.paper.table2 import METHODS, TARGETS, Row

# Where a target is not reached by both, rounds are counted to this part of what both reach.
SHARED = 0.99


class Race(NamedTuple):
    """Both methods to one accuracy.

    Args:
        level: the target, or less where a method does not come to it.
        scaffold, fedavg: median rounds; infinite where most runs did not get there.
        runs: of both methods.
    """

    level: float
    scaffold: float
    fedavg: float
    runs: Mapping[str, list[Curve]]

    def facts(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "level": rounded(self.level),
            "scaffold": rounded(self.scaffold),
            "fedavg": rounded(self.fedavg),
            "seeds": min(map(len, self.runs.values())),
        }


def raced(raw: Raw, scale: Scale, row: Row) -> Race | None:
    """Both methods in a row of the table; None where one was not run."""
    runs = {method: row_runs(raw, scale, row, method) for method in METHODS}
    if not all(runs.values()):
        return None
    level = TARGETS[row.dataset]
    if any(median([run.rounds_to(level) for run in own]) is None for own in runs.values()):
        level = SHARED * min(map(_come_to, runs.values()))
    rounds = {
        method: median([run.rounds_to(level) for run in own]) or math.inf for method, own in runs.items()
    }
    return Race(level, rounds["scaffold"], rounds["fedavg"], runs)


def _come_to(runs: Sequence[Curve]) -> float:
    """The accuracy that at least half of the runs come to."""
    best = sorted((float(over_rounds(run, "test_accuracy").max()) for run in runs), reverse=True)
    return best[(len(best) - 1) // 2]
