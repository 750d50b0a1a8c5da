"""Figure 3: LR, 2NN and CNN on MNIST over local epochs, all 100 workers, rates 0.1 and 1.

1, 5 and 10 local epochs at p = 5 and p = 1 (the paper does not say which p). It sees local steps help, a little.
"""

from enlist.studies.paper.fig2 import THREE
from enlist.studies.paper.recipe import EPOCHS, FULL_COHORT, MODELS, Panel, Recipe, by_epochs
from enlist.studies.paper.setting import Scale, Setting

SHOWN_DEGREES = (5, 1)


def runs(scale: Scale) -> list[Setting]:
    """Every model, degree and number of epochs."""
    return [
        setting
        for model in THREE
        for setting in scale.settings(
            "mnist",
            model,
            partition=[f"digits:{p}" for p in SHOWN_DEGREES],
            cohort=FULL_COHORT,
            local_epochs=EPOCHS,
        )
    ]


def panels(scale: Scale) -> list[Panel]:
    """A column a model."""
    return [Panel(MODELS[model], by_epochs(model, (FULL_COHORT,), SHOWN_DEGREES)) for model in THREE]


RECIPE = Recipe("fig3", "Three models on MNIST over local epochs, n = 100", runs, panels)
