"""Generalized FedAvg equals the literal Algorithm 1, and its special cases are what the paper says they are."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import oracle
import pytest
from conftest import make_dataset

import enlist
from enlist import Epochs, Steps, models, partition, sampling
from enlist.problem.federation import Federation, Holding


def unequal(data, sizes=(3, 41, 17, 30, 8, 55), seed=0):
    rows = np.random.default_rng(seed).permutation(len(data.x_train))[: sum(sizes)]
    return Federation(data, Holding.of(np.split(rows, np.cumsum(sizes)[:-1])))


def layers_of(params):
    """A built-in model's parameters as the oracle's list of layers."""
    if "w" in params:
        return [(params["w"], params["b"])]
    return [(params[name]["w"], params[name]["b"]) for name in ("dense1", "dense2", "out")]


def assert_close(run, expected, rtol=2e-4):
    for (w, b), (w_ref, b_ref) in zip(layers_of(run.params), expected, strict=True):
        scale = max(np.abs(w_ref).max(), np.abs(b_ref).max())
        np.testing.assert_allclose(w, w_ref, rtol=rtol, atol=rtol * 0.1 * scale)
        np.testing.assert_allclose(b, b_ref, rtol=rtol, atol=rtol * 0.1 * scale)


def replay(run, fed, eta_l, eta, weights=None, model=None):
    """The oracle on exactly what the engine drew; `model` is the one that was run, logistic unless given."""
    rounds = run.summary["rounds"]
    drawn = [run.drawn(t) for t in range(rounds)]
    start = layers_of(
        enlist.simulate(enlist.fedavg(), model or models.logistic(), fed, cohort=1, rounds=0, seed=7).params
    )
    by_round = None if weights is None else [[weights(one) for one in cohort] for cohort in drawn]
    cohorts = [[one.batches for one in cohort] for cohort in drawn]
    return oracle.run(start, fed.data.x_train, fed.data.y_train, cohorts, eta_l, eta, by_round)


MODELS = {"logistic": models.logistic(), "two_nn": models.two_nn(hidden=16)}
WORK = {
    "steps": Steps(7, batch=5),
    "epochs": Epochs(2, batch=8),  # no size above is a multiple of 8: the last batch is partial
    "full": Steps(3, batch=0),
}
COHORTS = {
    "full": sampling.full(),
    "with": sampling.with_replacement(4),
    "without": sampling.without_replacement(3),
    "at-least": sampling.at_least(2, 5),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("cohort", COHORTS)
def test_equals_the_oracle(model, work, cohort):
    fed = unequal(make_dataset())
    run = enlist.simulate(
        enlist.fedavg(worker_lr=0.05, server_lr=1.7),
        MODELS[model],
        fed,
        cohort=COHORTS[cohort],
        local=WORK[work],
        rounds=4,
        seed=7,
        execution="one-by-one" if cohort == "with" else "chunk:2",
        eval_every=4,
    )
    assert_close(run, replay(run, fed, 0.05, 1.7, model=MODELS[model]))


def test_equals_the_oracle_when_weighted_by_examples():
    fed = unequal(make_dataset())
    algorithm = enlist.fedavg(worker_lr=0.05, weighting="examples")
    run = enlist.simulate(algorithm, MODELS["logistic"], fed, cohort=3, local=Epochs(1, 8), rounds=3, seed=7)
    assert_close(run, replay(run, fed, 0.05, 1.0, weights=lambda one: float(fed.sizes[one.worker])))


def final(algorithm=None, fed=None, **options):
    fed = partition.iid(make_dataset(), 10, 0) if fed is None else fed
    arguments = {"cohort": 4, "rounds": 3, "seed": 7, "local": Steps(3, 5), "eval_every": 3} | options
    return enlist.simulate(algorithm or enlist.fedavg(), MODELS["logistic"], fed, **arguments)


def assert_same(a, b, exactly=True):
    for x, y in zip(jax.tree.leaves(a.params), jax.tree.leaves(b.params), strict=True):
        if exactly:
            np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6)


def test_one_full_gradient_step_of_everybody_is_gradient_descent():
    """K = 1, eta = 1, full participation, equal workers: x - eta_L grad f(x)."""
    fed = partition.iid(make_dataset(), 10, 0)
    run = final(enlist.fedavg(worker_lr=0.3), fed, cohort=sampling.full(), local=Steps(1, batch=0), rounds=5)
    layers = layers_of(final(fed=fed, rounds=0).params)
    rows = fed.order
    for _ in range(5):
        layers = oracle.round_of(
            [(np.asarray(w, np.float64), np.asarray(b, np.float64)) for w, b in layers],
            fed.data.x_train.astype(np.float64),
            fed.data.y_train,
            [[rows]],
            0.3,
            1.0,
        )
    assert_close(run, layers)


def test_only_the_product_of_rates_matters_for_one_step():
    a = final(enlist.fedavg(worker_lr=0.2, server_lr=1.0), local=Steps(1, 5))
    b = final(enlist.fedavg(worker_lr=0.1, server_lr=2.0), local=Steps(1, 5))
    assert_same(a, b, exactly=False)


def test_the_server_rate_scales_the_step():
    one, two = (final(enlist.fedavg(server_lr=eta), rounds=1) for eta in (1.0, 2.5))
    start = final(rounds=0)
    for x0, x1, x2 in zip(*(jax.tree.leaves(r.params) for r in (start, one, two)), strict=True):
        np.testing.assert_allclose(x2 - x0, 2.5 * (x1 - x0), rtol=1e-4, atol=1e-6)


def test_the_order_of_workers_does_not_matter():
    """Relabelled workers, full participation, full gradients: the same model up to round-off."""
    fed = unequal(make_dataset())
    turned = Federation(fed.data, Holding.of([fed.train.rows(i) for i in (4, 0, 5, 2, 1, 3)]))
    options = {"cohort": sampling.full(), "local": Steps(4, batch=0)}
    assert_same(final(fed=fed, **options), final(fed=turned, **options), exactly=False)


def test_a_round_with_a_schedule_uses_that_rounds_rate():
    rates = [0.3, 0.05, 0.2]
    scheduled = final(enlist.fedavg(worker_lr=lambda t: jnp.asarray(rates)[t], server_lr=lambda t: 1.0 + t))
    fed = scheduled.session.federation
    layers = layers_of(final(rounds=0).params)
    for t, eta_l in enumerate(rates):
        cohort = [[one.batches for one in scheduled.drawn(t)]]
        layers = oracle.run(layers, fed.data.x_train, fed.data.y_train, cohort, eta_l, 1.0 + t)
    assert_close(scheduled, layers)


def test_a_rate_by_step_starts_at_step_zero_of_every_round():
    schedule = enlist.PerStep(lambda t, k: jnp.where(k == 0, 0.1, 0.0))
    assert_same(
        final(enlist.fedavg(worker_lr=schedule), local=Steps(3, batch=0)),
        final(local=Steps(1, batch=0)),
        exactly=False,
    )


def test_an_optax_schedule_counts_rounds():
    constant = final(enlist.fedavg(server_lr=optax.constant_schedule(1.0)))
    assert_same(constant, final())
    drop = optax.piecewise_constant_schedule(1.0, {2: 0.0})
    assert_same(
        final(enlist.fedavg(server_lr=drop), rounds=6, eval_every=6),
        final(rounds=2, eval_every=2),
        exactly=False,
    )


@pytest.mark.parametrize(
    "algorithm",
    [
        enlist.fedavg(server=optax.adam, server_lr=0.05),
        enlist.fedavg(worker=partial(optax.sgd, momentum=0.9), worker_lr=0.02),
        enlist.fedavg(
            worker=optax.adam, worker_lr=0.01, server=partial(optax.sgd, momentum=0.9), server_lr=0.5
        ),
    ],
)
def test_any_optax_optimizer_learns(algorithm):
    run = final(algorithm, rounds=25, eval_every=25)
    assert run.metrics[-1]["train_loss"] < 0.7 * np.log(10)


def test_the_servers_optimizer_state_lives_on():
    """Momentum 0.9 from a zero start: the second step carries 0.9 of the first."""
    with_memory = enlist.fedavg(server=partial(optax.sgd, momentum=0.9))
    start, one, two = (final(with_memory, rounds=r, eval_every=9) for r in (0, 1, 2))
    plain_two = final(rounds=1, eval_every=9)
    assert_same(one, plain_two)
    moved = [b - a for a, b in zip(*(jax.tree.leaves(r.params) for r in (start, one)), strict=True)]
    again = [b - a for a, b in zip(*(jax.tree.leaves(r.params) for r in (one, two)), strict=True)]
    overlap = sum((0.9 * m * a).sum() for m, a in zip(moved, again, strict=True))
    assert overlap > 0.5 * sum((0.81 * m * m).sum() for m in moved)


def test_unknown_weighting_is_refused():
    with pytest.raises(enlist.BadInput, match="uniform"):
        enlist.fedavg(weighting="uniforn")
