"""What the paper leaves unsaid, and how it was chosen: the batch size of each data set, by a search.

Table 2 says how many rounds FedAvg took to 95% on MNIST and to 75% on CIFAR-10. For each batch size its cells are run
with the 2NN and the CNN (LR cannot reach 95%), and with ResNet-18; seed 0. Rule: the batch size whose rounds are
nearest to the table's, by the mean of |log2(rounds / paper's rounds)|; a cell not reached counts with the rounds it
was run for. It is kept for all runs on that data set. Batches of fewer than 10 rows were not tried.
MNIST: 32 runs, 1.5 device minutes on one H200.

Not searched: pixels from 0 to 1 on MNIST, standardised by channel on CIFAR-10, no augmentation; LR starts from zeros,
the others from He's normal initialisation (LeCun's in the last layer); group normalisation in ResNet-18; SCAFFOLD's
option II; a partial last batch counts with its true size.
"""

import math
from collections.abc import Mapping

from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipe import Recipe
from enlist.studies.paper.setting import Scale, Setting
from enlist.studies.paper.table2 import ROWS, TARGETS, Row, model_of

BATCHES = {"mnist": (10, 20, 50, 100), "cifar10": (10, 20, 50)}
SMALL_BATCHES = (10, 20)
ROUNDS = {"mnist": 40, "cifar10": 100}
CELLS = [row for row in ROWS if row.model != "logistic"]


def runs(scale: Scale) -> list[Setting]:
    """Every batch size in every cell."""
    return [setting for row in CELLS for setting in _tried(row, scale)]


def distances(raw: Raw, scale: Scale, dataset: str) -> dict[int, float]:
    """Of each batch size that has all its cells: how far its rounds are from the table's."""
    runs = [(row, setting) for row in CELLS if row.dataset == dataset for setting in _tried(row, scale)]
    found: dict[int, float] = {}
    for batch in tried(scale, dataset):
        own = [(row, setting) for row, setting in runs if setting.batch == batch]
        if not raw.missing(setting for _, setting in own):
            found[batch] = sum(_distance(raw, *each) for each in own) / len(own)
    return found


def nearest(distances: Mapping[int, float]) -> int:
    """The batch size that the rule chooses."""
    return min(distances, key=lambda batch: (distances[batch], batch))


def tried(scale: Scale, dataset: str) -> tuple[int, ...]:
    """The batch sizes that are compared."""
    return BATCHES[dataset] if scale.name == "full" else SMALL_BATCHES


def _tried(row: Row, scale: Scale) -> list[Setting]:
    """A cell with every batch size."""
    cells = [cell for cell in CELLS if cell.dataset == row.dataset]
    most = min(scale.extents[model_of(scale, cell)].rounds for cell in cells)
    return [
        *scale.settings(
            row.dataset,
            model_of(scale, row),
            seeds=1,
            batch=tried(scale, row.dataset),
            partition=row.partition,
            cohort=row.cohort,
            local_epochs=5,
            rounds=min(ROUNDS[row.dataset], most),
        )
    ]


def _distance(raw: Raw, row: Row, setting: Setting) -> float:
    rounds = raw.curves[setting].rounds_to(TARGETS[row.dataset]) or setting.rounds
    return abs(math.log2(rounds / row.fedavg[0]))


RECIPE = Recipe("choices", "The batch size, chosen by table 2", runs)
