"""The local loop, which most methods share: K steps of a worker's optimizer on its own rows."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax, random
from jaxtyping import Array, Bool, Int, Key

from enlist.algorithms import keys
from enlist.algorithms.core import Context, LocalStats, Scalar, Tree, WorkerData
from enlist.algorithms.work import Batch, Table
from enlist.problem.objective import Objective

Step = Int[Array, ""] | int
# The largest number of rows whose gradient is taken at once when a full gradient is asked for.
FULL_GRADIENT_ROWS = 1024


def gradient(
    objective: Objective, params: Tree, data: WorkerData, batch: Batch, key: Key[Array, ""], k: Step
) -> tuple[Scalar, Tree]:
    """Loss and gradient of F_i on the batch of local step k, varied where the model does that.

    Padding has no weight; `key` is the worker's of the round.
    """
    places = len(batch.positions)
    weights = (jnp.arange(places) < batch.count) / batch.count.astype(jnp.float32)
    x, y = data.take(batch.positions)
    if objective.augment is not None:
        x = objective.augment(keys.augment_key(key, k), x)
    return objective.loss_and_grad(params, x, y, weights)


def full_gradient(
    objective: Objective, params: Tree, data: WorkerData, key: Key[Array, ""], k: Step = keys.NO_STEP
) -> tuple[Scalar, Tree]:
    """Loss and gradient of F_i on all the worker's rows, each varied where the model does that.

    A bounded number of rows at a time; `key` is the worker's of the round, k the local step that it is for.
    """
    rows = min(data.capacity, FULL_GRADIENT_ROWS)

    def add(i: Int[Array, ""], total: tuple[Scalar, Tree]) -> tuple[Scalar, Tree]:
        positions = i * rows + jnp.arange(rows, dtype=jnp.int32)
        inside = positions < data.size
        weights = inside / jnp.asarray(data.size, jnp.float32)
        x, y = data.take(jnp.where(inside, positions, 0))
        part = objective.loss_and_grad(params, all_varied(objective, key, k, positions, x), y, weights)
        return jax.tree.map(jnp.add, total, part)

    zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    return lax.fori_loop(0, -(-data.size // rows), add, zero)


def all_varied(
    objective: Objective, key: Key[Array, ""], k: Step, positions: Int[Array, " rows"], x: Array
) -> Array:
    """Rows at these positions among a worker's own, as a gradient of all its rows sees them in local step k.

    Each is varied alone, by a key of its own: so it does not matter how many are looked at at once.
    """
    if (augment := objective.augment) is None:
        return x
    own = jax.vmap(random.fold_in, (None, 0))(keys.augment_key(key, k), positions)
    return jax.vmap(lambda key, row: augment(key, row[None])[0])(own, x)


Correction = Callable[[Tree, Tree, Callable[[Tree], Tree]], Tree]


def uncorrected(gradient: Tree, params: Tree, again: Callable[[Tree], Tree]) -> Tree:
    """The gradient as it is."""
    return gradient


class LocalRun(NamedTuple):
    """Where a local run ended."""

    params: Tree
    optimizer_state: Tree
    stats: LocalStats


class Moving(NamedTuple):
    """A local run on its way.

    Args:
        loss: the sum over its steps.
        going: whether its next step counts; who has finished waits for those beside it. It is carried, and not worked
            out where it is needed, so that a GPU's compiler takes it into the product that makes the update.
    """

    params: Tree
    state: Tree
    loss: Scalar
    going: Bool[Array, ""]


def run_locally(
    ctx: Context,
    key: Key[Array, ""],
    params: Tree,
    data: WorkerData,
    optimizer: optax.GradientTransformation,
    correct: Correction = uncorrected,
    optimizer_state: Tree | None = None,
    first: Int[Array, ""] | int = 0,
) -> LocalRun:
    """The inner loop of Algorithm 1: x_{t,k+1} = x_{t,k} - eta_L g_{t,k}, for k = 0 ... K-1.

    Args:
        optimizer: the worker optimizer; `optax.sgd(eta_L)` is the paper's.
        correct: `correct(g, x, again)` replaces the gradient before the optimizer sees it (drift corrections,
            proximal terms); `again(z)` is the gradient of the same batch at another point.
        optimizer_state: what the optimizer goes on from; by default it starts anew in every round.
        first: the step to begin with, where those before it are done: k = first ... K-1.
    """
    table = ctx.work.table(key, data.size, data.reach, data.capacity)

    def step(k: Int[Array, ""], at: Moving) -> Moving:
        look = loss_and_gradient(ctx, key, table, data, k)
        loss, g = look(at.params)
        updates, state = optimizer.update(correct(g, at.params, lambda z: look(z)[1]), at.state, at.params)
        if data.longest is None:
            return Moving(optax.apply_updates(at.params, updates), state, at.loss + loss, at.going)
        # Adding -0 changes no number, 0 itself included.
        still = jax.tree.map(lambda u: jnp.where(at.going, u, -jnp.zeros_like(u)), updates)
        x = optax.apply_updates(at.params, still)
        state = jax.tree.map(lambda new, old: jnp.where(at.going, new, old), state, at.state)
        return Moving(x, state, at.loss + jnp.where(at.going, loss, 0.0), k + 1 < data.steps)

    fresh = optimizer.init(params) if optimizer_state is None else optimizer_state
    last = data.steps if data.longest is None else data.longest
    start = Moving(params, fresh, jnp.zeros(()), jnp.asarray(first < data.steps))
    x, state, loss, _ = lax.fori_loop(first, last, step, start)
    steps = jnp.asarray(data.steps - first, jnp.int32)
    return LocalRun(x, state, LocalStats(loss / jnp.maximum(steps, 1).astype(jnp.float32), steps))


def loss_and_gradient(
    ctx: Context, key: Key[Array, ""], table: Table, data: WorkerData, k: Int[Array, ""]
) -> Callable[[Tree], tuple[Scalar, Tree]]:
    """Of local step k, as a function of the point; `key` is the worker's of the round."""
    if ctx.work.batch == 0:
        return lambda x: full_gradient(ctx.objective, x, data, key, k)
    batch = ctx.work.pick(table, k, data.size)
    return lambda x: gradient(ctx.objective, x, data, batch, key, k)
