"""FedProx: FedAvg whose workers are held near the global model (Li et al., 2018).

    x_{t,k+1}^i = x_{t,k}^i - eta_L (g_{t,k}^i + mu (x_{t,k}^i - x_t))

mu = 0 is FedAvg.
"""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key

from enlist.algorithms.core import Algorithm, Context, Rate, Reply, Tree, WorkerData, difference
from enlist.algorithms.fedavg import Optimizer, fedavg
from enlist.algorithms.local import run_locally
from enlist.errors import BadInput


def fedprox(
    worker_lr: Rate = 0.1,
    server_lr: Rate = 1.0,
    mu: float = 0.01,
    worker: Optimizer = optax.sgd,
    server: Optimizer = optax.sgd,
) -> Algorithm:
    """FedProx.

    Args:
        worker_lr: eta_L.
        server_lr: eta.
        mu: the weight of the proximal term mu/2 ||x - x_t||^2 in each worker's objective.
        worker, server: optax constructors, as in `fedavg`.
    """
    if not 0 <= mu < float("inf"):
        raise BadInput(f"mu = {mu:g}: must be 0 or more")
    rates = {"worker_lr": worker_lr, "server_lr": server_lr, "mu": mu}
    return _fedprox(worker, server)._replace(rates=rates)


@lru_cache
def _fedprox(worker: Optimizer, server: Optimizer) -> Algorithm:
    def local(ctx: Context, key: Key[Array, ""], payload: Tree, state: Tree, data: WorkerData) -> Reply:
        x_t, mu = payload, ctx.rates["mu"]

        def pulled_back(g: Tree, x: Tree, again: Any) -> Tree:
            return jax.tree.map(lambda g, x, x0: g + mu * (x - x0), g, x, x_t)

        x_K, _, stats = run_locally(ctx, key, x_t, data, worker(ctx.rates["worker_lr"]), pulled_back)
        return Reply(difference(x_K, x_t), jnp.ones(()), state, stats)

    return fedavg(worker=worker, server=server)._replace(name="fedprox", local=local)
