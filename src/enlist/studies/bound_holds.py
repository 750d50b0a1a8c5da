"""Whether the theorems' bound holds: min_t E|grad f(x_t)|^2 of real runs beside it, where all constants are known.

The problems are those of `problem.quadratic`; the runs are the engine's. Rates are fractions of what the conditions
allow, so every case of the grid is one that the theorems speak of. Two more cases: one where the bound is met
(H = L I, sigma_G = 0, all workers, g L = 1, u near 0), and the same at g L = 1.5, which the conditions forbid.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from typing import Any, NamedTuple, TypeVar

import numpy as np

from enlist.algorithms.work import Steps
from enlist.participation import sampling
from enlist.problem.quadratic import Known, nonconvex, quadratic
from enlist.studies.cross_term import STATED, cross_terms
from enlist.studies.ensemble import prepared, squared_gradients
from enlist.theory import bounds, conditions
from enlist.theory.conditions import MOST_DRIFT, Constants, Rates, Strategy

WORKERS, BATCH = 10, 1
SPECTRUM = (1.0, 0.6, 0.35, 0.2, 0.1, 0.05)
# Standard errors to either side: 99.9% of a normal distribution.
Z = 3.29
# Of the case that meets the bound: so small that drift costs nothing, so large that float32 still sees every step.
TIGHT_DRIFT, TIGHT_DIMENSION = 0.002, 16
# Seeds of it for every seed of the others: its interval must be far narrower.
TIGHT_SEEDS = 10
TIGHT_STEP, FORBIDDEN_STEP = 1 - 1e-6, 1.5

T = TypeVar("T")


class Setting(NamedTuple):
    """Who takes part, and K: what shapes a program."""

    sampling: str
    cohort: int
    local_steps: int


class Variant(NamedTuple):
    """Sizes that make another problem of the same shape."""

    noise: float
    heterogeneity: float


class Grid(NamedTuple):
    """What is tried on every kind of problem: each variant and each pair of rates in each setting.

    Args:
        drifts: u, as fractions of 1/8.
        steps: eta, as fractions of the largest that all conditions allow at that u.
        cross_steps: K at which the dropped term is measured.
    """

    settings: Sequence[Setting]
    variants: Sequence[Variant]
    drifts: Sequence[float]
    steps: Sequence[float]
    cross_steps: Sequence[int]


Bounding = Callable[..., bounds.Bound]
KINDS: dict[str, Callable[[Variant], Known]] = {
    "quadratic": lambda sizes: quadratic(
        SPECTRUM, WORKERS, noise=sizes.noise, heterogeneity=sizes.heterogeneity, distance=4.0
    ),
    "non-convex": lambda sizes: nonconvex(
        len(SPECTRUM), WORKERS, noise=sizes.noise, heterogeneity=sizes.heterogeneity, height=0.5
    ),
}


def _settings(cohorts: Sequence[int], local_steps: Sequence[int]) -> list[Setting]:
    some = product(("with-replacement", "without-replacement"), cohorts, local_steps)
    return [*(Setting("full", WORKERS, steps) for steps in local_steps), *(Setting(*each) for each in some)]


VARIANTS = (Variant(1.0, 1.0), Variant(2.0, 0.2), Variant(0.3, 2.0))
SCALES = {
    "small": Grid(_settings((2, 5), (1, 5)), VARIANTS, (0.05, 0.999), (0.1, 0.5, 0.9), (1, 2, 4, 16)),
    "full": Grid(
        _settings((1, 2, 5, 9), (1, 5, 20)),
        (*VARIANTS, Variant(0.0, 1.0), Variant(1.0, 0.0)),
        (0.02, 0.3, 0.999),
        (0.02, 0.1, 0.3, 0.6, 0.9),
        (1, 2, 4, 16, 64),
    ),
}


def bound_holds(
    grid: Grid,
    seeds: int,
    rounds: int,
    bound: Bounding = bounds.bound,
    done: Callable[[int, int], None] = lambda now, of: None,
) -> dict[str, Any]:
    """Runs the grid, and says of every case what was measured and what the bound is.

    Args:
        grid: one of `SCALES`, or another.
        seeds: runs of every case.
        rounds: T.
        bound: the bound, as `theory.bounds.bound` is called.
        done: told how many programs of how many are done.
    """

    def tried(kind: str, setting: Setting) -> list[dict[str, Any]]:
        found = []
        for sizes in grid.variants:
            problem = KINDS[kind](sizes)
            rates = allowed_rates(problem, setting, grid.drifts, grid.steps)
            found += measure(kind, problem, setting, rates, seeds, rounds, bound)
        return found

    programs = [partial(tried, kind, setting) for kind in KINDS for setting in grid.settings]
    cases = [case for found in _carried_out(programs, done) for case in found]
    tight, outside = _extremes(seeds, rounds, bound)
    return {
        "seeds": seeds,
        "rounds": rounds,
        "interval": "99.9%",
        "workers": WORKERS,
        "batch": BATCH,
        "cases": cases,
        "tight": tight,
        "outside": outside,
        "cross_term": {"stated": STATED, "cases": cross_terms(grid.cross_steps, MOST_DRIFT, seeds, Z)},
    }


def allowed_rates(problem: Known, setting: Setting, drifts: Sequence[float], steps: Sequence[float]) -> Rates:
    """All pairs of rates at these fractions of what the conditions allow."""
    worker_lr, server_lr = [], []
    for drift, step in product(drifts, steps):
        rate = drift * MOST_DRIFT / (setting.local_steps * problem.smoothness)
        largest = conditions.largest_server_lr(
            problem.smoothness, rate, strategy_of(setting), local_steps=setting.local_steps
        )
        worker_lr.append(rate)
        server_lr.append(step * largest)
    return _as_run(np.array(worker_lr), np.array(server_lr))


def measure(
    kind: str,
    problem: Known,
    setting: Setting,
    rates: Rates,
    seeds: int,
    rounds: int,
    bound: Bounding = bounds.bound,
) -> list[dict[str, Any]]:
    """One case for each pair of rates."""
    how = sampling.parse(setting.sampling, setting.cohort)
    session = prepared(problem, how, Steps(setting.local_steps, BATCH))
    squares = squared_gradients(session, rates.worker_lr, rates.server_lr, seeds, rounds)
    constants = Constants(problem.smoothness, problem.sigma_local(BATCH), problem.sigma_global, problem.gap)
    promised = bound(constants, rates, strategy_of(setting), local_steps=setting.local_steps, rounds=rounds)
    return [
        {
            "problem": kind,
            **setting._asdict(),
            **{name: float(value) for name, value in constants._asdict().items()},
            "worker_lr": float(rates.worker_lr[i]),
            "server_lr": float(rates.server_lr[i]),
            "u": float(promised.conditions.drift.value[i]),
            "g_l": float(promised.conditions.step.value[i]),
            "inside": bool(np.broadcast_to(promised.conditions.hold, len(squares))[i]),
            **judged(squares[i], float(promised.bound[i])),
            "vanishing": float(promised.vanishing[i]),
            "phi": float(promised.phi[i]),
            "c": float(promised.c[i]),
        }
        for i in range(len(squares))
    ]


def judged(squares: np.ndarray, bound: float) -> dict[str, Any]:
    """What was measured, its interval, and whether the bound stands: `holds` where the whole interval is below it,
    `broken` where all of it is above, `within` where the bound lies inside.

    Args:
        squares: by seed and round.
    """
    value, error = least_mean(squares)
    low, high = value - Z * error, value + Z * error
    verdict = "holds" if high <= bound else "broken" if not low <= bound else "within"
    return {
        "measured": value,
        "low": low,
        "high": high,
        "bound": bound,
        "ratio": bound / value if value > 0 else None,
        "verdict": verdict,
    }


def least_mean(squares: np.ndarray) -> tuple[float, float]:
    """min_t of the mean over seeds, and its standard error.

    The least of many noisy means is too low. So each half of the seeds says which round it is that the other half is
    measured in: the mean of that is never below the true least one, and what is called a bound that holds does so.
    """
    halves = squares[::2], squares[1::2]
    values, variances = [], []
    for one, other in (halves, halves[::-1]):
        seen = other[:, int(np.argmin(one.mean(axis=0)))]
        values.append(seen.mean())
        variances.append(seen.var(ddof=1) / len(seen))
    return float(np.mean(values)), float(np.sqrt(np.sum(variances)) / 2)


def strategy_of(setting: Setting) -> Strategy:
    """The strategy as the theorems know it."""
    if setting.sampling == "full":
        return conditions.full(WORKERS)
    if setting.sampling == "with-replacement":
        return conditions.with_replacement(setting.cohort)
    return conditions.without_replacement(setting.cohort, WORKERS)


def _extremes(seeds: int, rounds: int, bound: Bounding) -> Iterator[dict[str, Any]]:
    """The case that meets the bound, and the one outside the conditions.

    At g L = 1 a round goes all the way: what is left is the noise, sigma_L^2 / (m K) in every round, which is all of
    the bound but its vanishing term. That is made small by starting no further away than the noise reaches. At
    g L = 1.5 the noise of all rounds adds up to three times as much, so that starts twice as far away.
    """
    setting = Setting("full", WORKERS, 4)
    for step, distance in ((TIGHT_STEP, 1.0), (FORBIDDEN_STEP, 2.0)):
        reach = distance / math.sqrt(WORKERS * setting.local_steps)
        problem = quadratic([1.0] * TIGHT_DIMENSION, WORKERS, heterogeneity=0.0, distance=reach)
        rates = _as_run(np.full(1, TIGHT_DRIFT / setting.local_steps), np.full(1, step / TIGHT_DRIFT))
        yield from measure("quadratic, H = L I", problem, setting, rates, TIGHT_SEEDS * seeds, rounds, bound)


def _carried_out(programs: Sequence[Callable[[], T]], done: Callable[[int, int], None]) -> Iterator[T]:
    """What each gives, in order. Two at a time: most of it is compiling, which keeps one core busy."""
    pool = ThreadPoolExecutor(2)
    try:
        for now, found in enumerate(pool.map(lambda each: each(), programs)):
            done(now + 1, len(programs))
            yield found
    finally:
        pool.shutdown(cancel_futures=True)


def _as_run(worker_lr: np.ndarray, server_lr: np.ndarray) -> Rates:
    """The rates as float32 has them, in which runs compute."""
    return Rates(*(rate.astype(np.float32).astype(np.float64) for rate in (worker_lr, server_lr)))
