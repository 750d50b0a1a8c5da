"""Sweeping over a grid from Python."""

import inspect
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from enlist.algorithms.core import Algorithm
from enlist.algorithms.work import Epochs, LocalWork
from enlist.engine.folder import read_config, refuse_if_used, write_config
from enlist.engine.simulate import make_task
from enlist.engine.task import Task
from enlist.errors import BadInput
from enlist.options import Settings
from enlist.problem.adapters import as_model
from enlist.problem.federation import Federation
from enlist.report.sweep.files import GRID_FILE, write_all
from enlist.report.sweep.outcome import Sweep, label
from enlist.studies.grid import Fitting, Point, carry

# What makes a run besides its model and its settings, and may be a function of the options.
KINDS: dict[str, Any] = {"algorithm": Algorithm, "federation": Federation, "local": LocalWork}
WANTED = {
    "algorithm": "an algorithm such as enlist.fedavg()",
    "federation": "a Federation",
    "local": "Epochs(E, batch) or Steps(K, batch)",
}


def sweep(
    algorithm: Any,
    model: Any,
    federation: Any,
    *,
    out: str | Path,
    cohort: Any = 10,
    local: Any = Epochs(5, batch=10),
    resume: bool = False,
    **options: Any,
) -> Sweep:
    """Runs a grid: `enlist.simulate` for every combination of what is given as a list.

    Args:
        algorithm: an algorithm, or a function that makes one, such as `enlist.fedavg`: it is called with those of
            `options` that it takes.
        model, cohort: as in `enlist.simulate`.
        federation: who holds which examples, or a function of some of `options` that says so.
        local: what a worker does in a round, or a function of some of `options`.
        out: the folder for every run, and for tables, heat maps and the page.
        resume: go on with the sweep that `out` holds.
        options: settings as in `enlist.simulate`, and whatever those functions take.

    Returns:
        What came of it: `rows` with a dict for each run, `cells` with each combination over its seeds, `best()`.

    Example:
        >>> enlist.sweep(
        ...     enlist.fedavg,
        ...     enlist.models.two_nn(),
        ...     lambda p, seed: enlist.partition.digits(data, per_worker=p, workers=100, seed=seed),
        ...     worker_lr=[0.01, 0.1],
        ...     server_lr=[1.0, 3.0],
        ...     p=[1, 2],
        ...     seed=[0, 1, 2],
        ...     rounds=100,
        ...     out="runs/rates",
        ... ).best().values  # doctest: +SKIP
        {'worker_lr': 0.1, 'server_lr': 1.0, 'p': 2}
    """
    given = {
        "algorithm": algorithm,
        "model": model,
        "federation": federation,
        "local": local,
        "cohort": cohort,
        **options,
    }
    axes = {
        name: list(value) for name, value in given.items() if isinstance(value, list | range | np.ndarray)
    }
    if not axes:
        raise BadInput("sweep: nothing differs; give a list of values, such as worker_lr=[0.01, 0.1]")
    place = Path(out)
    if not resume:
        refuse_if_used(place)
    points = list(points_of(given, axes))
    told = {"begun_from": "python", **{name: _names(name, values) for name, values in axes.items()}}
    told |= {name: described(given[name]) for name in given if name not in axes}
    if resume and read_config(place / GRID_FILE) != told:
        raise BadInput(f"resume {place}: this is not the grid that it was begun with")
    if not resume:
        place.mkdir(parents=True, exist_ok=True)
        write_config(place / GRID_FILE, told)
    made = carry(points, place)
    write_all(made, place)
    return made


def points_of(given: Mapping[str, Any], axes: Mapping[str, list[Any]]) -> Iterator[Point]:
    """Every combination, checked."""
    names = {name: _names(name, values) for name, values in axes.items()}
    made: dict[Any, Any] = {}
    fitting = Fitting()
    for places in itertools.product(*(range(len(values)) for values in axes.values())):
        at = dict(zip(axes, places, strict=True))
        values = {name: names[name][i] for name, i in at.items()}
        try:
            task = _task({**given, **{name: axes[name][i] for name, i in at.items()}}, at, made)
            fitting.check(task)
        except BadInput as error:
            raise BadInput(f"{label(values)}: {error}") from error
        yield Point(values, task)


def _task(chosen: Mapping[str, Any], at: Mapping[str, int], made: dict[Any, Any]) -> Task:
    """One run. What does not depend on the axes in which it differs from another is that one's: kept in `made`."""
    options = {name: value for name, value in chosen.items() if name not in (*KINDS, "model")}
    parts, used = {}, {"cohort"}
    for role, kind in KINDS.items():
        thing = chosen[role]
        if not isinstance(thing, kind) and callable(thing):
            taken = [name for name in inspect.signature(thing).parameters if name in options]
            used |= {*taken}
            key = (role, *((name, at.get(name)) for name in (role, *taken)))
            if key not in made:
                made[key] = thing(**{name: options[name] for name in taken})
            thing = made[key]
        if not isinstance(thing, kind):
            raise BadInput(f"{role} = {str(thing)[:60]}: give {WANTED[role]}, or a function that returns one")
        parts[role] = thing
    which = ("model", at.get("model"))
    if which not in made:
        made[which] = as_model(chosen["model"])
    known = Settings.__dataclass_fields__
    settings = {name: value for name, value in options.items() if name in known or name not in used}
    if stranger := next((name for name in settings if name not in known), None):
        raise TypeError(f"sweep() has no argument {stranger!r}, and no function that it was given takes it")
    return make_task(
        parts["algorithm"], made[which], parts["federation"], options["cohort"], parts["local"], settings
    )


def _names(option: str, values: list[Any]) -> list[Any]:
    """The values in words and numbers, no two alike."""
    found = [described(value) for value in values]
    if twice := next((value for value in found if found.count(value) > 1), None):
        own = "; enlist.as_model(model, name=...) gives each a name of its own" if option == "model" else ""
        raise BadInput(f"{option}: {twice} is there twice{own}")
    return found


def described(value: Any) -> Any:
    """Numbers and words as they are; of other things their name."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else repr(value)[:80]
