"""Whether the peers did the same work: as many steps on as many examples, and models that learned equally well."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from workloads import Workload

# Relative to the median of the peers. They draw other cohorts and orders, so their losses differ by some percent;
# the loss is taken where it falls so fast that a tenth fewer steps leave it about a third higher.
LOSS_TOLERANCE = 0.25


class UnequalWork(Exception):
    """The comparison would not be fair; the message says who did what."""


def check_counts(peer: str, work: Workload, rounds: int, answer: Mapping[str, Any]) -> None:
    """Every round has the workload's steps and examples, exactly: a worker's rows are whole batches."""
    for what, wanted in (("steps", work.steps), ("examples", work.examples)):
        if answer[what] != rounds * wanted:
            raise UnequalWork(
                f"{peer} did {answer[what]} {what} in {rounds} rounds, but the workload has {wanted} a round, "
                f"{rounds * wanted} in all: the times would not compare"
            )


def check_losses(losses: Mapping[str, float], rounds: int) -> None:
    """After equally many rounds from the same first weights the losses are alike."""
    middle = statistics.median(losses.values())
    for peer, loss in losses.items():
        if not abs(loss - middle) <= LOSS_TOLERANCE * middle:
            others = ", ".join(f"{name} {other:.4f}" for name, other in losses.items())
            raise UnequalWork(
                f"{peer} has a training loss of {loss:.4f} after {rounds} rounds, more than {LOSS_TOLERANCE:.0%} "
                f"from the median {middle:.4f} ({others}): it does not do the same work"
            )


def unknown(given: Sequence[str], known: Sequence[str]) -> list[str]:
    """Those of the given names that nobody has."""
    return [name for name in given if name not in known]
