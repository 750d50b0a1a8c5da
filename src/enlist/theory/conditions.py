"""What the theorems are about, and the conditions under which they hold.

All rests on three numbers without a unit:

    u  = K L eta_L               how far a worker drifts in its K local steps
    gL = eta eta_L K L = eta u   how far the server goes in a round
    q                            how much of one worker's own update is left in the mean of a cohort

For t_i, what worker i sends, and t their mean over all m workers, a cohort's mean has the second moment
(1 - q) |t|^2 + q (1/m) sum_i |t_i|^2. So q is 0 with all workers, 1/n under Strategy 1 and (m-n)/(n(m-1)) under
Strategy 2, and the theorems are one: all that a strategy changes is q (and n, over which local noise is averaged).

Only plain operators are used: NumPy arrays and numbers give float64, jax arrays give jax arrays (also traced ones).
Shapes broadcast. `docs/theory.md` has the derivation.
"""

from typing import Any, NamedTuple

import numpy as np

# A number, a NumPy array or a jax array.
Real = Any

MOST_DRIFT = 1 / 8
NEWTON_STEPS = 30
# How many roundings a value may be above its limit.
ROUNDINGS = 8


class Constants(NamedTuple):
    """The problem, as Assumptions 1 and 3 see it.

    Args:
        smoothness: L, the Lipschitz constant of every worker's gradient.
        sigma_local: sigma_L, the root of a stochastic gradient's variance (its squared norm), at every worker.
        sigma_global: sigma_G, how far a worker's gradient is from that of f. 0 for i.i.d. data.
        gap: f(x_0) - f*, how far there is to go.
    """

    smoothness: Real
    sigma_local: Real
    sigma_global: Real
    gap: Real


class Rates(NamedTuple):
    """The two learning rates: eta_L of the workers, eta of the server."""

    worker_lr: Real
    server_lr: Real


class Strategy(NamedTuple):
    """How a cohort is drawn: its size n, and q."""

    cohort: Real
    q: Real


class Condition(NamedTuple):
    """A value that may not exceed its limit. The limit is infinite where there is none."""

    value: Real
    limit: Real
    margin: Real
    """limit - value."""
    holds: Real


class Conditions(NamedTuple):
    """Under which the theorems hold."""

    drift: Condition
    """u = K L eta_L <= 1/8 (Lemma 2)."""
    step: Condition
    """g L = eta eta_L K L <= 1 / (1 - q): 1, n/(n-1) or n(m-1)/(m(n-1)), and no limit where q = 1 (n = 1)."""
    progress: Condition
    """30 u^2 + g L q (90 u^2 + 3) < 1, which is c > 0; the margin is 2c."""

    @property
    def hold(self) -> Real:
        """Whether all of them do."""
        return self.drift.holds & self.step.holds & self.progress.holds


def real(value: Real) -> Real:
    """In floating point, so that no product of whole numbers overflows."""
    return np.float64(1.0) * value


def full(workers: Real) -> Strategy:
    """All m workers take part (Theorem 1)."""
    return Strategy(real(workers), real(0.0))


def with_replacement(cohort: Real) -> Strategy:
    """n independent draws (Theorem 2, Strategy 1): q = 1/n. A worker that is drawn twice runs twice."""
    return Strategy(real(cohort), 1 / real(cohort))


def without_replacement(cohort: Real, workers: Real) -> Strategy:
    """n different workers of m (Theorem 2, Strategy 2): q = (m-n) / (n(m-1)), which is 0 at n = m."""
    n, m = real(cohort), real(workers)
    # A single worker is all there are: 0/1 stands for 0/0.
    return Strategy(n, (m - n) / (n * (m - 1 + (m == 1))))


def drift(constants: Constants, rates: Rates, local_steps: Real) -> Real:
    """u = K L eta_L."""
    return real(local_steps) * constants.smoothness * rates.worker_lr


def c_of(u: Real, step: Real, q: Real) -> Real:
    """c = 1/2 - 15 u^2 - (g L q / 2)(90 u^2 + 3), what a round surely gains of g |grad f|^2.

    The paper prints 5 for 15 in (a7) and (b16).
    """
    return 0.5 - 15 * u**2 - step * q * (45 * u**2 + 1.5)


def check(u: Real, step: Real, least: Strategy, most: Strategy) -> Conditions:
    """The conditions, where cohorts are as small as `least` and as large as `most`.

    c grows with the cohort, so it is checked at the smallest; the limit on g L falls: it is checked at the largest.
    Theorem 2 prints (n-1)/n for n/(n-1) (Strategy 1), minus for plus before g L q, and 10 for 30 (Strategy 2).
    A value that is at its limit but for rounding, as g L at T = mK with the corollary's rates, keeps it.
    """
    with np.errstate(divide="ignore"):
        limit = 1 / (1 - most.q)
    rounding = 1 + ROUNDINGS * float(np.finfo(u.dtype).eps)
    progress = 30 * u**2 + step * least.q * (90 * u**2 + 3)
    c = c_of(u, step, least.q)
    return Conditions(
        Condition(u, real(MOST_DRIFT), MOST_DRIFT - u, u <= MOST_DRIFT * rounding),
        Condition(step, limit, limit - step, step <= limit * rounding),
        Condition(progress, real(1.0), 2 * c, c > 0),
    )


def most_drift(server_lr: Real, strategy: Strategy) -> Real:
    """The largest u that all conditions allow at this server rate (NumPy). Where c > 0 decides, c is 0 there."""
    eta = real(server_lr)
    with np.errstate(divide="ignore"):
        most_step = 1 / (eta * (1 - strategy.q))
    return np.minimum(np.minimum(MOST_DRIFT, most_step), zero_of_c(eta * strategy.q))


def largest_worker_lr(smoothness: Real, server_lr: Real, strategy: Strategy, *, local_steps: Real) -> Real:
    """The largest eta_L that all conditions allow at this eta (NumPy). Where c > 0 decides, stay below it."""
    return most_drift(server_lr, strategy) / (real(local_steps) * smoothness)


def largest_server_lr(smoothness: Real, worker_lr: Real, strategy: Strategy, *, local_steps: Real) -> Real:
    """The largest eta that all conditions allow at this eta_L (NumPy); 0 where eta_L alone breaks one."""
    u = real(local_steps) * smoothness * worker_lr
    with np.errstate(divide="ignore", over="ignore"):
        most_step = 1 / (u * (1 - strategy.q))
        most_progress = (1 - 30 * u**2) / (u * strategy.q * (90 * u**2 + 3))
    return np.where(u <= MOST_DRIFT, np.minimum(most_step, most_progress), 0.0)[()]


def zero_of_c(pull: Real) -> Real:
    """The u at which 30 u^2 + pull (90 u^3 + 3 u) = 1, for pull = eta q.

    The left side is convex and grows, so Newton's steps from its right go down to it.
    """
    u = real(1 / np.sqrt(30)) + 0 * pull
    for _ in range(NEWTON_STEPS):
        u = u - (30 * u**2 + pull * (90 * u**3 + 3 * u) - 1) / (60 * u + pull * (270 * u**2 + 3))
    return u
