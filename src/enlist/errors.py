"""The few ways in which enlist says no. The command line turns each into one line and an exit code."""

import difflib
from collections.abc import Iterable


class EnlistError(Exception):
    """Something enlist can explain in one line. `exit_code` is what the command returns for it."""

    exit_code = 1


class BadInput(EnlistError, ValueError):
    """What was given cannot be used. The message says what was given, what is allowed, what to do instead."""

    exit_code = 2


class MissingExtra(BadInput):
    """A feature needs a package that is not installed. The message carries the line that installs it."""


class Diverged(EnlistError):
    """A run turned non-finite. Carries the round at which it did."""

    def __init__(self, message: str, round: int):
        super().__init__(message)
        self.round = round


def unknown(kind: str, given: str, allowed: Iterable[str]) -> BadInput:
    """The error for a name that does not exist, with the nearest one that does.

    Example:
        >>> str(unknown("model", "two_n", ["two_nn", "cnn"]))
        "unknown model 'two_n': did you mean 'two_nn'? Known: two_nn, cnn"
        >>> str(unknown("model", "gpt", ["two_nn", "cnn"]))
        "unknown model 'gpt'; known: two_nn, cnn"
    """
    names = list(allowed)
    close = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f": did you mean {close[0]!r}? Known" if close else "; known"
    return BadInput(f"unknown {kind} {given!r}{hint}: {', '.join(names)}")
