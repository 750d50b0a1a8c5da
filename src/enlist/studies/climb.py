"""Runs that are taken on a stretch at a time, each in its folder, and what their rounds take."""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from enlist.engine.board import Board, Tally
from enlist.engine.crew import Alone
from enlist.engine.folder import finished
from enlist.engine.session import open_session
from enlist.engine.task import Room, Task
from enlist.engine.together import simulate_each
from enlist.report import record
from enlist.report.record import RunRecord
from enlist.report.sweep.files import RUNS
from enlist.report.sweep.outcome import folder_names
from enlist.studies.amount import work_of
from enlist.studies.grid import Point, grouped, job_of

# A run alone is timed over so many stretches, of which the fastest counts.
STRETCHES = 3


class Stretch(NamedTuple):
    """What it took to take runs on: seconds of the devices, seconds in all, and rounds of all runs together."""

    device: float
    wall: float
    advanced: int


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

    def tally(self, by_rung: Sequence[int], ends: Sequence[int], seeds: int) -> Tally:
        """Of all rungs, at the average amount of work."""
        each = float(np.mean([work_of(point.task) for point in self.points]))
        return Tally(each * seeds * float(np.dot(by_rung, ends)), seeds * sum(by_rung))

    def room(self, place: int) -> Room:
        """That of the run at this place."""
        return next(group.room for group in self.groups if place in group.places)

    def rounds(self) -> int:
        """That were run so far, of all runs together."""
        return sum(map(_rounds, self.folders))

    def records(self, places: Sequence[int]) -> list[RunRecord]:
        """What these runs have left so far."""
        return [record.load(self.folders[place]) for place in places]

    def up(self, places: Sequence[int], end: int, shown: Board, words: str) -> Stretch:
        """Takes these runs on to that round."""
        began, device, advanced = time.perf_counter(), 0.0, 0
        for group in self.groups:
            waiting = [
                place for place in group.places if place in {*places} and not _there(self.folders[place], end)
            ]
            if not waiting:
                continue
            before = sum(_rounds(self.folders[place]) for place in waiting)
            jobs = [job_of(_shortened(self.points[place], end), self.folders[place]) for place in waiting]
            display = shown.shown(words, work_of(jobs[0].task))
            for run in simulate_each(jobs, room=group.room, display=display):
                device += run.summary["device_seconds"]
            advanced += sum(_rounds(self.folders[place]) for place in waiting) - before
        return Stretch(device, time.perf_counter() - began, advanced)


def _rounds(folder: Path) -> int:
    """How far that run came, as its summary says; 0 where it has none."""
    if not (folder / "summary.json").exists():
        return 0
    return int(json.loads((folder / "summary.json").read_text())["rounds"])


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
    crew, every = Alone(open_session(task, room)), min(task.settings.eval_every, task.settings.rounds)
    crew.advance(0, False)
    fastest = math.inf
    for _ in range(STRETCHES):
        began = time.perf_counter()
        crew.advance(every, True)
        fastest = min(fastest, time.perf_counter() - began)
    return fastest / every
