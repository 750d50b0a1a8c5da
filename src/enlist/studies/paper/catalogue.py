"""All recipes by name, in the order in which they are made."""

from enlist.studies.paper.recipes import (
    choices,
    fig1,
    fig2,
    fig3,
    fig4,
    fig5,
    fig6,
    fig7,
    goals,
    scaffold,
    starts,
    table1,
    table2,
    table3,
    unbalanced,
)
from enlist.studies.paper.setting import Scale, Setting

RECIPES = {
    each.RECIPE.name: each.RECIPE
    for each in (
        choices,
        fig1,
        fig2,
        fig3,
        fig4,
        unbalanced,
        table1,
        table3,
        table2,
        starts,
        scaffold,
        goals,
        fig5,
        fig6,
        fig7,
    )
}


def every(scale: Scale) -> list[Setting]:
    """All runs that any of them needs, each once."""
    return list(dict.fromkeys(setting for recipe in RECIPES.values() for setting in recipe.runs(scale)))
