"""`enlist plan`: from options to the constants of a problem, to what the theory says about it."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from enlist.cost import exchange_seconds, setup_seconds
from enlist.engine import platform, timing
from enlist.engine.fit import check
from enlist.engine.folder import write_config
from enlist.engine.session import links_of
from enlist.engine.task import Task
from enlist.errors import BadInput, unknown
from enlist.launch import methods
from enlist.launch.joining import refuse_several
from enlist.launch.plan_facts import Map, Measured, facts_of
from enlist.launch.problem import check_work, cohort, deal, file_hashes, model
from enlist.launch.run import check_folder, check_names, complete_config, memory_explained
from enlist.limits import MOST
from enlist.options import RunOptions
from enlist.plan_options import EstimateOptions, PlanOptions, counts
from enlist.theory.conditions import Rates
from enlist.theory.constants import Estimated, estimate
from enlist.theory.plan import SAMPLINGS, Price, Setting, around

CONFIG_FILE = "config.yaml"
# The goal, as a part of the first ||grad f||^2, where none is given.
PART = 0.1
# What would make a round another than that of the theorems; None and these are it.
PLAIN = {
    "worker_decay": (),
    "worker_optimizer": ("sgd",),
    "server_optimizer": ("sgd",),
    "weighting": ("uniform",),
    "compress": ("none",),
    "compress_down": ("none",),
    "local_schedule": (),
}


def launch_plan(
    options: PlanOptions,
    out: Path,
    *,
    measure: bool,
    hashes: dict[str, Any] | None = None,
    say: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Carries out `enlist plan`: leaves a config.yaml in `out` and returns what plan.json is to hold.

    Args:
        measure: whether a worker's computing is to be measured; otherwise it is what the settings say.
        hashes: of the files that the options name, where these must still be what they were.
        say: is told about each point at which the constants are measured.
    """
    refuse_several("plan")
    platform.prepare(options.settings.deterministic)
    _check(options)
    check_names(options.problem, options.participation, options.settings)
    algorithm, work = methods.algorithm(options.rule, options.method), methods.local_work(options.method)
    if out.is_dir() and any(out.iterdir()):
        raise BadInput(f"out = {out}: that folder is not empty; name a new one")
    check_folder(out)
    named = {"algorithm": options.rule.algorithm}
    found = file_hashes(
        options.problem, options.participation.sampling, options.settings.profile, named, hashes or {}
    )
    problem, federation = deal(options.problem, options.settings.seed)
    participation, strategy = cohort(options.participation, federation.workers)
    n = participation.cohort or federation.workers
    cohorts = _cohorts(options, n, federation.workers)
    check_work(work, federation)
    between = links_of(options.settings, federation.workers)
    with memory_explained():
        own = model(problem.model, federation)
        task = Task(algorithm, own, federation, strategy, work, options.settings, between)
        measured = _measured(task, options.estimate, measure, say)
    constants, goal = measured.estimated.constants, options.plan.goal
    setting = Setting(
        constants,
        federation.workers,
        n,
        float(measured.steps.mean()),
        options.participation.sampling,
        PART * measured.estimated.points[0].grad_norm_sq if goal is None else goal,
    )
    given = Rates(options.rule.worker_lr, 1.0 if options.rule.server_lr is None else options.rule.server_lr)
    axes = Map(cohorts, counts("steps", options.plan.steps) or around(setting.local_steps))
    facts = facts_of(task, problem.dataset, measured, setting, _price(task, measured), given, axes)
    out.mkdir(parents=True, exist_ok=True)
    filled = RunOptions(problem, participation, options.rule, options.method, options.settings)
    write_config(out / CONFIG_FILE, _config(filled, facts) | found)
    return facts


def _measured(task: Task, asked: EstimateOptions, timed: bool, say: Callable[[str], None] | None) -> Measured:
    """The constants of the problem, and how long its workers compute."""
    check(task)
    estimated = estimate(
        task,
        points=asked.points,
        rounds=asked.estimate_rounds,
        workers=asked.estimate_workers,
        rows=asked.estimate_rows,
        iterations=asked.iterations,
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


def _check(options: PlanOptions) -> None:
    """The theorems are about generalized FedAvg with plain local steps."""
    if options.rule.algorithm != "fedavg":
        methods.maker(options.rule.algorithm)
        raise BadInput(
            f"algorithm = {options.rule.algorithm}: the theorems are about fedavg alone; leave --algorithm out, or "
            "use enlist tune, which tries rates for any algorithm"
        )
    for name, plain in PLAIN.items():
        value = getattr(options.method, name)
        if value is not None and value not in plain:
            raise BadInput(
                f"{name.replace('_', '-')} = {value}: the theorems know fedavg with fixed rates and local steps, "
                "plain sgd, equal weights and whole messages; leave it out"
            )
    sampling = options.participation.sampling
    if sampling == "at-least" or sampling.startswith("recorded:"):
        raise BadInput(
            f"sampling = {sampling[:60]}: a plan is for {', '.join(SAMPLINGS)}; where cohorts vary in size, plan for "
            "the smallest, without-replacement"
        )
    if sampling not in SAMPLINGS:
        raise unknown("sampling", sampling, SAMPLINGS)


def _cohorts(options: PlanOptions, n: int, m: int) -> list[int]:
    """The cohort sizes of the map."""
    given, full = counts("cohorts", options.plan.cohorts), options.participation.sampling == "full"
    for name, each in [("cohort", n)] + [("cohorts", each) for each in given]:
        if each > m:
            raise BadInput(f"{name} = {each}: there are {m} workers; choose 1 to {m}")
    if full and given not in ([], [m]):
        raise BadInput(
            f"cohorts = {options.plan.cohorts}: with --sampling full all {m} workers take part; leave --cohorts out, "
            "or take --sampling without-replacement"
        )
    return given or ([m] if full else around(n, m))


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


def _config(options: RunOptions, facts: dict[str, Any]) -> dict[str, Any]:
    """What `enlist run --config` takes: the recommended rates, and the rounds that they are for."""
    best = facts["rates"]["recommended"]
    rule = replace(options.rule, worker_lr=best["worker_lr"], server_lr=best["server_lr"])
    rounds = min(facts["rounds"], MOST)
    settings = replace(
        options.settings,
        rounds=rounds,
        # A thousand looks at the model are enough for any curve.
        eval_every=max(options.settings.eval_every, math.ceil(rounds / 1000)),
        grad_norm=True,
        worker_seconds=facts["worker_seconds"]["value"],
    )
    return complete_config(replace(options, rule=rule, settings=settings))
