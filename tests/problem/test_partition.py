"""How rows are dealt: by counts, and by what must hold for any request."""

import numpy as np
import pytest
from conftest import make_dataset
from hypothesis import assume, given
from hypothesis import strategies as st

from enlist.errors import BadInput
from enlist.problem import partition
from enlist.problem.dataset import Dataset
from enlist.problem.federation import Federation, Holding, federation

MNIST_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def labels_only(counts=MNIST_COUNTS, test=MNIST_TEST):
    """A data set with MNIST's class counts and one feature."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(len(counts)), counts)).astype(np.int32)
    y_test = rng.permutation(np.repeat(np.arange(len(test)), test)).astype(np.int32)
    return Dataset(
        np.zeros((len(y), 1), np.float32),
        y,
        np.zeros((len(y_test), 1), np.float32),
        y_test,
        classes=len(counts),
    )


def check(fed):
    """What holds for every partition."""
    assert len(np.unique(fed.order)) == len(fed.order), "no row in two workers"
    assert fed.sizes.sum() + fed.left_over == len(fed.data.x_train)
    assert (fed.offsets == np.concatenate([[0], np.cumsum(fed.sizes)[:-1]])).all()
    assert (fed.sizes >= 1).all()
    if fed.test is not None:
        assert len(np.unique(fed.test.order)) == len(fed.test.order)


@pytest.mark.parametrize(("p", "rows"), [(1, 542), (2, 542), (5, 540), (10, 540)])
def test_digits_on_mnists_counts(p, rows):
    fed = partition.digits(labels_only(), per_worker=p, workers=100, seed=3)
    check(fed)
    counts = fed.class_counts()
    assert ((counts > 0).sum(axis=1) == p).all(), "exactly p classes a worker"
    assert ((counts > 0).sum(axis=0) == 100 * p // 10).all(), "every class held equally often"
    assert np.unique(counts[counts > 0]).size == 1, "equal shares"
    share = 5421 // (100 * p // 10)
    assert (fed.sizes == share * p).all()
    assert fed.sizes[0] == rows
    assert fed.left_over == 60_000 - 100 * rows
    assert set(np.unique(fed.data.y_test[fed.test.rows(7)])) == set(np.flatnonzero(counts[7]))


@given(p=st.integers(1, 10), groups=st.integers(1, 12), seed=st.integers(0, 10**6))
def test_digits_always_deals_evenly(p, groups, seed):
    workers = groups * 10
    data = labels_only([200 + 7 * c for c in range(10)], [30] * 10)
    assume(200 // (workers * p // 10) >= 1)
    fed = partition.digits(data, per_worker=p, workers=workers, seed=seed)
    check(fed)
    counts = fed.class_counts()
    assert ((counts > 0).sum(axis=1) == p).all()
    assert np.unique(counts[counts > 0]).tolist() == [200 // (workers * p // 10)]


def test_shards_on_cifar10s_counts():
    fed = partition.shards(labels_only([5000] * 10, [1000] * 10), per_worker=2, workers=100, seed=0)
    check(fed)
    assert (fed.sizes == 500).all()
    counts = fed.class_counts()
    assert set(np.unique(counts)) <= {0, 250, 500}, "200 shards of 250, each of one class"
    assert fed.left_over == 0


@given(workers=st.integers(1, 60), seed=st.integers(0, 10**6))
def test_iid_sizes_differ_by_at_most_one(workers, seed):
    fed = partition.iid(make_dataset(rows=233), workers, seed)
    check(fed)
    assert fed.sizes.max() - fed.sizes.min() <= 1
    assert fed.left_over == 0


@given(alpha=st.floats(0.01, 100), workers=st.integers(1, 50), seed=st.integers(0, 10**6))
def test_dirichlet_uses_every_row_once_and_leaves_nobody_bare(alpha, workers, seed):
    fed = partition.dirichlet(make_dataset(rows=400), alpha, workers, seed)
    check(fed)
    assert fed.left_over == 0


def test_dirichlet_is_more_skewed_the_smaller_alpha():
    def skew(alpha):
        counts = partition.dirichlet(make_dataset(rows=5000), alpha, 20, 0).class_counts()
        shares = counts / counts.sum(axis=1, keepdims=True)
        return (shares**2).sum(axis=1).mean()

    assert skew(0.05) > skew(1.0) > skew(100.0)


@given(power=st.floats(0.1, 4), workers=st.integers(1, 50), seed=st.integers(0, 10**6))
def test_quantity_follows_its_power_law(power, workers, seed):
    fed = partition.quantity(make_dataset(rows=2000), power, workers, seed)
    check(fed)
    assert fed.left_over == 0
    sizes = np.sort(fed.sizes)[::-1]
    ideal = np.arange(1, workers + 1) ** -power
    ideal = 1 + ideal / ideal.sum() * (2000 - workers)
    assert np.abs(sizes[1:] - ideal[1:]).max(initial=0) <= 1.0 + 1e-9


def test_by_key_numbers_workers_by_ascending_key():
    fed = federation(
        np.arange(6, dtype=np.float32)[:, None],
        np.array([0, 1, 0, 1, 0, 1]),
        np.zeros((3, 1), np.float32),
        np.array([0, 1, 0]),
        worker=np.array([9, 4, 9, 4, 4, 2]),
        worker_test=np.array([4, 4, 9]),
    )
    check(fed)
    assert fed.sizes.tolist() == [1, 3, 2]
    assert fed.train.rows(1).tolist() == [1, 3, 4]
    assert fed.test.sizes.tolist() == [0, 2, 1]


@pytest.mark.parametrize("text", ["iid", "digits:2", "shards:2", "dirichlet:0.3", "quantity:1.5"])
def test_a_seed_decides_the_deal(text):
    deal, data = partition.parse(text), make_dataset(rows=1000)
    first, again, other = deal(data, 20, 5), deal(data, 20, 5), deal(data, 20, 6)
    assert (first.order == again.order).all()
    assert first.order.shape != other.order.shape or (first.order != other.order).any()
    assert first.partition == text


@pytest.mark.parametrize(
    ("text", "workers", "says"),
    [
        ("digits:11", 100, "from 1 to 10"),
        ("digits:0", 100, "from 1 to 10"),
        ("digits:3", 95, "multiple of 10"),
        ("digits:2", 5000, "has rows for 1 to 600"),
        ("digits:5", 300, "at most 120 workers"),
        ("digits", 100, "digits:2"),
        ("digits:two", 100, "digits:2"),
        ("shards:0", 10, "from 1 to"),
        ("shards:700", 10, "from 1 to 60"),
        ("dirichlet:0", 10, "above 0"),
        ("dirichlet:nan", 10, "above 0"),
        ("quantity:-1", 10, "above 0"),
        ("iid:3", 10, "takes no number"),
        ("iid", 0, "1 to 600"),
        ("iid", 601, "1 to 600"),
        ("by-key", 10, "who holds which row"),
        ("dirchlet:0.3", 10, "did you mean 'dirichlet'"),
    ],
)
def test_impossible_requests_are_refused_with_what_is_possible(text, workers, says):
    with pytest.raises(BadInput, match=says):
        partition.parse(text)(make_dataset(rows=600), workers, 0)


def test_classes_are_needed_where_the_rule_is_about_classes():
    data = make_dataset()
    regression = Dataset(data.x_train, data.x_train[:, 0], data.x_test, data.x_test[:, 0], name="curve")
    for text in ("digits:2", "shards:2", "dirichlet:0.3"):
        with pytest.raises(BadInput, match="regression"):
            partition.parse(text)(regression, 10, 0)
    assert partition.iid(regression, 10, 0).class_counts() is None


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([[0, 1], []], "worker 1 holds no training row"),
        ([[0, 1], [1, 2]], "two holders"),
        ([[0], [600]], "outside"),
    ],
)
def test_a_federation_that_cannot_be_is_refused(rows, says):
    with pytest.raises(BadInput, match=says):
        Federation(make_dataset(), Holding.of([np.array(r, int) for r in rows]))
