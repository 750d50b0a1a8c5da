"""Table 1: the convergence rates of eleven methods, as functions (`enlist.theory.table1`). It takes no runs."""

from enlist.studies.paper.recipe import Recipe
from enlist.studies.paper.setting import Scale, Setting


def runs(scale: Scale) -> list[Setting]:
    """None."""
    return []


RECIPE = Recipe("table1", "Convergence rates and communication of eleven methods", runs)
