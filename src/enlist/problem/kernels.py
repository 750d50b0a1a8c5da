"""Layers by kernels of our own, with their gradients: for a GPU of NVIDIA's; elsewhere the plain layer is used.

Which of the two is compiled is decided by the platform that a program is compiled for. `plain` is always the same
function of the arrays, written for any platform.

A kernel's gradient has none of its own: for second derivatives, ask for products of the highest precision, which
are never left to kernels.
"""

from collections.abc import Callable
from functools import partial

import jax
from jax import lax
from jaxtyping import Array

from enlist.problem import kernels_conv, kernels_norm
from enlist.problem.kernels_norm import Norm

Plain = Callable[..., Array]


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def conv(plain: Plain, stride: int, padding: int, x: Array, w: Array) -> Array:
    """Convolution of `[batch, height, width, channels]` with HWIO filters."""
    g = kernels_conv.geometry(x, w, stride, padding)
    return lax.platform_dependent(x, w, cuda=partial(kernels_conv.forward, g), default=plain)


def _conv_forward(
    plain: Plain, stride: int, padding: int, x: Array, w: Array
) -> tuple[Array, tuple[Array, Array]]:
    return conv(plain, stride, padding, x, w), (x, w)


def _conv_backward(
    plain: Plain, stride: int, padding: int, kept: tuple[Array, Array], dy: Array
) -> tuple[Array, Array]:
    def by_kernels(x: Array, w: Array, dy: Array) -> tuple[Array, Array]:
        g = kernels_conv.geometry(x, w, stride, padding)
        return kernels_conv.gradient_of_images(g, dy, w), kernels_conv.gradient_of_filters(g, x, dy)

    return lax.platform_dependent(*kept, dy, cuda=by_kernels, default=partial(_gradients, plain))


conv.defvjp(_conv_forward, _conv_backward)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def conv_pool(plain: Plain, x: Array, w: Array) -> Array:
    """Convolution without padding, stride 1, and the largest of each 2 x 2 window of it."""
    return _conv_pool_forward(plain, x, w)[0]


def _conv_pool_forward(plain: Plain, x: Array, w: Array) -> tuple[Array, tuple[Array, Array, Array]]:
    g = kernels_conv.geometry(x, w, window=2)
    no_hits = lambda x, w: (plain(x, w), kernels_conv.no_hits(g))
    y, hits = lax.platform_dependent(x, w, cuda=partial(kernels_conv.forward, g), default=no_hits)
    return y, (x, w, hits)


def _conv_pool_backward(plain: Plain, kept: tuple[Array, Array, Array], dy: Array) -> tuple[Array, Array]:
    def by_kernels(x: Array, w: Array, hits: Array, dy: Array) -> tuple[Array, Array]:
        return kernels_conv.gradients_with_pool(kernels_conv.geometry(x, w, window=2), x, w, dy, hits)

    plainly = lambda x, w, hits, dy: _gradients(plain, x, w, dy)
    return lax.platform_dependent(*kept, dy, cuda=by_kernels, default=plainly)


conv_pool.defvjp(_conv_pool_forward, _conv_pool_backward)


def _gradients(plain: Plain, x: Array, w: Array, dy: Array) -> tuple[Array, Array]:
    return jax.vjp(plain, x, w)[1](dy)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def group_norm(plain: Plain, n: Norm, x: Array, scale: Array, bias: Array, added: Array | None) -> Array:
    """relu(normalised x + added), or what of it `n` says."""
    return lax.platform_dependent(x, scale, bias, added, cuda=partial(kernels_norm.forward, n), default=plain)


def _norm_forward(plain: Plain, n: Norm, *given: Array) -> tuple[Array, tuple[Array, ...]]:
    y = group_norm(plain, n, *given)
    return y, (*given, y)


def _norm_backward(plain: Plain, n: Norm, kept: tuple[Array, ...], dy: Array) -> tuple[Array, ...]:
    plainly = lambda x, scale, bias, added, y, dy: jax.vjp(plain, x, scale, bias, added)[1](dy)
    by_kernels = lambda x, scale, bias, added, y, dy: kernels_norm.backward(n, x, scale, bias, y, dy)
    return lax.platform_dependent(*kept, dy, cuda=by_kernels, default=plainly)


group_norm.defvjp(_norm_forward, _norm_backward)
