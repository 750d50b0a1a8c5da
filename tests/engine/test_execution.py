"""How a cohort is put on devices: what is chosen, when it is measured, that it is remembered."""

import jax
import numpy as np
import pytest
from conftest import make_dataset

from enlist import Epochs, Steps, models
from enlist.engine import execution
from enlist.engine.cohort import seats
from enlist.engine.execution import Execution, Load
from enlist.errors import BadInput


def load(model=None, work=None, sizes=None, places=10):
    data = make_dataset(features=784)
    return Load(
        model or models.two_nn(),
        "float32",
        work or Epochs(1, 10),
        np.full(20, 30) if sizes is None else np.asarray(sizes),
        places,
        (data.x_train[:1], data.y_train[:1]),
    )


def never(candidate):
    raise AssertionError("nothing to measure here")


def test_multiplications_of_a_step_are_counted_exactly():
    """2NN: forward and weight gradients of three products, input gradients of two."""
    layers = [784 * 200, 200 * 200, 200 * 10]
    assert execution.step_multiplications(load()) == 10 * (2 * sum(layers) + sum(layers[1:]))


def test_a_cpu_runs_large_steps_one_by_one_and_tiny_ones_together():
    big = load(work=Epochs(1, 60))
    assert execution.choose(big, 2, never) == Execution(1, 2)
    tiny = load(models.logistic(), Steps(1, 1))
    assert execution.choose(tiny, 2, never) == Execution(5, 2)


def test_what_is_not_obvious_is_measured_once_and_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("ENLIST_CACHE", str(tmp_path))
    middle = load(models.logistic(), Steps(1, 20))
    asked = []

    def seconds(candidate):
        asked.append(candidate)
        return {1: 2.0, 5: 1.0}[candidate.lanes]

    assert execution.choose(middle, 2, seconds) == Execution(5, 2)
    assert len(asked) == 2
    assert execution.choose(middle, 2, never) == Execution(5, 2)
    next((tmp_path / "execution").iterdir()).write_text("torn")
    assert execution.choose(middle, 2, lambda c: float(c.lanes)) == Execution(1, 2)


def test_a_gpus_lanes_end_with_its_memory(monkeypatch):
    each = execution.lane_bytes(load())
    monkeypatch.setattr(execution.platform, "memory_bytes", lambda: int(6.5 * each / execution.MEMORY_SHARE))
    assert execution._gpu_lanes(load(places=10), 10) == 5, "two equal groups, not six and four"
    monkeypatch.setattr(execution.platform, "memory_bytes", lambda: None)
    assert execution._gpu_lanes(load(places=10), 10) == 10


def test_rows_that_are_varied_take_memory_too():
    model = models.two_nn()
    varying = model._replace(augment=lambda key, x: x + jax.random.normal(key, x.shape))
    plain, varied = (execution.lane_bytes(load(each, Steps(1, 600))) for each in (model, varying))
    # While they are varied more is alive than later in the step, though not all of it at once.
    assert plain < varied


def test_a_gpu_cuts_a_skewed_cohort_into_smaller_groups(monkeypatch):
    monkeypatch.setattr(execution.platform, "memory_bytes", lambda: None)
    skewed = load(sizes=[60_000] + [20] * 99, places=100)
    assert execution._gpu_lanes(skewed, 100) < 10
    even = load(sizes=[600] * 99 + [590], places=100)
    assert execution._gpu_lanes(even, 100) >= 50


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auto", None),
        ("batch", Execution(5, 2)),
        ("one-by-one", Execution(1, 2)),
        ("chunk:3", Execution(3, 2)),
        ("chunk:99", Execution(5, 2)),
    ],
)
def test_the_words_for_it(text, expected):
    assert execution.parse(text, 10, 2) == expected


@pytest.mark.parametrize("text", ["chunk", "chunk:0", "chunk:x", "batches", ""])
def test_other_words_are_refused(text):
    with pytest.raises(BadInput, match="one-by-one"):
        execution.parse(text, 10, 2)


def test_more_devices_than_there_are_is_refused():
    there = jax.local_device_count()
    assert execution.devices_for(100, 0, 1000) == there
    assert execution.devices_for(1, 0, 1000) == 1
    assert execution.devices_for(100, 0, 2**31) == 1, (
        "devices of one memory must not fill it with each other's messages"
    )
    with pytest.raises(BadInput, match=f"has {there}"):
        execution.devices_for(100, there + 1, 1000)


def test_names_lead_back():
    for chosen in (Execution(1, 2), Execution(5, 2), Execution(3, 2)):
        assert execution.parse(chosen.name(10), 10, 2) == chosen


def test_devices_exchange_seldom_but_within_bounds():
    assert Execution(1, 2).turns(10, 800_000) == 5
    assert Execution(1, 2).turns(100, 800_000) == 8
    assert Execution(1, 2).turns(100, 100_000_000) == 2
    assert Execution(1, 2).turns(100, 10**12) == 1
    assert Execution(1, 1).turns(100, 1) == Execution(4, 2).turns(100, 1) == 1


@pytest.mark.parametrize(("devices", "turns"), [(1, 4), (2, 5), (4, 8)])
def test_turns_are_dealt_to_and_fro(devices, turns):
    dealt = seats(devices, turns)
    assert sorted(dealt.ravel().tolist()) == list(range(devices * turns))
    assert np.ptp(dealt.sum(axis=1)) <= devices * (turns % 2)
