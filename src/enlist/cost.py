"""What a round costs: the bytes really sent, and the seconds that links and devices need for them."""

from typing import Any, NamedTuple

import jax
import numpy as np

from enlist.links import Links, PerWorker

MIB = 2**20


class RoundCost(NamedTuple):
    """One worker's traffic, in bytes.

    Args:
        uplink: from the worker to the server in one round.
        downlink: from the server to the worker in one round.
        setup: to the worker once, before the first round: data that all share, or a replica to update.
        exchanges: how often in a round something goes down and something comes back.
    """

    uplink: int
    downlink: int
    setup: int = 0
    exchanges: int = 1

    def mebibytes(self, rounds: int) -> float:
        """One worker's traffic over that many rounds, up and down: the paper's column."""
        return (self.setup + rounds * (self.uplink + self.downlink)) / MIB


class Spent(NamedTuple):
    """Simulated seconds: of computing and of communicating."""

    compute: float
    communication: float

    @property
    def seconds(self) -> float:
        """Both."""
        return self.compute + self.communication


def exchange_seconds(cost: RoundCost, links: Links) -> PerWorker:
    """What each worker waits for its links in a round: down and up, with the latency of every way."""
    carried = cost.downlink / links.downlink + cost.uplink / links.uplink
    return 2 * cost.exchanges * links.latency + carried / MIB


def setup_seconds(cost: RoundCost, links: Links) -> float:
    """Until the slowest of all workers has what it needs before the first round."""
    return float(np.max(links.latency + cost.setup / (MIB * links.downlink))) if cost.setup else 0.0


def nbytes(tree: Any) -> int:
    """Bytes of a pytree of arrays (or of their shapes)."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
