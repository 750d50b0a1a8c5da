"""Models of others: each way in learns, what would go wrong silently is refused in one line."""

import hashlib
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from flax import linen, nnx

from enlist.errors import BadInput
from enlist.problem import adapters, models
from enlist.problem.adapters import as_model, from_spec, spec_hash

EXAMPLES = Path(__file__).parents[2] / "examples"
KEY = jax.random.key(0)
X = jax.random.normal(jax.random.key(1), (30, 8, 8, 1))
Y = jnp.arange(30) % 3


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(3)(jax.nn.relu(linen.Dense(16)(x.reshape(x.shape[0], -1))))


class Nnx(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.layers = nnx.List([nnx.Linear(64, 16, rngs=rngs), nnx.Linear(16, 3, rngs=rngs)])

    def __call__(self, x):
        return self.layers[1](jax.nn.relu(self.layers[0](x.reshape(x.shape[0], -1))))


class Equinox(eqx.Module):
    layers: list
    order: jax.Array  # a fixed array of integers, not trained

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.layers = [eqx.nn.Linear(64, 16, key=one), eqx.nn.Linear(16, 3, key=two)]
        self.order = jnp.arange(64)[::-1]

    def __call__(self, x):
        return self.layers[1](jax.nn.relu(self.layers[0](x.ravel()[self.order])))


def plain_init(key):
    return {"w": 0.1 * jax.random.normal(key, (64, 3))}


def plain_apply(params, x):
    return x.reshape(x.shape[0], -1) @ params["w"]


THINGS = {
    "model": models.two_nn(3, 16),
    "functions of the key": (plain_init, plain_apply),
    "functions of key and x": (lambda key, x: plain_init(key), plain_apply),
    "linen": Linen(),
    "nnx": Nnx(nnx.Rngs(0)),
    "nnx class": Nnx,
    "nnx from a key": lambda key: Nnx(nnx.Rngs(key)),
    "equinox": Equinox(jax.random.key(3)),
    "equinox class": Equinox,
}


def losses(model, x=X, y=Y, steps=6, rate=0.1):
    params = model.init(KEY, x[:1])
    value = jax.jit(jax.value_and_grad(lambda p: model.loss(model.apply(p, x), y).mean()))
    for _ in range(steps):
        loss, gradient = value(params)
        params = jax.tree.map(lambda p, g: p - rate * g, params, gradient)
        yield float(loss)


@pytest.mark.parametrize("thing", THINGS.values(), ids=THINGS.keys())
def test_everything_accepted_learns(thing):
    model = as_model(thing)
    first, *_, last = losses(model)
    assert last < first
    params = model.init(KEY, X[:1])
    assert all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(params))
    assert model.apply(params, X).shape == (30, 3)


@pytest.mark.parametrize("thing", THINGS.values(), ids=THINGS.keys())
def test_weights_of_several_workers_at_once(thing):
    model = as_model(thing)
    params = jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf]), model.init(KEY, X[:1]))
    together = jax.vmap(model.apply)(params, jnp.stack([X, X]))
    alone = model.apply(jax.tree.map(lambda leaf: leaf[1], params), X)
    np.testing.assert_allclose(together[1], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("thing", THINGS.values(), ids=THINGS.keys())
def test_init_can_be_traced_and_ignores_the_values_of_x(thing):
    model = as_model(thing)
    eager = model.init(KEY, X[:1])
    traced = jax.jit(model.init)(KEY, 0 * X[:1])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), eager, traced)


@pytest.mark.parametrize(
    "name", ["linen", "nnx class", "nnx from a key", "equinox class", "functions of the key"]
)
def test_other_keys_give_other_weights(name):
    model = as_model(THINGS[name])
    leaves = [jax.tree.leaves(model.init(jax.random.key(seed), X[:1])) for seed in (0, 0, 1)]
    assert all(np.array_equal(a, b) for a, b in zip(leaves[0], leaves[1], strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(leaves[0], leaves[2], strict=True))


@pytest.mark.parametrize("name", ["nnx", "equinox"])
def test_a_module_that_has_weights_keeps_them_whatever_the_key(name):
    model = as_model(THINGS[name])
    first, second = (model.init(jax.random.key(seed), X[:1]) for seed in (0, 1))
    jax.tree.map(np.testing.assert_array_equal, first, second)
    # and giving away the memory of one set does not take the next one's
    jax.tree.map(lambda leaf: leaf.delete(), first)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(model.init(KEY, X[:1])))


def test_parameters_of_modules_are_named_by_their_path():
    assert set(as_model(THINGS["nnx"]).init(KEY, X[:1])) == {
        f"layers.{i}.{part}" for i in (0, 1) for part in ("kernel", "bias")
    }
    assert set(as_model(THINGS["equinox"]).init(KEY, X[:1])) == {
        f"layers.{i}.{part}" for i in (0, 1) for part in ("weight", "bias")
    }


