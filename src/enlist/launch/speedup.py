"""`enlist speedup`: from options to the cases of the study."""

from collections.abc import Callable
from typing import Any

from enlist.algorithms.fedavg import fedavg
from enlist.algorithms.work import Steps
from enlist.engine import platform
from enlist.errors import BadInput
from enlist.launch.problem import check_work, deal, model
from enlist.launch.run import memory_explained
from enlist.options import MethodOptions, ProblemOptions, Settings
from enlist.plan_options import counts
from enlist.problem.federation import Federation
from enlist.problem.quadratic import Known, nonconvex, quadratic
from enlist.speedup_options import KNOWN_WORKERS, SpeedupOptions, SpeedupProblem
from enlist.studies.speedup import Case, Effort, Goal, speedup, task_of
from enlist.theory.conditions import Constants
from enlist.theory.constants import estimate

COHORTS = {"full": [2, 4, 8, 16]}
DEFAULT_COHORTS = [1, 2, 4, 8, 16]
DEFAULT_COHORT = 4
DEFAULT_GOAL = 0.005
# Of the known problems. H = L I, so that f is alike for every m; so many dimensions that ||grad f||^2 varies little.
DIMENSION, ROWS = 24, 48
DISTANCE, HEIGHT = 0.5, 0.5
# Of the short run along which constants are measured.
ESTIMATE_LR, ESTIMATE_ROUNDS, ESTIMATE_POINTS = 0.1, 20, 3


def launch_speedup(
    options: SpeedupOptions, done: Callable[[int, int], None] = lambda now, of: None
) -> dict[str, Any]:
    """Carries out the study and returns its facts."""
    goal = _goal(options)
    cohorts, steps = _axes(options)
    platform.prepare()
    with memory_explained():
        on_data = options.subject.dataset is not None
        cases = (_data_cases if on_data else _known_cases)(options, cohorts, steps)
        asked = options.effort
        effort = Effort(asked.seeds, asked.most_rounds, asked.looks, asked.at_once)
        axis = "local_steps" if len(steps) > 1 else "cohort"
        facts = speedup(cases, axis, goal, effort, done)
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
    own = model(options.subject.model or "logistic", next(iter(dealt.values())))
    batch = options.axis.batch or MethodOptions.batch
    smoothness, constants = options.aim.smoothness, None
    cases = []
    for n in cohorts:
        federation = dealt[n if full else _workers(options.subject)]
        for k in steps:
            check_work(Steps(k, batch), federation)
            cases.append(Case(own, federation, 1.0, None, options.axis.sampling, n, k, batch))
    if smoothness is None:
        # The largest of them all is for everybody: other rates would be another study.
        measured = {m: _estimated(_of(cases, m), options.effort.seed) for m in dealt}
        smoothness = max(float(each.smoothness) for each in measured.values())
        constants = {m: each._replace(smoothness=smoothness) for m, each in measured.items()}
    return [
        case._replace(
            smoothness=smoothness, constants=None if constants is None else constants[case.federation.workers]
        )
        for case in cases
    ]


def _of(cases: list[Case], workers: int) -> Case:
    return next(case for case in cases if case.federation.workers == workers)


def _dealt(options: SpeedupOptions, workers: int) -> Federation:
    asked = options.subject
    problem = ProblemOptions(dataset=str(asked.dataset), partition=asked.partition, workers=workers)
    return deal(problem, options.effort.seed)[1]


def _estimated(case: Case, seed: int) -> Constants:
    task = task_of(case, Settings(seed=seed))._replace(algorithm=fedavg(ESTIMATE_LR, 1.0))
    constants = estimate(task, points=ESTIMATE_POINTS, rounds=ESTIMATE_ROUNDS, seed=seed).constants
    if not 0 < constants.smoothness < float("inf"):
        raise BadInput("speedup: the smoothness of this problem could not be measured; give --smoothness")
    return constants
