"""Options of `enlist speedup`."""

from dataclasses import dataclass

from enlist.errors import BadInput, unknown
from enlist.limits import LEAST_RATE, MOST, MOST_PLACES, MOST_RATE, MOST_SEEDS, check_rate, within
from enlist.options.plan import counts

PROBLEMS = ("quadratic", "nonconvex")
SAMPLINGS = ("full", "with-replacement", "without-replacement")
MEASURES = ("gradient", "loss", "accuracy")
# Of both known problems: the largest n that is looked at by default is a quarter of it.
KNOWN_WORKERS = 64


@dataclass(frozen=True)
class SpeedupProblem:
    """What is learned: a problem whose constants are known, or a data set."""

    problem: str | None = None
    """quadratic (a shared Hessian) or nonconvex, both with known constants (default quadratic, where no data set is
    named)."""
    noise: float | None = None
    """sigma_L of the known problem, for one row (default 1)."""
    heterogeneity: float | None = None
    """sigma_G of the known problem (default 0.5)."""
    dataset: str | None = None
    """Instead of a known problem: mnist, fashion, cifar10, digits, synthetic:ALPHA,BETA, or FILE.npz."""
    model: str | None = None
    """Of the data set: logistic (default), two_nn, cnn, resnet18, or FILE.py:FACTORY."""
    partition: str | None = None
    """Of the data set, as for enlist run: iid, digits:P, ... (default as there)."""
    workers: int | None = None
    """m (default 64 on a known problem, 100 on a data set; full: left out, m is n)."""

    def __post_init__(self) -> None:
        if self.problem is not None and self.dataset is not None:
            raise BadInput(
                f"problem = {self.problem} and dataset = {self.dataset}: a study is about one problem; leave one out"
            )
        if self.problem is not None and self.problem not in PROBLEMS:
            raise unknown("problem", self.problem, PROBLEMS)
        within("workers", self.workers, 1, MOST_PLACES)
        within("noise", self.noise, 0, MOST_RATE)
        within("heterogeneity", self.heterogeneity, 0, MOST_RATE)
        alien = ("noise", "heterogeneity") if self.dataset is not None else ("model", "partition")
        for name in alien:
            if getattr(self, name) is not None:
                kind = "a known problem" if self.dataset is not None else "a data set"
                raise BadInput(
                    f"{name} = {getattr(self, name)}: belongs to {kind}, and none is studied; leave it out"
                )


@dataclass(frozen=True)
class SpeedupAxis:
    """Against what rounds are drawn: n, or K where several are given."""

    cohorts: str | None = None
    """n, workers a round, with commas between them (default 1,2,4,8,16; 2,4,8,16 where all take part)."""
    local_steps: str = "1"
    """K, local steps; several, such as 1,2,4,8, show rounds against K at one n (then give --cohorts one value)."""
    sampling: str = "with-replacement"
    """full (all m = n workers take part: m is varied), with-replacement or without-replacement (n of --workers)."""
    batch: int | None = None
    """Rows of a local step, drawn independently (default 1 on a known problem, 10 on a data set)."""

    def __post_init__(self) -> None:
        if self.sampling not in SAMPLINGS:
            raise unknown("sampling", self.sampling, SAMPLINGS)
        within("batch", self.batch, 1)
        cohorts, steps = counts("cohorts", self.cohorts), counts("local-steps", self.local_steps)
        if len(steps) > 1 and len(cohorts) > 1:
            raise BadInput(
                f"cohorts = {self.cohorts} and local-steps = {self.local_steps}: rounds are drawn against one of "
                "them; give the other one value"
            )
        if len(cohorts) == 1 and len(steps) == 1:
            raise BadInput(
                f"cohorts = {self.cohorts}: a slope needs at least two n, such as 1,2,4,8, or several --local-steps"
            )


@dataclass(frozen=True)
class SpeedupGoal:
    """What is to be reached, and by which rates."""

    goal: float | None = None
    """The value to be reached (default 0.005 on a known problem; on a data set it must be given)."""
    measure: str = "gradient"
    """Of what: gradient (||grad f||^2), loss (training loss) or accuracy (test accuracy, from 0 to 1); the mean over
    seeds, in the best of the rounds looked at."""
    smoothness: float | None = None
    """L of the data set, by which the rates are scaled (default: measured along a short run, and with it the sigmas,
    which tell what dominates the bound)."""

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise unknown("measure", self.measure, MEASURES)
        if self.goal is not None and self.goal <= 0:
            raise BadInput(f"goal = {self.goal:g}: must be above 0, for instance 0.01")
        within("goal", self.goal, LEAST_RATE, MOST_RATE)
        if self.measure == "accuracy" and self.goal is not None and self.goal >= 1:
            raise BadInput(f"goal = {self.goal:g}: an accuracy is below 1, for instance 0.9")
        check_rate("smoothness", self.smoothness)


@dataclass(frozen=True)
class SpeedupEffort:
    """What it may cost."""

    seeds: int = 32
    """Runs of every T, an even number from 4 up; the interval comes from them."""
    most_rounds: int = 100_000
    """The largest T that is tried."""
    looks: int = 32
    """Rounds of a run in which the goal is looked for, evenly apart."""
    at_once: int = 4
    """Numbers T that run side by side."""
    seed: int = 0
    """Of what is dealt or drawn once: the partition, or the known problem."""

    def __post_init__(self) -> None:
        within("seeds", self.seeds, 4, MOST_SEEDS)
        if self.seeds % 2:
            raise BadInput(f"seeds = {self.seeds}: two halves check each other; give an even number")
        within("most-rounds", self.most_rounds, 64, MOST // 4)
        within("looks", self.looks, 2, 10_000)
        within("at-once", self.at_once, 2, 1000)
        within("seed", self.seed, 0)


@dataclass(frozen=True)
class SpeedupOutput:
    """What is left behind."""

    out: str | None = None
    """The folder to write (default: a new dated one under runs/)."""
    json: bool = False
    """Print summary.json and nothing else."""
    resume: str | None = None
    """Go on with the study in this folder; its options are those that it was begun with."""


@dataclass(frozen=True)
class SpeedupOptions:
    """Do n workers need n times fewer rounds? For each n (or K), searches the smallest T with which fedavg at the
    corollary's rates for that T reaches a goal, and fits the slope with an interval from seeds."""

    subject: SpeedupProblem = SpeedupProblem()
    axis: SpeedupAxis = SpeedupAxis()
    aim: SpeedupGoal = SpeedupGoal()
    effort: SpeedupEffort = SpeedupEffort()
    output: SpeedupOutput = SpeedupOutput()
