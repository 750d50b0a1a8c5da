"""What the paper leaves unsaid, and how it was chosen, by a search: batches, pixels, first weights, varied images.

Table 2 says how many rounds FedAvg took to 95% on MNIST and to 75% on CIFAR-10. Each way to train is run in its cells
with the 2NN and the CNN (LR cannot reach 95%), and with ResNet-18; seed 0. On MNIST first a batch size, with pixels
from 0 to 1 and first weights as He proposes; then, with that batch, standardised pixels (`mnist:standard`), first
weights as PyTorch's layers have them (`+start=uniform`), and both. On CIFAR-10 a batch size, and training images as
they are or moved and mirrored at random (`--augment crop-flip`). Rule: the way whose rounds are nearest to the
table's, by the mean of |log2(rounds / paper's rounds)|, of those that reach the target in the most cells; a cell not
reached counts with the rounds it was run for. A way that lacks cells is out of it once it could not be chosen even if
those came to the paper's rounds exactly. Where none reaches the target in any cell, batches of 50 stay, as in McMahan
et al., and images as they are. What is chosen is kept for all runs on that data set. So it is at full scale, where
batches of fewer than 10 rows were not tried; at small scale, where a worker has 10 rows, the search decides nothing.

Found: on MNIST, with pixels from 0 to 1 and He's weights, batches of 10 are nearest; other pixels and weights are not
run yet. On CIFAR-10, images as they are, none comes to 75% in 100 rounds: batches of 10 come to 70.5% i.i.d. and
40.4% with two shards a worker, those of 20 to 66.1% and 35.5%, those of 50 to 63.0% and 33.3%. Varied images are not
run yet. 38 runs: 6.2 device minutes on one H200, 4.8 of them for CIFAR-10.

Not searched: on CIFAR-10 pixels are standardised by channel and weights start as He proposes (LeCun in the last
layer), since a norm follows every convolution; group normalisation in ResNet-18; SCAFFOLD's option II; a partial last
batch counts with its true size.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipe import Recipe
from enlist.studies.paper.setting import Scale, Setting, Way
from enlist.studies.paper.table2 import ROWS, TARGETS, Row, model_of

VARIED, STANDARD, UNIFORM = "crop-flip", "standard", "uniform"
# Pixels and first weights other than usual.
OTHERWISE = ((STANDARD, None), (None, UNIFORM), (STANDARD, UNIFORM))
WAYS = {
    "mnist": (
        *(Way(batch) for batch in (10, 20, 50, 100)),
        *(Way(10, pixels=pixels, start=start) for pixels, start in OTHERWISE),
    ),
    "cifar10": tuple(Way(batch, augment) for augment in (None, VARIED) for batch in (10, 20, 50)),
}
# A worker has 10 rows there.
SMALL_WAYS = {
    "mnist": (Way(5), Way(10), Way(10, pixels=STANDARD, start=UNIFORM)),
    "cifar10": (Way(5), Way(10), Way(10, VARIED)),
}
ROUNDS = {"mnist": 40, "cifar10": 100}
CELLS = [row for row in ROWS if row.model != "logistic"]


class Outcome(NamedTuple):
    """What became of a way.

    Args:
        reached: cells that reach the target, of the `run` ones among all `cells`.
        distance: how far from the table's rounds, on average; a cell that is not run counts as on the spot.
        best: the best test accuracy of each cell that is run; 0 where there is none.
    """

    reached: int
    run: int
    cells: int
    distance: float
    best: tuple[float, ...]

    @property
    def whole(self) -> bool:
        """Whether all its cells are run."""
        return self.run == self.cells

    @property
    def rank(self) -> tuple[int, float]:
        """The lower, the sooner it is chosen; no higher than it can still become where cells are not run."""
        return -(self.reached + self.cells - self.run), self.distance


def runs(scale: Scale) -> list[Setting]:
    """Every way in every cell."""
    return [setting for row in CELLS for setting in _tried(row, scale)]


def outcomes(raw: Raw, scale: Scale, dataset: str) -> dict[Way, Outcome]:
    """Of each way that has a cell."""
    runs = [(row, setting) for row in CELLS if row.dataset == dataset for setting in _tried(row, scale)]
    found: dict[Way, Outcome] = {}
    for way in tried(scale, dataset):
        cells = [(row, setting) for row, setting in runs if setting.way == way]
        own = [(row, setting) for row, setting in cells if setting in raw.curves]
        if own:
            reached = sum(_rounds(raw, setting) is not None for _, setting in own)
            distance = sum(_distance(raw, *each) for each in own) / len(cells)
            best = tuple(raw.curves[setting].best_accuracy() or 0.0 for _, setting in own)
            found[way] = Outcome(reached, len(own), len(cells), distance, best)
    return found


def chosen(found: Mapping[Way, Outcome]) -> Way | None:
    """The way that the rule chooses of those with all cells, the one tried first where two are alike; None where none
    reaches the target."""
    arriving = [way for way, outcome in found.items() if outcome.whole and outcome.reached]
    return min(arriving, key=lambda way: found[way].rank, default=None)


def beaten(found: Mapping[Way, Outcome]) -> set[Way]:
    """The ways that lack cells and cannot be chosen any more, whatever those come to."""
    best = chosen(found)
    return {
        way
        for way, outcome in found.items()
        if best is not None and not outcome.whole and outcome.rank > found[best].rank
    }


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


def _distance(raw: Raw, row: Row, setting: Setting) -> float:
    return abs(math.log2((_rounds(raw, setting) or setting.rounds) / row.fedavg[0]))


def _rounds(raw: Raw, setting: Setting) -> int | None:
    return raw.curves[setting].rounds_to(TARGETS[setting.dataset])


RECIPE = Recipe("choices", "Batches, pixels, first weights and varied images, chosen by table 2", runs)
