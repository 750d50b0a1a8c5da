"""What several methods refuse alike."""

from typing import Any

from enlist.algorithms.core import Context
from enlist.errors import BadInput


def one_worker_rate(method: str, ctx: Context) -> Any:
    """eta_L of the round, for a method whose update reads it: there must be one, not one a step."""
    rate = ctx.rates["worker_lr"]
    if callable(rate):
        raise BadInput(
            f"{method} takes one worker rate a round: a rate that changes by step is not defined for it"
        )
    return rate


def check_fractions(**numbers: float) -> None:
    """Momenta and the like are from 0 to below 1."""
    for name, number in numbers.items():
        if not 0 <= number < 1:
            raise BadInput(f"{name} = {number:g}: must be from 0 to below 1")
