"""SCAFFOLD: FedAvg with control variates against the drift of unlike workers (Karimireddy et al., 2020).

    worker i, from x_t, c_t and its own c_i:
        x_{t,k+1}^i = x_{t,k}^i - eta_L (g_{t,k}^i - c_i + c_t)               k = 0 ... K-1
        option I:   c_i' = grad F_i(x_t)
        option II:  c_i' = c_i - c_t + (x_t - x_{t,K}^i) / (K eta_L)
        sends (Delta_t^i, c_i' - c_i), keeps c_i'
    server:
        x_{t+1} = x_t + eta mean Delta_t^i
        c_{t+1} = c_t + |S_t|/m mean (c_i' - c_i)

Twice FedAvg's traffic in both directions. A worker drawn twice in a round would have two new variates, so sampling
with replacement is refused.
"""

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key

from enlist.algorithms.checks import one_worker_rate
from enlist.algorithms.core import (
    Aggregate,
    Algorithm,
    Context,
    Rate,
    Reply,
    Tree,
    WorkerData,
    add_scaled,
    difference,
    step_along,
)
from enlist.algorithms.fedavg import Optimizer
from enlist.algorithms.local import full_gradient, run_locally
from enlist.errors import unknown


class ServerState(NamedTuple):
    """x_t, c_t and the server optimizer's own state."""

    params: Tree
    control: Tree
    optimizer: Tree


class Payload(NamedTuple):
    """What goes down: x_t and c_t."""

    params: Tree
    control: Tree


class Message(NamedTuple):
    """What comes up: Delta_t^i and c_i' - c_i."""

    delta: Tree
    control: Tree


def scaffold(
    worker_lr: Rate = 0.1,
    server_lr: Rate = 1.0,
    variates: str = "II",
    server: Optimizer = optax.sgd,
) -> Algorithm:
    """SCAFFOLD.

    Args:
        worker_lr: eta_L, a number or a function of the round.
        server_lr: eta.
        variates: how a worker renews its control variate: option "I", by a pass over all its rows at x_t, or
            "II", from the steps that it took.
        server: an optax constructor; the workers' optimizer is SGD, on which option II rests.
    """
    if variates not in ("I", "II"):
        raise unknown("option for variates", variates, ("I", "II"))
    return _scaffold(variates, server)._replace(rates={"worker_lr": worker_lr, "server_lr": server_lr})


@lru_cache
def _scaffold(option: str, server: Optimizer) -> Algorithm:
    def init_server(params: Tree, workers: int) -> ServerState:
        return ServerState(params, jax.tree.map(jnp.zeros_like, params), server(1.0).init(params))

    def local(ctx: Context, key: Key[Array, ""], payload: Payload, c_i: Tree, data: WorkerData) -> Reply:
        (x_t, c), eta_l = payload, one_worker_rate("scaffold", ctx)
        correction = difference(c, c_i)
        x_K, _, stats = run_locally(
            ctx, key, x_t, data, optax.sgd(eta_l), lambda g, x, again: jax.tree.map(jnp.add, g, correction)
        )
        delta = difference(x_K, x_t)
        if option == "I":
            renewed = full_gradient(ctx.objective, x_t, data, key)[1]
        else:
            # No step, no news: an empty place must not divide by zero.
            steps = jnp.maximum(stats.steps, 1).astype(jnp.float32)
            # Multiplied, not divided: a compiler turns a division by one number into this in some programs only.
            each = 1 / (steps * eta_l)
            renewed = jax.tree.map(lambda own, all_, d: own - all_ - d * each, c_i, c, delta)
        return Reply(Message(delta, difference(renewed, c_i)), jnp.ones(()), renewed, stats)

    def server_step(ctx: Context, key: Key[Array, ""], state: ServerState, got: Aggregate) -> ServerState:
        x, optimizer = step_along(
            server(ctx.rates["server_lr"]), got.mean.delta, state.optimizer, state.params
        )
        return ServerState(x, add_scaled(state.control, got.count / got.workers, got.mean.control), optimizer)

    return Algorithm(
        name="scaffold",
        init_server=init_server,
        init_worker=lambda params: jax.tree.map(jnp.zeros_like, params),
        broadcast=lambda state: Payload(state.params, state.control),
        local=local,
        decode=lambda message: message,
        server=server_step,
        params=lambda state: state.params,
        rates={},
    )
