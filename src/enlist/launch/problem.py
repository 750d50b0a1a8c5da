"""Names of data, partitions, cohorts and models become the things themselves here."""

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from enlist import links, own_file
from enlist.algorithms.work import LocalWork, Steps
from enlist.errors import BadInput, unknown
from enlist.launch.methods import amount
from enlist.options import HASHES, MethodOptions, ParticipationOptions, ProblemOptions
from enlist.participation import recorded, sampling
from enlist.participation.sampling import Sampling
from enlist.problem import adapters, augment, datasets, mapped, partition
from enlist.problem.dataset import Dataset
from enlist.problem.federation import Federation
from enlist.problem.models import Model

DEFAULT_WORKERS = 100
DEFAULT_COHORT = 10
DEFAULT_BATCH = MethodOptions.batch
# Row numbers that a worker may draw for one round, all held in memory at once: 1 GiB of them.
MOST_DRAWS = 2**28
Load = Callable[..., Dataset]
AUGMENTS = {"none": None, "crop": augment.crop, "flip": augment.flip, "crop-flip": augment.crop_flip}


def deal(options: ProblemOptions, seed: int, load: Load = datasets.load) -> tuple[ProblemOptions, Federation]:
    """The federation, and the options with what was left to us filled in."""
    how = None if options.partition is None else partition.parse(options.partition)
    workers = DEFAULT_WORKERS if options.workers is None else options.workers
    data = load(options.dataset, workers=workers, seed=seed)
    if how is None:
        how = partition.parse(natural_partition(data, workers))
    federation = _shared(options, data, lambda rows: how(rows, workers, seed), seed)
    if options.workers not in (None, federation.workers):
        raise BadInput(
            f"workers = {options.workers}: {options.dataset} names {federation.workers} holders, and by-key "
            "takes these; leave --workers out, or choose another --partition"
        )
    return replace(options, partition=federation.partition, workers=federation.workers), federation


def _shared(
    options: ProblemOptions, data: Dataset, how: Callable[[Dataset], Federation], seed: int
) -> Federation:
    """The rows dealt, with some of them given to all workers where that is asked for."""
    if not options.share_data:
        return how(data)
    return partition.share(data, options.share_data, how, options.share_portion, seed)


def natural_partition(data: Dataset, workers: int) -> str:
    """By holder where the data names holders; the paper's two classes a worker where there are ten; else even.

    Where so many workers cannot share ten classes evenly, each takes two shards of the sorted rows instead.
    """
    if data.worker is not None:
        return "by-key"
    if data.classes != 10:
        return "iid"
    return "digits:2" if 2 * workers % 10 == 0 else "shards:2"


def cohort(options: ParticipationOptions, workers: int) -> tuple[ParticipationOptions, Sampling]:
    """Who takes part, and the options with what was left to us filled in."""
    asked = options.cohort or min(DEFAULT_COHORT, workers)
    strategy = sampling.parse(options.sampling, asked, options.cohort_most)
    is_record = recorded.file_of(options.sampling) is not None
    size = strategy.places(workers) if is_record or options.sampling == "full" else asked
    if options.cohort not in (None, size):
        why = "it is recorded who takes part" if is_record else f"all {workers} workers take part"
        raise BadInput(
            f"cohort = {options.cohort}: with --sampling {options.sampling} {why}; leave --cohort out"
        )
    return replace(options, cohort=size), strategy


def model(options: ProblemOptions, classes: int | None) -> Model:
    """The model by its name, or of a person's own file, and how its training images are varied."""
    check_augment(options)
    try:
        made = adapters.from_spec(options.model, classes)
    except SystemExit as stop:
        raise BadInput(
            f"model {options.model}: the file ended the program (sys.exit({stop.code!r}))"
        ) from stop
    return made if options.augment is None else made._replace(augment=AUGMENTS[options.augment])


def check_augment(options: ProblemOptions) -> None:
    """Spelling alone."""
    if options.augment is not None and options.augment not in AUGMENTS:
        raise unknown("augment", options.augment, [*AUGMENTS])


def check_work(work: LocalWork, federation: Federation) -> None:
    rows = len(federation.data.x_train)
    if work.batch > max(rows, DEFAULT_BATCH):
        raise BadInput(
            f"batch = {work.batch}: {federation.name} has {rows} training rows; choose 1 to {rows}, or 0 for "
            "all rows of a worker"
        )
    one = work.batch if isinstance(work, Steps) else int(federation.sizes.max()) * (work.batch > 0)
    ((name, first),) = amount(work).items()
    most = max([first, *(each for _, each in work.later)])
    if one * most > MOST_DRAWS:
        raise BadInput(f"{name.replace('_', '-')} = {most}: choose 1 to {MOST_DRAWS // one}")


def file_hashes(
    problem: ProblemOptions,
    strategy: str,
    profile: str | None,
    algorithms: dict[str, Any],
    before: dict[str, Any],
) -> dict[str, Any]:
    """Of the files that the options name. A file that is not what it was `before` makes another run.

    Args:
        strategy: who takes part, as the option says it.
        algorithms: the option that names an algorithm, or several: its name and its words.
        before: the hashes as they were.
    """
    ((option, words),) = algorithms.items()
    own = [own_file.digest(each.strip(), "algorithm") for each in words.split(",")]
    found: dict[str, Any] = {}
    if any(own):
        together = "".join(each for each in own if each)
        found[f"{option}_sha256"] = own[0] if len(own) == 1 else hashlib.sha256(together.encode()).hexdigest()
    if problem.dataset.lower().endswith(".npz"):
        # A file that cannot be read is explained by whoever reads it next.
        with contextlib.suppress(OSError, ValueError), Path(problem.dataset).open("rb") as file:
            found["dataset_sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    elif (folder := Path(problem.dataset)).is_dir() and (content := mapped.digest(folder)) is not None:
        found["dataset_sha256"] = content
    if (model_file := adapters.spec_hash(problem.model)) is not None:
        found["model_sha256"] = model_file
    if (table := links.file_digest(profile)) is not None:
        found["profile_sha256"] = table
    if (record := recorded.file_digest(strategy)) is not None:
        found["sampling_sha256"] = record
    named = vars(problem) | {"sampling": strategy, "profile": profile} | algorithms
    for name in before.keys() & found.keys():
        if found[name] != before[name]:
            raise BadInput(
                f"{named[HASHES[name]]} is not the file it was when this configuration was written "
                f"(its {name} differs); to use it as it is now, remove {name} from the configuration"
            )
    return found
