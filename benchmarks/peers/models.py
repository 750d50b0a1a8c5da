"""The small CNN of pfl-research's CIFAR-10 benchmark as an enlist model."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from enlist import Model
from enlist.problem import layers


@functools.cache
def pfl_cnn(classes: int = 10) -> Model:
    """3 x 3 convolutions to 32 and 64 channels, 2 x 2 max-pool, 128 relu units, linear: 1,626,442 parameters.

    As `simple_cnn` in benchmarks/model/pytorch/cnn.py of apple/pfl-research, without its two dropout layers (a model
    here is given no random key). No padding; weights start as Glorot proposes, uniformly.
    """

    def init(key: jax.Array, x: Any) -> dict[str, Any]:
        keys = jax.random.split(key, 4)
        height, width, channels = x.shape[1:]
        flat = ((height - 4) // 2) * ((width - 4) // 2) * 64
        return {
            "conv1": {"w": _glorot(keys[0], (3, 3, channels, 32)), "b": jnp.zeros(32)},
            "conv2": {"w": _glorot(keys[1], (3, 3, 32, 64)), "b": jnp.zeros(64)},
            "dense": {"w": _glorot(keys[2], (128, flat)), "b": jnp.zeros(128)},
            "out": {"w": _glorot(keys[3], (classes, 128)), "b": jnp.zeros(classes)},
        }

    def apply(params: dict[str, Any], x: Any) -> jax.Array:
        x = layers.to_planes(jnp.asarray(x).astype(params["conv1"]["w"].dtype))
        x = layers.conv_planes(x, params["conv1"]["w"])
        x = jax.nn.relu(x + params["conv1"]["b"].reshape(-1, 1, 1, 1))
        # Bias and relu are monotone, so they may follow the pool, where a quarter of the work is left.
        x = layers.conv_pool(x, params["conv2"]["w"])
        x = jax.nn.relu(x + params["conv2"]["b"].reshape(-1, 1, 1, 1))
        x = jax.nn.relu(layers.dense(params["dense"], layers.to_rows(x)))
        return layers.dense(params["out"], x)

    return Model(init, apply, name="pfl_cnn", classes=classes)


def _glorot(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Uniform within sqrt(6 / (inputs + outputs))."""
    window = math.prod(shape[:-2]) if len(shape) == 4 else 1
    bound = math.sqrt(6.0 / (window * (shape[-2] + shape[-1])))
    return jax.random.uniform(key, shape, jnp.float32, -bound, bound)
