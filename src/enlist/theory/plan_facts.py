"""What plan.json holds: all that the theory says about a problem, as plain numbers and sentences."""

from typing import Any, NamedTuple

import numpy as np

from enlist.algorithms.work import Epochs
from enlist.engine import platform
from enlist.engine.summary import versions
from enlist.engine.task import Task
from enlist.errors import BadInput
from enlist.limits import MOST
from enlist.theory.advice import advice, answers
from enlist.theory.conditions import Constants, Rates
from enlist.theory.constants import Estimated
from enlist.theory.noise import Value
from enlist.theory.plan import (
    Price,
    Setting,
    conditions_of,
    finite,
    parts_of,
    predict,
    rates_table,
    rounds_of,
    whole,
)
from enlist.theory.rates import SLACK, rounds_near_best

CONSTANTS = {
    "smoothness": "L, the largest curvature of any worker's loss",
    "sigma_local": "sigma_L, the noise of a local step's gradient (mean over workers)",
    "sigma_global": "sigma_G, how far workers' gradients are from that of all (mean over workers)",
}
# A short run that lowers the loss by less than this part of f(x_0) has hardly left x_0.
HARDLY = 0.05
# The upper end of L beyond so many times its lower: it was not found closely.
LOOSE = 1.25
# A bound at the rounds that were found for a goal is at most so many times that.
RESOLVED = 1.01


class Measured(NamedTuple):
    """What was found out about the problem.

    Args:
        estimated: its constants.
        steps: local steps of each worker.
        seconds: of computing of the average worker in a round.
        timed: whether those were measured.
    """

    estimated: Estimated
    steps: np.ndarray
    seconds: float
    timed: bool


class Map(NamedTuple):
    """The axes of the heat map."""

    cohorts: list[int]
    steps: list[int]


def facts_of(
    task: Task, dataset: str, measured: Measured, setting: Setting, price: Price, given: Rates, axes: Map
) -> dict[str, Any]:
    """The plan, ready for JSON.

    Args:
        task: what was measured; its rounds are those that the rates are for, 0 for as many as the goal needs.
        dataset: its name, as it was typed.
        given: the rates that were typed, or usual.
    """
    estimated = measured.estimated
    rounds = task.settings.rounds or int(rounds_of(setting, float(setting.cohort), setting.local_steps))
    rates = rates_table(setting, given, rounds)
    best = rates["recommended"]
    if not task.settings.rounds and not best["bound"] <= RESOLVED * setting.goal:
        raise BadInput(
            f"goal = {setting.goal:g}: too small for the rounds to it to be computed; choose a larger one"
        )
    grid = predict(setting, price, axes.cohorts, axes.steps)
    here = predict(setting, price, [setting.cohort], [setting.local_steps])
    checked = conditions_of(setting, given)
    return {
        "problem": _problem(task, setting, dataset),
        "goal": setting.goal,
        "rounds": rounds,
        "constants": _constants(estimated),
        "estimate": _estimate(estimated),
        "slack": SLACK,
        "rates": rates,
        "parts": parts_of(setting, Rates(best["worker_lr"], best["server_lr"]), rounds),
        "given": checked,
        "predicted": {name: float(value[0, 0]) for name, value in here._asdict().items()}
        | {"rounds_range": _range(setting, estimated)},
        "worker_seconds": {"value": measured.seconds, "measured": measured.timed},
        "map": {"cohort": axes.cohorts, "local_steps": axes.steps}
        | {name: value.tolist() for name, value in grid._asdict().items()},
        "due_to": answers(setting),
        "advice": [*_rate_advice(checked, given, setting), *advice(setting, price)],
        "warnings": _warnings(checked, measured, task, rounds) + _too_large(rates["given"], setting),
        "made_with": "; ".join(
            [platform.describe(), ", ".join(f"{name} {version}" for name, version in versions().items())]
        ),
    }


def _estimate(estimated: Estimated) -> dict[str, Any]:
    return estimated.cost._asdict() | {
        "workers": estimated.workers,
        "of_workers": estimated.of_workers,
        "points": [point.round for point in estimated.points],
        "diverged": estimated.diverged,
        "loss": [point.loss for point in estimated.points],
        "grad_norm_sq": [point.grad_norm_sq for point in estimated.points],
    }


def _constants(estimated: Estimated) -> dict[str, dict[str, Any]]:
    told: dict[str, dict[str, Any]] = {}
    for name, meaning in CONSTANTS.items():
        value, seen = estimated.peak(name)
        told[name] = _interval(value) | {"round": seen, "meaning": meaning}
    high = estimated.gap_bound
    told["gap"] = {
        "value": estimated.constants.gap,
        "low": estimated.gap_seen,
        "high": high,
        "lower_bound": high is None,
        "round": 0,
        "meaning": "f(x_0) - f*, at most f(x_0): the loss is never negative"
        if high is not None
        else "f(x_0) - f*, at least what the short run gained",
    }
    return told


