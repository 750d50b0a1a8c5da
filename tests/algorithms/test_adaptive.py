"""Adaptive local steps: the choice of tau, the budget and the best model, against algorithms 2 and 3 in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from test_fedavg import layers_of
from test_methods import flat, gradient, layered, run, start, unequal

import enlist
from enlist import Epochs, Steps, sampling
from enlist.algorithms.adaptive import Estimates, bound

COSTS = {"step_seconds": 0.1, "round_seconds": 0.5, "budget": 9.03, "phi": 0.02}


def norm(arrays):
    return np.sqrt(sum((a**2).sum() for a in arrays))


def minus(a, b):
    return [x - y for x, y in zip(a, b, strict=True)]


def loss(arrays, fed, rows):
    logits = oracle.forward(layered(arrays), fed.data.x_train[rows].astype(np.float64))[1]
    top = logits.max(axis=1)
    right = logits[np.arange(len(rows)), fed.data.y_train[rows]]
    return np.mean(np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top - right)


def gap(tau, rho, beta, delta, eta, step_seconds, round_seconds, budget, phi):
    """G(tau), from the paper's equations."""
    h = delta / beta * ((eta * beta + 1) ** tau - 1) - eta * delta * tau
    steps = (budget - round_seconds - step_seconds) * tau / (step_seconds * tau + round_seconds)
    lead = 1 / (2 * eta * phi * steps)
    return lead + np.sqrt(lead**2 + rho * h / (eta * phi * tau)) + rho * h


class ByHand:
    """Algorithm 2, with algorithm 3 for each worker of a round."""

    def __init__(self, fed, eta):
        self.fed, self.eta = fed, eta
        self.x = self.best = start(fed)
        self.own = [start(fed) for _ in range(fed.workers)]
        self.best_loss, self.tau, self.seconds, self.stage = np.inf, 1, 0.0, "training"

    def params(self):
        return self.best if self.stage == "over" else self.x

    def round(self, drawn):
        if self.stage == "over":
            return
        c, b, budget = COSTS["step_seconds"], COSTS["round_seconds"], COSTS["budget"]
        losses, gradients, rhos, betas, ends = [], [], [], [], []
        for one in drawn:
            first, own = one.batches[0], self.own[one.worker]
            losses.append(loss(self.x, self.fed, first))
            gradients.append(gradient(self.x, self.fed, first))
            if (away := norm(minus(own, self.x))) > 0:
                rhos.append(abs(loss(own, self.fed, first) - losses[-1]) / away)
                betas.append(norm(minus(gradient(own, self.fed, first), gradients[-1])) / away)
            y = self.x
            for rows in one.batches[: self.tau]:
                y = [a - self.eta * g for a, g in zip(y, gradient(y, self.fed, rows), strict=True)]
            self.own[one.worker] = y
            ends.append(y)
        if np.mean(losses) < self.best_loss:
            self.best, self.best_loss = self.x, np.mean(losses)
        most = max(len(one.batches) for one in drawn)
        self.seconds += c * max(min(self.tau, most), 1) + b
        if self.tau == 0:
            self.stage = "over"
            return
        self.x = [np.mean(parts, axis=0) for parts in zip(*ends, strict=True)]
        if rhos:
            whole = [np.mean(parts, axis=0) for parts in zip(*gradients, strict=True)]
            delta = np.mean([norm(minus(g, whole)) for g in gradients])
            self.tau = min(
                range(1, min(10 * self.tau, most) + 1),
                key=lambda tau: gap(tau, np.mean(rhos), np.mean(betas), delta, self.eta, **COSTS),
            )
        self.tau = max(0, min(self.tau, int(np.floor((budget - self.seconds - 2 * b - c) / c))))


@pytest.mark.parametrize(
    ("local", "cohort", "eta"),
    [(Steps(12, 0), sampling.full(), 0.05), (Epochs(2, 8), sampling.at_least(2, 4), 0.3)],
    ids=["as in the paper", "some workers, small batches"],
)
def test_equals_its_pseudo_code(local, cohort, eta):
    fed = unequal()
    algorithm = enlist.adaptive(worker_lr=eta, **COSTS)
    options = {"local": local, "cohort": cohort, "execution": "chunk:2", "devices": 1, "rounds": 0}
    session = run(algorithm, fed, **options).session
    by_hand, taus = ByHand(fed, eta), []
    for t in range(20):
        session.advance(1, False)
        by_hand.round(session.drawn(t))
        state = session.state.server
        taus.append(int(state.tau))
        assert (taus[-1], bool(state.over)) == (by_hand.tau, by_hand.stage == "over")
        assert float(state.seconds) == pytest.approx(by_hand.seconds, rel=1e-5)
        for got, expected in zip(flat(layers_of(session.params())), by_hand.params(), strict=True):
            np.testing.assert_allclose(got, expected, rtol=3e-4, atol=3e-5)
        if by_hand.stage == "over":
            break
    assert by_hand.stage == "over"
    assert by_hand.seconds <= COSTS["budget"]
    assert max(taus) > 1
    before = session.params()
    session.advance(2, False)
    jax.tree.map(np.testing.assert_array_equal, session.params(), before)
    other = run(enlist.adaptive(worker_lr=0.01, **(COSTS | {"phi": 0.1, "budget": 5.0})), fed, **options)
    assert other.session.program is session.program


def test_the_bound_equals_the_paper():
    tau = np.arange(1, 101)
    for rho, beta, delta, eta in [(2.0, 3.0, 0.5, 0.01), (0.1, 40.0, 2.0, 0.001), (1.0, 0.02, 0.3, 0.1)]:
        rates = {name: jnp.float32(number) for name, number in (COSTS | {"worker_lr": eta}).items()}
        got = bound(rates, Estimates(*map(jnp.float32, (rho, beta, delta))), jnp.asarray(tau, jnp.float32))
        np.testing.assert_allclose(got, gap(tau, rho, beta, delta, eta, **COSTS), rtol=2e-3)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"step_seconds": 0.0}, "step-seconds = 0: must be above 0"),
        ({"phi": float("nan")}, "phi = nan: must be above 0"),
        ({"round_seconds": -1.0}, "round-seconds = -1: must be 0 or more"),
        ({"budget": 1.2}, "budget = 1.2: must pay for two rounds of one step, so be above 1.2 seconds"),
    ],
)
def test_numbers_that_cannot_be_are_refused(given, says):
    with pytest.raises(enlist.BadInput, match=says):
        enlist.adaptive(**(COSTS | given))


def test_what_is_not_defined_is_refused():
    with pytest.raises(enlist.BadInput, match="adaptive takes one worker rate a round"):
        run(enlist.adaptive(worker_lr=enlist.PerStep(lambda t, k: 0.1)))
    with pytest.raises(enlist.BadInput, match="use without-replacement"):
        run(enlist.adaptive(), cohort=sampling.with_replacement(3))
