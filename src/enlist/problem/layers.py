"""The layers of the built-in models, written so that every worker may have its own weights.

Under `vmap` over workers a native convolution turns into XLA's grouped convolution, the slow path on a GPU;
on a CPU the native one is slow inside any loop. So a convolution here is shifted views of the image and one
matrix product, which stays a (batched) matrix product whatever is mapped around it.

Images inside a model are `[channels, height, width, batch]`. A row of the matrix of patches is then whole
image rows over the whole batch: long runs of memory for the views, the pool and the product alike, and a side
that is a multiple of the pixels whatever the batch. `to_planes` brings `[batch, height, width, channels]`
into this order, `to_rows` leaves it.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray


def to_planes(x: Float[Array, "batch height width channels"]) -> Float[Array, "channels height width batch"]:
    """Images in the order that the layers here work in."""
    return jnp.transpose(x, (3, 1, 2, 0))


def dense_init(key: PRNGKeyArray, inputs: int, outputs: int, gain: float) -> dict[str, Array]:
    """Zero bias; weights normal, variance gain / inputs: 2 before a relu (He), 1 for a last layer (LeCun)."""
    w = math.sqrt(gain / inputs) * jax.random.normal(key, (outputs, inputs), jnp.float32)
    return {"w": w, "b": jnp.zeros(outputs, jnp.float32)}


def dense(params: dict[str, Array], x: Float[Array, "batch inputs"]) -> Float[Array, "batch outputs"]:
    """W x + b for each row x.

    W has a row for each output: its gradient is then g^T x, which a CPU adds to W 15% faster than x^T g.
    """
    return lax.dot_general(x, params["w"], (((1,), (1,)), ((), ()))) + params["b"].reshape(1, -1)


def conv_init(
    key: PRNGKeyArray, side: int, channels: int, filters: int
) -> Float[Array, "s s channels filters"]:
    """He's normal weights: every convolution of the built-in models is followed by a relu."""
    scale = math.sqrt(2.0 / (side * side * channels))
    return scale * jax.random.normal(key, (side, side, channels, filters), jnp.float32)


def conv(
    x: Float[Array, "channels height width batch"],
    w: Float[Array, "rows columns channels filters"],
    stride: int = 1,
    padding: int = 0,
) -> Float[Array, "filters out_height out_width batch"]:
    """Two-dimensional convolution (as everywhere in deep learning: cross-correlation) without bias.

    $$y_{o,p,q} = \\sum_{i,j,c} w_{i,j,c,o} \\, x_{c,\\, sp+i,\\, sq+j}$$

    Args:
        x: images.
        w: kernels, in the usual order HWIO.
        stride: s, the same both ways.
        padding: how many zeros surround the image on each side.

    Example:
        >>> conv(jnp.ones((1, 4, 4, 2)), jnp.ones((3, 3, 1, 8)), padding=1).shape
        (8, 4, 4, 2)
    """
    if padding:
        x = jnp.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    # The precision asked for around the call is read here: the gradient is traced later, outside of it.
    precision = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    return _conv(_Static(stride, precision), x, w)


class _Static(NamedTuple):
    stride: int
    precision: str | None


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _conv(static: _Static, x: Array, w: Array) -> Array:
    return _conv_forward(static, x, w)[0]


def _conv_forward(static: _Static, x: Array, w: Array) -> tuple[Array, tuple[Array, Array, Array]]:
    p = patches(x, (w.shape[0], w.shape[1]), static.stride)
    kernel = w.reshape(p.shape[0], -1)
    y = jnp.matmul(_written(kernel.T), p.reshape(p.shape[0], -1), precision=static.precision)
    return y.reshape(-1, *p.shape[1:]), (x, w, p)


def _conv_backward(static: _Static, kept: tuple[Array, Array, Array], g: Array) -> tuple[Array, Array]:
    # By hand so that both products have the form that the CPU's matrix library is fast at, and overlapping
    # patches are added up in place. Where no gradient of x is asked for, the compiler drops its part.
    x, w, p = kept
    rows = g.reshape(g.shape[0], -1)
    turned = rows.T if len(p) > len(rows) else _written(rows.T)
    dw = jnp.matmul(p.reshape(p.shape[0], -1), turned, precision=static.precision)
    dp = jnp.matmul(w.reshape(p.shape[0], -1), rows, precision=static.precision)
    dx = _overlap(dp.reshape(p.shape), x.shape, (w.shape[0], w.shape[1]), static.stride)
    return dx, dw.reshape(w.shape)


_conv.defvjp(_conv_forward, _conv_backward)


