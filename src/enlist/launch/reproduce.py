"""`enlist reproduce`: from recipes to raw metrics. What is already there is not run again."""

import json
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from enlist.engine import platform
from enlist.engine.board import Tally, board
from enlist.engine.run import Run
from enlist.engine.timing import worker_seconds
from enlist.engine.together import Job, simulate_each
from enlist.launch.grid import Grid
from enlist.launch.joining import refuse_several
from enlist.launch.problem import Load
from enlist.launch.run import memory_explained
from enlist.launch.sweep import Workshop
from enlist.problem import datasets
from enlist.problem.dataset import Dataset
from enlist.studies.amount import work_of
from enlist.studies.grid import Group, Point, grouped, job_of
from enlist.studies.paper import raw
from enlist.studies.paper.raw import Curve, Raw, Sitting
from enlist.studies.paper.recipe import Recipe
from enlist.studies.paper.setting import Scale, Setting, Way

RAW, WORK, SPENT = "raw", "work", "spent"
# On an accelerator, all runs of such a model that advance together take a minute or so: no checkpoints are made.
SOON_OVER = ("logistic", "two_nn")


def carry_out(
    recipes: Sequence[Recipe], scale: Scale, out: Path, *, live: bool, load: Load = datasets.load
) -> Raw:
    """Runs everything that the recipes need and `out` does not hold yet.

    Args:
        live: whether to draw progress.
        load: where data sets come from.

    Returns:
        All that `out` holds then.
    """
    refuse_several("reproduce")
    platform.prepare()
    known = raw.read(out / RAW)
    settings = dict.fromkeys(setting for recipe in recipes for setting in recipe.runs(scale))
    missing = known.missing(settings)
    load = thinned(load, scale.rows)
    with memory_explained():
        if missing:
            _run(missing, points_of(missing, load), out, live)
        timed = [setting for recipe in recipes if recipe.timed for setting in recipe.runs(scale)]
        _time(timed, out, known, load)
    kept = raw.read(out / RAW)
    _tidy(out, kept)
    return kept


def _tidy(out: Path, kept: Raw) -> None:
    """Takes away the folders of finished runs. Those that another recipe left half-way stay, to be gone on with."""
    for curve in kept:
        shutil.rmtree(_place(out, curve.setting), ignore_errors=True)
    with suppress(OSError):  # not there, or not empty
        (out / WORK).rmdir()


def _place(out: Path, setting: Setting) -> Path:
    """Where a run is kept until it is finished."""
    # What is as usual is not said, as before anything else could be asked for: such runs are gone on with.
    may_be_usual = (*Way._fields, "variates")
    said = [
        value for name, value in setting._asdict().items() if value is not None or name not in may_be_usual
    ]
    return out / WORK / "-".join(map(str, said)).replace(":", "_")


def points_of(settings: Sequence[Setting], load: Load) -> list[Point]:
    """The runs that these settings stand for, checked."""
    return Workshop(Grid({}, [setting.options() for setting in settings]), load).points()


