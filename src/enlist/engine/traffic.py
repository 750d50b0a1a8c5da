"""What an algorithm sends, counted from its own messages without computing any of them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from enlist.algorithms.core import Algorithm, Context, Probed, WorkerData, rates_at
from enlist.algorithms.work import LocalWork, Steps
from enlist.cost import RoundCost, nbytes
from enlist.problem.models import Model
from enlist.problem.objective import initial, objective

ONE_STEP = Steps(1, 1)


class Sent(NamedTuple):
    """All that travels between the server and one worker, and what the worker keeps.

    Args:
        before: what it holds from earlier broadcasts.
        first: what goes down for a probe, () without one.
        probe: what comes up for it.
        down, up: what goes down for the local run, and what comes up.
        state: the worker's own.
    """

    before: Any
    first: Any
    probe: Any
    down: Any
    up: Any
    state: Any


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
    sent = travelling(algorithm, model, x, y, work, precision, workers)
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

    def travels(x: Any, y: Any) -> Sent:
        t, key = jnp.int32(0), jax.random.key(0)
        params = initial(model, key, x)
        server, own = algorithm.init_server(params, workers), algorithm.init_worker(params)
        replica = algorithm.replica(server)
        ctx = Context(t, objective(model, precision), work, rates_at(algorithm.rates, t), replica)
        data = WorkerData(x, y, jnp.zeros(1, jnp.int32), 0, 1, 1, 1, 1)
        payload, first, probe = algorithm.broadcast(server), (), ()
        if algorithm.probe is not None:
            first = algorithm.address(payload, t)
            probe = algorithm.probe(ctx, key, first, own, data).message
            # The cohort's mean probe, as large as one probe, goes down too.
            payload = Probed(payload, probe)
        mine = algorithm.address(payload, t)
        message = algorithm.local(ctx, key, mine, own, data).message if up else ()
        return Sent(replica, first, probe, mine, message, own)

    one = [jax.ShapeDtypeStruct((1, *each.shape), each.dtype) for each in (x, y)]
    return jax.eval_shape(travels, *one)
