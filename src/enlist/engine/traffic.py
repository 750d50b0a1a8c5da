"""What an algorithm sends, counted from its own messages without computing any of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from enlist.algorithms.core import Algorithm, Context, LocalStats, Probed, Reply, WorkerData, rates_at
from enlist.algorithms.work import LocalWork, Steps
from enlist.cost import RoundCost, nbytes
from enlist.errors import BadInput
from enlist.problem.models import Model
from enlist.problem.objective import initial, objective

ONE_STEP = Steps(1, 1)
ROUND = jax.ShapeDtypeStruct((), jnp.int32)


class Sent(NamedTuple):
    """All that travels between the server and one worker, and what the worker keeps.

    Args:
        before: what it holds from earlier broadcasts.
        first: what goes down for a probe, () without one.
        probe: what comes up for it.
        down, up: what goes down for the local run, and what comes up.
        state: the worker's own.
        renewed: the same after the local run.
        weight: that of the message in the mean.
    """

    before: Any
    first: Any
    probe: Any
    down: Any
    up: Any
    state: Any
    renewed: Any
    weight: Any


def round_cost(
    algorithm: Algorithm,
    model: Model,
    x: Any,
    y: Any,
    work: LocalWork = ONE_STEP,
    precision: str = "float32",
    workers: int = 1,
    shared: int = 0,
) -> RoundCost:
    """The bytes of a round, from shapes alone: nothing is computed or compiled.

    Args:
        x, y: one example and what is to be predicted for it, or anything of their shape and type, such as
            `jax.ShapeDtypeStruct((28, 28, 1), "float32")`.
        work: what a worker does in a round.
        workers: m.
        shared: bytes of the examples that a worker is sent before the first round.
    """
    return cost_of(algorithm, travelling(algorithm, model, x, y, work, precision, workers), shared)


def cost_of(algorithm: Algorithm, sent: Sent, shared: int = 0) -> RoundCost:
    """The bytes of a round in which this travels; `shared` as in `round_cost`."""
    return RoundCost(
        uplink=nbytes((sent.probe, sent.up)),
        downlink=nbytes(sent.down),
        setup=nbytes(sent.before) + shared,
        exchanges=1 if algorithm.probe is None else 2,
    )


def travelling(
    algorithm: Algorithm,
    model: Model,
    x: Any,
    y: Any,
    work: LocalWork,
    precision: str,
    workers: int,
    *,
    up: bool = True,
) -> Sent:
    """The shapes of all that travels in a round: see `round_cost`.

    Args:
        up: whether those of the local run's message are wanted: its loss and gradient are traced for them.
    """

    return jax.eval_shape(
        exchanged(algorithm, model, work, precision, workers, up=up), one_row(x), one_row(y), ROUND
    )


def one_row(example: Any) -> jax.ShapeDtypeStruct:
    """A batch of one such example."""
    return jax.ShapeDtypeStruct((1, *example.shape), example.dtype)


def exchanged(
    algorithm: Algorithm, model: Model, work: LocalWork, precision: str, workers: int, *, up: bool = True
) -> Callable[[Any, Any, Any], Sent]:
    """A worker's half of a round as a function of one example and the round, to be traced: see `travelling`."""

    def travels(x: Any, y: Any, t: Any) -> Sent:
        key = jax.random.key(0)
        params = initial(model, key, x)
        server, own = algorithm.init_server(params, workers), algorithm.init_worker(params)
        replica = algorithm.replica(server)
        ctx = Context(t, objective(model, precision), work, rates_at(algorithm.rates, t), replica)
        # Of any number of rows, as where workers hold unequally many.
        data = WorkerData(x, y, jnp.zeros(1, jnp.int32), 0, t + 1, 1, 1, 1)
        payload, first, probe = algorithm.broadcast(server), (), ()
        if algorithm.probe is not None:
            first = algorithm.address(payload, t)
            probe = _sound(algorithm, "probe", algorithm.probe(ctx, key, first, own, data)).message
            # The cohort's mean probe, as large as one probe, goes down too.
            payload = Probed(payload, probe)
        mine = algorithm.address(payload, t)
        if not up:
            return Sent(replica, first, probe, mine, (), own, own, 0.0)
        reply = _sound(algorithm, "local", algorithm.local(ctx, key, mine, own, data))
        return Sent(replica, first, probe, mine, reply.message, own, reply.worker_state, reply.weight)

    return travels


def _sound(algorithm: Algorithm, part: str, reply: Any) -> Reply:
    """What a worker's half must give back."""
    whole = isinstance(reply, Reply)
    if not (whole and isinstance(reply.stats, LocalStats)):
        given = type(reply.stats if whole else reply).__name__
        raise BadInput(
            f"algorithm {algorithm.name}: {part} must return a Reply with LocalStats, not "
            f"{f'one with {given}' if whole else given}"
        )
    for name, number in (("weight", reply.weight), ("loss", reply.stats.loss)):
        if jnp.shape(number) != ():
            raise BadInput(
                f"algorithm {algorithm.name}: {part} gives a {name} of shape {jnp.shape(number)}, not one number"
            )
    return reply
