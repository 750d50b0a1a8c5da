"""`enlist run`: from options to a run."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from enlist import links
from enlist.engine import execution, hosts, platform, progress
from enlist.engine.folder import refuse_if_used
from enlist.engine.rows import PLACEMENTS
from enlist.engine.run import Run
from enlist.engine.session import links_of
from enlist.engine.simulate import conclude
from enlist.engine.task import Task
from enlist.engine.tracking import require_tensorboard
from enlist.engine.undertaking import undertake
from enlist.errors import BadInput, EnlistError, unknown
from enlist.launch import joining, methods
from enlist.launch.problem import DEFAULT_COHORT, check_augment, check_work, cohort, deal, file_hashes, model
from enlist.options import (
    HostOptions,
    OutputOptions,
    ParticipationOptions,
    ProblemOptions,
    RunOptions,
    Settings,
    flatten,
)
from enlist.participation import sampling
from enlist.problem import adapters
from enlist.problem.objective import PRECISIONS


def launch(options: RunOptions, out: Path, *, live: bool, hashes: dict[str, Any] | None = None) -> Run:
    """Carries out `enlist run`. Everything is checked before the folder `out` is made or touched.

    Args:
        options: what was asked for.
        out: the folder of the run.
        live: whether to draw progress.
        hashes: of the files that the options name, where these must still be what they were.
    """
    # First of all: a model's file may start jax, and then it is too late to choose devices.
    platform.prepare(options.settings.deterministic)
    joining.join(joining.meeting(options.machines.hosts, options.machines.host_id))
    if options.output.tensorboard:
        require_tensorboard()
    check_names(options.problem, options.participation, options.settings)
    algorithm = methods.algorithm(options.rule, options.method)
    work = methods.local_work(options.method)
    if options.output.resume is None:
        hosts.from_lead(partial(check_folder, out))
    named = {"algorithm": options.rule.algorithm}
    found = file_hashes(
        options.problem, options.participation.sampling, options.settings.profile, named, hashes or {}
    )
    problem, federation = deal(options.problem, options.settings.seed)
    participation, strategy = cohort(options.participation, federation.workers)
    check_work(work, federation)
    between = links_of(options.settings, federation.workers)
    config = complete_config(replace(options, problem=problem, participation=participation)) | found
    with memory_explained(), hosts.losses_explained(f"go on with: enlist run --resume {out}"):
        own = model(problem, federation.classes)
        task = Task(algorithm, own, federation, strategy, work, options.settings, between)
        run = undertake(task, out, resume=options.output.resume is not None, config=config)
        live = live and hosts.lead()
        return conclude(run, progress.live if live else progress.silent, options.output.tensorboard)


def complete_config(options: RunOptions) -> dict[str, Any]:
    """What makes the run, without where it is put; what was left to the method is filled in."""
    rule, method = methods.complete(options.rule, options.method)
    flat = flatten(replace(options, rule=rule, method=method))
    elsewhere = OutputOptions.__dataclass_fields__ | HostOptions.__dataclass_fields__
    return {name: value for name, value in flat.items() if name not in elsewhere}


def check_names(problem: ProblemOptions, who: ParticipationOptions, settings: Settings) -> None:
    """Spelling, before anything is loaded."""
    if settings.precision not in PRECISIONS:
        raise unknown("precision", settings.precision, PRECISIONS)
    execution.parse(settings.execution, places=1, devices=1)
    if settings.rows not in PLACEMENTS:
        raise unknown("rows", settings.rows, PLACEMENTS)
    links.parse(settings.profile)
    sampling.parse(who.sampling, who.cohort or DEFAULT_COHORT, who.cohort_most)
    check_augment(problem)
    if adapters.spec_hash(problem.model) is None:
        adapters.from_spec(problem.model)


def check_folder(out: Path) -> None:
    """Complains now where nothing could be written later."""
    try:
        parent = next(path for path in (out, *out.absolute().parents) if path.exists())
    except OSError as error:
        raise BadInput(f"out = {str(out)[:60]}: no folder can have that name ({error.strerror})") from error
    refuse_if_used(out)
    if not parent.is_dir():
        raise BadInput(f"out = {out}: {parent} is not a folder; name another place")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise BadInput(f"out = {out}: nothing may be written in {parent}; name another place")


@contextlib.contextmanager
def memory_explained() -> Iterator[None]:
    try:
        yield
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            raise EnlistError(
                "out of memory: try --execution chunk:N or one-by-one, a smaller --batch or fewer workers"
            ) from error
        raise
