"""How much a run asks for, before it is run."""

import jax.numpy as jnp
import pytest
from conftest import make_dataset
from jax import lax

import enlist
from enlist.engine.simulate import make_task
from enlist.problem import layers
from enlist.problem.models import Model
from enlist.studies.amount import operations, work_of

IMAGE, LABEL = ((28, 28, 1), "float32"), ((), "int32")


def of(model, **changes):
    fed = enlist.partition.iid(make_dataset(), workers=20, seed=0)
    given = {"cohort": 5, "local": enlist.Epochs(2, batch=10)} | changes
    return work_of(make_task(enlist.fedavg(), model, fed, given["cohort"], given["local"], {}))


def test_products_are_counted():
    products = 2 * 784 * 10
    assert products <= operations(enlist.models.logistic(), *IMAGE, *LABEL) < 1.1 * products
    for hidden in (50, 200):
        products = 2 * (784 * hidden + hidden * hidden + hidden * 10)
        assert products <= operations(enlist.models.two_nn(hidden=hidden), *IMAGE, *LABEL) < 1.1 * products


def test_a_model_that_computes_more_is_more_work_for_the_same_rows():
    by_model = [operations(make(), *IMAGE, *LABEL) for make in (enlist.models.two_nn, enlist.models.cnn)]
    assert by_model[1] > 10 * by_model[0]
    assert of(enlist.models.two_nn()) > of(enlist.models.logistic())


@pytest.mark.parametrize(
    "twice", [{"cohort": 10}, {"local": enlist.Epochs(4, batch=10)}, {"local": enlist.Steps(12, batch=10)}]
)
def test_work_grows_with_workers_a_round_and_local_steps(twice):
    model = enlist.models.logistic()
    assert of(model, **twice) == pytest.approx(2 * of(model))


def test_a_model_for_gpus_alone_counts_by_rows():
    start = lambda key, x: {"w": jnp.ones(3)}
    twice = lambda params, x: lax.platform_dependent(x, cuda=lambda x: 2 * x) * params["w"]
    elsewhere = Model(start, twice, lambda out, y: out.sum(axis=1))
    assert operations(elsewhere, (3,), "float32", (), "int32") == 1


def test_kernels_of_our_own_hide_nothing(monkeypatch):
    models = [enlist.models.cnn(start="uniform"), enlist.models.cnn()]
    monkeypatch.setattr(layers, "_on_gpu", lambda: True)
    as_on_a_gpu = operations(models[0], *IMAGE, *LABEL)
    monkeypatch.setattr(layers, "_on_gpu", lambda: False)
    assert as_on_a_gpu == operations(models[1], *IMAGE, *LABEL)
