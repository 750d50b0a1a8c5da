"""Training images varied at random, anew in every local step: a worker with few rows then learns less by heart.

`augment(key, x) -> x` takes a batch as the model sees it, bytes already scaled to [0, 1], and gives one like it.
Every image has a key of its own, so that what becomes of it does not depend on how many stand beside it.

References:
    He et al., `Deep Residual Learning for Image Recognition <https://arxiv.org/abs/1512.03385>`_, 2015, sec. 4.2
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, Float, Key

from enlist.errors import BadInput

Images = Float[Array, " batch height width channels"]
# An image is moved by one part in so many of its side at most, but by a pixel where the side has a few.
PART, FEW = 8, 4


def crop(key: Key[Array, ""], x: Images) -> Images:
    """Moves each image by up to an eighth of its side up or down and to either side; zeros come in where it was.

    By a pixel where an eighth is less than one; along a side of fewer than four pixels not at all.

    Example:
        >>> crop(random.key(0), jnp.ones((2, 28, 28, 1))).shape
        (2, 28, 28, 1)
    """
    return _each(_moved, key, x)


def flip(key: Key[Array, ""], x: Images) -> Images:
    """Mirrors each image, left for right, or leaves it, with equal chances."""
    return _each(_mirrored, key, x)


def crop_flip(key: Key[Array, ""], x: Images) -> Images:
    """Both: what is usual for photographs."""
    return _each(lambda own, image: _mirrored(own, _moved(own, image)), key, x)


def reach(side: int) -> int:
    """Pixels that an image with such a side is moved by, at most.

    Example:
        >>> reach(32), reach(28), reach(6), reach(3)
        (4, 3, 1, 0)
    """
    return max(1, side // PART) if side >= FEW else 0


def _moved(key: Key[Array, ""], image: Array) -> Array:
    up, aside = (reach(side) for side in image.shape[:2])
    if not up and not aside:
        height, width, _ = image.shape
        raise BadInput(f"images of {height} x {width} pixels are too small to be moved")
    wide = jnp.pad(image, ((up, up), (aside, aside), (0, 0)))
    least, most = jnp.zeros(2, jnp.int32), jnp.asarray([2 * up + 1, 2 * aside + 1], jnp.int32)
    top, left = random.randint(random.fold_in(key, 0), (2,), least, most)
    return lax.dynamic_slice(wide, (top, left, 0), image.shape)


def _mirrored(key: Key[Array, ""], image: Array) -> Array:
    return jnp.where(random.bernoulli(random.fold_in(key, 1)), image[:, ::-1], image)


def _each(change: Callable[[Key[Array, ""], Array], Array], key: Key[Array, ""], x: Images) -> Images:
    if x.ndim != 4:
        raise BadInput(f"images [height, width, channels] can be moved and mirrored, not {x.shape[1:]}")
    keys = jax.vmap(random.fold_in, (None, 0))(key, jnp.arange(len(x)))
    return jax.vmap(change)(keys, x)
