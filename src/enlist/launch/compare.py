"""`enlist compare`: from options to several methods run to one target."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from enlist import own_file
from enlist.algorithms.core import Algorithm
from enlist.engine import platform, progress
from enlist.engine.fit import check
from enlist.engine.folder import read_config, write_config
from enlist.engine.session import links_of
from enlist.engine.task import Task
from enlist.errors import BadInput
from enlist.launch import methods
from enlist.launch.joining import refuse_several
from enlist.launch.problem import check_work, cohort, deal, file_hashes, model
from enlist.launch.run import check_folder, check_names, complete_config, memory_explained
from enlist.limits import numbers
from enlist.options import AlgorithmOptions, MethodOptions, RunOptions, flatten
from enlist.options.study import CompareOptions, CompareOutput
from enlist.participation.sampling import Sampling
from enlist.problem import datasets
from enlist.problem.federation import Federation
from enlist.problem.models import Model, accuracy
from enlist.report.comparison.outcome import Comparison
from enlist.studies.contest import Candidate, Entrant, Plan, contest, short_run
from enlist.words import typed


class Typed(NamedTuple):
    """One method as typed, and the options of each of its candidates."""

    label: str
    candidates: list[tuple[AlgorithmOptions, MethodOptions]]


class Common(NamedTuple):
    """What all runs of a comparison share, or take by their seed."""

    options: RunOptions
    federations: dict[int, Federation]
    model: Model
    sampling: Sampling
    hashes: dict[str, Any]


def launch_compare(
    options: CompareOptions, out: Path, *, live: bool, measure: bool, hashes: dict[str, Any] | None = None
) -> Comparison:
    """Carries out `enlist compare`. Everything is checked before the folder `out` is made or touched.

    Args:
        live: whether to draw progress.
        measure: whether a worker's computing is to be measured; otherwise it is what the settings say.
        hashes: of the files that the options name, where these must still be what they were.
    """
    settings = options.settings
    refuse_several("compare")
    platform.prepare(settings.deterministic)
    _check_goal(options)
    check_names(options.problem, options.participation, settings)
    entrants = [*read_methods(options)]
    algorithms = {
        label: [methods.algorithm(*candidate) for candidate in candidates] for label, candidates in entrants
    }
    if options.output.resume is None:
        check_folder(out)
    named = {"algorithms": options.comparison.algorithms}
    found = file_hashes(
        options.problem, options.participation.sampling, settings.profile, named, hashes or {}
    )
    seeds = range(settings.seed, settings.seed + options.comparison.seeds)
    common = _common(options, seeds, found)
    target = _target(settings.target, common.model)
    field = [
        Entrant(
            label, [_candidate(common, *pair) for pair in zip(candidates, algorithms[label], strict=True)]
        )
        for label, candidates in entrants
    ]
    for entrant in field:
        check(entrant.candidates[0].task(seeds[0]))
    _keep_config(out, _config(options, common) | found, resume=options.output.resume is not None)
    plan = Plan(target, seeds, seeds.stop, _tune_rounds(options), measure)
    shown: Callable[[str], Any] = (
        partial(partial, progress.live_with) if live else lambda label: progress.silent
    )
    with memory_explained():
        return contest(field, plan, out, shown)


def read_methods(options: CompareOptions) -> Iterator[Typed]:
    """The methods typed, each with every rate that it may take; options that none of them has are refused."""
    labels = [text.strip() for text in options.comparison.algorithms.split(",")]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        raise BadInput(f"algorithms: {twice!r} is there twice")
    parted = [methods.parted(label) for label in labels]
    plain = [name for name, _ in parted]
    shared = {name: value for name, value in vars(options.method).items() if value is not None}
    everywhere = {*methods.COMMON_OPTIONS}
    for name, value in shared.items():
        if name not in everywhere and not any(name in methods.takes(each) for each in plain):
            raise BadInput(
                f"{name.replace('_', '-')} = {value}: no method of {', '.join(plain)} has such an option"
            )
    for label, (name, pairs) in zip(labels, parted, strict=True):
        known = methods.takes(name)
        own = _own_options(label, pairs)
        given = {each: value for each, value in shared.items() if each in known} | own
        rates = [
            [own[each]]
            if each in own
            else numbers(each, getattr(options.comparison, each))
            if each in known
            else []
            for each in ("worker_lr", "server_lr")
        ]
        method = MethodOptions(
            **{each: given[each] for each in given if each in MethodOptions.__dataclass_fields__}
        )
        tried = itertools.product(rates[0], rates[1] or [None])
        yield Typed(label, [(AlgorithmOptions(name, *pair), method) for pair in tried])


def _own_options(label: str, pairs: Sequence[str]) -> dict[str, Any]:
    own = typed(RunOptions, [f"--{pair}" for pair in pairs])[0]
    allowed = {*MethodOptions.__dataclass_fields__, "worker_lr", "server_lr"}
    if stranger := next((each for each in own if each not in allowed), None):
        raise BadInput(
            f"algorithms: {label}: {stranger.replace('_', '-')} is the same for all methods of a comparison"
        )
    return own


def _keep_config(out: Path, config: dict[str, Any], resume: bool) -> None:
    """Writes down what is compared, or sees that it is what was begun."""
    if not resume:
        out.mkdir(parents=True, exist_ok=True)
        write_config(out / "config.yaml", config)
    elif read_config(out / "config.yaml") != config:
        raise BadInput(
            f"resume {out}: the options are not those it was begun with; begin anew in another folder"
        )


def _target(target: float | None, model: Model) -> float:
    assert target is not None
    if model.metric is accuracy and not 0 < target < 1:
        raise BadInput(f"target = {target:g}: give a share between 0 and 1, for instance 0.9")
    return target


def _check_goal(options: CompareOptions) -> None:
    if options.settings.target is None:
        raise BadInput("compare: say what is to be reached, for instance --target 0.9")
    if options.settings.rounds < 1:
        raise BadInput("rounds = 0: a comparison needs at least 1")


def _common(options: CompareOptions, seeds: range, hashes: dict[str, Any]) -> Common:
    loaded: dict[Any, Any] = {}

    def load(name: str, workers: int, seed: int) -> Any:
        # Only synthetic data depend on the seed; all others are loaded once.
        key = (name, workers, seed) if name.startswith("synthetic") else name
        if key not in loaded:
            loaded[key] = datasets.load(name, workers=workers, seed=seed)
        return loaded[key]

    # The seed after the last is that of the short runs which choose the rates.
    dealt = {seed: deal(options.problem, seed, load) for seed in (*seeds, seeds.stop)}
    problem, federation = dealt[seeds[0]]
    participation, strategy = cohort(options.participation, federation.workers)
    filled = RunOptions(problem, participation, method=options.method, settings=options.settings)
    federations = {seed: each for seed, (_, each) in dealt.items()}
    return Common(filled, federations, model(problem, federation.classes), strategy, hashes)


def _candidate(
    common: Common, chosen: tuple[AlgorithmOptions, MethodOptions], algorithm: Algorithm
) -> Candidate:
    rule, method = chosen
    hashes = {name: value for name, value in common.hashes.items() if name != "algorithms_sha256"}
    if (own := own_file.digest(rule.algorithm, "algorithm")) is not None:
        hashes["algorithm_sha256"] = own
    work = methods.local_work(method)
    for federation in common.federations.values():
        check_work(work, federation)

    def task(seed: int) -> Task:
        settings = replace(common.options.settings, seed=seed)
        federation = common.federations[seed]
        between = links_of(settings, federation.workers)
        return Task(algorithm, common.model, federation, common.sampling, work, settings, between)

    def config(seed: int) -> dict[str, Any]:
        settings = replace(common.options.settings, seed=seed)
        filled = replace(common.options, rule=rule, method=method, settings=settings)
        return complete_config(filled) | hashes

    full = methods.complete(rule, method)[0]
    rates = {"worker_lr": full.worker_lr, "server_lr": full.server_lr}
    return Candidate({name: rate for name, rate in rates.items() if rate is not None}, task, config)


def _tune_rounds(options: CompareOptions) -> int:
    return short_run(options.settings.rounds, options.comparison.tune_rounds)


def _config(options: CompareOptions, common: Common) -> dict[str, Any]:
    """What makes the comparison, without where it is put."""
    filled = replace(
        options,
        problem=common.options.problem,
        participation=common.options.participation,
        comparison=replace(options.comparison, tune_rounds=_tune_rounds(options)),
    )
    output = CompareOutput.__dataclass_fields__
    return {name: value for name, value in flatten(filled).items() if name not in output}
