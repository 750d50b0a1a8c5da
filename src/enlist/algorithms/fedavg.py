"""Generalized FedAvg with two-sided learning rates: Algorithm 1 of Yang, Fang and Liu (ICLR 2021).

    for t = 0 ... T-1:
        the server samples S_t, |S_t| = n
        each worker i in S_t, in parallel:
            x_{t,0}^i = x_t
            x_{t,k+1}^i = x_{t,k}^i - eta_L g_{t,k}^i            k = 0 ... K-1
            sends Delta_t^i = x_{t,K}^i - x_t
        server:
            Delta_t = 1/|S_t| sum_{i in S_t} Delta_t^i
            x_{t+1} = x_t + eta Delta_t

eta = 1 is FedAvg (McMahan et al., 2016); K = 1 is parallel SGD; full participation is Local SGD.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import optax
from jaxtyping import Array, Key

from enlist.algorithms.core import (
    Aggregate,
    Algorithm,
    Context,
    Rate,
    Reply,
    Tree,
    WorkerData,
    check_optimizer,
    difference,
    step_along,
)
from enlist.algorithms.local import run_locally
from enlist.errors import unknown

Optimizer = Callable[[Any], optax.GradientTransformation]


class ServerState(NamedTuple):
    """x_t and the server optimizer's own state (momentum and the like; nothing for sgd)."""

    params: Tree
    optimizer: Tree


def fedavg(
    worker_lr: Rate = 0.1,
    server_lr: Rate = 1.0,
    worker: Optimizer = optax.sgd,
    server: Optimizer = optax.sgd,
    weighting: str = "uniform",
) -> Algorithm:
    """Generalized FedAvg.

    Args:
        worker_lr: eta_L. A number; a function of the round t; or `PerStep`, a function of round and step.
        server_lr: eta. A number or a function of the round t.
        worker, server: optax constructors, called with the rate. The worker's optimizer starts anew in every
            round, the server's lives as long as the run.
        weighting: `uniform`, 1/|S_t| each as in the paper, or `examples`, in proportion to the worker's rows.

    Example:
        >>> fedavg(worker_lr=0.05, server=optax.adam, server_lr=0.01).name
        'fedavg'
    """
    return _fedavg(worker, server, weighting)._replace(rates={"worker_lr": worker_lr, "server_lr": server_lr})


@lru_cache
def _fedavg(worker: Optimizer, server: Optimizer, weighting: str) -> Algorithm:
    """The code without the rates, one object for equal arguments: changing a rate compiles nothing anew."""
    if weighting not in ("uniform", "examples"):
        raise unknown("weighting", weighting, ("uniform", "examples"))
    check_optimizer("worker", worker)
    check_optimizer("server", server)

    def init_server(params: Tree, workers: int) -> ServerState:
        # `check_optimizer` has seen that the rate is not in the state, so any rate will do here.
        return ServerState(params, server(1.0).init(params))

    def local(ctx: Context, key: Key[Array, ""], payload: Tree, state: Tree, data: WorkerData) -> Reply:
        x_t = payload
        x_K, _, stats = run_locally(ctx, key, x_t, data, worker(ctx.rates["worker_lr"]))
        delta = difference(x_K, x_t)
        weight = jnp.ones(()) if weighting == "uniform" else jnp.asarray(data.size, jnp.float32)
        return Reply(delta, weight, state, stats)

    def server_step(ctx: Context, key: Key[Array, ""], state: ServerState, got: Aggregate) -> ServerState:
        # x_{t+1} = x_t + eta Delta_t
        return ServerState(
            *step_along(server(ctx.rates["server_lr"]), got.mean, state.optimizer, state.params)
        )

    return Algorithm(
        name="fedavg",
        init_server=init_server,
        init_worker=lambda params: (),
        broadcast=lambda state: state.params,
        local=local,
        decode=lambda message: message,
        server=server_step,
        params=lambda state: state.params,
        rates={},
    )
