"""The compiled passes over a problem's rows from which its constants are computed: three programs for any model."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Int, Key

from enlist.algorithms.work import Steps
from enlist.engine import execution, platform
from enlist.engine.plan import AXIS
from enlist.engine.session import EVALUATED_ROWS, load_of
from enlist.engine.task import Task
from enlist.problem.models import Model
from enlist.problem.objective import objective
from enlist.theory.curvature import Extreme, hessian, lanczos
from enlist.theory.noise import Slopes, slopes
from enlist.theory.sample import Rows, total

Tree = Any
# What the rows of one block may take on a CPU, and which part of an accelerator's memory.
BLOCK_BYTES, BLOCK_SHARE = 2**26, 1 / 32
# Rows at once where each has a gradient of its own, on a CPU: more of them only leave its cache.
APART_ROWS = 16
# A product with the Hessian keeps about this many times what a gradient does.
SECOND_ORDER = 3


class Shape(NamedTuple):
    """Everything that shapes the programs.

    Args:
        block: rows at once in sums over rows.
        apart: rows at once where each has a gradient of its own.
        iterations: Lanczos iterations at most.
    """

    model: Model
    block: int
    apart: int
    iterations: int
    mesh: Mesh


class Whole(NamedTuple):
    """f, its gradient, and its Hessian's product with a direction."""

    loss: Float[Array, ""]
    gradient: Float[Array, " parameters"]
    curved: Float[Array, " parameters"]


class ByWorker(NamedTuple):
    """Of each worker looked at: the largest eigenvalue of its Hessian and how it was found; its gradients."""

    value: Float[Array, " workers"]
    residual: Float[Array, " workers"]
    steps: Int[Array, " workers"]
    slopes: Slopes


class Passes(NamedTuple):
    """The programs.

    Args:
        curvature: `curvature(params, rows, key, tolerance) -> Extreme` of f.
        whole: `whole(params, rows, direction) -> Whole`, one pass over f.
        workers: `workers(params, rows, gradient, key, tolerance) -> ByWorker`, given grad f.
    """

    curvature: Callable[..., Extreme]
    whole: Callable[..., Whole]
    workers: Callable[..., ByWorker]


def shape_for(task: Task, iterations: int, mesh: Mesh) -> Shape:
    """Blocks that leave memory alone: as many rows at once as fit a bounded room."""
    load = load_of(task)._replace(precision="highest")
    few, many = (execution.lane_bytes(load._replace(work=Steps(1, batch=rows))) for rows in (1, 65))
    a_row = max(1.0, (many - few) / 64)
    limit = platform.memory_bytes()
    room = BLOCK_BYTES if limit is None else limit * BLOCK_SHARE
    most = EVALUATED_ROWS["cpu" if limit is None else "gpu"]
    block = max(1, min(most, int(room / (SECOND_ORDER * a_row))))
    # `few` holds the parameters a few times: one row's own gradient, and what it is compared with.
    apart = max(1, min(block, APART_ROWS if limit is None else block, int(room / few)))
    return Shape(task.model, block, apart, iterations, mesh)


@lru_cache(maxsize=16)
def passes(shape: Shape) -> Passes:
    """Builds (once for equal shapes) the programs. Every device takes its part; all return the whole."""
    devices = shape.mesh.devices.size
    # Of the problem itself, whatever precision a run computes in: rounding is no noise of the theory's kind, and the
    # kernels of lower precisions have no second derivatives.
    exact = objective(shape.model, "highest")

    def device() -> Any:
        return lax.axis_index(AXIS) if devices > 1 else 0

    def summed(tree: Tree) -> Tree:
        return lax.psum(tree, AXIS) if devices > 1 else tree

    def curvature(params: Tree, rows: Rows, key: Key[Array, ""], tolerance: Any) -> Extreme:
        at, unravel = ravel_pytree(params)
        mine = hessian(exact, at, unravel, rows, device(), shape.block)
        start = jax.random.normal(key, at.shape)
        return lanczos(lambda v: summed(mine(v)), start, shape.iterations, tolerance)

    def whole(params: Tree, rows: Rows, direction: Array) -> Whole:
        at, unravel = ravel_pytree(params)

        def look(x: Array, y: Array, weights: Array) -> Whole:
            slope = jax.value_and_grad(lambda p: exact.loss(unravel(p), x, y, weights))
            (loss, gradient), (_, curved) = jax.jvp(slope, (at,), (direction,))
            return Whole(loss, gradient, curved)

        return summed(total(rows, device(), shape.block, look))

    def workers(params: Tree, rows: Rows, gradient: Array, key: Key[Array, ""], tolerance: Any) -> ByWorker:
        at, unravel = ravel_pytree(params)
        count = len(rows.counts)

        def look(i: Any, carry: tuple[Array, ByWorker]) -> tuple[Array, ByWorker]:
            worst, so_far = carry
            worker = i * devices + device()
            product = hessian(exact, at, unravel, rows, worker, shape.block)
            start = jax.random.normal(jax.random.fold_in(key, worker), at.shape)
            extreme = lanczos(product, start, shape.iterations, tolerance, floor=worst)
            seen = slopes(exact, params, rows, worker, (shape.block, shape.apart), unravel(gradient))
            found = ByWorker(extreme.value, extreme.residual, extreme.steps, seen)
            so_far = jax.tree.map(lambda all_, one: all_.at[worker].set(one), so_far, found)
            return jnp.maximum(worst, jnp.abs(extreme.value)), so_far

        blank = jnp.zeros(count)
        nothing = ByWorker(blank, blank, jnp.zeros(count, jnp.int32), Slopes(*[blank] * len(Slopes._fields)))
        own = (count - device() + devices - 1) // devices
        return summed(lax.fori_loop(0, own, look, (jnp.zeros(()), nothing))[1])

    return Passes(*(_on_all(each, shape.mesh) for each in (curvature, whole, workers)))


def _on_all(function: Callable[..., Tree], mesh: Mesh) -> Callable[..., Tree]:
    if mesh.devices.size == 1:
        return jax.jit(function)
    # Everything is replicated: which part is a device's own it knows by its number.
    everywhere = PartitionSpec()
    split = jax.shard_map(function, mesh=mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False)
    return jax.jit(split)
