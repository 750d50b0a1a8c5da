"""Theorems 1 and 2 as functions: what the smallest E|grad f(x_t)|^2 of T rounds is at most.

Yang, Fang, Liu, "Achieving Linear Speedup with Partial Worker Participation in Non-IID Federated Learning" (2021).
For all strategies, with u = K L eta_L, g = eta eta_L K and q of the strategy (see `conditions`):

    min_t E|grad f(x_t)|^2 <= gap / (c g T) + Phi
    Phi = (1/c) [ L eta eta_L / (2n) sigma_L^2 + (3/2) L K eta eta_L q sigma_G^2
                  + (5/2 K eta_L^2 L^2 + 15/2 K^2 eta eta_L^3 L^3 q)(sigma_L^2 + 6K sigma_G^2) ]
    c = 1/2 - 15 u^2 - (g L q / 2)(90 u^2 + 3)

This is the Phi of the theorems' statements: between lines of the proofs powers of K get lost. What else is printed
wrongly is named where it is corrected; `docs/theory.md` has all of it, and what the proofs leave out.
"""

from typing import NamedTuple

from enlist.theory.conditions import (
    Conditions,
    Constants,
    Rates,
    Real,
    Strategy,
    c_of,
    check,
    drift,
    full,
    real,
    with_replacement,
    without_replacement,
)


class Parts(NamedTuple):
    """What Phi consists of; each is divided by c, and they add up to Phi."""

    local_noise: Real
    """L eta eta_L / (2n) sigma_L^2: gradient noise, averaged over the cohort."""
    drift_local: Real
    """5/2 K eta_L^2 L^2 sigma_L^2: workers drift apart by noise."""
    drift_global: Real
    """15 K^2 eta_L^2 L^2 sigma_G^2: workers drift apart because their data differ."""
    sampling: Real
    """3/2 L K eta eta_L q sigma_G^2: a cohort is not all workers."""
    sampling_drift_local: Real
    """15/2 K^2 eta eta_L^3 L^3 q sigma_L^2: nor is its drift by noise."""
    sampling_drift_global: Real
    """45 K^3 eta eta_L^3 L^3 q sigma_G^2: nor is its drift by data."""


class Bound(NamedTuple):
    """A theorem as numbers. It says nothing where `conditions.hold` is false."""

    bound: Real
    """vanishing + phi, at least min_t E|grad f(x_t)|^2."""
    vanishing: Real
    """gap / (c g T)."""
    phi: Real
    parts: Parts
    c: Real
    conditions: Conditions


def theorem_1(constants: Constants, rates: Rates, *, local_steps: Real, rounds: Real, workers: Real) -> Bound:
    """Theorem 1: all workers take part.

    Example:
        >>> rates = Rates(worker_lr=0.01, server_lr=2.0)
        >>> found = theorem_1(Constants(1.0, 1.0, 1.0, 1.0), rates, local_steps=5, rounds=1000, workers=10)
        >>> round(float(found.bound), 4), bool(found.conditions.hold)
        (0.1076, True)
    """
    return bound(constants, rates, full(workers), local_steps=local_steps, rounds=rounds)


def theorem_2_with_replacement(
    constants: Constants, rates: Rates, *, local_steps: Real, rounds: Real, cohort: Real
) -> Bound:
    """Theorem 2, Strategy 1: n independent draws, each with a local run of its own."""
    return bound(constants, rates, with_replacement(cohort), local_steps=local_steps, rounds=rounds)


def theorem_2_without_replacement(
    constants: Constants, rates: Rates, *, local_steps: Real, rounds: Real, cohort: Real, workers: Real
) -> Bound:
    """Theorem 2, Strategy 2: n different workers of m. At n = m this is Theorem 1."""
    return bound(
        constants, rates, without_replacement(cohort, workers), local_steps=local_steps, rounds=rounds
    )


def iid(constants: Constants) -> Constants:
    """The i.i.d. case: sigma_G = 0."""
    return constants._replace(sigma_global=0.0)


def bound(
    constants: Constants, rates: Rates, strategy: Strategy, *, local_steps: Real, rounds: Real
) -> Bound:
    """The theorem of this strategy, with n workers in every round."""
    return at_least(constants, rates, strategy, strategy, local_steps=local_steps, rounds=rounds)


def at_least(
    constants: Constants,
    rates: Rates,
    least: Strategy,
    most: Strategy | None = None,
    *,
    local_steps: Real,
    rounds: Real,
) -> Bound:
    """Cohorts that vary in size, never below `least`: Theorem 2's bound for that size.

    The paper says that all stays the same; but the limit on g L falls as cohorts grow. It is that of `most`, and 1,
    which suits all sizes, where `most` is not known. A cohort's size may not depend on who is in it.
    """
    u = drift(constants, rates, local_steps)
    step = rates.server_lr * u
    c = c_of(u, step, least.q)
    parts = Parts(*(part / c for part in _parts(constants, u, step, least, local_steps)))
    vanishing = constants.gap / (c * _reach(rates, local_steps) * real(rounds))
    phi = sum(parts)
    conditions = check(u, step, least, full(1.0) if most is None else most)
    return Bound(vanishing + phi, vanishing, phi, parts, c, conditions)


def recorded(constants: Constants, rates: Rates, strategy: Strategy, *, local_steps: Real) -> Bound:
    """Cohorts whose sizes p_t are known, round by round: (gap/g + sum_t phi_t) / sum_t c_t.

    Here phi_t is the bracket of Phi at n = p_t, and c_t is c there. The limit on g L is checked at the largest
    cohort, c > 0 at the smallest. The c that is returned is the mean of all c_t.

    Args:
        strategy: of the sizes, such as `with_replacement(sizes)`; rounds are its last axis.
    """
    each = Constants(*(real(value)[..., None] for value in constants))
    steps = real(local_steps)[..., None]
    u = drift(each, Rates(*(real(rate)[..., None] for rate in rates)), steps)
    step = real(rates.server_lr)[..., None] * u
    # c_t has an entry for each round, also where nothing depends on it.
    c = c_of(u, step, strategy.q) + 0 * strategy.cohort
    total = c.sum(axis=-1)
    parts = Parts(*((part + 0 * c).sum(axis=-1) / total for part in _parts(each, u, step, strategy, steps)))
    vanishing = constants.gap / (_reach(rates, local_steps) * total)
    phi = sum(parts)
    q = strategy.q + 0 * strategy.cohort
    least, most = (Strategy(None, extreme) for extreme in (q.max(axis=-1), q.min(axis=-1)))
    conditions = check(u[..., 0], step[..., 0], least, most)
    return Bound(vanishing + phi, vanishing, phi, parts, total / c.shape[-1], conditions)


def _reach(rates: Rates, local_steps: Real) -> Real:
    """g = eta eta_L K."""
    return real(local_steps) * rates.worker_lr * rates.server_lr


def _parts(constants: Constants, u: Real, step: Real, strategy: Strategy, local_steps: Real) -> Parts:
    """The bracket of Phi, term by term, from u and g L: their products neither over- nor underflow in float32."""
    local, distinct = real(constants.sigma_local) ** 2, real(constants.sigma_global) ** 2
    drift_local, drift_global = 2.5 * u**2 * local / local_steps, 15 * u**2 * distinct
    pull = step * strategy.q
    return Parts(
        local_noise=step * local / (2 * strategy.cohort * local_steps),
        drift_local=drift_local,
        drift_global=drift_global,
        sampling=1.5 * pull * distinct,
        sampling_drift_local=3 * pull * drift_local,
        sampling_drift_global=3 * pull * drift_global,
    )
