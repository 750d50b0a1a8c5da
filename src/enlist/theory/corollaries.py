"""Corollaries 1 and 2: the rates that give the linear speedup, how many rounds they need, and what they promise.

With eta_L = 1/(sqrt(T) K L) and eta = sqrt(K n) (n = m with all workers), u = 1/sqrt(T) and g L = sqrt(Kn/T). The
conditions of the theorems then are conditions on T, which the paper leaves out but for T >= mK.
"""

from typing import NamedTuple

import numpy as np

from enlist.theory.conditions import MOST_DRIFT, ROUNDINGS, Rates, Real, Strategy, real, zero_of_c


class LeastRounds(NamedTuple):
    """The rounds T that the corollary's rates need, by condition."""

    drift: Real
    """T >= 64, for u <= 1/8."""
    step: Real
    """T >= K n (1-q)^2, for the limit on g L: mK; K (n-1)^2 / n; K n (m(n-1) / (n(m-1)))^2."""
    progress: Real
    """T above this, for c > 0: roughly 9 K/n, which decides where n is small."""

    @property
    def whole(self) -> Real:
        """The least whole number of rounds that is enough for all of them."""
        # Square roots, squared: K(n-1)^2/n may come out as a whole number and a rounding.
        step = np.ceil(self.step * (1 - ROUNDINGS * np.finfo(np.float64).eps))
        return np.maximum(np.maximum(self.drift, step), np.floor(self.progress) + 1)


class Order(NamedTuple):
    """A rate without its constants: the term with the linear speedup, and the other one."""

    leading: Real
    rest: Real

    @property
    def total(self) -> Real:
        """Their sum."""
        return self.leading + self.rest


def corollary_rates(smoothness: Real, *, local_steps: Real, rounds: Real, cohort: Real) -> Rates:
    """eta_L = 1/(sqrt(T) K L), eta = sqrt(K n). With all workers the cohort is m.

    Example:
        >>> corollary_rates(2.0, local_steps=4, rounds=100, cohort=25)
        Rates(worker_lr=np.float64(0.0125), server_lr=np.float64(10.0))
    """
    steps = real(local_steps)
    return Rates(1 / (real(rounds) ** 0.5 * steps * smoothness), (steps * cohort) ** 0.5)


def least_rounds(strategy: Strategy, *, local_steps: Real) -> LeastRounds:
    """How many rounds the corollary's rates need so that the theorem holds (NumPy)."""
    places = real(local_steps) * strategy.cohort
    step = places * (1 - strategy.q) ** 2
    progress = zero_of_c(places**0.5 * strategy.q) ** -2.0
    return LeastRounds(real(MOST_DRIFT) ** -2.0, step, progress)


def order(*, local_steps: Real, rounds: Real, workers: Real) -> Order:
    """Corollary 1, all workers: 1/sqrt(mKT) + 1/T."""
    return Order((real(workers) * local_steps * rounds) ** -0.5, 1 / real(rounds))


def partial_order(*, local_steps: Real, rounds: Real, cohort: Real) -> Order:
    """Corollary 2, n workers a round: sqrt(K)/sqrt(nT) + 1/T. More local steps make it worse."""
    return Order((real(local_steps) / (real(cohort) * rounds)) ** 0.5, 1 / real(rounds))


def iid_order(*, local_steps: Real, rounds: Real, cohort: Real) -> Order:
    """The i.i.d. case: 1/sqrt(nKT) + 1/(TK), with n = m for all workers."""
    return Order((real(cohort) * local_steps * rounds) ** -0.5, 1 / (real(rounds) * local_steps))


def largest_local_steps(strategy: Strategy, *, rounds: Real) -> Real:
    """The largest K at which the corollary's rates keep all conditions in T rounds (NumPy; to be rounded down).

    With all workers this is T/m, as the paper says, and 1/sqrt(mKT) is then the larger term of the rate. For partial
    participation the paper names no largest K: sqrt(K)/sqrt(nT) outweighs 1/T for every K >= n/T, and grows with K.
    What is left are the conditions: T/(n (1-q)^2) by the limit on g L, and about T/(9 n q^2) by c > 0.

    Example:
        >>> from enlist.theory.conditions import full
        >>> float(largest_local_steps(full(100), rounds=10**6))
        10000.0
    """
    total = real(rounds)
    with np.errstate(divide="ignore"):
        by_step = total / (strategy.cohort * (1 - strategy.q) ** 2)
        by_progress = total * ((1 - 30 / total) / (90 / total + 3) / strategy.q) ** 2 / strategy.cohort
    return np.where(total * MOST_DRIFT**2 >= 1, np.minimum(by_step, by_progress), 0.0)[()]


def earlier_largest_local_steps(*, rounds: Real, workers: Real) -> Real:
    """What was known before: T^(1/3)/m (Yu 2019, Karimireddy 2019)."""
    return real(rounds) ** (1 / 3) / workers
