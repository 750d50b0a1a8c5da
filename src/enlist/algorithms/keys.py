"""Where randomness comes from: one key a run, and from it a key for each purpose.

In jax `fold_in(key, i)` is `split(key)[i]`, so keys folded with small numbers at one level meet each other.
A role is folded in first; then no two draws of a run share a key, and any round can be replayed alone.
"""

from enum import IntEnum

from jax import random
from jaxtyping import Array, Int, Key

RunKey = Key[Array, ""]
# Folded into a worker's or the server's own key; far above the small numbers that these fold in themselves.
ENCODING = 0xFFFF_E0C0
AUGMENTING = 0xFFFF_A060
# Instead of a local step, for what is looked at outside of them.
NO_STEP = 0xFFFF_FFFF


class Role(IntEnum):
    """What a key is for."""

    SAMPLE = 1
    WORKER = 2
    SERVER = 3
    INIT = 4
    PROBE = 5


def init_key(run: RunKey) -> RunKey:
    """For the initial parameters."""
    return random.fold_in(run, Role.INIT)


def sample_key(run: RunKey, t: Int[Array, ""]) -> RunKey:
    """For drawing the cohort of round t."""
    return random.fold_in(random.fold_in(run, Role.SAMPLE), t)


def worker_key(
    run: RunKey, t: Int[Array, ""], worker: Int[Array, ""], draw: Int[Array, ""], role: Role = Role.WORKER
) -> RunKey:
    """For one local run: `draw` counts this worker's occurrences in the round (Strategy 1)."""
    key = random.fold_in(random.fold_in(run, role), t)
    return random.fold_in(random.fold_in(key, worker), draw)


def server_key(run: RunKey, t: Int[Array, ""]) -> RunKey:
    """For the server's step of round t."""
    return random.fold_in(random.fold_in(run, Role.SERVER), t)


def encoding_key(own: RunKey, part: int) -> RunKey:
    """For encoding one part of what a worker or the server sends in a round, from its key of that round."""
    return random.fold_in(random.fold_in(own, ENCODING), part)


def augment_key(own: RunKey, k: Int[Array, ""] | int) -> RunKey:
    """For varying what local step k looks at, from the worker's key of that round."""
    return random.fold_in(random.fold_in(own, AUGMENTING), k)
