"""The slope of rounds against workers or local steps on logarithmic axes, with an interval from seeds."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from enlist.studies.rounds_needed import crossing, logarithms, never_rising

RESAMPLINGS = 400
COVERAGE = 0.95


class Slope(NamedTuple):
    """A slope and the interval that seeds leave open."""

    value: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether that slope lies in the interval, but for rounding."""
        return self.low - 1e-9 <= value <= self.high + 1e-9


def slope(x: Sequence[float], rounds: Sequence[float], resampled: np.ndarray, seeds: int) -> Slope:
    """By least squares, of log rounds against log x.

    Args:
        resampled: the rounds as other seeds might have given them, [resampling, x].
        seeds: how many there were, in two halves that are resampled each: see `least_values`.
    """
    across = np.log(np.asarray(x, np.float64))
    across -= across.mean()
    weights = across / np.sum(across**2)
    value = float(weights @ np.log(rounds))
    return _around(value, np.log(resampled) @ weights, seeds)


def interval(rounds: float, resampled: np.ndarray, seeds: int) -> Slope:
    """Rounds, and the interval of them."""
    around = _around(math.log(rounds), np.log(resampled), seeds)
    return Slope(*(math.exp(each) for each in around))


def _around(value: float, resampled: np.ndarray, seeds: int) -> Slope:
    half = seeds // 2
    # Means of so few draws vary less when drawn from themselves.
    error = float(np.std(resampled)) * math.sqrt(half / (half - 1))
    reach = float(stats.t.ppf((1 + COVERAGE) / 2, 2 * (half - 1))) * error
    return Slope(value, value - reach, value + reach)


def least_values(seen: np.ndarray) -> np.ndarray:
    """min_t of the mean over seeds, of each run of several: [run, seed, look].

    The least of many noisy means is too low. So each half of the seeds says at which look the other half is taken.
    """
    halves = seen[:, ::2], seen[:, 1::2]
    total = np.zeros(len(seen))
    with np.errstate(invalid="ignore"):
        for one, other in (halves, halves[::-1]):
            where = np.argmin(np.nan_to_num(one.mean(axis=1), nan=np.inf), axis=1)
            total += other.mean(axis=1)[np.arange(len(seen)), where] / 2
    return total


def resample(seen: dict[int, np.ndarray], goal: float, draws: np.ndarray) -> np.ndarray:
    """The rounds to the goal that other seeds might have given, by the runs of a search.

    Args:
        seen: of each T that was tried, what was seen of it: [seed, look].
        draws: which seeds, from `drawn`.
    """
    rounds = sorted(seen)
    stacked = np.stack([seen[each] for each in rounds])
    found = [never_rising(logarithms(least_values(stacked[:, draw]))) for draw in draws]
    return np.array([crossing(rounds, curve, goal) for curve in found])


def drawn(seeds: int, resamplings: int = RESAMPLINGS) -> np.ndarray:
    """Seeds drawn again, each half of them from itself: [resampling, seed]."""
    rng = np.random.default_rng(0)
    found = np.empty((resamplings, seeds), np.int64)
    for first in (0, 1):
        half = np.arange(first, seeds, 2)
        found[:, first::2] = rng.choice(half, size=(resamplings, len(half)))
    return found
