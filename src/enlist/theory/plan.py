"""What the theory says about a problem whose constants are known: rates, rounds, traffic and seconds over n and K."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from enlist.cost import MIB, RoundCost
from enlist.theory import conditions
from enlist.theory.bounds import bound
from enlist.theory.conditions import Constants, Rates, Strategy, largest_server_lr, largest_worker_lr
from enlist.theory.corollaries import corollary_rates, least_rounds
from enlist.theory.rates import (
    best_at,
    least_bound,
    near_best,
    rounds_at,
    rounds_by_corollary,
    rounds_near_best,
    rounds_with,
)

# The samplings that the theorems are about.
SAMPLINGS = ("full", "with-replacement", "without-replacement")
# What the conditions are on, by their names in the theory.
CONDITIONS = {"drift": "u = K L eta_L", "step": "g L = eta eta_L K L", "progress": "1 - 2c"}
# Values on a default axis of the map lie within this factor of what was asked for.
AROUND = 10


class Setting(NamedTuple):
    """What is planned.

    Args:
        constants: of the problem.
        workers: m.
        cohort: n.
        local_steps: K, the mean over workers where these differ.
        sampling: one of `SAMPLINGS`.
        goal: of E||grad f||^2.
    """

    constants: Constants
    workers: int
    cohort: int
    local_steps: float
    sampling: str
    goal: float

    @property
    def strategy(self) -> Strategy:
        """How this cohort is drawn."""
        return strategy_of(self.sampling, self.cohort, self.workers)


class Price(NamedTuple):
    """What a round costs.

    Args:
        cost: one worker's bytes.
        exchange: seconds that each worker waits for its links in a round.
        step: seconds of computing of each worker in a round, for each local step of the average worker.
        setup: seconds before the first round.
    """

    cost: RoundCost
    exchange: np.ndarray
    step: np.ndarray
    setup: float = 0.0


class Predicted(NamedTuple):
    """Until the goal, at the rates of `near_best`: [local steps, cohort] arrays, or numbers.

    Args:
        rounds: whole rounds.
        mib: up and down of one worker that takes part in every round.
        total_mib: of all workers together.
        seconds: a round lasts as long as the slowest of its cohort, on average.
    """

    rounds: Any
    mib: Any
    total_mib: Any
    seconds: Any


def strategy_of(sampling: str, cohort: Any, workers: int) -> Strategy:
    """The theory's strategy for a sampling of the command line."""
    if sampling == "full":
        return conditions.full(cohort)
    if sampling == "with-replacement":
        return conditions.with_replacement(cohort)
    return conditions.without_replacement(cohort, workers)


def rounds_of(setting: Setting, cohort: Any, local_steps: Any) -> Any:
    """Whole rounds to the goal at the rates of `near_best`."""
    strategy = strategy_of(setting.sampling, cohort, setting.workers)
    needed = rounds_near_best(setting.constants, strategy, setting.goal, local_steps=local_steps)
    return np.maximum(1.0, np.ceil(needed))


def predict(
    setting: Setting, price: Price, cohorts: Sequence[int], local_steps: Sequence[float]
) -> Predicted:
    """Rounds, traffic and seconds to the goal for all of these cohorts and local steps."""
    n, K = np.asarray(cohorts, np.float64)[None], np.asarray(local_steps, np.float64)[:, None]
    rounds = rounds_of(setting, n, K)
    sent = rounds * (price.cost.uplink + price.cost.downlink) / MIB
    repeats = setting.sampling == "with-replacement"
    each = np.array(
        [[slowest(price.exchange + k * price.step, c, repeats) for c in cohorts] for k in local_steps]
    )
    setup = price.cost.setup / MIB
    return Predicted(rounds, setup + sent, setting.workers * setup + n * sent, price.setup + rounds * each)


def slowest(seconds: np.ndarray, cohort: int, repeats: bool) -> float:
    """The mean of the largest of these over all cohorts of that size, each equally likely.

    With replacement it is at most the j-th smallest of m with probability (j/m)^n, without with C(j, n) / C(m, n).
    """
    ordered = np.sort(seconds)
    if ordered[0] == ordered[-1]:
        return float(ordered[0])
    m = len(ordered)
    if repeats:
        at_most = (np.arange(m + 1) / m) ** cohort
    else:
        # C(j, n) / C(m, n), from the top: each is (j - n + 1) / (j + 1) of the one above it.
        j = np.arange(m - 1, -1, -1)
        at_most = np.append(1.0, np.cumprod(np.maximum(j - cohort + 1, 0) / (j + 1)))[::-1]
    return float(np.sum(np.diff(at_most) * ordered))


