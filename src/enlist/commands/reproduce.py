"""`enlist reproduce`."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enlist.commands.shared import hush, is_live, print_json, quiet, stop, unused
from enlist.errors import BadInput, unknown
from enlist.options import unflatten
from enlist.options.reproduce import ReproduceExtent, ReproduceOutput

if TYPE_CHECKING:
    from enlist.launch.problem import Load
    from enlist.studies.paper.recipe import Recipe
    from enlist.studies.paper.setting import Scale

ALL, VERDICTS = "all", "verdicts"
# What a folder says of itself: its scale, and which recipes were asked for.
PLAN_FILE = "reproduce.yaml"
KEPT = Path("results/paper")


def act(given: dict[str, Any], names: list[str]) -> None:
    """Runs what the recipes need, or nothing for verdicts, then shows what came of it."""
    if not names:
        raise BadInput(
            "reproduce: name a figure or a table, for instance: enlist reproduce fig1 (all: everything)"
        )
    asked, extent = unflatten(ReproduceOutput, given), unflatten(ReproduceExtent, given)
    hush()
    if VERDICTS in names:
        _verdicts(names, extent.scale, asked)
    else:
        _run(_recipes(names), extent.scale or "small", asked)


def _recipes(names: Sequence[str]) -> list["Recipe"]:
    from enlist.studies.paper.catalogue import RECIPES

    for name in names:
        if name not in RECIPES and name != ALL:
            order = sorted(RECIPES, key=lambda known: (known[0] not in "ft", known))
            raise unknown("figure or table", name, [*order, ALL, VERDICTS])
    return [recipe for recipe in RECIPES.values() if ALL in names or recipe.name in names]


def _run(recipes: list["Recipe"], named: str, asked: ReproduceOutput) -> None:
    from enlist.engine.folder import write_config
    from enlist.launch.reproduce import carry_out
    from enlist.studies.paper.setting import SCALES

    scale, out = SCALES[named], Path(asked.out or unused("reproduce"))
    before = _asked_before(out, named)
    load = _loaded(recipes, scale, out)
    names = [recipe.name for recipe in recipes]
    if not asked.json and named == "small":
        print("small scale: fewer rows, rounds and seeds. --scale full is the real thing, meant for a GPU.")
    out.mkdir(parents=True, exist_ok=True)
    write_config(out / PLAN_FILE, {"scale": named, "recipes": list(dict.fromkeys([*before, *names]))})
    try:
        with quiet(asked.json):
            carry_out(recipes, scale, out, live=is_live(asked.json), load=load)
    except KeyboardInterrupt:
        again = f"enlist reproduce {' '.join(names)} --scale {named} --out {shlex.quote(str(out))}"
        stop(f"interrupted; go on with: {again}", 130)
    _show(out, scale, [*before, *names], recipes, asked.json)


def _verdicts(names: Sequence[str], named: str | None, asked: ReproduceOutput) -> None:
    from enlist.studies.paper.setting import SCALES

    if len(names) > 1:
        other = next((name for name in names if name != VERDICTS), VERDICTS)
        raise BadInput(
            f"reproduce verdicts {other}: verdicts runs nothing and comes with every run; type it alone"
        )
    if asked.out is None and not KEPT.is_dir():
        raise BadInput(
            f"verdicts: there is no {KEPT} here; name the folder of a reproduction, for instance: enlist reproduce "
            "verdicts --out runs/NAME"
        )
    out = Path(asked.out or KEPT)
    if not (out / PLAN_FILE).is_file():
        raise BadInput(f"out = {out}: holds no reproduction (it has no {PLAN_FILE}); {_hint(out)}")
    known, before = _plan(out)
    if named is not None and named != known:
        raise _other_scale(out, known, named)
    _show(out, SCALES[known], before, [], asked.json)


def _plan(out: Path) -> tuple[str, list[str]]:
    """The scale of a reproduction, and the recipes that it was made for."""
    from enlist.engine.folder import read_config
    from enlist.studies.paper.catalogue import RECIPES
    from enlist.studies.paper.setting import SCALES

    plan = read_config(out / PLAN_FILE)
    scale, names = plan.get("scale"), plan.get("recipes", [])
    if not isinstance(scale, str) or scale not in SCALES or not isinstance(names, list):
        raise BadInput(f"{out / PLAN_FILE}: damaged; write 'scale: full' or 'scale: small' into it")
    return str(scale), [str(name) for name in names if name in RECIPES]


def _asked_before(out: Path, scale: str) -> list[str]:
    """The recipes that a folder was made for so far; one with anything else in it is refused."""
    from enlist.launch.run import check_folder

    if not (out / PLAN_FILE).is_file():
        if out.is_dir() and any(out.iterdir()):
            raise BadInput(f"out = {out}: that folder holds something else; {_hint(out, 'name a new one')}")
        check_folder(out)
        return []
    known, before = _plan(out)
    if known != scale:
        raise _other_scale(out, known, scale)
    return before


def _hint(out: Path, otherwise: str = "make one: enlist reproduce fig1") -> str:
    """What to do about a folder without a plan: raw metrics may have been put there by hand."""
    if (out / "raw").is_dir():
        return f"if its raw metrics are the paper's, write 'scale: full' or 'scale: small' into {out / PLAN_FILE}"
    return otherwise


def _other_scale(out: Path, known: str, asked: str) -> BadInput:
    return BadInput(
        f"scale = {asked}: {out} holds a reproduction at {known} scale; give --scale {known}, or name another folder"
    )


def _loaded(recipes: Sequence["Recipe"], scale: "Scale", out: Path) -> "Load":
    """Data sets, each loaded once; those of runs that are missing at once, before anything is written."""
    from enlist.launch.reproduce import RAW
    from enlist.problem import datasets
    from enlist.problem.dataset import Dataset
    from enlist.studies.paper import raw

    known = raw.read(out / RAW)
    found: dict[str, Dataset] = {}

    def load(name: str, workers: int, seed: int) -> Dataset:
        if name not in found:
            found[name] = datasets.load(name, workers=workers, seed=seed)
        return found[name]

    for setting in known.missing(setting for recipe in recipes for setting in recipe.runs(scale)):
        load(setting.dataset, setting.workers, setting.seed)
    return load


def _show(out: Path, scale: "Scale", names: Sequence[str], asked: Sequence["Recipe"], as_json: bool) -> None:
    """Writes figures, tables, verdicts and page, and prints what bears on the recipes that were asked for.

    Args:
        asked: none: all verdicts and no table.
    """
    from enlist.launch.reproduce import RAW
    from enlist.studies.paper import raw
    from enlist.studies.paper.catalogue import every
    from enlist.studies.paper.shown.gathered import shown, write_all
    from enlist.studies.paper.shown.pieces import pieces_of

    kept = raw.read(out / RAW).only(every(scale))
    facts = write_all(out, scale, shown(kept, scale, names))
    if as_json:
        print_json({"folder": str(out)} | facts)
        return
    from rich.console import Console

    console = Console()
    if said := _about(asked, facts["verdicts"]):
        console.print(_table(said))
    for heads, rows in (grid for recipe in asked for grid in pieces_of(recipe.name).printed(kept, scale)):
        console.print(_plain(heads, rows))
    if facts["left_out"]:
        console.print(f"left out: {facts['left_out']} runs in raw/ that no recipe has at {scale.name} scale")
    _print_files(facts["files"], out, console)


def _about(recipes: Sequence["Recipe"], verdicts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that these recipes bear on; all where there are none."""
    names = {recipe.name for recipe in recipes}
    return [each for each in verdicts if not names or names.intersection((*each["recipes"], *each["shown"]))]


def _table(verdicts: Sequence[dict[str, Any]]) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for head in ("", "claim", "verdict"):
        table.add_column(head, overflow="fold", no_wrap=head == "verdict")
    styles = {"holds": "green", "holds in part": "yellow", "not run": "dim"}
    for each in verdicts:
        verdict = Text(each["verdict"], style=styles.get(each["verdict"], "red"))
        said = Text.assemble(each["claim"], "\n", (each["statistic"], "dim"))
        table.add_row(Text(str(each["number"])), said, verdict)
    return table


def _plain(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    # As text: rich would take what stands in brackets for markup.
    for head in heads:
        table.add_column(Text(head))
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _print_files(files: Sequence[str], out: Path, console: Any) -> None:
    from rich.text import Text

    for name in files:
        # Never wrapped: a path broken over two lines cannot be clicked or copied.
        console.print(Text(str(out / name)), soft_wrap=True)
    console.print(Text("raw metrics ", style="dim") + Text(str(out / "raw")), soft_wrap=True)
