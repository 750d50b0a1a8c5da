"""What verdicts are computed from: a number for each run, compared seed by seed."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from enlist.studies.paper.claims.judging import Finding
from enlist.studies.paper.raw import Curve, Raw
from enlist.studies.paper.setting import Scale

CLASSES = 10
# What guessing comes to.
GUESSED = {"test_accuracy": 1 / CLASSES, "train_loss": math.log(CLASSES), "test_loss": math.log(CLASSES)}
# The error of a directional test, and what counts as a difference where one seed cannot tell: as much as two seeds of
# one setting lie apart on CIFAR-10, where some have one (0.006 to 0.03).
ERROR, ONE_SEED, ONE_SEED_RATIO = 0.05, 0.03, 1.1
BOUND = "clearly: beyond the one-sided 5% bound of Student's t over the differences of equal seeds"
CLEAR = f"{BOUND} (with one seed: by more than {ONE_SEED:g})"
CLEAR_RATIO = f"{BOUND} (with one seed: by more than a tenth)"
ACCURACY = "Mean test accuracy over all rounds (those that a diverged run lacks count as guessing)"
PerSeed = Mapping[int, float]
Measure = Callable[[Curve], float]


def curves(
    raw: Raw,
    scale: Scale,
    model: str,
    partition: str,
    cohort: int,
    epochs: int,
    dataset: str = "mnist",
    algorithm: str = "fedavg",
) -> list[Curve]:
    """The runs of the paper's setting at this scale, by seed."""
    settings = scale.settings(
        dataset, model, partition=partition, cohort=cohort, local_epochs=epochs, algorithm=algorithm
    )
    return [raw.curves[setting] for setting in settings if setting in raw.curves]


def over_rounds(curve: Curve, name: str) -> np.ndarray:
    """A series with a value for every round; what a run that diverged lacks counts as guessing."""
    values = np.full(curve.setting.rounds, GUESSED[name])
    within = (curve.round >= 1) & (curve.round <= curve.setting.rounds) & np.isfinite(getattr(curve, name))
    values[curve.round[within] - 1] = getattr(curve, name)[within]
    return values


def accuracy(curve: Curve, rounds: int | None = None) -> float:
    """The mean test accuracy over all rounds, or the first so many: a fast run has a high one."""
    return float(over_rounds(curve, "test_accuracy")[:rounds].mean())


def loss(curve: Curve) -> float:
    """The mean training loss over all rounds."""
    return float(over_rounds(curve, "train_loss").mean())


def ending(curve: Curve, name: str) -> float:
    """The mean of a series over the last tenth of the rounds."""
    return float(over_rounds(curve, name)[-max(1, curve.setting.rounds // 10) :].mean())


def zigzag(curve: Curve) -> float:
    """The mean change of the test accuracy from round to round, up or down, in the second half."""
    values = over_rounds(curve, "test_accuracy")
    second = values[len(values) // 2 :]
    return float(np.abs(np.diff(second)).mean()) if len(second) > 1 else 0.0


def per_seed(runs: Sequence[Curve], measure: Measure = accuracy) -> dict[int, float]:
    """A number of each run by its seed."""
    return {run.setting.seed: measure(run) for run in runs}


def minus(one: PerSeed, other: PerSeed) -> dict[int, float]:
    """The difference for each seed that both have."""
    return {seed: one[seed] - other[seed] for seed in one if seed in other}


def averaged(several: Sequence[PerSeed]) -> dict[int, float]:
    """The mean for each seed that all have; nothing where there are none."""
    if not several:
        return {}
    shared = set(several[0]).intersection(*several[1:])
    return {seed: sum(each[seed] for each in several) / len(several) for seed in sorted(shared)}


def mean(values: PerSeed) -> float | None:
    """Over seeds; None where there is none."""
    return sum(values.values()) / len(values) if values else None


class Difference(NamedTuple):
    """How much more one is than the other, over seeds.

    Args:
        bound: how far the mean must be from 0 to be clear.
    """

    mean: float
    bound: float
    seeds: int

    @property
    def sign(self) -> int:
        """1 or -1 where it is clear, else 0."""
        return int(math.copysign(1, self.mean)) if abs(self.mean) > self.bound else 0


def difference(values: PerSeed, one_seed: float = ONE_SEED) -> Difference | None:
    """What the differences of the seeds say; None where there is none.

    Args:
        one_seed: what is clear where there is one seed.
    """
    count = len(values)
    if not count:
        return None
    each = np.array(list(values.values()))
    if count == 1:
        return Difference(float(each[0]), one_seed, 1)
    quantile = float(special.stdtrit(count - 1, 1 - ERROR))
    return Difference(float(each.mean()), quantile * float(each.std(ddof=1)) / math.sqrt(count), count)


def finding(group: str, cell: str, values: PerSeed, one_seed: float = ONE_SEED, **facts: Any) -> Finding:
    """The comparison that differences of seeds make, positive as claimed."""
    if (found := difference(values, one_seed)) is None:
        return Finding(group, cell, None)
    known = {"difference": rounded(found.mean), "clear_above": rounded(found.bound), "seeds": found.seeds}
    return Finding(group, cell, found.sign, known | facts)


def rounded(value: float | None) -> float | None:
    """Four digits, as JSON has it."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")


def median(rounds: Sequence[int | None]) -> float | None:
    """The median number of rounds, those that never got there above all others; None where most did not.

    Example:
        >>> median([3, 5, None]), median([3, None]), median([3, None, None]), median([3, 4])
        (5.0, 3.0, None, 3.5)
    """
    ordered = sorted(math.inf if each is None else float(each) for each in rounds)
    if not ordered:
        return None
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    middle = (low + high) / 2 if math.isfinite(high) else low
    return middle if math.isfinite(middle) else None
