"""Run-time checks of types and shapes, for jaxtyping's import hook."""

from collections import Counter
from collections.abc import Callable
from types import CodeType

import beartype

# Wrapping every function that is made within another, each time anew, takes an eighth of what the tests compute.
CLOSURES = 3
_seen: Counter[CodeType] = Counter()


def checked(function: Callable) -> Callable:
    """What beartype makes of a function; of those made from one piece of code within another, of the first few."""
    code = getattr(function, "__code__", None)
    if code is not None and "<locals>" in function.__qualname__:
        _seen[code] += 1
        if _seen[code] > CLOSURES:
            return function
    return beartype.beartype(function)
