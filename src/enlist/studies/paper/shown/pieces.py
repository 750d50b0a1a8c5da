"""What each recipe shows beside curves: bars, tables, sentences, and what a terminal prints of it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from enlist.report.paper.bars import Bar
from enlist.report.paper.page import Grid
from enlist.report.paper.tables import Table
from enlist.studies.paper.raw import Raw
from enlist.studies.paper.setting import Scale
from enlist.studies.paper.shown.tabled import divergence_rows, table1, table3_of
from enlist.studies.paper.shown.tabled_choices import beginning_words, choice_grids, choice_words
from enlist.studies.paper.shown.tabled_costs import bars, method_rows, table2_of
from enlist.studies.paper.shown.tabled_goals import distance_rows, goal_grids, goal_words
from enlist.studies.paper.shown.tabled_own import option_words, scaffold_rows, start_rows


def _nothing(raw: Raw, scale: Scale) -> Sequence[Grid]:
    return ()


def _silent(raw: Raw, scale: Scale) -> Sequence[str]:
    return ()


class Pieces(NamedTuple):
    """Of one recipe, each from the raw metrics.

    Args:
        bars: a picture of bars instead of curves; what they are measured to, and how to read them.
        table: one that is also left as CSV and LaTeX.
        grids: smaller ones of the page.
        words: sentences below what the recipe says of itself.
        printed: tables as eighty columns of a terminal hold them.
    """

    bars: Callable[[Raw, Scale], tuple[list[Bar], str, str]] | None = None
    table: Callable[[Raw, Scale], Table] | None = None
    grids: Callable[[Raw, Scale], Sequence[Grid]] = _nothing
    words: Callable[[Raw, Scale], Sequence[str]] = _silent
    printed: Callable[[Raw, Scale], Sequence[Grid]] = _nothing


def pieces_of(name: str) -> Pieces:
    """Those of a recipe; a figure of curves has none."""
    return PIECES.get(name, Pieces())


def _choice_words(raw: Raw, scale: Scale) -> list[str]:
    return [choice_words(raw, scale), beginning_words(raw, scale)]


def _starts(raw: Raw, scale: Scale) -> list[Grid]:
    return [start_rows(raw, scale)]


def _scaffold(raw: Raw, scale: Scale) -> list[Grid]:
    return [scaffold_rows(raw, scale)]


def _rates(raw: Raw, scale: Scale) -> list[Grid]:
    """The rates of the eleven analyses, without the rounds that follow from them."""
    shown = ("analysis", "data", "rate, all workers", "rate, some of them")
    table = table1()
    places = [table.heads.index(head) for head in shown]
    return [(shown, [[row[place] for place in places] for row in table.rows])]


def _best_of_grid(raw: Raw, scale: Scale) -> list[Grid]:
    table = table3_of(raw, scale)
    return [(table.heads, table.rows)]


PIECES = {
    "choices": Pieces(grids=choice_grids, words=_choice_words, printed=choice_grids),
    "fig7": Pieces(bars=bars),
    "goals": Pieces(
        grids=goal_grids,
        words=lambda raw, scale: [goal_words(raw, scale)],
        printed=lambda raw, scale: [distance_rows(raw, scale)],
    ),
    "scaffold": Pieces(
        grids=_scaffold, words=lambda raw, scale: [option_words(raw, scale)], printed=_scaffold
    ),
    "starts": Pieces(grids=_starts, printed=_starts),
    "table1": Pieces(table=lambda raw, scale: table1(), printed=_rates),
    "table2": Pieces(table=table2_of, printed=lambda raw, scale: [method_rows(raw, scale)]),
    "table3": Pieces(
        table=table3_of, grids=lambda raw, scale: [divergence_rows(raw, scale)], printed=_best_of_grid
    ),
}
