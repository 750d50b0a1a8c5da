"""What to change, in words, and why: what the rounds to the goal answer to, what other n and K would cost."""

import math
from collections.abc import Callable

from enlist.theory.plan import Price, Setting, predict
from enlist.theory.rates import SLACK

# Rounds that fall to no less than this part of what they were are hardly fewer.
HARDLY = 0.9
WORST_CASE = (
    "These are worst-case numbers: they hold for every problem with such constants, and most are far easier. Rates "
    "several times larger often work and need a small part of the rounds; enlist tune finds them by trying."
)


def answers(setting: Setting) -> dict[str, float]:
    """By how many percent the rounds to the goal grow with each percent of noise, of sampling, and of the rest.

    With X = sigma_L^2 / (nK) + 3q (goal + sigma_G^2) and the step s, T = 2 gap L / (s (goal - s X)). The best s is
    goal / (2X), and then T grows as X does; where the limit on s comes first it grows as sX / (goal - sX) of that,
    and the rest is the way to go at that step. The three add up to 1.
    """
    strategy, constants, goal = setting.strategy, setting.constants, setting.goal / (1 + SLACK)
    noise = float(constants.sigma_local**2 / (strategy.cohort * setting.local_steps))
    drawn = float(3 * strategy.q * (goal + constants.sigma_global**2))
    if not noise + drawn:
        return {"noise": 0.0, "sampling": 0.0, "way": 1.0}
    most = 1 / (1 - float(strategy.q)) if strategy.q < 1 else math.inf
    lost = min(most * (noise + drawn), goal / 2)
    by_chance = lost / (goal - lost)
    share = noise / (noise + drawn)
    return {"noise": by_chance * share, "sampling": by_chance * (1 - share), "way": 1 - by_chance}


def advice(setting: Setting, price: Price) -> list[str]:
    """Sentences: what the rounds are due to; what more workers, other local steps and larger batches would do."""
    n, m, steps = setting.cohort, setting.workers, max(1, round(setting.local_steps))
    due = answers(setting)
    told = [_due(due, setting)]
    told.append(_workers(n, m, _factors(setting, price, (n, steps), (min(2 * n, m), steps))))
    if 2 * n < m:
        told += _everybody(m, _factors(setting, price, (n, steps), (m, steps)))
    more = _factors(setting, price, (n, steps), (n, 2 * steps))
    fewer = _factors(setting, price, (n, steps), (n, max(1, steps // 2)))
    told += _local_steps(due, steps, more, fewer)
    if due["noise"] > 0.25:
        told.append(
            f"A larger --batch helps as much as more local steps: noise is {due['noise']:.0%} of the matter, and "
            "twice the batch has half of sigma_L^2."
        )
    return [*told, WORST_CASE]


def _factors(
    setting: Setting, price: Price, here: tuple[int, int], there: tuple[int, int]
) -> Callable[[str], float]:
    """How many times as much there as here, by what is predicted."""
    before, after = (predict(setting, price, [n], [steps]) for n, steps in (here, there))

    def factor(name: str) -> float:
        was = float(getattr(before, name)[0, 0])
        return float(getattr(after, name)[0, 0]) / was if was else 1.0

    return factor


def _due(due: dict[str, float], setting: Setting) -> str:
    words = {
        "noise": "to the noise of batches, sigma_L^2 / (nK)",
        "sampling": "to cohorts that are not all workers, 3q (goal + sigma_G^2)",
        "way": "to the way itself, f(x_0) - f* at the largest step that the smoothness allows",
    }
    order = sorted(due, key=lambda name: -due[name])
    said = [f"{due[name]:.0%} {words[name]}" for name in order if due[name] >= 0.005]
    return f"The rounds to {setting.goal:.4g} are due {'; '.join(said)}."


def _everybody(m: int, factor: Callable[[str], float]) -> list[str]:
    if factor("total_mib") >= 1:
        return []
    return [
        f"All {m} workers in every round would take {factor('rounds'):.2g} times the rounds, {factor('seconds'):.2g} "
        f"times the seconds and, all together, {factor('total_mib'):.2g} times the traffic, if they can all be had."
    ]


def _workers(n: int, m: int, factor: Callable[[str], float]) -> str:
    if n >= m:
        return "All workers take part already: nothing is lost by sampling."
    more = min(2 * n, m)
    rounds = factor("rounds")
    if rounds > HARDLY:
        return f"More workers a round hardly help: n = {more} takes {rounds:.2f} times the rounds of n = {n}."
    return (
        f"Raise n: {more} workers a round instead of {n} take {rounds:.2f} times the rounds and "
        f"{factor('seconds'):.2f} times the seconds; all workers together send {factor('total_mib'):.2f} times "
        "as much."
    )


def _local_steps(
    due: dict[str, float], steps: int, more: Callable[[str], float], fewer: Callable[[str], float]
) -> list[str]:
    rounds, seconds = more("rounds"), more("seconds")
    if rounds <= HARDLY:
        longer = "" if seconds < 1 else ", because a round takes longer"
        return [
            f"More local steps save rounds: K = {2 * steps} instead of {steps} takes {rounds:.2f} times the rounds "
            f"and {seconds:.2f} times the seconds{longer}. Lower the worker rate by K: eta_L ~ 1/K."
        ]
    reason = (
        "the sampling of cohorts dominates, and K does not change it"
        if due["sampling"] >= due["way"]
        else "neither noise nor sampling dominates but the step, which is at its limit whatever K is"
    )
    told = [
        f"More local steps do not help: K = {2 * steps} takes {rounds:.2f} times the rounds, because {reason}."
    ]
    if steps > 1 and fewer("seconds") < 1:
        told.append(
            f"Fewer local steps are cheaper: K = {steps // 2} takes {fewer('rounds'):.2f} times the rounds and "
            f"{fewer('seconds'):.2f} times the seconds, at a larger worker rate (eta_L ~ 1/K)."
        )
    return told
