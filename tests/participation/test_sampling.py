"""Who takes part: the probabilities that Lemma 1 and Theorem 2 need, and what a draw costs."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enlist.errors import BadInput
from enlist.participation import sampling

DRAWS = 20_000
FIRST = jnp.int32(0)


def many(strategy, m, draws=DRAWS, seed=0):
    keys = jax.random.split(jax.random.key(seed), draws)
    ids, weights = jax.jit(jax.vmap(lambda key: strategy.draw(key, m, FIRST)))(keys)
    return np.asarray(ids), np.asarray(weights)


def within(seen, expected, draws=DRAWS):
    """A frequency, five standard deviations around its probability."""
    return abs(seen - expected) < 5 * np.sqrt(expected * (1 - expected) / draws) + 1e-9


@pytest.mark.parametrize(("n", "m"), [(3, 10), (10, 100), (7, 9), (1, 5), (5, 5)])
def test_without_replacement_includes_each_worker_with_probability_n_over_m(n, m):
    ids, weights = many(sampling.without_replacement(n), m)
    assert (weights == 1).all()
    assert (np.diff(ids, axis=1) > 0).all(), "ascending, so distinct"
    frequency = np.bincount(ids.ravel(), minlength=m) / DRAWS
    assert all(within(f, n / m) for f in frequency)


@pytest.mark.parametrize(("n", "m"), [(3, 8), (6, 8)])
def test_without_replacement_pairs_have_the_probability_of_strategy_2(n, m):
    ids, _ = many(sampling.without_replacement(n), m)
    together = np.zeros((m, m))
    for row in ids:
        together[np.ix_(row, row)] += 1
    expected = n * (n - 1) / (m * (m - 1))
    assert all(within(together[i, j] / DRAWS, expected) for i, j in itertools.combinations(range(m), 2))


def test_with_replacement_draws_are_independent_and_uniform():
    n, m = 4, 6
    ids, _ = many(sampling.with_replacement(n), m)
    assert sampling.with_replacement(n).repeats
    assert all(within(f, 1 / m, DRAWS * n) for f in np.bincount(ids.ravel(), minlength=m) / (DRAWS * n))
    # The pairs of Strategy 1: P(both draws the same worker) = 1/m for any two of the n draws.
    same = np.mean([(row[:, None] == row[None, :]).sum() - n for row in ids]) / (n * (n - 1))
    assert same == pytest.approx(1 / m, rel=0.05)
    assert (np.diff(ids, axis=1) >= 0).all()


@pytest.mark.parametrize(
    "strategy",
    [sampling.with_replacement(4), sampling.without_replacement(4), sampling.at_least(2, 6), sampling.full()],
)
def test_the_mean_over_the_cohort_is_unbiased(strategy):
    """Lemma 1: E[Delta_t] is the mean over all workers."""
    m = 12
    values = np.random.default_rng(0).normal(size=m)
    ids, weights = many(strategy, m)
    means = (values[ids] * weights).sum(axis=1) / weights.sum(axis=1)
    assert means.mean() == pytest.approx(values.mean(), abs=5 * means.std() / np.sqrt(DRAWS) + 1e-6)


def test_at_least_varies_its_size_uniformly_and_apart_from_who_is_in_it():
    n, most, m = 3, 6, 10
    ids, weights = many(sampling.at_least(n, most), m)
    sizes = weights.sum(axis=1).astype(int)
    assert sampling.at_least(n, most).places(m) == most
    assert all(within((sizes == size).mean(), 1 / 4) for size in range(n, most + 1))
    for size in range(n, most + 1):
        taken = ids[sizes == size][:, :size]
        assert (np.diff(taken, axis=1) > 0).all()
        frequency = np.bincount(taken.ravel(), minlength=m) / (sizes == size).sum()
        assert all(within(f, size / m, (sizes == size).sum()) for f in frequency)


@settings(max_examples=12)  # each is compiled anew
@given(n=st.integers(1, 40), extra=st.integers(0, 200), seed=st.integers(0, 2**31))
def test_a_subset_is_always_distinct_and_in_range(n, extra, seed):
    ids, _ = sampling.without_replacement(n).draw(jax.random.key(seed), n + extra, FIRST)
    ids = np.asarray(ids)
    assert len(set(ids.tolist())) == n
    assert ids.min() >= 0
    assert ids.max() < n + extra


def test_the_work_of_a_draw_does_not_grow_with_m():
    """No array in the traced draw is as long as the number of workers."""
    for strategy in (
        sampling.without_replacement(10),
        sampling.with_replacement(10),
        sampling.at_least(5, 10),
    ):
        text = str(jax.make_jaxpr(lambda key, s=strategy: s.draw(key, 1_000_003, FIRST))(jax.random.key(0)))
        assert "[1000003" not in text


def test_occurrences_count_within_equal_ids():
    ids = jnp.array([1, 1, 4, 7, 7, 7])
    assert sampling.occurrences(ids).tolist() == [0, 1, 0, 0, 1, 2]


@pytest.mark.parametrize(
    ("name", "n", "most", "says"),
    [
        ("without-replacement", 0, None, "at least 1"),
        ("with-replacment", 3, None, "with-replacement"),
        ("full", 3, 5, "at-least"),
        ("at-least", 5, 3, "must not be below"),
        ("recorded", 3, None, "did you mean 'recorded:FILE'"),
        ("recorded:", 3, None, "a file is missing"),
        ("recorded:nowhere.jsonl", 3, None, "no such file"),
        ("recorded:.", 3, None, "cannot be read"),
    ],
)
def test_what_cannot_be_is_refused(name, n, most, says):
    with pytest.raises(BadInput, match=says):
        sampling.parse(name, n, most)


def test_a_cohort_larger_than_the_federation_is_refused():
    for strategy in (sampling.without_replacement(6), sampling.at_least(6), sampling.at_least(2, 6)):
        with pytest.raises(BadInput, match="5 workers"):
            strategy.places(5)
