"""Looking at the global model: f and its gradient over all workers, the test set, accuracy by worker."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float, Int

from enlist.problem.federation import Federation
from enlist.problem.objective import Objective

Tree = Any
# A random stream of its own, beside those that deal rows.
EVALUATED = 5


class Passes(NamedTuple):
    """What an evaluation looks at.

    Args:
        rows: examples at once.
        gradient: also ||grad f||^2, the quantity of the theorems.
        workers: m where the metric by worker is wanted, else 0.
    """

    rows: int
    gradient: bool = False
    workers: int = 0


class Weighted(NamedTuple):
    """Rows `order` of (x, y) to look at, each with a weight; `holder` says whose they are, where that matters.

    Sums are divided by `total`: rows that count alike weigh 1, so that all of them right is exactly 1.
    NumPy arrays until they are put on the devices.
    """

    x: Any
    y: Any
    order: Any
    weights: Any
    holder: Any
    total: Any


class Examples(NamedTuple):
    """Everything an evaluation reads."""

    train: Weighted
    test: Weighted
    own: Weighted | None


class Evaluation(NamedTuple):
    """What an evaluation found; `grad_norm_sq` and `by_worker` are empty unless asked for."""

    train_loss: Float[Array, ""]
    test_loss: Float[Array, ""]
    test_metric: Float[Array, ""]
    grad_norm_sq: Float[Array, "..."]
    by_worker: Float[Array, " m"]


def examples(federation: Federation, train: Weighted, x_test: Any, y_test: Any, by_worker: bool) -> Examples:
    """The rows and weights with which f, the test loss and the metrics are weighted means."""
    test = evenly(x_test, y_test, np.arange(len(x_test), dtype=np.int32))
    own = None
    if by_worker and federation.test is not None:
        mine = federation.test
        ones, sizes = np.ones(len(mine.order), np.float32), np.maximum(mine.sizes, 1).astype(np.float32)
        own = Weighted(x_test, y_test, mine.order, ones, mine.holder(), sizes)
    return Examples(train, test, own)


def all_rows(federation: Federation, x: Array, y: Array) -> Weighted:
    """f is the mean over workers of each worker's mean loss: a row of worker i weighs 1 / (m size_i)."""
    held = federation.train
    weight = 1.0 / (federation.workers * held.sizes[held.holder()].astype(np.float64))
    order = held.order
    if federation.common is not None:
        # A row that many hold is looked at once.
        order, entry = np.unique(order, return_inverse=True)
        weight = np.bincount(entry, weight)
    return Weighted(x, y, order, weight.astype(np.float32), np.zeros(0, np.int32), np.float32(1))


def evenly(x: Any, y: Any, order: np.ndarray) -> Weighted:
    """These rows, all alike."""
    count = len(order)
    return Weighted(
        x, y, order.astype(np.int32), np.ones(count, np.float32), np.zeros(0, np.int32), np.float32(count)
    )


def drawn_rows(federation: Federation, count: int, seed: int) -> np.ndarray:
    """Rows whose plain mean loss estimates f without bias: any worker, then any row of it."""
    rng = np.random.default_rng([seed, EVALUATED])
    worker = rng.integers(0, federation.workers, count)
    position = rng.integers(0, federation.sizes[worker])
    return federation.order[federation.offsets[worker].astype(np.int64) + position]


def evaluate(
    passes: Passes, objective: Objective, devices: int, axis: str, params: Tree, examples: Examples
) -> Evaluation:
    """One look at the model. Blocks of rows are dealt to the devices; every device returns the whole."""

    def slope(x: Array, y: Array, weights: Array, holder: Array) -> tuple[Array, Tree]:
        return objective.loss_and_grad(params, x, y, weights)

    def own_metric(x: Array, y: Array, weights: Array, holder: Array) -> Array:
        _, metric = objective.scores(params, x, y)
        return jax.ops.segment_sum(weights * metric, holder, passes.workers)

    def over(rows: Weighted, look: Callable[..., Tree], in_order: bool = True) -> Tree:
        return _mean_over(rows, look, passes.rows, devices, axis, in_order)

    if passes.gradient:
        train_loss, gradient = over(examples.train, slope, in_order=False)
        grad_norm_sq = optax.tree.norm(gradient, squared=True)
    else:
        train_loss, _ = scores(objective, params, examples.train, passes.rows, devices, axis)
        grad_norm_sq = jnp.zeros(0)
    test_loss, test_metric = scores(objective, params, examples.test, passes.rows, devices, axis)
    own = jnp.zeros(0) if examples.own is None else over(examples.own, own_metric)
    return Evaluation(train_loss, test_loss, test_metric, grad_norm_sq, own)


def scores(
    objective: Objective, params: Tree, rows: Weighted, size: int, devices: int = 1, axis: str = ""
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Weighted means of the loss and of the metric, `size` rows at once."""

    def look(x: Array, y: Array, weights: Array, holder: Array) -> tuple[Array, Array]:
        loss, metric = objective.scores(params, x, y)
        return jnp.sum(weights * loss), jnp.sum(weights * metric)

    return _mean_over(rows, look, size, devices, axis, in_order=True)


def _mean_over(
    rows: Weighted, look: Callable[..., Tree], size: int, devices: int, axis: str, in_order: bool
) -> Tree:
    """The sum of `look` over blocks of rows, of which this device takes every `devices`-th, by the rows' total.

    In order: block by block, the same bits on any number of devices; every block's result is kept until then.
    Otherwise device by device, for results as large as the parameters.
    """
    total_rows = len(rows.order)
    size = min(size, total_rows)
    blocks = -(-total_rows // size)
    each = -(-blocks // devices)
    device = lax.axis_index(axis) if devices > 1 else 0

    def block(i: Int[Array, ""]) -> Tree:
        at = (i * devices + device) * size + jnp.arange(size, dtype=jnp.int32)
        inside = at < total_rows
        at = jnp.where(inside, at, 0)
        row = rows.order[at]
        weights = jnp.where(inside, rows.weights[at], 0.0)
        holder = rows.holder[at] if len(rows.holder) else at
        return look(rows.x[row], rows.y[row], weights, holder)

    if not in_order:
        zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(block, jnp.int32(0)))
        total = lax.fori_loop(0, each, lambda i, so_far: jax.tree.map(jnp.add, so_far, block(i)), zero)
        return _over(rows.total, lax.psum(total, axis) if devices > 1 else total)
    results = lax.map(block, jnp.arange(each, dtype=jnp.int32))
    if devices > 1:
        # (device, block of the device) to the order of the blocks.
        results = jax.tree.map(
            lambda a: jnp.swapaxes(a, 0, 1).reshape(-1, *a.shape[2:])[:blocks], lax.all_gather(results, axis)
        )
    # One after the other: what a compiler makes of a sum over all depends on how many devices there are.
    zero = jax.tree.map(lambda a: jnp.zeros(a.shape[1:], a.dtype), results)
    total, _ = lax.scan(lambda so_far, part: (jax.tree.map(jnp.add, so_far, part), None), zero, results)
    return _over(rows.total, total)


def _over(total: Float[Array, "..."], sums: Tree) -> Tree:
    return jax.tree.map(lambda each: each / total, sums)
