"""How strongly a loss curves: the eigenvalue of its Hessian that is largest in size, by Lanczos iteration.

The Hessian is never formed: a product with it is the derivative of the gradient in a direction. L bounds the size of
every eigenvalue, negative ones too.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from enlist.problem.objective import Objective
from enlist.theory.sample import Rows, total

Vector = Float[Array, " parameters"]
Product = Callable[[Vector], Vector]
# So many iterations a start is given before it may be judged: at first a random direction sees the average curvature.
PATIENCE = 5


class Extreme(NamedTuple):
    """The eigenvalue of largest size, as far as it was found.

    Args:
        value: the Ritz value, with its sign. Its size never exceeds the true one's, up to rounding.
        residual: ||H v - value v||: some eigenvalue lies within this of `value`.
        steps: products with H that it took.
        vector: v, of length 1.
    """

    value: Float[Array, ""]
    residual: Float[Array, ""]
    steps: Int[Array, ""]
    vector: Vector


class _State(NamedTuple):
    basis: Float[Array, "iterations parameters"]
    next: Vector
    diagonal: Float[Array, " iterations"]
    beside: Float[Array, " iterations"]
    steps: Int[Array, ""]
    value: Float[Array, ""]
    residual: Float[Array, ""]
    combination: Float[Array, " iterations"]


def lanczos(product: Product, start: Vector, iterations: int, tolerance: Any, floor: Any = 0.0) -> Extreme:
    """Lanczos iteration with full reorthogonalisation, from a random start.

    Args:
        product: `H v`, for a symmetric H.
        start: any direction that is not 0.
        iterations: products at most; so many vectors are kept.
        tolerance: enough is the residual being this part of the value.
        floor: an eigenvalue that will not come to this is not wanted exactly: the iteration ends early.
    """
    iterations = min(iterations, start.size)

    def unfinished(state: _State) -> Bool[Array, ""]:
        size = jnp.abs(state.value)
        hopeless = (state.steps >= PATIENCE) & (size + state.residual < floor)
        return (state.steps < iterations) & (state.residual > tolerance * size) & ~hopeless

    def step(state: _State) -> _State:
        j = state.steps
        basis = state.basis.at[j].set(state.next)
        image = product(state.next)
        diagonal = state.diagonal.at[j].set(jnp.vdot(state.next, image))
        # Twice is enough: once leaves a trace as large as what cancels.
        for _ in range(2):
            image = image - (basis @ image) @ basis
        length = jnp.linalg.norm(image)
        # What is left of an exhausted space is rounding.
        length = jnp.where(length > 1e-6 * jnp.abs(diagonal).max(), length, 0.0)
        value, residual, combination = _ritz(diagonal, state.beside, j, length)
        following = image / jnp.maximum(length, 1e-30)
        return _State(
            basis,
            following,
            diagonal,
            state.beside.at[j].set(length),
            j + 1,
            value,
            residual,
            combination,
        )

    none = jnp.zeros(iterations)
    begin = _State(
        jnp.zeros((iterations, start.size)),
        start / jnp.linalg.norm(start),
        none,
        none,
        jnp.int32(0),
        jnp.zeros(()),
        jnp.asarray(jnp.inf),
        none,
    )
    end = lax.while_loop(unfinished, step, begin)
    vector = end.combination @ end.basis
    return Extreme(end.value, end.residual, end.steps, vector / jnp.maximum(jnp.linalg.norm(vector), 1e-30))


def _ritz(diagonal: Array, beside: Array, j: Int[Array, ""], length: Array) -> tuple[Array, Array, Array]:
    """The largest eigenvalue in size of the tridiagonal matrix after step j, its residual, its eigenvector.

    Places that are not reached yet are zero and stand apart from the rest.
    """
    beside = beside[:-1]
    values, vectors = jnp.linalg.eigh(jnp.diag(diagonal) + jnp.diag(beside, 1) + jnp.diag(beside, -1))
    largest = jnp.argmax(jnp.abs(values))
    return values[largest], length * jnp.abs(vectors[j, largest]), vectors[:, largest]


def hessian(
    objective: Objective, params: Vector, unravel: Any, rows: Rows, group: Any, block: int
) -> Product:
    """The product with the Hessian of the loss on a group of rows, at `params`.

    The objective must be of the highest precision: kernels that round products have no second derivatives.
    """

    def product(direction: Vector) -> Vector:
        def look(x: Array, y: Array, weights: Array) -> Vector:
            slope = jax.grad(lambda p: objective.loss(unravel(p), x, y, weights))
            return jax.jvp(slope, (params,), (direction,))[1]

        return total(rows, group, block, look)

    return product
