"""What a person sees while a run goes on."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Screen(Protocol):
    """Told of each block."""

    def start(self, t: int, line: dict[str, Any] | None) -> None:
        """The run begins, or goes on, at round t."""

    def update(self, t: int, line: dict[str, Any] | None) -> None:
        """Rounds up to t are done; `line` holds the metrics if t was evaluated."""


Display = AbstractContextManager[Screen]


@runtime_checkable
class Shown(Protocol):
    """How progress is shown: of so many rounds, in which so many runs advance together."""

    def __call__(self, rounds: int, runs: int = 1) -> Display:
        """Opens the screen."""


class _Nothing:
    def start(self, t: int, line: dict[str, Any] | None) -> None:
        pass

    def update(self, t: int, line: dict[str, Any] | None) -> None:
        pass


@contextmanager
def silent(rounds: int, runs: int = 1) -> Iterator[Screen]:
    """Shows nothing."""
    yield _Nothing()


@contextmanager
def live_with(label: str, rounds: int, runs: int = 1) -> Iterator[Screen]:
    """A progress line on the terminal: round, loss, accuracy, rounds a second, time left; before it a label."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        *([TextColumn(escape(label))] if label else []),
        TextColumn("round {task.completed:.0f}/{task.total:.0f}"),
        BarColumn(bar_width=28),
        TextColumn("{task.fields[state]}"),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield _Live(progress, progress.add_task("run", total=rounds, state="", speed=""))


live = partial(live_with, "")


class _Live:
    def __init__(self, progress: Any, task: Any):
        self.progress, self.task = progress, task
        self.begun, self.first = time.perf_counter(), 0

    def start(self, t: int, line: dict[str, Any] | None) -> None:
        self.begun, self.first = time.perf_counter(), t
        self.progress.update(self.task, completed=t, state=metric_words(line))

    def update(self, t: int, line: dict[str, Any] | None) -> None:
        speed = (t - self.first) / max(1e-9, time.perf_counter() - self.begun)
        shown = {"state": metric_words(line)} if line else {}
        self.progress.update(self.task, completed=t, speed=f"{speed:.3g} rounds/s", **shown)


def metric_words(line: dict[str, Any] | None) -> str:
    """Loss and test metric of a round; empty where it was not evaluated.

    Where the server sees no training row the loss is that of the cohort's local steps.
    """
    if not line:
        return ""
    known = {key: value for key, value in line.items() if value is not None}
    losses = {"loss": known.get("train_loss"), "local loss": known.get("local_loss")}
    words = [f"{name} {loss:.4f}" for name, loss in losses.items() if loss is not None][:1]
    for key, value in known.items():
        if key.startswith("test_") and key != "test_loss":
            name = key.removeprefix("test_")
            words.append(f"{name} {value:.2%}" if name == "accuracy" else f"{name} {value:.4g}")
    return "  ".join(words)
