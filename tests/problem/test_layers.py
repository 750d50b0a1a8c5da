"""The layers against XLA's own convolution, flax's group norm and jnp.max, values and gradients."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen
from jax import lax

from enlist.problem import layers


def normal(seed: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


def native(x, w, stride=1, padding=0, order="NHWC"):
    return lax.conv_general_dilated(
        x,
        w,
        (stride, stride),
        [(padding, padding)] * 2,
        dimension_numbers=(order, "HWIO", order),
        precision="highest",
    )


def assert_same_vjp(f, g, *args, rtol=1e-4, atol=1e-4):
    """Equal values, and equal gradients along a random direction."""

    @jax.jit
    def both(*args):
        (ours, back), (theirs, their_back) = jax.vjp(f, *args), jax.vjp(g, *args)
        direction = normal(99, *ours.shape)
        return (ours, back(direction)), (theirs, their_back(direction))

    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=atol), *both(*args))


CONVOLUTIONS = [  # height, width, channels, side, filters, stride, padding
    (8, 8, 1, 5, 4, 1, 0),
    (9, 7, 3, 3, 6, 1, 1),
    (9, 8, 3, 3, 2, 2, 1),
    (8, 8, 4, 1, 6, 2, 0),
    (7, 7, 2, 3, 5, 3, 0),
    (6, 6, 8, 3, 2, 1, 2),
]


@pytest.mark.parametrize(
    ("height", "width", "channels", "side", "filters", "stride", "padding"), CONVOLUTIONS
)
def test_conv_equals_the_native_one(height, width, channels, side, filters, stride, padding):
    x, w = normal(0, 2, height, width, channels), normal(1, side, side, channels, filters)
    ours = lambda x, w: layers.conv(x, w, stride, padding)
    assert_same_vjp(ours, lambda x, w: native(x, w, stride, padding), x, w)


@pytest.mark.parametrize(
    ("rows", "columns", "channels", "filters"), [(5, 5, 1, 32), (5, 5, 4, 3), (1, 3, 2, 2)]
)
def test_conv_planes_equals_the_native_one(rows, columns, channels, filters):
    x, w = normal(0, channels, 7, 8, 3), normal(1, rows, columns, channels, filters)
    assert_same_vjp(layers.conv_planes, lambda x, w: native(x, w, order="CHWN"), x, w)


@pytest.mark.parametrize("name", ["conv", "conv_planes"])
def test_kernels_of_each_worker_give_what_each_alone_gives(name):
    one = getattr(layers, name)
    x, w = normal(0, 3, 2, 6, 6, 2), normal(1, 3, 3, 3, 2, 5)
    together = jax.jit(jax.vmap(one))(x, w)
    for i in range(3):
        np.testing.assert_allclose(together[i], jax.jit(one)(x[i], w[i]), rtol=1e-5, atol=1e-5)
    order = "NHWC" if name == "conv" else "CHWN"
    assert_same_vjp(jax.vmap(one), jax.vmap(lambda x, w: native(x, w, order=order)), x, w)


def test_both_ways_of_adding_overlapping_patches_agree(monkeypatch):
    """What a GPU does, run here."""
    x, w = normal(0, 2, 6, 7, 3), normal(1, 3, 3, 2, 4)
    loss = lambda x, w: jnp.sum(jnp.sin(layers.conv_planes(x, w)))
    here = jax.jit(jax.grad(loss, (0, 1)))(x, w)
    monkeypatch.setattr(lax, "platform_dependent", lambda *args, cpu, default: default(*args))
    there = jax.jit(jax.grad(lambda x, w: loss(x, w), (0, 1)))(x, w)
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_the_gradient_of_conv_planes_keeps_the_precision_asked_for():
    def loss(w):
        with jax.default_matmul_precision("highest"):
            return layers.conv_planes(normal(0, 1, 6, 6, 2), w).sum()

    text = str(jax.make_jaxpr(jax.grad(loss))(normal(1, 3, 3, 1, 4)))
    assert text.count("dot_general[") == text.count("precision=(Precision.HIGHEST") >= 2


@pytest.mark.parametrize("one", [layers.conv, layers.conv_planes])
def test_no_native_convolution_is_left(one):
    loss = lambda x, w: one(x, w).sum()
    text = jax.jit(jax.grad(loss, (0, 1))).lower(normal(0, 2, 8, 8, 2), normal(1, 3, 3, 2, 4)).as_text()
    assert "stablehlo.convolution" not in text


@pytest.mark.parametrize("shape", [(3, 4, 6, 2), (2, 5, 7, 3)])
def test_max_pool_equals_jnp_max(shape):
    def naive(x):
        c, h, w, b = x.shape
        x = x[:, : h // 2 * 2, : w // 2 * 2].reshape(c, h // 2, 2, w // 2, 2, b)
        return x.max(axis=(2, 4))

    assert_same_vjp(layers.max_pool, naive, normal(0, *shape))
    # Ties: on constants, and where only some of four are equal.
    assert_same_vjp(layers.max_pool, naive, jnp.zeros(shape))
    assert_same_vjp(layers.max_pool, naive, jnp.round(normal(1, *shape)))


@pytest.mark.parametrize(("channels", "groups"), [(6, 3), (8, 8), (4, 1), (6, 32)])
def test_group_norm_equals_flax(channels, groups):
    x = 3.0 + 2.0 * normal(0, 3, 4, 5, channels)
    norm = linen.GroupNorm(num_groups=math.gcd(groups, channels), epsilon=1e-5, use_fast_variance=False)
    theirs = lambda x, scale, bias: norm.apply({"params": {"scale": scale, "bias": bias}}, x)
    ours = lambda *args: layers.group_norm(*args, groups=groups)
    assert_same_vjp(ours, theirs, x, normal(1, channels), normal(2, channels))


def test_conv_pool_and_what_follows_a_norm_are_what_they_say():
    x, w = normal(0, 3, 6, 7, 2), normal(1, 3, 3, 3, 4)
    np.testing.assert_array_equal(layers.conv_pool(x, w), layers.max_pool(layers.conv_planes(x, w)))
    scale, bias, added = normal(2, 2), normal(3, 2), normal(4, *x.shape)
    y = layers.group_norm(x, scale, bias) + added
    np.testing.assert_array_equal(layers.group_norm(x, scale, bias, added=added), y)
    np.testing.assert_array_equal(layers.group_norm(x, scale, bias, added=added, relu=True), jax.nn.relu(y))


def test_group_norm_of_a_constant_is_finite_and_bfloat16_stays():
    y = layers.group_norm(jnp.full((1, 2, 2, 4), 7.0, jnp.bfloat16), jnp.ones(4), jnp.zeros(4), groups=2)
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(y.astype(jnp.float32), 0.0)


def test_planes_and_rows_are_undone_by_one_another():
    x = normal(0, 2, 3, 4, 5)
    rows = layers.to_rows(layers.to_planes(x))
    assert rows.shape == (2, 60)
    np.testing.assert_array_equal(rows.reshape(2, 5, 3, 4).transpose(0, 2, 3, 1), x)
