"""How much gradients differ: from row to row with one worker (sigma_local), from worker to worker (sigma_global)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from enlist.algorithms.work import Epochs, LocalWork
from enlist.problem.objective import Objective
from enlist.theory.sample import Rows, total

Tree = Any
# Normal quantile of a 95% interval.
QUANTILE = 1.959964


class Value(NamedTuple):
    """A number, and a 95% interval or the bounds of its error.

    Args:
        lower_bound: True for the largest over a sample of workers: others may have more, and the interval is that of
            the workers looked at.
    """

    value: float
    low: float
    high: float
    lower_bound: bool = False


class Slopes(NamedTuple):
    """Gradients of one worker's rows, in numbers.

    Args:
        loss: F_i.
        distance_sq: ||grad F_i - grad f||^2.
        spread: the mean over rows of d = ||row's gradient - grad F_i||^2.
        spread_sq: the mean of d^2.
        along_sq: the mean of (row's gradient - grad F_i, grad F_i - grad f)^2.
    """

    loss: Any
    distance_sq: Any
    spread: Any
    spread_sq: Any
    along_sq: Any


def slopes(
    objective: Objective, params: Tree, rows: Rows, group: Any, blocks: tuple[int, int], gradient: Tree
) -> Slopes:
    """Looks at one worker's rows twice: for their mean gradient, and for each row's distance from it.

    Args:
        blocks: rows at once, for the one and for the other: a row's own gradient is as large as the model.
        gradient: grad f.
    """

    def summed(x: Array, y: Array, weights: Array) -> tuple[Array, Tree]:
        return objective.loss_and_grad(params, x, y, weights)

    loss, mean = total(rows, group, blocks[0], summed)
    apart = jax.tree.map(jnp.subtract, mean, gradient)

    def one(x: Array, y: Array) -> tuple[Array, Array]:
        _, alone = objective.loss_and_grad(params, x[None], y[None], jnp.ones(1))
        # Leaf by leaf, so that a row's own gradient is summed up as it is made and never written.
        off = jax.tree.map(jnp.subtract, alone, mean)
        return optax.tree.norm(off, squared=True), _inner(off, apart)

    def spreads(x: Array, y: Array, weights: Array) -> tuple[Array, Array, Array]:
        spread, along = jax.vmap(one)(x, y)
        return jnp.sum(weights * spread), jnp.sum(weights * spread**2), jnp.sum(weights * along**2)

    return Slopes(loss, optax.tree.norm(apart, squared=True), *total(rows, group, blocks[1], spreads))


def _inner(left: Tree, right: Tree) -> Array:
    return sum(jax.tree.leaves(jax.tree.map(lambda a, b: jnp.sum(a * b), left, right)), jnp.zeros(()))


def batch_share(work: LocalWork, sizes: np.ndarray) -> np.ndarray:
    """The variance of a local step's gradient, as a part of that of one row's, for workers of these sizes.

    `Steps` draw with replacement: 1 / batch. A batch of a shuffled pass has no row twice: less by
    (size - batch) / (size - 1); where the last batch of a pass is shorter, the mean over the pass's steps.
    """
    sizes = np.asarray(sizes, np.float64)
    if work.batch == 0:
        return np.zeros(len(sizes))
    if not isinstance(work, Epochs):
        return np.full(len(sizes), 1 / work.batch)
    batch = np.minimum(work.batch, sizes)
    full, rest = np.floor(sizes / batch), sizes % batch

    def share(rows: np.ndarray) -> np.ndarray:
        return (sizes - rows) / np.maximum(sizes - 1, 1) / np.maximum(rows, 1)

    return (full * share(batch) + np.where(rest > 0, share(rest), 0)) / (full + (rest > 0))


def local(
    found: Slopes, seen: np.ndarray, sizes: np.ndarray, share: np.ndarray, workers: int
) -> tuple[Value, Value]:
    """sigma_local: the root of the mean over workers, and the largest, of a step's gradient variance.

    Args:
        found: of the workers looked at, stacked.
        seen: rows of each that were looked at.
        sizes: rows that each has.
        share: what `batch_share` says.
        workers: m.
    """
    unseen = 1 - seen / sizes
    squared = _row_variance(found, seen, sizes) * share
    doubt = (found.spread_sq - found.spread**2).clip(0) * share**2 * unseen / seen
    return _mean(squared, doubt, workers), _largest(squared, doubt, workers)


def between(
    found: Slopes, seen: np.ndarray, sizes: np.ndarray, workers: int, drawn: float = np.inf
) -> tuple[Value, Value]:
    """sigma_global: the root of the mean over workers, and the largest, of ||grad F_i - grad f||^2.

    What sampled rows add to a distance on average is taken off again.

    Args:
        found, seen, sizes, workers: as for `local`.
        drawn: how many rows grad f was estimated from; infinity where it is exact.
    """
    unseen = 1 - seen / sizes
    variance = _row_variance(found, seen, sizes)
    own = variance * sizes / np.maximum(sizes - 1, 1) * unseen / seen
    squared = found.distance_sq - own
    # A row drawn from all differs from grad f by its worker's distance and its own.
    squared = squared - (variance.mean() + squared.mean()) / (drawn + 1)
    doubt = 4 * found.along_sq * unseen / seen
    return _mean(squared, doubt, workers), _largest(squared, doubt, workers)


def _row_variance(found: Slopes, seen: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Of one row's gradient, over all rows of a worker: unbiased from some, exact from all."""
    among_seen = found.spread * seen / np.maximum(seen - 1, 1)
    return np.where(seen == sizes, found.spread, among_seen * (sizes - 1) / sizes)


def _mean(squared: np.ndarray, doubt: np.ndarray, workers: int) -> Value:
    """The root of the mean of what was measured of some workers, which itself is in doubt by that variance."""
    looked_at = len(squared)
    part, mean = looked_at / workers, squared.mean()
    if looked_at == 1 < workers:
        return Value(float(np.sqrt(max(mean, 0))), 0.0, float("inf"))
    among = (1 - part) * squared.var(ddof=1) / looked_at if looked_at > 1 else 0.0
    half = _quantile(looked_at - 1) * np.sqrt(among + part * doubt.mean() / looked_at)
    return _rooted(mean, half)


def _largest(squared: np.ndarray, doubt: np.ndarray, workers: int) -> Value:
    i = int(np.argmax(squared))
    found = _rooted(squared[i], QUANTILE * np.sqrt(doubt[i]))
    return found._replace(lower_bound=len(squared) < workers)


def _rooted(squared: float, half: float) -> Value:
    low, value, high = (float(np.sqrt(max(each, 0.0))) for each in (squared - half, squared, squared + half))
    return Value(value, low, high)


def _quantile(freedom: int) -> float:
    """Student's 97.5% quantile, by its expansion around the normal one; few workers ask for a wider interval."""
    z, v = QUANTILE, max(freedom, 2)
    return z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
