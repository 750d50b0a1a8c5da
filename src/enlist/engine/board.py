"""What a person sees while many runs go on: how many are done, where those at hand are, and the time left."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from enlist.engine.progress import Screen, Shown, metric_words


class Tally:
    """How much of many runs is done, and how long the rest takes at the pace so far.

    Args:
        amount: what all of them ask for, in any unit of work.
        runs: how many there are.
        clock: the time in seconds.
    """

    def __init__(self, amount: float, runs: int, clock: Callable[[], float] = time.perf_counter):
        self.amount, self.runs, self.clock = amount, runs, clock
        self.done, self.finished = 0.0, 0
        self._worked, self._began = 0.0, clock()

    def take_over(self, amount: float, runs: int = 0) -> None:
        """Work that was done in an earlier sitting, or that is not needed any more."""
        self.done += amount
        self.finished += runs

    def work(self, amount: float) -> None:
        """Work that was done just now."""
        self.done += amount
        self._worked += amount

    def seconds_left(self) -> float | None:
        """None as long as nothing is known of the pace."""
        if not self._worked:
            return None
        return (self.clock() - self._began) / self._worked * max(0.0, self.amount - self.done)


class Now(NamedTuple):
    """The runs at hand: what they are, the round they are in, and what was last seen of the first of them."""

    label: str
    rounds: int
    t: int
    line: dict[str, Any] | None


class Board:
    """Counts, and shows, many runs of which some advance together at a time."""

    def __init__(self, tally: Tally, draw: Callable[[Tally, Now], None]):
        self.tally, self.draw = tally, draw

    def shown(self, label: str, amount: float) -> Shown:
        """The display of runs of one kind.

        Args:
            label: what they are.
            amount: the work of one round of one of them.
        """
        return partial(self._part, label, amount)

    @contextmanager
    def _part(self, label: str, amount: float, rounds: int, runs: int = 1) -> Iterator[Screen]:
        goal = self.tally.done + amount * runs * rounds
        yield _Part(self, label, amount * runs, rounds)
        # Runs that diverged leave rounds that nobody will run.
        self.tally.take_over(goal - self.tally.done, runs)
        self.draw(self.tally, Now(label, rounds, rounds, None))


class _Part:
    """The screen of runs that advance together; `amount` is the work of a round of all of them."""

    def __init__(self, board: Board, label: str, amount: float, rounds: int):
        self.board, self.label, self.amount, self.rounds = board, label, amount, rounds
        self.t: int | None = None

    def start(self, t: int, line: dict[str, Any] | None) -> None:
        if self.t is None:
            self.board.tally.take_over(self.amount * t)
            self.t = t
        self._draw(t, line)

    def update(self, t: int, line: dict[str, Any] | None) -> None:
        before = self.t or 0
        self.board.tally.work(self.amount * max(0, t - before))
        self.t = max(before, t)
        self._draw(t, line)

    def _draw(self, t: int, line: dict[str, Any] | None) -> None:
        self.board.draw(self.board.tally, Now(self.label, self.rounds, t, line))


@contextmanager
def board(tally: Tally, live: bool) -> Iterator[Board]:
    """A board that draws two lines on the terminal: all runs, and those at hand. Or one that only counts."""
    if not live:
        yield Board(tally, lambda tally, now: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[state]}"))
    with Progress(*columns, console=Console(stderr=True)) as progress:
        everything = progress.add_task(f"0 of {tally.runs} runs", total=max(tally.amount, 1e-9), state="")
        at_hand = progress.add_task("", total=1, state="", visible=False)
        yield Board(tally, partial(_draw, progress, everything, at_hand))


def _draw(progress: Any, everything: Any, at_hand: Any, tally: Tally, now: Now) -> None:
    from rich.markup import escape

    left = tally.seconds_left()
    said = f"{tally.finished} of {tally.runs} runs"
    state = "" if left is None else f"{duration(left)} left"
    progress.update(everything, completed=tally.done, description=said, state=state)
    said = f"{escape(now.label)}, round {now.t}/{now.rounds}"
    shown: dict[str, Any] = {"state": metric_words(now.line)} if now.line or not now.t else {}
    progress.update(
        at_hand, completed=now.t, total=max(now.rounds, 1), description=said, visible=True, **shown
    )


def duration(seconds: float) -> str:
    """In the two largest units.

    Example:
        >>> duration(75.0), duration(4000.0), duration(200_000.0)
        ('1:15', '1 h 06 min', '2 d 07 h')
    """
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02}"
    minutes = whole // 60
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60:02} h"
