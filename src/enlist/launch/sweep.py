"""`enlist sweep`: from a grid of options to its runs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from enlist.engine import execution, platform
from enlist.engine.folder import read_config, write_config
from enlist.engine.session import links_of
from enlist.engine.task import Task
from enlist.engine.tracking import require_tensorboard
from enlist.errors import BadInput
from enlist.launch import methods
from enlist.launch.grid import FILES, RUNS, Grid
from enlist.launch.joining import refuse_several
from enlist.launch.problem import Load, check_work, cohort, deal, file_hashes, model
from enlist.launch.run import check_folder, check_names, complete_config, memory_explained
from enlist.options import HASHES, ProblemOptions, RunOptions, flatten, unflatten
from enlist.problem import datasets
from enlist.problem.dataset import Dataset
from enlist.problem.federation import Federation
from enlist.problem.models import Model
from enlist.report.sweep.files import GRID_FILE
from enlist.report.sweep.outcome import Sweep, label
from enlist.studies.grid import Fitting, Point, carry


def launch_sweep(
    grid: Grid, out: Path, *, live: bool, resume: bool = False, tensorboard: bool = False
) -> Sweep:
    """Carries out `enlist sweep`. Every run is checked before the folder `out` is made or touched.

    Args:
        live: whether to draw progress.
        resume: go on with the sweep that `out` holds.
        tensorboard: also write TensorBoard event files.
    """
    refuse_several("sweep")
    platform.prepare(bool(grid.settings.get("deterministic")))
    if tensorboard:
        require_tensorboard()
    if not resume:
        check_folder(out)
    points = Workshop(grid).points()
    described = complete_grid(grid, points)
    keep_plan(out / GRID_FILE, described, resume)
    with memory_explained():
        return carry(points, out, live=live, tensorboard=tensorboard)


def keep_plan(path: Path, described: dict[str, Any], resume: bool) -> None:
    """Writes what is to be done into a new folder; one that is taken up again must hold the same."""
    if not resume:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_config(path, described)
    elif described | read_config(path) != described:
        raise BadInput(
            f"resume {path.parent}: its {path.name} was changed since it was begun; begin anew in another folder"
        )


class Workshop:
    """Makes the runs of a grid; what several of them have in common is made once.

    Args:
        load: where data sets come from, if not from `datasets.load`.
    """

    def __init__(self, grid: Grid, load: Load | None = None):
        self.grid, self._fetch = grid, load or datasets.load
        self._data: dict[Any, Dataset] = {}
        self._dealt: dict[Any, tuple[ProblemOptions, Federation]] = {}
        self._models: dict[Any, Model] = {}
        self._hashes: dict[Any, dict[str, Any]] = {}
        self._fitting = Fitting()

    def points(self) -> list[Point]:
        """All runs, checked; first by what can be seen without loading anything."""
        asked = []
        for values in self.grid.combinations():
            with _named(values):
                options = unflatten(RunOptions, self.grid.options(values))
                self._check_words(options)
                asked.append((values, options))
        return [self._point(values, options) for values, options in asked]

    def _check_words(self, options: RunOptions) -> None:
        check_names(options.problem, options.participation, options.settings)
        methods.algorithm(options.rule, options.method)
        methods.local_work(options.method)
        execution.devices_for(1, options.settings.devices, 1)
        for file, digest in self._files(options).items():
            if self.grid.files.get(file, digest) != digest:
                raise BadInput(
                    f"{file} is not the file it was when this grid was written (its SHA-256 differs); to use it as "
                    f"it is now, remove it from {FILES} in the grid"
                )

    def _point(self, values: Mapping[str, Any], options: RunOptions) -> Point:
        with _named(values):
            settings, work = options.settings, methods.local_work(options.method)
            problem, federation = self._deal(options.problem, settings.seed)
            participation, strategy = cohort(options.participation, federation.workers)
            check_work(work, federation)
            task = Task(
                methods.algorithm(options.rule, options.method),
                self._model(problem, federation.classes),
                federation,
                strategy,
                work,
                settings,
                links_of(settings, federation.workers),
            )
            self._fitting.check(task)
        filled = replace(options, problem=problem, participation=participation)
        return Point(values, task, complete_config(filled) | self._sums(options))

    def _deal(self, options: ProblemOptions, seed: int) -> tuple[ProblemOptions, Federation]:
        key = (replace(options, model="", augment=None), seed)
        if key not in self._dealt:
            self._dealt[key] = deal(options, seed, self._load)
        problem, federation = self._dealt[key]
        return replace(problem, model=options.model, augment=options.augment), federation

    def _load(self, name: str, workers: int, seed: int) -> Dataset:
        # Only synthetic data depend on the seed; all others are loaded once.
        key = (name, workers, seed) if name.startswith("synthetic") else name
        if key not in self._data:
            self._data[key] = self._fetch(name, workers=workers, seed=seed)
        return self._data[key]

    def _model(self, options: ProblemOptions, classes: int | None) -> Model:
        key = (options.model, options.augment, classes)
        if key not in self._models:
            self._models[key] = model(options, classes)
        return self._models[key]

    def _sums(self, options: RunOptions) -> dict[str, Any]:
        """The SHA-256 of the files that the options name, as a run's config.yaml keeps them."""
        flat = flatten(options)
        key = tuple(flat[name] for name in ("dataset", "model", "sampling", "profile", "algorithm"))
        if key not in self._hashes:
            named = {"algorithm": options.rule.algorithm}
            self._hashes[key] = file_hashes(
                options.problem, options.participation.sampling, options.settings.profile, named, {}
            )
        return self._hashes[key]

    def _files(self, options: RunOptions) -> dict[str, str]:
        flat = flatten(options)
        return {str(flat[HASHES[name]]): digest for name, digest in self._sums(options).items()}


@contextmanager
def _named(values: Mapping[str, Any]) -> Iterator[None]:
    """Says in a complaint of which run it is."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{label(values)}: {error}") from error


def complete_grid(grid: Grid, points: list[Point]) -> dict[str, Any]:
    """The grid as its file keeps it: axes first, then what is the same for all runs, nothing left open.

    An option that was not given and comes out differently for different runs stays open: the others decide it.
    """
    configs = [point.config or {} for point in points]
    told = [dict(each) for each in grid.runs]
    varied = {*grid.axes, *(name for each in told for name in each)}
    left_open = flatten(RunOptions()) | grid.settings
    settings = {
        name: value if all(config[name] == value for config in configs) else left_open[name]
        for name, value in configs[0].items()
        if name not in HASHES and name not in varied
    }
    files = {
        str(config[option]): config[name]
        for config in configs
        for name, option in HASHES.items()
        if name in config
    }
    return {
        **grid.axes,
        **({RUNS: told} if told else {}),
        **settings,
        **({FILES: files} if files else {}),
    }
