"""The kernels for a GPU, interpreted here, against the plain layers: values and gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl

from enlist.problem import kernels_norm, layers, models


def normal(seed: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


@pytest.fixture
def interpreted(monkeypatch):
    """As on a GPU of NVIDIA's, its kernels run by jax."""
    monkeypatch.setattr(layers, "_on_gpu", lambda: True)
    monkeypatch.setattr(lax, "platform_dependent", lambda *given, cuda, **others: cuda(*given))
    monkeypatch.setattr(pl, "pallas_call", functools.partial(pl.pallas_call, interpret=True))


def values_and_gradients(layer, *given):
    """Along a random direction."""

    @jax.jit
    def both(*given):
        y, back = jax.vjp(layer, *given)
        return y, back(normal(99, *y.shape).astype(y.dtype))

    return both(*given)


def assert_close(ours, theirs, bound):
    """In the norm of each array."""
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        a, b = (np.asarray(v.astype(jnp.float32), np.float64) for v in (a, b))
        assert np.linalg.norm(a - b) <= bound * np.linalg.norm(b)


CONVOLUTIONS = [  # mapped axes, images, filters (rows, columns, how many), stride, padding, dtype, bound
    # Runs and workers both mapped; so many places that they are summed in parts.
    ((2, 2), (4, 24, 25, 3), (3, 3, 6), 1, 1, jnp.float32, 1e-5),
    ((2,), (2, 8, 9, 16), (3, 3, 20), 2, 1, jnp.bfloat16, 1e-2),
    # What two halves in bfloat16 leave of a float32 is about 1e-5.
    ((2,), (2, 7, 7, 70), (2, 3, 5), 3, 0, jnp.float32, 2e-5),
]


@pytest.mark.parametrize(("mapped", "images", "filters", "stride", "padding", "kind", "bound"), CONVOLUTIONS)
def test_conv_equals_the_plain_one(interpreted, mapped, images, filters, stride, padding, kind, bound):
    rows, columns, out = filters
    x = normal(0, *mapped, *images).astype(kind)
    w = normal(1, *mapped, rows, columns, images[-1], out).astype(kind)
    each = lambda layer: functools.reduce(lambda f, _: jax.vmap(f), mapped, layer)
    ours = values_and_gradients(each(lambda x, w: layers.conv(x, w, stride, padding)), x, w)
    theirs = values_and_gradients(each(lambda x, w: layers._conv(x, w, stride, padding)), x, w)
    assert_close(ours, theirs, bound)


POOLED = [  # channels, side of a filter, filters, size, dtype, bound
    (1, 3, 3, (8, 9), jnp.float32, 2e-5),
    (40, 3, 5, (7, 6), jnp.float32, 2e-5),
    # The gradient of so small images goes by rows: an odd number of them, filters that fill no block.
    (24, 4, 16, (8, 9), jnp.float32, 2e-5),
    (32, 5, 64, (12, 12), jnp.float32, 2e-5),
    (1, 3, 3, (8, 9), jnp.bfloat16, 2e-2),
    (40, 3, 5, (7, 6), jnp.bfloat16, 2e-2),
]


@pytest.mark.parametrize(("channels", "side", "filters", "size", "kind", "bound"), POOLED)
def test_conv_pool_equals_conv_and_pool(interpreted, monkeypatch, channels, side, filters, size, kind, bound):
    x, w = normal(0, channels, *size, 3), normal(1, side, side, channels, filters)
    # Some windows of equal values, which share the gradient.
    x, w = x.at[:, :5, :5].set(0.0).astype(kind), w.astype(kind)
    ours = values_and_gradients(layers.conv_pool, x, w)
    monkeypatch.undo()
    theirs = values_and_gradients(lambda x, w: layers.max_pool(layers.conv_planes(x, w)), x, w)
    assert_close(ours, theirs, bound)


