"""Who is asked to take part: the simulator's own draw among those who can be reached, and some more in reserve."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from enlist.algorithms import keys
from enlist.options import ParticipationOptions
from enlist.participation import sampling
from enlist.participation.sampling import Sampling

# A random stream of its own: those in reserve are drawn apart from the cohort.
RESERVE = 11


class Enlisted(NamedTuple):
    """Who gets an order.

    Args:
        draws: how often each worker was drawn.
        wanted: replies after which nothing more is waited for.
        least: replies without which the round does not count.
    """

    draws: dict[int, int]
    wanted: int
    least: int


def strategy(options: ParticipationOptions, reachable: int) -> Sampling:
    """How a cohort is drawn among so many."""
    most = None if options.cohort_most is None else min(options.cohort_most, reachable)
    assert options.cohort is not None
    return sampling.parse(options.sampling, options.cohort, most)


def needed(options: ParticipationOptions, workers: int) -> int:
    """How many workers must be reachable for a round to begin."""
    if options.sampling == "full":
        return workers
    assert options.cohort is not None
    return 1 if options.sampling == "with-replacement" else options.cohort


def enlist(
    options: ParticipationOptions,
    seed: int,
    t: int,
    attempt: int,
    reachable: Sequence[int],
    workers: int,
    over: float,
) -> Enlisted:
    """Draws the cohort of round t.

    Where all workers can be reached and this is the first attempt, it is the one that the simulator draws.

    Args:
        reachable: ids, ascending.
        over: how many times the cohort is asked, 1 for nobody in reserve.
    """
    how = strategy(options, len(reachable))
    positions, weights = _drawn(how, len(reachable), seed, t, attempt)
    cohort = [reachable[i] for i, weight in zip(positions, weights, strict=True) if weight > 0]
    least = workers if options.sampling == "full" else int(options.cohort or len(cohort))
    extra = math.ceil(round(over * len(cohort), 9)) - len(cohort)
    rng = np.random.default_rng([seed, t, attempt, RESERVE])
    if how.repeats:
        reserve = rng.choice(len(reachable), extra, replace=True)
        more = [reachable[i] for i in reserve]
    else:
        rest = sorted(set(reachable) - set(cohort))
        more = [rest[i] for i in rng.choice(len(rest), min(extra, len(rest)), replace=False)] if rest else []
    return Enlisted(dict(sorted(Counter(cohort + more).items())), len(cohort), least)


def _drawn(how: Sampling, reachable: int, seed: int, t: int, attempt: int) -> tuple[list[int], list[float]]:
    ids, weights = jax.device_get(_draw(how, reachable)(jnp.uint32(seed), jnp.int32(t), jnp.int32(attempt)))
    return ids.tolist(), weights.tolist()


@lru_cache(maxsize=64)
def _draw(how: Sampling, reachable: int) -> Any:
    """Compiled once for a strategy and a number of workers."""

    def draw(seed: Any, t: Any, attempt: Any) -> Any:
        own = keys.sample_key(jax.random.key(seed), t)
        # An attempt that comes after an abandoned one draws anew, not the same workers.
        own = jax.lax.cond(attempt == 0, lambda: own, lambda: jax.random.fold_in(own, attempt))
        return how.draw(own, reachable, t)

    return jax.jit(draw)
