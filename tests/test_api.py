"""From Python anything may be given: what cannot be is refused, and nothing runs for ever or on nonsense."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from conftest import make_dataset

import enlist
from enlist import models, partition


def run(**options):
    fed = partition.iid(make_dataset(), 7, 0)
    algorithm = options.pop("algorithm", None) or enlist.fedavg()
    return enlist.simulate(algorithm, models.logistic(), fed, **({"rounds": 1, "cohort": 2} | options))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rounds": 2.5}, "rounds = 2.5: must be a whole number"),
        ({"rounds": "3"}, "rounds = '3': must be a whole number"),
        ({"eval_every": True}, "eval-every = True: must be a whole number"),
        ({"target": "high"}, "target = 'high': must be a number"),
        ({"precision": 16}, "precision = 16: must be a text"),
        ({"grad_norm": 1}, "grad-norm = 1: must be True or False"),
        ({"cohort": True}, "cohort = True: give a whole number"),
        ({"cohort": 2.0}, "cohort = 2.0: give a whole number"),
        ({"local": 5}, "local = 5: give Epochs"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(options, says):
    with pytest.raises(enlist.BadInput, match=says):
        run(**options)


def test_numpy_numbers_are_numbers():
    assert run(rounds=np.int64(1), cohort=np.int64(2)).summary["rounds"] == 1


@pytest.mark.parametrize("make", [optax.lbfgs, optax.rprop, lambda rate: None])
def test_what_is_no_optimizer_here_is_refused(make):
    with pytest.raises(enlist.BadInput, match="server optimizer"):
        enlist.fedavg(server=make)


def test_the_servers_rate_is_a_function_of_the_round_alone():
    with pytest.raises(enlist.BadInput, match="one step a round"):
        run(algorithm=enlist.fedavg(server_lr=enlist.PerStep(lambda t, k: jnp.float32(1.0))))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"y_train": np.array([-1, 1, -1, 1])}, "number the classes 0, 1, 2"),
        ({"y_train": np.array([1, 2, 1, 2]), "y_test": np.array([1, 2])}, "number the classes 0, 1, 2"),
        ({"y_test": np.array([0.5, 1.0])}, "both labels, or both targets"),
        ({"x_train": np.full((4, 3), np.nan)}, "holds NaN"),
        ({"worker": np.array([0.5, 1, 1, 2])}, "one integer for each row"),
    ],
)
def test_arrays_that_cannot_be_are_refused(change, says):
    arrays = {
        "x_train": np.ones((4, 3)),
        "y_train": np.array([0, 1, 0, 1]),
        "x_test": np.ones((2, 3)),
        "y_test": np.array([0, 1]),
        "worker": np.array([0, 0, 1, 1]),
    }
    assert enlist.federation(**arrays).workers == 2
    with pytest.raises(enlist.BadInput, match=says):
        enlist.federation(**(arrays | change))


def test_pixels_are_scaled_as_in_a_file():
    x = np.full((4, 3), 255, np.uint8)
    fed = enlist.federation(
        x, np.array([0, 1, 0, 1]), x, np.array([0, 1, 0, 1]), worker=np.array([0, 0, 1, 1])
    )
    assert fed.data.x_train.max() == 1.0


def test_making_the_parts_of_a_run_leaves_the_choice_of_devices_to_it():
    """Whatever starts jax before `simulate` does leaves it with one CPU device."""
    program = """
import enlist
from jax._src import xla_bridge
enlist.fedavg(), enlist.scaffold(), enlist.fedadam(), enlist.slowmo(), enlist.models.two_nn()
fed = enlist.partition.iid(enlist.datasets.digits(), workers=10)
assert not xla_bridge.backends_are_initialized()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
