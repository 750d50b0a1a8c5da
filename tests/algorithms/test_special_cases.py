"""Methods that are FedAvg with other options: Local SGD, post-local SGD, local GD, decaying rates."""

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from test_fedavg import assert_close, replay
from test_methods import flat, gradient, layered, run, start, unequal

import enlist
from enlist import Epochs, Steps, sampling

ALONE = {"execution": "one-by-one", "devices": 1}


def same_bits(a, b):
    return all(
        (x == y).all() for x, y in zip(jax.tree.leaves(a.params), jax.tree.leaves(b.params), strict=True)
    )


def test_post_local_sgd_is_parallel_sgd_first_and_local_sgd_then():
    fed, algorithm = unequal(), enlist.fedavg(worker_lr=0.1)
    post_local = Steps(1, 8, later=((3, 6),))
    first = [
        run(algorithm, fed, local=local, rounds=3, cohort=sampling.full(), **ALONE)
        for local in (Steps(1, 8), post_local)
    ]
    assert same_bits(*first)
    whole = run(algorithm, fed, local=post_local, rounds=6, cohort=sampling.full(), **ALONE)
    assert [len(whole.drawn(t)[0].batches) for t in range(6)] == [1, 1, 1, 6, 6, 6]
    assert_close(whole, replay(whole, fed, 0.1, 1.0))


def test_a_schedule_of_epochs_and_resuming_over_its_change(tmp_path):
    fed = unequal()
    options = {
        "local": Epochs(2, 8, later=((2, 1), (4, 3))),
        "cohort": 3,
        "execution": "chunk:2",
        "devices": 1,
    }
    algorithm = enlist.fedavg(worker_lr=0.05, server_lr=1.4)
    whole = run(algorithm, fed, rounds=6, **options)
    for t, epochs in enumerate((2, 2, 1, 1, 3, 3)):
        for one in whole.drawn(t):
            assert len(one.batches) == epochs * -(-fed.sizes[one.worker] // 8)
    assert_close(whole, replay(whole, fed, 0.05, 1.4))
    run(algorithm, fed, rounds=3, out=tmp_path / "run", **options)
    assert same_bits(run(algorithm, fed, rounds=6, out=tmp_path / "run", resume=True, **options), whole)


def test_local_gd_follows_full_gradients():
    """Khaled et al.: everybody, K steps along the gradient of all its rows."""
    fed = unequal()
    local_gd = run(enlist.fedavg(worker_lr=0.2), fed, local=Steps(4, 0), cohort=sampling.full(), **ALONE)
    x = start(fed)
    for _ in range(4):
        ends = []
        for i in range(fed.workers):
            y = x
            for _ in range(4):
                y = [a - 0.2 * g for a, g in zip(y, gradient(y, fed, fed.train.rows(i)), strict=True)]
            ends.append(y)
        x = [np.mean(parts, axis=0) for parts in zip(*ends, strict=True)]
    assert_close(local_gd, layered(x))


def decaying_by_hand(result, fed, rate):
    """FedAvg with eta_L of round t and local step k."""
    x, rows_of = start(fed), fed.data.x_train.astype(np.float64)
    for t in range(4):
        ends = []
        for one in result.drawn(t):
            y = layered(x)
            for k, rows in enumerate(one.batches):
                step = oracle.local_run(y, rows_of, fed.data.y_train, [rows], rate(t, k))
                y = [(w + dw, b + db) for (w, b), (dw, db) in zip(y, step, strict=True)]
            ends.append(flat(y))
        x = [np.mean(parts, axis=0) for parts in zip(*ends, strict=True)]
    return layered(x)


@pytest.mark.parametrize("rounds", [1, 2.5])
def test_a_rate_that_decays_by_round(rounds):
    """Li et al., 2020: eta_L / (1 + t) in their experiments."""
    fed = unequal()
    result = run(enlist.fedavg(worker_lr=enlist.Decaying(0.3, rounds)), fed, **ALONE)
    assert_close(result, decaying_by_hand(result, fed, lambda t, k: 0.3 * rounds / (rounds + t)))
    other = run(enlist.fedavg(worker_lr=enlist.Decaying(0.1, 7)), fed, **ALONE)
    assert other.session.program is result.session.program


def test_a_rate_that_decays_by_step():
    """Li et al., 2020, their theorem: 2 / (mu (gamma + step)), the steps of all rounds counted."""
    fed, steps = unequal(), 5
    rate = lambda t, k: 2.0 / (0.5 * (20 + t * steps + k))
    algorithm = enlist.fedavg(worker_lr=enlist.PerStep(lambda t, k: rate(t, k).astype(jnp.float32)))
    result = run(algorithm, fed, local=Steps(steps, 8), **ALONE)
    assert_close(result, decaying_by_hand(result, fed, rate))


def test_a_rate_that_never_decays_is_none():
    for never in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(enlist.BadInput, match="worker-lr = "):
            run(enlist.fedavg(worker_lr=enlist.Decaying(0.1, never)))