def patches(
    x: Float[Array, "channels height width batch"], kernel: tuple[int, int], stride: int = 1
) -> Float[Array, "patch out_height out_width batch"]:
    """What lies under the kernel at each output pixel, in the order (row, column, channel).

    First along the width, then along the height: rows + columns views instead of rows * columns.
    """
    (rows, columns), (_, height, width, _) = kernel, x.shape
    down = stride * ((height - rows) // stride) + 1
    across = stride * ((width - columns) // stride) + 1
    x = jnp.concatenate([x[:, :, j : j + across : stride] for j in range(columns)], axis=0)
    return jnp.concatenate([x[:, i : i + down : stride] for i in range(rows)], axis=0)


def _overlap(d: Array, shape: tuple[int, ...], kernel: tuple[int, int], stride: int) -> Array:
    """The transpose of `patches`: every entry is added to the pixel it was copied from."""
    (rows, columns), (_, height, width, _) = kernel, shape
    views = d.reshape(rows, columns, shape[0], *d.shape[1:])
    places = [(i, j) for i in range(rows) for j in range(columns)]

    def in_place(views: Array) -> Array:
        out = jnp.zeros(shape, views.dtype)
        for i, j in places:
            old = lax.slice(out, (0, i, j, 0), (shape[0], i + d.shape[1], j + d.shape[2], shape[3]))
            out = lax.dynamic_update_slice(out, old + views[i, j], (0, i, j, 0))
        return out

    def padded(views: Array) -> Array:
        zero, inner = jnp.zeros((), views.dtype), stride - 1
        down, across = (n + inner * (n - 1) for n in d.shape[1:3])
        sides = lambda i, j: (
            (0, 0, 0),
            (i, height - i - down, inner),
            (j, width - j - across, inner),
            (0, 0, 0),
        )
        return functools.reduce(jnp.add, [lax.pad(views[i, j], zero, sides(i, j)) for i, j in places])

    if stride > 1:
        return padded(views)
    # A CPU is quickest adding in place; a GPU in one kernel that reads each entry once.
    return lax.platform_dependent(views, cpu=in_place, default=padded)


def _written(x: Array) -> Array:
    """x, on a CPU really laid out in this order: XLA would else fold a transpose into a slower product."""
    return lax.platform_dependent(x, cpu=lax.optimization_barrier, default=lambda x: x)


def to_rows(x: Float[Array, "*features batch"]) -> Float[Array, "batch flat"]:
    """Images or features of a batch, flattened for a dense layer, an example a row."""
    return x.reshape(-1, x.shape[-1]).T


@jax.custom_vjp
def max_pool(x: Float[Array, "channels height width batch"]) -> Float[Array, "channels half_h half_w batch"]:
    """The largest of each 2 x 2 window; an odd last row or column is left out.

    Equal largest values share the gradient equally, as in `jnp.max`, whose own gradient is slower.

    Example:
        >>> max_pool(jnp.arange(16.0).reshape(1, 4, 4, 1)).ravel().tolist()
        [5.0, 7.0, 13.0, 15.0]
    """
    return functools.reduce(jnp.maximum, _quarters(x))


def _max_pool_forward(x: Array) -> tuple[Array, tuple[Array, Array]]:
    y = functools.reduce(jnp.maximum, _quarters(x))
    return y, (x, y)


def _max_pool_backward(kept: tuple[Array, Array], g: Array) -> tuple[Array]:
    x, y = kept
    hits = [quarter == y for quarter in _quarters(x)]
    share = g / functools.reduce(jnp.add, [hit.astype(g.dtype) for hit in hits])
    a, b, c, d = (jnp.where(hit, share, jnp.zeros_like(share)) for hit in hits)
    # Stacked axis by axis: a CPU copies runs of memory for this; a broadcast costs it an index per number.
    both = jnp.stack([jnp.stack([a, b], axis=3), jnp.stack([c, d], axis=3)], axis=2)
    channels, height, width, batch = x.shape
    dx = both.reshape(channels, height // 2 * 2, width // 2 * 2, batch)
    return (jnp.pad(dx, ((0, 0), (0, height % 2), (0, width % 2), (0, 0))),)


max_pool.defvjp(_max_pool_forward, _max_pool_backward)


def _quarters(x: Array) -> list[Array]:
    channels, height, width, batch = x.shape
    x = x[:, : height // 2 * 2, : width // 2 * 2].reshape(channels, height // 2, 2, width // 2, 2, batch)
    return [x[:, :, i, :, j] for i in (0, 1) for j in (0, 1)]


def group_norm(
    x: Float[Array, "channels height width batch"],
    scale: Float[Array, " channels"],
    bias: Float[Array, " channels"],
    groups: int = 32,
    epsilon: float = 1e-5,
) -> Float[Array, "channels height width batch"]:
    """Group normalisation: groups of an example's channels to mean 0 and variance 1, then scaled and shifted.

    $$y = \\gamma \\, (x - \\mu_g) / \\sqrt{\\sigma_g^2 + \\epsilon} + \\beta$$, the statistics in float32.

    Args:
        x: images.
        scale: gamma, one a channel.
        bias: beta, one a channel.
        groups: G; where it does not divide the channels, the largest number that divides both is taken.
        epsilon: keeps a constant image finite.

    References:
        Wu and He, `Group Normalization <https://arxiv.org/abs/1803.08494>`_, 2018
    """
    groups = math.gcd(groups, x.shape[0])
    z = x.astype(jnp.float32).reshape(groups, -1, x.shape[3])
    z = z - z.mean(axis=1, keepdims=True)
    z = z * lax.rsqrt(jnp.square(z).mean(axis=1, keepdims=True) + epsilon)
    gamma, beta = (v.astype(jnp.float32).reshape(-1, 1, 1, 1) for v in (scale, bias))
    return (z.reshape(x.shape) * gamma + beta).astype(x.dtype)
