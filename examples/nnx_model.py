"""A flax nnx module: `enlist run --dataset digits --model examples/nnx_model.py:factory`.

An nnx module is made with its parameters in it. Handing over the function that makes it, instead of one
module, lets every seed start from weights of its own.
"""

import jax
from flax import nnx


class Net(nnx.Module):
    """One hidden layer for the 8 x 8 images of `digits`."""

    def __init__(self, classes: int, rngs: nnx.Rngs):
        self.hidden = nnx.Linear(64, 32, rngs=rngs)
        self.norm = nnx.LayerNorm(32, rngs=rngs)
        self.out = nnx.Linear(32, classes, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.hidden(x.reshape(x.shape[0], -1))
        return self.out(nnx.relu(self.norm(x)))


def factory(rngs: nnx.Rngs, classes: int = 10) -> nnx.Module:
    return Net(classes, rngs)