def _interval(value: Value) -> dict[str, Any]:
    return {
        "value": value.value,
        "low": value.low,
        "high": finite(value.high),
        "lower_bound": value.lower_bound,
    }


def _range(setting: Setting, estimated: Estimated) -> list[int | None]:
    """Rounds at the low and at the high ends of all intervals; rounds grow with every constant."""
    told = _constants(estimated)
    ends: list[int | None] = []
    for end in ("low", "high"):
        values = [told[name][end] for name in Constants._fields]
        if None in values:
            ends.append(None)
            continue
        at = Constants(*values)
        ends.append(
            whole(rounds_near_best(at, setting.strategy, setting.goal, local_steps=setting.local_steps))
        )
    return ends


def _rate_advice(checked: dict[str, Any], given: Rates, setting: Setting) -> list[str]:
    if checked["hold"]:
        return []
    most = checked["most_worker_lr"]
    return [
        f"Lower the worker rate from {given.worker_lr:.4g} to {most:.4g} or less (at server rate "
        f"{given.server_lr:.4g} and K = {setting.local_steps:.4g}): with more local steps it has to fall as 1/K. "
        "Above it the theorems promise nothing, which does not mean that it fails."
    ]


def _warnings(checked: dict[str, Any], measured: Measured, task: Task, rounds: int) -> list[str]:
    estimated, steps, told = measured.estimated, measured.steps, []
    for each in checked["conditions"]:
        if not each["holds"]:
            told.append(
                f"the rates given break a condition: {each['name']} = {each['value']:.4g} is above "
                f"{each['limit']:.4g}"
            )
    if not checked["hold"]:
        worker, server = checked["most_worker_lr"], checked["most_server_lr"]
        either = f", or server-lr up to {server:.4g} at the worker-lr given" if server else ""
        told.append(f"allowed: worker-lr up to {worker:.4g} at the server-lr given{either}")
    told += _hardly_learned(estimated)
    found = estimated.peak("smoothness").value
    if not found.high <= LOOSE * found.low:
        told.append("L was not found closely, and may be larger than its interval says; raise --iterations")
    if estimated.workers < estimated.of_workers:
        told.append(
            f"L is the largest of the {estimated.workers} workers looked at, of {estimated.of_workers}: others may "
            "have more"
        )
    if steps.min() < steps.max():
        told.append(
            f"workers make {steps.min():.0f} to {steps.max():.0f} local steps; the theorems want one K, and the "
            "mean is taken"
        )
    if isinstance(task.work, Epochs) and task.work.batch:
        told.append("epochs go through shuffled rows; the theorems want independent batches (--local-steps)")
    if rounds > MOST:
        told.append(f"a run has at most {MOST} rounds: a configuration has that many")
    return told


def _hardly_learned(estimated: Estimated) -> list[str]:
    """Where the constants are not those of a run that learns: which option to change."""
    if estimated.diverged:
        return ["the short run diverged: the constants are those before that; lower --worker-lr"]
    first, last = estimated.points[0], estimated.points[-1]
    if last.round == 0:
        return [
            "the constants are those of the initial model alone, and L may be larger further on; give --points 2 or "
            "more and --estimate-rounds above 0"
        ]
    if estimated.gap_seen >= HARDLY * abs(first.loss):
        return []
    went = f"the loss went from {first.loss:.4g} to {last.loss:.4g} within the {last.round} rounds of the short run"
    if last.loss > first.loss:
        return [f"{went}: the constants are not those of a run that learns; lower --worker-lr"]
    return [
        f"{went}, so it hardly learned: the constants are those near the initial model, and L may be larger further "
        "on; raise --worker-lr or --estimate-rounds"
    ]


def _too_large(given: dict[str, Any], setting: Setting) -> list[str]:
    """Where the theorem holds but its Phi stays above the goal."""
    if not given["holds"] or given["rounds_to_goal"] is not None:
        return []
    return [
        f"at the rates given the bound never comes to {setting.goal:.4g}: what noise, drift and sampling leave of it "
        "is more than that; lower them"
    ]


def _problem(task: Task, setting: Setting, dataset: str) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "partition": task.federation.partition,
        "model": task.model.name,
        "workers": setting.workers,
        "cohort": setting.cohort,
        "sampling": setting.sampling,
        "local_steps": setting.local_steps,
        "batch": task.work.batch,
        "seed": task.settings.seed,
    }
