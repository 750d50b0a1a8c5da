"""Figure 2: LR, 2NN and CNN on MNIST over p, all workers and 10 of them, 5 local epochs, rates 0.1 and 1.

The paper sees all three converge, p = 5 next to p = 10, and p = 1 unstable, for the CNN most.

Found: all three converge, the fewer digits the slower. At p = 1 the CNN ends above the 2NN; with all workers its
accuracy changes most of the three from round to round, with 10 of them least. 104 runs, 5 seeds (CNN 3): 5.8 device
minutes on one H200.
"""

from enlist.studies.paper.recipe import (
    DEGREES,
    FULL_COHORT,
    MODELS,
    PARTIAL_COHORT,
    THREE,
    Panel,
    Recipe,
    by_degree,
    on_mnist,
)
from enlist.studies.paper.setting import Scale, Setting


def runs(scale: Scale) -> list[Setting]:
    """Every model, degree and number of workers."""
    degrees = [f"digits:{p}" for p in DEGREES]
    return on_mnist(scale, partition=degrees, cohort=(FULL_COHORT, PARTIAL_COHORT), local_epochs=5)


def panels(scale: Scale) -> list[Panel]:
    """A column a model."""
    return [Panel(MODELS[model], by_degree(model)) for model in THREE]


RECIPE = Recipe("fig2", "Three models on MNIST over the digits a worker holds", runs, panels)
