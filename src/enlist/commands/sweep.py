"""`enlist sweep`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from enlist.commands.shared import hush, is_live, no_loose_words, print_json, quiet, stop, unused
from enlist.errors import BadInput
from enlist.options.study import GridOptions, SweepOutput
from enlist.words import typed_several

# Options whose values hold commas of their own, and options that have one value.
WHOLE = ("dataset", "local_schedule")
SINGLE = {*GridOptions.__dataclass_fields__, *SweepOutput.__dataclass_fields__, "deterministic"}


def read(group: type, words: Iterable[str]) -> tuple[dict[str, list[Any]], list[str]]:
    """What was typed, several values an option."""
    return typed_several(group, words, single=SINGLE, whole=WHOLE)


def act(given: dict[str, list[Any]], loose: list[str]) -> None:
    """Runs the grid, then shows what came of it."""
    no_loose_words("sweep", loose)
    asked = {name: values[-1] for name, values in given.items() if name in SINGLE - {"deterministic"}}
    as_json = bool(asked.get("json"))
    grid = _resumed(given) if "resume" in asked else _grid(given, asked)
    out = Path(asked.get("resume") or asked.get("out") or unused("sweep"))
    hush()
    from enlist.launch.sweep import launch_sweep
    from enlist.report.sweep.files import GRID_FILE

    try:
        with quiet(as_json):
            sweep = launch_sweep(
                grid,
                out,
                live=is_live(as_json),
                resume="resume" in asked,
                tensorboard=bool(asked.get("tensorboard")),
            )
    except KeyboardInterrupt:
        if not (out / GRID_FILE).exists():
            raise
        stop(f"interrupted; go on with: enlist sweep --resume {out}", 130)
    show(sweep, out, as_json)


def show(sweep: Any, out: Path, as_json: bool) -> None:
    """Draws the sweep's picture and page, writes its tables and prints its outcome."""
    from enlist.report.sweep.files import print_outcome, write_all

    facts = write_all(sweep, out)
    if as_json:
        print_json(facts | {"folder": str(out)})
        return
    from rich.console import Console

    print_outcome(sweep, out, Console())


def _resumed(given: dict[str, list[Any]]) -> Any:
    """The grid of the sweep that is gone on with: nothing of it can change."""
    from enlist.launch.grid import checked, read_grid
    from enlist.report.sweep.files import GRID_FILE

    folder = Path(given["resume"][-1])
    if more := next((name for name in given if name not in ("resume", "json", "tensorboard")), None):
        raise BadInput(
            f"resume and {more.replace('_', '-')} are both given: a resumed sweep goes on as it was begun; for "
            f"another one type --grid {folder / GRID_FILE} and a new --out"
        )
    if not (folder / GRID_FILE).is_file():
        raise BadInput(f"resume {folder}: there is no sweep in that folder (it has no {GRID_FILE})")
    return checked(read_grid(folder / GRID_FILE))


def _grid(given: dict[str, list[Any]], asked: dict[str, Any]) -> Any:
    """What was typed over what the files say."""
    from enlist.launch.grid import Grid, checked, over, read_grid, with_seeds

    typed = Grid({name: values for name, values in given.items() if name not in asked})
    grid = Grid({})
    for name in ("config", "grid"):
        if asked.get(name) is not None:
            grid = over(grid, read_grid(Path(asked[name])))
    if (seeds := asked.get("seeds")) is not None and "seed" not in typed.values:
        # The seeds of a file give way to those asked for; where they begin does not.
        typed = over(Grid({"seed": grid.values.get("seed", [0])[:1]}), typed)
    grid = over(grid, typed)
    return checked(grid if seeds is None else Grid(with_seeds(grid.values, seeds), grid.runs, grid.files))
