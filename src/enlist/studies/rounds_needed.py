"""The smallest number of rounds T with which a goal is reached, where the runs depend on T: it has to be searched.

What is measured falls with T but for the noise of seeds. So a curve that never rises is laid through all that was
tried (the nearest in least squares of the logarithms), and the goal's place on it is looked for, finer and finer.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

# A search that has not come to its end after so many looks is ended.
MOST_LOOKS = 30
# The factor between the ends of what is tried at once, before the goal lies between two T.
SPAN = 4.0
# What stands for 0 and for infinity where logarithms are taken.
SMALLEST, LARGEST = 1e-300, 1e300


class Search(NamedTuple):
    """Where to search.

    Args:
        least, most: the smallest and the largest T that are tried.
        at_once: how many T are tried in one go.
        resolution: the goal's place is known when it lies between two T of which one is this part larger.
    """

    least: int
    most: int
    at_once: int = 4
    resolution: float = 0.03


class Needed(NamedTuple):
    """What a search found.

    Args:
        rounds: the smallest T that reaches the goal; None where `most` does not.
        at_least: whether that is the smallest T allowed, so that fewer might do.
    """

    rounds: int | None
    at_least: bool


def smallest(
    value: Callable[[Sequence[int]], Sequence[float]], goal: float, search: Search, guess: int
) -> Needed:
    """The smallest T at which `value` is no more than the goal.

    Args:
        value: of each of some T, `search.at_once` of them; the last may be there more than once.
        guess: T about which the search begins.
    """
    seen: dict[int, float] = {}
    wanted = _spread(guess / math.sqrt(SPAN), guess * math.sqrt(SPAN), search, ends=True)
    for _ in range(MOST_LOOKS):
        if not (new := [each for each in wanted if each not in seen]):
            break
        padded = [*new, *[new[-1]] * (search.at_once - len(new))]
        seen |= dict(zip(padded, value(padded), strict=True))
        rounds = sorted(seen)
        curve = never_rising(logarithms([seen[each] for each in rounds]))
        first = int(np.sum(curve > math.log(goal)))
        wanted = _next(rounds, first, search)
    if first == len(rounds):
        return Needed(None, False)
    if first == 0:
        return Needed(rounds[0], rounds[0] == search.least)
    return Needed(math.ceil(crossing(rounds, curve, goal) - 1e-9), False)


def _next(rounds: list[int], first: int, search: Search) -> list[int]:
    """What to try next, where the goal is first reached at this place; nothing where the search is at its end."""
    if first == 0:
        return _spread(rounds[0] / SPAN, rounds[0], search, ends=True)
    if first == len(rounds):
        return _spread(rounds[-1], rounds[-1] * SPAN, search, ends=True)
    below, above = rounds[first - 1], rounds[first]
    if above - below == 1 or above <= below * (1 + search.resolution):
        return []
    return _spread(below, above, search, ends=False)


def _spread(low: float, high: float, search: Search, *, ends: bool) -> list[int]:
    """Whole numbers from low to high, at equal ratios, within what may be tried."""
    places = (
        np.linspace(0, 1, search.at_once) if ends else np.arange(1, search.at_once + 1) / (search.at_once + 1)
    )
    wanted = np.rint(low * (high / low) ** places)
    if not ends:
        wanted = np.clip(wanted, low + 1, high - 1)
    return sorted({int(each) for each in np.clip(wanted, search.least, search.most)})


def logarithms(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Of values from 0 to infinity, both included: a run that diverged is further from any goal than all others."""
    return np.log(np.clip(np.nan_to_num(np.asarray(values, np.float64), nan=np.inf), SMALLEST, LARGEST))


def never_rising(values: np.ndarray) -> np.ndarray:
    """The nearest sequence that never rises: neighbours that do rise are replaced by their mean.

    Example:
        >>> never_rising(np.array([5.0, 1.0, 3.0, 0.0])).tolist()
        [5.0, 2.0, 2.0, 0.0]
    """
    means: list[float] = []
    counts: list[int] = []
    for value in values:
        means.append(float(value))
        counts.append(1)
        while len(means) > 1 and means[-2] < means[-1]:
            both = counts[-2] + counts[-1]
            means[-2:] = [(means[-2] * counts[-2] + means[-1] * counts[-1]) / both]
            counts[-2:] = [both]
    return np.repeat(means, counts)


def crossing(rounds: Sequence[int], curve: np.ndarray, goal: float) -> float:
    """Where a curve of logarithms reaches the goal, between two T by a power law; an end where it does so nowhere."""
    line = math.log(goal)
    first = int(np.sum(curve > line))
    if first in (0, len(rounds)):
        return float(rounds[0 if first == 0 else -1])
    low, high = math.log(rounds[first - 1]), math.log(rounds[first])
    part = (curve[first - 1] - line) / (curve[first - 1] - curve[first])
    return math.exp(low + float(part) * (high - low))
