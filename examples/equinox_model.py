"""An equinox module: `enlist run --dataset digits --model examples/equinox_model.py:factory`.

Written for a single example, as equinox modules are; enlist maps it over the batch. The function that makes
it takes the key, so that every seed starts from weights of its own.
"""

import equinox as eqx
import jax


class Net(eqx.Module):
    """One hidden layer for the 8 x 8 images of `digits`."""

    layers: list[eqx.nn.Linear]

    def __init__(self, classes: int, key: jax.Array):
        first, second = jax.random.split(key)
        self.layers = [eqx.nn.Linear(64, 32, key=first), eqx.nn.Linear(32, classes, key=second)]

    def __call__(self, x: jax.Array) -> jax.Array:
        x = jax.nn.relu(self.layers[0](x.ravel()))
        return self.layers[1](x)


def factory(key: jax.Array, classes: int = 10) -> eqx.Module:
    return Net(classes, key)
