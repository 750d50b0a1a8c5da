"""Cooperative SGD: every worker has a model of its own, and models are mixed (Wang and Joshi, 2018).

    worker i in S_t, from its own x_i:
        x_{i,k+1} = x_{i,k} - eta_L g_{i,k}                                  k = 0 ... K-1
        sends x_{i,K} - x_i
    server, which keeps x_1 ... x_m and an anchor z, for i in S_t:
        x_i <- sum_{j in S_t} W_ij x_{j,K} + W_iz z
        z   <- sum_{j in S_t} W_zj x_{j,K} + W_zz z

W is

    average      1/|S_t| everywhere; the anchor stays out
    ring         1/3 for a worker, the one before and the one after it in S_t; the anchor stays out
    elastic      1 - alpha for a worker, alpha between it and the anchor (EASGD, Zhang et al., 2015):
                 x_i <- x_{i,K} - alpha (x_{i,K} - z),     z <- z + alpha sum_j (x_{j,K} - z)

or anybody's. Who is not in S_t keeps its model. The global model is the mean of all m models, of which the theory
speaks; for elastic averaging it is the anchor. `average` with everybody in S_t is FedAvg with eta = 1.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Key

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
)
from enlist.algorithms.fedavg import Optimizer
from enlist.algorithms.local import run_locally
from enlist.errors import BadInput, unknown

Matrix = Float[Array, "mixed mixed"]
# W for the places of a cohort and, last, the anchor; from the rates and from which places are taken.
Mixing = Callable[[Mapping[str, Any], Bool[Array, " places"]], Matrix]


class ServerState(NamedTuple):
    """x_1 ... x_m along a first axis, and z."""

    models: Tree
    anchor: Tree


def cooperative(
    worker_lr: Rate = 0.1,
    mixing: str | Callable[[int], Any] = "average",
    worker: Optimizer = optax.sgd,
) -> Algorithm:
    """Cooperative SGD.

    Args:
        worker_lr: eta_L.
        mixing: `average`, `ring`, or a function that gives W for a cohort of n: n x n, or (n+1) x (n+1) with the
            anchor last; symmetric, with rows that sum to 1. Where some of n places stay empty, what W gives to them
            goes back to the diagonal, so that its rows and columns still sum to 1.
        worker: an optax constructor; the optimizer starts anew in every round.
    """
    if callable(mixing):
        mix = _given(mixing)
    elif mixing in NAMED:
        mix = NAMED[mixing]
    else:
        raise unknown("mixing", mixing, NAMED)
    return _cooperative("cooperative", mix, _mean_model, worker)._replace(rates={"worker_lr": worker_lr})


def elastic(worker_lr: Rate = 0.1, elasticity: float = 0.05, worker: Optimizer = optax.sgd) -> Algorithm:
    """Elastic averaging.

    Args:
        worker_lr: eta_L.
        elasticity: alpha. Its paper takes 0.9/n; from 2/(n+1) on the mixing alone makes models diverge.
        worker: as in `cooperative`.
    """
    if not 0 < elasticity <= 1:
        raise BadInput(f"elasticity = {elasticity:g}: must be above 0 and at most 1")
    rates = {"worker_lr": worker_lr, "elasticity": elasticity}
    return _cooperative("elastic", _elastic, _anchor, worker)._replace(rates=rates)


@lru_cache
def _cooperative(
    name: str, mix: Mixing, params: Callable[[ServerState], Tree], worker: Optimizer
) -> Algorithm:
    check_optimizer("worker", worker)

    def init_server(params: Tree, workers: int) -> ServerState:
        models = jax.tree.map(lambda x: jnp.broadcast_to(x, (workers, *x.shape)).copy(), params)
        return ServerState(models, params)

    def local(ctx: Context, key: Key[Array, ""], payload: Tree, state: Tree, data: WorkerData) -> Reply:
        x_i = payload
        x_K, _, stats = run_locally(ctx, key, x_i, data, worker(ctx.rates["worker_lr"]))
        return Reply(difference(x_K, x_i), jnp.ones(()), state, stats)

    def server_step(ctx: Context, key: Key[Array, ""], state: ServerState, got: Aggregate) -> ServerState:
        assert got.stack is not None
        deltas, weights, ids, _ = got.stack
        taken = weights > 0
        w = mix(ctx.rates, taken)

        def mixed(models: Array, delta: Array, anchor: Array) -> Array:
            there = taken.reshape(-1, *[1] * anchor.ndim)
            # An empty place must not leave a trace, not even a NaN times zero.
            moved = jnp.where(there, models[ids] + delta, 0.0)
            both = jnp.concatenate([moved, anchor[None]])
            return jnp.tensordot(w.astype(both.dtype), both, 1, precision=lax.Precision.HIGHEST)

        new = jax.tree.map(mixed, state.models, deltas, state.anchor)
        # An empty place writes outside the array, which is dropped.
        where = jnp.where(taken, ids, got.workers)
        return ServerState(
            jax.tree.map(lambda all_, x: all_.at[where].set(x[:-1], mode="drop"), state.models, new),
            jax.tree.map(lambda x: x[-1], new),
        )

    return Algorithm(
        name=name,
        init_server=init_server,
        init_worker=lambda params: (),
        broadcast=lambda state: state.models,
        local=local,
        decode=lambda message: message,
        server=server_step,
        params=params,
        rates={},
        reduce="stack",
        address=lambda models, worker: jax.tree.map(lambda x: x[worker], models),
    )


def _mean_model(state: ServerState) -> Tree:
    return jax.tree.map(lambda x: jnp.mean(x, axis=0), state.models)


def _anchor(state: ServerState) -> Tree:
    return state.anchor


def _average(rates: Mapping[str, Any], taken: Bool[Array, " places"]) -> Matrix:
    among = jnp.append(taken, False)
    return _closed(jnp.full((len(among), len(among)), 1 / jnp.maximum(jnp.sum(taken), 1)), among)


def _ring(rates: Mapping[str, Any], taken: Bool[Array, " places"]) -> Matrix:
    among = jnp.append(taken, False)
    rank = jnp.cumsum(among) - 1
    before = rank[None, :] == ((rank + 1) % jnp.maximum(jnp.sum(taken), 1))[:, None]
    return _closed((before.astype(jnp.float32) + before.T) / 3, among)


def _elastic(rates: Mapping[str, Any], taken: Bool[Array, " places"]) -> Matrix:
    n = len(taken)
    pull = jnp.zeros((n + 1, n + 1)).at[:n, n].set(rates["elasticity"])
    return _closed(pull + pull.T, jnp.append(taken, True))


NAMED: dict[str, Mixing] = {"average": _average, "ring": _ring}


@lru_cache
def _given(matrix: Callable[[int], Any]) -> Mixing:
    def mix(rates: Mapping[str, Any], taken: Bool[Array, " places"]) -> Matrix:
        n = len(taken)
        w = np.asarray(matrix(n), np.float32)
        if w.shape not in ((n, n), (n + 1, n + 1)):
            raise BadInput(
                f"mixing: for {n} workers W must be {n} x {n}, or one more with the anchor, not {w.shape}"
            )
        if not np.allclose(w, w.T, atol=1e-5) or not np.allclose(w.sum(axis=1), 1, atol=1e-5):
            raise BadInput(f"mixing: for {n} workers W must be symmetric and each of its rows sum to 1")
        anchored = len(w) > n
        return _closed(jnp.asarray(w if anchored else np.pad(w, (0, 1))), jnp.append(taken, anchored))

    return mix


def _closed(w: Matrix, among: Bool[Array, " mixed"]) -> Matrix:
    """W between those who take part; the diagonal is what is missing to 1."""
    apart = among[:, None] & among[None, :] & ~jnp.eye(len(among), dtype=bool)
    w = jnp.where(apart, w, 0.0)
    return w + jnp.diag(1 - jnp.sum(w, axis=1))
