"""Runs that are taken on a stretch at a time, each in its folder, and what their rounds take."""

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from enlist.engine.board import Board, Tally
from enlist.engine.crew import Alone
from enlist.engine.folder import finished
from enlist.engine.progress import Screen, Shown
from enlist.engine.task import Room, Task
from enlist.engine.together import simulate_each
from enlist.engine.undertaking import undertake
from enlist.report import record
from enlist.report.record import RunRecord
from enlist.report.sweep import folder_names
from enlist.report.sweep_files import RUNS
from enlist.studies.grid import Point, grouped
from enlist.studies.grid import _job as job_of
from enlist.studies.grid import _work as work_of

# A run alone is timed over so many stretches, of which the fastest counts.
STRETCHES = 3


class Climb:
    """The runs, their folders, and those that share a program.

    Args:
        points: the runs.
        out: what their folders are in.
    """

    def __init__(self, points: Sequence[Point], out: Path):
        self.points = points
        self.folders = [out / RUNS / name for name in folder_names([point.values for point in points])]
        self.groups = grouped([point.task for point in points])
        self._compiled: set[int] = set()

    def tally(self, by_rung: Sequence[int], ends: Sequence[int], seeds: int) -> Tally:
        """Of all rungs, at the average amount of work."""
        each = float(np.mean([work_of(point.task) for point in self.points]))
        return Tally(each * seeds * float(np.dot(by_rung, ends)), seeds * sum(by_rung))

    def room(self, place: int) -> Room:
        """That of the run at this place."""
        return next(group.room for group in self.groups if place in group.places)

    def rounds(self) -> int:
        """That were run so far, of all runs together."""
        told = (json.loads((folder / "summary.json").read_text()) for folder in self.folders)
        return sum(int(facts["rounds"]) for facts in told)

    def records(self, places: Sequence[int]) -> list[RunRecord]:
        """What these runs have left so far."""
        return [record.load(self.folders[place]) for place in places]

    def up(self, places: Sequence[int], end: int, shown: Board, words: str) -> "Watch":
        """Takes these runs on to that round."""
        watch = Watch()
        for index, group in enumerate(self.groups):
            waiting = [
                place for place in group.places if place in {*places} and not _there(self.folders[place], end)
            ]
            if not waiting:
                continue
            jobs = [job_of(_shortened(self.points[place], end), self.folders[place]) for place in waiting]
            if (len(jobs) == 1 or one_by_one(jobs[0].task)) and index not in self._compiled:
                _alone(jobs[0].task, group.room)
                self._compiled.add(index)
            display = watch.beside(shown.shown(words, work_of(jobs[0].task)))
            for _ in simulate_each(jobs, room=group.room, display=display):
                pass
        watch.stop()
        return watch


class Watch:
    """Times the rounds of runs, by what their progress says: without compiling, and without saving their states."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.rounds_took, self.wall, self.advanced = 0.0, 0.0, 0

    def stop(self) -> None:
        """No more is counted as wall time."""
        self.wall = time.perf_counter() - self.began

    def beside(self, shown: Shown) -> Shown:
        """The same display, timed."""

        @contextmanager
        def timed(rounds: int, runs: int = 1) -> Iterator[Screen]:
            with shown(rounds, runs) as screen:
                yield _Timed(self, screen, runs)

        return timed


class _Timed:
    def __init__(self, watch: Watch, screen: Screen, runs: int):
        self.watch, self.screen, self.runs = watch, screen, runs
        self.t, self.since = 0, 0.0

    def start(self, t: int, line: dict[str, Any] | None) -> None:
        self.screen.start(t, line)
        self.t, self.since = t, time.perf_counter()

    def update(self, t: int, line: dict[str, Any] | None) -> None:
        self.watch.rounds_took += time.perf_counter() - self.since
        self.watch.advanced += self.runs * (t - self.t)
        self.screen.update(t, line)
        self.t, self.since = t, time.perf_counter()


def _shortened(point: Point, end: int) -> Point:
    settings = replace(point.task.settings, rounds=end)
    config = None if point.config is None else {**point.config, "rounds": end}
    return point._replace(task=point.task._replace(settings=settings), config=config)


def _there(folder: Path, end: int) -> bool:
    """Whether that run has come so far, or diverged."""
    if not finished(folder):
        return False
    facts = json.loads((folder / "summary.json").read_text())
    return facts["status"] == "diverged" or facts["rounds"] >= end


def one_by_one(task: Task) -> bool:
    """Whether runs go one after the other, each alone, as `simulate_each` has it."""
    return jax.devices()[0].platform == "cpu" or task.settings.devices > 1


def seconds_a_round(task: Task, room: Room) -> float:
    """What a round of one run takes when it has the device for itself, its share of the evaluations included."""
    crew, every = _alone(task, room), min(task.settings.eval_every, task.settings.rounds)
    fastest = math.inf
    for _ in range(STRETCHES):
        began = time.perf_counter()
        crew.advance(every, True)
        fastest = min(fastest, time.perf_counter() - began)
    return fastest / every


def _alone(task: Task, room: Room) -> Alone:
    """One run, compiled."""
    crew = Alone(undertake(task, room=room).session)
    crew.advance(0, False)
    return crew
