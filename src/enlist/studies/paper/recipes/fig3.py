"""Figure 3: LR, 2NN and CNN on MNIST over local epochs, all 100 workers, rates 0.1 and 1.

1, 5 and 10 local epochs at p = 5 and p = 1 (the paper does not say which p). It sees local steps help, a little.

Found: five epochs are better than one at p = 5, ten hardly better than five; at p = 1 they do not help, on average
over the rounds. The CNN swings at p = 1 with any number of them. 78 runs, 5 seeds (CNN 3): 6.7 device minutes on
one H200, without some 1.5 of two runs of the CNN that was not counted.
"""

from enlist.studies.paper.recipe import EPOCHS, FULL_COHORT, MODELS, THREE, Panel, Recipe, by_epochs, on_mnist
from enlist.studies.paper.setting import Scale, Setting

SHOWN_DEGREES = (5, 1)


def over_epochs(name: str, cohort: int) -> Recipe:
    """The three models over local epochs with so many workers a round."""

    def runs(scale: Scale) -> list[Setting]:
        degrees = [f"digits:{p}" for p in SHOWN_DEGREES]
        return on_mnist(scale, partition=degrees, cohort=cohort, local_epochs=EPOCHS)

    def panels(scale: Scale) -> list[Panel]:
        return [Panel(MODELS[model], by_epochs(model, (cohort,), SHOWN_DEGREES)) for model in THREE]

    return Recipe(name, f"Three models on MNIST over local epochs, n = {cohort}", runs, panels)


RECIPE = over_epochs("fig3", FULL_COHORT)
