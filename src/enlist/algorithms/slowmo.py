"""SlowMo: slow momentum at the server over any worker optimizer (Wang, Tantia, Ballas and Rabbat, 2019).

    worker i, from x_t: K steps of the base optimizer at the rate gamma_t = eta_L, to x_{t,K}^i
        sends Delta_t^i = x_{t,K}^i - x_t
    server:
        u_{t+1} = beta u_t - mean Delta_t^i / gamma_t
        x_{t+1} = x_t - alpha gamma_t u_{t+1}                     alpha = eta

The base optimizer's own buffers are reset, maintained or averaged between rounds (`buffers.py`). The momentum is in
units of gradients, so a rate that falls with the rounds also shrinks what earlier rounds have left in it; at one
rate for all rounds this is FedAvgM. beta = 0, alpha = 1 is FedAvg.
"""

from functools import lru_cache

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key

from enlist.algorithms.buffers import with_buffers
from enlist.algorithms.checks import check_fractions, one_worker_rate
from enlist.algorithms.core import Aggregate, Algorithm, Context, Rate, Tree, add_scaled
from enlist.algorithms.fedavg import Optimizer, ServerState, fedavg


def slowmo(
    worker_lr: Rate = 0.1,
    server_lr: Rate = 1.0,
    momentum: float = 0.7,
    buffers: str = "reset",
    worker: Optimizer = optax.sgd,
) -> Algorithm:
    """SlowMo.

    Args:
        worker_lr: gamma_t, a number or a function of the round.
        server_lr: alpha, the slow learning rate.
        momentum: beta, the slow momentum.
        buffers: what becomes of the base optimizer's state after a round: "reset", each worker's is "maintain"ed,
            or "average", which sends it up and down.
        worker: the base optimizer, an optax constructor.
    """
    check_fractions(momentum=momentum)
    rates = {"worker_lr": worker_lr, "server_lr": server_lr, "momentum": momentum}
    return _slowmo(buffers, worker)._replace(rates=rates)


@lru_cache
def _slowmo(buffers: str, worker: Optimizer) -> Algorithm:
    def init_server(params: Tree, workers: int) -> ServerState:
        return ServerState(params, jax.tree.map(jnp.zeros_like, params))

    def server(ctx: Context, key: Key[Array, ""], state: ServerState, got: Aggregate) -> ServerState:
        gamma, alpha, beta = one_worker_rate("slowmo", ctx), ctx.rates["server_lr"], ctx.rates["momentum"]
        # Multiplied, not divided: a compiler turns a division by one number into this in some programs only.
        each = 1 / gamma
        u = jax.tree.map(lambda u, delta: beta * u - delta * each, state.optimizer, got.mean)
        return ServerState(add_scaled(state.params, -alpha * gamma, u), u)

    base = fedavg(worker=worker)._replace(name="slowmo", init_server=init_server, server=server)
    return with_buffers(base, buffers, worker)
