"""Mime and MimeLite: workers that mimic a central method, here SGD with momentum (Karimireddy et al., 2020).

    Mime first asks the cohort for its mean full gradient and sends it down: c_t = mean grad F_i(x_t)
    worker i, from x_t and the momentum m_t, which it does not change:
        d_{t,k}^i = g_{t,k}^i                                                           MimeLite
        d_{t,k}^i = g_{t,k}^i - g_i(x_t; the same batch) + c_t                          Mime
        x_{t,k+1}^i = x_{t,k}^i - eta_L ((1 - beta) d_{t,k}^i + beta m_t)
        sends Delta_t^i, and in MimeLite grad F_i(x_t)
    server:
        x_{t+1} = x_t + eta mean Delta_t^i
        m_{t+1} = (1 - beta) mean grad F_i(x_t) + beta m_t

MimeLite has twice FedAvg's traffic in both directions; Mime, in two exchanges a round, twice up and three times down.
beta = 0 makes MimeLite FedAvg.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key

from enlist.algorithms.checks import check_fractions
from enlist.algorithms.core import (
    Aggregate,
    Algorithm,
    Context,
    LocalStats,
    Rate,
    Reply,
    Tree,
    WorkerData,
    difference,
)
from enlist.algorithms.fedavg import Optimizer, fedavg
from enlist.algorithms.local import full_gradient, run_locally


class ServerState(NamedTuple):
    """FedAvg's state, and m_t."""

    base: Tree
    momentum: Tree


class Payload(NamedTuple):
    """What goes down: x_t and m_t."""

    params: Tree
    momentum: Tree


class Message(NamedTuple):
    """What comes up: Delta_t^i, and in MimeLite grad F_i(x_t), which Mime's probe has sent already."""

    delta: Tree
    gradient: Tree


def mimelite(
    worker_lr: Rate = 0.1, server_lr: Rate = 1.0, momentum: float = 0.9, server: Optimizer = optax.sgd
) -> Algorithm:
    """MimeLite: Mime without the correction of gradients.

    Args:
        worker_lr: eta_L.
        server_lr: eta; 1 in the paper.
        momentum: beta.
        server: an optax constructor, as in `fedavg`.
    """
    return _with_rates(_mime(False, server), worker_lr, server_lr, momentum)


def mime(
    worker_lr: Rate = 0.1, server_lr: Rate = 1.0, momentum: float = 0.9, server: Optimizer = optax.sgd
) -> Algorithm:
    """Mime; arguments as in `mimelite`. A local step computes two gradients."""
    return _with_rates(_mime(True, server), worker_lr, server_lr, momentum)


def _with_rates(code: Algorithm, worker_lr: Rate, server_lr: Rate, momentum: float) -> Algorithm:
    check_fractions(momentum=momentum)
    return code._replace(rates={"worker_lr": worker_lr, "server_lr": server_lr, "momentum": momentum})


@lru_cache
def _mime(corrects: bool, server: Optimizer) -> Algorithm:
    base = fedavg(server=server)

    def init_server(params: Tree, workers: int) -> ServerState:
        return ServerState(base.init_server(params, workers), jax.tree.map(jnp.zeros_like, params))

    def probe(ctx: Context, key: Key[Array, ""], payload: Payload, state: Tree, data: WorkerData) -> Reply:
        loss, gradient = full_gradient(ctx.objective, payload.params, data, key)
        return Reply(gradient, jnp.ones(()), state, LocalStats(loss, jnp.int32(0)))

    def local(ctx: Context, key: Key[Array, ""], payload: Any, state: Tree, data: WorkerData) -> Reply:
        if corrects:
            (x_t, m), gradient = payload
        else:
            (x_t, m), gradient = payload, full_gradient(ctx.objective, payload.params, data, key)[1]
        beta = ctx.rates["momentum"]

        def mimicked(g: Tree, x: Tree, again: Any) -> Tree:
            d = jax.tree.map(lambda g, g0, c: g - g0 + c, g, again(x_t), gradient) if corrects else g
            return _mixed(beta, d, m)

        x_K, _, stats = run_locally(ctx, key, x_t, data, optax.sgd(ctx.rates["worker_lr"]), mimicked)
        return Reply(Message(difference(x_K, x_t), () if corrects else gradient), jnp.ones(()), state, stats)

    def server_step(ctx: Context, key: Key[Array, ""], state: ServerState, got: Aggregate) -> ServerState:
        moved = base.server(ctx, key, state.base, got._replace(mean=got.mean.delta))
        gradient = got.probe if corrects else got.mean.gradient
        return ServerState(moved, _mixed(ctx.rates["momentum"], gradient, state.momentum))

    return base._replace(
        name="mime" if corrects else "mimelite",
        init_server=init_server,
        broadcast=lambda state: Payload(base.broadcast(state.base), state.momentum),
        local=local,
        server=server_step,
        params=lambda state: base.params(state.base),
        probe=probe if corrects else None,
    )


def _mixed(beta: Any, gradient: Tree, momentum: Tree) -> Tree:
    """(1 - beta) gradient + beta momentum."""
    return jax.tree.map(lambda g, m: (1 - beta) * g + beta * m, gradient, momentum)
