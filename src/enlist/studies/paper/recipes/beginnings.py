"""Pixels and first weights: whether others than the usual come clearly, and far enough, nearer to table 2."""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipe import PARTIAL_COHORT, THREE
from enlist.studies.paper.recipes.nearness import distance_from, rounds_to_target
from enlist.studies.paper.recipes.table2 import ROWS, Row
from enlist.studies.paper.setting import Scale, Setting, Way
from enlist.studies.paper.statistics.seeds import Difference, PerSeed, averaged, difference, minus

STANDARD, UNIFORM = "standard", "uniform"
# As `Way` has them: None is the usual.
PIXELS, STARTS = (None, STANDARD), (None, UNIFORM)
SEEDS = 3
# So much nearer, in doublings of rounds, is worth all runs anew.
WORTH = 0.25
# In table 2's runs the CNN comes to the target in 18 rounds at most. No training loss is asked for, so a few rows
# estimate it.
ROUNDS, EVAL_ROWS = {"two_nn": 100, "cnn": 30}, 1000


class Nearness(NamedTuple):
    """How near a way comes to table 2.

    Args:
        reached: runs that reach the target, of the `runs` that are there, of so many `wanted`.
        distances: from the table's rounds, the mean over cells, by seed; of the seeds that have all cells.
        gain: how much nearer than the usual it is; None for that itself, and where one of both is not run.
    """

    way: Way
    reached: int
    runs: int
    wanted: int
    distances: PerSeed
    gain: Difference | None

    @property
    def is_worth_it(self) -> bool:
        """Whether it is nearer, clearly and by enough."""
        return self.gain is not None and self.gain.sign > 0 and self.gain.mean >= WORTH


def ways(scale: Scale) -> list[Way]:
    """Those that are compared, the usual first."""
    batch = scale.ways["mnist"].batch
    return [Way(batch, pixels=pixels, start=start) for start, pixels in product(STARTS, PIXELS)]


def runs(scale: Scale) -> list[Setting]:
    """Every way in every cell."""
    return [setting for way in ways(scale) for row in cells(scale) for setting in _runs(scale, row, way)]


def cells(scale: Scale) -> list[Row]:
    """The rows of table 2 that are compared: with 10 workers a round; at small scale those of the 2NN."""
    models = THREE[1:2] if scale.name == "small" else THREE[1:]
    return [
        row for row in ROWS if (row.dataset, row.cohort) == ("mnist", PARTIAL_COHORT) and row.model in models
    ]


def compared(raw: Raw, scale: Scale) -> list[Nearness]:
    """Every way beside the usual one."""
    usual, *_ = all_distances = [_distances(raw, scale, way) for way in ways(scale)]
    found = []
    for way, distances in zip(ways(scale), all_distances, strict=True):
        wanted = [setting for row in cells(scale) for setting in _runs(scale, row, way)]
        there = [raw.curves[setting] for setting in wanted if setting in raw.curves]
        reached = sum(rounds_to_target(curve) is not None for curve in there)
        gain = None if distances is usual else difference(minus(usual, distances), WORTH)
        found.append(Nearness(way, reached, len(there), len(wanted), distances, gain))
    return found


def chosen(found: Sequence[Nearness]) -> Way | None:
    """The usual one unless another is worth it; None where they are not all run."""
    usual, *others = found
    if any(each.runs < each.wanted for each in found):
        return None
    nearer = [each for each in others if each.is_worth_it]
    return max(nearer, key=lambda each: each.gain.mean if each.gain else 0.0, default=usual).way


def _runs(scale: Scale, row: Row, way: Way) -> list[Setting]:
    own = scale._replace(ways={**scale.ways, "mnist": way})
    rounds = min(ROUNDS[row.model], scale.extents[row.model].rounds)
    # All rows there are at small scale: table 2's runs.
    few = None if 0 < scale.rows <= EVAL_ROWS else EVAL_ROWS
    where = {"partition": row.partition, "cohort": row.cohort, "local_epochs": 5}
    return [*own.settings("mnist", row.model, seeds=SEEDS, rounds=rounds, eval_rows=few, **where)]


def _distances(raw: Raw, scale: Scale, way: Way) -> PerSeed:
    return averaged(
        [
            {
                setting.seed: distance_from(row, raw.curves[setting])
                for setting in _runs(scale, row, way)
                if setting in raw.curves
            }
            for row in cells(scale)
        ]
    )
