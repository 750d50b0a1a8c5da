"""LoAdaBoost: who trains on and for how long, against its paper's schedule in NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import make_dataset
from test_adaptive import loss
from test_fedavg import layers_of
from test_methods import assert_same, flat, gradient, run, start

import enlist
from enlist import Epochs, Steps, sampling
from enlist.algorithms.loadaboost import median
from enlist.problem.federation import Federation, Holding


def skewed(sizes=(3, 41, 17, 30, 8, 55)):
    """Unequal workers, each with a few labels: their losses differ, and rise where others were trained."""
    data = make_dataset(rows=sum(sizes))
    rows = np.argsort(data.y_train, kind="stable")
    return Federation(data, Holding.of(np.split(rows, np.cumsum(sizes)[:-1])))


def passes_by_hand(work, batches):
    """The batches by pass: an epoch, or a third of the steps."""
    each = -(-len(batches) // 3) if isinstance(work, Steps) else len(batches) // work.epochs
    return [batches[k : k + each] for k in range(0, len(batches), each)]


def worker_by_hand(x, bar, fed, passes, eta_l):
    """Where it ended, the loss it reports, and how many passes it made."""
    first, done, part, last_loss, reported = -(-len(passes) // 3), 0, 0, None, None
    while done < len(passes) and (part == 0 or last_loss > bar):
        more = first if part == 0 else max(first - part + 1, 1)
        for rows_of_pass in passes[done : done + more]:
            losses = []
            for rows in rows_of_pass:
                losses.append(loss(x, fed, rows))
                x = [a - eta_l * g for a, g in zip(x, gradient(x, fed, rows), strict=True)]
            last_loss = np.mean(losses)
        reported = last_loss if part == 0 else reported
        done, part = min(done + more, len(passes)), part + 1
    return x, reported, done


@pytest.mark.parametrize(
    ("work", "cohort", "passes"),
    [
        (Epochs(8, 8), sampling.at_least(2, 4), {3, 6, 8}),  # 3 at first, then 3 more, then 2
        (Steps(8, 5), sampling.without_replacement(3), {1, 2}),
    ],
    ids=["epochs", "steps"],
)
def test_equals_its_pseudo_code(work, cohort, passes):
    fed, eta_l, eta = skewed(), 0.1, 1.3
    algorithm = enlist.loadaboost(worker_lr=eta_l, server_lr=eta)
    session = run(algorithm, fed, local=work, cohort=cohort, rounds=0, execution="chunk:2", devices=1).session
    x, bar, seen = start(fed), np.inf, []
    for t in range(8):
        session.advance(1, False)
        ends = [
            worker_by_hand(x, bar, fed, passes_by_hand(work, one.batches), eta_l) for one in session.drawn(t)
        ]
        x = [
            a + eta * (np.mean(parts, axis=0) - a)
            for a, parts in zip(x, zip(*(y for y, _, _ in ends), strict=True), strict=True)
        ]
        bar = np.median([reported for _, reported, _ in ends])
        seen.append([done for _, _, done in ends])
        assert float(session.state.server.bar) == pytest.approx(bar, rel=1e-4)
        for got, expected in zip(flat(layers_of(session.params())), x, strict=True):
            np.testing.assert_allclose(got, expected, rtol=3e-4, atol=3e-5)
    assert set(seen[0]) == {min(passes)}
    assert set().union(*seen) == passes


def test_the_first_round_is_fedavg_with_a_third_of_the_work():
    options = {"rounds": 1, "execution": "one-by-one", "devices": 1}
    mine = run(enlist.loadaboost(worker_lr=0.05), local=Epochs(5, 8), **options)
    assert_same(mine, run(enlist.fedavg(worker_lr=0.05), local=Epochs(2, 8), **options))
    number = 4
    assert mine.metrics[-1]["uplink_bytes"] == 4 * mine.summary["parameters"] + number
    assert mine.metrics[-1]["downlink_bytes"] == 4 * mine.summary["parameters"] + number


def test_the_median_leaves_empty_places_out():
    rng = np.random.default_rng(0)
    for taken in ([1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [1, 0, 0, 0, 0], [1, 1, 0, 0, 0]):
        values, mask = rng.normal(size=5).astype(np.float32), np.array(taken, bool)
        values[~mask] = np.nan
        assert float(median(jnp.asarray(values), jnp.asarray(mask))) == pytest.approx(np.median(values[mask]))
