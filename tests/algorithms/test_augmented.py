"""Batches varied at random: replayed exactly, drawn anew for every step, and never where a model is looked at."""

import itertools

import jax
import numpy as np
import oracle
import pytest
from conftest import make_dataset
from test_fedavg import assert_close, layers_of, unequal

import enlist
from enlist import Epochs, Steps, augment, models, sampling
from enlist.problem.dataset import Dataset


def noisy(key, x):
    """Something that no two batches share."""
    return x + jax.random.normal(key, x.shape)


def run(model, fed, **options):
    return enlist.simulate(enlist.fedavg(worker_lr=0.05, server_lr=1.7), model, fed, **options)


def as_seen(drawn, y):
    """What the engine says that it showed the workers, as new rows: (x, y, the rows of every batch by round)."""
    x, labels, cohorts, last = [], [], [], 0
    for cohort in drawn:
        cohorts.append([])
        for one in cohort:
            assert [len(rows) for rows in one.batches] == [len(seen) for seen in one.inputs]
            ends = last + np.cumsum([len(rows) for rows in one.batches])
            cohorts[-1].append([np.arange(a, b) for a, b in itertools.pairwise([last, *ends])])
            x, labels, last = [*x, *one.inputs], [*labels, *(y[rows] for rows in one.batches)], int(ends[-1])
    return np.concatenate(x), np.concatenate(labels), cohorts


@pytest.mark.parametrize(
    "work", [Steps(5, batch=6), Epochs(2, batch=8), Steps(2, batch=0)], ids=["steps", "epochs", "all rows"]
)
@pytest.mark.parametrize("execution", ["one-by-one", "chunk:2"])
def test_equals_the_oracle_on_what_was_shown(work, execution):
    fed = unequal(make_dataset())
    model = models.two_nn(hidden=16)._replace(augment=noisy)
    whole = run(
        model,
        fed,
        cohort=sampling.with_replacement(4),
        local=work,
        rounds=3,
        seed=7,
        execution=execution,
        devices=1,
    )
    x, y, cohorts = as_seen([whole.drawn(t) for t in range(3)], fed.data.y_train)
    start = run(model, fed, cohort=1, rounds=0, seed=7)
    assert_close(whole, oracle.run(layers_of(start.params), x, y, cohorts, 0.05, 1.7))


class Unhashable:
    __hash__ = None

    def __call__(self, key, x):
        return x


def test_every_step_round_worker_and_occurrence_varies_anew():
    """Ten copies of one row: batches that were varied alike would be equal."""
    row = np.ones((10, 3), np.float32)
    data = Dataset(row, np.zeros(10, np.int32), row, np.zeros(10, np.int32), classes=2, name="ones")
    fed = enlist.partition.iid(data, 2, 0)
    model = models.logistic(2)._replace(augment=noisy)
    it = run(model, fed, cohort=sampling.with_replacement(5), local=Steps(3, batch=2), rounds=2)
    seen = [batch for t in range(2) for one in it.drawn(t) for batch in one.inputs]
    assert len(seen) == 30
    assert len({batch.tobytes() for batch in seen}) == 30


def test_a_model_is_looked_at_on_rows_as_they_are():
    fed = unequal(make_dataset())
    still = enlist.fedavg(worker_lr=1e-30)  # too little to change a bit of the initial parameters
    plain, varied = (
        enlist.simulate(still, model, fed, cohort=2, rounds=1).metrics[0]
        for model in (models.two_nn(), models.two_nn()._replace(augment=noisy))
    )
    for name in ("train_loss", "test_loss", "test_accuracy"):
        assert plain[name] == varied[name]


def test_bytes_are_scaled_before_they_are_varied():
    pixels = np.random.default_rng(0).integers(0, 256, (20, 8, 8, 1), np.uint8)
    y = np.arange(20, dtype=np.int32) % 2
    data = Dataset(pixels, y, pixels, y, classes=2, name="pixels")
    model = models.logistic(2)._replace(augment=augment.crop_flip)
    it = run(model, enlist.partition.iid(data, 2, 0), cohort=2, local=Steps(2, batch=4), rounds=1)
    seen = it.drawn(0)[0].inputs[0]
    assert seen.dtype == np.float32
    assert 0.5 < seen.max() <= 1