def test_images_are_gone_through_row_by_row_where_most_patches_reach_beyond(interpreted):
    gradient = jax.grad(lambda x, w: layers.conv_pool(x, w).sum(), argnums=(0, 1))
    by_rows = lambda side, size: (
        "by_rows"
        in str(jax.make_jaxpr(gradient)(normal(0, 32, size, size, 2), normal(1, side, side, 32, 64)))
    )
    assert by_rows(5, 12)
    assert not by_rows(3, 24)


@pytest.mark.parametrize(
    ("added", "relu", "channels", "groups", "pixels"),
    [(True, True, 12, 3, 5), (False, True, 72, 72, 4), (True, False, 12, 3, 5)],
)
def test_group_norm_equals_the_plain_one(interpreted, added, relu, channels, groups, pixels):
    x, scale, bias = normal(0, 2, 3, pixels, 3, channels), normal(1, 2, channels), normal(2, 2, channels)
    given = (3.0 + 2.0 * x, scale, bias, *([normal(3, *x.shape)] if added else []))
    options = dict(groups=groups, relu=relu)
    ours = jax.vmap(
        lambda x, s, b, *more: layers.group_norm(x, s, b, added=more[0] if more else None, **options)
    )
    plain = jax.vmap(
        lambda x, s, b, *more: layers._group_norm(x, s, b, more[0] if more else None, epsilon=1e-5, **options)
    )
    assert_close(values_and_gradients(ours, *given), values_and_gradients(plain, *given), 1e-5)


def test_a_group_too_large_for_a_block_is_left_to_the_plain_layer():
    fits = lambda pixels, width: kernels_norm.Norm(1, pixels, 4 * width, width, 1e-5).fits
    assert fits(32 * 32, 2)
    assert not fits(32 * 32, 64)
    assert not fits(16, 3)


def test_elsewhere_the_plain_layers_are_used_even_if_kernels_might_be(monkeypatch):
    """The platform that is compiled for decides, here a CPU."""
    image = normal(0, 3, 5, 6, 4)
    cases = [
        (layers.conv_pool, image, normal(1, 3, 3, 3, 5)),
        (lambda x, w: layers.conv(x, w, 2, 1), image, normal(1, 3, 3, 4, 5)),
        (lambda x, s, b: layers.group_norm(x, s, b, relu=True), image, normal(2, 4), normal(3, 4)),
    ]
    plain = [values_and_gradients(*case) for case in cases]
    monkeypatch.setattr(layers, "_on_gpu", lambda: True)
    for (layer, *given), want in zip(cases, plain, strict=True):
        again = lambda *given, layer=layer: layer(*given)
        assert "pallas_call" in str(jax.make_jaxpr(again)(*given))
        assert_close(values_and_gradients(again, *given), want, 1e-6)


def test_exact_products_are_never_left_to_kernels(monkeypatch):
    monkeypatch.setattr(layers, "_on_gpu", lambda: True)
    x, w = normal(0, 1, 5, 5, 2), normal(1, 3, 3, 2, 4)
    with jax.default_matmul_precision("highest"):
        assert "pallas_call" not in str(jax.make_jaxpr(lambda x, w: layers.conv(x, w))(x, w))


@pytest.mark.parametrize("model", [models.cnn(), models.resnet18()])
def test_models_lower_for_a_gpu(monkeypatch, model):
    if jax.__version_info__ >= (0, 11):
        pytest.skip("from jax 0.11 on this asks for a GPU")
    monkeypatch.setattr(layers, "_on_gpu", lambda: True)
    shape = (2, 28, 28, 1) if model.name == "cnn" else (2, 8, 8, 3)
    x = jnp.zeros(shape)
    params = jax.eval_shape(model.init, jax.random.key(0), x)
    loss = lambda params, x: model.loss(model.apply(params, x), jnp.zeros(2, jnp.int32)).sum()
    text = jax.jit(jax.grad(loss)).trace(params, x).lower(lowering_platforms=("cuda",)).as_text()
    assert "xla.gpu.triton" in text
    assert "stablehlo.convolution" not in text
