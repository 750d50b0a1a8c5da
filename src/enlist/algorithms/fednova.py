"""FedNova: FedAvg that counts every worker alike, however many steps it took (Wang et al., 2020).

    worker i, from x_t: tau_i steps of SGD with momentum rho, which starts from zero
        sends Delta_t^i / ||a_i||_1 and ||a_i||_1, where
        ||a_i||_1 = tau_i                                                    rho = 0
        ||a_i||_1 = (tau_i - rho (1 - rho^tau_i) / (1 - rho)) / (1 - rho)    else
    server, with p_i the weights of the cohort, sum p_i = 1:
        tau_eff = sum p_i ||a_i||_1
        x_{t+1} = x_t + eta tau_eff sum p_i Delta_t^i / ||a_i||_1

In a_i stands how often each of a worker's gradients enters Delta_t^i. Where all take equally many steps this is
FedAvg. FedAvg's traffic, and one number more up.
"""

from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, Key

from enlist.algorithms.checks import check_fractions, one_worker_rate
from enlist.algorithms.core import Aggregate, Algorithm, Context, Rate, Reply, Scalar, Tree, WorkerData
from enlist.algorithms.fedavg import Optimizer, ServerState, fedavg


class Message(NamedTuple):
    """What comes up: Delta_t^i / ||a_i||_1, and ||a_i||_1."""

    delta: Tree
    steps: Scalar


def fednova(
    worker_lr: Rate = 0.1,
    server_lr: Rate = 1.0,
    momentum: float = 0.0,
    weighting: str = "uniform",
    server: Optimizer = optax.sgd,
) -> Algorithm:
    """FedNova.

    Args:
        worker_lr: eta_L, a number or a function of the round.
        server_lr: eta.
        momentum: rho, of the workers' SGD; it starts anew in every round.
        weighting: p_i, `uniform` or in proportion to the worker's `examples`.
        server: an optax constructor, as in `fedavg`.
    """
    check_fractions(momentum=momentum)
    rates = {"worker_lr": worker_lr, "server_lr": server_lr}
    return _fednova(momentum, weighting, server)._replace(rates=rates)


@lru_cache
def _fednova(momentum: float, weighting: str, server: Optimizer) -> Algorithm:
    worker = partial(optax.sgd, momentum=momentum) if momentum else optax.sgd
    base = fedavg(worker=worker, server=server, weighting=weighting)

    def local(ctx: Context, key: Key[Array, ""], payload: Tree, state: Tree, data: WorkerData) -> Reply:
        one_worker_rate("fednova", ctx)
        reply = base.local(ctx, key, payload, state, data)
        steps = effective_steps(reply.stats.steps, momentum)
        return reply._replace(message=Message(_times(1 / steps, reply.message), steps))

    def server_step(ctx: Context, key: Key[Array, ""], state: ServerState, got: Aggregate) -> ServerState:
        return base.server(ctx, key, state, got._replace(mean=_times(got.mean.steps, got.mean.delta)))

    return base._replace(name="fednova", local=local, server=server_step)


def effective_steps(steps: Int[Array, ""], momentum: float) -> Scalar:
    """||a_i||_1: how often gradients enter the sum of that many steps, all together."""
    # No step, no news: an empty place must not divide by zero.
    tau = jnp.maximum(steps, 1).astype(jnp.float32)
    return (tau - momentum * (1 - momentum**tau) / (1 - momentum)) / (1 - momentum)


def _times(scale: Any, tree: Tree) -> Tree:
    return jax.tree.map(lambda a: scale.astype(a.dtype) * a, tree)
