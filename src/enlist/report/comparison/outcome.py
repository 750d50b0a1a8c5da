"""Several methods run to one target, each with several seeds: who reached it, and what that cost.

A seed that did not reach the target counts as infinitely slow, so a median is a number only where more than half of
the seeds reached it. A seed that reached it and diverged later did reach it; how many diverged is said beside it.
"""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from enlist.report.record import RunRecord, number, outcome, whole
from enlist.report.target import reaches

# What reaching the target costs: rounds, what one worker sends and receives, and simulated seconds in two parts.
COSTS = ("rounds", "mib", "seconds", "compute_seconds", "communication_seconds")
# Of these the ratio to the first contender is told.
COMPARED = COSTS[:3]


@dataclass(frozen=True)
class Contender:
    """One method and how it fared.

    Args:
        label: as typed, for instance `fedprox+mu=0.1`.
        runs: one for each seed, at least one.
        rates: the learning rates used, by name.
        tried: how many candidates these were chosen from; 1 where they were given.
    """

    label: str
    runs: Sequence[RunRecord]
    rates: Mapping[str, float]
    tried: int = 1


@dataclass(frozen=True)
class Comparison:
    """Methods run to one target; the first is what the others are measured against.

    Args:
        target: a value of the test metric.
        contenders: at least one.
        tuning: how the rates were chosen, in one sentence; empty where they were given.
    """

    target: float
    contenders: Sequence[Contender]
    tuning: str = ""

    @property
    def runs(self) -> list[RunRecord]:
        """All of them, contender by contender."""
        return [run for contender in self.contenders for run in contender.runs]

    @property
    def example(self) -> RunRecord:
        """A run that knows what the test metric is: one that diverged at once does not."""
        return next((run for run in self.runs if run.metrics), self.runs[0])

    @property
    def labels(self) -> list[str]:
        """The contenders' labels."""
        return [contender.label for contender in self.contenders]


class Spread(NamedTuple):
    """A number over the seeds. Infinite: for seeds that did not get there."""

    median: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class SeedOutcome:
    """How one seed fared.

    Args:
        status: `reached`, `reached, then diverged`, `not reached` or `diverged`.
        cost: by the names in `COSTS`, up to the target: infinite where it was not reached, NaN where not recorded.
        spent: the same, up to the end of the run.
        best: the best value of the test metric; infinitely bad where there is none.
        final: its last value; infinitely bad for a run that diverged.
    """

    seed: object
    status: str
    cost: Mapping[str, float]
    spent: Mapping[str, float]
    best: float
    final: float

    @property
    def reached(self) -> bool:
        """Whether it reached the target, whatever came after."""
        return self.status.startswith("reached")

    @property
    def diverged(self) -> bool:
        """Whether it diverged in the end."""
        return self.status.endswith("diverged")


@dataclass(frozen=True)
class Standing:
    """How one contender fared over its seeds.

    Args:
        cost: to the target, by the names in `COSTS`; None where it was not recorded.
        ratio: of the median cost to the first contender's; None where either did not reach the target.
        split: compute and communication seconds of the seed with the median seconds (of two, their mean), which add
            up to that median; None where that seed did not reach the target.
        best: the median over the seeds of each one's best value.
    """

    contender: Contender
    seeds: Sequence[SeedOutcome]
    cost: Mapping[str, Spread | None]
    ratio: Mapping[str, float | None]
    split: tuple[float, float] | None
    best: float
    final: Spread | None

    @property
    def reached(self) -> int:
        """How many seeds reached the target."""
        return sum(seed.reached for seed in self.seeds)

    @property
    def diverged(self) -> int:
        """How many seeds diverged."""
        return sum(seed.diverged for seed in self.seeds)

    def at_least(self, name: str) -> float:
        """What the slowest seed would have cost at least, where some did not reach the target; infinite for one
        that diverged, which would never have."""
        if any(seed.diverged and not seed.reached for seed in self.seeds):
            return math.inf
        known = [seed.cost[name] if seed.reached else seed.spent[name] for seed in self.seeds]
        return math.inf if any(map(math.isnan, known)) else max(known)


def outcomes(comparison: Comparison) -> list[Standing]:
    """How each contender fared, in the order given."""
    standings: list[Standing] = []
    for contender in comparison.contenders:
        seeds = [
            _seed_outcome(run, order, comparison.target, comparison.example.metric_key)
            for order, run in enumerate(contender.runs)
        ]
        cost = {name: spread([seed.cost[name] for seed in seeds]) for name in COSTS}
        first = standings[0].cost if standings else cost
        best = statistics.median(seed.best for seed in seeds)
        final = spread([seed.final for seed in seeds])
        ratio = {name: _ratio(cost[name], first[name]) for name in COMPARED}
        standings.append(Standing(contender, seeds, cost, ratio, _split(seeds), best, final))
    return standings


