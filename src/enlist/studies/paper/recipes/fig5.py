"""Figure 5: ResNet-18 on CIFAR-10 over the workers a round, i.i.d. and two shards a worker.

n = 10, 50 and 100 of 100 workers, rates 0.1 and 1, 5 local epochs: those of table 2, whose runs are the n = 10 ones
(the paper's appendix says 10 epochs, which takes twice as long); n = 10 also at worker rates of 0.03 and 0.3. It sees
accuracy grow with n, and fall dramatically for few workers on skewed data.

Found: on i.i.d. data n hardly matters, 62% at the end for each. On two shards a worker n = 100 ends at 37%, n = 50 at
34%, n = 10 at 29% on average over two seeds (means of the last ten rounds), and the smaller n, the more up and down.
8 runs, 2 seeds (n = 50 and 100: 1): 19.7 device minutes on one H200. The other worker rates are not run yet.
"""

from enlist.studies.paper.recipe import FULL_COHORT, PARTIAL_COHORT, Line, Panel, Recipe, where
from enlist.studies.paper.setting import WORKER_LR, Scale, Setting

COHORTS = (PARTIAL_COHORT, 50, FULL_COHORT)
# What n = 10 is also run at, once, to see what other rates would have given.
WORKER_LRS = (0.03, WORKER_LR, 0.3)
PARTITIONS = {"iid": "i.i.d.", "shards:2": "two shards a worker"}


def runs(scale: Scale) -> list[Setting]:
    """One seed where many workers take part: they vary little, and cost much."""
    model, partitions = scale.image_model, list(PARTITIONS)
    few = scale.settings("cifar10", model, partition=partitions, cohort=PARTIAL_COHORT, local_epochs=5)
    many = scale.settings("cifar10", model, partition=partitions, cohort=COHORTS[1:], local_epochs=5, seeds=1)
    return [*few, *many, *(setting for partition in partitions for setting in rated(scale, partition))]


def rated(scale: Scale, partition: str) -> list[Setting]:
    """10 workers a round at each worker rate, seed 0."""
    return [
        *scale.settings(
            "cifar10",
            scale.image_model,
            seeds=1,
            partition=partition,
            cohort=PARTIAL_COHORT,
            local_epochs=5,
            worker_lr=WORKER_LRS,
        )
    ]


def panels(scale: Scale) -> list[Panel]:
    """A column a partition."""
    return [
        Panel(
            title,
            [
                Line(f"n = {n}", where(scale.image_model, partition, n, 5, "cifar10"), color)
                for color, n in enumerate(COHORTS)
            ],
        )
        for partition, title in PARTITIONS.items()
    ]


RECIPE = Recipe("fig5", "CIFAR-10 over the workers a round", runs, panels, metrics=("test_accuracy",))
