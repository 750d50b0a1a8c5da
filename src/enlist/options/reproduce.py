"""Options of `enlist reproduce`."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from enlist.errors import unknown

SCALES = ("small", "full")


@dataclass(frozen=True)
class ReproduceExtent:
    """How much is run."""

    scale: str | None = None
    """small (the default: fewer rows, rounds and seeds, minutes on an ordinary computer) or full (the paper's size,
    meant for a GPU)."""

    def __post_init__(self) -> None:
        if self.scale is not None and self.scale not in SCALES:
            raise unknown("scale", self.scale, SCALES)


@dataclass(frozen=True)
class ReproduceOutput:
    """What is left behind."""

    out: str | None = None
    """The folder to write (default: a new dated one under runs/). One that holds a reproduction of the same scale is
    gone on with: runs that are finished there are not run again. verdicts: the folder to read (default:
    results/paper)."""
    json: bool = False
    """Print the summary as JSON and nothing else."""


@dataclass(frozen=True)
class ReproduceOptions:
    """Runs the paper's experiments and leaves raw metrics, figures, tables, verdicts on its claims and a page."""

    names: Annotated[tuple[str, ...], tyro.conf.Positional]
    """fig1 ... fig7, table1 ... table3, choices (what the paper leaves unsaid), goals, scaffold, starts and
    unbalanced (our own), all of them with all; or verdicts, which runs nothing and makes figures, tables, verdicts
    and page anew from raw metrics."""
    extent: ReproduceExtent = ReproduceExtent()
    output: ReproduceOutput = ReproduceOutput()
