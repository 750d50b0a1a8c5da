"""What travels between the server and a worker, as Flower's records: an order down, replies up."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from enlist.errors import EnlistError

Tree = Any
PROBE, LOCAL = "probe", "local"


class Order(NamedTuple):
    """What the server asks of one worker.

    Args:
        kind: `local`, or `probe` for the first of two exchanges.
        t: the round, from 0.
        worker: who is meant.
        draws: how often it was drawn: as many local runs.
        acknowledged: the last round whose reply of this worker was used, -1 for none: the state to go on from.
        payload, replica: see `Algorithm`.
    """

    token: str
    kind: str
    t: int
    worker: int
    draws: int
    acknowledged: int
    payload: Tree
    replica: Tree


class Answer(NamedTuple):
    """What a worker gives back: for each draw a message, its weight and the loss of its steps.

    Args:
        rows: how many the worker holds; the order of additions depends on it.
        seconds: that its computing took.
    """

    token: str
    kind: str
    t: int
    worker: int
    rows: int
    seconds: float
    weights: Sequence[float]
    losses: Sequence[float]
    messages: Sequence[Tree]


class Malformed(EnlistError):
    """What arrived is not what was agreed on."""


def order_record(order: Order) -> Any:
    """An order as a record."""
    from flwr.app import ConfigRecord, RecordDict

    plain = {name: getattr(order, name) for name in ("token", "kind", "t", "worker", "draws", "acknowledged")}
    return RecordDict(
        {
            "order": ConfigRecord(plain),
            "payload": packed(order.payload),
            "replica": packed(order.replica),
        }
    )


def read_order(record: Any, payload: Tree, replica: Tree) -> Order:
    """The order in a record; `payload` and `replica` are of the shapes that are expected."""
    plain = _plain(record, "order", Order._fields[:6])
    return Order(
        **plain,
        payload=_tree(record, "payload", payload),
        replica=_tree(record, "replica", replica),
    )


def kind_of(record: Any) -> str:
    """Of an order, which decides what its payload looks like."""
    return str(_plain(record, "order", ("kind",))["kind"])


def answer_record(answer: Answer) -> Any:
    """An answer as a record."""
    from flwr.app import ConfigRecord, RecordDict

    plain = {name: getattr(answer, name) for name in Answer._fields[:6]}
    lists = {name: [float(number) for number in getattr(answer, name)] for name in ("weights", "losses")}
    made = {f"message-{i}": packed(message) for i, message in enumerate(answer.messages)}
    return RecordDict({"answer": ConfigRecord(plain | lists), **made})


def read_answer(record: Any, message: Tree, draws: int) -> Answer:
    """The answer in a record, which must hold `draws` messages of the shapes of `message`."""
    plain = _plain(record, "answer", Answer._fields[:8])
    for name, kind in (("token", str), ("kind", str), ("t", int), ("worker", int), ("rows", int)):
        if type(plain[name]) is not kind:
            raise Malformed(f"{name} is {str(plain[name])[:40]!r}, which is not of type {kind.__name__}")
    _check_seconds(plain["seconds"])
    for name in ("weights", "losses"):
        _check_numbers(name, plain[name], draws)
    found = sorted(name for name in record if name.startswith("message-"))
    if len(found) != draws:
        raise Malformed(f"{len(found)} messages where {draws} were asked for")
    return Answer(**plain, messages=[_tree(record, f"message-{i}", message) for i in range(draws)])


def _check_seconds(seconds: Any) -> None:
    if type(seconds) not in (int, float) or not 0 <= seconds < math.inf:
        raise Malformed(f"seconds are {str(seconds)[:40]!r}, which is no time")


def _check_numbers(name: str, numbers: Any, draws: int) -> None:
    if not isinstance(numbers, list) or len(numbers) != draws or not set(map(type, numbers)) <= {int, float}:
        raise Malformed(f"{name} are not {draws} numbers")
    with np.errstate(over="ignore"):
        # As they will be added up.
        if not np.isfinite(np.asarray(numbers, np.float64).astype(np.float32)).all():
            raise Malformed(f"{name} are not finite")


def _plain(record: Any, name: str, wanted: Sequence[str]) -> dict[str, Any]:
    part = record.get(name)
    missing = [each for each in wanted if part is None or each not in part]
    if missing:
        raise Malformed(f"no {', '.join(missing)} in it")
    return {each: part[each] for each in wanted}


def packed(tree: Tree) -> Any:
    """The leaves of a tree as Flower's arrays, once: what is packed already stays as it is.

    numpy cannot name every type; what it cannot travels as bytes.
    """
    from flwr.app import Array, ArrayRecord

    if isinstance(tree, ArrayRecord):
        return tree
    leaves = (np.asarray(leaf, order="C") for leaf in jax.tree.leaves(jax.device_get(tree)))
    return ArrayRecord(
        {
            str(i): Array(np.atleast_1d(leaf).view(np.uint8) if leaf.dtype.kind == "V" else leaf)
            for i, leaf in enumerate(leaves)
        }
    )


def _tree(record: Any, name: str, like: Tree) -> Tree:
    """A tree of the structure, shapes and types of `like`."""
    part = record.get(name)
    leaves, structure = jax.tree.flatten(like)
    if part is None or sorted(part) != sorted(str(i) for i in range(len(leaves))):
        held = "nothing" if part is None else f"{len(part)} arrays"
        raise Malformed(f"{name}: {held} where {len(leaves)} arrays are expected")
    found = [_leaf(part[str(i)], leaf, f"{name}, array {i}") for i, leaf in enumerate(leaves)]
    return jax.tree.unflatten(structure, found)


def _leaf(array: Any, like: Any, where: str) -> np.ndarray:
    try:
        found = array.numpy()
        if like.dtype.kind == "V" and found.dtype == np.uint8:
            found = found.view(like.dtype)
            found = found.reshape(()) if found.shape == (1,) and like.shape == () else found
    except Exception as error:
        raise Malformed(f"{where}: cannot be read ({type(error).__name__})") from error
    if found.shape != tuple(like.shape) or found.dtype != like.dtype:
        raise Malformed(
            f"{where}: {found.dtype} {found.shape} where {like.dtype} {tuple(like.shape)} is expected"
        )
    return found
