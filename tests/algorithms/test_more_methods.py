"""SlowMo, local momentum, FedNova, FedDyn, Mime: against their papers' pseudo-code, and FedAvg where they must be."""

from functools import partial

import numpy as np
import optax
import pytest
import test_methods
from test_fedavg import assert_close
from test_methods import assert_same, distance_to_optimum, gradient, layered, mean, start, unequal

import enlist
from enlist import Steps, sampling

HEAVY_BALL = partial(optax.sgd, momentum=0.5)
ROUNDS = 4
# One way of execution: that others give the same is another test's business.
run = partial(test_methods.run, execution="one-by-one", devices=1)
VARYING, REPEATING = sampling.at_least(2, 4), sampling.with_replacement(4)


def zeros(x):
    return [np.zeros_like(a) for a in x]


def axpy(scale, x, y):
    """y + scale x."""
    return [b + scale * a for a, b in zip(x, y, strict=True)]


def assert_traffic(result, fed, up, down, numbers=0):
    """A worker sends `up` and receives `down` times the model, and sends that many single numbers more."""
    model = sum(4 * a.size for a in start(fed))
    line = result.metrics[-1]
    assert line["uplink_bytes"] == up * model + 4 * numbers
    assert line["downlink_bytes"] == down * model


def heavy_ball(x, buffers, fed, batches, rate, rho=0.5):
    v = zeros(x) if buffers is None else buffers
    for rows in batches:
        v = axpy(rho, v, gradient(x, fed, rows))
        x = axpy(-rate, v, x)
    return x, v


def adam(x, buffers, fed, batches, rate, b1=0.9, b2=0.999, eps=1e-8):
    m, v, count = (zeros(x), zeros(x), 0) if buffers is None else buffers
    for rows in batches:
        g, count = gradient(x, fed, rows), count + 1
        m = [b1 * a + (1 - b1) * b for a, b in zip(m, g, strict=True)]
        v = [b2 * a + (1 - b2) * b**2 for a, b in zip(v, g, strict=True)]
        x = [
            a - rate * (b / (1 - b1**count)) / (np.sqrt(c / (1 - b2**count)) + eps)
            for a, b, c in zip(x, m, v, strict=True)
        ]
    return x, (m, v, count)


def slowmo_by_hand(result, fed, gamma, alpha, beta, base, strategy):
    x = start(fed)
    u, own, common = zeros(x), {}, None
    for t in range(ROUNDS):
        ends, buffers = [], []
        for one in result.drawn(t):
            first = {"reset": None, "maintain": own.get(one.worker), "average": common}[strategy]
            end, last = base(x, first, fed, one.batches, gamma(t))
            own[one.worker] = last
            ends.append(end)
            buffers.append(last)
        if strategy == "average":
            m, v, counts = zip(*buffers, strict=True)
            common = mean(m), mean(v), round(float(np.mean(counts)))
        u = [beta * a + (x0 - x1) / gamma(t) for a, x0, x1 in zip(u, x, mean(ends), strict=True)]
        x = axpy(-alpha * gamma(t), u, x)
    return x


@pytest.mark.parametrize(
    ("strategy", "base", "worker", "factor", "numbers"),
    [
        ("reset", heavy_ball, HEAVY_BALL, 1, 0),
        ("maintain", heavy_ball, HEAVY_BALL, 1, 0),
        ("average", adam, optax.adam, 3, 1),
    ],
)
def test_slowmo_equals_its_pseudo_code(strategy, base, worker, factor, numbers):
    fed = unequal()
    algorithm = enlist.slowmo(
        worker_lr=enlist.Decaying(0.02, 2), server_lr=0.8, momentum=0.6, buffers=strategy, worker=worker
    )
    result = run(algorithm, fed)
    expected = slowmo_by_hand(result, fed, lambda t: 0.02 * 2 / (2 + t), 0.8, 0.6, base, strategy)
    assert_close(result, layered(expected))
    model = sum(4 * a.size for a in start(fed))
    line = result.metrics[-1]
    assert line["uplink_bytes"] == line["downlink_bytes"] == factor * model + 4 * numbers


def local_momentum_by_hand(result, fed, gamma, eta, beta):
    x = start(fed)
    u = zeros(x)
    for t in range(ROUNDS):
        ends = [heavy_ball(x, u, fed, one.batches, gamma, beta) for one in result.drawn(t)]
        x_mean, u = mean([end for end, _ in ends]), mean([momentum for _, momentum in ends])
        x = [a + eta * (b - a) for a, b in zip(x, x_mean, strict=True)]
    return x


