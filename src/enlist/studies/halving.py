"""The plan of successive halving: how many candidates run for how long, and what that costs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from enlist.engine.execution import OVERHEAD
from enlist.engine.task import Task
from enlist.errors import BadInput, unknown
from enlist.report.sweep.outcome import SEED
from enlist.report.tune.outcome import BY
from enlist.studies.grid import Point

# What all rungs together may cost by the estimate, in full runs, where the first rung's length is left to us.
BUDGET = 2.5


class Plan(NamedTuple):
    """How candidates are halved.

    Args:
        rounds: of a full run.
        eta: one in so many goes on.
        first: rounds of the first rung; None leaves it to us.
        by: what decides, one of `enlist.report.tune.outcome.BY`.
        target: of the test metric, where rounds decide.
    """

    rounds: int
    eta: int = 3
    first: int | None = None
    by: str = "train_loss"
    target: float | None = None


class Candidate(NamedTuple):
    """What sets a candidate apart, and the places of its runs, a seed each, among all runs."""

    values: Mapping[str, Any]
    places: Sequence[int]


def check(plan: Plan, candidates: int, seeds: int) -> None:
    """Refuses what cannot be halved."""
    if plan.by not in BY:
        raise unknown("by", plan.by, BY)
    if plan.by == "rounds" and plan.target is None:
        raise BadInput("by = rounds: say what is to be reached, for instance --target 0.9")
    if plan.by != "rounds" and plan.target is not None:
        raise BadInput(
            f"target = {plan.target:g}: {plan.by} decides, so nothing is made of it; add --by rounds, or leave it out"
        )
    if plan.eta < 2:
        raise BadInput(f"eta = {plan.eta}: one candidate in eta goes on; give 2 or more")
    if seeds < 1:
        raise BadInput(f"seeds = {seeds}: must be 1 or more")
    if candidates < 2:
        raise BadInput(
            "tune: one candidate leaves nothing to choose; give several rates, such as --worker-lr 0.01,0.1, or use "
            "enlist run"
        )
    lengths(len(sizes(candidates, plan.eta)), 1 if plan.first is None else plan.first, plan.rounds)


def sizes(candidates: int, eta: int) -> list[int]:
    """How many candidates run on each rung.

    Example:
        >>> sizes(70, 3)
        [70, 23, 7, 2, 1]
    """
    found = [candidates]
    while found[-1] > 1:
        found.append(max(1, found[-1] // eta))
    return found


def lengths(rungs: int, first: int, last: int) -> list[int]:
    """After how many rounds each rung ends: equal factors from the first to the last.

    Example:
        >>> lengths(4, 3, 100)
        [3, 10, 31, 100]
    """
    if first < 1:
        raise BadInput(f"first-rounds = {first}: must be 1 or more")
    if last < first + rungs - 1:
        raise BadInput(
            f"rounds = {last}: {rungs} rungs from {first} round{'s' * (first > 1)} on need at least "
            f"{first + rungs - 1}; give more --rounds, fewer --first-rounds or a larger --eta"
        )
    factor = (last / first) ** (1 / (rungs - 1))
    found = [first]
    for k in range(1, rungs):
        # Each a round longer than the one before at least, with a round left for each that follows.
        found.append(min(max(round(first * factor**k), found[-1] + 1), last - (rungs - 1 - k)))
    return found


def estimate(points: Sequence[Point], plan: Plan, first: int) -> float:
    """The device time of all rungs in full runs, where the runs of a shape advance side by side on an accelerator.

    A step of c workers is taken to cost as much as OVERHEAD + c. Who goes on is not known: those with the most work.
    """
    field = candidates_of(points)
    cohort = points[0].task.sampling.places(points[0].task.federation.workers)
    seeds = len(field[0].places)
    steps = [_steps(points[each.places[0]].task) for each in field]
    most = max(steps)
    batched = lambda runs: (OVERHEAD + runs * cohort) / (OVERHEAD + cohort)
    by_rung = sizes(len(field), plan.eta)
    ends = lengths(len(by_rung), first, plan.rounds)
    total = ends[0] * sum(each / most * batched(steps.count(each) * seeds) for each in {*steps})
    for k in range(1, len(ends)):
        total += (ends[k] - ends[k - 1]) * batched(by_rung[k] * seeds)
    return float(total / plan.rounds)


def first_rung(points: Sequence[Point], plan: Plan) -> int:
    """The length of the first rung: as asked for, or the longest within the budget."""
    if plan.first is not None:
        return plan.first
    rungs = len(sizes(len(candidates_of(points)), plan.eta))
    longest = max(1, min(plan.rounds // plan.eta, plan.rounds - rungs + 1))
    fitting = [first for first in range(1, longest + 1) if estimate(points, plan, first) <= BUDGET]
    return max(fitting, default=1)


def candidates_of(points: Sequence[Point]) -> list[Candidate]:
    """The candidates, in the order given, each with its seeds."""
    found: dict[str, Candidate] = {}
    for place, point in enumerate(points):
        values = {name: value for name, value in point.values.items() if name != SEED}
        kept = found.get(repr(values), Candidate(values, []))
        found[repr(values)] = kept._replace(places=[*kept.places, place])
    return list(found.values())


def _steps(task: Task) -> float:
    """Local steps of an average worker: what a round's time on an accelerator grows with."""
    return float(np.mean(np.asarray(task.work.count(task.federation.sizes.astype(np.int64)), np.float64)))
