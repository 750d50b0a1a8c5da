"""`enlist plan`: from options to the constants of a problem, to what the theory says about it."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from enlist.engine import platform
from enlist.engine.folder import write_config
from enlist.engine.session import links_of
from enlist.engine.task import Task
from enlist.errors import BadInput
from enlist.launch import methods
from enlist.launch.joining import refuse_several
from enlist.launch.problem import check_work, cohort, deal, file_hashes, model
from enlist.launch.run import check_folder, check_names, complete_config, memory_explained
from enlist.limits import MOST
from enlist.options import RunOptions
from enlist.options.plan import PlanOptions
from enlist.report.plan.words import CONFIG_FILE
from enlist.studies.plan import refuse_used
from enlist.theory.planned import check_sampling, planned

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
    refuse_used(out)
    check_folder(out)
    named = {"algorithm": options.rule.algorithm}
    found = file_hashes(
        options.problem, options.participation.sampling, options.settings.profile, named, hashes or {}
    )
    problem, federation = deal(options.problem, options.settings.seed)
    participation, strategy = cohort(options.participation, federation.workers)
    check_work(work, federation)
    between = links_of(options.settings, federation.workers)
    with memory_explained():
        own = model(problem, federation.classes)
        task = Task(algorithm, own, federation, strategy, work, options.settings, between)
        facts = planned(
            task, problem.dataset, options.plan, options.estimate, timed=measure, say=say
        ).facts | {"config": CONFIG_FILE}
    out.mkdir(parents=True, exist_ok=True)
    filled = RunOptions(problem, participation, options.rule, options.method, options.settings)
    write_config(out / CONFIG_FILE, _config(filled, facts) | found)
    return facts


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
    check_sampling(options.participation.sampling)


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
