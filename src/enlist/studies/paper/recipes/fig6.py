"""Figure 6: ResNet-18 on CIFAR-10 over local epochs, i.i.d. and two shards a worker.

1, 5 and 10 local epochs, 10 of 100 workers a round, rates 0.1 and 1. The paper sees local steps help a little.

Found: five and ten epochs are better than one on both. Ten are ahead of five mostly in the first 20 rounds: on
i.i.d. data they end at 59%, five at 62%, one at 48%; on two shards a worker at 28, 29 and 22% (means of the last 10
rounds). 12 runs, 2 seeds: 8.5 device minutes on one H200.
"""

from enlist.studies.paper.recipe import EPOCHS, PARTIAL_COHORT, Line, Panel, Recipe, where
from enlist.studies.paper.recipes.fig5 import PARTITIONS
from enlist.studies.paper.setting import Scale, Setting


def runs(scale: Scale) -> list[Setting]:
    """Every partition and number of epochs."""
    return [
        *scale.settings(
            "cifar10",
            scale.image_model,
            partition=list(PARTITIONS),
            cohort=PARTIAL_COHORT,
            local_epochs=EPOCHS,
        )
    ]


def panels(scale: Scale) -> list[Panel]:
    """A column a partition."""
    return [
        Panel(
            title,
            [
                Line(
                    f"K = {epochs}",
                    where(scale.image_model, partition, PARTIAL_COHORT, epochs, "cifar10"),
                    color,
                )
                for color, epochs in enumerate(EPOCHS)
            ],
        )
        for partition, title in PARTITIONS.items()
    ]


RECIPE = Recipe("fig6", "CIFAR-10 over local epochs", runs, panels, metrics=("test_accuracy",))
