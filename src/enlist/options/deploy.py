"""Options of `enlist deploy`, beside those of a run."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from enlist.errors import unknown
from enlist.limits import LEAST_RATE, MOST_RATE, within
from enlist.options import (
    AlgorithmOptions,
    MethodOptions,
    OutputOptions,
    ParticipationOptions,
    ProblemOptions,
    Settings,
)

MOST_OVER = 100.0
# A year.
MOST_SECONDS = 365 * 24 * 3600.0
TAKES = ("first", "all")
Folder = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]


@dataclass(frozen=True)
class InitOptions:
    """Makes the folder of a deployment: certificates, a key pair for each worker, and the commands to type."""

    dir: Folder
    """The folder to make."""
    host: str = "localhost"
    """The name or IPv4 address under which workers reach the server."""
    port: int = 8443
    """The server's port."""
    workers: int = 3
    """m, how many workers there are; their ids are 0 ... m - 1."""


@dataclass(frozen=True)
class ServerOptions:
    """Starts the server and keeps it up, until it is told to stop."""

    dir: Folder = "."
    """The folder that `enlist deploy init` made."""


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Starts a worker and keeps it up, until it is told to stop."""

    dir: Folder = "."
    """The folder that `enlist deploy init` made, or this worker's own folder from it."""
    id: int
    """Which worker this is."""
    data: str
    """FILE.npz with x_train and y_train, the rows of this worker. They do not leave this machine."""


@dataclass(frozen=True)
class ExchangeOptions:
    """How the server and the workers exchange messages."""

    over_enlist: float = 1.3
    """Times n, rounded up: workers that are asked in a round, so that n reply even where some do not."""
    deadline: float = 300.0
    """Seconds that a round waits for replies."""
    take: str = "first"
    """first: the first n valid replies; all: all that come until the deadline."""
    norm_bound: float | None = None
    """The largest norm that the message of a reply may have; a reply above it is dropped (default: any)."""
    patience: int = 3
    """Abandoned rounds in a row after which the run stops with what it has."""
    join_seconds: float = 60.0
    """Seconds that the server waits for all workers before the first round, and for enough of them before a later
    one."""

    def __post_init__(self) -> None:
        within("over-enlist", self.over_enlist, 1, MOST_OVER)
        within("deadline", self.deadline, 0.001, MOST_SECONDS)
        within("norm-bound", self.norm_bound, LEAST_RATE, MOST_RATE)
        within("patience", self.patience, 1)
        within("join-seconds", self.join_seconds, 0, MOST_SECONDS)
        if self.take not in TAKES:
            raise unknown("take", self.take, TAKES)


@dataclass(frozen=True)
class DeployRunOptions:
    """Runs an algorithm on the workers of a deployment. Type it on the server's machine."""

    dir: Folder = "."
    """The folder that `enlist deploy init` made."""
    problem: ProblemOptions = ProblemOptions()
    participation: ParticipationOptions = ParticipationOptions()
    rule: AlgorithmOptions = AlgorithmOptions()
    method: MethodOptions = MethodOptions()
    settings: Settings = Settings()
    exchange: ExchangeOptions = ExchangeOptions()
    output: OutputOptions = OutputOptions()


@dataclass(frozen=True)
class LocalOutput(OutputOptions):
    """What is left behind."""

    keep: str | None = None
    """The folder to keep the deployment in, with its keys and logs (default: a temporary one, removed at the end)."""


@dataclass(frozen=True)
class LocalOptions:
    """Deploys on this machine alone: makes the keys, starts the server and all workers, runs, and stops them. Five
    rounds and four workers unless told otherwise."""

    problem: ProblemOptions = ProblemOptions()
    participation: ParticipationOptions = ParticipationOptions()
    rule: AlgorithmOptions = AlgorithmOptions()
    method: MethodOptions = MethodOptions()
    settings: Settings = Settings()
    exchange: ExchangeOptions = ExchangeOptions()
    output: LocalOutput = LocalOutput()
