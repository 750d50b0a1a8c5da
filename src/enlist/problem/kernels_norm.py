"""Group normalisation for a GPU: a kernel for each direction that reads and writes every number once.

A block of threads holds some channels of one image, whole groups of them, in its registers. So mean, variance and
the sums of the gradient cost no further pass over memory, nor do the relu and the sum that often follow.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array

# Numbers that a block can hold: going back it has two arrays of them.
FORWARD_ROOM, BACKWARD_ROOM = 2**15, 2**14


class Norm(NamedTuple):
    """What is normalised, and what follows.

    Args:
        images, pixels, channels: of what is read.
        width: channels of a group.
        epsilon: as everywhere.
        relu: whether a relu follows.
        sum: whether something is added before that.
    """

    images: int
    pixels: int
    channels: int
    width: int
    epsilon: float
    relu: bool = False
    sum: bool = False

    @property
    def fits(self) -> bool:
        """Whether blocks can hold whole groups, both ways."""
        return tile(self, FORWARD_ROOM) is not None and tile(self, BACKWARD_ROOM) is not None


class Tile(NamedTuple):
    """Channels that a block holds, and its warps."""

    channels: int
    warps: int

    @property
    def compiled(self) -> Any:
        """As Triton wants to be told."""
        return triton.CompilerParams(num_warps=self.warps, num_stages=1)


def tile(n: Norm, room: int) -> Tile | None:
    """What a block holds; None where whole groups are too large, or no power of two."""
    pixels = _power(n.pixels)
    # 64 channels are as long a run of memory as is ever useful.
    channels = max(n.width, 8, min(_power(n.channels), room // pixels, 64))
    if n.width != _power(n.width) or pixels * channels > 2 * room:
        return None
    return Tile(channels, max(4, min(16, pixels * channels // 2048)))


def forward(n: Norm, x: Array, scale: Array, bias: Array, added: Array | None) -> Array:
    """relu(normalised x + added), or what of it is asked for."""
    t = tile(n, FORWARD_ROOM)
    assert t is not None
    flat = [a.reshape(-1, n.channels) for a in (x, added) if a is not None]
    y = pl.pallas_call(
        partial(_forward, n, t),
        out_shape=jax.ShapeDtypeStruct(flat[0].shape, x.dtype),
        grid=(pl.cdiv(n.channels, t.channels), n.images),
        compiler_params=t.compiled,
        name="group_norm",
    )(scale, bias, *flat)
    return y.reshape(x.shape)


def backward(
    n: Norm, x: Array, scale: Array, bias: Array, y: Array, dy: Array
) -> tuple[Array, Array, Array, Array | None]:
    """Gradients of x, scale, bias, and of what was added. y, the result, is read where something was."""
    t = tile(n, BACKWARD_ROOM)
    assert t is not None
    flat = [a.reshape(-1, n.channels) for a in ([x, dy, y] if n.sum and n.relu else [x, dy])]
    like = jax.ShapeDtypeStruct(flat[0].shape, x.dtype)
    part = jax.ShapeDtypeStruct((n.images, n.channels), jnp.float32)
    made = pl.pallas_call(
        partial(_backward, n, t),
        out_shape=[part, part, like] + [like] * (n.sum and n.relu),
        grid=(pl.cdiv(n.channels, t.channels), n.images),
        compiler_params=t.compiled,
        name="gradient_of_group_norm",
    )(scale, bias, *flat)
    dscale, dbias = (a.sum(axis=0).astype(scale.dtype) for a in made[:2])
    dadded = made[-1].reshape(x.shape) if n.relu else dy
    return made[2].reshape(x.shape), dscale, dbias, dadded if n.sum else None


def _forward(n: Norm, t: Tile, scale_ref: Any, bias_ref: Any, x_ref: Any, *refs: Any) -> None:
    where, mask, c = _place(n, t)
    scale, bias = (triton.load(ref.at[c], mask=c < n.channels, other=0) for ref in (scale_ref, bias_ref))
    centred, inverse = _normalised(n, x_ref, where, mask, c)
    y = centred * inverse * scale.astype(jnp.float32)[None, :] + bias.astype(jnp.float32)[None, :]
    if n.sum:
        y += triton.load(refs[0].at[where], mask=mask, other=0).astype(jnp.float32)
    if n.relu:
        y = jnp.maximum(y, 0.0)
    triton.store(refs[-1].at[where], y.astype(refs[-1].dtype), mask=mask)


def _backward(n: Norm, t: Tile, scale_ref: Any, bias_ref: Any, x_ref: Any, dy_ref: Any, *refs: Any) -> None:
    where, mask, c = _place(n, t)
    given, refs = (refs[:1], refs[1:]) if n.sum and n.relu else ((), refs)
    scale, bias = (
        triton.load(ref.at[c], mask=c < n.channels, other=0).astype(jnp.float32)
        for ref in (scale_ref, bias_ref)
    )
    centred, inverse = _normalised(n, x_ref, where, mask, c)
    unit = centred * inverse
    d = triton.load(dy_ref.at[where], mask=mask, other=0).astype(jnp.float32)
    if n.relu:
        above = (
            triton.load(given[0].at[where], mask=mask, other=0).astype(jnp.float32)
            if n.sum
            else unit * scale[None, :] + bias[None, :]
        )
        d = jnp.where(above > 0, d, 0.0)
    dscale, dbias = (d * unit).sum(axis=0), d.sum(axis=0)
    along, level = (_over_groups(n, c, scale * v) / (n.pixels * n.width) for v in (dscale, dbias))
    dx = inverse * (scale[None, :] * d - level[None, :] - unit * along[None, :])
    image = pl.program_id(1)
    triton.store(refs[0].at[image, c], dscale, mask=c < n.channels)
    triton.store(refs[1].at[image, c], dbias, mask=c < n.channels)
    triton.store(refs[2].at[where], dx.astype(refs[2].dtype), mask=mask)
    if n.sum and n.relu:
        triton.store(refs[3].at[where], d.astype(refs[3].dtype), mask=mask)


def _place(n: Norm, t: Tile) -> tuple[Any, Array, Array]:
    c = pl.program_id(0) * t.channels + jnp.arange(t.channels)
    pixel = jnp.arange(_power(n.pixels))
    where = ((pl.program_id(1) * n.pixels + pixel)[:, None], c[None, :])
    return where, (pixel < n.pixels)[:, None] & (c < n.channels)[None, :], c


def _normalised(n: Norm, x_ref: Any, where: Any, mask: Array, c: Array) -> tuple[Array, Array]:
    """x less its group's mean, and 1 / its deviation by channel."""
    z = triton.load(x_ref.at[where], mask=mask, other=0).astype(jnp.float32)
    mean = _over_groups(n, c, z.sum(axis=0)) / (n.pixels * n.width)
    centred = jnp.where(mask, z - mean[None, :], 0.0)
    variance = _over_groups(n, c, jnp.square(centred).sum(axis=0)) / (n.pixels * n.width)
    return centred, lax.rsqrt(variance + n.epsilon)[None, :]


def _over_groups(n: Norm, c: Array, v: Array) -> Array:
    """Each channel's sum over its group."""
    group = lax.div(c, n.width)
    return jnp.where(group[:, None] == group[None, :], v[None, :], 0.0).sum(axis=1)


def _power(size: int) -> int:
    return 1 << (size - 1).bit_length()
