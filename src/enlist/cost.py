"""What a round costs: the bytes really sent, and the seconds that follow from them."""

from typing import Any, NamedTuple

import jax

MIB = 2**20


class RoundCost(NamedTuple):
    """One worker's traffic in one round, in bytes."""

    uplink: int
    downlink: int

    def mebibytes(self, rounds: int) -> float:
        """One worker's traffic over that many rounds, up and down: the paper's column."""
        return rounds * (self.uplink + self.downlink) / MIB

    def seconds(self, rounds: int, bandwidth: float, worker_seconds: float) -> float:
        """Simulated time of that many rounds: workers compute at once, links carry `bandwidth` MiB/s."""
        return rounds * worker_seconds + self.mebibytes(rounds) / bandwidth


def nbytes(tree: Any) -> int:
    """Bytes of a pytree of arrays (or of their shapes)."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
