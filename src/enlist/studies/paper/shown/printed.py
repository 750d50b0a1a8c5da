"""The tables of a recipe as eighty columns of a terminal hold them; the files and the page say more."""

from enlist.report.paper.page import Grid
from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipe import Recipe
from enlist.studies.paper.setting import Scale
from enlist.studies.paper.shown.tabled import table1, table3_of
from enlist.studies.paper.shown.tabled_choices import choice_grids
from enlist.studies.paper.shown.tabled_costs import method_rows
from enlist.studies.paper.shown.tabled_starts import start_rows


def printed(recipe: Recipe, raw: Raw, scale: Scale) -> list[Grid]:
    """Heads and rows of each; none for a figure."""
    if recipe.name == "choices":
        return choice_grids(raw, scale)
    if recipe.name == "starts":
        return [start_rows(raw, scale)]
    if recipe.name == "table1":
        return [_rates()]
    if recipe.name == "table2":
        return [method_rows(raw, scale)]
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
