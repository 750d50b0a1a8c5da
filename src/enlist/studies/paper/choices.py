"""What the paper leaves unsaid, and how it was chosen: the batch size of each data set, by a search.

Table 2 says how many rounds FedAvg took to 95% on MNIST and to 75% on CIFAR-10. For each batch size its cells are run
with the 2NN and the CNN (LR cannot reach 95%), and with ResNet-18; seed 0. Rule: the batch size whose rounds are
nearest to the table's, by the mean of |log2(rounds / paper's rounds)|, of those that reach the target in the most
cells; a cell not reached counts with the rounds it was run for. Where no batch size reaches the target in any cell,
50 stays, as in McMahan et al. It is kept for all runs on that data set. Batches of fewer than 10 rows were not tried.

Found: on MNIST batches of 10 are nearest. On CIFAR-10 none comes to 75% in 100 rounds: batches of 10 come to 70.5%
i.i.d. and 40.4% with two shards a worker, those of 20 to 66.1% and 35.5%, those of 50 to 63.0% and 33.3%. 38 runs:
6.2 device minutes on one H200, 4.8 of them for CIFAR-10.

Not searched: pixels from 0 to 1 on MNIST, standardised by channel on CIFAR-10, no augmentation; LR starts from zeros,
the others from He's normal initialisation (LeCun's in the last layer); group normalisation in ResNet-18; SCAFFOLD's
option II; a partial last batch counts with its true size.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipe import Recipe
from enlist.studies.paper.setting import Scale, Setting
from enlist.studies.paper.table2 import ROWS, TARGETS, Row, model_of

BATCHES = {"mnist": (10, 20, 50, 100), "cifar10": (10, 20, 50)}
# A worker has 10 rows there.
SMALL_BATCHES = (5, 10)
ROUNDS = {"mnist": 40, "cifar10": 100}
CELLS = [row for row in ROWS if row.model != "logistic"]


class Outcome(NamedTuple):
    """What became of a batch size.

    Args:
        reached: cells that reach the target, of so many `cells`.
        distance: how far from the table's rounds, on average.
        best: the best test accuracy of each cell; 0 where there is none.
    """

    reached: int
    cells: int
    distance: float
    best: tuple[float, ...]


def runs(scale: Scale) -> list[Setting]:
    """Every batch size in every cell."""
    return [setting for row in CELLS for setting in _tried(row, scale)]


def outcomes(raw: Raw, scale: Scale, dataset: str) -> dict[int, Outcome]:
    """Of each batch size that has all its cells."""
    runs = [(row, setting) for row in CELLS if row.dataset == dataset for setting in _tried(row, scale)]
    found: dict[int, Outcome] = {}
    for batch in tried(scale, dataset):
        own = [(row, setting) for row, setting in runs if setting.batch == batch]
        if not raw.missing(setting for _, setting in own):
            reached = sum(_rounds(raw, setting) is not None for _, setting in own)
            distance = sum(_distance(raw, *each) for each in own) / len(own)
            best = tuple(raw.curves[setting].best_accuracy() or 0.0 for _, setting in own)
            found[batch] = Outcome(reached, len(own), distance, best)
    return found


def chosen(found: Mapping[int, Outcome]) -> int | None:
    """The batch size that the rule chooses; None where none reaches the target."""
    arriving = [batch for batch, outcome in found.items() if outcome.reached]
    return min(
        arriving, key=lambda batch: (-found[batch].reached, found[batch].distance, batch), default=None
    )


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
    return abs(math.log2((_rounds(raw, setting) or setting.rounds) / row.fedavg[0]))


def _rounds(raw: Raw, setting: Setting) -> int | None:
    return raw.curves[setting].rounds_to(TARGETS[setting.dataset])


RECIPE = Recipe("choices", "The batch size, chosen by table 2", runs)
