"""What the paper leaves unsaid, and how it was chosen, by a search: batches, varied images, pixels, first weights.

Table 2 says how many rounds FedAvg took to 95% on MNIST and to 75% on CIFAR-10, with the 2NN and the CNN (LR cannot
reach 95%), and with ResNet-18. A way to train is run in these cells; it is the nearer, the lower the mean of
|log2(rounds / paper's rounds)|, where a cell not reached counts with the rounds it was run for.

First the batch and, on CIFAR-10, whether training images are taken as they are or moved and mirrored at random
(`--augment crop-flip`); seed 0. Rule: the nearest of those that reach the target in the most cells; where none
reaches it in any cell, the one that comes farthest, by the mean of the cells' best accuracies; and until all are
run, batches of 50, as in McMahan et al., and images as they are. (Before, those were to stay where none reaches it.
That was changed after images as they are had been run, and before varied ones.) Then, on MNIST with that batch and
10 workers a round, pixels from 0 to 1 or standardised (`mnist:standard`), and first weights as He proposes or as
PyTorch's layers have them (`+start=uniform`); 100 rounds of the 2NN, 30 of the CNN, seeds 0 to 2. Rule: pixels from
0 to 1 and He's weights, which enlist has unless told otherwise, but where another way is nearer clearly, beyond the
one-sided 5% bound of Student's t over the differences of equal seeds, and by a quarter of a doubling of rounds
(batches of one size and the next lie 0.19 to 0.37 apart); of several the nearest. What is chosen is kept for all
runs on that data set. So it is at full scale, where batches of fewer than 10 rows were not tried; at small scale,
where a worker has 10 rows, the search decides nothing.

Found: on MNIST batches of 10 are nearest. Standardised pixels with PyTorch's weights come clearly nearer than the
usual ones, by 0.20 of a doubling, about as much as batches of 10 are nearer than those of 20, which is less than
the rule asks for: the 2NN takes 41 to 56 rounds with two digits a worker instead of 59 to 67, the CNN as many as
before. That limit was set before these runs were made, but after seed 0 of some had been looked at
(results/starts); without it that way would have been chosen. PyTorch's weights alone are a little farther; with
standardised pixels alone the CNN diverges in 4 of 6 runs. On CIFAR-10, images as they are, none comes to 75% in 100
rounds: batches of 10 come to 70.5% i.i.d. and 40.4% with two shards a worker, those of 20 to 66.1% and 35.5%, those
of 50 to 63.0% and 33.3%. Varied images are not run yet. 38 runs, two of them table 2's: 6.2 device minutes on one
H200, 4.8 of them for CIFAR-10; the 48 of pixels and weights: 59 minutes on two CPU cores.

Not searched: on CIFAR-10 pixels are standardised by channel and weights start as He proposes (LeCun in the last
layer), since a norm follows every convolution; group normalisation in ResNet-18; a partial last batch counts with
its true size. SCAFFOLD's option is another study's (`scaffold`); so is the goal, which may not have been the printed
one (`goals`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipe import Recipe
from enlist.studies.paper.recipes import beginnings
from enlist.studies.paper.recipes.nearness import distance_from, rounds_to_target
from enlist.studies.paper.recipes.table2 import ROWS, Row, model_of
from enlist.studies.paper.setting import Scale, Setting, Way

VARIED = "crop-flip"
WAYS = {
    "mnist": tuple(Way(batch) for batch in (10, 20, 50, 100)),
    "cifar10": tuple(Way(batch, augment) for augment in (None, VARIED) for batch in (10, 20, 50)),
}
# A worker has 10 rows there.
SMALL_WAYS = {"mnist": (Way(5), Way(10)), "cifar10": (Way(5), Way(10), Way(10, VARIED))}
ROUNDS = {"mnist": 40, "cifar10": 100}
CELLS = [row for row in ROWS if row.model != "logistic"]


class Outcome(NamedTuple):
    """What became of a way.

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
    """Every way in every cell."""
    return [*(setting for row in CELLS for setting in _tried(row, scale)), *beginnings.runs(scale)]


def outcomes(raw: Raw, scale: Scale, dataset: str) -> dict[Way, Outcome]:
    """Of each way that has all its cells."""
    cells = [(row, setting) for row in CELLS if row.dataset == dataset for setting in _tried(row, scale)]
    found: dict[Way, Outcome] = {}
    for way in tried(scale, dataset):
        own = [(row, setting) for row, setting in cells if setting.way == way]
        if not raw.missing(setting for _, setting in own):
            runs = [(row, raw.curves[setting]) for row, setting in own]
            reached = sum(rounds_to_target(curve) is not None for _, curve in runs)
            distance = sum(distance_from(row, curve) for row, curve in runs) / len(runs)
            best = tuple(curve.best_accuracy() or 0.0 for _, curve in runs)
            found[way] = Outcome(reached, len(own), distance, best)
    return found


def chosen(found: Mapping[Way, Outcome], tried: Sequence[Way]) -> Way | None:
    """The way that the rule chooses, the one tried first where two are alike.

    Returns:
        None where none of those that are there reaches the target, and not all are there.
    """
    arriving = [way for way, outcome in found.items() if outcome.reached]
    if arriving:
        return min(arriving, key=lambda way: (-found[way].reached, found[way].distance))
    return max(tried, key=lambda way: sum(found[way].best)) if set(tried) <= set(found) else None


def tried(scale: Scale, dataset: str) -> tuple[Way, ...]:
    """Those that are compared."""
    return (WAYS if scale.name == "full" else SMALL_WAYS)[dataset]


def _tried(row: Row, scale: Scale) -> list[Setting]:
    """A cell in every way."""
    cells = [cell for cell in CELLS if cell.dataset == row.dataset]
    most = min(scale.extents[model_of(scale, cell)].rounds for cell in cells)
    return [
        setting
        for way in tried(scale, row.dataset)
        for setting in scale.settings(
            row.dataset,
            model_of(scale, row),
            seeds=1,
            partition=row.partition,
            cohort=row.cohort,
            local_epochs=5,
            rounds=min(ROUNDS[row.dataset], most),
            **way._asdict(),
        )
    ]


RECIPE = Recipe("choices", "Batches, varied images, pixels and first weights, chosen by table 2", runs)
