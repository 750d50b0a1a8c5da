"""Everything that a reproduction leaves besides its raw metrics: figures, tables, verdicts, the page.

All of it is made from the raw metrics alone, so it can be made again anywhere.
"""

import importlib
import inspect
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from enlist.report.paper import tables as paper_tables
from enlist.report.paper.bars import draw_bars
from enlist.report.paper.figures import draw_curves
from enlist.report.paper.page import Exhibit, Judged, Reproduction, write_markdown, write_page
from enlist.report.paper.tables import Table
from enlist.report.record import write_whole
from enlist.studies.paper import raw as metrics
from enlist.studies.paper.catalogue import RECIPES, every
from enlist.studies.paper.claims.judging import NOT_RUN, Verdict
from enlist.studies.paper.claims.verdicts import verdicts
from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipe import Recipe
from enlist.studies.paper.setting import Scale
from enlist.studies.paper.shown.drawing import drawing, headline, warning
from enlist.studies.paper.shown.gathered_costs import cost_of, costs_of, environment
from enlist.studies.paper.shown.pieces import Pieces, pieces_of

RAW, RECIPES_ROOM = "raw", "enlist.studies.paper.recipes"
VERDICTS_FILE, ENVIRONMENT_FILE = "verdicts.json", "environment.json"
PAGE_FILE, MARKDOWN_FILE = "report.html", "reproduction.md"
OWN = ("goals", "scaffold", "starts", "unbalanced")
FOUND = "Found at full scale, by the runs that enlist keeps in results/paper:"


def shown(raw: Raw, scale: Scale, asked: Iterable[str]) -> list[Recipe]:
    """The recipes that were asked for, and those whose runs are all there anyway."""
    names = set(asked)
    return [
        recipe
        for recipe in sorted(RECIPES.values(), key=_place)
        if recipe.name in names or (recipe.runs(scale) and not raw.missing(recipe.runs(scale)))
    ]


def _place(recipe: Recipe) -> tuple[bool, bool, str]:
    """Choices first, as the rest depends on them; then as in the paper; our own studies last."""
    return recipe.name != "choices", recipe.name in OWN, recipe.name


def write_all(out: Path, scale: Scale, recipes: Sequence[Recipe]) -> dict[str, Any]:
    """Writes everything about these recipes into `out` from its raw metrics, and returns the summary.

    Args:
        recipes: as `shown` gives them.
    """
    there = metrics.read(out / RAW)
    raw = there.only(every(scale))
    groups = {curve.setting.group() for curve in raw}
    sittings = [each for each in metrics.sittings(out / RAW) if each.what in groups]
    judged = verdicts(raw, scale)
    files = [
        _keep(out, VERDICTS_FILE, {"scale": scale.name, "verdicts": [each._asdict() for each in judged]})
    ]
    exhibits = []
    for recipe in recipes:
        pieces = pieces_of(recipe.name)
        picture = _picture(recipe, pieces, raw, scale, out)
        table = None if pieces.table is None else pieces.table(raw, scale)
        files += [picture] if picture else []
        files += _write_table(table, out) if table is not None else []
        claims = [each.number for each in judged if each.bears_on(recipe.name)]
        exhibits.append(
            Exhibit(
                recipe.name,
                headline(recipe),
                [*description(recipe), *pieces.words(raw, scale)],
                picture,
                table,
                pieces.grids(raw, scale),
                claims,
                cost_of(recipe, raw, sittings, scale).words(),
            )
        )
    facts = environment(raw, sittings, recipes, scale) | {"left_out": len(there) - len(raw)}
    files.append(_keep(out, ENVIRONMENT_FILE, facts))
    found = _reproduction(raw, scale, recipes, judged, exhibits, facts)
    write_markdown(found, out / MARKDOWN_FILE)
    write_page(found, out / PAGE_FILE)
    return {
        "scale": scale.name,
        "recipes": [recipe.name for recipe in recipes],
        "runs": len(raw),
        "left_out": facts["left_out"],
        "diverged": facts["diverged"],
        "device_seconds": facts["device_seconds"],
        "wall_seconds": facts["wall_seconds"],
        "verdicts": [each._asdict() for each in judged],
        "files": [*files, MARKDOWN_FILE, PAGE_FILE],
    }


def _keep(out: Path, name: str, facts: dict[str, Any]) -> str:
    write_whole(out / name, (json.dumps(facts, indent=1, allow_nan=False) + "\n").encode())
    return name


def _picture(recipe: Recipe, pieces: Pieces, raw: Raw, scale: Scale, out: Path) -> str | None:
    name = f"figures/{recipe.name}.png"
    if pieces.bars is not None:
        bars, goal, notes = pieces.bars(raw, scale)
        draw_bars(headline(recipe), goal, bars, out / name, notes, warning(scale, recipe.runs(scale)))
    elif recipe.panels is not None:
        draw_curves(drawing(recipe, raw, scale), out / name)
    else:
        return None
    return name


def _write_table(table: Table, out: Path) -> list[str]:
    names = [f"tables/{table.name}.csv", f"tables/{table.name}.tex"]
    paper_tables.write_csv(table, out / names[0])
    paper_tables.write_latex(table, out / names[1])
    return names


def description(recipe: Recipe) -> list[str]:
    """What a recipe says of itself, in paragraphs; what was found is that of the runs kept in the repository."""
    own = importlib.import_module(f"{RECIPES_ROOM}.{recipe.name}")
    parts = [" ".join(part.split()) for part in inspect.cleandoc(own.__doc__ or "").split("\n\n")]
    return [part.replace("Found:", FOUND, 1) if part.startswith("Found:") else part for part in parts]


def _reproduction(
    raw: Raw,
    scale: Scale,
    recipes: Sequence[Recipe],
    judged: Sequence[Verdict],
    exhibits: Sequence[Exhibit],
    facts: dict[str, Any],
) -> Reproduction:
    known = [each for each in judged if each.verdict != NOT_RUN]
    lead = (
        f"Generalized FedAvg with two-sided learning rates: {len(raw):,} runs at {scale.name} scale, "
        f"{len(known)} of {len(judged)} claims judged. The paper's figures are not available to us, so what its text "
        "says of them is judged, claim by claim, by code from the raw metrics"
    )
    everything = [setting for recipe in recipes for setting in recipe.runs(scale)]
    made = [
        ["Machines", "; ".join(f"{name} ({each['runs']} runs)" for name, each in facts["machines"].items())]
    ]
    made += [
        ["Versions", ", ".join(f"{name} {number}" for name, number in each["versions"].items())]
        for each in facts["versions"]
        if each["versions"]
    ]
    if facts["left_out"]:
        made.append(
            ["Left out", f"{facts['left_out']} runs in raw/ that no recipe has at {scale.name} scale"]
        )
    names = "all" if len(recipes) == len(RECIPES) else " ".join(recipe.name for recipe in recipes)
    return Reproduction(
        f"{lead}.",
        warning(scale, everything),
        [Judged(*each[:5]) for each in judged],
        exhibits,
        costs_of(facts),
        "Device time is that of the runs alone; wall time has compiling, loading and files in it. A run that several "
        "recipes need is made once and counted in each of them, in the total once.",
        made,
        [f"enlist reproduce {names} --scale {scale.name}", "enlist reproduce verdicts --out FOLDER"],
    )