def test_local_momentum_equals_its_pseudo_code():
    fed = unequal()
    result = run(enlist.local_momentum(worker_lr=0.02, server_lr=1.3, momentum=0.8), fed, cohort=REPEATING)
    assert any(one.draw for t in range(ROUNDS) for one in result.drawn(t))
    assert_close(result, layered(local_momentum_by_hand(result, fed, 0.02, 1.3, 0.8)))
    assert_traffic(result, fed, 2, 2)


def fednova_by_hand(result, fed, eta_l, eta, rho, by_examples):
    """In terms of gradients: a_i says how often each enters the local change."""
    x = start(fed)
    for t in range(ROUNDS):
        p, norms, directions = [], [], []
        for one in result.drawn(t):
            tau, y, v, gradients = len(one.batches), x, zeros(x), []
            for rows in one.batches:
                gradients.append(gradient(y, fed, rows))
                v = axpy(rho, v, gradients[-1])
                y = axpy(-eta_l, v, y)
            a = [(1 - rho ** (tau - k)) / (1 - rho) for k in range(tau)]
            norms.append(sum(a))
            d = zeros(x)
            for weight, g in zip(a, gradients, strict=True):
                d = axpy(weight / sum(a), g, d)
            directions.append(d)
            p.append(len(fed.train.rows(one.worker)) if by_examples else 1)
        p = np.array(p) / sum(p)
        tau_eff = sum(p * norms)
        for share, d in zip(p, directions, strict=True):
            x = axpy(-eta * tau_eff * eta_l * share, d, x)
    return x


@pytest.mark.parametrize(("rho", "weighting"), [(0.0, "uniform"), (0.7, "examples")])
def test_fednova_equals_its_pseudo_code(rho, weighting):
    fed = unequal()
    algorithm = enlist.fednova(worker_lr=0.03, server_lr=1.2, momentum=rho, weighting=weighting)
    result = run(algorithm, fed, cohort=VARYING)
    assert_close(result, layered(fednova_by_hand(result, fed, 0.03, 1.2, rho, weighting == "examples")))
    assert_traffic(result, fed, 1, 1, numbers=1)


def feddyn_by_hand(result, fed, eta_l, alpha):
    theta = start(fed)
    h, grads = zeros(theta), {k: zeros(theta) for k in range(fed.workers)}
    for t in range(ROUNDS):
        found = []
        for one in result.drawn(t):
            k, y = one.worker, theta
            for rows in one.batches:
                g = gradient(y, fed, rows)
                y = [
                    a - eta_l * (b - c + alpha * (a - a0))
                    for a, b, c, a0 in zip(y, g, grads[k], theta, strict=True)
                ]
            grads[k] = [c - alpha * (a - a0) for c, a, a0 in zip(grads[k], y, theta, strict=True)]
            found.append(y)
        for y in found:
            h = [a - alpha / fed.workers * (b - c) for a, b, c in zip(h, y, theta, strict=True)]
        theta = axpy(-1 / alpha, h, mean(found))
    return theta


def test_feddyn_equals_its_pseudo_code():
    fed = unequal()
    result = run(enlist.feddyn(worker_lr=0.03, alpha=0.3), fed, cohort=VARYING)
    assert_close(result, layered(feddyn_by_hand(result, fed, 0.03, 0.3)))
    assert_traffic(result, fed, 1, 1)


def mime_by_hand(result, fed, eta_l, eta, beta, lite):
    x = start(fed)
    m = zeros(x)
    for t in range(ROUNDS):
        cohort = result.drawn(t)
        c = mean([gradient(x, fed, fed.train.rows(one.worker)) for one in cohort])
        ends = []
        for one in cohort:
            y = x
            for rows in one.batches:
                g = gradient(y, fed, rows)
                if not lite:
                    g = axpy(1, c, axpy(-1, gradient(x, fed, rows), g))
                y = [a - eta_l * ((1 - beta) * b + beta * s) for a, b, s in zip(y, g, m, strict=True)]
            ends.append(y)
        x = [a + eta * (b - a) for a, b in zip(x, mean(ends), strict=True)]
        m = [(1 - beta) * a + beta * b for a, b in zip(c, m, strict=True)]
    return x


