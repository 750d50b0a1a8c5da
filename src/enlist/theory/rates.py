"""The rates that make the bound smallest, and the rounds until it is small enough.

With u = K L eta_L, s = g L = eta u, p = 3q and

    A = gap L / T,   B = sigma_L^2 / (2nK) + (3/2) q sigma_G^2,   D = (5/2) u^2 (sigma_L^2 / K + 6 sigma_G^2),

the theorems' bound is

    2 [A/s + D + (B + pD) s] / [1 - 30u^2 - p (1 + 30u^2) s].

At a fixed s every term grows with u: the smaller the worker rate and the larger the server rate, the better, and the
bound has no minimiser, only the infimum at u -> 0. What drift (D and 30u^2) costs there is nothing; what it costs at
u > 0 grows with u^2, so that a small price buys a worker rate one can use: `near_best`. At a fixed u the best s
solves a quadratic equation; the limit on g L cuts it off. All functions take and return NumPy arrays; shapes
broadcast.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from enlist.theory.bounds import bound
from enlist.theory.conditions import MOST_DRIFT, Constants, Rates, Real, Strategy, most_drift, real
from enlist.theory.corollaries import corollary_rates, least_rounds

# How much more than the infimum the bound may be at the rates that are recommended.
SLACK = 0.05
# The smallest u that is tried, and halvings of an interval.
LEAST_DRIFT, HALVINGS = 1e-15, 100
MOST_ROUNDS = 1e30


class Least(NamedTuple):
    """The infimum of the bound over all rates, approached as eta_L -> 0 with eta eta_L K L = step."""

    bound: Real
    step: Real


class _Terms(NamedTuple):
    """What does not depend on the rates: B, D / u^2, p, and the limit on s."""

    chance: Real
    drift: Real
    p: Real
    most: Real


def least_bound(constants: Constants, strategy: Strategy, *, local_steps: Real, rounds: Real) -> Least:
    """The infimum over all rates that keep the conditions."""
    terms, start = _terms(constants, strategy, local_steps), _start(constants, rounds)
    step = _best_step(terms, start, real(0.0))
    return Least(_value(terms, start, real(0.0), step), step)


def near_best(
    constants: Constants, strategy: Strategy, *, local_steps: Real, rounds: Real, slack: Real = SLACK
) -> Rates:
    """The largest worker rate, with its best server rate, at which the bound is within `slack` of the infimum."""
    terms, start = _terms(constants, strategy, local_steps), _start(constants, rounds)
    allowed = (1 + slack) * least_bound(constants, strategy, local_steps=local_steps, rounds=rounds).bound

    def costs_more(u: Real) -> Real:
        return _value(terms, start, u, _best_step(terms, start, u)) > allowed

    u = _first(costs_more, real(MOST_DRIFT) + 0 * allowed)
    return _rates(constants, u, _best_step(terms, start, u), local_steps)


def best_at(
    server_lr: Real, constants: Constants, strategy: Strategy, *, local_steps: Real, rounds: Real
) -> Rates:
    """The worker rate that makes the bound smallest at this server rate; eta = 1 is plain FedAvg.

    Over u the numerator of the bound is convex and its denominator concave, so there is one minimum.
    """
    terms, start = _terms(constants, strategy, local_steps), _start(constants, rounds)
    eta = real(server_lr)
    pull = terms.p * eta

    def rises(u: Real) -> Real:
        over = start / (eta * u) + terms.chance * eta * u + terms.drift * u**2 * (1 + pull * u)
        over_slope = terms.chance * eta - start / (eta * u**2) + terms.drift * u * (2 + 3 * pull * u)
        under = 1 - 30 * u**2 - pull * u * (1 + 30 * u**2)
        under_slope = -60 * u - pull * (1 + 90 * u**2)
        return over_slope * under > over * under_slope

    u = _first(rises, _largest(eta, strategy, terms, start))
    return Rates(u / (real(local_steps) * constants.smoothness), eta + 0 * u)


def rounds_near_best(
    constants: Constants, strategy: Strategy, goal: Real, *, local_steps: Real, slack: Real = SLACK
) -> Real:
    """The T (not whole) at which the rates of `near_best` bring the bound to the goal.

    They are within `slack` of the infimum, so the infimum has to come to goal / (1 + slack). At a step s it does when
    T = gap L / (goal s / 2 - s^2 (goal p / 2 + B)); the best s is goal / (2 (goal p + 2B)) or the limit on s. Where
    that limit is not in the way, T = 8 gap L [sigma_L^2 / (nK) + 3q (goal + sigma_G^2)] / goal^2.
    """
    terms, goal = _terms(constants, strategy, local_steps), real(goal) / (1 + slack)
    with np.errstate(divide="ignore"):
        step = np.minimum(goal / (2 * (goal * terms.p + 2 * terms.chance)), terms.most)
    gain = step * (goal / 2 - step * (goal * terms.p / 2 + terms.chance))
    return constants.gap * constants.smoothness / gain


def rounds_at(
    server_lr: Real, constants: Constants, strategy: Strategy, goal: Real, *, local_steps: Real
) -> Real:
    """The same for `best_at`: gap L over the largest gain of a round, which is concave in u."""
    terms, goal, eta = _terms(constants, strategy, local_steps), real(goal), real(server_lr)
    pull = terms.p * eta

    def gain(u: Real) -> Real:
        progress = u - 30 * u**3 - pull * u**2 * (1 + 30 * u**2)
        return goal / 2 * progress - terms.chance * eta * u**2 - terms.drift * u**3 * (1 + pull * u)

    def falls(u: Real) -> Real:
        progress = 1 - 90 * u**2 - pull * u * (2 + 120 * u**2)
        lost = 2 * terms.chance * eta * u + terms.drift * u**2 * (3 + 4 * pull * u)
        return goal / 2 * progress < lost

    u = _first(falls, _largest(eta, strategy, terms, goal))
    return constants.gap * constants.smoothness / (eta * gain(u))


def rounds_with(
    rates: Rates, constants: Constants, strategy: Strategy, goal: Real, *, local_steps: Real
) -> Real:
    """The T at which these rates bring the bound to the goal; infinite where Phi alone is above it, or where the
    theorem does not hold."""
    found = bound(constants, rates, strategy, local_steps=local_steps, rounds=1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = found.vanishing / (goal - found.phi)
    return np.where(found.conditions.hold & (found.phi < goal), needed, np.inf)[()]


def rounds_by_corollary(constants: Constants, strategy: Strategy, goal: Real, *, local_steps: Real) -> Real:
    """The T at which the corollary's rates, which depend on T, bring the bound to the goal."""
    least = least_rounds(strategy, local_steps=local_steps).whole

    def reached(rounds: Real) -> Real:
        rates = corollary_rates(
            constants.smoothness, local_steps=local_steps, rounds=rounds, cohort=strategy.cohort
        )
        return bound(constants, rates, strategy, local_steps=local_steps, rounds=rounds).bound <= goal

    low: Real = np.log(least + 0 * real(goal))
    high: Real = np.log(real(MOST_ROUNDS))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        enough = reached(np.exp(middle))
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    found: Real = np.where(reached(least), least, np.exp(high))
    return found[()]


