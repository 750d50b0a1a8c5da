"""FedAvg with memory at the server: FedAvgM (Hsu et al., 2019), FedAdagrad, FedAdam, FedYogi (Reddi et al., 2020).

FedAvgM:
    v_{t+1} = beta v_t + Delta_t                              x_{t+1} = x_t + eta v_{t+1}

The others (algorithm 2 of Reddi et al.; no bias correction; v starts at tau^2):
    m_{t+1} = beta1 m_t + (1 - beta1) Delta_t
    v_{t+1} = v_t + Delta_t^2                                 FedAdagrad
    v_{t+1} = v_t - (1 - beta2) Delta_t^2 sign(v_t - Delta_t^2)    FedYogi
    v_{t+1} = beta2 v_t + (1 - beta2) Delta_t^2               FedAdam
    x_{t+1} = x_t + eta m_{t+1} / (sqrt(v_{t+1}) + tau)
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from enlist.algorithms.checks import check_fractions
from enlist.algorithms.core import Algorithm, Rate, Tree
from enlist.algorithms.fedavg import Optimizer, fedavg
from enlist.errors import BadInput

Rule = Callable[[Any, Any, float], Any]


def fedavgm(
    worker_lr: Rate = 0.1, server_lr: Rate = 1.0, momentum: float = 0.9, worker: Optimizer = optax.sgd
) -> Algorithm:
    """FedAvg with server momentum; momentum 0 is FedAvg."""
    check_fractions(momentum=momentum)
    return fedavg(worker_lr, server_lr, worker, _momentum(momentum))._replace(name="fedavgm")


def fedadagrad(
    worker_lr: Rate = 0.1,
    server_lr: Rate = 0.1,
    beta1: float = 0.0,
    tau: float = 1e-3,
    worker: Optimizer = optax.sgd,
) -> Algorithm:
    """FedAdagrad; `beta1` is 0 in its paper's experiments."""
    return _adaptive("fedadagrad", _adagrad_rule, worker_lr, server_lr, beta1, 0.0, tau, worker)


def fedadam(
    worker_lr: Rate = 0.1,
    server_lr: Rate = 0.01,
    beta1: float = 0.9,
    beta2: float = 0.99,
    tau: float = 1e-3,
    worker: Optimizer = optax.sgd,
) -> Algorithm:
    """FedAdam, with its paper's betas and tau."""
    return _adaptive("fedadam", _adam_rule, worker_lr, server_lr, beta1, beta2, tau, worker)


def fedyogi(
    worker_lr: Rate = 0.1,
    server_lr: Rate = 0.01,
    beta1: float = 0.9,
    beta2: float = 0.99,
    tau: float = 1e-3,
    worker: Optimizer = optax.sgd,
) -> Algorithm:
    """FedYogi, with its paper's betas and tau."""
    return _adaptive("fedyogi", _yogi_rule, worker_lr, server_lr, beta1, beta2, tau, worker)


class Moments(NamedTuple):
    """m_t and v_t."""

    m: Tree
    v: Tree


def _adaptive(
    name: str,
    rule: Rule,
    worker_lr: Rate,
    server_lr: Rate,
    beta1: float,
    beta2: float,
    tau: float,
    worker: Optimizer,
) -> Algorithm:
    check_fractions(beta1=beta1, beta2=beta2)
    if not 0 < tau < float("inf"):
        raise BadInput(f"tau = {tau:g}: must be above 0")
    return fedavg(worker_lr, server_lr, worker, _reddi(rule, beta1, beta2, tau))._replace(name=name)


# The same object for the same numbers, so that a program compiled once is found again.
@lru_cache
def _momentum(momentum: float) -> Optimizer:
    return partial(optax.sgd, momentum=momentum)


@lru_cache
def _reddi(rule: Rule, beta1: float, beta2: float, tau: float) -> Optimizer:
    def constructor(eta: Any) -> optax.GradientTransformation:
        def init(params: Tree) -> Moments:
            return Moments(
                jax.tree.map(jnp.zeros_like, params), jax.tree.map(lambda p: jnp.full_like(p, tau**2), params)
            )

        def update(descent: Tree, state: Moments, params: Tree = None) -> tuple[Tree, Moments]:
            # In terms of -Delta_t, as optax wants it: m changes its sign, v does not.
            m = jax.tree.map(lambda m, d: beta1 * m + (1 - beta1) * d, state.m, descent)
            v = jax.tree.map(lambda v, d: rule(v, d * d, beta2), state.v, descent)
            return jax.tree.map(lambda m, v: -eta * m / (jnp.sqrt(v) + tau), m, v), Moments(m, v)

        return optax.GradientTransformation(init, update)

    return constructor


def _adagrad_rule(v: Any, square: Any, beta2: float) -> Any:
    return v + square


def _adam_rule(v: Any, square: Any, beta2: float) -> Any:
    return beta2 * v + (1 - beta2) * square


def _yogi_rule(v: Any, square: Any, beta2: float) -> Any:
    return v - (1 - beta2) * square * jnp.sign(v - square)
