"""FedDyn: workers regularised anew in every round, so that their optima agree (Acar et al., 2021).

    worker i, from x_t and its own g_i (zero at first):
        x_{t,K}^i ~ argmin_x F_i(x) - <g_i, x> + alpha/2 ||x - x_t||^2, by K steps
            x_{t,k+1}^i = x_{t,k}^i - eta_L (g_{t,k}^i - g_i + alpha (x_{t,k}^i - x_t))
        g_i' = g_i - alpha Delta_t^i
        sends Delta_t^i, keeps g_i'
    server, h zero at first:
        h_{t+1} = h_t - alpha 1/m sum_{i in S_t} Delta_t^i
        x_{t+1} = x_t + 1/|S_t| sum_{i in S_t} Delta_t^i - h_{t+1} / alpha

h is the mean of all m workers' g_i, whoever took part. FedAvg's traffic. A worker drawn twice in a round would have
two new g_i, so sampling with replacement is refused.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
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
    add_scaled,
    difference,
)
from enlist.algorithms.fedavg import Optimizer, fedavg
from enlist.algorithms.local import run_locally
from enlist.errors import BadInput


class ServerState(NamedTuple):
    """x_t and h_t."""

    params: Tree
    h: Tree


def feddyn(worker_lr: Rate = 0.1, alpha: float = 0.01, worker: Optimizer = optax.sgd) -> Algorithm:
    """FedDyn. Its server has no rate: what it adds to the mean is given by alpha.

    Args:
        worker_lr: eta_L.
        alpha: the weight of the dynamic regulariser.
        worker: an optax constructor, as in `fedavg`.
    """
    if not 0 < alpha < float("inf"):
        raise BadInput(f"alpha = {alpha:g}: must be above 0")
    return _feddyn(worker)._replace(rates={"worker_lr": worker_lr, "alpha": alpha})


@lru_cache
def _feddyn(worker: Optimizer) -> Algorithm:
    def zeros(params: Tree) -> Tree:
        return jax.tree.map(jnp.zeros_like, params)

    def local(ctx: Context, key: Key[Array, ""], payload: Tree, g_i: Tree, data: WorkerData) -> Reply:
        x_t, alpha = payload, ctx.rates["alpha"]

        def regularised(g: Tree, x: Tree, again: Any) -> Tree:
            return jax.tree.map(lambda g, own, x, x0: g - own + alpha * (x - x0), g, g_i, x, x_t)

        x_K, _, stats = run_locally(ctx, key, x_t, data, worker(ctx.rates["worker_lr"]), regularised)
        delta = difference(x_K, x_t)
        return Reply(delta, jnp.ones(()), add_scaled(g_i, -alpha, delta), stats)

    def server(ctx: Context, key: Key[Array, ""], state: ServerState, got: Aggregate) -> ServerState:
        alpha = ctx.rates["alpha"]
        h = add_scaled(state.h, -alpha * got.count / got.workers, got.mean)
        return ServerState(add_scaled(add_scaled(state.params, 1.0, got.mean), -1 / alpha, h), h)

    return fedavg(worker=worker)._replace(
        name="feddyn",
        init_server=lambda params, workers: ServerState(params, zeros(params)),
        init_worker=zeros,
        local=local,
        server=server,
    )
