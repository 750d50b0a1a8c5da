"""What the paper leaves unsaid, and how it was chosen: the batch size for MNIST, by a search.

Table 2 says how many rounds FedAvg took to 95%. For each batch size its cells are run with the 2NN and the CNN (LR
cannot reach 95%), seed 0. Rule: the batch size whose rounds are nearest to the table's, by the mean of |log2(rounds /
paper's rounds)|; a cell not reached counts with the rounds it was run for. It is kept for all of MNIST.
Batches of fewer than 10 rows were not tried. 32 runs: 1.5 device minutes on one H200.

Not searched: 50 for CIFAR-10, as in McMahan et al. 2016, whose way to deal CIFAR-10 the paper takes; pixels from 0 to
1, no augmentation; LR starts from zeros, the others from He's normal initialisation (LeCun's in the last layer);
group normalisation in ResNet-18; SCAFFOLD's option II; a partial last batch counts with its true size.
"""

import math
from collections.abc import Mapping

from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipe import Recipe
from enlist.studies.paper.setting import Scale, Setting
from enlist.studies.paper.table2 import ROWS, TARGETS, Row

BATCHES = (10, 20, 50, 100)
ROUNDS = 40
CELLS = [row for row in ROWS if row.dataset == "mnist" and row.model != "logistic"]


def runs(scale: Scale) -> list[Setting]:
    """Every batch size in every cell."""
    batches = BATCHES if scale.name == "full" else (10, 20)
    rounds = min(ROUNDS, *(scale.extents[row.model].rounds for row in CELLS))
    return [
        setting
        for row in CELLS
        for setting in scale.settings(
            "mnist",
            row.model,
            seeds=1,
            batch=batches,
            partition=row.partition,
            cohort=row.cohort,
            local_epochs=5,
            rounds=rounds,
        )
    ]


def distances(raw: Raw, scale: Scale) -> dict[int, float]:
    """Of each batch size that has all its cells: how far its rounds are from the table's."""
    wanted = runs(scale)
    found: dict[int, float] = {}
    for batch in dict.fromkeys(setting.batch for setting in wanted):
        own = [setting for setting in wanted if setting.batch == batch]
        if not raw.missing(own):
            found[batch] = sum(_distance(raw, setting) for setting in own) / len(own)
    return found


def nearest(distances: Mapping[int, float]) -> int:
    """The batch size that the rule chooses."""
    return min(distances, key=lambda batch: (distances[batch], batch))


def _distance(raw: Raw, setting: Setting) -> float:
    rounds = raw.curves[setting].rounds_to(TARGETS["mnist"]) or setting.rounds
    return abs(math.log2(rounds / _row(setting).fedavg[0]))


def _row(setting: Setting) -> Row:
    return next(
        row
        for row in CELLS
        if (row.model, row.partition, row.cohort) == (setting.model, setting.partition, setting.cohort)
    )


RECIPE = Recipe("choices", "The batch size, chosen by table 2", runs)
