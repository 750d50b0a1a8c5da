"""From options to a run: names become data, models and algorithms here."""

import hashlib
import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import optax

from enlist.algorithms.core import Algorithm
from enlist.algorithms.fedavg import Optimizer, fedavg
from enlist.algorithms.work import Epochs, LocalWork, Steps
from enlist.engine import progress
from enlist.engine.run import Run
from enlist.engine.simulate import simulate
from enlist.engine.tracking import require_tensorboard
from enlist.errors import BadInput, unknown
from enlist.options import AlgorithmOptions, OutputOptions, ProblemOptions, RunOptions, flatten
from enlist.participation import sampling
from enlist.problem import adapters, datasets, partition
from enlist.problem.dataset import Dataset
from enlist.problem.federation import Federation

ALGORITHMS = ("fedavg",)
DEFAULT_EPOCHS = 5
# Written into config.yaml beside the options: a file that has changed since is not the same run.
HASHES = ("dataset_sha256", "model_sha256")


def launch(options: RunOptions, out: Path, *, live: bool, hashes: dict[str, str] | None = None) -> Run:
    """Carries out `enlist run`. Everything is checked before the folder `out` is made or touched."""
    if options.output.tensorboard:
        require_tensorboard()
    strategy = sampling.parse(
        options.participation.sampling, options.participation.cohort, options.participation.cohort_most
    )
    work = local_work(options.method)
    method = algorithm(options.method)
    found = _hashes(options.problem)
    for name, value in (hashes or {}).items():
        if found.get(name) != value:
            what = options.problem.dataset if name.startswith("dataset") else options.problem.model
            raise BadInput(
                f"{what} is not the file it was when this configuration was written (its {name} differs)"
            )
    problem, federation = deal(options.problem, options.settings.seed)
    model = adapters.from_spec(problem.model, federation.classes)
    method_options = replace(options.method, **_amount(work))
    complete = flatten(replace(options, problem=problem, method=method_options))
    config = {
        name: value for name, value in complete.items() if name not in OutputOptions.__dataclass_fields__
    }
    return simulate(
        method,
        model,
        federation,
        cohort=strategy,
        local=work,
        out=out,
        resume=options.output.resume is not None,
        config=config | found,
        display=progress.live if live else progress.silent,
        tensorboard=options.output.tensorboard,
        **flatten(options.settings),
    )


def deal(options: ProblemOptions, seed: int) -> tuple[ProblemOptions, Federation]:
    """The federation, and the options with what was left to us filled in."""
    how = None if options.partition is None else partition.parse(options.partition)
    data = datasets.load(options.dataset, workers=options.workers, seed=seed)
    if how is None:
        how = partition.parse(natural_partition(data))
    federation = how(data, options.workers, seed)
    return replace(options, partition=federation.partition, workers=federation.workers), federation


def natural_partition(data: Dataset) -> str:
    """By holder where the data names holders; the paper's two classes a worker where there are ten; else even."""
    if data.worker is not None:
        return "by-key"
    return "digits:2" if data.classes == 10 else "iid"


def algorithm(options: AlgorithmOptions) -> Algorithm:
    """The algorithm by its name."""
    if options.algorithm not in ALGORITHMS:
        raise unknown("algorithm", options.algorithm, ALGORITHMS)
    return fedavg(
        worker_lr=options.worker_lr,
        server_lr=options.server_lr,
        worker=optimizer("worker-optimizer", options.worker_optimizer),
        server=optimizer("server-optimizer", options.server_optimizer),
        weighting=options.weighting,
    )


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


def _amount(work: LocalWork) -> dict[str, Any]:
    return {"local_steps": work.steps} if isinstance(work, Steps) else {"local_epochs": work.epochs}


def _hashes(options: ProblemOptions) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if options.dataset.endswith(".npz") and Path(options.dataset).is_file():
        found["dataset_sha256"] = hashlib.sha256(Path(options.dataset).read_bytes()).hexdigest()
    if (model := adapters.spec_hash(options.model)) is not None:
        found["model_sha256"] = model
    return found