def thinned(load: Load, rows: int) -> Load:
    """Data sets with so many training rows, and at most as many test rows, of all classes alike; 0: as they are."""

    def loaded(name: str, workers: int, seed: int) -> Dataset:
        data = load(name, workers=workers, seed=seed)
        if not rows or data.classes is None:
            return data
        train, test = (_some_of_each(y, rows // data.classes) for y in (data.y_train, data.y_test))
        return replace(
            data,
            x_train=data.x_train[train],
            y_train=data.y_train[train],
            x_test=data.x_test[test],
            y_test=data.y_test[test],
        )

    return loaded


def _some_of_each(y: np.ndarray, count: int) -> np.ndarray:
    """Rows, drawn once: so many of each class, where there are."""
    order = np.random.default_rng(0).permutation(len(y))
    return np.sort(np.concatenate([order[y[order] == label][:count] for label in np.unique(y)]))


def _run(settings: Sequence[Setting], points: Sequence[Point], out: Path, live: bool) -> None:
    """Group by group; each run is kept when it is finished, and until then in a folder of its own."""
    tasks = [point.task for point in points]
    amounts = [work_of(task) for task in tasks]
    tally = Tally(sum(a * s.rounds for a, s in zip(amounts, settings, strict=True)), len(points))
    # Short groups first: the most is known soonest.
    groups = sorted(grouped(tasks), key=lambda group: _amount(group, amounts, settings))
    with board(tally, live) as shown:
        for number, group in enumerate(groups, 1):
            words = settings[group.places[0]].group()
            places = [_place(out, settings[place]) for place in group.places]
            jobs = [_job(settings[i], points[i], at) for i, at in zip(group.places, places, strict=True)]
            label = f"group {number}/{len(groups)} ({words}: {len(jobs)} runs)"
            display = shown.shown(label, amounts[group.places[0]])
            with _written_down(words, out, places) as kept:
                runs = simulate_each(jobs, room=group.room, display=display)
                for i, at, run in zip(group.places, places, runs, strict=True):
                    kept.append(curve_of(settings[i], run, _spent(at)))
                    raw.append(out / RAW, kept[-1:])
            for at in places:
                shutil.rmtree(at, ignore_errors=True)


@contextmanager
def _written_down(words: str, out: Path, places: Sequence[Path]) -> Iterator[list[Curve]]:
    """Takes the runs of a group as they are finished, and writes down what they took, however it ends."""
    kept: list[Curve] = []
    began = time.perf_counter()
    before = sum(map(_spent, places))
    try:
        yield kept
    finally:
        for place in places[len(kept) :]:
            _note_spent(place)
        device = sum(curve.device_seconds for curve in kept) + sum(map(_spent, places[len(kept) :])) - before
        facts = Sitting(
            words, len(kept), round(device, 2), round(time.perf_counter() - began, 2), platform.describe()
        )
        raw.append_sitting(out / RAW, facts)


def _spent(place: Path) -> float:
    """Device seconds that earlier sittings took for a run which they did not finish."""
    noted = place / SPENT
    return float(noted.read_text()) if noted.exists() else 0.0


def _note_spent(place: Path) -> None:
    """Adds what an interrupted sitting says that it took, once."""
    summary = place / "summary.json"
    if summary.exists():
        facts = json.loads(summary.read_text())
        (place / SPENT).write_text(str(_spent(place) + facts["device_seconds"]))
        summary.unlink()


def _job(setting: Setting, point: Point, place: Path) -> Job:
    """The run, in a folder with checkpoints unless it is soon over."""
    soon_over = jax.devices()[0].platform != "cpu" and setting.model in SOON_OVER
    return Job(point.task) if soon_over else job_of(point, place)


def _amount(group: Group, amounts: Sequence[float], settings: Sequence[Setting]) -> float:
    return sum(amounts[place] * settings[place].rounds for place in group.places)


def curve_of(setting: Setting, run: Run, spent: float = 0.0) -> Curve:
    """What is kept of a run; `spent` are device seconds of earlier sittings."""
    lines = run.metrics

    def column(name: str) -> np.ndarray:
        return np.array([np.nan if line[name] is None else line[name] for line in lines], np.float64)

    facts: dict[str, Any] = run.summary
    return Curve(
        setting,
        facts["status"],
        np.array([line["round"] for line in lines], np.int64),
        column("train_loss"),
        column("test_loss"),
        column("test_accuracy"),
        facts["uplink_bytes"],
        facts["downlink_bytes"],
        round(facts["device_seconds"] + spent, 4),
        facts["device"],
        facts["versions"],
    )


def _time(settings: Iterable[Setting], out: Path, known: Raw, load: Load) -> None:
    """Measures what a worker computes in a round, the methods of one model in turns."""
    by_model: dict[tuple[Any, ...], dict[tuple[Any, ...], Setting]] = {}
    for setting in settings:
        if (key := raw.seconds_key(setting)) not in known.seconds and setting.workers > 1:
            by_model.setdefault(key[:2], {}).setdefault(key, setting)
    seconds = dict(known.seconds)
    for wanted in by_model.values():
        tasks = [point.task for point in points_of(list(wanted.values()), load)]
        seconds |= zip(wanted, worker_seconds(tasks), strict=True)
        raw.keep_seconds(out / RAW, seconds)
