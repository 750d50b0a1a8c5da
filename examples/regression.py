"""A number instead of a class: `enlist run --dataset FILE.npz --model examples/regression.py:factory`.

Linear regression. What makes it one is the loss, and a metric that says something about numbers.
"""

import jax
import jax.numpy as jnp

from enlist.problem.models import Model, negative_squared_error, squared_error


def init(key: jax.Array, x: jax.Array) -> dict[str, jax.Array]:
    return {"w": jnp.zeros((x[0].size, 1)), "b": jnp.zeros((1, 1))}


def apply(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return x.reshape(x.shape[0], -1) @ params["w"] + params["b"]


def factory() -> Model:
    return Model(
        init,
        apply,
        loss=squared_error,
        metric=negative_squared_error,
        metric_name="negative_squared_error",
        name="linear regression",
    )
