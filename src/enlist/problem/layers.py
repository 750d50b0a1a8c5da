"""The layers of the built-in models, written so that every worker may have its own weights.

Under `vmap` over workers a native convolution turns into XLA's grouped convolution, the slow path on a GPU;
on a CPU the native one is slow inside any loop. So a convolution here is shifted views of the image and one
matrix product, which stays a (batched) matrix product whatever is mapped around it. On a GPU of NVIDIA's the
views are never written down: kernels of our own read them out of the image (see `kernels_conv`).

There are two, because two orders of the axes are fast. `conv` works on `[batch, height, width, channels]`: with
many channels, a view is long aligned runs of memory. `conv_planes` works on `[channels, height, width, batch]`:
with few channels, the runs are whole image rows over the whole batch instead. `to_planes` brings images into
that order, `to_rows` leaves it.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

# Where products may be rounded to what tensor cores take; None is jax's default.
ROUGH = (None, "default", "tensorfloat32", "bfloat16")


class Start(NamedTuple):
    """How weights are drawn before the first step: each gives a layer's weights `w` and biases `b`.

    Args:
        dense: of `(key, inputs, outputs)`; `last` where no relu follows.
        filters: of a convolution that a relu follows: `(key, side, channels, filters)`, `w` in the order HWIO.
    """

    dense: Callable[..., dict[str, Array]]
    filters: Callable[[PRNGKeyArray, int, int, int], dict[str, Array]]


def he_dense(key: PRNGKeyArray, inputs: int, outputs: int, last: bool = False) -> dict[str, Array]:
    """Weights normal, of variance 2 / inputs before a relu (He) and 1 / inputs in a last layer (LeCun); biases 0."""
    w = math.sqrt((1.0 if last else 2.0) / inputs) * jax.random.normal(key, (outputs, inputs), jnp.float32)
    return {"w": w, "b": jnp.zeros(outputs, jnp.float32)}


def he_filters(key: PRNGKeyArray, side: int, channels: int, filters: int) -> dict[str, Array]:
    """As before a relu in `he_dense`; an output of a convolution has side * side * channels inputs."""
    scale = math.sqrt(2.0 / (side * side * channels))
    w = scale * jax.random.normal(key, (side, side, channels, filters), jnp.float32)
    return {"w": w, "b": jnp.zeros(filters, jnp.float32)}


def uniform_dense(key: PRNGKeyArray, inputs: int, outputs: int, last: bool = False) -> dict[str, Array]:
    """Weights and biases uniform between -1 / sqrt(inputs) and 1 / sqrt(inputs), as PyTorch's layers start.

    So weights have a sixth of He's variance, and a third of LeCun's.
    """
    return _uniform(key, (outputs, inputs), outputs, inputs)


def uniform_filters(key: PRNGKeyArray, side: int, channels: int, filters: int) -> dict[str, Array]:
    """As `uniform_dense`, with side * side * channels inputs."""
    return _uniform(key, (side, side, channels, filters), filters, side * side * channels)


def _uniform(key: PRNGKeyArray, shape: tuple[int, ...], outputs: int, inputs: int) -> dict[str, Array]:
    weights, biases = jax.random.split(key)
    bound = 1.0 / math.sqrt(inputs)
    return {
        "w": jax.random.uniform(weights, shape, jnp.float32, -bound, bound),
        "b": jax.random.uniform(biases, (outputs,), jnp.float32, -bound, bound),
    }


STARTS = {"he": Start(he_dense, he_filters), "uniform": Start(uniform_dense, uniform_filters)}


def dense(params: dict[str, Array], x: Float[Array, "batch inputs"]) -> Float[Array, "batch outputs"]:
    """W x + b for each row x.

    W has a row for each output: its gradient is then g^T x, which a CPU adds to W 15% faster than x^T g.
    """
    return lax.dot_general(x, params["w"], (((1,), (1,)), ((), ()))) + params["b"].reshape(1, -1)


def conv(
    x: Float[Array, "batch height width channels"],
    w: Float[Array, "rows columns channels filters"],
    stride: int = 1,
    padding: int = 0,
) -> Float[Array, "batch out_height out_width filters"]:
    """Two-dimensional convolution (as everywhere in deep learning: cross-correlation) without bias.

    $$y_{p,q,o} = \\sum_{i,j,c} w_{i,j,c,o} \\, x_{sp+i,\\, sq+j,\\, c}$$

    Args:
        x: images.
        w: kernels, in the usual order HWIO.
        stride: s, the same both ways.
        padding: how many zeros surround the image on each side.

    Example:
        >>> conv(jnp.ones((2, 5, 5, 3)), jnp.ones((3, 3, 3, 8)), stride=2, padding=1).shape
        (2, 3, 3, 8)
    """
    if w.shape[:2] != (1, 1) and (kernels := _kernels(x, w)):
        plain = functools.partial(_conv, stride=stride, padding=padding)
        return kernels.conv(plain, stride, padding, x, w)
    return _conv(x, w, stride, padding)


def _conv(x: Array, w: Array, stride: int, padding: int) -> Array:
    rows, columns, _, filters = w.shape
    if padding:
        x = jnp.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    down = stride * ((x.shape[1] - rows) // stride) + 1
    across = stride * ((x.shape[2] - columns) // stride) + 1
    views = [
        x[:, i : i + down : stride, j : j + across : stride] for i in range(rows) for j in range(columns)
    ]
    patches = jnp.concatenate(views, axis=-1)
    # One flat matrix: a product over four axes would be a batch of thin ones.
    y = patches.reshape(-1, patches.shape[-1]) @ w.reshape(-1, filters)
    return y.reshape(*patches.shape[:3], filters)


def to_planes(x: Float[Array, "batch height width channels"]) -> Float[Array, "channels height width batch"]:
    """Images in the order of `conv_planes` and `max_pool`."""
    return jnp.transpose(x, (3, 1, 2, 0))


def to_rows(x: Float[Array, "channels height width batch"]) -> Float[Array, "batch flat"]:
    """Planes, flattened for a dense layer, an example a row."""
    return _written(x.reshape(-1, x.shape[-1]).T)


def conv_planes(
    x: Float[Array, "channels height width batch"], w: Float[Array, "rows columns channels filters"]
) -> Float[Array, "filters out_height out_width batch"]:
    """The same convolution with the batch last, stride 1 and no padding.

    Example:
        >>> conv_planes(jnp.ones((1, 28, 28, 2)), jnp.ones((5, 5, 1, 32))).shape
        (32, 24, 24, 2)
    """
    if kernels := _kernels(x, w):
        return _swapped(functools.partial(kernels.conv, _conv_by_planes, 1, 0), x, w)
    return _planes(x, w)


def _planes(x: Array, w: Array) -> Array:
    # The precision asked for around the call is read here: the gradient is traced later, outside of it.
    return _conv_planes(jax.config.jax_default_matmul_precision, x, w)  # type: ignore[attr-defined]


def conv_pool(
    x: Float[Array, "channels height width batch"], w: Float[Array, "rows columns channels filters"]
) -> Float[Array, "filters half_height half_width batch"]:
    """`max_pool(conv_planes(x, w))`; a GPU does both at once.

    Example:
        >>> conv_pool(jnp.ones((1, 28, 28, 2)), jnp.ones((5, 5, 1, 32))).shape
        (32, 12, 12, 2)
    """
    if kernels := _kernels(x, w):
        return _swapped(functools.partial(kernels.conv_pool, _conv_pool_by_planes), x, w)
    return max_pool(_planes(x, w))


def _swapped(conv: Any, x: Array, w: Array) -> Array:
    """A convolution of images, channels last, on planes. A GPU's compiler takes the swaps as ways to read."""
    return jnp.transpose(conv(jnp.transpose(x, (3, 1, 2, 0)), w), (3, 1, 2, 0))