def summary(comparison: Comparison) -> dict[str, Any]:
    """The outcome ready for JSON.

    A cost is null where no seed reached the target (or it was not recorded). Within one, `median` is null where the
    median seed did not reach the target, and `max` where some seed did not.
    """
    return {
        "target": comparison.target,
        "metric": comparison.example.metric_key.removeprefix("test_"),
        "tuning": comparison.tuning,
        "evaluated_every": resolution(comparison.runs),
        "contenders": [_contender_summary(standing) for standing in outcomes(comparison)],
    }


def falls(key: str) -> bool:
    """Whether less is better: a loss. Of every other metric more is."""
    return key.endswith("loss")


def resolution(runs: Sequence[RunRecord]) -> int:
    """The most rounds from one evaluation to the next: what is known of the rounds to a target is no finer."""
    gaps = [1]
    for run in runs:
        evaluated = [0, *(whole(line.get("round")) or 0 for line in run.metrics)]
        gaps += [after - before for before, after in itertools.pairwise(evaluated)]
    return max(gaps)


def spread(values: Sequence[float]) -> Spread | None:
    """Median, lowest and highest; None where a value is not known."""
    if any(map(math.isnan, values)):
        return None
    return Spread(statistics.median(values), min(values), max(values))


def is_diverged(run: RunRecord) -> bool:
    """Whether the run ended because it turned non-finite."""
    return outcome(run).status == "diverged"


def traffic(contender: Contender) -> dict[str, int | None]:
    """What one worker sends and receives in a round, in bytes."""
    last = [{**run.summary, **(run.metrics[-1] if run.metrics else {})} for run in contender.runs]
    found = {}
    for name in ("uplink_bytes", "downlink_bytes"):
        found[name] = next((whole(line[name]) for line in last if whole(line.get(name)) is not None), None)
    return found


def _seed_outcome(run: RunRecord, order: int, target: float, key: str) -> SeedOutcome:
    worst, better = (math.inf, min) if falls(key) else (-math.inf, max)
    first = next((line for line in run.metrics if reaches(number(line.get(key)), target, falls(key))), None)
    if is_diverged(run):
        status = "diverged" if first is None else "reached, then diverged"
    else:
        status = "not reached" if first is None else "reached"
    unreached = dict.fromkeys(COSTS, math.inf)
    values = [number(line.get(key)) for line in run.metrics]
    final = values[-1] if values and not is_diverged(run) else worst
    return SeedOutcome(
        seed=run.config.get("seed", order),
        status=status,
        cost=_spent(first) if first is not None else unreached,
        spent=_spent(run.metrics[-1] if run.metrics else {}) | {"rounds": outcome(run).rounds},
        best=better((value for value in values if not math.isnan(value)), default=worst),
        final=worst if math.isnan(final) else final,
    )


def _spent(line: Mapping[str, Any]) -> dict[str, float]:
    """What a run had cost by an evaluated round."""
    seconds, compute = number(line.get("seconds")), number(line.get("compute_seconds"))
    # A difference of two sums may fall below zero by their last bits, but stays unknown where either is.
    communication = seconds - compute if math.isnan(seconds - compute) else max(0.0, seconds - compute)
    rounds = whole(line.get("round"))
    mib = number(line.get("comm_mib"))
    known = (math.nan if rounds is None else rounds, mib, seconds, compute, communication)
    return dict(zip(COSTS, known, strict=True))


def _ratio(cost: Spread | None, first: Spread | None) -> float | None:
    if cost is None or first is None or not first.median or math.inf in (cost.median, first.median):
        return None
    return cost.median / first.median


def _split(seeds: Sequence[SeedOutcome]) -> tuple[float, float] | None:
    if any(math.isnan(seed.cost["seconds"]) for seed in seeds):
        return None
    ranked = sorted(seeds, key=lambda seed: seed.cost["seconds"])
    middle = ranked[(len(ranked) - 1) // 2 : len(ranked) // 2 + 1]
    compute, communication = (statistics.mean(seed.cost[name] for seed in middle) for name in COSTS[3:])
    return (compute, communication) if math.isfinite(compute + communication) else None


def _contender_summary(standing: Standing) -> dict[str, Any]:
    contender = standing.contender
    return {
        "label": contender.label,
        "rates": {name: _known(rate) for name, rate in contender.rates.items()},
        "tried": contender.tried,
        "seeds": len(standing.seeds),
        "reached": standing.reached,
        "diverged": standing.diverged,
        **{name: _spread_summary(cost) if standing.reached else None for name, cost in standing.cost.items()},
        "ratio": dict(standing.ratio),
        "best": _known(standing.best),
        "final": _spread_summary(standing.final),
        **traffic(contender),
        "runs": [_seed_summary(seed) for seed in standing.seeds],
    }


def _seed_summary(seed: SeedOutcome) -> dict[str, Any]:
    cost = {name: _known(value) for name, value in seed.cost.items()}
    last = {"best": _known(seed.best), "final": _known(seed.final), "ran": _known(seed.spent["rounds"])}
    return {"seed": seed.seed, "status": seed.status, **cost, **last}


def _spread_summary(values: Spread | None) -> dict[str, float | None] | None:
    if values is None:
        return None
    return dict(zip(("median", "min", "max"), map(_known, values), strict=True))


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
