"""How many of the ten digits a round sees where every worker holds one: exactly, and as drawn by the sampler."""

import math
from collections import Counter
from fractions import Fraction
from functools import lru_cache

import jax
import numpy as np
from jax import lax

from enlist.algorithms import keys
from enlist.participation import sampling
from enlist.problem import partition
from enlist.problem.dataset import Dataset

DIGITS = 10
# Ways to deal the digits, and rounds drawn for each.
DEALS, ROUNDS = 20, 1000


def exactly(digits: int, holders: int, cohort: int) -> dict[int, Fraction]:
    """The distribution of the number of distinct digits in a cohort drawn without replacement.

    By inclusion and exclusion: of the C(digits, k) sets of k digits, those cohorts that stay within the set, less
    those that stay within a smaller one.

    Args:
        holders: workers that hold each digit, one digit a worker.

    Example:
        >>> exactly(2, 1, 1)
        {1: Fraction(1, 1)}
        >>> exactly(2, 2, 2)
        {1: Fraction(1, 3), 2: Fraction(2, 3)}
    """
    cohorts = math.comb(digits * holders, cohort)
    seen = {}
    for k in range(1, digits + 1):
        onto = sum((-1) ** (k - j) * math.comb(k, j) * math.comb(j * holders, cohort) for j in range(k + 1))
        if onto:
            seen[k] = Fraction(math.comb(digits, k) * onto, cohorts)
    return seen


def measured(degree: int, workers: int, cohort: int) -> dict[int, float]:
    """The same from cohorts that the sampler draws of workers to whom the digits are dealt, as in a run.

    Args:
        degree: digits a worker.

    Returns:
        The part of rounds with each number of digits.
    """
    counts: Counter[int] = Counter()
    for seed, ids in enumerate(cohorts(workers, cohort)):
        counts.update(holdings(degree, workers, seed)[ids].any(axis=1).sum(axis=1).tolist())
    return {k: counts[k] / counts.total() for k in sorted(counts)}


@lru_cache
def cohorts(workers: int, cohort: int) -> np.ndarray:
    """Who takes part (deals x rounds x cohort) in the first rounds of runs with the seeds 0, 1, ..."""
    strategy = sampling.without_replacement(cohort)

    def draw(seed: jax.Array, t: jax.Array) -> jax.Array:
        return strategy.draw(keys.sample_key(jax.random.key(seed), t), workers, t)[0]

    seeds, rounds = np.arange(DEALS, dtype=np.int32), np.arange(ROUNDS, dtype=np.int32)
    # One after the other: that compiles several times faster than all at once.
    every = jax.jit(lambda: lax.map(lambda seed: lax.map(lambda t: draw(seed, t), rounds), seeds))
    return np.asarray(every())


def holdings(degree: int, workers: int, seed: int) -> np.ndarray:
    """Which digits each worker holds (workers x digits), as `partition.digits` deals them."""
    labels = np.repeat(np.arange(DIGITS, dtype=np.int32), workers)
    rows = np.zeros((len(labels), 1), np.float32)
    data = Dataset(rows, labels, rows, labels, classes=DIGITS, name="labels")
    train = partition.digits(data, degree, workers, seed).train
    held = np.zeros((workers, DIGITS), bool)
    held[train.holder(), labels[train.order]] = True
    return held