def rates_table(setting: Setting, given: Rates, rounds: float) -> dict[str, dict[str, Any]]:
    """The theory's rates for T rounds, and those given: the bound there, and the rounds each needs to the goal.

    The infimum has no rates; a bound is None where the theorem does not hold, rounds where they never suffice.
    """
    constants, strategy, goal = setting.constants, setting.strategy, setting.goal
    at: dict[str, Any] = {"local_steps": setting.local_steps}
    least = least_bound(constants, strategy, rounds=rounds, **at)
    corollary = corollary_rates(constants.smoothness, rounds=rounds, cohort=strategy.cohort, **at)
    recommended = typeable(near_best(constants, strategy, rounds=rounds, **at))
    plain = best_at(1.0, constants, strategy, rounds=rounds, **at)
    needed = {
        "recommended": rounds_near_best(constants, strategy, goal, **at),
        "server rate 1": rounds_at(1.0, constants, strategy, goal, **at),
        "corollary": rounds_by_corollary(constants, strategy, goal, **at),
        "given": rounds_with(given, constants, strategy, goal, **at),
    }
    rates = {"recommended": recommended, "server rate 1": plain, "corollary": corollary, "given": given}
    rows = {name: _row(setting, each, rounds, needed[name]) for name, each in rates.items()}
    rows["corollary"]["least_rounds"] = float(least_rounds(strategy, **at).whole)
    infimum = {
        "worker_lr": None,
        "server_lr": None,
        "step": float(least.step),
        "bound": float(least.bound),
        "holds": True,
        "rounds_to_goal": whole(rounds_near_best(constants, strategy, goal, slack=0.0, **at)),
    }
    return {"recommended": rows.pop("recommended"), "infimum": infimum, **rows}


def _row(setting: Setting, rates: Rates, rounds: float, needed: Any) -> dict[str, Any]:
    found = bound(setting.constants, rates, setting.strategy, local_steps=setting.local_steps, rounds=rounds)
    holds = bool(found.conditions.hold)
    return {
        "worker_lr": float(rates.worker_lr),
        "server_lr": float(rates.server_lr),
        "step": float(found.conditions.step.value),
        "bound": float(found.bound) if holds else None,
        "holds": holds,
        "rounds_to_goal": whole(needed),
    }


def typeable(rates: Rates) -> Rates:
    """In few digits, never more than they were: a smaller worker rate costs nothing, and no condition is broken."""
    worker_lr = _down(float(rates.worker_lr), 4)
    return Rates(worker_lr, _down(float(rates.server_lr * rates.worker_lr / worker_lr), 6))


def conditions_of(setting: Setting, rates: Rates) -> dict[str, Any]:
    """Whether rates keep the conditions, each with its margin, and the largest rates that do."""
    strategy, steps = setting.strategy, setting.local_steps
    smoothness = setting.constants.smoothness
    found = bound(setting.constants, rates, strategy, local_steps=steps, rounds=1.0).conditions
    return {
        "conditions": [
            {
                "name": CONDITIONS[name],
                "value": float(each.value),
                "limit": finite(each.limit),
                "margin": finite(each.margin),
                "holds": bool(each.holds),
            }
            for name, each in found._asdict().items()
        ],
        "hold": bool(found.hold),
        "most_worker_lr": finite(largest_worker_lr(smoothness, rates.server_lr, strategy, local_steps=steps)),
        "most_server_lr": finite(largest_server_lr(smoothness, rates.worker_lr, strategy, local_steps=steps)),
    }


def parts_of(setting: Setting, rates: Rates, rounds: float) -> dict[str, float]:
    """The bound term by term; they add up to it."""
    found = bound(setting.constants, rates, setting.strategy, local_steps=setting.local_steps, rounds=rounds)
    return {"vanishing": float(found.vanishing)} | {
        name: float(part) for name, part in found.parts._asdict().items()
    }


def around(value: float, most: float = math.inf) -> list[int]:
    """1, 2, 5, 10, ... near a value, 1 and the value itself, up to `most`; the axis of a map."""
    low, high = value / AROUND, min(value * AROUND, most)
    steps = [base * 10**power for power in range(10) for base in (1, 2, 5)]
    ends = [int(most)] if most <= 2 * high else []
    return sorted({1, round(value), *ends, *(each for each in steps if low <= each <= high)})


def whole(rounds: Any) -> int | None:
    """Rounds as a whole number, at least 1; None where there are none that suffice."""
    return max(1, math.ceil(rounds * (1 - 1e-12))) if math.isfinite(rounds) else None


def finite(value: Any) -> float | None:
    """A number; None where it is infinite."""
    return float(value) if math.isfinite(value) else None


def _down(value: float, digits: int) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return float(f"{math.floor(value / unit) * unit:.{digits}g}")
