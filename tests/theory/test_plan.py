"""The rates are those that make the bound smallest, the rounds those after which it is small enough."""

import numpy as np
import pytest

from enlist.theory import conditions
from enlist.theory.bounds import bound
from enlist.theory.conditions import Constants, Rates
from enlist.theory.corollaries import corollary_rates
from enlist.theory.rates import (
    SLACK,
    best_at,
    least_bound,
    near_best,
    rounds_at,
    rounds_by_corollary,
    rounds_near_best,
    rounds_with,
)

PROBLEMS = {
    "noisy": Constants(2.0, 3.0, 0.5, 4.0),
    "uneven": Constants(0.7, 0.1, 2.0, 10.0),
    "even, exact": Constants(3.0, 0.0, 0.0, 1.0),
}
STRATEGIES = {
    "full": conditions.full(20),
    "with": conditions.with_replacement(5),
    "without": conditions.without_replacement(5, 20),
    "one": conditions.with_replacement(1),
}
each = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
everywhere = pytest.mark.parametrize("constants", PROBLEMS.values(), ids=PROBLEMS)


def values(constants, strategy, u, step, local_steps, rounds):
    """The bound on a grid of u and g L; infinite where a condition is broken."""
    worker = u / (local_steps * constants.smoothness)
    found = bound(constants, Rates(worker, step / u), strategy, local_steps=local_steps, rounds=rounds)
    return np.where(found.conditions.hold, found.bound, np.inf)


@each
@everywhere
@pytest.mark.parametrize(("local_steps", "rounds"), [(1, 100), (10, 10), (10, 1e5)])
def test_no_rates_do_better_than_the_infimum_and_small_worker_rates_come_near(
    constants, strategy, local_steps, rounds
):
    least = least_bound(constants, strategy, local_steps=local_steps, rounds=rounds)
    u, step = np.geomspace(1e-6, 0.125, 100)[:, None], np.geomspace(1e-6, 30, 4001)[None]
    # And the limit on g L, where the minimum often is.
    step = np.append(step, min(1 / (1 - min(strategy.q, 0.99)), 30.0))[None]
    grid = values(constants, strategy, u, step, local_steps, rounds)
    assert grid.min() >= least.bound * (1 - 1e-9)
    assert grid.min() <= least.bound * (1 + 1e-3)
    # Monotone in u: every step down is better.
    best = grid.min(axis=1)
    assert (np.diff(best[np.isfinite(best)]) >= -1e-12).all()


@each
@everywhere
@pytest.mark.parametrize("rounds", [50, 1e4, 1e8])
def test_recommended_rates_cost_five_percent_and_no_larger_worker_rate_does(constants, strategy, rounds):
    at = {"local_steps": 4, "rounds": rounds}
    least = least_bound(constants, strategy, **at).bound
    rates = near_best(constants, strategy, **at)
    found = bound(constants, rates, strategy, **at)
    assert found.conditions.hold
    assert found.bound <= least * (1 + SLACK) * (1 + 1e-9)
    u = float(found.conditions.drift.value)
    if u < 0.124:
        assert found.bound == pytest.approx(least * (1 + SLACK), rel=1e-6)
        step = np.geomspace(1e-7, 30, 20001)
        larger = values(constants, strategy, np.array(1.02 * u), step, 4, rounds)
        assert larger.min() > least * (1 + SLACK)


@each
@everywhere
@pytest.mark.parametrize("server_lr", [0.3, 1.0, 20.0])
def test_best_worker_rate_at_a_server_rate_is_that_of_a_grid(constants, strategy, server_lr):
    at = {"local_steps": 3, "rounds": 300}
    rates = best_at(server_lr, constants, strategy, **at)
    found = bound(constants, rates, strategy, **at)
    assert found.conditions.hold
    u = np.append(np.geomspace(1e-6, 0.125, 200_001), 1 / server_lr)
    grid = values(constants, strategy, u, server_lr * u, 3, 300)
    assert found.bound == pytest.approx(grid.min(), rel=1e-6)
    assert rates.server_lr == server_lr


def smallest(reached):
    """The smallest T, by bisection in log space."""
    low, high = -5.0, 60.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(np.exp(middle)) else (middle, high)
    return np.exp(high)


@each
@everywhere
@pytest.mark.parametrize("goal", [3.0, 0.01])
def test_rounds_are_the_fewest_after_which_the_bound_is_at_the_goal(constants, strategy, goal):
    at = {"local_steps": 5}
    infimum = smallest(lambda T: least_bound(constants, strategy, rounds=T, **at).bound <= goal)
    assert rounds_near_best(constants, strategy, goal, slack=0, **at) == pytest.approx(infimum, rel=1e-6)
    needed = rounds_near_best(constants, strategy, goal, **at)
    rates = near_best(constants, strategy, rounds=needed, **at)
    assert bound(constants, rates, strategy, rounds=needed, **at).bound <= goal * (1 + 1e-9)
    plain = smallest(
        lambda T: (
            bound(
                constants, best_at(1.0, constants, strategy, rounds=T, **at), strategy, rounds=T, **at
            ).bound
            <= goal
        )
    )
    assert rounds_at(1.0, constants, strategy, goal, **at) == pytest.approx(plain, rel=1e-4)
    fixed = smallest(lambda T: bound(constants, rates, strategy, rounds=T, **at).bound <= goal)
    assert rounds_with(rates, constants, strategy, goal, **at) == pytest.approx(fixed, rel=1e-6)


@each
def test_rounds_of_the_corollary(strategy):
    constants, goal = PROBLEMS["noisy"], 0.05
    needed = rounds_by_corollary(constants, strategy, goal, local_steps=5)

    def value(rounds):
        rates = corollary_rates(2.0, local_steps=5, rounds=rounds, cohort=strategy.cohort)
        return bound(constants, rates, strategy, local_steps=5, rounds=rounds).bound

    assert value(needed) == pytest.approx(goal, rel=1e-6)
    assert value(needed / 1.01) > goal
    assert rounds_near_best(constants, strategy, goal, local_steps=5, slack=0) <= needed * (1 + 1e-6)


def test_rounds_are_infinite_where_noise_alone_is_above_the_goal_or_the_theorem_is_silent():
    constants, strategy = PROBLEMS["noisy"], STRATEGIES["without"]
    for rates in (Rates(0.01, 1.0), Rates(1.0, 1.0)):
        assert np.isinf(rounds_with(rates, constants, strategy, 1e-4, local_steps=5))


def test_rounds_follow_the_closed_form_in_the_cohort_and_the_local_steps():
    constants, goal = PROBLEMS["uneven"], 0.01
    L, local, between, gap = constants
    n, K = np.array([1.0, 2, 5, 10])[None], np.array([1.0, 3, 30])[:, None]
    strategy = conditions.without_replacement(n, 20)
    found = rounds_near_best(constants, strategy, goal, local_steps=K, slack=0)
    expected = 8 * gap * L * (local**2 / (n * K) + 3 * strategy.q * (goal + between**2)) / goal**2
    np.testing.assert_allclose(found, expected, rtol=1e-12)
