"""One round in two halves: what a worker does, and what the server does with the cohort's mean.

The simulator compiles both into one program; a deployment runs the first on the workers' machines, the second on the
server's. Neither half knows which it is.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from enlist.algorithms import core, keys
from enlist.algorithms.core import Algorithm, Context, Reply, Tree, WorkerData
from enlist.algorithms.work import LocalWork
from enlist.problem.objective import Objective


def context(
    objective: Objective, work: LocalWork, rates: Mapping[str, Any], t: Int[Array, ""], replica: Tree
) -> Context:
    """What round t knows without its being sent."""
    return Context(t, objective, work, core.rates_at(rates, t), replica)


def work(
    algorithm: Algorithm,
    ctx: Context,
    run: Key[Array, ""],
    worker: Int[Array, ""],
    draw: Int[Array, ""],
    payload: Tree,
    state: Tree,
    data: WorkerData,
    probing: bool = False,
) -> Reply:
    """One worker's local run, or its probe where the algorithm has one.

    Args:
        run: the run's key; the worker's own is that of (round, worker, draw).
        payload: what was addressed to this worker.
    """
    if probing:
        assert algorithm.probe is not None
        own = keys.worker_key(run, ctx.t, worker, draw, keys.Role.PROBE)
        return algorithm.probe(ctx, own, payload, state, data)
    return algorithm.local(ctx, keys.worker_key(run, ctx.t, worker, draw), payload, state, data)


class Stepped(NamedTuple):
    """What the server made of a round.

    Args:
        delta_norm: of Delta_t.
        local_loss: the mean over the cohort of the losses of its local steps.
        finite: whether the update is; one that is not must not be taken.
    """

    server: Tree
    delta_norm: Float[Array, ""]
    local_loss: Float[Array, ""]
    finite: Bool[Array, ""]


def step(
    algorithm: Algorithm,
    ctx: Context,
    run: Key[Array, ""],
    server: Tree,
    total: core.Total,
    workers: int,
    stack: core.Stack | None = None,
    probe: Tree = (),
) -> Stepped:
    """The server's half of a round: from the cohort's weighted sum to the next state."""
    got = core.mean(total, workers, stack, probe)
    renewed = algorithm.server(ctx, keys.server_key(run, ctx.t), server, got)
    # A message of several parts calls that part `delta`.
    delta_norm = _norm(getattr(got.mean, "delta", got.mean))
    finite = jnp.isfinite(delta_norm) & jnp.isfinite(_norm(algorithm.params(renewed)))
    if hasattr(got.mean, "delta"):
        # The other parts may enter the server's state and nothing else.
        finite &= jnp.asarray([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(got.mean)]).all()
    return Stepped(renewed, delta_norm, total.loss / jnp.maximum(total.count, 1.0), finite)


def _norm(tree: Tree) -> Float[Array, ""]:
    return jnp.asarray(optax.tree.norm(tree), jnp.float32)
