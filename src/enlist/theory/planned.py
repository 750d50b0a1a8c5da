"""A plan: the constants of a task measured, and what the theorems make of them. The command and Python share it."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from enlist.cost import exchange_seconds, setup_seconds
from enlist.engine import timing
from enlist.engine.fit import check
from enlist.engine.task import Task
from enlist.errors import BadInput, unknown
from enlist.options.plan import EstimateOptions, GoalOptions, counts
from enlist.theory.conditions import Rates
from enlist.theory.constants import Estimated, estimate
from enlist.theory.plan import SAMPLINGS, Price, Setting, around
from enlist.theory.plan_facts import Map, Measured, facts_of

# The goal, as a part of the first ||grad f||^2, where none is given.
PART = 0.1


class Answer(NamedTuple):
    """What is planned, with the constants as they were measured; and what plan.json is to hold."""

    setting: Setting
    facts: dict[str, Any]


def planned(
    task: Task,
    dataset: str,
    wanted: GoalOptions,
    effort: EstimateOptions,
    *,
    timed: bool,
    say: Callable[[str], None] | None = None,
) -> Answer:
    """Measures the constants of a task of plain fedavg, and answers by theory.

    Args:
        task: its rounds are those that the rates are for, 0 for as many as the goal needs.
        dataset: its name, as it was typed.
        timed: whether a worker's computing is to be measured; otherwise it is what the settings say.
        say: is told about each point at which the constants are measured.
    """
    m = task.federation.workers
    n = task.sampling.cohort or m
    cohorts = _cohorts(wanted, task.sampling.name, n, m)
    measured = _measured(task, effort, timed, say)
    goal = PART * measured.estimated.points[0].grad_norm_sq if wanted.goal is None else float(wanted.goal)
    steps = float(measured.steps.mean())
    setting = Setting(measured.estimated.constants, m, n, steps, task.sampling.name, goal)
    axes = Map(cohorts, counts("steps", wanted.steps) or around(steps))
    rates = task.algorithm.rates
    given = Rates(float(rates["worker_lr"]), float(rates["server_lr"]))  # type: ignore[arg-type]
    return Answer(setting, facts_of(task, dataset, measured, setting, _price(task, measured), given, axes))


def check_sampling(name: str) -> None:
    """The theorems are about cohorts of one size, drawn uniformly."""
    if name == "at-least" or name.startswith("recorded"):
        raise BadInput(
            f"sampling = {name[:60]}: a plan is for {', '.join(SAMPLINGS)}; where cohorts vary in size, plan for "
            "the smallest, without-replacement"
        )
    if name not in SAMPLINGS:
        raise unknown("sampling", name, SAMPLINGS)


def _cohorts(wanted: GoalOptions, sampling: str, n: int, m: int) -> list[int]:
    """The cohort sizes of the map."""
    given = counts("cohorts", wanted.cohorts)
    for name, each in [("cohort", n)] + [("cohorts", each) for each in given]:
        if each > m and sampling != "with-replacement":
            raise BadInput(f"{name} = {each}: there are {m} workers; choose 1 to {m}")
    if sampling == "full" and given not in ([], [m]):
        raise BadInput(
            f"cohorts = {wanted.cohorts}: with --sampling full all {m} workers take part; leave --cohorts out, or "
            "take --sampling without-replacement"
        )
    return given or ([m] if sampling == "full" else around(n, m))


def _measured(
    task: Task, effort: EstimateOptions, timed: bool, say: Callable[[str], None] | None
) -> Measured:
    """The constants of the problem, and how long its workers compute."""
    check(task)
    estimated = estimate(
        task,
        points=effort.points,
        rounds=effort.estimate_rounds,
        workers=effort.estimate_workers,
        rows=effort.estimate_rows,
        iterations=effort.iterations,
        seed=task.settings.seed,
        say=say,
    )
    _check_estimated(estimated)
    seconds = timing.worker_seconds([task])[0] if timed else task.settings.worker_seconds
    steps = np.asarray(task.work.count(task.federation.sizes.astype(np.int64), 0), np.float64)
    return Measured(estimated, steps, float(f"{seconds:.4g}"), timed)


def _price(task: Task, measured: Measured) -> Price:
    """What a round costs; a worker with more rows than others may make more steps."""
    cost, average = check(task), measured.steps.mean()
    a_step = measured.seconds / average * task.links.slowness
    return Price(
        cost,
        exchange_seconds(cost, task.links),
        a_step * measured.steps / average,
        setup_seconds(cost, task.links),
    )


def _check_estimated(estimated: Estimated) -> None:
    constants = estimated.constants
    if not all(map(math.isfinite, constants)):
        raise BadInput("plan: a constant of this problem is not finite; look at the data for extreme values")
    if constants.smoothness <= 0:
        raise BadInput(
            "plan: the loss is not curved at any model looked at, so no rate is too large; use enlist tune"
        )
    if constants.gap <= 0:
        raise BadInput(
            "plan: the short run did not lower the loss, so it is not known how far there is to go; lower "
            "--worker-lr or raise --estimate-rounds"
        )
    if estimated.points[0].grad_norm_sq == 0:
        raise BadInput("plan: the gradient at the initial model is 0: there is nothing to plan for")