def test_a_module_gives_what_it_gave_before():
    module = Equinox(KEY)
    model = as_model(module)
    np.testing.assert_allclose(model.apply(model.init(KEY, X[:1]), X), jax.vmap(module)(X), rtol=1e-6)
    module = Nnx(nnx.Rngs(5))
    model = as_model(module)
    np.testing.assert_allclose(model.apply(model.init(KEY, X[:1]), X), module(X), rtol=1e-6)


def test_loss_metric_and_names_are_replaced():
    model = as_model(models.logistic(3), loss=models.squared_error, name="mine")
    assert model.loss is models.squared_error
    assert model.metric is models.negative_squared_error
    assert (model.metric_name, model.name) == ("negative_squared_error", "mine")
    assert as_model(models.logistic(3)) is not None
    assert as_model(models.logistic(3)) == models.logistic(3)
    assert as_model(Linen(), metric=lambda outputs, y: y, metric_name="odd").metric_name == "odd"
    assert as_model(Linen()).name == "Linen"


class LinenNorm(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(3)(linen.BatchNorm(use_running_average=False)(x.reshape(x.shape[0], -1)))


class LinenDropout(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(3)(linen.Dropout(0.5, deterministic=False)(x.reshape(x.shape[0], -1)))


class NnxWith(nnx.Module):
    def __init__(self, extra, rngs):
        self.extra, self.out = extra, nnx.Linear(64, 3, rngs=rngs)

    def __call__(self, x):
        return self.out(self.extra(x.reshape(x.shape[0], -1)))


def equinox_with(*extra):
    return eqx.nn.Sequential([eqx.nn.Lambda(jnp.ravel), *extra, eqx.nn.Linear(64, 3, key=KEY)])


RNGS = nnx.Rngs(0)
REFUSED = {
    "linen batch norm": (lambda: LinenNorm(), "batch_stats.*GroupNorm"),
    "nnx batch norm": (lambda: NnxWith(nnx.BatchNorm(64, rngs=RNGS), RNGS), "BatchStat.*GroupNorm"),
    "equinox batch norm": (lambda: equinox_with(eqx.nn.BatchNorm(64, "b", mode="batch")), "GroupNorm"),
    "equinox with state": (
        lambda: eqx.nn.make_with_state(eqx.nn.BatchNorm)(64, "b", mode="batch"),
        "state.*GroupNorm",
    ),
    "linen dropout": (lambda: LinenDropout(), "Dropout needs"),
    "nnx dropout": (lambda: NnxWith(nnx.Dropout(0.5, rngs=RNGS), RNGS), r"module\.eval\(\)"),
    "equinox dropout": (lambda: equinox_with(eqx.nn.Dropout(0.5)), "inference_mode"),
    "linen class": (lambda: Linen, "give an instance"),
    "wrong width": (lambda: eqx.nn.Linear(5, 3, key=KEY), r"Linear fails on inputs of shape \(1, 8, 8, 1\)"),
    "integers": ((lambda: (lambda key: {"n": jnp.arange(3)}, plain_apply)), "fails on inputs"),
    "integer leaf": (
        (lambda: (lambda key: {**plain_init(key), "n": jnp.arange(3)}, plain_apply)),
        r"parameter \['n'\] is no float array",
    ),
    "no batch": ((lambda: (plain_init, lambda params, x: plain_apply(params, x).sum())), "a row each"),
    "factory of nothing": (lambda: lambda key: 3, "gave 3, not an nnx or equinox module"),
    "factory that fails": (lambda: lambda key: 1 / 0, "ZeroDivisionError"),
    "a string": (lambda: "two_nn", "cannot be used as a model: give a Model, a pair"),
    "a function of nothing": (lambda: lambda: None, "cannot be used as a model"),
    "three functions": (lambda: (plain_init, plain_apply, plain_apply), "cannot be used as a model"),
}


@pytest.mark.parametrize(("thing", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_would_go_wrong_is_refused_in_one_line(thing, says):
    with pytest.raises(BadInput, match=says) as caught:
        as_model(thing()).init(KEY, X[:1])
    assert "\n" not in str(caught.value)


def test_dropout_that_is_turned_off_is_accepted():
    module = NnxWith(nnx.Dropout(0.5, rngs=RNGS), RNGS)
    module.eval()
    for thing in (module, eqx.nn.inference_mode(equinox_with(eqx.nn.Dropout(0.5)))):
        first, *_, last = losses(as_model(thing))
        assert last < first


@pytest.mark.parametrize("file", ["linen_model", "nnx_model", "equinox_model", "plain_functions"])
def test_examples_learn(file):
    model = from_spec(f"{EXAMPLES / file}.py:factory", classes=3)
    assert model.apply(model.init(KEY, X[:1]), X).shape == (30, 3)
    assert model.classes == 3
    first, *_, last = losses(model)
    assert last < first


def test_the_regression_example_learns():
    model = from_spec(f"{EXAMPLES / 'regression.py'}:factory", classes=None)
    x = jax.random.normal(KEY, (40, 5))
    y = x @ jnp.arange(5.0) + 1.0
    first, *_, last = losses(model, x, y, steps=30)
    assert last < 0.2 * first
    assert model.metric_name == "negative_squared_error"


def test_names_of_built_in_models():
    assert from_spec("two_nn", 10) is models.two_nn()
    assert from_spec("logistic", None) is models.logistic()
    assert from_spec("cnn", 62).classes == 62
    assert spec_hash("cnn") is None
    with pytest.raises(BadInput, match="did you mean 'two_nn'"):
        from_spec("two_n", 10)


def test_built_in_models_take_parameters_too():
    assert from_spec("two_nn+hidden=5", 7) is models.two_nn(7, hidden=5)
    assert from_spec("cnn+start=uniform") is models.cnn(start="uniform") is not models.cnn()
    assert spec_hash("cnn+start=uniform") is None
    for text, says in (
        ("two_n+hidden=5", "did you mean 'two_nn"),
        ("two_nn+hiden=5", "unknown parameter of two_nn 'hiden': did you mean 'hidden'"),
        ("two_nn+classes=5", r"model two_nn\+classes=5: classes is set by the data set; leave it out here"),
        ("cnn+start=zeros", "unknown start of cnn 'zeros'; known: he, uniform"),
        ("cnn+start=he+start=he", "start is there twice"),
    ):
        with pytest.raises(BadInput, match=says):
            from_spec(text, 10)


@pytest.mark.parametrize("typed", ["5.5", "many", "true", "none"])
def test_a_size_that_is_no_whole_number_is_refused(typed, monkeypatch):
    # As a person has it: without the checks of types that tests add.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(BadInput, match=r"two_nn\(hidden=.*\): a whole number is needed"):
        from_spec(f"two_nn+hidden={typed}", 10)


def test_the_hash_is_of_the_file(tmp_path):
    file = tmp_path / "net.py"
    file.write_text("x = 1\n")
    assert spec_hash(f"{file}:make") == hashlib.sha256(b"x = 1\n").hexdigest()
    with pytest.raises(BadInput, match="cannot be read"):
        spec_hash(f"{tmp_path}/none.py:make")


FILES = {
    "no function": ("x = 1", "has no function 'make'"),
    "not callable": ("make = 3", "has no function 'make'"),
    "syntax": ("def make(:", "cannot be loaded: SyntaxError"),
    "import": ("import not_there_at_all", "pip install not_there_at_all"),
    "inside": ("def make():\n    raise RuntimeError('two\\nlines')", "make failed: RuntimeError: two lines"),
    "nothing": ("def make(): pass", "make failed: None cannot be used as a model"),
    "needs more": ("def make(width): pass", "make failed: TypeError"),
}


@pytest.mark.parametrize(("source", "says"), FILES.values(), ids=FILES.keys())
def test_failures_of_a_file_are_one_line(tmp_path, source, says):
    (tmp_path / "net.py").write_text(source)
    with pytest.raises(BadInput, match=says) as caught:
        from_spec(f"{tmp_path}/net.py:make", 10)
    assert "\n" not in str(caught.value)
    assert "net.py" in str(caught.value)


@pytest.mark.parametrize("made_from", ["", "rngs, "])
def test_parameters_of_the_function_follow_its_name(tmp_path, made_from):
    file = tmp_path / "net.py"
    body = "nnx.Linear(1, width, rngs=rngs)" if made_from else "nn.Dense(width)"
    file.write_text(
        f"from flax import linen as nn, nnx\ndef make({made_from}width=3, classes=2): return {body}\n"
    )
    for text, width in (("make", 3), ("make+width=7", 7)):
        model = from_spec(f"{file}:{text}", 10)
        assert model.apply(model.init(KEY, X[:1, 0, 0]), X[:, 0, 0]).shape == (30, width)
    with pytest.raises(BadInput, match=r"unknown parameter of .*make 'widht': did you mean 'width'"):
        from_spec(f"{file}:make+widht=7", 10)
    with pytest.raises(BadInput, match="classes is set by the data set; leave it out here"):
        from_spec(f"{file}:make+classes=7", 10)


def test_a_file_without_a_function_and_a_missing_file():
    with pytest.raises(BadInput, match=r"type net\.py:FUNCTION"):
        from_spec("net.py", 10)
    with pytest.raises(BadInput, match="cannot be read"):
        from_spec("nowhere/net.py:make", 10)


def test_neither_library_is_imported_for_what_is_not_its():
    code = (
        "import sys; from enlist.problem import adapters, models\n"
        "adapters.as_model(models.two_nn()); adapters.as_model((lambda key: {}, lambda p, x: x))\n"
        "assert not {'flax', 'equinox'} & set(sys.modules), sorted(sys.modules)"
    )
    source = str(Path(adapters.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": source, "JAX_PLATFORMS": "cpu"}, text=True
    )
    assert done.returncode == 0
