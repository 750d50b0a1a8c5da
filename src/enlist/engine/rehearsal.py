"""One round of an algorithm, rehearsed on shapes alone: parts that do not fit each other are refused in one line."""

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from traceback import extract_tb
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from enlist.algorithms import core
from enlist.algorithms.core import Algorithm, Tree, data_and_schedules
from enlist.algorithms.round import context
from enlist.algorithms.work import LocalWork
from enlist.engine.traffic import ROUND, Sent, exchanged, one_row
from enlist.errors import BadInput
from enlist.problem.models import Model
from enlist.problem.objective import initial, objective

REDUCES = ("mean", "stack")


def rehearse(
    algorithm: Algorithm, model: Model, x: Any, y: Any, work: LocalWork, precision: str, workers: int
) -> Sent:
    """Traces a worker's half and the server's half of a round, and returns the shapes of what travels.

    Rates are numbers that are not known yet, as in a run: of runs that differ in them, one is traced.

    Args:
        x, y: one example and what is to be predicted for it, or anything of their shape and type.
    """
    if algorithm.reduce not in REDUCES:
        raise BadInput(
            f"algorithm {algorithm.name}: reduce = {algorithm.reduce!r}: choose {' or '.join(REDUCES)}"
        )
    data, schedules = data_and_schedules(algorithm.rates)
    numbers = jax.tree.map(lambda rate: jax.ShapeDtypeStruct((), jnp.float32), data)
    return _rehearsed(
        algorithm._replace(rates=()),  # type: ignore[arg-type]
        tuple(numbers.items()),
        tuple(schedules.items()),
        model,
        one_row(x),
        one_row(y),
        work,
        precision,
        workers,
    )


@lru_cache(maxsize=64)
def _rehearsed(
    algorithm: Algorithm,
    numbers: tuple[tuple[str, Any], ...],
    schedules: tuple[tuple[str, Any], ...],
    model: Model,
    x: jax.ShapeDtypeStruct,
    y: jax.ShapeDtypeStruct,
    work: LocalWork,
    precision: str,
    workers: int,
) -> Sent:
    def half(of: Callable[..., Callable[..., Any]]) -> Callable[..., Any]:
        """Of the round, as a function of the rates too."""
        return lambda rates, *given: of(
            algorithm._replace(rates=rates | dict(schedules)), model, work, precision, workers
        )(*given)

    rates = dict(numbers)
    sent = _traced(algorithm, jax.eval_shape, half(exchanged), rates, x, y, ROUND)
    _must_be_alike(algorithm, "local must leave states of its worker", sent.state, sent.renewed)
    before, after, params, given = _traced(
        algorithm, jax.eval_shape, half(_served), rates, x, ROUND, sent.up, sent.probe
    )
    _must_be_alike(algorithm, "server must return states", before, after)
    _must_be_alike(algorithm, "params must give parameters", params, given)
    return sent


def digest(
    algorithm: Algorithm, model: Model, x: Any, y: Any, work: LocalWork, precision: str, workers: int
) -> str:
    """Stands for what algorithm and model compute in a round, options and captured numbers included.

    Two that are equal up to the first colon were made alike, and then differ where the computation does.
    """
    rows = one_row(x), one_row(y), ROUND
    worker = exchanged(algorithm, model, work, precision, workers)
    works, sent = jax.make_jaxpr(worker, return_shape=True)(*rows)
    server = _served(algorithm, model, work, precision, workers)
    serves = jax.make_jaxpr(server)(rows[0], ROUND, sent.up, sent.probe)
    told = hashlib.sha256()
    for half in (works, serves):
        # Where functions lie in memory is not what they compute.
        told.update(re.sub(r"0x[0-9a-f]+", "", str(half)).encode())
        for constant in half.consts:
            told.update(np.asarray(constant).tobytes())
    return f"jax {jax.__version__} {jax.default_backend()}:{told.hexdigest()[:16]}"


def _served(
    algorithm: Algorithm, model: Model, work: LocalWork, precision: str, workers: int
) -> Callable[[Any, Any, Tree, Tree], tuple[Tree, Tree, Tree, Tree]]:
    """The server's half as a function of an example, the round, a message and a probe.

    It gives the server's state before and after a round, the parameters, and what `params` makes them.
    """

    def serves(x: Any, t: Any, up: Tree, probe: Tree) -> tuple[Tree, Tree, Tree, Tree]:
        key, one = jax.random.key(0), jnp.ones(1)
        params = initial(model, key, x)
        server = algorithm.init_server(params, workers)
        ctx = context(objective(model, precision), work, algorithm.rates, t, algorithm.replica(server))
        summands = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], algorithm.decode(up))
        nothing = core.empty_total(jax.tree.map(lambda leaf: leaf[0], summands))
        stack = core.Stack(summands, one, jnp.zeros(1, jnp.int32), one)
        got = core.mean(
            core.fold(nothing, summands, one, one),
            workers,
            stack if algorithm.reduce == "stack" else None,
            probe,
        )
        return server, algorithm.server(ctx, key, server, got), params, algorithm.params(server)

    return serves


def _traced(algorithm: Algorithm, trace: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return trace(*arguments)
    except BadInput:
        raise
    except Exception as error:
        said = (str(error).strip().splitlines() or [""])[0][:300]
        raise BadInput(
            f"algorithm {algorithm.name} cannot run: {type(error).__name__}{_where(error)}: {said}"
        ) from error


def _where(error: Exception) -> str:
    """The last line of a person's own file on the way to it."""
    own = [
        frame
        for frame in extract_tb(error.__traceback__)
        if "site-packages" not in frame.filename and not _ours(frame.filename)
    ]
    return f" in {own[-1].filename}, line {own[-1].lineno}" if own else ""


def _ours(file: str) -> bool:
    return Path(__file__).parents[1] in Path(file).parents


def _must_be_alike(algorithm: Algorithm, what: str, before: Tree, after: Tree) -> None:
    """A state keeps its structure, shapes and types from round to round."""
    was, became = (str(jax.tree.structure(tree)) for tree in (before, after))
    unlike = [f"{was[:150]} became {became[:150]}"] if was != became else _unlike(before, after)
    if unlike:
        raise BadInput(f"algorithm {algorithm.name}: {what} like those before: {unlike[0]}")


def _unlike(before: Tree, after: Tree) -> list[str]:
    """Leaves that do not keep their shape or type."""
    old, new = (jax.tree_util.tree_leaves_with_path(tree) for tree in (before, after))
    return [
        f"{jax.tree_util.keystr(path) or 'it'} was {_said(a)} and became {_said(b)}"
        for (path, a), (_, b) in zip(old, new, strict=True)
        if (a.shape, a.dtype) != (b.shape, b.dtype)
    ]


def _said(leaf: Any) -> str:
    return f"{np.dtype(leaf.dtype).name}{list(leaf.shape)}"
