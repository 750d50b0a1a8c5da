"""Who will take part: the cohorts of rounds to come, drawn on the host beside whatever the devices do."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np

from enlist.engine.cohort import draw_cohort
from enlist.engine.plan import Cohort, Draws

# Rounds whose cohorts are drawn at once, and the places in them.
MOST_ROUNDS, MOST_PLACES = 1024, 2**20


class Lookahead:
    """The cohorts of a run, as arrays round by place."""

    def __init__(self, draws: Draws, sizes: np.ndarray, key: Any):
        places = draws.sampling.places(draws.workers)
        self.at_once = max(1, min(MOST_ROUNDS, MOST_PLACES // places))
        self._draw = many_cohorts(draws)
        self._host = _host_device()
        self._sizes, self._key = jax.device_put((sizes, key), self._host)
        self._drawn: dict[int, Cohort] = {}

    def rounds(self, t: int, count: int) -> Cohort:
        """Of the rounds t ... t + count - 1."""
        blocks = range(t // self.at_once, (t + count - 1) // self.at_once + 1)
        self._drawn = {i: self._drawn.get(i) or self._block(i) for i in blocks}
        start = t - blocks[0] * self.at_once
        whole = [np.concatenate(parts) for parts in zip(*self._drawn.values(), strict=True)]
        return Cohort(*(part[start : start + count] for part in whole))  # type: ignore[arg-type]

    def _block(self, i: int) -> Cohort:
        t = np.arange(i * self.at_once, (i + 1) * self.at_once, dtype=np.int32)
        return jax.device_get(self._draw(self._sizes, self._key, jax.device_put(t, self._host)))


@lru_cache(maxsize=64)
def many_cohorts(draws: Draws) -> Callable[..., Cohort]:
    """`cohorts(sizes, key, rounds)`: the cohorts of many rounds at once, compiled when first asked for."""
    return jax.jit(jax.vmap(partial(draw_cohort, draws), (None, None, 0)))


def _host_device() -> jax.Device:
    """The host's own processor where jax has it beside an accelerator."""
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return jax.local_devices()[0]
