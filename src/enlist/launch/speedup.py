"""`enlist speedup`: from options to the cases of the study."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from enlist.algorithms.fedavg import fedavg
from enlist.algorithms.work import Steps
from enlist.engine import platform
from enlist.errors import BadInput
from enlist.launch.problem import check_work, deal, file_hashes, model
from enlist.launch.run import memory_explained
from enlist.launch.sweep import keep_plan
from enlist.options import MethodOptions, ProblemOptions, Settings, flatten
from enlist.options.plan import counts
from enlist.options.speedup import KNOWN_WORKERS, SpeedupOptions, SpeedupOutput, SpeedupProblem
from enlist.problem.federation import Federation
from enlist.problem.quadratic import Known, nonconvex, quadratic
from enlist.report.record import write_whole
from enlist.report.speedup.page import PLAN_FILE
from enlist.studies.speedup import Case, Effort, Goal, fewest, speedup, task_of
from enlist.theory.conditions import Constants
from enlist.theory.constants import estimate

CONSTANTS_FILE = "constants.json"
COHORTS = {"full": [2, 4, 8, 16]}
DEFAULT_COHORTS = [1, 2, 4, 8, 16]
DEFAULT_COHORT = 4
DEFAULT_GOAL = 0.005
DEFAULT_MODEL = "logistic"
# Of the known problems. H = L I, so that f is alike for every m; so many dimensions that ||grad f||^2 varies little.
DIMENSION, ROWS = 24, 48
DISTANCE, HEIGHT = 0.5, 0.5
# Of the short run along which constants are measured.
ESTIMATE_LR, ESTIMATE_ROUNDS, ESTIMATE_POINTS = 0.1, 20, 3


def launch_speedup(
    options: SpeedupOptions,
    out: Path | None = None,
    *,
    resume: bool = False,
    hashes: Mapping[str, Any] | None = None,
    done: Callable[[int, int], None] = lambda now, of: None,
) -> dict[str, Any]:
    """Carries out the study and returns its facts.

    Args:
        out: a folder that keeps the options, the constants measured and every finished search; nothing is kept
            without one.
        resume: go on with the study that `out` holds.
        hashes: of the files that the options name, as they were when it was begun.
        done: told how many searches of how many are done.
    """
    goal = _goal(options)
    cohorts, steps = _axes(options)
    platform.prepare()
    with memory_explained():
        on_data = options.subject.dataset is not None
        found = _file_hashes(options, dict(hashes or {})) if on_data else {}
        cases = (_data_cases if on_data else _known_cases)(options, cohorts, steps)
        asked = options.effort
        effort = Effort(asked.seeds, asked.most_rounds, asked.looks, asked.at_once)
        for case in cases:
            fewest(case, effort)
            _refuse_varied(case, options)
        if out is not None:
            keep_plan(out / PLAN_FILE, described(options) | found, resume)
        if on_data:
            cases = _scaled(options, cases, None if out is None else out / CONSTANTS_FILE)
        axis = "local_steps" if len(steps) > 1 else "cohort"
        facts = speedup(cases, axis, goal, effort, done, out)
    first = cases[0]
    return {
        "problem": options.subject.dataset or options.subject.problem or "quadratic",
        "model": first.model.name,
        "partition": first.federation.partition if on_data else None,
        "batch": first.batch,
        "cohort": first.cohort if axis == "local_steps" else None,
        "local_steps": first.local_steps if axis == "cohort" else None,
        "smoothness": first.smoothness,
        "constants": _told(first.constants),
        **facts,
    }


def _refuse_varied(case: Case, options: SpeedupOptions) -> None:
    if case.model.augment is not None and options.aim.smoothness is None:
        raise BadInput(
            f"model {case.model.name} varies its rows at random, and constants are measured on rows as they are: "
            "give --smoothness, or a model that varies nothing"
        )


def _told(constants: Constants | None) -> dict[str, float] | None:
    return None if constants is None else {name: float(each) for name, each in constants._asdict().items()}


def _goal(options: SpeedupOptions) -> Goal:
    asked, known = options.aim, options.subject.dataset is None
    if known and asked.measure != "gradient":
        raise BadInput(
            f"measure = {asked.measure}: on a known problem the goal is about the gradient; leave it out"
        )
    if known and asked.smoothness is not None:
        raise BadInput(f"smoothness = {asked.smoothness:g}: that of a known problem is known; leave it out")
    if not known and asked.goal is None:
        raise BadInput(
            "goal: on a data set it must be given, for instance --measure accuracy --goal 0.8 or --measure loss "
            "--goal 0.5"
        )
    return Goal(asked.measure, DEFAULT_GOAL if asked.goal is None else asked.goal)


def _axes(options: SpeedupOptions) -> tuple[list[int], list[int]]:
    """All n and all K; one of them is a single value."""
    asked = options.axis
    steps = counts("local-steps", asked.local_steps)
    default = [DEFAULT_COHORT] if len(steps) > 1 else COHORTS.get(asked.sampling, DEFAULT_COHORTS)
    cohorts = counts("cohorts", asked.cohorts) or default
    if asked.sampling == "full":
        if options.subject.workers is not None:
            raise BadInput(
                f"workers = {options.subject.workers}: with --sampling full all take part, so m is n; give --cohorts "
                "alone"
            )
        return cohorts, steps
    workers = _workers(options.subject)
    if cohorts[-1] > workers:
        raise BadInput(f"cohorts: {cohorts[-1]} is more than the {workers} workers; choose 1 to {workers}")
    return cohorts, steps


def _workers(problem: SpeedupProblem) -> int:
    return problem.workers or (KNOWN_WORKERS if problem.dataset is None else 100)


def _known_cases(options: SpeedupOptions, cohorts: list[int], steps: list[int]) -> list[Case]:
    asked, batch = options.subject, options.axis.batch or 1
    full = options.axis.sampling == "full"
    cases = []
    for n in cohorts:
        known = _known(asked, n if full else _workers(asked), options.effort.seed)
        constants = Constants(known.smoothness, known.sigma_local(batch), known.sigma_global, known.gap)
        for k in steps:
            cases.append(
                Case(
                    known.model,
                    known.federation,
                    known.smoothness,
                    constants,
                    options.axis.sampling,
                    n,
                    k,
                    batch,
                )
            )
    return cases


def _known(asked: SpeedupProblem, workers: int, seed: int) -> Known:
    noise = 1.0 if asked.noise is None else asked.noise
    apart = 0.5 if asked.heterogeneity is None else asked.heterogeneity
    if workers == 1 and (apart or asked.problem == "nonconvex"):
        raise BadInput(
            "cohorts: with --sampling full n = 1 is a single worker, which differs from nobody; begin at 2"
            + ("" if asked.problem == "nonconvex" else ", or give --heterogeneity 0")
        )
    if asked.problem == "nonconvex":
        return nonconvex(DIMENSION, workers, ROWS, noise=noise, heterogeneity=apart, height=HEIGHT, seed=seed)
    spectrum = [1.0] * DIMENSION
    return quadratic(spectrum, workers, ROWS, noise=noise, heterogeneity=apart, distance=DISTANCE, seed=seed)


def _data_cases(options: SpeedupOptions, cohorts: list[int], steps: list[int]) -> list[Case]:
    full = options.axis.sampling == "full"
    dealt = {m: _dealt(options, m) for m in (cohorts if full else [_workers(options.subject)])}
    own = model(_problem(options, 1), next(iter(dealt.values())).classes)
    batch = options.axis.batch or MethodOptions.batch
    cases = []
    for n in cohorts:
        federation = dealt[n if full else _workers(options.subject)]
        for k in steps:
            check_work(Steps(k, batch), federation)
            cases.append(Case(own, federation, 1.0, None, options.axis.sampling, n, k, batch))
    return cases


def _scaled(options: SpeedupOptions, cases: list[Case], path: Path | None) -> list[Case]:
    """With the smoothness that was given, or with all constants as measured.

    Args:
        path: where what was measured is kept: a study that is gone on with has the rates that it was begun with.
    """
    if options.aim.smoothness is not None:
        return [case._replace(smoothness=options.aim.smoothness) for case in cases]
    measured = None if path is None else _kept_constants(path)
    if measured is None:
        several = {case.federation.workers for case in cases}
        measured = {m: _estimated(_of(cases, m), options.effort.seed) for m in sorted(several)}
        if path is not None:
            told = {str(m): _told(each) for m, each in measured.items()}
            write_whole(path, (json.dumps(told, indent=1, allow_nan=False) + "\n").encode())
    # The largest of them all is for everybody: other rates would be another study.
    smoothness = max(float(each.smoothness) for each in measured.values())
    return [
        case._replace(
            smoothness=smoothness,
            constants=measured[case.federation.workers]._replace(smoothness=smoothness),
        )
        for case in cases
    ]


def _kept_constants(path: Path) -> dict[int, Constants] | None:
    """The constants by m, as they were measured before; None where they were not."""
    if not path.is_file():
        return None
    try:
        facts = json.loads(path.read_text())
        return {
            int(m): Constants(**{name: float(each[name]) for name in Constants._fields})
            for m, each in facts.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path}: damaged; begin anew in another folder") from error


def described(options: SpeedupOptions) -> dict[str, Any]:
    """The study as its file keeps it: every option that was given or has a value of its own."""
    return {
        name: value
        for name, value in flatten(options).items()
        if value is not None and name not in SpeedupOutput.__dataclass_fields__
    }


def _file_hashes(options: SpeedupOptions, before: dict[str, Any]) -> dict[str, Any]:
    return file_hashes(_problem(options, 1), options.axis.sampling, None, {"algorithm": "fedavg"}, before)


def _of(cases: list[Case], workers: int) -> Case:
    return next(case for case in cases if case.federation.workers == workers)


def _dealt(options: SpeedupOptions, workers: int) -> Federation:
    return deal(_problem(options, workers), options.effort.seed)[1]


def _problem(options: SpeedupOptions, workers: int) -> ProblemOptions:
    asked = options.subject
    return ProblemOptions(
        dataset=str(asked.dataset),
        partition=asked.partition,
        workers=workers,
        model=asked.model or DEFAULT_MODEL,
    )


def _estimated(case: Case, seed: int) -> Constants:
    task = task_of(case, Settings(seed=seed))._replace(algorithm=fedavg(ESTIMATE_LR, 1.0))
    constants = estimate(task, points=ESTIMATE_POINTS, rounds=ESTIMATE_ROUNDS, seed=seed).constants
    if not 0 < constants.smoothness < float("inf"):
        raise BadInput("speedup: the smoothness of this problem could not be measured; give --smoothness")
    return constants
