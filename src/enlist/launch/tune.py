"""`enlist tune`: from options to candidates, to the best of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from enlist.engine import platform
from enlist.engine.folder import read_config, write_config
from enlist.errors import BadInput
from enlist.launch import methods
from enlist.launch.grid import MOST_RUNS, Grid, checked, made_of, over
from enlist.launch.joining import refuse_several
from enlist.launch.run import check_folder, memory_explained
from enlist.launch.sweep import Workshop, complete_grid, keep_plan
from enlist.limits import MOST_SEEDS, within
from enlist.options import AlgorithmOptions, MethodOptions
from enlist.options.tune import ROUNDS, HalvingOptions, rates
from enlist.report.sweep.outcome import SEED
from enlist.report.tune.files import CONFIG_FILE, PLAN_FILE
from enlist.report.tune.outcome import Tuned
from enlist.studies.climb import Climb
from enlist.studies.grid import DECIDED, Point
from enlist.studies.halving import Plan, candidates_of, check, first_rung
from enlist.studies.rungs import halve
from enlist.studies.tune import EPOCHS, WORKER_RATES, server_rates, usual_looks
from enlist.words import kept

RATES = ("worker_lr", "server_lr")
LOCAL = ("local_epochs", "local_steps")
HALVING = (*HalvingOptions.__dataclass_fields__,)


class Asked(NamedTuple):
    """A tune as it was asked for.

    Args:
        grid: every option of a run that was given, with one value or several; its seed is that of the run.
        halving: how candidates are halved.
    """

    grid: Grid
    halving: HalvingOptions


def asked_for(typed: Mapping[str, Sequence[Any]], file: Path | None = None) -> Asked:
    """What was typed over what a file says.

    Args:
        typed: options by name, each with its values; rates as texts.
        file: the config.yaml of a run, of which the rates are not taken, or a tune.yaml.
    """
    below, halving = (Grid({}), {}) if file is None else _read(file)
    given: dict[str, Sequence[Any]] = {name: each for name, each in typed.items() if name not in HALVING}
    for name in RATES:
        if name in given:
            given[name] = rates(name.replace("_", "-"), str(given[name][-1]))
    if all(name in given for name in LOCAL):
        raise BadInput("local-steps and local-epochs are both given: choose one of them")
    halving = halving | {name: values[-1] for name, values in typed.items() if name in HALVING}
    return Asked(over(below, Grid(given)), HalvingOptions(**halving))


def launch_tune(asked: Asked, out: Path, *, live: bool, resume: bool = False) -> Tuned:
    """Carries out `enlist tune`. Every candidate is checked before the folder `out` is made or touched.

    Args:
        live: whether to draw progress.
        resume: go on with the tune that `out` holds.
    """
    refuse_several("tune")
    platform.prepare(bool(asked.grid.settings.get("deterministic")))
    if not resume:
        check_folder(out)
    halving = asked.halving
    filled = _filled(asked.grid, halving.by)
    single = filled.settings
    plan = Plan(single["rounds"], halving.eta, halving.first_rounds, halving.by, single.get("target"))
    _check(filled, plan, halving.seeds)
    seeds = [single.get(SEED, 0) + 1 + i for i in range(halving.seeds)]
    grid = checked(Grid({**filled.values, SEED: seeds}, (), filled.files))
    points = Workshop(grid).points()
    plan = plan._replace(first=first_rung(points, plan))
    described = _described(grid, points, single.get(SEED, 0), halving, plan)
    keep_plan(out / PLAN_FILE, described, resume)
    with memory_explained():
        tuned = halve(points, plan, out, live=live)
    config = _winner_config(tuned, points, out, single.get(SEED, 0), plan)
    write_config(out / CONFIG_FILE, config)
    return replace(tuned, config=config)


def _read(path: Path) -> tuple[Grid, dict[str, Any]]:
    """A file's options, and how it says that candidates are halved."""
    values = read_config(path)
    halving = {name: values.pop(name) for name in HALVING if name in values}
    if not halving:
        values = {name: value for name, value in values.items() if name not in RATES}
    try:
        return made_of(values), kept(halving, HalvingOptions)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error


def _filled(grid: Grid, by: str) -> Grid:
    """With what is tried where nothing was given: the rates that the method has, and some amounts of work."""
    values = dict(grid.values)
    if several := next(
        (name for name in values if len(values[name]) > 1 and name not in (*RATES, *LOCAL)), None
    ):
        raise BadInput(
            f"{several.replace('_', '-')}: a tune has one value of it; for several use enlist sweep"
        )
    name = str(values.get("algorithm", [AlgorithmOptions.algorithm])[0])
    usual = methods.complete(AlgorithmOptions(name), MethodOptions())[0].server_lr
    tried: dict[str, Sequence[Any]] = {"worker_lr": values.pop("worker_lr", WORKER_RATES)}
    if "server_lr" in values or usual is not None:
        tried["server_lr"] = values.pop("server_lr", ()) or server_rates(float(usual or 1))
    given = next((each for each in LOCAL if values.get(each, [None]) != [None]), None)
    work: Sequence[Any] = EPOCHS if "local_schedule" not in values else EPOCHS[-1:]
    tried[given or LOCAL[0]] = work if given is None else values.pop(given)
    rounds = values.setdefault("rounds", [ROUNDS])[0]
    values.setdefault("eval_every", [usual_looks(rounds, by)])
    return Grid(tried | {each: values[each] for each in values if each not in tried}, grid.runs, grid.files)


def _check(grid: Grid, plan: Plan, seeds: int) -> None:
    """What can be seen before anything is loaded."""
    if grid.runs:
        raise BadInput("runs: a tune has no list of runs; use enlist sweep")
    count = 1
    for values in grid.axes.values():
        count *= len(values)
    within("seeds", seeds, 1, MOST_SEEDS)
    check(plan, count, seeds)
    if count * seeds > MOST_RUNS:
        raise BadInput(
            f"tune: {count:,} candidates of {seeds} seeds are more than {MOST_RUNS:,} runs; take fewer values"
        )


def _described(
    grid: Grid, points: list[Point], seed: int, halving: HalvingOptions, plan: Plan
) -> dict[str, Any]:
    """The tune as its file keeps it, nothing left open."""
    whole = complete_grid(grid, points) | {SEED: seed}
    return whole | {**vars(halving), "first_rounds": plan.first}


def _winner_config(tuned: Tuned, points: list[Point], out: Path, seed: int, plan: Plan) -> dict[str, Any]:
    """What `enlist run --config` takes: the winner, at full length, with the seed that was not looked at."""
    place = candidates_of(points)[tuned.best.candidate].places[0]
    begun = read_config(Climb(points, out).folders[place] / "config.yaml")
    decided = {name: begun[name] for name in DECIDED if name in begun}
    config = points[place].config
    assert config is not None
    return {**config, **decided, "rounds": plan.rounds, SEED: seed}
