"""From options to a run: names become data, models and algorithms here."""

import contextlib
import hashlib
import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import optax

from enlist.algorithms.core import Algorithm
from enlist.algorithms.fedavg import Optimizer, fedavg
from enlist.algorithms.fedopt import fedadagrad, fedadam, fedavgm, fedyogi
from enlist.algorithms.fedprox import fedprox
from enlist.algorithms.scaffold import scaffold
from enlist.algorithms.work import Epochs, LocalWork, Steps
from enlist.engine import execution, platform, progress
from enlist.engine.folder import refuse_if_used
from enlist.engine.run import Run
from enlist.engine.simulate import simulate
from enlist.engine.tracking import require_tensorboard
from enlist.errors import BadInput, EnlistError, unknown
from enlist.options import (
    HASHES,
    AlgorithmOptions,
    OutputOptions,
    ParticipationOptions,
    ProblemOptions,
    RunOptions,
    flatten,
)
from enlist.participation import sampling
from enlist.participation.sampling import Sampling
from enlist.problem import adapters, datasets, partition
from enlist.problem.dataset import Dataset
from enlist.problem.federation import Federation
from enlist.problem.models import Model
from enlist.problem.objective import PRECISIONS

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "fedavg": fedavg,
    "fedprox": fedprox,
    "scaffold": scaffold,
    "fedavgm": fedavgm,
    "fedadagrad": fedadagrad,
    "fedadam": fedadam,
    "fedyogi": fedyogi,
}
# Options that are handed to a method under the same name.
METHOD_OPTIONS = (
    "worker_lr",
    "server_lr",
    "weighting",
    "mu",
    "variates",
    "momentum",
    "beta1",
    "beta2",
    "tau",
)
DEFAULT_WORKERS = 100
DEFAULT_COHORT = 10
DEFAULT_EPOCHS = 5
DEFAULT_BATCH = AlgorithmOptions.batch
# Row numbers that a worker may draw for one round, all held in memory at once: 1 GiB of them.
MOST_DRAWS = 2**28


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
    _check_names(options)
    method, work = algorithm(options.method), local_work(options.method)
    if options.output.resume is None:
        _check_folder(out)
    found = _hashes(options.problem, hashes or {})
    problem, federation = deal(options.problem, options.settings.seed)
    participation, strategy = cohort(options.participation, federation.workers)
    _check_work(work, federation)
    filled = replace(
        options,
        problem=problem,
        participation=participation,
        method=replace(options.method, **_amount(work), **_defaults(options.method)),
    )
    with _memory_explained():
        return simulate(
            method,
            model(problem.model, federation),
            federation,
            cohort=strategy,
            local=work,
            out=out,
            resume=options.output.resume is not None,
            config=_config(filled) | found,
            display=progress.live if live else progress.silent,
            tensorboard=options.output.tensorboard,
            **flatten(options.settings),
        )


def deal(options: ProblemOptions, seed: int) -> tuple[ProblemOptions, Federation]:
    """The federation, and the options with what was left to us filled in."""
    how = None if options.partition is None else partition.parse(options.partition)
    workers = DEFAULT_WORKERS if options.workers is None else options.workers
    data = datasets.load(options.dataset, workers=workers, seed=seed)
    if how is None:
        how = partition.parse(natural_partition(data))
    federation = how(data, workers, seed)
    if options.workers not in (None, federation.workers):
        raise BadInput(
            f"workers = {options.workers}: {options.dataset} names {federation.workers} holders, and by-key "
            "takes these; leave --workers out, or choose another --partition"
        )
    return replace(options, partition=federation.partition, workers=federation.workers), federation


def natural_partition(data: Dataset) -> str:
    """By holder where the data names holders; the paper's two classes a worker where there are ten; else even."""
    if data.worker is not None:
        return "by-key"
    return "digits:2" if data.classes == 10 else "iid"


def cohort(options: ParticipationOptions, workers: int) -> tuple[ParticipationOptions, Sampling]:
    """Who takes part, and the options with what was left to us filled in."""
    everybody = options.sampling == "full"
    size = options.cohort or (workers if everybody else min(DEFAULT_COHORT, workers))
    if everybody and size != workers:
        raise BadInput(
            f"cohort = {size}: with --sampling full all {workers} workers take part; leave --cohort out"
        )
    return replace(options, cohort=size), sampling.parse(options.sampling, size, options.cohort_most)


def algorithm(options: AlgorithmOptions) -> Algorithm:
    """The algorithm by its name, with the options that are its own; others are refused."""
    if options.algorithm not in ALGORITHMS:
        raise unknown("algorithm", options.algorithm, ALGORITHMS)
    make = ALGORITHMS[options.algorithm]
    takes = inspect.signature(make).parameters
    given = {name: getattr(options, name) for name in METHOD_OPTIONS}
    given |= {"worker": options.worker_optimizer, "server": options.server_optimizer}
    for name, value in given.items():
        if value is not None and name not in takes:
            option = f"{name}-optimizer" if name in ("worker", "server") else name
            raise BadInput(f"{option} = {value}: {options.algorithm} has no such option; leave it out")
    arguments = {name: value for name, value in given.items() if value is not None}
    for side in arguments.keys() & {"worker", "server"}:
        arguments[side] = optimizer(f"{side}-optimizer", arguments[side])
    return make(**arguments)


