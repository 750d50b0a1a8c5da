"""The simulated time of a run: every round waits for the slowest of its cohort.

Worker i needs down_i + compute_i + up_i, all workers at once. Where all need the same, that is the round's time and
nothing has to be drawn. Elsewhere it depends on who takes part, so the cohorts of all rounds are drawn again, many
rounds at once; the sums run on the host in float64 and begin at round 0, so that a resumed run goes on with them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from enlist.algorithms.work import LocalWork
from enlist.cost import RoundCost, Spent, exchange_seconds, setup_seconds
from enlist.engine.lookahead import MOST_PLACES, MOST_ROUNDS, many_cohorts
from enlist.engine.plan import Cohort, Plan
from enlist.links import Links


@dataclass
class Clock:
    """How long the first so many rounds take.

    Args:
        worker_seconds: of computing in round 0, for a worker with the average number of local steps on a device of
            slowness 1. Others are in proportion to their own steps and slowness.
        cohorts: `cohorts(rounds)`: who takes part in each of these rounds.
        places: the length of a cohort.
    """

    cost: RoundCost
    links: Links
    work: LocalWork
    sizes: np.ndarray
    worker_seconds: float
    cohorts: Callable[[Any], Cohort]
    places: int
    alike: bool = field(init=False)

    def __post_init__(self) -> None:
        steps = self._steps(self.sizes, 0)
        self._exchange = exchange_seconds(self.cost, self.links)
        self._step = self.worker_seconds / steps.mean() * self.links.slowness
        # Steps change by the round for all workers alike: who is equal in one round is so in all.
        computing = steps * self._step
        self.alike = bool((computing == computing[0]).all() and (self._exchange == self._exchange[0]).all())
        self._at_once = max(1, min(MOST_ROUNDS, MOST_PLACES // self.places))
        # Row t: compute and communication of the first t rounds.
        self._so_far = np.array([[0.0, setup_seconds(self.cost, self.links)]])

    def spent(self, rounds: int) -> Spent:
        """The time of the first `rounds` rounds, and of what goes before them."""
        if self.alike and not self.work.later:
            compute, communication = rounds * self._round(np.int64(0), 0)
            return Spent(float(compute), float(self._so_far[0, 1] + communication))
        while rounds >= len(self._so_far):
            done = len(self._so_far) - 1
            each = self._rounds(np.arange(done, done + self._at_once, dtype=np.int32))
            self._so_far = np.concatenate([self._so_far, self._so_far[-1] + np.cumsum(each, axis=0)])
        return Spent(*self._so_far[rounds].tolist())

    def _rounds(self, t: np.ndarray) -> np.ndarray:
        """Compute and communication of each of these rounds: those of its slowest worker."""
        if self.alike:
            return self._round(np.zeros(len(t), np.int64), t)
        ids, _, weights = jax.device_get(self.cohorts(t))
        each = self._round(ids, t[:, None])
        # An empty place takes no time; nor does a round in which nobody takes part.
        each = np.where((weights > 0)[..., None], each, 0.0)
        slowest = each.sum(axis=-1).argmax(axis=-1)
        return np.take_along_axis(each, slowest[:, None, None], axis=1)[:, 0]

    def _round(self, ids: Any, t: Any) -> np.ndarray:
        """Compute and communication of workers in rounds, along a last axis."""
        computing = self._steps(self.sizes[ids], t) * self._step[ids]
        return np.stack(np.broadcast_arrays(computing, self._exchange[ids]), axis=-1)

    def _steps(self, sizes: Any, t: Any) -> np.ndarray:
        return np.asarray(self.work.count(sizes, t), np.float64)


def clock(
    plan: Plan, key: Any, cost: RoundCost, links: Links, sizes: np.ndarray, worker_seconds: float
) -> Clock:
    """The clock of a run."""
    places = plan.sampling.places(plan.workers)
    held = jnp.asarray(sizes)
    return Clock(
        cost, links, plan.work, sizes, worker_seconds, partial(many_cohorts(plan.draws), held, key), places
    )
