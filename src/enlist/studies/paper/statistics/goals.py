"""How far rounds to a goal, with a batch, are from those of table 2 on MNIST."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from enlist.studies.paper.raw import Curve, Raw
from enlist.studies.paper.recipe import THREE
from enlist.studies.paper.recipes import goals
from enlist.studies.paper.recipes.goals import Cell
from enlist.studies.paper.recipes.table2 import TARGETS
from enlist.studies.paper.setting import Scale

PERCENTS = range(80, 99)
PRINTED = TARGETS["mnist"]
CANDIDATES = [percent / 100 for percent in PERCENTS]


class Fit(NamedTuple):
    """A goal and a batch, and how far the rounds are from the table's."""

    goal: float
    batch: int
    distance: float


def rounds_to(raw: Raw, scale: Scale, cell: Cell, goal: float, batch: int) -> int | None:
    """Rounds of a cell; None where the goal is not reached, or the run not there."""
    curve = goals.found(raw, scale, cell, batch)
    return None if curve is None else curve.rounds_to(goal)


def fits(raw: Raw, scale: Scale, models: Sequence[str] = THREE) -> list[Fit]:
    """Every goal with every batch whose cells are all there, by these models.

    The distance is the mean of |log2(rounds / paper's rounds)| over the cells; a goal that is not reached counts
    with the rounds that count.
    """
    known = []
    cells = _cells(scale, models)
    for batch in goals.batches(scale):
        curves = [goals.found(raw, scale, cell, batch) for cell in cells]
        there = [(cell.paper, curve) for cell, curve in zip(cells, curves, strict=True) if curve is not None]
        if cells and len(there) == len(cells):
            known += [Fit(goal, batch, _distance(there, goal)) for goal in CANDIDATES]
    return known


def _distance(there: Sequence[tuple[int, Curve]], goal: float) -> float:
    far = [
        abs(math.log2((curve.rounds_to(goal) or min(goals.ROUNDS, curve.setting.rounds)) / paper))
        for paper, curve in there
    ]
    return sum(far) / len(far)


def nearest(known: Iterable[Fit]) -> Fit | None:
    """The one with the least distance; of equal ones the first."""
    return min(known, key=lambda fit: fit.distance, default=None)


def nearest_by_batch(known: Sequence[Fit]) -> dict[int, Fit]:
    """For each batch its own."""
    groups: dict[int, list[Fit]] = {}
    for fit in known:
        groups.setdefault(fit.batch, []).append(fit)
    return {batch: best for batch, group in groups.items() if (best := nearest(group)) is not None}


def within_factor(
    raw: Raw, scale: Scale, fit: Fit, factor: float, models: Sequence[str] = THREE
) -> tuple[int, int]:
    """How many cells take the table's rounds up to this factor, and how many there are."""
    cells = _cells(scale, models)
    ratios = [
        None if (rounds := rounds_to(raw, scale, cell, fit.goal, fit.batch)) is None else rounds / cell.paper
        for cell in cells
    ]
    return sum(each is not None and 1 / factor <= each <= factor for each in ratios), len(cells)


def diverged(raw: Raw, scale: Scale, batch: int) -> int:
    """How many of the runs with a batch diverge in the rounds that count."""
    curves = [goals.found(raw, scale, cell, batch) for cell in goals.cells(scale)]
    return sum(curve is not None and curve.status != "done" for curve in curves)


def _cells(scale: Scale, models: Sequence[str]) -> list[Cell]:
    return [cell for cell in goals.cells(scale) if cell.row.model in models]