def _terms(constants: Constants, strategy: Strategy, local_steps: Real) -> _Terms:
    local, between = real(constants.sigma_local) ** 2, real(constants.sigma_global) ** 2
    with np.errstate(divide="ignore"):
        most = 1 / (1 - strategy.q)
    return _Terms(
        chance=local / (2 * strategy.cohort * local_steps) + 1.5 * strategy.q * between,
        drift=2.5 * (local / local_steps + 6 * between),
        p=3 * strategy.q,
        most=most,
    )


def _start(constants: Constants, rounds: Real) -> Real:
    """A = gap L / T."""
    return real(constants.gap) * constants.smoothness / rounds


def _value(terms: _Terms, start: Real, u: Real, step: Real) -> Real:
    """The bound, infinite where c <= 0."""
    drift = terms.drift * u**2
    under = 1 - 30 * u**2 - terms.p * (1 + 30 * u**2) * step
    with np.errstate(divide="ignore"):
        found = 2 * (start / step + drift + (terms.chance + terms.p * drift) * step) / under
    return np.where(under > 0, found, np.inf)


def _best_step(terms: _Terms, start: Real, u: Real) -> Real:
    """The s at which the bound is smallest at this u: (B'a + Db) s^2 + 2Ab s = Aa, B' = B + pD, unless cut off."""
    drift = terms.drift * u**2
    a, b = 1 - 30 * u**2, terms.p * (1 + 30 * u**2)
    curved = (terms.chance + terms.p * drift) * a + drift * b
    with np.errstate(divide="ignore"):
        step = start * a / (start * b + np.sqrt((start * b) ** 2 + start * a * curved))
    return np.minimum(step, terms.most)


def _largest(eta: Real, strategy: Strategy, terms: _Terms, shape: Real) -> Real:
    """The largest u that the conditions allow, of the shape of all that a search depends on."""
    return most_drift(eta, strategy) + 0 * (terms.chance + shape)


def _first(turned: Callable[[Real], Real], most: Real) -> Real:
    """The u in (0, most] from which on `turned` is true; `most` where it nowhere is."""
    low, high = np.log(LEAST_DRIFT) + 0 * most, np.log(most)
    # At the very end c may be 0, and then all is lost in rounding.
    end = most * (1 - 1e-9)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        beyond = turned(np.exp(middle))
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return np.where(turned(end), np.exp(low), end)[()]


def _rates(constants: Constants, u: Real, step: Real, local_steps: Real) -> Rates:
    return Rates(u / (real(local_steps) * constants.smoothness), step / u)
