"""Tuning from Python."""

import inspect
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from enlist.algorithms.core import Algorithm
from enlist.algorithms.work import Epochs
from enlist.engine.folder import read_config, refuse_if_used, write_config
from enlist.errors import BadInput
from enlist.report.tune.files import PLAN_FILE, write_all
from enlist.report.tune.outcome import Tuned
from enlist.studies.halving import Plan, check, first_rung
from enlist.studies.rungs import halve
from enlist.studies.sweep import described, points_of

# Half decades, a usual rate in the middle of them.
WORKER_RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
# Times the method's own server rate.
SERVER_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
EPOCHS = (1, 5)
# So many looks at a full run, unless the rounds to a target decide.
LOOKS = 50


def tune(
    algorithm: Any,
    model: Any,
    federation: Any,
    *,
    out: str | Path,
    worker_lr: Sequence[float] | None = None,
    server_lr: Sequence[float] | None = None,
    local: Any = None,
    cohort: Any = 10,
    rounds: int = 100,
    seed: int = 0,
    seeds: int = 2,
    eta: int = 3,
    first_rounds: int | None = None,
    by: str = "train_loss",
    resume: bool = False,
    **options: Any,
) -> Tuned:
    """Finds the best rates and the best amount of local work by successive halving.

    Args:
        algorithm: a function that makes an algorithm, such as `enlist.fedavg`: it is called with a worker rate and a
            server rate, where it takes them, and with those of `options` that it takes.
        model, cohort: as in `enlist.simulate`.
        federation: who holds which examples, or a function of some of `options` (or the seed) that says so.
        out: the folder for every run, the rungs, `tune.json`, the heat maps and the page.
        worker_lr, server_lr: the rates to try.
        local: what a worker does in a round, or a list of that, such as `[Epochs(1, 10), Epochs(5, 10)]`.
        rounds: of a full run.
        seed: of the run that is tuned for; it is not looked at.
        seeds: how many after it each candidate runs with.
        eta: one candidate in so many goes on to the next rung.
        first_rounds: rounds of the first rung.
        by: what decides: `train_loss`, `test_metric`, or `rounds` (to `target`).
        resume: go on with the tune that `out` holds.
        options: settings as in `enlist.simulate`, and whatever the functions take.

    Returns:
        What came of it: `winner` with its rates, `rungs`, `cost`, `runs`.

    Example:
        >>> enlist.tune(
        ...     enlist.fedavg, enlist.models.two_nn(), fed, worker_lr=[0.03, 0.1, 0.3], out="runs/tuned"
        ... ).winner  # doctest: +SKIP
        {'worker_lr': 0.1, 'server_lr': 1.0, 'local': 'Epochs(epochs=5, batch=10, later=())'}
    """
    axes = {"worker_lr": worker_lr, "server_lr": server_lr, "local": local}
    given = {
        "algorithm": algorithm,
        "model": model,
        "federation": federation,
        "cohort": cohort,
        "rounds": rounds,
        "eval_every": usual_looks(rounds, by),
        **options,
    }
    _check(given, seeds)
    tried = {name: list(values) for name, values in _tried(algorithm, axes).items()}
    plan = Plan(rounds, eta, first_rounds, by, options.get("target"))
    check(plan, math.prod(map(len, tried.values())), seeds)
    tried["seed"] = [seed + 1 + i for i in range(seeds)]
    return _carried_out(given, tried, plan, Path(out), resume)


def _check(given: Mapping[str, Any], seeds: Any) -> None:
    if several := next((name for name, value in given.items() if isinstance(value, list)), None):
        raise BadInput(f"{several}: a tune has one value of it; for several use enlist.sweep")
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise BadInput(f"seeds = {seeds!r}: must be a whole number, 1 or more")


def _carried_out(
    given: Mapping[str, Any], tried: Mapping[str, list[Any]], plan: Plan, place: Path, resume: bool
) -> Tuned:
    """Runs a tune in a new folder, or goes on with the one that is there."""
    if not resume:
        refuse_if_used(place)
    points = list(points_of({**given, **tried}, tried))
    plan = plan._replace(first=first_rung(points, plan))
    facts = _plan_facts(given, tried, plan)
    if resume and read_config(place / PLAN_FILE) != facts:
        raise BadInput(f"resume {place}: this is not the tune that it was begun with")
    if not resume:
        place.mkdir(parents=True, exist_ok=True)
        write_config(place / PLAN_FILE, facts)
    made = halve(points, plan, place)
    write_all(made, place)
    return made


def usual_looks(rounds: int, by: str) -> int:
    """Rounds from one evaluation to the next, where it is left to us."""
    return 1 if by == "rounds" else max(1, rounds // LOOKS)


def server_rates(usual: float) -> list[float]:
    """Around a method's own server rate."""
    return [float(f"{factor * usual:.4g}") for factor in SERVER_FACTORS]


def _tried(algorithm: Any, axes: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """The values of each axis; where none are given, the usual ones, if the method has such a rate."""
    if isinstance(algorithm, Algorithm) or not callable(algorithm):
        raise BadInput("algorithm: give a function that makes it from its rates, such as enlist.fedavg")
    parameters = inspect.signature(algorithm).parameters
    usual = parameters["server_lr"].default if "server_lr" in parameters else None
    left_open: dict[str, Sequence[Any]] = {"local": [Epochs(each, batch=10) for each in EPOCHS]}
    if "worker_lr" in parameters:
        left_open["worker_lr"] = WORKER_RATES
    if isinstance(usual, int | float):
        left_open["server_lr"] = server_rates(usual)
    found: dict[str, Sequence[Any]] = {}
    for name, values in axes.items():
        if values is None and name in left_open:
            found[name] = left_open[name]
        elif values is not None:
            found[name] = list(values) if isinstance(values, list | tuple | np.ndarray) else [values]
        if name in found and not len(found[name]):
            raise BadInput(f"{name} = []: give at least one value")
    return found


def _plan_facts(given: Mapping[str, Any], tried: Mapping[str, Sequence[Any]], plan: Plan) -> dict[str, Any]:
    return {
        "begun_from": "python",
        **{name: [described(value) for value in values] for name, values in tried.items()},
        **{name: described(value) for name, value in given.items()},
        "eta": plan.eta,
        "first_rounds": plan.first,
        "by": plan.by,
    }
