"""What an evaluation says, against NumPy over all rows."""

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from conftest import make_dataset

import enlist
from enlist import Steps, models, partition
from enlist.engine import evaluation
from enlist.problem.federation import Federation, Holding
from enlist.problem.objective import objective


def looked_at(fed, **options):
    arguments = {"cohort": 2, "rounds": 2, "local": Steps(2, 4), "seed": 3} | options
    return enlist.simulate(enlist.fedavg(), models.logistic(), fed, **arguments)


def losses(layers, x, y):
    _, logits = oracle.forward(
        [(w.astype(np.float64), b.astype(np.float64)) for w, b in layers], x.astype(np.float64)
    )
    top = logits.max(axis=1)
    log_sum = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
    return log_sum - logits[np.arange(len(y)), y], logits.argmax(axis=1) == y


def unequal():
    data = make_dataset()
    rows = np.random.default_rng(0).permutation(len(data.x_train))
    return Federation(
        data, Holding.of([rows[:5], rows[5:200], rows[200:230]]), Holding.of([np.arange(9), [], [50, 51]])
    )


@pytest.mark.parametrize("devices", [1, 3])
def test_f_is_the_mean_over_workers_and_the_test_set_is_taken_whole(devices):
    fed = unequal()
    run = looked_at(fed, devices=devices)
    layers = [(run.params["w"], run.params["b"])]
    by_worker = [
        losses(layers, fed.data.x_train[fed.train.rows(i)], fed.data.y_train[fed.train.rows(i)])[0].mean()
        for i in range(3)
    ]
    test_loss, hit = losses(layers, fed.data.x_test, fed.data.y_test)
    last = run.metrics[-1]
    assert last["train_loss"] == pytest.approx(np.mean(by_worker), rel=1e-5)
    assert last["test_loss"] == pytest.approx(test_loss.mean(), rel=1e-5)
    assert last["test_accuracy"] == pytest.approx(hit.mean(), abs=1e-6)


def test_the_squared_gradient_norm_is_that_of_f():
    fed = unequal()
    run = looked_at(fed, grad_norm=True)
    layers = [(run.params["w"].astype(np.float64), run.params["b"].astype(np.float64))]
    x, y = fed.data.x_train.astype(np.float64), fed.data.y_train
    each = [oracle.gradient(layers, x[fed.train.rows(i)], y[fed.train.rows(i)])[0] for i in range(3)]
    total = [sum(part) / 3 for part in zip(*each, strict=True)]
    assert run.metrics[-1]["grad_norm_sq"] == pytest.approx(sum((g**2).sum() for g in total), rel=1e-4)


def test_accuracy_by_worker_is_on_its_own_test_rows():
    fed = unequal()
    run = looked_at(fed, worker_accuracy=True)
    layers = [(run.params["w"], run.params["b"])]
    own = [
        losses(layers, fed.data.x_test[rows], fed.data.y_test[rows])[1].mean()
        for rows in (np.arange(9), [50, 51])
    ]
    seen = run.metrics[-1]["worker_accuracy"]
    assert seen["min"] == pytest.approx(min(own), abs=1e-6)
    assert seen["max"] == pytest.approx(max(own), abs=1e-6)
    assert seen["mean"] == pytest.approx(np.mean(own), abs=1e-6)


def test_accuracy_by_worker_is_refused_where_workers_have_no_test_rows():
    fed = unequal()
    with pytest.raises(enlist.BadInput, match="test rows"):
        looked_at(Federation(fed.data, fed.train), worker_accuracy=True)


def test_the_last_round_is_always_evaluated_and_lines_are_those_asked_for():
    run = looked_at(unequal(), rounds=7, eval_every=3)
    assert [line["round"] for line in run.metrics] == [3, 6, 7]


def test_bytes_and_seconds_follow_from_the_messages():
    run = looked_at(unequal(), rounds=4, bandwidth=10.0, worker_seconds=0.5)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(run.params))
    last = run.metrics[-1]
    assert last["uplink_bytes"] == last["downlink_bytes"] == 4 * parameters
    assert last["comm_mib"] == pytest.approx(4 * 2 * 4 * parameters / 2**20)
    assert last["seconds"] == pytest.approx(4 * 0.5 + last["comm_mib"] / 10)
    assert last["compute_seconds"] == pytest.approx(4 * 0.5)


def test_rounds_to_a_goal():
    run = looked_at(partition.iid(make_dataset(), 10, 0), rounds=30, cohort=5, target=0.5)
    first = run.rounds_to(accuracy=0.5)
    assert first == run.summary["target"]["rounds"]
    assert all(line["test_accuracy"] < 0.5 for line in run.metrics if line["round"] < first)
    assert run.rounds_to(accuracy=1.01) is None
    assert run.rounds_to(loss=100.0) == 1
    with pytest.raises(enlist.BadInput, match="test_accuracy"):
        run.rounds_to(f1=0.5)


def test_bf16_computes_coarsely_but_keeps_float32_parameters():
    fed = partition.iid(make_dataset(), 10, 0)
    exact, coarse = (
        looked_at(fed, rounds=20, eval_every=20),
        looked_at(fed, rounds=20, eval_every=20, precision="bf16"),
    )
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(coarse.params))
    assert coarse.metrics[-1]["train_loss"] == pytest.approx(exact.metrics[-1]["train_loss"], rel=0.02)
    assert coarse.metrics[-1]["train_loss"] != exact.metrics[-1]["train_loss"]


@pytest.mark.parametrize("count", [2_999, 10_000])
def test_all_right_is_exactly_one_and_all_wrong_exactly_none(count):
    sought, rows = objective(models.logistic(), "float32"), np.arange(count)
    x, y = np.eye(10, dtype=np.float32)[rows % 10], (rows % 10).astype(np.int32)
    for labels, share in ((y, 1.0), ((y + 1) % 10, 0.0)):
        shown = jax.tree.map(jnp.asarray, evaluation.evenly(x, labels, rows))
        params = {"w": 9 * jnp.eye(10), "b": jnp.zeros(10)}
        _, metric = evaluation.scores(sought, params, shown, 500)
        assert float(metric) == share
