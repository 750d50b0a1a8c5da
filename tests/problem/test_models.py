"""The built-in models: sizes, initial weights, losses, refusals, learning."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from enlist.errors import BadInput
from enlist.problem import models

FACTORIES = [
    (models.logistic, (28, 28, 1), 7_850),
    (models.two_nn, (28, 28, 1), 199_210),
    (models.cnn, (28, 28, 1), 582_026),
    (models.resnet18, (32, 32, 3), 11_173_962),
]


def shapes(model, shape):
    return jax.eval_shape(model.init, jax.random.key(0), jax.ShapeDtypeStruct((1, *shape), jnp.float32))


@pytest.mark.parametrize(("factory", "shape", "size"), FACTORIES)
def test_parameter_counts(factory, shape, size):
    params = shapes(factory(), shape)
    assert models.count(params) == size
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype("float32")}


@pytest.mark.parametrize(("factory", "shape", "size"), FACTORIES)
def test_outputs_have_a_row_for_each_example(factory, shape, size):
    model = factory(7)
    x = jax.ShapeDtypeStruct((3, *shape), jnp.float32)
    assert jax.eval_shape(model.apply, shapes(model, shape), x).shape == (3, 7)
    assert model.classes == 7


@pytest.mark.parametrize(("factory", "shape", "size"), FACTORIES)
def test_the_same_arguments_give_the_same_object(factory, shape, size):
    assert factory() is factory(10) is factory(classes=10)
    assert factory(3) is not factory(10)
    assert hash(factory()) == hash(factory())


@pytest.mark.parametrize("factory", [models.logistic, models.two_nn])
@pytest.mark.parametrize("shape", [(8, 8, 1), (60,), (3, 5)])
def test_dense_models_take_any_shape(factory, shape):
    model = factory(4)
    params = model.init(jax.random.key(0), jnp.zeros((1, *shape)))
    assert model.apply(params, jnp.ones((2, *shape))).shape == (2, 4)


@pytest.mark.parametrize(("factory", "shape"), [(models.two_nn, (6,)), (models.cnn, (16, 16, 1))])
def test_initial_weights_depend_on_the_key_alone(factory, shape):
    model = factory()
    key, other = jax.random.key(0), jax.random.key(1)
    first = model.init(key, jnp.zeros((1, *shape)))
    again = model.init(key, jnp.ones((5, *shape)))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    different = model.init(other, jnp.zeros((1, *shape)))
    assert not np.array_equal(first["out"]["w"], different["out"]["w"])


@pytest.mark.parametrize(("factory", "shape", "size"), FACTORIES)
def test_a_uniform_start_lies_within_one_over_the_root_of_the_inputs(factory, shape, size):
    params = factory(start="uniform").init(jax.random.key(2), jnp.zeros((1, *shape)))
    jax.tree.map(
        lambda a, b: a.shape == b.shape or pytest.fail(f"{a.shape}, {b.shape}"),
        params,
        shapes(factory(), shape),
    )
    for path, leaf in jax.tree.leaves_with_path(params):
        name, array = path[-1].key, np.asarray(leaf)
        if name not in ("w", "b"):
            continue
        # A convolution's inputs are all axes but its filters'; a bias has those of its weights.
        w = np.asarray(functools.reduce(lambda tree, key: tree[key.key], path[:-1], params)["w"])
        inputs = w[..., 0].size if w.ndim == 4 else w.shape[1]
        assert abs(array).max() <= inputs**-0.5
        if array.size >= 5000:
            np.testing.assert_allclose(array.std(), (3 * inputs) ** -0.5, rtol=0.03)
            assert abs(array).max() > 0.99 * inputs**-0.5
        assert array.std() > 0


def test_he_has_six_times_the_variance_of_uniform_before_a_relu():
    he, uniform = (
        models.two_nn(start=start).init(jax.random.key(0), jnp.zeros((1, 784))) for start in ("he", "uniform")
    )
    ratio = float(jnp.var(he["dense1"]["w"]) / jnp.var(uniform["dense1"]["w"]))
    assert ratio == pytest.approx(6, rel=0.03)
    assert not he["dense1"]["b"].any()


def test_logistic_starts_at_zero_unless_told():
    x = jnp.zeros((1, 8, 8, 1))
    assert not models.logistic().init(jax.random.key(0), x)["w"].any()
    assert models.logistic(start="he").init(jax.random.key(0), x)["w"].std() == pytest.approx(1 / 8, rel=0.1)
    with pytest.raises(BadInput, match="unknown start of logistic 'xavier'; known: zeros, he, uniform"):
        models.logistic(start="xavier")


def test_activations_start_at_the_scale_of_the_inputs():
    """He's and LeCun's variances: the logits of white noise have a variance near 1."""
    model = models.two_nn()
    x = jax.random.normal(jax.random.key(0), (200, 28, 28, 1))
    logits = model.apply(model.init(jax.random.key(1), x[:1]), x)
    assert 0.4 < float(logits.std()) < 2.0


@pytest.mark.parametrize("factory", [models.cnn, models.resnet18])
@pytest.mark.parametrize("shape", [(60,), (28, 28), (4, 4, 1)])
def test_image_models_say_what_they_need(factory, shape):
    model = factory()
    with pytest.raises(BadInput, match=r"needs images \[height, width, channels\] of at least"):
        model.init(jax.random.key(0), jnp.zeros((1, *shape)))


def test_cnn_takes_other_images():
    model = models.cnn()
    params = shapes(model, (17, 32, 3))
    assert params["conv1"]["w"].shape == (5, 5, 3, 32)
    assert jax.eval_shape(model.apply, params, jnp.zeros((2, 17, 32, 3))).shape == (2, 10)


def test_no_classes_are_refused():
    with pytest.raises(BadInput, match="must be from 1"):
        models.logistic(0)
    with pytest.raises(BadInput, match="hidden=0"):
        models.two_nn(hidden=0)
    with pytest.raises(BadInput, match="must be from 1 to 1000000"):
        models.two_nn(hidden=10**18)


def test_resnet_runs_on_a_tiny_image():
    model = models.resnet18(2)
    # Drawing eleven million weights would be most of this test.
    params = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 0.01), shapes(model, (8, 8, 1)))
    outputs = jax.jit(model.apply)(params, jax.random.normal(jax.random.key(1), (2, 8, 8, 1)))
    assert outputs.shape == (2, 2)
    assert bool(jnp.isfinite(outputs).all())


@pytest.mark.parametrize(
    ("factory", "shape"), [(models.logistic, (12,)), (models.two_nn, (12,)), (models.cnn, (16, 16, 1))]
)
def test_the_loss_falls(factory, shape):
    model = factory(3)
    x = jax.random.normal(jax.random.key(0), (24, *shape))
    y = jnp.arange(24) % 3
    params = model.init(jax.random.key(1), x[:1])
    loss = jax.jit(jax.value_and_grad(lambda p: model.loss(model.apply(p, x), y).mean()))
    before = float(loss(params)[0])
    for _ in range(8):
        params = optax.apply_updates(params, jax.tree.map(lambda g: -0.05 * g, loss(params)[1]))
    assert float(loss(params)[0]) < 0.95 * before


def test_weights_of_each_worker_give_what_each_alone_gives():
    model = models.cnn(3)
    x = jax.random.normal(jax.random.key(0), (2, 3, 16, 16, 1))
    params = jax.vmap(lambda key: model.init(key, x[0, :1]))(jax.random.split(jax.random.key(1), 2))
    together = jax.jit(jax.vmap(model.apply))(params, x)
    for i in range(2):
        alone = jax.jit(model.apply)(jax.tree.map(lambda leaf, i=i: leaf[i], params), x[i])
        np.testing.assert_allclose(together[i], alone, rtol=1e-4, atol=1e-5)


def test_bias_and_relu_after_the_pool_are_bias_and_relu_before_it():
    """The cnn's order is a matter of speed alone: the layers written out as the paper has them give the same."""
    model = models.cnn(3)
    x = jax.random.normal(jax.random.key(0), (2, 16, 16, 1))
    params = model.init(jax.random.key(1), x[:1])
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)  # biases that matter

    def literal(params, x):
        for name in ("conv1", "conv2"):
            kernel, bias = params[name]["w"], params[name]["b"]
            x = jax.lax.conv_general_dilated(
                x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(x + bias.reshape(1, 1, 1, -1))
            b, h, w, c = x.shape
            x = x.reshape(b, h // 2, 2, w // 2, 2, c).max(axis=(2, 4))
        x = jnp.transpose(x, (0, 3, 1, 2)).reshape(x.shape[0], -1)
        for name in ("dense", "out"):
            x = x @ params[name]["w"].T + params[name]["b"].reshape(1, -1)
            x = jax.nn.relu(x) if name == "dense" else x
        return x

    y = jnp.array([0, 2])
    ours, theirs = (
        jax.jit(jax.value_and_grad(lambda p, f=f: models.cross_entropy(f(p, x), y).mean()))(params)
        for f in (model.apply, literal)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), ours, theirs)


def test_outputs_follow_the_dtype_of_the_weights():
    model = models.cnn(3)
    params = shapes(model, (16, 16, 1))
    half = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.bfloat16), params)
    outputs = jax.eval_shape(model.apply, half, jnp.zeros((2, 16, 16, 1)))
    assert outputs.dtype == jnp.bfloat16
    assert jax.eval_shape(model.loss, outputs, jnp.zeros(2, jnp.int32)).dtype == jnp.float32


