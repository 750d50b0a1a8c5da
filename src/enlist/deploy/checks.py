"""Whether a reply may touch the model."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from enlist.deploy.messages import Answer, Malformed, read_answer

Tree = Any
NOT_FINITE = "it holds numbers that are not finite"
MOST_ROWS = 2**31 - 1


def checked(
    record: Any,
    token: str,
    kind: str,
    t: int,
    worker: int,
    draws: int,
    like: Tree,
    bound: float | None,
    decode: Callable[[Tree], Tree],
) -> Answer:
    """The answer to an order, or `Malformed` with what is wrong about it.

    Args:
        like: the shapes and types of a message.
        bound: the largest norm that a message may have.
        decode: what a shortened message stands for: its codes by themselves say nothing.
    """
    answer = read_answer(record, like, draws)
    if answer.token != token:
        raise Malformed("it belongs to another run")
    if answer.t != t or answer.kind != kind:
        raise Malformed(f"it answers {answer.kind} of round {answer.t}, not {kind} of round {t}")
    if answer.worker != worker:
        raise Malformed(f"it says that it is worker {answer.worker}'s")
    if not 0 < answer.rows <= MOST_ROWS:
        raise Malformed(f"it counts {answer.rows} rows")
    if any(weight < 0 for weight in answer.weights):
        raise Malformed("it has a negative weight")
    is_code = not all(map(_has_numbers, jax.tree.leaves(like)))
    for message in answer.messages:
        _check_numbers(jax.device_get(decode(message)) if is_code else message, bound)
    return answer


def _has_numbers(leaf: Any) -> bool:
    return bool(np.issubdtype(leaf.dtype, np.floating)) or leaf.dtype.kind == "V"


def _check_numbers(message: Tree, bound: float | None) -> None:
    square = 0.0
    for leaf in filter(_has_numbers, jax.tree.leaves(message)):
        numbers = leaf.astype(np.float32).reshape(-1)
        if not np.isfinite(numbers).all():
            raise Malformed(NOT_FINITE)
        square += float(np.dot(numbers.astype(np.float64), numbers.astype(np.float64)))
    if bound is not None and square > bound**2:
        raise Malformed(f"its norm {square**0.5:.4g} is above the bound {bound:g}")
