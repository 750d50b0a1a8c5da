"""Data sharing: rows held out with equally many of each class, and given to every worker beside its own."""

from functools import partial

import numpy as np
import pytest
from conftest import make_dataset

import enlist
from enlist import Steps, models, partition
from enlist.launch.problem import deal
from enlist.options import ProblemOptions
from enlist.problem.dataset import Dataset
from enlist.problem.federation import Federation, Holding
from enlist.report.figures import partition_charts
from enlist.report.record import load
from enlist.report.tables import partition_facts


def shared(data, fraction=0.1, portion=1.0, seed=0, workers=20, deal=None):
    how = deal or partial(partition.digits, per_worker=1, workers=workers, seed=seed)
    return partition.share(data, fraction, how, portion, seed)


def own_rows(fed, worker):
    return np.setdiff1d(fed.train.rows(worker), fed.common)


def test_held_out_rows_are_uniform_over_classes_and_no_workers_own(blobs):
    fed = shared(blobs, 0.1)
    assert np.bincount(blobs.y_train[fed.common]).tolist() == [6] * 10
    private = np.concatenate([own_rows(fed, worker) for worker in range(20)])
    assert len(np.unique(private)) == len(private)
    assert len(private) + len(fed.common) == 600
    for worker in range(20):
        assert len(np.unique(blobs.y_train[own_rows(fed, worker)])) == 1
        assert set(fed.common) <= set(fed.train.rows(worker).tolist())
    assert fed.left_over == 0
    assert fed.partition == "digits:1"


def test_uniform_over_classes_also_where_the_data_are_not():
    data = make_dataset()
    skewed = np.concatenate([np.flatnonzero(data.y_train < 5), np.flatnonzero(data.y_train >= 5)[:60]])
    data = Dataset(
        data.x_train[skewed], data.y_train[skewed], data.x_test, data.y_test, classes=10, name="skewed"
    )
    fed = shared(data, 83 / 360, deal=partial(partition.iid, workers=4))
    assert sorted(np.bincount(data.y_train[fed.common]).tolist()) == [8] * 7 + [9] * 3
    with pytest.raises(
        enlist.BadInput, match=r"share-data = 0.4: skewed has only 12 rows of class 5.*at most 0.3333"
    ):
        shared(data, 0.4)
    assert len(shared(data, 0.3333, deal=partial(partition.iid, workers=4)).common) == 120


def test_a_portion_is_drawn_for_each_worker(blobs):
    fed = shared(blobs, 0.1, portion=0.25)
    got = [np.intersect1d(fed.train.rows(worker), fed.common) for worker in range(20)]
    assert {len(rows) for rows in got} == {15} == {fed.shared_rows}
    assert len({tuple(rows) for rows in got}) == 20
    # As expected of independent draws of a quarter: every row is somewhere.
    counts = np.bincount(np.concatenate(got), minlength=600)[fed.common]
    assert counts.mean() == pytest.approx(20 / 4)
    assert counts.std() == pytest.approx(np.sqrt(20 * 0.25 * 0.75), rel=0.3)
    assert fed.shared_bytes == 15 * (12 * 4 + 4)


def test_the_seed_decides(blobs):
    one, same, other = (
        shared(blobs, portion=0.5),
        shared(blobs, portion=0.5),
        shared(blobs, portion=0.5, seed=1),
    )
    assert (one.order == same.order).all()
    assert set(one.common) != set(other.common)


def test_examples_are_not_copied_and_regression_is_sampled():
    rng = np.random.default_rng(0)
    data = Dataset(rng.normal(size=(50, 2)), rng.normal(size=50), np.ones((2, 2)), np.ones(2))
    fed = shared(data, 0.2, deal=partial(partition.quantity, workers=5))
    assert fed.data is data
    assert len(fed.common) == 10
    assert fed.sizes.sum() == 40 + 5 * 10


def test_a_row_that_is_not_shared_still_has_one_holder(blobs):
    with pytest.raises(enlist.BadInput, match="two holders"):
        Federation(blobs, Holding.of([[0, 1], [1, 2]]), common=np.array([2]))
    with pytest.raises(enlist.BadInput, match="holds a training row twice"):
        Federation(blobs, Holding.of([[0, 2, 2], [1, 2]]), common=np.array([2]))
    assert Federation(blobs, Holding.of([[0, 2], [1, 2]]), common=np.array([2])).left_over == 597


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"fraction": 0.0}, "share-data = 0: must be above 0 and below 1"),
        ({"fraction": 1.0}, "share-data = 1: must be above 0 and below 1"),
        ({"fraction": np.nan}, "share-data = nan"),
        ({"portion": 0.0}, "share-portion = 0: must be above 0 and at most 1"),
        ({"portion": 1.5}, "share-portion = 1.5: must be"),
        (
            {"deal": lambda rest: partition.iid(make_dataset(), 4)},
            "`deal` must deal the rows that it is given",
        ),
    ],
)
def test_what_cannot_be_is_refused(arguments, says, blobs):
    with pytest.raises(enlist.BadInput, match=says):
        shared(blobs, **arguments)


def test_no_holder_vanishes():
    data = make_dataset()
    holders = np.minimum(np.arange(600), 5)
    named = Dataset(data.x_train, data.y_train, data.x_test, data.y_test, worker=holders, classes=10)
    with pytest.raises(enlist.BadInput, match="of the 6 holders that data names would keep no row"):
        shared(named, 0.9, deal=partition.by_key)
    even = Dataset(
        data.x_train, data.y_train, data.x_test, data.y_test, worker=np.arange(600) % 7, classes=10
    )
    assert shared(even, 0.1, deal=partition.by_key).workers == 7


def test_f_is_over_all_rows_that_workers_hold(tmp_path):
    fed = shared(make_dataset(), 0.1, portion=0.5)
    options = {"cohort": 5, "rounds": 2, "local": Steps(2, 4), "devices": 1, "execution": "batch"}
    run = enlist.simulate(enlist.fedavg(), models.logistic(), fed, out=tmp_path / "run", **options)
    scores = fed.data.x_train @ run.params["w"].T + run.params["b"]
    losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(600), fed.data.y_train]
    by_worker = [losses[fed.train.rows(worker)].mean() for worker in range(20)]
    assert run.metrics[-1]["train_loss"] == pytest.approx(np.mean(by_worker), rel=1e-5)
    record = load(tmp_path / "run")
    assert record.partition["rows"] == 600 - fed.left_over
    assert "30 of each worker's are shared" in partition_facts(record.partition)
    assert len(partition_charts([record, run.record()])) == 1


def test_options_hold_out_first_and_deal_the_rest():
    options = ProblemOptions("digits", "digits:1", 20, "logistic", share_data=0.1, share_portion=0.5)
    filled, fed = deal(options, seed=3)
    assert filled == options
    rows = len(fed.data.x_train)
    assert len(fed.common) == round(0.1 * rows)
    assert fed.shared_rows == round(0.5 * len(fed.common))
    assert all(len(np.unique(fed.data.y_train[own_rows(fed, worker)])) == 1 for worker in range(20))
