"""Table 1: the rates of eleven analyses, and the rounds that they need for an accuracy of epsilon.

Orders have no constants: each hidden one is taken as 1. Compare how the numbers grow, not the numbers. Each term of a
complexity is the T at which the same term of the rate is epsilon; a test holds all rows to that, which is how two
misprints show: Khaled's 1/(mK eps^2) should be 1/(m eps^2), and M/(SK eps^2) of Karimireddy's FedAvg should be
M^2/(SK eps^2). Note 6 of the table names Yu1 (yu2019parallel) as Yu2.
"""

from collections.abc import Callable
from typing import NamedTuple

from enlist.theory.conditions import Real, real

Terms = Callable[[Real, Real, Real, Real], tuple[Real, ...]]


class Setting(NamedTuple):
    """The numbers that the table is evaluated for. `cohort` is None where all workers take part."""

    workers: Real
    cohort: Real | None
    local_steps: Real
    rounds: Real
    epsilon: Real


class Formula(NamedTuple):
    """A sum, in words and as a function of m, S, K and T (a rate) or epsilon (a complexity).

    S = n, or m for all workers.
    """

    text: str
    terms: Terms


class Orders(NamedTuple):
    """A rate of convergence, and the rounds for epsilon."""

    rate: Formula
    complexity: Formula


class Row(NamedTuple):
    """An analysis."""

    data: str
    name: str
    citation: str
    """The paper's key for it."""
    convexity: str
    assumes: str
    full: Orders
    partial: Orders | None
    """With some workers a round; None where it needs all."""

    def orders(self, setting: Setting) -> Orders:
        """Those that fit the setting; with all workers where it has no others."""
        return self.full if setting.cohort is None or self.partial is None else self.partial

    def rate_terms(self, setting: Setting) -> tuple[Real, ...]:
        """The terms of the rate."""
        return self.orders(setting).rate.terms(*_symbols(setting), real(setting.rounds))

    def complexity_terms(self, setting: Setting) -> tuple[Real, ...]:
        """The terms of the communication complexity."""
        return self.orders(setting).complexity.terms(*_symbols(setting), real(setting.epsilon))

    def rate(self, setting: Setting) -> Real:
        """E|grad f|^2 (or, for convex f, what f is above its least) after T rounds, in order."""
        return sum(self.rate_terms(setting))

    def complexity(self, setting: Setting) -> Real:
        """The rounds until that is epsilon, in order."""
        return sum(self.complexity_terms(setting))


def _symbols(setting: Setting) -> tuple[Real, Real, Real]:
    """m, S and K."""
    places = setting.workers if setting.cohort is None else setting.cohort
    return real(setting.workers), real(places), real(setting.local_steps)


def spread(m: Real, S: Real, K: Real) -> Real:
    """M of note 3: M^2 = O(1) + O(K S (1 - S/m)), with both constants 1."""
    return (1 + K * S * (1 - S / m)) ** 0.5


_STICH = Orders(
    Formula("mK/T + 1/sqrt(mKT)", lambda m, S, K, T: (m * K / T, (m * K * T) ** -0.5)),
    Formula("mK/eps + 1/(mK eps^2)", lambda m, S, K, eps: (m * K / eps, 1 / (m * K * eps**2))),
)
_WANG = Orders(
    Formula("m/T + 1/sqrt(mKT)", lambda m, S, K, T: (m / T, (m * K * T) ** -0.5)),
    Formula("m/eps + 1/(mK eps^2)", lambda m, S, K, eps: (m / eps, 1 / (m * K * eps**2))),
)
_IID = Orders(
    Formula("1/(TK) + 1/sqrt(mKT)", lambda m, S, K, T: (1 / (T * K), (m * K * T) ** -0.5)),
    Formula("1/(K eps) + 1/(mK eps^2)", lambda m, S, K, eps: (1 / (K * eps), 1 / (m * K * eps**2))),
)
_IID_PARTIAL = Orders(
    Formula("1/(TK) + 1/sqrt(nKT)", lambda m, S, K, T: (1 / (T * K), (S * K * T) ** -0.5)),
    Formula("1/(K eps) + 1/(nK eps^2)", lambda m, S, K, eps: (1 / (K * eps), 1 / (S * K * eps**2))),
)
_KHALED = Orders(
    Formula("m/T + 1/sqrt(mT)", lambda m, S, K, T: (m / T, (m * T) ** -0.5)),
    Formula("m/eps + 1/(m eps^2)", lambda m, S, K, eps: (m / eps, 1 / (m * eps**2))),
)
_YU2 = Orders(
    Formula("m/(TK) + 1/sqrt(mKT)", lambda m, S, K, T: (m / (T * K), (m * K * T) ** -0.5)),
    Formula("m/(K eps) + 1/(mK eps^2)", lambda m, S, K, eps: (m / (K * eps), 1 / (m * K * eps**2))),
)
_LI = Orders(
    Formula("K/T", lambda m, S, K, T: (K / T,)),
    Formula("K/eps", lambda m, S, K, eps: (K / eps,)),
)
_TWO_SIDED = Orders(
    Formula(
        "1/T^(2/3) + M/sqrt(SKT)",
        lambda m, S, K, T: (T ** (-2 / 3), spread(m, S, K) * (S * K * T) ** -0.5),
    ),
    Formula(
        "1/eps^(3/2) + M^2/(SK eps^2)",
        lambda m, S, K, eps: (eps**-1.5, spread(m, S, K) ** 2 / (S * K * eps**2)),
    ),
)
_NON_IID = Orders(
    Formula("1/T + 1/sqrt(mKT)", lambda m, S, K, T: (1 / T, (m * K * T) ** -0.5)),
    Formula("1/eps + 1/(mK eps^2)", lambda m, S, K, eps: (1 / eps, 1 / (m * K * eps**2))),
)
_NON_IID_PARTIAL = Orders(
    Formula("1/T + sqrt(K)/sqrt(nT)", lambda m, S, K, T: (1 / T, (K / (S * T)) ** 0.5)),
    Formula("1/eps + K/(n eps^2)", lambda m, S, K, eps: (1 / eps, K / (S * eps**2))),
)

ROWS = (
    Row("iid", "Stich1", "stich2018local", "strongly convex", "bounded gradients", _STICH, None),
    Row("iid", "Yu1", "yu2019parallel", "non-convex", "bounded gradients", _STICH, None),
    Row("iid", "Wang", "wang2018cooperative", "non-convex", "", _WANG, None),
    Row("iid", "Stich2", "stich2019error", "non-convex", "", _WANG, None),
    Row("iid", "This paper", "this paper", "non-convex", "two-sided rates", _IID, _IID_PARTIAL),
    Row("non-iid", "Khaled", "khaled2019first", "convex", "full gradients at each worker", _KHALED, None),
    Row("non-iid", "Yu2", "yu2019linear", "non-convex", "local momentum at each worker", _YU2, None),
    Row("non-iid", "Li", "li2019convergence", "strongly convex", "a decaying local rate", _LI, _LI),
    Row(
        "non-iid",
        "Karimireddy (FedAvg)",
        "karimireddy2019scaffold",
        "non-convex",
        "two-sided rates; M^2 = 1 + KS(1 - S/m)",
        _TWO_SIDED,
        _TWO_SIDED,
    ),
    Row(
        "non-iid",
        "Karimireddy (SCAFFOLD)",
        "karimireddy2019scaffold",
        "non-convex",
        "control variates, which double what is sent",
        _NON_IID,
        _NON_IID,
    ),
    Row("non-iid", "This paper", "this paper", "non-convex", "two-sided rates", _NON_IID, _NON_IID_PARTIAL),
)