@pytest.mark.parametrize(("name", "cohort", "down"), [("mime", VARYING, 3), ("mimelite", REPEATING, 2)])
def test_mime_equals_its_pseudo_code(name, cohort, down):
    fed = unequal()
    result = run(getattr(enlist, name)(worker_lr=0.05, server_lr=1.2, momentum=0.7), fed, cohort=cohort)
    assert_close(result, layered(mime_by_hand(result, fed, 0.05, 1.2, 0.7, name == "mimelite")))
    assert_traffic(result, fed, 2, down)


def test_without_momentum_it_is_fedavg():
    plain = run(enlist.fedavg(worker_lr=0.05), cohort=REPEATING)
    for method in (enlist.slowmo, enlist.local_momentum, enlist.mimelite):
        assert_same(run(method(worker_lr=0.05, momentum=0.0), cohort=REPEATING), plain)


def test_at_one_rate_for_all_rounds_slowmo_is_fedavgm():
    rates = {"worker_lr": 0.05, "server_lr": 0.7, "momentum": 0.6}
    slowmo, fedavgm = (run(method(**rates), cohort=REPEATING) for method in (enlist.slowmo, enlist.fedavgm))
    assert_same(slowmo, fedavgm)


def test_fednova_is_fedavg_where_all_take_equally_many_steps():
    shared = {"worker_lr": 0.05, "weighting": "examples"}
    nova, plain = enlist.fednova(momentum=0.5, **shared), enlist.fedavg(worker=HEAVY_BALL, **shared)
    assert_same(run(nova, local=Steps(5, 4)), run(plain, local=Steps(5, 4)))


def test_mime_without_momentum_and_one_step_is_fedavg_on_full_gradients():
    """The batch cancels against itself, and what is left is the cohort's mean full gradient."""
    one_step = enlist.mime(worker_lr=0.2, momentum=0.0)
    assert_same(run(one_step, local=Steps(1, 4)), run(enlist.fedavg(worker_lr=0.2), local=Steps(1, 0)))


def test_feddyns_first_round_is_fedproxs_with_a_longer_step():
    feddyn = run(enlist.feddyn(worker_lr=0.05, alpha=0.3), cohort=VARYING, rounds=1)
    longer = 1 + len(feddyn.drawn(0)) / 6
    fedprox = enlist.fedprox(worker_lr=0.05, mu=0.3, server_lr=longer)
    assert_same(feddyn, run(fedprox, cohort=VARYING, rounds=1))


def test_feddyn_reaches_the_optimum_where_fedavg_stalls_at_its_drift():
    """FedAvg stays further away than 0.05: see the same test of scaffold."""
    assert distance_to_optimum(enlist.feddyn(worker_lr=0.02, alpha=1.0), cohort=3) < 1e-3


def test_mime_reaches_the_optimum_too_where_everybody_takes_part():
    assert distance_to_optimum(enlist.mime(worker_lr=0.02), cohort=6) < 1e-3


PER_STEP = enlist.PerStep(lambda t, k: 0.1)


@pytest.mark.parametrize("method", [enlist.slowmo, enlist.local_momentum, enlist.fednova])
def test_a_rate_that_changes_by_step_is_refused_where_the_update_reads_the_rate(method):
    with pytest.raises(enlist.BadInput, match="one worker rate a round"):
        run(method(worker_lr=PER_STEP))


@pytest.mark.parametrize(
    "algorithm", [enlist.feddyn(), enlist.slowmo(buffers="maintain", worker=HEAVY_BALL)], ids=lambda a: a.name
)
def test_a_state_with_each_worker_needs_sampling_without_replacement(algorithm):
    with pytest.raises(enlist.BadInput, match="with-replacement"):
        run(algorithm, cohort=sampling.with_replacement(3))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: enlist.slowmo(momentum=1.0), "momentum = 1"),
        (lambda: enlist.slowmo(buffers="keep"), "option for buffers 'keep'"),
        (
            lambda: enlist.slowmo(buffers="average", worker=partial(optax.noisy_sgd, key=0)),
            "draws random numbers",
        ),
        (lambda: enlist.local_momentum(momentum=-0.1), "momentum = -0.1"),
        (lambda: enlist.fednova(momentum=float("nan")), "momentum = nan"),
        (lambda: enlist.fednova(weighting="rows"), "unknown weighting 'rows'"),
        (lambda: enlist.feddyn(alpha=0.0), "alpha = 0"),
        (lambda: enlist.mime(momentum=1.5), "momentum = 1.5"),
        (lambda: enlist.mimelite(momentum=1.0), "momentum = 1"),
    ],
)
def test_what_cannot_be_is_refused(make, says):
    with pytest.raises(enlist.BadInput, match=says):
        make()
