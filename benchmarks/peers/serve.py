"""A peer's end of the line: it reads commands from standard input and answers each with one line of JSON.

`setup {...}` first (see `Setup`), then any number of `go ROUNDS` and `loss`, then `quit`. Whatever else a library
prints goes to standard error.
"""

import json
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TextIO

import problem
from networks import Params
from workloads import Workload, workload


class Work(NamedTuple):
    """What rounds came to, counted where the peer can be seen doing it."""

    steps: int
    examples: int


class Training(Protocol):
    """A run of a peer that goes on from call to call."""

    def advance(self, rounds: int) -> None:
        """Does that many rounds, and waits for them."""

    def done(self) -> Work:
        """What the last `advance` came to. Not timed."""

    def params(self) -> Params:
        """The global model, by the names of `networks`."""


@dataclass(frozen=True)
class Setup:
    """What a peer is told. `device` is cpu or gpu; processes and threads are those it shall use."""

    workload: str
    device: str
    processes: int
    threads: int

    @property
    def work(self) -> Workload:
        """The workload by its name."""
        return workload(self.workload)


class Line:
    """Standard input and output, kept for the protocol alone."""

    def __init__(self) -> None:
        self.commands: TextIO = sys.stdin
        self.answers = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)

    def read(self) -> tuple[str, str]:
        """The next command and its argument; `quit` when nobody asks any more."""
        word, _, rest = self.commands.readline().strip().partition(" ")
        return word or "quit", rest

    def setup(self) -> Setup:
        """The first command."""
        word, rest = self.read()
        if word != "setup":
            raise SystemExit(f"expected setup, got {word!r}")
        return Setup(**json.loads(rest))

    def answer(self, **fields: Any) -> None:
        """One line of JSON."""
        self.answers.write(json.dumps(fields) + "\n")


def serve(line: Line, setup: Setup, training: Training, packages: Iterable[str]) -> None:
    """Says that the peer is ready and which versions it is, then obeys until told to quit."""
    line.answer(versions={name: version(name) for name in packages})
    x, y = problem.examples(setup.work)
    x, y = x[: setup.work.judged].copy(), y[: setup.work.judged].copy()
    while (command := line.read())[0] != "quit":
        word, rest = command
        if word == "go":
            line.answer(**timed(training, int(rest)))
        elif word == "loss":
            line.answer(loss=problem.loss(setup.work, training.params(), x, y))
        else:
            raise SystemExit(f"unknown command {word!r}")


def timed(training: Training, rounds: int) -> dict[str, float]:
    """Rounds, with their wall seconds, the CPU seconds of this process and all below it, and what was done."""
    cpu, wall = tree_cpu_seconds(os.getpid()), time.perf_counter()
    training.advance(rounds)
    wall = time.perf_counter() - wall
    return {"wall": wall, "cpu": tree_cpu_seconds(os.getpid()) - cpu, **training.done()._asdict()}


def version(package: str) -> str:
    """As installed, or as the package itself says where it was only put on the path."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return str(getattr(import_module(package), "__version__", "unknown"))


def tree_cpu_seconds(root: int) -> float:
    """CPU seconds of a process and of all that descend from it, those that ended and were waited for included."""
    if not Path("/proc/self/stat").exists():
        return sum(os.times()[:4])
    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                # The name may hold anything, so read what follows its closing bracket.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    return sum(ticks[pid] for pid in ticks if _descends(pid, root, parents)) / os.sysconf("SC_CLK_TCK")


def _descends(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid != root:
        if pid not in parents:
            return False
        pid = parents[pid]
    return True
