"""Options of the commands that make many runs, beside those of a run."""

from dataclasses import dataclass

from enlist.limits import MOST_SEEDS, numbers, within
from enlist.options import AlgorithmOptions, MethodOptions, ParticipationOptions, ProblemOptions, Settings


@dataclass(frozen=True)
class ComparisonOptions:
    """What is compared, and how its rates are chosen."""

    algorithms: str = "fedavg,scaffold"
    """Methods with commas between them; each may have options of its own: fedavg,fedprox+mu=0.1,fedprox+mu=1."""
    seeds: int = 3
    """Runs of each method, with the seeds --seed, --seed + 1, ..."""
    worker_lr: str = "0.1"
    """eta_L, or several with commas: each method then takes its best, found by short runs."""
    server_lr: str | None = None
    """eta, or several, likewise (default: each method's own)."""
    tune_rounds: int | None = None
    """Rounds of such a short run (default: a quarter of --rounds)."""

    def __post_init__(self) -> None:
        within("seeds", self.seeds, 1, MOST_SEEDS)
        within("tune-rounds", self.tune_rounds, 1)
        for name, text in (("worker-lr", self.worker_lr), ("server-lr", self.server_lr)):
            numbers(name, text)


@dataclass(frozen=True)
class CompareOutput:
    """What is left behind."""

    out: str | None = None
    """The folder to write (default: a new dated one under runs/)."""
    json: bool = False
    """Print the summary as JSON and nothing else."""
    config: str | None = None
    """Take all options from the config.yaml of a comparison; options given beside it win."""
    resume: str | None = None
    """Go on with the comparison in this folder: runs that are finished there are not run again."""


@dataclass(frozen=True)
class CompareOptions:
    """Compares several algorithms: rounds, MiB and seconds to a target, over seeds, each with its best rates."""

    comparison: ComparisonOptions = ComparisonOptions()
    problem: ProblemOptions = ProblemOptions()
    participation: ParticipationOptions = ParticipationOptions()
    method: MethodOptions = MethodOptions()
    settings: Settings = Settings()
    output: CompareOutput = CompareOutput()


@dataclass(frozen=True)
class GridOptions:
    """Which runs there are. Every option below but --deterministic may have several values, with commas between them
    (--dataset and --local-schedule, whose values hold commas of their own, are typed once for each). Each such
    option is an axis; the grid is their product."""

    grid: str | None = None
    """A YAML file with options as in the config.yaml of a run, where a list is an axis; `runs:` may list combinations
    one by one. Options given beside it win."""
    seeds: int | None = None
    """Runs of each combination, with the seeds --seed, --seed + 1, ..."""


@dataclass(frozen=True)
class SweepOutput:
    """What is left behind."""

    out: str | None = None
    """The folder to write (default: a new dated one under runs/)."""
    json: bool = False
    """Print the summary as JSON and nothing else."""
    config: str | None = None
    """Take all options from the config.yaml of a run; a grid and options given beside it win."""
    resume: str | None = None
    """Go on with the sweep in this folder: runs that are finished there are not run again."""
    tensorboard: bool = False
    """Also write TensorBoard event files, into the folder of each run."""


@dataclass(frozen=True)
class SweepOptions:
    """Runs a grid of options: runs of one shape share a program, side by side on an accelerator. Leaves every run,
    a table, heat maps and a page."""

    sweep: GridOptions = GridOptions()
    problem: ProblemOptions = ProblemOptions()
    participation: ParticipationOptions = ParticipationOptions()
    rule: AlgorithmOptions = AlgorithmOptions()
    method: MethodOptions = MethodOptions()
    settings: Settings = Settings()
    output: SweepOutput = SweepOutput()