def _conv_by_planes(x: Array, w: Array) -> Array:
    return _swapped(_planes, x, w)


def _conv_pool_by_planes(x: Array, w: Array) -> Array:
    return _swapped(lambda x, w: max_pool(_planes(x, w)), x, w)


def _kernels(*arrays: Array) -> Any:
    """The module of kernels where they may be used: not if products must be exact."""
    rough = jax.config.jax_default_matmul_precision in ROUGH  # type: ignore[attr-defined]
    kinds = {a.dtype for a in arrays}
    if not rough or kinds not in ({jnp.dtype("float32")}, {jnp.dtype("bfloat16")}) or not _on_gpu():
        return None
    from enlist.problem import kernels

    return kernels


def _on_gpu() -> bool:
    return jax.default_backend() == "gpu"


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _conv_planes(precision: str | None, x: Array, w: Array) -> Array:
    return _forward(precision, x, w)[0]


def _forward(precision: str | None, x: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    rows, columns, channels, filters = w.shape
    down, across = x.shape[1] - rows + 1, x.shape[2] - columns + 1
    # Along the width, then along the height: rows + columns views instead of rows * columns.
    wide = jnp.concatenate([x[:, :, j : j + across] for j in range(columns)], axis=0)
    patches = jnp.concatenate([wide[:, i : i + down] for i in range(rows)], axis=0)
    patches = patches.reshape(rows * columns * channels, -1)
    y = jnp.matmul(_written(w.reshape(-1, filters).T), patches, precision=precision)
    return y.reshape(filters, down, across, -1), (w, patches)


def _backward(precision: str | None, kept: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    # By hand so that both products have the form that the CPU's matrix library is fast at, and overlapping
    # patches are added up in place. Where no gradient of x is asked for, the compiler drops its part.
    w, patches = kept
    rows, columns, channels, filters = w.shape
    flat = g.reshape(filters, -1)
    turned = flat.T if len(patches) > filters else _written(flat.T)
    dw = jnp.matmul(patches, turned, precision=precision).reshape(w.shape)
    views = jnp.matmul(w.reshape(-1, filters), flat, precision=precision)
    return _overlap(views.reshape(rows, columns, channels, *g.shape[1:])), dw


_conv_planes.defvjp(_forward, _backward)


def _overlap(views: Array) -> Array:
    """The transpose of taking views `[row, column, ...]`: every entry is added to the pixel it was copied from."""
    rows, columns, channels, down, across, batch = views.shape
    shape = (channels, down + rows - 1, across + columns - 1, batch)
    places = [(i, j) for i in range(rows) for j in range(columns)]

    def in_place(views: Array) -> Array:
        out = jnp.zeros(shape, views.dtype)
        for i, j in places:
            old = lax.slice(out, (0, i, j, 0), (channels, i + down, j + across, batch))
            out = lax.dynamic_update_slice(out, old + views[i, j], (0, i, j, 0))
        return out

    def padded(views: Array) -> Array:
        sides = lambda i, j: ((0, 0), (i, rows - 1 - i), (j, columns - 1 - j), (0, 0))
        return functools.reduce(jnp.add, [jnp.pad(views[i, j], sides(i, j)) for i, j in places])

    # A CPU is quickest adding in place; a GPU in one kernel that reads each entry once.
    return lax.platform_dependent(views, cpu=in_place, default=padded)


def _written(x: Array) -> Array:
    """x, on a CPU really laid out in this order: XLA would else fold a transpose into a slower product."""
    return lax.platform_dependent(x, cpu=lax.optimization_barrier, default=lambda x: x)


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
    x: Float[Array, "batch height width channels"],
    scale: Float[Array, " channels"],
    bias: Float[Array, " channels"],
    groups: int = 32,
    epsilon: float = 1e-5,
    added: Float[Array, "batch height width channels"] | None = None,
    relu: bool = False,
) -> Float[Array, "batch height width channels"]:
    """Group normalisation: groups of an example's channels to mean 0 and variance 1, then scaled and shifted.

    $$y = \\gamma \\, (x - \\mu_g) / \\sqrt{\\sigma_g^2 + \\epsilon} + \\beta$$, the statistics in float32.

    Args:
        x: images.
        scale: gamma, one a channel.
        bias: beta, one a channel.
        groups: G; where it does not divide the channels, the largest number that divides both is taken.
        epsilon: keeps a constant image finite.
        added: what is added to y, such as a shortcut around the layers before.
        relu: whether a relu follows. A GPU does all of it at once.

    References:
        Wu and He, `Group Normalization <https://arxiv.org/abs/1803.08494>`_, 2018
    """
    batch, height, width, channels = x.shape
    plain = functools.partial(_group_norm, groups=math.gcd(groups, channels), epsilon=epsilon, relu=relu)
    given = (x, scale, bias) if added is None else (x, scale, bias, added)
    if kernels := _kernels(*given):
        each = channels // math.gcd(groups, channels)
        norm = kernels.Norm(batch, height * width, channels, each, epsilon, relu, added is not None)
        if norm.fits:
            return kernels.group_norm(plain, norm, x, scale, bias, added)
    return plain(x, scale, bias, added)


def _group_norm(
    x: Array, scale: Array, bias: Array, added: Array | None, groups: int, epsilon: float, relu: bool
) -> Array:
    batch, height, width, channels = x.shape
    z = x.astype(jnp.float32)
    # Both sums in one pass over the image, as flax does; what is left is one multiplication and one addition.
    mean, square = (
        total.sum(axis=(1, 2)).reshape(batch, groups, -1).sum(axis=2, keepdims=True)
        / (height * width * (channels // groups))
        for total in (z, jnp.square(z))
    )
    inverse = lax.rsqrt(jnp.maximum(square - jnp.square(mean), 0.0) + epsilon)
    spread = lambda v: jnp.broadcast_to(v, (batch, groups, channels // groups)).reshape(batch, channels)
    factor = spread(inverse) * scale.astype(jnp.float32).reshape(1, -1)
    offset = bias.astype(jnp.float32).reshape(1, -1) - spread(mean) * factor
    each = lambda v: v.reshape(batch, 1, 1, channels)
    y = (z * each(factor) + each(offset)).astype(x.dtype)
    if added is not None:
        y = added + y
    return jax.nn.relu(y) if relu else y