def moved_by_varying(algorithm, work):
    """What varied batches change of the model, over how far it moved: 0 where they do nothing."""
    fed = unequal(make_dataset())
    plain, varied = (
        enlist.simulate(algorithm, model, fed, cohort=3, local=work, rounds=2).params["w"]
        for model in (models.logistic(), models.logistic()._replace(augment=noisy))
    )
    return np.linalg.norm(varied - plain) / np.linalg.norm(plain)


@pytest.mark.parametrize("work", [Steps(1, 4), Steps(3, 4)], ids=["one step", "three steps"])
@pytest.mark.parametrize(
    "algorithm",
    [
        enlist.scaffold(),
        enlist.scaffold(variates="I"),
        enlist.mime(),
        enlist.mimelite(),
        enlist.adaptive(),
        enlist.loadaboost(),
    ],
    ids=["scaffold", "scaffold I", "mime", "mimelite", "adaptive", "loadaboost"],
)
def test_methods_vary_no_less_than_fedavg(algorithm, work):
    """Half as much at least, where a gradient of all rows, whose noise is less, decides."""
    assert moved_by_varying(algorithm, work) > 0.5 * moved_by_varying(enlist.fedavg(), work)


def test_how_a_gradient_of_all_rows_varies_them_does_not_depend_on_what_others_hold():
    alone, padded = (unequal(make_dataset(), sizes) for sizes in ((30,), (30, 90)))
    model = models.two_nn(hidden=16)._replace(augment=noisy)
    first, again = (
        run(model, fed, cohort=sampling.recorded([[0]]), local=Steps(1, batch=0), rounds=1, seed=3)
        for fed in (alone, padded)
    )
    for one, other in zip(jax.tree.leaves(first.params), jax.tree.leaves(again.params), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("change", "local", "said"),
    [
        (augment.crop, Steps(1, 2), r"augment does not fit blobs: images .* not \(12,\)"),
        (lambda key, x: x[:, 1:], Steps(1, 2), r"augment must give what it was given, float32\[2, 12\]"),
        (lambda x: x, Steps(1, 2), "augment does not fit blobs: .*positional argument"),
        (Unhashable(), Steps(1, 2), "its augment is Unhashable, which cannot be hashed"),
    ],
)
def test_what_does_not_fit_is_refused(change, local, said):
    with pytest.raises(enlist.BadInput, match=said):
        run(
            models.logistic()._replace(augment=change),
            unequal(make_dataset()),
            cohort=2,
            local=local,
            rounds=1,
        )


def test_a_gradient_of_all_rows_needs_nothing_that_takes_more_than_one():
    def of_one(key, x):
        assert len(x) <= 2  # which is what it is tried with
        return noisy(key, x)

    model = models.logistic()._replace(augment=of_one)
    options = {"cohort": 2, "local": Steps(1, batch=0), "rounds": 1, "execution": "auto"}
    assert run(model, unequal(make_dataset()), **options).summary["status"] == "done"


def test_what_makes_rows_undefined_is_said_to_be_a_cause():
    model = models.logistic()._replace(augment=lambda key, x: x * np.nan)
    with pytest.raises(enlist.Diverged, match="look at the model and the data, and at how they are varied"):
        run(model, unequal(make_dataset()), cohort=2, local=Steps(1, 2), rounds=1)


def test_constants_of_rows_that_vary_are_refused():
    model = models.logistic()._replace(augment=noisy)
    with pytest.raises(enlist.BadInput, match="augment: the constants of a problem are those of its rows"):
        enlist.plan(model, unequal(make_dataset()), cohort=2)


def test_given_to_a_module_as_it_is():
    model = enlist.as_model(models.logistic(), augment=augment.flip)
    assert model.augment is augment.flip
