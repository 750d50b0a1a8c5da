"""Options of `enlist plan`, beside those of a run."""

from dataclasses import dataclass

from enlist.errors import BadInput
from enlist.limits import LEAST_RATE, MOST, MOST_RATE, within
from enlist.options import AlgorithmOptions, MethodOptions, ParticipationOptions, ProblemOptions, Settings

MOST_VALUES = 30


def counts(name: str, text: str | None) -> list[int]:
    """Whole numbers from 1 up with commas between them, sorted; none where nothing is given.

    Example:
        >>> counts("cohorts", "10,5")
        [5, 10]
    """
    if text is None:
        return []
    given = f"{name} = {text[:60]}"
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"{given}: type whole numbers with commas between them, such as 5,10,20") from None
    if wrong := [each for each in found if not 1 <= each <= MOST]:
        raise BadInput(f"{given}: {wrong[0]} must be 1 or more, at most {MOST}")
    if twice := next((each for each in found if found.count(each) > 1), None):
        raise BadInput(f"{given}: {twice} is there twice")
    if len(found) > MOST_VALUES:
        raise BadInput(f"{given}: {len(found)} values; give {MOST_VALUES} at most")
    return sorted(found)


@dataclass(frozen=True)
class GoalOptions:
    """What the plan is for."""

    goal: float | None = None
    """The value of E||grad f||^2 that is to be reached (default: a tenth of ||grad f||^2 at the initial model). The
    rates that are recommended are for --rounds of them (default 0: as many as the goal needs)."""
    cohorts: str | None = None
    """Cohort sizes n of the heat map, with commas between them (default: around --cohort)."""
    steps: str | None = None
    """Numbers K of local steps of the heat map, likewise (default: around those of the run)."""

    def __post_init__(self) -> None:
        if self.goal is not None and self.goal <= 0:
            raise BadInput(
                f"goal = {self.goal:g}: must be above 0, for instance 0.01; or leave it out for a tenth of the "
                "first ||grad f||^2"
            )
        within("goal", self.goal, LEAST_RATE, MOST_RATE)
        counts("cohorts", self.cohorts)
        counts("steps", self.steps)


@dataclass(frozen=True)
class EstimateOptions:
    """What measuring the problem's constants may cost."""

    points: int = 3
    """Models along a short run at which they are measured, the first and the last included."""
    estimate_rounds: int = 20
    """Rounds of that run, at the rates given."""
    estimate_workers: int = 100
    """Workers looked at, at most."""
    estimate_rows: int = 2000
    """Rows of each of them, at most."""
    iterations: int = 20
    """Products with a Hessian for one eigenvalue, at most."""

    def __post_init__(self) -> None:
        within("points", self.points, 1)
        within("estimate-rounds", self.estimate_rounds, 0)
        within("estimate-workers", self.estimate_workers, 1)
        within("estimate-rows", self.estimate_rows, 2)
        within("iterations", self.iterations, 1)


@dataclass(frozen=True)
class PlanOutput:
    """What is left behind."""

    out: str | None = None
    """The folder to write (default: a new dated one under runs/)."""
    json: bool = False
    """Print plan.json and nothing else."""
    config: str | None = None
    """Take the options of a run's config.yaml; options given beside it win."""


@dataclass(frozen=True)
class PlanOptions:
    """Measures the constants of a problem and answers by theory: which rates, how many rounds, MiB and seconds, over
    cohort sizes and local steps. For fedavg. Leaves a config.yaml for enlist run, a heat map and a page."""

    plan: GoalOptions = GoalOptions()
    estimate: EstimateOptions = EstimateOptions()
    problem: ProblemOptions = ProblemOptions()
    participation: ParticipationOptions = ParticipationOptions()
    rule: AlgorithmOptions = AlgorithmOptions()
    method: MethodOptions = MethodOptions()
    settings: Settings = Settings(rounds=0)
    output: PlanOutput = PlanOutput()
