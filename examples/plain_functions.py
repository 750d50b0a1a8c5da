"""Two plain functions, no library: `enlist run --model examples/plain_functions.py:factory`."""

from collections.abc import Callable

import jax
import jax.numpy as jnp


def factory(classes: int = 10, hidden: int = 64) -> tuple[Callable, Callable]:
    def init(key: jax.Array, x: jax.Array) -> dict[str, jax.Array]:
        first, second = jax.random.split(key)
        inputs = x[0].size
        return {
            "w1": jax.random.normal(first, (inputs, hidden)) * (2 / inputs) ** 0.5,
            "b1": jnp.zeros((1, hidden)),
            "w2": jax.random.normal(second, (hidden, classes)) * (1 / hidden) ** 0.5,
            "b2": jnp.zeros((1, classes)),
        }

    def apply(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        x = jnp.tanh(x.reshape(x.shape[0], -1) @ params["w1"] + params["b1"])
        return x @ params["w2"] + params["b2"]

    return init, apply
