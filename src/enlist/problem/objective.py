"""What is minimised: the model's loss on examples, with weights, in the precision asked for."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from enlist.errors import unknown
from enlist.problem.models import Model

PRECISIONS = ("float32", "bf16", "highest")

Params = Any
Weights = Float[Array, " rows"]


class Objective(NamedTuple):
    """Weighted sums over a batch of examples; weights of 1/size make them means, a weight of 0 removes a row.

    Args:
        loss: `loss(params, x, y, weights)`: the weighted sum of the per-example losses.
        loss_and_grad: the same with its gradient in `params`.
        scores: `scores(params, x, y)`: per-example (loss, metric).
        augment: `augment(key, x)`: a batch varied at random; None where rows are taken as they are.
    """

    loss: Callable[[Params, Array, Array, Weights], Float[Array, ""]]
    loss_and_grad: Callable[[Params, Array, Array, Weights], tuple[Float[Array, ""], Params]]
    scores: Callable[[Params, Array, Array], tuple[Weights, Weights]]
    augment: Callable[[Key[Array, ""], Array], Array] | None = None


def objective(model: Model, precision: str = "float32") -> Objective:
    """The model's objective.

    `float32` is jax's default for the platform (tensor cores of a GPU may round products to TF32), `highest`
    keeps every product in full float32, `bf16` computes in bfloat16 and keeps parameters, loss and sums in
    float32.
    """
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)

    def outputs(params: Params, x: Array) -> Array:
        x = inputs(x)
        if precision == "bf16":
            params, x = _cast((params, x), jnp.bfloat16)
            return _cast(model.apply(params, x), jnp.float32)
        if precision == "highest":
            with jax.default_matmul_precision("highest"):
                return model.apply(params, x)
        return model.apply(params, x)

    def loss(params: Params, x: Array, y: Array, weights: Weights) -> Float[Array, ""]:
        return jnp.sum(weights * model.loss(outputs(params, x), y))

    def scores(params: Params, x: Array, y: Array) -> tuple[Weights, Weights]:
        out = outputs(params, x)
        return model.loss(out, y), model.metric(out, y)

    def augment(key: Key[Array, ""], x: Array) -> Array:
        assert model.augment is not None
        return model.augment(key, inputs(x))

    return Objective(loss, jax.value_and_grad(loss), scores, augment if model.augment else None)


def initial(model: Model, key: Key[Array, ""], x: Array) -> Params:
    """The model's initial parameters for examples like these."""
    return model.init(key, inputs(x))


def inputs(x: Array) -> Array:
    """What a model sees: bytes are pixels, scaled to [0, 1]."""
    return jnp.asarray(x, jnp.float32) / 255 if x.dtype == jnp.uint8 else x


def _cast(tree: Any, dtype: Any) -> Any:
    return jax.tree.map(lambda a: a.astype(dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a, tree)
