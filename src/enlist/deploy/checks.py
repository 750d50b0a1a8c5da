"""Whether a reply may touch the model."""

from typing import Any

import jax
import numpy as np

from enlist.deploy.messages import Answer, Malformed, read_answer

Tree = Any


def checked(
    record: Any, token: str, kind: str, t: int, worker: int, draws: int, like: Tree, bound: float | None
) -> Answer:
    """The answer to an order, or `Malformed` with what is wrong about it.

    Args:
        like: the shapes and types of a message.
        bound: the largest norm that a message may have.
    """
    answer = read_answer(record, like, draws)
    if answer.token != token:
        raise Malformed("it belongs to another run")
    if answer.t != t or answer.kind != kind:
        raise Malformed(f"it answers {answer.kind} of round {answer.t}, not {kind} of round {t}")
    if answer.worker != worker:
        raise Malformed(f"it says that it is worker {answer.worker}'s")
    if not isinstance(answer.rows, int) or answer.rows < 1:
        raise Malformed(f"it counts {answer.rows} rows")
    if any(weight < 0 for weight in answer.weights):
        raise Malformed("it has a negative weight")
    for message in answer.messages:
        _check_numbers(message, bound)
    return answer


def _check_numbers(message: Tree, bound: float | None) -> None:
    square = 0.0
    for leaf in jax.tree.leaves(message):
        if not np.issubdtype(leaf.dtype, np.floating) and leaf.dtype.kind != "V":
            continue  # codes of a shortened message
        numbers = leaf.astype(np.float32).reshape(-1)
        if not np.isfinite(numbers).all():
            raise Malformed("it holds numbers that are not finite")
        square += float(np.dot(numbers.astype(np.float64), numbers.astype(np.float64)))
    if bound is not None and square > bound**2:
        raise Malformed(f"its norm {square**0.5:.4g} is above the bound {bound:g}")
