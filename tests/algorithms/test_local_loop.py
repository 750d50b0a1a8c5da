"""The local loop: who has finished waits for those beside it, and stays what it was."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from enlist.algorithms.core import Context, WorkerData
from enlist.algorithms.local import run_locally
from enlist.algorithms.work import Epochs
from enlist.problem import models
from enlist.problem.objective import initial, objective

MODEL = models.two_nn(classes=3, hidden=4)
SIZES = np.array([12, 3, 7])
BATCH = 2
rng = np.random.default_rng(0)
X = jnp.asarray(rng.normal(size=(int(SIZES.sum()), 5)), jnp.float32)
Y = jnp.asarray(rng.integers(0, 3, len(X)), jnp.int32)
OFFSETS = jnp.asarray(np.concatenate([[0], np.cumsum(SIZES)[:-1]]), jnp.int32)
PARAMS = initial(MODEL, jax.random.key(0), X[:1])
WORK = Epochs(2, BATCH)
OPTIMIZERS = {"sgd": optax.sgd(0.1), "momentum": optax.sgd(0.1, 0.9), "adam": optax.adam(0.01)}


def one(optimizer, longest, worker, first=0):
    capacity = int(SIZES.max())
    size = jnp.asarray(SIZES, jnp.int32)[worker]
    data = WorkerData(X, Y, None, OFFSETS[worker], size, capacity, capacity, WORK.count(size), longest)
    ctx = Context(jnp.int32(0), objective(MODEL), WORK, {})
    key = jax.random.fold_in(jax.random.key(1), worker)
    return run_locally(ctx, key, PARAMS, data, optimizer, first=first)


def together(optimizer, longest, first=0):
    return jax.vmap(lambda worker: one(optimizer, longest, worker, first))(jnp.arange(len(SIZES)))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_those_who_wait_end_where_they_would_have_ended(name):
    longest = jnp.int32(WORK.count(int(SIZES.max())))
    waited, by_vmap = together(OPTIMIZERS[name], longest), together(OPTIMIZERS[name], None)
    assert waited.stats.steps.tolist() == [12, 4, 8]
    for a, b in zip(jax.tree.leaves(waited), jax.tree.leaves(by_vmap), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def test_waiting_changes_no_bit():
    every = jax.jit(lambda longest: one(OPTIMIZERS["momentum"], longest, 1))
    enough, more = every(jnp.int32(4)), every(jnp.int32(12))
    for a, b in zip(jax.tree.leaves(enough), jax.tree.leaves(more), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_nobody_moves_who_begins_after_its_end():
    run = one(OPTIMIZERS["adam"], jnp.int32(12), 1, first=4)
    assert int(run.stats.steps) == 0
    for a, b in zip(jax.tree.leaves(run.params), jax.tree.leaves(PARAMS), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_one_bound_leaves_one_condition_for_all():
    # A condition of each lane's own makes vmap choose between old and new parameters after every step.
    lowered = lambda longest: jax.jit(lambda: together(OPTIMIZERS["sgd"], longest)).lower().as_text()
    assert "applies stablehlo.or" in lowered(None)
    assert "applies stablehlo.or" not in lowered(jnp.int32(12))
