"""A flax linen module as it is: `enlist run --model examples/linen_model.py:factory`."""

import jax
from flax import linen as nn


class Net(nn.Module):
    """A small network for images of any size: one hidden layer, layer norm (batch norm does not average)."""

    classes: int = 10
    hidden: int = 64

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = x.reshape(x.shape[0], -1)
        x = nn.relu(nn.LayerNorm()(nn.Dense(self.hidden)(x)))
        return nn.Dense(self.classes)(x)


def factory(classes: int = 10) -> nn.Module:
    return Net(classes=classes)
