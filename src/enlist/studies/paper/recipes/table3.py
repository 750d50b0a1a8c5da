"""Table 3: the whole grid of hyper-parameters, 216 runs a model, 100 rounds, one seed.

Server rate 1 and 10, worker rate 0.001, 0.01 and 0.1, 1, 5 and 10 local epochs, n = 10, 50 and 100, p = 1, 2, 5 and
10. The paper lists the grid and reports none of its outcomes. Rates and p share one program; where a server rate of
10 diverges, that is a result.

Found: by training loss the paper's rates are the best of the grid in 91 of 108 cells (by test accuracy in 82);
0.001 and 10 in 14, all of them with one or two digits (LR 7, 2NN 2, CNN 5). At server rate 10 most runs fail: 10 of
324 overflow (2NN 1, CNN 9), and 228 end with a training loss above that of guessing. At server rate 1 none
overflows. LR 0.8, 2NN 5.4 and CNN 35.2 device minutes on one H200, without some 1.5 of two runs of the CNN that was
not counted.
"""

from enlist.studies.paper.recipe import DEGREES, EPOCHS, THREE, Recipe
from enlist.studies.paper.setting import Scale, Setting

SERVER_LRS = (1.0, 10.0)
WORKER_LRS = (0.001, 0.01, 0.1)
COHORTS = (10, 50, 100)
# At small scale, so that it ends in minutes.
SMALL_EPOCHS, SMALL_COHORTS, SMALL_ROUNDS = (1, 5), (10,), 5


def runs(scale: Scale) -> list[Setting]:
    """The grid of every model; at small scale of LR and 2NN, some of it."""
    small = scale.name == "small"
    return [setting for model in (THREE[:2] if small else THREE) for setting in grid(scale, model)]


def grid(scale: Scale, model: str) -> list[Setting]:
    """Of one model."""
    small = scale.name == "small"
    return [
        *scale.settings(
            "mnist",
            model,
            seeds=1,
            server_lr=SERVER_LRS,
            worker_lr=WORKER_LRS,
            local_epochs=SMALL_EPOCHS if small else EPOCHS,
            cohort=SMALL_COHORTS if small else COHORTS,
            partition=[f"digits:{p}" for p in DEGREES],
            rounds=SMALL_ROUNDS if small else scale.extents[model].rounds,
        )
    ]


RECIPE = Recipe("table3", "The grid of rates, local epochs, workers a round and digits a worker", runs)
