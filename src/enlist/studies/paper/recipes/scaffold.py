"""A study of our own: SCAFFOLD's option, and what batches do to it, for the paper states neither.

A worker renews its control variate by a pass over all its rows at the model that came down (option I), or from the
steps that it took (option II). Both are run in table 2's rows on MNIST with 10 workers a round, by the 2NN and the
CNN, at the batch that `choices` chose, seeds 0 to 2. Rule: the option that comes to the target in more runs; where
both do in as many, II, which costs nothing. Since `choices` looks at FedAvg alone, both methods also stand here at
the other batches, seed 0. 100 rounds of the 2NN, 40 of the CNN (of table 2's runs the first 40). At small scale the
2NN alone.

Found: option II comes to 95% in 10 of 12 runs, I in 1, which diverges later: by option I 7 runs diverge and 5 end no
better than guessing, those with all ten digits too. The batch is not why the CNN diverges by option II with two
digits: with 20, 50 and 100 it does so in rounds 37, 7 and 20, where FedAvg takes 24, 25 and 34 rounds to 95%. With
every batch FedAvg takes similar or fewer rounds in three rows; in the fourth, of the 2NN with two digits, 1.7 and 1.5
times as many with batches of 10 and 20, and more than 100 with larger ones, where SCAFFOLD takes 71 and 98. 60 runs,
24 of them table 2's and 6 those of `choices`; the 30 others: 25 minutes on two CPU cores.
"""

from typing import Any, NamedTuple

from enlist.studies.paper.raw import Curve, Raw
from enlist.studies.paper.recipe import PARTIAL_COHORT, THREE, Recipe
from enlist.studies.paper.recipes import choices
from enlist.studies.paper.recipes.beginnings import EVAL_ROWS
from enlist.studies.paper.recipes.table2 import METHODS, ROWS, TARGETS, Row
from enlist.studies.paper.setting import Scale, Setting

MODELS = THREE[1:]
ROUNDS = {"two_nn": 100, "cnn": 40}
SEEDS = 3
USUAL, OTHER = "II", "I"


class Try(NamedTuple):
    """A method as it is run in every row.

    Args:
        option: SCAFFOLD's; None for FedAvg.
    """

    method: str
    option: str | None
    batch: int
    seeds: int


def tries(scale: Scale) -> list[Try]:
    """Both options and both methods at the batch that is used, then both methods at the others."""
    used = scale.ways["mnist"].batch
    others = [way.batch for way in choices.tried(scale, "mnist") if way.batch != used]
    options = {"scaffold": USUAL}
    return [
        *(Try("scaffold", option, used, SEEDS) for option in (USUAL, OTHER)),
        Try("fedavg", None, used, SEEDS),
        *(Try(method, options.get(method), batch, 1) for method in METHODS for batch in others),
    ]


def rows(scale: Scale) -> list[Row]:
    """The rows of table 2 in which they are run."""
    models = MODELS[:1] if scale.name == "small" else MODELS
    return [
        row
        for model in models
        for row in ROWS
        if (row.dataset, row.cohort, row.model) == ("mnist", PARTIAL_COHORT, model)
    ]


def settings(scale: Scale, row: Row, each: Try) -> list[Setting]:
    """The runs of a row; where everything is as in table 2, that table's."""
    as_there = each.batch == scale.ways["mnist"].batch and each.option in (None, USUAL)
    own: dict[str, Any] = {} if as_there else {"rounds": extent(scale, row.model), "batch": each.batch}
    # No training loss is asked for, so a few rows estimate it; FedAvg's runs by the CNN are those of `choices`.
    if own and each.method == "scaffold" and not 0 < scale.rows <= EVAL_ROWS:
        own["eval_rows"] = EVAL_ROWS
    if each.option == OTHER:
        own["variates"] = OTHER
    where = {"partition": row.partition, "cohort": row.cohort, "local_epochs": 5, "algorithm": each.method}
    return [*scale.settings("mnist", row.model, seeds=each.seeds, **where, **own)]


def extent(scale: Scale, model: str) -> int:
    """The rounds that count."""
    return min(ROUNDS[model], scale.extents[model].rounds)


def found(raw: Raw, scale: Scale, row: Row, each: Try) -> list[Curve]:
    """Those of a row that are there, as far as they count."""
    there = [raw.curves[setting] for setting in settings(scale, row, each) if setting in raw.curves]
    return [curve.within(extent(scale, row.model)) for curve in there]


def arrived(raw: Raw, scale: Scale, option: str) -> tuple[int, int] | None:
    """The runs of an option that come to the target, and all of them; None where some are not there."""
    (each,) = [one for one in tries(scale) if one.option == option and one.seeds == SEEDS]
    curves = [curve for row in rows(scale) for curve in found(raw, scale, row, each)]
    if len(curves) < len([setting for row in rows(scale) for setting in settings(scale, row, each)]):
        return None
    return sum(curve.rounds_to(TARGETS["mnist"]) is not None for curve in curves), len(curves)


def chosen(raw: Raw, scale: Scale) -> str | None:
    """The option that the rule chooses; None where not all runs of both are there."""
    usual, other = (arrived(raw, scale, option) for option in (USUAL, OTHER))
    if usual is None or other is None:
        return None
    return OTHER if other[0] > usual[0] else USUAL


def runs(scale: Scale) -> list[Setting]:
    """Every try in every row."""
    return [setting for each in tries(scale) for row in rows(scale) for setting in settings(scale, row, each)]


RECIPE = Recipe("scaffold", "SCAFFOLD's option, and both methods at other batches", runs)
