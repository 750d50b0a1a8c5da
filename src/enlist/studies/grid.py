"""Many runs that differ in some options: those of one shape share a program, and each leaves its own folder."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from enlist.algorithms.core import is_schedule
from enlist.engine.board import Tally, board
from enlist.engine.fit import check, check_cohorts
from enlist.engine.folder import finished, read_config
from enlist.engine.run import Run
from enlist.engine.task import Room, Task, room_for
from enlist.engine.together import Job, simulate_each
from enlist.engine.undertaking import refuse_if_other
from enlist.options import Settings
from enlist.problem.models import Model
from enlist.problem.objective import initial
from enlist.report import record
from enlist.report.sweep.files import RUNS
from enlist.report.sweep.outcome import Sweep, Swept, axes_of, folder_names, label
from enlist.studies.amount import work_of

# What differs between runs of one program: it is data, or looked at between blocks of rounds only.
FREE = ("seed", "target", "bandwidth", "uplink", "downlink", "latency", "worker_seconds", "profile")
# What runs that advance together must agree on besides, though their program does not depend on it.
PACE = ("rounds", "eval_every", "checkpoint_every")
# What is decided for a run when it begins, and stays so.
DECIDED = ("execution", "rows", "eval_rows")


class Point(NamedTuple):
    """One run of a grid.

    Args:
        values: the options that set it apart, in words and numbers.
        task: what is to be run.
        config: what its `config.yaml` shall say; None for a description of the task.
    """

    values: Mapping[str, Any]
    task: Task
    config: dict[str, Any] | None = None


class Group(NamedTuple):
    """Runs that advance together: of one shape and of equal length.

    Args:
        room: enough for all runs of that shape, also those of other groups.
        places: of its runs among all.
    """

    room: Room
    places: Sequence[int]


def carry(points: Sequence[Point], out: Path, *, live: bool = False, tensorboard: bool = False) -> Sweep:
    """Runs everything that is not yet finished in `out`, a folder for each run, and returns what there is.

    Args:
        live: whether to draw progress.
        tensorboard: also write TensorBoard event files into the folders of the runs.
    """
    names = folder_names([point.values for point in points])
    places = [out / RUNS / name for name in names]
    groups = grouped([point.task for point in points])
    amounts = [work_of(point.task) for point in points]
    rounds = [point.task.settings.rounds for point in points]
    tally = Tally(float(np.dot(amounts, rounds)), len(points))
    with board(tally, live) as shown:
        for group in groups:
            waiting = [place for place in group.places if not finished(places[place])]
            over = [place for place in group.places if place not in waiting]
            refuse_others([(places[place], points[place].task) for place in over])
            tally.take_over(float(sum(amounts[place] * rounds[place] for place in over)), len(over))
            jobs = [job_of(points[place], places[place]) for place in waiting]
            display = shown.shown(_words(points, groups, group), amounts[group.places[0]])
            for run in simulate_each(jobs, room=group.room, display=display) if jobs else ():
                if tensorboard:
                    _track(run)
    runs = [Swept(point.values, record.load(place)) for point, place in zip(points, places, strict=True)]
    return Sweep(axes_of([point.values for point in points]), runs)


def refuse_others(over: Iterable[tuple[Path, Task]]) -> None:
    """Finished runs must be of these tasks: one of each kind is looked at, since that takes tracing it."""
    kinds = {fitting_shape(task): (place, task) for place, task in over}
    for place, task in kinds.values():
        refuse_if_other(place, task)


def grouped(tasks: Sequence[Task]) -> list[Group]:
    """The groups, in the order in which their first runs are given."""
    by_shape = _alike(tasks, program_shape)
    rooms = {key: room_for([tasks[place].federation for place in places]) for key, places in by_shape.items()}
    groups = _alike(tasks, lambda task: (program_shape(task), _pace(task.settings)))
    return [Group(rooms[key], places) for (key, _), places in groups.items()]


def program_shape(task: Task) -> Any:
    """What shapes the program of a run, apart from how unequal its workers are: equal for runs that can share one."""
    x = task.federation.data.x_train
    # What parameters start from is data.
    return (
        fitting_shape(task._replace(model=task.model.once_started())),
        _parameters(task.model, x.shape[1:], str(x.dtype)),
    )


@lru_cache(maxsize=64)
def _parameters(model: Model, shape: tuple[int, ...], dtype: str) -> Any:
    params = jax.eval_shape(
        partial(initial, model), jax.random.key(0), jax.ShapeDtypeStruct((1, *shape), dtype)
    )
    leaves, structure = jax.tree.flatten(params)
    return structure, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)


def fitting_shape(task: Task) -> Any:
    """What decides whether the parts of a run fit each other."""
    data, algorithm = task.federation.data, task.algorithm
    usual = Settings()
    fixed = {name: getattr(usual, name) for name in (*FREE, *PACE)}
    rates = {
        name: rate if is_schedule(rate) else type(rate).__name__ for name, rate in algorithm.rates.items()
    }
    arrays = (data.x_train, data.y_train, data.x_test, data.y_test)
    # A gradient over all rows of a worker is computed over as much room as there is, so that is not shared.
    own = room_for([task.federation])[:2] if task.work.batch == 0 or algorithm.probe is not None else None
    return (
        algorithm._replace(rates=()),  # type: ignore[arg-type]
        tuple(sorted(rates.items(), key=lambda item: item[0])),
        task.model,
        task.work,
        task.sampling,
        task.federation.workers,
        replace(task.settings, **fixed),
        tuple((each.shape, str(each.dtype)) for each in arrays),
        own,
    )


class Fitting:
    """Refuses parts that do not fit each other, once for runs that fit alike: it takes tracing the algorithm."""

    def __init__(self) -> None:
        self._seen: set[Any] = set()

    def check(self, task: Task) -> None:
        """See `enlist.engine.fit.check`; and whether there are as many workers and rounds as the cohorts take."""
        check_cohorts(task)
        key = (
            fitting_shape(task),
            task.settings.target,
            task.settings.worker_accuracy and id(task.federation),
        )
        if key not in self._seen:
            check(task)
            self._seen.add(key)


def _pace(settings: Settings) -> Any:
    return tuple(getattr(settings, name) for name in PACE)


def _alike(tasks: Iterable[Task], key: Any) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = {}
    for place, task in enumerate(tasks):
        found.setdefault(key(task), []).append(place)
    return found


def job_of(point: Point, place: Path) -> Job:
    """The run as it was begun, where it was: on another machine other things might be decided for it."""
    config = read_config(place / "config.yaml") if (place / "config.yaml").exists() else {}
    known = {
        name: config[name] for name in DECIDED if name in config and name in Settings.__dataclass_fields__
    }
    task = point.task._replace(settings=replace(point.task.settings, **known))
    return Job(task, place, None if point.config is None else point.config | known)


def _words(points: Sequence[Point], groups: Sequence[Group], group: Group) -> str:
    """Which of the groups it is, and what sets it apart from the others."""
    count = len(group.places)
    said = f"{count} run{'s' * (count > 1)}"
    if len(groups) == 1:
        return said
    mine = axes_of([points[place].values for place in group.places])
    first = points[group.places[0]].values
    apart = label({name: value for name, value in first.items() if name not in mine})
    number = next(i for i, each in enumerate(groups, 1) if each is group)
    return (
        f"group {number}/{len(groups)} ({apart}: {said})"
        if apart
        else f"group {number}/{len(groups)} ({said})"
    )


def _track(run: Run) -> None:
    from enlist.engine.tracking import tensorboard_writer

    assert run.folder is not None
    with tensorboard_writer(run.folder) as write:
        for line in run.metrics:
            write(line)
