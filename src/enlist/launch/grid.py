"""The grid of a sweep: options with one value or several, from files and as typed, and its combinations."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from enlist.engine.folder import read_config
from enlist.errors import BadInput
from enlist.limits import MOST_SEEDS
from enlist.options import HASHES, RunOptions, flatten
from enlist.report.sweep.outcome import SEED, axes_of, label, word
from enlist.words import kept, kept_several

MOST_RUNS = 10_000
# What a grid file may hold besides options: combinations one by one, and the SHA-256 of files that options name.
RUNS, FILES, SEEDS = "runs", "files", "seeds"
# Set once for the process, so the same for all runs.
ALIKE = ("deterministic",)


@dataclass(frozen=True)
class Grid:
    """What is to be run.

    Args:
        values: options by name, each with one value or several; several make an axis. Axes are in the order told.
        runs: combinations of further options, told one by one; none: nothing but the axes.
        files: the SHA-256 of files that options name, where these must still be what they were.
    """

    values: Mapping[str, Sequence[Any]]
    runs: Sequence[Mapping[str, Any]] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """Options with one value for all runs."""
        return {name: values[0] for name, values in self.values.items() if len(values) == 1}

    @property
    def axes(self) -> dict[str, list[Any]]:
        """Options with several."""
        return {name: list(values) for name, values in self.values.items() if len(values) > 1}

    def combinations(self) -> list[dict[str, Any]]:
        """What sets each run apart: the product of the axes, for each of the runs told one by one."""
        crossed = [dict(zip(self.axes, each, strict=True)) for each in itertools.product(*self.axes.values())]
        told = [dict(each) for each in self._told()] or [{}]
        every = [one | other for one in told for other in crossed]
        differing = axes_of(every)
        return [{name: each[name] for name in differing} for each in every]

    def options(self, combination: Mapping[str, Any]) -> dict[str, Any]:
        """All options of one run that are not left to us."""
        same = {name: value for each in self._told() for name, value in each.items()}
        return {**self.settings, **same, **combination}

    def _told(self) -> list[dict[str, Any]]:
        """The runs told one by one, each with all options that any of them names."""
        names = dict.fromkeys(name for each in self.runs for name in each)
        usual = flatten(RunOptions()) | self.settings
        return [{name: each.get(name, usual[name]) for name in names} for each in self.runs]


def read_grid(path: Path) -> Grid:
    """A grid from a YAML file: a list is an axis, all else a setting. A run's config.yaml is one without axes."""
    values = read_config(path)
    try:
        return made_of(values)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error


def made_of(values: dict[str, Any]) -> Grid:
    hashes = {HASHES[name]: values.pop(name) for name in HASHES if name in values}
    runs, files, seeds = (values.pop(name, None) for name in (RUNS, FILES, SEEDS))
    if not isinstance(runs, list | None) or not all(isinstance(each, dict) for each in runs or ()):
        raise BadInput(f"{RUNS}: must be a list of combinations, each with options as 'name: value'")
    if not isinstance(files, dict | None):
        raise BadInput(f"{FILES}: must be a mapping from files to their SHA-256")
    found: Mapping[str, Sequence[Any]] = kept_several(values)
    if seeds is not None:
        if isinstance(seeds, bool) or not isinstance(seeds, int):
            raise BadInput(f"{SEEDS} = {seeds}: must be a whole number")
        found = with_seeds(found, seeds)
    named = {str(found[option][0]): digest for option, digest in hashes.items() if option in found}
    return Grid(found, [kept(each) for each in runs or ()], named | (files or {}))


def with_seeds(values: Mapping[str, Sequence[Any]], seeds: int) -> dict[str, Sequence[Any]]:
    """With so many seeds from the given one on."""
    if not 1 <= seeds <= MOST_SEEDS:
        raise BadInput(f"seeds = {seeds}: must be from 1 to {MOST_SEEDS}")
    first = values.get(SEED, [0])
    if len(first) > 1:
        raise BadInput("seed and seeds are both given: name the seeds, or say how many there are")
    rest = {name: each for name, each in values.items() if name != SEED}
    # Seeds change fastest: those of a combination then come one after the other.
    return rest | {SEED: [first[0] + i for i in range(seeds)]}


def over(below: Grid, above: Grid) -> Grid:
    """One grid with another's options in place of its own."""
    values = dict(below.values)
    # Of the two ways to say how much a worker does, the later one wins.
    for one, other in (("local_steps", "local_epochs"), ("local_epochs", "local_steps")):
        if one in above.values and other not in above.values:
            values.pop(other, None)
    # A record says by itself how many take part.
    strategies = [str(each) for each in above.values.get("sampling", ())]
    if strategies and all(each.startswith("recorded:") for each in strategies):
        values = {name: each for name, each in values.items() if name not in ("cohort", "cohort_most")}
    runs = [{name: each[name] for name in each if name not in above.values} for each in below.runs]
    return Grid(
        values | dict(above.values),
        above.runs or (runs if any(runs) else ()),
        {**below.files, **above.files},
    )


def checked(grid: Grid) -> Grid:
    """Refuses what is no grid."""
    for name in map(str, grid.values.get("dataset", ())):
        if "," in name and not name.startswith("synthetic") and not Path(name).exists():
            # synthetic:ALPHA,BETA has a comma of its own.
            names = re.findall(r"synthetic:[^,]*,[^,]*|[^,]+", name)
            apart = " ".join(f"--dataset {each.strip()}" for each in names)
            raise BadInput(f"dataset = {name[:60]}: type it once for each data set: {apart[:120]}")
    for name, values in grid.axes.items():
        if name in ALIKE:
            raise BadInput(f"{name.replace('_', '-')} is the same for all runs of a sweep: give it once")
        if len(axes_of([{name: value} for value in values]).get(name, [])) < len(values):
            twice = next(value for value in values if list(values).count(value) > 1)
            raise BadInput(f"{name.replace('_', '-')}: {word(twice)} is there twice")
    if both := next((name for each in grid.runs for name in each if name in grid.axes), None):
        raise BadInput(f"{both} is an axis and is in {RUNS} too: name its values in one place")
    count = max(1, len(grid.runs))
    for values in grid.axes.values():
        count *= len(values)
    if count > MOST_RUNS:
        raise BadInput(f"sweep: {count:,} runs are more than {MOST_RUNS:,}; take fewer values")
    combinations = grid.combinations()
    if combinations == [{}]:
        raise BadInput(
            "sweep: nothing differs; give an option several values, such as --worker-lr 0.01,0.1, or use enlist run"
        )
    seen: set[str] = set()
    for each in combinations:
        if label(each) in seen:
            raise BadInput(f"{RUNS}: {label(each) or 'the same combination'} is there twice")
        seen.add(label(each))
    return grid
