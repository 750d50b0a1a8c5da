"""All recipes by name, in the order in which they are made."""

from enlist.studies.paper import (
    choices,
    fig1,
    fig2,
    fig3,
    fig4,
    fig5,
    fig6,
    fig7,
    table1,
    table2,
    table3,
    unbalanced,
)

RECIPES = {
    each.RECIPE.name: each.RECIPE
    for each in (choices, fig1, fig2, fig3, fig4, unbalanced, table1, table3, table2, fig5, fig6, fig7)
}
