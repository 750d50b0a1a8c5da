"""Options of `enlist study`: the project's own studies."""

from dataclasses import dataclass

from enlist.errors import unknown
from enlist.limits import MOST_SEEDS, within

SCALES = ("small", "full")


@dataclass(frozen=True)
class StudyOutput:
    """What is left behind."""

    out: str | None = None
    """The folder to write (default: a new dated one under runs/)."""
    json: bool = False
    """Print the outcome as JSON and nothing else."""


@dataclass(frozen=True)
class BoundStudy:
    """How much is tried."""

    seeds: int = 200
    """Runs of every case, at least 4; the expectation of the theorems is their mean."""
    rounds: int = 60
    """T, communication rounds of a run, at least 2."""
    scale: str = "small"
    """small (360 cases, about a minute on 2 cores) or full (4050 cases, for an accelerator or patience)."""

    def __post_init__(self) -> None:
        within("seeds", self.seeds, 4, MOST_SEEDS)
        within("rounds", self.rounds, 2, 100_000)
        if self.scale not in SCALES:
            raise unknown("scale", self.scale, SCALES)


@dataclass(frozen=True)
class BoundStudyOptions:
    """Runs FedAvg on problems whose constants are known, and lays what comes out beside the theorems' bound."""

    study: BoundStudy = BoundStudy()
    output: StudyOutput = StudyOutput()
