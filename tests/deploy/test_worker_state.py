"""What a worker keeps: under the round of its reply, whole or not at all, and only what was used stays."""

import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stub import Killed, same

from enlist.deploy.worker_state import KEEP, NONE, Versions
from enlist.engine import checkpoint
from enlist.errors import EnlistError


class State(NamedTuple):
    control: dict[str, np.ndarray]
    steps: np.ndarray


def state(number):
    return State({"w": np.full((2, 3), number, np.float32)}, np.asarray(number, np.int32))


LIKE = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, state(0)))


def load(versions, version):
    return versions.load(version, lambda: state(-7), LIKE)


@pytest.fixture
def versions(tmp_path):
    return Versions(tmp_path / "state" / "t0")


def test_before_the_first_reply_was_used_there_is_the_first_state(versions):
    assert same(load(versions, NONE), state(-7))
    versions.keep(0, state(1))
    assert same(load(versions, NONE), state(-7))


def test_every_version_comes_back_as_it_was(versions):
    for t in (0, 3, 10):
        versions.keep(t, jax.tree.map(jnp.asarray, state(t)))
    assert versions.kept() == [0, 3, 10]
    for t in (0, 3, 10):
        found = load(versions, t)
        assert same(found, state(t))
        assert isinstance(found, State)
        assert (found.steps.shape, found.steps.dtype) == ((), np.int32)
    versions.keep(3, state(33))
    assert same(load(versions, 3), state(33))


def test_short_numbers_are_kept_as_well(versions):
    held = {
        "a": jnp.asarray([1.5, -2.0], jnp.bfloat16),
        "b": np.array([True, False]),
        "c": np.uint32([2**32 - 1]),
    }
    like = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, held))
    versions.keep(0, held)
    found = versions.load(0, lambda: None, like)
    assert same(found, held)
    assert all(found[name].dtype == like[name].dtype for name in held)


def test_a_method_without_states_leaves_nothing(versions):
    versions.keep(0, ())
    versions.settle(0)
    assert not versions.folder.exists()
    assert versions.load(5, lambda: 1 / 0, ()) == ()


def test_what_was_not_used_vanishes_and_the_last_used_stay(versions):
    for t in range(8):
        versions.keep(t, state(t))
    versions.settle(5)
    assert versions.kept() == [3, 4, 5]
    versions.settle(4)
    assert versions.kept() == [3, 4]
    versions.settle(NONE)
    assert versions.kept() == []
    # A server that goes back to its oldest checkpoint finds the states of it.
    assert KEEP > checkpoint.KEEP


def test_states_that_were_used_far_apart_stay_too(versions):
    for t in (1, 20, 300):
        versions.keep(t, state(t))
        versions.settle(t)
    assert versions.kept() == [1, 20, 300]


def test_a_version_that_is_missing_is_refused_in_one_line(versions):
    with pytest.raises(EnlistError) as none:
        load(versions, 4)
    assert "round 4 is not on this worker's disk (kept: none)" in str(none.value)
    versions.keep(2, state(2))
    with pytest.raises(EnlistError) as other:
        load(versions, 4)
    assert "(kept: 2)" in str(other.value)
    assert "\n" not in str(other.value)


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_kill_between_draft_and_replace_leaves_the_old_one(versions, monkeypatch, moment):
    versions.keep(1, state(1))

    def kill(*given):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(os, moment, kill)
        for t in (1, 2):
            with pytest.raises(Killed):
                versions.keep(t, state(99))
    assert versions.kept() == [1]
    assert same(load(versions, 1), state(1))
    versions.keep(2, state(2))
    assert same(load(versions, 2), state(2))


def test_a_file_that_is_damaged_is_refused_in_one_line(versions):
    versions.keep(1, state(1))
    path = versions.folder / "1.safetensors"
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(EnlistError, match=r"1\.safetensors: cannot be read"):
        load(versions, 1)
    versions.keep(1, {"other": np.zeros(3, np.float32)})
    with pytest.raises(EnlistError, match=r"1\.safetensors: cannot be read"):
        load(versions, 1)
