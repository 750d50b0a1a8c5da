"""What becomes of the worker optimizer's state, its buffers, from one round to the next.

    reset       every local run starts with fresh buffers, as in FedAvg
    maintain    each worker keeps its own and goes on from them when it next takes part
    average     the server averages them as it averages x, and sends the mean down with x

`average` sends the buffers both ways. `maintain` sends nothing more, but a worker drawn twice in a round would have
two sets of buffers, so sampling with replacement is refused where there are any.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key

from enlist.algorithms.checks import one_worker_rate
from enlist.algorithms.core import Aggregate, Algorithm, Context, Reply, Tree, WorkerData, difference
from enlist.algorithms.local import run_locally
from enlist.errors import BadInput, unknown

STRATEGIES = ("reset", "maintain", "average")


class ServerState(NamedTuple):
    """The state of the method without buffers, and the mean buffers where they are averaged."""

    base: Tree
    buffers: Tree


class Payload(NamedTuple):
    """What goes down: x_t, and the mean buffers where they are averaged."""

    params: Tree
    buffers: Tree


class Message(NamedTuple):
    """What comes up: Delta_t^i, and the worker's buffers where they are averaged."""

    delta: Tree
    buffers: Tree


def with_buffers(
    base: Algorithm,
    buffers: str,
    worker: Callable[..., optax.GradientTransformation],
    numbers: tuple[str, ...] = (),
) -> Algorithm:
    """`base`, its workers' optimizer treated as `buffers` says.

    Args:
        base: a method that sends x_t down and Delta_t^i up, such as `fedavg`.
        buffers: reset, maintain or average.
        worker: an optax constructor, called with eta_L and with those of the rates that `numbers` names.
        numbers: keyword arguments of `worker` that are data as rates are.
    """
    if buffers not in STRATEGIES:
        raise unknown("option for buffers", buffers, STRATEGIES)
    maintained, averaged = buffers == "maintain", buffers == "average"

    def fresh(params: Tree) -> Tree:
        # Its shapes do not depend on the rate, nor on the other numbers.
        return worker(1.0, **dict.fromkeys(numbers, 0.5)).init(params)

    shapes = jax.tree.leaves(jax.eval_shape(fresh, jax.ShapeDtypeStruct((2,), jnp.float32)))
    if buffers != "reset" and any(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in shapes):
        raise BadInput(f"buffers = {buffers}: this worker optimizer draws random numbers; use reset")

    def init_server(params: Tree, workers: int) -> ServerState:
        return ServerState(base.init_server(params, workers), fresh(params) if averaged else ())

    def local(ctx: Context, key: Key[Array, ""], payload: Payload, own: Tree, data: WorkerData) -> Reply:
        x_t, eta_l = payload.params, one_worker_rate(base.name, ctx)
        optimizer = worker(eta_l, **{name: ctx.rates[name] for name in numbers})
        start = own if maintained else payload.buffers if averaged else None
        x_K, end, stats = run_locally(ctx, key, x_t, data, optimizer, optimizer_state=start)
        sent = jax.tree.map(_as_float, end) if averaged else ()
        return Reply(Message(difference(x_K, x_t), sent), jnp.ones(()), end if maintained else (), stats)

    def server(ctx: Context, key: Key[Array, ""], state: ServerState, got: Aggregate) -> ServerState:
        moved = base.server(ctx, key, state.base, got._replace(mean=got.mean.delta))
        return ServerState(moved, jax.tree.map(_as_before, got.mean.buffers, state.buffers))

    return base._replace(
        init_server=init_server,
        init_worker=fresh if maintained else lambda params: (),
        broadcast=lambda state: Payload(base.broadcast(state.base), state.buffers),
        local=local,
        server=server,
        params=lambda state: base.params(state.base),
    )


def _as_float(buffer: Any) -> Any:
    """Counts and marks have a mean too."""
    return buffer if jnp.issubdtype(buffer.dtype, jnp.floating) else buffer.astype(jnp.float32)


def _as_before(mean: Any, before: Any) -> Any:
    return mean if mean.dtype == before.dtype else jnp.round(mean).astype(before.dtype)
