"""What runs cost: bytes against the paper's table 2, seconds against a plain loop over what was drawn."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import make_dataset

import enlist
from enlist import Epochs, Steps, models, partition, sampling
from enlist.cost import MIB, RoundCost, exchange_seconds, setup_seconds
from enlist.engine.clock import Clock
from enlist.engine.traffic import round_cost
from enlist.links import Links, resolve
from enlist.problem.federation import Federation, Holding

IMAGE = jax.ShapeDtypeStruct((28, 28, 1), np.float32)
COLOUR = jax.ShapeDtypeStruct((32, 32, 3), np.float32)
LABEL = jax.ShapeDtypeStruct((), np.int32)
A_MIB, TWO_STEPS = RoundCost(MIB, MIB), Steps(2, 4)

# Table 2: model, rounds and MB of SCAFFOLD, rounds and MB of generalized FedAvg.
TABLE_2 = [
    ("logistic", 3, 0.36, 3, 0.18),
    ("two_nn", 3, 9.12, 3, 4.56),
    ("cnn", 3, 26.64, 3, 13.32),
    ("logistic", 5, 0.60, 5, 0.30),
    ("two_nn", 5, 15.20, 8, 12.16),
    ("cnn", 1, 8.88, 1, 4.44),
    ("logistic", 14, 1.68, 14, 0.84),
    ("two_nn", 14, 42.55, 14, 21.28),
    ("cnn", 14, 124.34, 10, 44.41),
    ("logistic", 7, 0.84, 11, 0.66),
    ("two_nn", 7, 21.28, 17, 25.84),
    ("cnn", 17, 150.98, 7, 31.08),
    ("resnet18", 56, 9548.07, 44, 3751.03),
    ("resnet18", 52, 8866.06, 61, 5200.29),
]


@cache
def cost_of(algorithm: str, model: str) -> RoundCost:
    x = COLOUR if model == "resnet18" else IMAGE
    return round_cost(getattr(enlist, algorithm)(), getattr(models, model)(), x, LABEL)


@pytest.mark.parametrize(("model", "scaffold_rounds", "scaffold_mb", "rounds", "mb"), TABLE_2)
def test_the_papers_megabytes(model, scaffold_rounds, scaffold_mb, rounds, mb):
    assert cost_of("scaffold", model).mebibytes(scaffold_rounds) == pytest.approx(scaffold_mb, abs=0.011)
    assert cost_of("fedavg", model).mebibytes(rounds) == pytest.approx(mb, abs=0.011)


def nobody(rounds):
    raise AssertionError("no cohort need be drawn where all workers are alike")


def clock(cost=A_MIB, work=TWO_STEPS, sizes=(5, 5), worker_seconds=0.0):
    sizes = np.array(sizes, np.int32)
    alike = resolve(len(sizes), 0, bandwidth=20.0)
    return Clock(cost, alike, work, sizes, worker_seconds, nobody, places=len(sizes))


def test_the_papers_seconds():
    """Table 2, ResNet-18 i.i.d.: 44 rounds of 1.57 s and 3751.03 MiB at 20 MiB/s."""
    cost = cost_of("fedavg", "resnet18")
    spent = clock(cost, Epochs(5, 50), [500] * 100, worker_seconds=1.57).spent(44)
    assert spent.seconds == pytest.approx(256.63, abs=0.005)
    assert spent.compute == pytest.approx(44 * 1.57)
    assert spent.communication == pytest.approx(cost.mebibytes(44) / 20)


def test_sizes_do_not_matter_where_steps_or_seconds_are_equal():
    assert clock(sizes=(5, 900), worker_seconds=3.0).spent(7).compute == pytest.approx(21.0)
    assert clock(work=Epochs(2, 10), sizes=(5, 900)).spent(7).seconds == pytest.approx(7 * 2 / 20)


@pytest.mark.parametrize("work", [Steps(2, 4, later=((3, 6),)), Epochs(1, 5, later=((3, 3),))])
def test_more_local_work_from_some_round_on_takes_longer(work):
    spent = clock(work=work, worker_seconds=0.5).spent(5)
    assert spent.compute == pytest.approx(0.5 * (3 * 1 + 2 * 3))
    assert spent.communication == pytest.approx(5 * 2 / 20)


def test_what_goes_before_the_first_round_is_waited_for_by_all():
    links = Links(*np.array([[9.0, 9.0], [4.0, 2.0], [0.1, 0.3], [1.0, 1.0]]))
    cost = RoundCost(0, 0, setup=8 * MIB)
    assert setup_seconds(cost, links) == pytest.approx(4.3)
    assert setup_seconds(RoundCost(MIB, MIB), links) == 0
    assert cost.mebibytes(0) == cost.mebibytes(5) == 8
    assert clock(cost).spent(3).communication == pytest.approx(8 / 20)


def test_every_exchange_of_a_round_has_its_latency():
    links = resolve(2, 0, bandwidth=1.0, latency=0.25)
    assert exchange_seconds(RoundCost(MIB, 2 * MIB), links) == pytest.approx(3.5)
    assert exchange_seconds(RoundCost(MIB, 2 * MIB, exchanges=2), links) == pytest.approx(4.0)


def test_all_that_an_algorithm_sends_is_counted():
    model = models.logistic()
    bytes_ = 4 * 7850

    def cost(**parts):
        return round_cost(enlist.fedavg()._replace(**parts), model, IMAGE, LABEL, shared=100)

    assert cost() == RoundCost(bytes_, bytes_, setup=100)
    assert cost(replica=lambda server: server.params).setup == bytes_ + 100
    every_model = {
        "broadcast": lambda server: jax.tree.map(lambda leaf: jnp.stack([leaf] * 5), server.params),
        "address": lambda payload, worker: jax.tree.map(lambda leaf: leaf[worker], payload),
    }
    assert cost(**every_model) == cost()


def test_a_probe_goes_up_and_its_mean_comes_down():
    plain = enlist.fedavg()
    probed = plain._replace(
        probe=plain.local,
        local=lambda ctx, key, payload, own, data: plain.local(ctx, key, payload.payload, own, data),
    )
    one = 4 * 7850
    assert round_cost(probed, models.logistic(), IMAGE, LABEL) == RoundCost(2 * one, 2 * one, exchanges=2)


# ---- runs whose workers differ ---------------------------------------------------------------------------


def unequal(workers=9):
    data = make_dataset()
    rows = np.random.default_rng(1).permutation(len(data.x_train))
    return Federation(data, Holding.of(np.array_split(rows[:500], np.cumsum(np.arange(1, workers)) * 11)))


def table(workers=9, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "uplink": rng.uniform(0.0003, 0.003, workers),
        "downlink": rng.uniform(0.0003, 0.003, workers),
        "latency": rng.uniform(0.0, 0.4, workers),
        "slowness": rng.uniform(0.5, 5.0, workers),
    }


def run(out=None, **options):
    arguments = {
        "cohort": 3,
        "rounds": 7,
        "local": Epochs(2, 10),
        "seed": 4,
        "eval_every": 3,
        "worker_seconds": 0.5,
        "profile": table(),
        "devices": 1,
        "execution": "batch",
        "out": out,
    } | options
    return enlist.simulate(enlist.fedavg(), models.logistic(), arguments.pop("fed", unequal()), **arguments)


def by_hand(result, profile, worker_seconds=0.5):
    """Compute and communication after each round, worker by worker."""
    session = result.session
    mean = np.mean([session.plan.work.count(int(size), 0) for size in session.federation.sizes])
    down, up = session.cost.downlink / MIB, session.cost.uplink / MIB
    so_far, rounds = np.zeros(2), []
    for t in range(result.summary["rounds"]):
        slowest = np.zeros(2)
        for one in result.drawn(t):
            steps = len(one.batches)
            compute = steps * worker_seconds / mean * profile["slowness"][one.worker]
            communication = (
                2 * profile["latency"][one.worker]
                + down / profile["downlink"][one.worker]
                + up / profile["uplink"][one.worker]
            )
            if compute + communication > slowest.sum():
                slowest = np.array([compute, communication])
        so_far = so_far + slowest
        rounds.append(so_far)
    return rounds


@pytest.mark.parametrize(
    "options",
    [
        {"target": 0.1},
        {"cohort": sampling.at_least(2, 6)},
        {"cohort": sampling.with_replacement(4), "local": Steps(3, 4, later=((2, 9),))},
        {"cohort": sampling.full(), "fed": partition.iid(make_dataset(), 9, 0)},
    ],
    ids=["without-replacement", "at-least", "with-replacement", "full"],
)
def test_a_round_waits_for_the_slowest_of_its_cohort(options):
    result = run(**options)
    expected = by_hand(result, table())
    for line in result.metrics:
        compute, communication = expected[line["round"] - 1]
        assert line["compute_seconds"] == pytest.approx(compute, rel=1e-12)
        assert line["seconds"] == pytest.approx(compute + communication, rel=1e-12)
    if (target := result.summary["target"]) is not None:
        reached = expected[target["rounds"] - 1]
        assert [target["compute_seconds"], target["communication_seconds"]] == pytest.approx(
            reached, rel=1e-12
        )
        assert target["seconds"] == pytest.approx(sum(reached))


def test_unequal_workers_alone_make_rounds_differ():
    result = run(profile=None)
    alike = {
        name: np.full(9, value) for name, value in zip(Links._fields, (20.0, 20.0, 0.0, 1.0), strict=True)
    }
    assert result.metrics[-1]["seconds"] == pytest.approx(by_hand(result, alike)[-1].sum(), rel=1e-12)
    assert not result.session.clock.alike


def test_many_rounds_at_once_add_up_as_one_after_the_other(monkeypatch):
    rounds = (0, 4, 11)
    at_once = [run().session.clock.spent(t) for t in rounds]
    monkeypatch.setattr("enlist.engine.clock.MOST_ROUNDS", 4)
    assert np.array([run().session.clock.spent(t) for t in rounds]) == pytest.approx(
        np.array(at_once), rel=1e-12
    )


def test_a_resumed_run_goes_on_with_the_same_clock(tmp_path):
    whole = run(tmp_path / "whole", eval_every=2, rounds=8)
    run(tmp_path / "cut", eval_every=2, rounds=4)
    cut = run(tmp_path / "cut", eval_every=2, rounds=8, resume=True)
    assert (tmp_path / "whole/metrics.jsonl").read_text() == (tmp_path / "cut/metrics.jsonl").read_text()
    assert cut.config["profile"].startswith("given:")
    assert whole.summary["final"] == cut.summary["final"]
    with pytest.raises(enlist.BadInput, match="profile is 'given:"):
        run(tmp_path / "cut", eval_every=2, rounds=9, resume=True, profile=table(seed=1))


def test_examples_that_all_share_are_sent_once():
    data = make_dataset()
    fed = partition.share(data, 0.1, lambda rest: partition.iid(rest, 9, 0))
    result = run(fed=fed, profile=None, worker_seconds=0.0)
    cost, last = result.session.cost, result.metrics[-1]
    assert result.summary["setup_bytes"] == cost.setup == 60 * (12 * 4 + 4)
    assert last["comm_mib"] == pytest.approx((cost.setup + 7 * (cost.uplink + cost.downlink)) / MIB)
    assert last["seconds"] == pytest.approx(last["comm_mib"] / 20)


# ---- where links and devices come from ---------------------------------------------------------------------


def test_a_table_is_read_in_the_order_of_its_workers(tmp_path):
    path = tmp_path / "links.csv"
    path.write_text("worker, uplink,slowness\n1,2.5,3\n\n0, 1.5 ,1\n")
    found = resolve(2, 0, bandwidth=7.0, latency=0.5, profile=str(path))
    assert found.uplink.tolist() == [1.5, 2.5]
    assert found.slowness.tolist() == [1.0, 3.0]
    assert found.downlink.tolist() == [7.0, 7.0]
    assert found.latency.tolist() == [0.5, 0.5]


def test_up_and_down_may_differ():
    found = resolve(1, 0, bandwidth=20.0, uplink=2.0)
    assert (found.uplink.item(), found.downlink.item()) == (2.0, 20.0)


def test_drawn_factors_have_median_one_and_are_independent():
    found = resolve(20_001, 3, bandwidth=4.0, latency=0.1, profile="lognormal:0.5")
    logs = np.log([found.uplink / 4, found.downlink / 4, found.slowness])
    assert np.median(logs, axis=1) == pytest.approx(0, abs=0.02)
    assert logs.std(axis=1) == pytest.approx(0.5, rel=0.02)
    assert np.abs(np.corrcoef(logs) - np.eye(3)).max() < 0.03
    assert (found.latency == 0.1).all()
    again = resolve(10, 3, bandwidth=4.0, profile="lognormal:0.5")
    assert (again.uplink == found.uplink[:10]).all()
    assert (again.uplink != resolve(10, 4, bandwidth=4.0, profile="lognormal:0.5").uplink).all()


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        ({"uplink": [1.0, 2.0, 3.0]}, "profile: 3 rows for 2 workers"),
        ({"uplnk": [1.0, 2.0]}, "unknown column 'uplnk': did you mean 'uplink'"),
        ({"uplink": [1.0, 0.0]}, "entry 1: uplink = 0: must be a finite number above 0"),
        ({"latency": [1.0, -1.0]}, "latency = -1: must be a finite number 0 or more"),
        ({"slowness": [np.nan, 1.0]}, "entry 0: slowness = nan: must be a finite number"),
        ({"uplink": [1.0, 2.0], "downlink": [1.0]}, "equally long"),
        ({"uplink": ["fast", "slow"]}, "uplink must be an array of numbers"),
        ({"uplink": 3.0}, "one number for each worker"),
        ({"worker": [0, 1]}, "says nothing of any worker"),
        ({"worker": [0, 0], "uplink": [1.0, 2.0]}, "each of 0 to 1 once"),
        ({}, "says nothing of any worker"),
    ],
)
def test_a_profile_of_arrays_that_cannot_be_is_refused(profile, says):
    with pytest.raises(enlist.BadInput, match=says):
        resolve(2, 0, profile=profile)


def test_an_option_and_a_column_for_the_same_thing_are_refused():
    with pytest.raises(enlist.BadInput, match="latency is given, but profile has a column latency too"):
        resolve(2, 0, latency=0.1, profile={"latency": [0.1, 0.2]})


def test_a_table_that_changed_is_refused_on_resume(tmp_path):
    path = tmp_path / "links.csv"
    path.write_text("uplink\n" + "1\n" * 9)
    run(tmp_path / "run", rounds=1, profile=str(path))
    path.write_text("uplink\n" + "2\n" * 9)
    with pytest.raises(enlist.BadInput, match="profile-sha256 is"):
        run(tmp_path / "run", rounds=2, profile=str(path), resume=True)
