"""What a worker draws: from its key and its own size alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enlist.algorithms import keys
from enlist.algorithms.work import Epochs, Steps, parse_schedule
from enlist.errors import BadInput


def batches(work, key, size, capacity, reach=None):
    table = work.table(key, size, capacity if reach is None else reach, capacity)
    picked = [work.pick(table, jnp.int32(k), size) for k in range(int(work.count(size)))]
    return [np.asarray(b.positions)[: int(b.count)] for b in picked]


@settings(max_examples=12)  # each is compiled anew
@given(
    epochs=st.integers(1, 4),
    batch=st.integers(1, 25),
    size=st.integers(1, 80),
    padding=st.integers(0, 60),
    seed=st.integers(0, 999),
)
def test_an_epoch_is_every_row_once_with_a_last_batch_of_its_true_size(epochs, batch, size, padding, seed):
    drawn = batches(Epochs(epochs, batch), jax.random.key(seed), size, size + padding)
    in_a_pass = -(-size // batch)
    assert len(drawn) == epochs * in_a_pass
    for e in range(epochs):
        one = drawn[e * in_a_pass : (e + 1) * in_a_pass]
        assert sorted(np.concatenate(one).tolist()) == list(range(size))
        assert [len(b) for b in one] == [batch] * (in_a_pass - 1) + [size - batch * (in_a_pass - 1)]


@pytest.mark.parametrize("work", [Epochs(3, 7), Steps(20, 7)])
@pytest.mark.parametrize("size", [5, 64, 2500])
def test_draws_do_not_depend_on_padding(work, size):
    key = jax.random.key(4)
    alone = batches(work, key, size, size)
    for capacity in (size + 1, size + 500, 3000):
        padded = batches(work, key, size, max(size, capacity))
        assert all((a == b).all() for a, b in zip(alone, padded, strict=True))


@pytest.mark.parametrize("work", [Epochs(2, 7), Steps(9, 7)])
def test_draws_are_the_same_alone_and_in_a_cohort_of_unequal_workers(work):
    sizes = jnp.array([3, 2100, 40])
    worker_keys = jax.random.split(jax.random.key(0), 3)
    tables = jax.vmap(lambda key, size: work.table(key, size, 2100, 2100))(worker_keys, sizes)
    for i, size in enumerate(sizes.tolist()):
        alone = batches(work, worker_keys[i], size, size)
        together = [work.pick(tables[i], jnp.int32(k), jnp.int32(size)) for k in range(int(work.count(size)))]
        assert all(
            (a == np.asarray(b.positions)[: int(b.count)]).all() for a, b in zip(alone, together, strict=True)
        )


@pytest.mark.parametrize("size", [3, 90, 500, 2999])
def test_a_closer_bound_on_the_size_changes_nothing_but_the_work(size):
    work, key = Epochs(2, 7), jax.random.key(9)
    padded = batches(work, key, size, 3000)
    for reach in (size, min(3000, 2 * size), 3000):
        bounded = batches(work, key, size, 3000, jnp.int32(reach))
        assert all((a == b).all() for a, b in zip(padded, bounded, strict=True))


def test_epochs_are_reshuffled():
    first, second = batches(Epochs(2, 50), jax.random.key(1), 50, 50)
    assert (first != second).any()


def test_steps_draw_uniformly_and_independently():
    drawn = np.concatenate(batches(Steps(4000, 5), jax.random.key(2), 8, 8))
    frequency = np.bincount(drawn, minlength=8) / len(drawn)
    assert np.abs(frequency - 1 / 8).max() < 5 * np.sqrt(1 / 8 * 7 / 8 / len(drawn))


@pytest.mark.parametrize(("make", "a_unit"), [(Steps, 1), (Epochs, 6)])
def test_the_amount_changes_with_the_round(make, a_unit):
    work = make(1, 7, parse_schedule("3:4,5:2"))
    assert [int(work.count(40, t)) for t in range(7)] == [a_unit * amount for amount in (1, 1, 1, 4, 4, 2, 2)]
    assert work.count(40) == 4 * a_unit
    assert make(1, 7).count(40, 9) == a_unit


@pytest.mark.parametrize("make", [Steps, Epochs])
def test_what_a_round_draws_first_does_not_depend_on_what_later_rounds_do(make):
    key = jax.random.key(3)
    short, long = (batches(make(2, 7, later), key, 40, 60) for later in ((), ((9, 5),)))
    assert all((a == b).all() for a, b in zip(short, long, strict=False))
    assert len(long) > len(short)


def test_roles_never_share_a_key():
    """fold_in(k, i) is split(k)[i]: without roles, worker 1 of round 0 would get the sampler's key."""
    run = jax.random.key(0)
    made = [keys.init_key(run)]
    for t in range(4):
        made += [keys.sample_key(run, jnp.int32(t)), keys.server_key(run, jnp.int32(t))]
        made += [keys.worker_key(run, *map(jnp.int32, (t, i, d))) for i in range(4) for d in range(3)]
    data = [tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in made]
    assert len(set(data)) == len(data)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Steps(0), "at least 1"),
        (lambda: Epochs(0), "at least 1"),
        (lambda: Epochs(1, -1), "0 for the full gradient"),
        (lambda: Steps(1, later=((4, 2), (4, 3))), "its rounds must ascend"),
        (lambda: Steps(1, later=((0, 2),)), "its rounds must ascend from 1 on"),
        (lambda: Epochs(1, later=((2**31, 2),)), "round 2147483648 is too far"),
        (lambda: Epochs(1, later=((3, 0),)), "0 local-epochs: a worker must do at least 1"),
        (lambda: parse_schedule("3:2:1"), "give ROUND:AMOUNT"),
        (lambda: parse_schedule(""), "give ROUND:AMOUNT"),
    ],
)
def test_work_that_cannot_be_is_refused(make, says):
    with pytest.raises(BadInput, match=says):
        make()
