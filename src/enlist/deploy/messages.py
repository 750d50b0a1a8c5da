"""What travels between the server and a worker, as Flower's records: an order down, replies up."""

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from enlist.errors import EnlistError

Tree = Any
PROBE, LOCAL = "probe", "local"
# What the leaves of a tree are, and all their bytes.
PARTS = ("layout", "bytes")


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
    """A tree as Flower's arrays, once: what is packed already stays as it is.

    All leaves travel as one array of bytes, with another that says what they are: Flower's time grows with the number
    of arrays, and ResNet-18 has 62.
    """
    from flwr.app import Array, ArrayRecord

    if isinstance(tree, ArrayRecord):
        return tree
    leaves = [np.asarray(leaf, order="C") for leaf in jax.tree.leaves(jax.device_get(tree))]
    if not leaves:
        return ArrayRecord({})
    whole = b"".join(np.atleast_1d(leaf).view(np.uint8).tobytes() for leaf in leaves)
    layout = json.dumps(_layout(leaves)).encode()
    return ArrayRecord(
        {
            name: Array(np.frombuffer(part, np.uint8))
            for name, part in zip(PARTS, (layout, whole), strict=True)
        }
    )


def _layout(leaves: Sequence[Any]) -> list[list[Any]]:
    return [[leaf.dtype.name, list(leaf.shape)] for leaf in leaves]


def _tree(record: Any, name: str, like: Tree) -> Tree:
    """A tree of the structure, shapes and types of `like`."""
    part = record.get(name)
    leaves, structure = jax.tree.flatten(like)
    if part is None or sorted(part) != (sorted(PARTS) if leaves else []):
        held = "nothing" if part is None else f"{', '.join(sorted(part)) or 'no array'}"
        raise Malformed(f"{name}: {held} where {len(leaves)} arrays are expected")
    if not leaves:
        return like
    try:
        layout = json.loads(part[PARTS[0]].numpy().tobytes())
        whole = part[PARTS[1]].numpy()
    except Exception as error:
        raise Malformed(f"{name}: cannot be read ({type(error).__name__})") from error
    _check_layout(name, layout, _layout(leaves))
    sizes = [int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in leaves]
    if whole.dtype != np.uint8 or whole.shape != (sum(sizes),):
        raise Malformed(f"{name}: {whole.dtype} {whole.shape} where {sum(sizes)} bytes are expected")
    found = [
        part.view(leaf.dtype).reshape(leaf.shape)
        for part, leaf in zip(np.split(whole, np.cumsum(sizes)[:-1]), leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, found)


def _check_layout(name: str, layout: Any, expected: list[list[Any]]) -> None:
    if not isinstance(layout, list) or len(layout) != len(expected):
        held = f"{len(layout)} arrays" if isinstance(layout, list) else "no arrays"
        raise Malformed(f"{name}: {held} where {len(expected)} arrays are expected")
    for i, (found, wanted) in enumerate(zip(layout, expected, strict=True)):
        if found != wanted:
            raise Malformed(f"{name}, array {i}: {_words(found)} where {_words(wanted)} is expected")


def _words(array: Any) -> str:
    try:
        kind, shape = array
        return f"{kind} {tuple(shape)}"
    except (TypeError, ValueError):
        return str(array)[:60]