def test_cross_entropy_equals_optax():
    z = 5.0 * jax.random.normal(jax.random.key(0), (6, 4))
    y = jnp.array([0, 1, 2, 3, 0, 1])
    reference = optax.softmax_cross_entropy_with_integer_labels
    np.testing.assert_allclose(models.cross_entropy(z, y), reference(z, y), rtol=1e-5, atol=1e-6)
    ours, theirs = (jax.grad(lambda z, f=f: f(z, y).sum())(z) for f in (models.cross_entropy, reference))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert models.cross_entropy(1e4 * z, y).max() < jnp.inf


def test_losses_of_sequences_are_means_over_positions():
    z = jax.random.normal(jax.random.key(0), (2, 3, 4))
    y = jnp.array([[0, 1, 2], [3, 0, 1]])
    flat = models.cross_entropy(z.reshape(6, 4), y.reshape(6)).reshape(2, 3).mean(axis=1)
    np.testing.assert_allclose(models.cross_entropy(z, y), flat, rtol=1e-6)
    assert models.accuracy(z, z.argmax(axis=-1)).tolist() == [1.0, 1.0]


def test_accuracy_and_errors():
    z = jnp.array([[1.0, 2.0], [3.0, 0.0]])
    assert models.accuracy(z, jnp.array([1, 1])).tolist() == [1.0, 0.0]
    assert models.squared_error(z, z + 2.0).tolist() == [4.0, 4.0]
    assert models.negative_squared_error(z[:, 0], jnp.array([1.0, 1.0])).tolist() == [0.0, -4.0]
    with pytest.raises(BadInput, match="as many are needed"):
        models.squared_error(z, jnp.zeros(2))


def test_chance_is_where_logistic_regression_starts():
    model = models.logistic(10)
    params = model.init(jax.random.key(0), jnp.zeros((1, 5)))
    loss = model.loss(model.apply(params, jnp.ones((2, 5))), jnp.array([0, 9]))
    np.testing.assert_allclose(loss, math.log(10.0), rtol=1e-6)
