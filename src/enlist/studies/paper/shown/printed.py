"""The tables of a recipe as eighty columns of a terminal hold them; the files and the page say more."""

from enlist.report.paper.page import Grid
from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipe import DATASETS, MODELS, Recipe
from enlist.studies.paper.recipes.table2 import NAMES
from enlist.studies.paper.setting import Scale
from enlist.studies.paper.shown.tabled import table1, table3_of
from enlist.studies.paper.shown.tabled_choices import choice_grids
from enlist.studies.paper.shown.tabled_costs import SPLITS, brackets
from enlist.studies.paper.shown.tabled_starts import start_rows
from enlist.studies.paper.statistics.table2 import Cell, best_accuracy, row_runs, table2_cells


def printed(recipe: Recipe, raw: Raw, scale: Scale) -> list[Grid]:
    """Heads and rows of each; none for a figure."""
    if recipe.name == "choices":
        return choice_grids(raw, scale)
    if recipe.name == "starts":
        return [start_rows(raw, scale)]
    if recipe.name == "table1":
        return [_rates()]
    if recipe.name == "table2":
        return [_costs(raw, scale)]
    if recipe.name == "table3":
        table = table3_of(raw, scale)
        return [(table.heads, table.rows)]
    return []


def _rates() -> Grid:
    """The rates of the eleven analyses, without the rounds that follow from them."""
    shown = ("analysis", "data", "rate, all workers", "rate, some of them")
    table = table1()
    places = [table.heads.index(head) for head in shown]
    return shown, [[row[place] for place in places] for row in table.rows]


def _costs(raw: Raw, scale: Scale) -> Grid:
    """Table 2, a row a method; what was not run is left out."""
    heads = ["data", "n", "model", "method", "rounds [paper]", "MiB [paper]", "seconds [paper]"]
    return heads, [_method(cell, raw, scale) for cell in table2_cells(raw, scale) if cell.rounds]


def _method(cell: Cell, raw: Raw, scale: Scale) -> list[str]:
    rounds, *costs = brackets(cell)
    best = best_accuracy(row_runs(raw, scale, cell.row, cell.method))
    if cell.median is None and best is not None:
        rounds += f"\nbest {100 * best:.1f}%"
    if cell.diverged:
        rounds += f"\n{cell.diverged} diverged"
    data = f"{DATASETS[cell.row.dataset]}, {SPLITS[cell.row.partition]}"
    return [data, f"{cell.row.cohort}", MODELS[cell.model], NAMES[cell.method], rounds, *costs]