def optimizer(option: str, name: str) -> Optimizer:
    """An optax constructor by its name: any that needs nothing but a learning rate."""
    known = {}
    for each, made in vars(optax).items():
        if inspect.isfunction(made) and (parameters := list(inspect.signature(made).parameters.values())):
            first, *rest = parameters
            needed = [p for p in rest if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
            if first.name == "learning_rate" and not needed:
                known[each] = made
    if name not in known:
        raise unknown(option, name, sorted(known))
    return known[name]


def local_work(options: AlgorithmOptions) -> LocalWork:
    """Epochs unless steps are asked for."""
    if options.local_steps is not None and options.local_epochs is not None:
        raise BadInput("local-steps and local-epochs are both given: choose one of them")
    if options.local_steps is not None:
        return Steps(options.local_steps, options.batch)
    return Epochs(DEFAULT_EPOCHS if options.local_epochs is None else options.local_epochs, options.batch)


def model(spec: str, federation: Federation) -> Model:
    """The model by its name, or of a person's own file."""
    try:
        return adapters.from_spec(spec, federation.classes)
    except SystemExit as stop:
        raise BadInput(f"model {spec}: the file ended the program (sys.exit({stop.code!r}))") from stop


def _check_names(options: RunOptions) -> None:
    """Spelling, before anything is loaded."""
    if options.output.tensorboard:
        require_tensorboard()
    if options.settings.precision not in PRECISIONS:
        raise unknown("precision", options.settings.precision, PRECISIONS)
    execution.parse(options.settings.execution, places=1, devices=1)
    who = options.participation
    sampling.parse(who.sampling, who.cohort or DEFAULT_COHORT, who.cohort_most)
    if adapters.spec_hash(options.problem.model) is None:
        adapters.from_spec(options.problem.model)


def _check_folder(out: Path) -> None:
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


def _check_work(work: LocalWork, federation: Federation) -> None:
    rows = len(federation.data.x_train)
    if work.batch > max(rows, DEFAULT_BATCH):
        raise BadInput(
            f"batch = {work.batch}: {federation.name} has {rows} training rows; choose 1 to {rows}, or 0 for "
            "all rows of a worker"
        )
    one = work.batch if isinstance(work, Steps) else int(federation.sizes.max()) * (work.batch > 0)
    ((name, amount),) = _amount(work).items()
    if one * amount > MOST_DRAWS:
        raise BadInput(f"{name.replace('_', '-')} = {amount}: choose 1 to {MOST_DRAWS // one}")


@contextlib.contextmanager
def _memory_explained() -> Iterator[None]:
    try:
        yield
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            raise EnlistError(
                "out of memory: try --execution chunk:N or one-by-one, a smaller --batch or fewer workers"
            ) from error
        raise


def _config(options: RunOptions) -> dict[str, Any]:
    """What makes the run, without where it is put."""
    output = OutputOptions.__dataclass_fields__
    return {name: value for name, value in flatten(options).items() if name not in output}


def _amount(work: LocalWork) -> dict[str, Any]:
    return {"local_steps": work.steps} if isinstance(work, Steps) else {"local_epochs": work.epochs}


def _defaults(options: AlgorithmOptions) -> dict[str, Any]:
    """What the method takes where nothing was given: a configuration that is complete repeats the run for good."""
    parameters = inspect.signature(ALGORITHMS[options.algorithm]).parameters
    unset = {name: parameters[name].default for name in METHOD_OPTIONS if name in parameters}
    sides = {f"{side}_optimizer": "sgd" for side in ("worker", "server") if side in parameters}
    return {name: value for name, value in (unset | sides).items() if getattr(options, name) is None}


def _hashes(options: ProblemOptions, before: dict[str, Any]) -> dict[str, Any]:
    """Of the files that the options name. A file that is not what it was `before` makes another run."""
    found: dict[str, Any] = {}
    if options.dataset.lower().endswith(".npz"):
        # A file that cannot be read is explained by whoever reads it next.
        with contextlib.suppress(OSError, ValueError), Path(options.dataset).open("rb") as file:
            found["dataset_sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    if (own := adapters.spec_hash(options.model)) is not None:
        found["model_sha256"] = own
    for name in before.keys() & found.keys():
        if found[name] != before[name]:
            raise BadInput(
                f"{getattr(options, HASHES[name])} is not the file it was when this configuration was written "
                f"(its {name} differs); to use it as it is now, remove {name} from the configuration"
            )
    return found
