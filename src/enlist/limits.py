"""What numbers an option may have, and how it is said that it has others."""

import math
from numbers import Integral, Real
from typing import Any

from enlist.errors import BadInput

# Rounds, steps and the like are counted in int32 on the device.
MOST = 2**31 - 1
MOST_PLACES = 1_000_000
MOST_SEEDS = 1000
# The rates that float32, in which a run computes, can hold.
LEAST_RATE, MOST_RATE = 1e-37, 1e37


def within(name: str, value: float | None, least: float, most: float = MOST) -> None:
    """Refuses a number outside its bounds."""
    if value is None:
        return
    given = f"{name} = {value if isinstance(value, int) else format(value, 'g')}"
    if isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"{given}: must be a finite number")
    if value < least:
        raise BadInput(f"{given}: must be {least:g} or more")
    if value > most:
        raise BadInput(f"{given}: must be {most:.10g} or less")


def check_rate(name: str, rate: float | None) -> None:
    """Refuses what cannot be a learning rate."""
    if rate is not None and rate <= 0:
        raise BadInput(f"{name} = {rate:g}: a learning rate must be above 0")
    within(name, rate, LEAST_RATE, MOST_RATE)


def of_kind(name: str, value: Any, kind: str) -> None:
    """From Python anything may come: half a round must not run for ever."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    fits = {
        "int": whole,
        "float": whole or (isinstance(value, Real) and not isinstance(value, bool)),
        "bool": isinstance(value, bool),
        "str": isinstance(value, str),
    }
    wanted = next(each for each in fits if each in kind)
    if not fits[wanted] and not (value is None and "None" in kind):
        words = {"int": "a whole number", "float": "a number", "bool": "True or False", "str": "a text"}
        raise BadInput(f"{name.replace('_', '-')} = {value!r}: must be {words[wanted]}")


def numbers(name: str, text: str | None) -> list[float]:
    """Learning rates with commas between them.

    Example:
        >>> numbers("worker-lr", "0.01,0.1")
        [0.01, 0.1]
    """
    if text is None:
        return []
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(
            f"{name} = {text[:60]}: must be a number, or several with commas between them"
        ) from None
    for rate in found:
        check_rate(name, rate)
    if twice := next((rate for rate in found if found.count(rate) > 1), None):
        raise BadInput(f"{name} = {text[:60]}: {twice:g} is there twice")
    return found
