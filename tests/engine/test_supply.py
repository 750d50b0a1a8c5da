"""Rows that stay on the host: the same run, whatever comes when and to which device."""

import jax
import numpy as np
import pytest

import enlist
from enlist import Epochs, Steps
from enlist.engine import supply
from enlist.engine.supply import devices_of, pack, rows_of

MODEL = enlist.models.logistic()


def leaves(run):
    return jax.tree.leaves(run.params)


def run(fed, rows, **options):
    given = {"cohort": 3, "rounds": 7, "eval_every": 3, "seed": 3, "eval_rows": 64, "execution": "one-by-one"}
    given["local"] = Epochs(1, 8)
    algorithm = options.pop("algorithm", enlist.fedavg())
    return enlist.simulate(algorithm, MODEL, fed, rows=rows, **given | options)


@pytest.fixture(scope="module")
def unequal():
    return enlist.partition.quantity(enlist.datasets.digits(), power=1.2, workers=12, seed=1)


@pytest.fixture
def small_deliveries(monkeypatch):
    """So small that most rounds need a delivery of their own."""
    monkeypatch.setattr(supply, "DELIVERY_BYTES", {"cpu": 2**15, "gpu": 2**15})


@pytest.mark.parametrize(
    "options",
    [
        {"devices": 1},
        {"devices": 3, "cohort": 5},
        {"devices": 2, "execution": "chunk:2", "cohort": 7},
        {"devices": 2, "cohort": enlist.sampling.with_replacement(5)},
        {"devices": 2, "cohort": enlist.sampling.at_least(3)},
        {"devices": 1, "local": Steps(3, 0), "execution": "batch"},
    ],
    ids=["one device", "three devices", "chunks", "with replacement", "at least", "full gradient"],
)
def test_where_rows_lie_does_not_change_a_bit(unequal, small_deliveries, options):
    there, here = run(unequal, "device", **options), run(unequal, "host", **options)
    for a, b in zip(leaves(there), leaves(here), strict=True):
        np.testing.assert_array_equal(a, b)
    assert there.metrics == here.metrics
    assert here.summary["supply"]["rows"] == "host"
    assert here.summary["supply"]["delivered_mib"] > 0


def test_equal_workers_and_states_of_workers_too(small_deliveries):
    fed = enlist.partition.digits(enlist.datasets.digits(), per_worker=2, workers=20, seed=0)
    options = {"algorithm": enlist.scaffold(), "devices": 2, "cohort": 4}
    there, here = run(fed, "device", **options), run(fed, "host", **options)
    for a, b in zip(leaves(there), leaves(here), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_resumed_run_goes_on_with_the_rows_of_its_round(unequal, small_deliveries, tmp_path):
    whole = run(unequal, "host", devices=2)
    run(unequal, "host", devices=2, rounds=3, out=tmp_path / "run")
    resumed = run(unequal, "host", devices=2, out=tmp_path / "run", resume=True)
    for a, b in zip(leaves(whole), leaves(resumed), strict=True):
        np.testing.assert_array_equal(a, b)
    elsewhere = run(unequal, "device", devices=1, rounds=9, out=tmp_path / "run", resume=True)
    for a, b in zip(leaves(run(unequal, "device", rounds=9)), leaves(elsewhere), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_round_that_needs_more_room_than_there_was_gets_it(unequal, monkeypatch):
    monkeypatch.setattr(supply, "_room", lambda *_: (1, 4))
    there, here = run(unequal, "device", devices=1), run(unequal, "host", devices=1)
    for a, b in zip(leaves(there), leaves(here), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_delivery_has_each_worker_once_a_device_and_every_row_it_needs(unequal):
    session = run(unequal, "host", devices=3, cohort=7, rounds=0).session
    device = devices_of(session.plan)
    assert len(device) == 7
    assert set(device) == {0, 1, 2}
    cohorts = session.read.source._ahead.rounds(5, 6)
    packed = pack(cohorts, device, 3, unequal, capacity=10**6)
    assert packed.rounds == 6
    for workers in packed.workers:
        assert len(set(workers.tolist())) == len(workers)
    rows = [rows_of(unequal.train, workers) for workers in packed.workers]
    for t in range(6):
        for place in range(7):
            worker, offset = int(cohorts.ids[t, place]), int(packed.cohorts.offsets[t, place])
            mine = rows[device[place]][offset : offset + int(packed.cohorts.sizes[t, place])]
            np.testing.assert_array_equal(mine, unequal.train.rows(worker))


def test_a_delivery_holds_as_many_rounds_as_find_room(unequal):
    session = run(unequal, "host", devices=2, cohort=5, rounds=0).session
    device, cohorts = devices_of(session.plan), session.read.source._ahead.rounds(0, 8)
    for capacity in (0, 100, 400, 900, 10**6):
        packed = pack(cohorts, device, 2, unequal, capacity)
        used = [int(unequal.sizes[workers].sum()) for workers in packed.workers]
        assert max(used) <= capacity
        assert not packed.cohorts.weights[packed.rounds :].any()
        if packed.rounds < 8:
            more = pack(type(cohorts)(*(a[: packed.rounds + 1] for a in cohorts)), device, 2, unequal, 10**6)
            assert max(int(unequal.sizes[workers].sum()) for workers in more.workers) > capacity


def test_rows_are_drawn_for_an_evaluation_by_worker_then_by_row(unequal):
    from enlist.engine.evaluation import drawn_rows

    rows = drawn_rows(unequal, 24_000, seed=0)
    holder = np.empty(len(unequal.data.x_train), int)
    holder[unequal.order] = unequal.train.holder()
    share = np.bincount(holder[rows], minlength=12) / len(rows)
    np.testing.assert_allclose(share, 1 / 12, atol=0.01)


def test_an_unknown_place_for_rows_is_refused(unequal):
    with pytest.raises(enlist.BadInput, match="rows"):
        run(unequal, "disk")
