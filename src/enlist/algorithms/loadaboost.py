"""LoAdaBoost FedAvg: workers whose loss is still high train on (Huang et al., 2018).

    worker i, from x_t and the bar l_t, with at most C passes over its rows:
        H = ceil(C / 3)
        H passes from x_t;  l_i is the mean loss of the last of them
        while its last pass had a loss above l_t and fewer than C passes are done, for r = 1, 2, ...:
            H - r + 1 more passes, at least 1, at most up to C
        sends (Delta_t^i, l_i)
    server:
        x_{t+1} = x_t + eta mean Delta_t^i
        l_{t+1} = median l_i                                                 l_0 = infinity

The paper counts in E: it begins with E/2 epochs and stops at 3E/2. So C, the local work asked for, is 3E/2, and H is
E/2. With `Steps` instead of `Epochs` a third of the steps counts as a pass.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from enlist.algorithms.core import (
    Aggregate,
    Algorithm,
    Context,
    LocalStats,
    Rate,
    Reply,
    Scalar,
    Tree,
    WorkerData,
    difference,
)
from enlist.algorithms.fedavg import Optimizer, fedavg
from enlist.algorithms.local import run_locally
from enlist.algorithms.work import Epochs, LocalWork


class ServerState(NamedTuple):
    """FedAvg's state, and l_t."""

    base: Tree
    bar: Scalar


class Payload(NamedTuple):
    """What goes down: x_t and l_t."""

    params: Tree
    bar: Scalar


class Message(NamedTuple):
    """What comes up: Delta_t^i and l_i."""

    delta: Tree
    loss: Scalar


class Training(NamedTuple):
    """A worker on its way: the loss of its last pass, l_i, the sum of all losses; passes done, parts done."""

    params: Tree
    optimizer: Tree
    loss: Scalar
    reported: Scalar
    total: Scalar
    passes: Int[Array, ""]
    parts: Int[Array, ""]


def loadaboost(
    worker_lr: Rate = 0.1,
    server_lr: Rate = 1.0,
    worker: Optimizer = optax.sgd,
    server: Optimizer = optax.sgd,
) -> Algorithm:
    """LoAdaBoost FedAvg; the local work of the run is the most that a worker does.

    Args:
        worker_lr: eta_L.
        server_lr: eta; 1 in the paper.
        worker, server: optax constructors, as in `fedavg`.
    """
    return _loadaboost(worker, server)._replace(rates={"worker_lr": worker_lr, "server_lr": server_lr})


@lru_cache
def _loadaboost(worker: Optimizer, server: Optimizer) -> Algorithm:
    base = fedavg(worker=worker, server=server)

    def local(ctx: Context, key: Key[Array, ""], payload: Payload, state: Tree, data: WorkerData) -> Reply:
        (x_t, bar), optimizer = payload, worker(ctx.rates["worker_lr"])
        a_pass = _steps_of_a_pass(ctx.work, data)
        most = -(-jnp.asarray(data.steps, jnp.int32) // a_pass)
        first_part = -(-most // 3)

        def passes(at: Training, begin: Any, end: Any) -> Training:
            last = jnp.minimum(end * a_pass, data.steps)
            x, optimizer_state, (loss, steps) = run_locally(
                ctx,
                key,
                at.params,
                data._replace(steps=last, longest=None),
                optimizer,
                optimizer_state=at.optimizer,
                first=begin * a_pass,
            )
            total = at.total + loss * steps.astype(jnp.float32)
            return at._replace(params=x, optimizer=optimizer_state, loss=loss, total=total, passes=end)

        def train_on(at: Training) -> Training:
            shorter = jnp.maximum(at.parts - 1, 0)
            end = jnp.minimum(at.passes + jnp.maximum(first_part - shorter, 1), most)
            # The last pass by itself: its loss is the one that counts.
            after = passes(passes(at, at.passes, end - 1), end - 1, end)
            reported = jnp.where(at.parts == 0, after.loss, at.reported)
            return after._replace(reported=reported, parts=at.parts + 1)

        def goes_on(at: Training) -> Bool[Array, ""]:
            return (at.passes < most) & ((at.parts == 0) | (at.loss > bar))

        zero, none = jnp.zeros(()), jnp.int32(0)
        start = Training(x_t, optimizer.init(x_t), zero, zero, zero, none, none)
        end = lax.while_loop(goes_on, train_on, start)
        steps = jnp.minimum(end.passes * a_pass, data.steps)
        stats = LocalStats(end.total / jnp.maximum(steps, 1).astype(jnp.float32), steps)
        return Reply(Message(difference(end.params, x_t), end.reported), jnp.ones(()), state, stats)

    def server_step(ctx: Context, key: Key[Array, ""], state: ServerState, got: Aggregate) -> ServerState:
        assert got.stack is not None
        bar = jnp.where(got.count > 0, median(got.stack.summands.loss, got.stack.weights > 0), state.bar)
        return ServerState(base.server(ctx, key, state.base, got._replace(mean=got.mean.delta)), bar)

    return base._replace(
        name="loadaboost",
        init_server=lambda params, workers: ServerState(
            base.init_server(params, workers), jnp.float32(jnp.inf)
        ),
        broadcast=lambda state: Payload(base.params(state.base), state.bar),
        local=local,
        server=server_step,
        params=lambda state: base.params(state.base),
        reduce="stack",
    )


def _steps_of_a_pass(work: LocalWork, data: WorkerData) -> Any:
    if isinstance(work, Epochs):
        return Epochs(1, work.batch).count(data.size)
    return jnp.maximum(-(-jnp.asarray(data.steps, jnp.int32) // 3), 1)


def median(values: Float[Array, " n"], taken: Bool[Array, " n"]) -> Scalar:
    """The median of those values that are taken; infinity where none is."""
    ordered = jnp.sort(jnp.where(taken, values, jnp.inf))
    count = jnp.sum(taken)
    return (ordered[jnp.maximum(count - 1, 0) // 2] + ordered[count // 2]) / 2
