"""Raw metrics by a formula in which every claim about runs holds, with the noise of seeds, and ways to change it."""

import math
import zlib
from collections.abc import Callable

import numpy as np

from enlist.studies.paper.catalogue import every
from enlist.studies.paper.raw import Curve, Raw, seconds_key
from enlist.studies.paper.setting import Scale, Setting

PARAMETERS = {"logistic": 7_850, "two_nn": 199_210, "cnn": 582_026, "resnet18": 11_173_962}
COMPLEXITY = {"logistic": 1.0, "two_nn": 1.5, "cnn": 2.0}
# Rounds in which the distance to the top shrinks to a third, for all workers, p = 10, K = 5; factors of the rest.
PACE = 3.0
SKEW = {"digits:10": 1.0, "digits:5": 1.12, "digits:2": 2.0, "digits:1": 3.0}
FEW_WORKERS = {"digits:10": 1.2, "digits:5": 1.32, "digits:2": 1.7, "digits:1": 2.2}
EPOCHS = {1: 1.1, 5: 1.0, 10: 0.95}
EPOCHS_UNBALANCED = {1: 1.0, 5: 1.3, 10: 1.6}
CIFAR = {
    "iid": {10: 23.0, 50: 18.5, 100: 14.5},
    "shards:2": {10: 40.0, 50: 23.0, 100: 18.0},
}
TOP = {"mnist": 0.975, "cifar10": 0.95}
ZIGZAG = {10: 0.008, 50: 0.003}
CALM = 0.001


def made(
    scale: Scale,
    *,
    as_if: Callable[[Setting], Setting] = lambda setting: setting,
    then: Callable[[Curve], Curve] = lambda curve: curve,
    keep: Callable[[Setting], bool] = lambda setting: True,
) -> Raw:
    """The metrics of a scale.

    Args:
        as_if: whose metrics a run has instead of its own.
        then: what is changed afterwards.
        keep: which runs there are.
    """
    kept = [setting for setting in every(scale) if keep(setting)]
    curves = [then(curve_of(as_if(setting))._replace(setting=setting)) for setting in kept]
    seconds = {
        seconds_key(setting): 1.05 if setting.algorithm == "scaffold" else 1.0
        for setting in kept
        if setting.workers > 1
    }
    return Raw(curves, seconds)


def curve_of(setting: Setting) -> Curve:
    """The run that the formula gives a setting."""
    rng = np.random.default_rng(zlib.crc32(repr(setting).encode()))
    diverged = setting.server_lr == 10 and setting.worker_lr == 0.1
    rounds = np.arange(1, 1 + (2 if diverged else setting.rounds))
    # A seed is fast or slow in all settings, and a little so in each.
    luck = 1 + 0.05 * math.sin(setting.seed + 1) + 0.004 * rng.standard_normal()
    left = np.exp(-100 * rounds / setting.rounds / (pace(setting) * luck))
    # Two seeds tell little where curves zigzag, and no claim says that those of CIFAR-10 do.
    zigzag = CALM if setting.dataset == "cifar10" else ZIGZAG.get(setting.cohort, CALM)
    wobble = zigzag * rng.standard_normal(len(rounds))
    accuracy = np.clip(TOP[setting.dataset] * (1 - left) + 0.1 * left + wobble, 0, 1)
    loss = math.log(10) * (0.02 * rates(setting) + left) + np.abs(wobble)
    one_way = 4 * PARAMETERS[setting.model] * (2 if setting.algorithm == "scaffold" else 1)
    status = "diverged" if diverged else "done"
    return Curve(setting, status, rounds, loss, loss, accuracy, one_way, one_way, 1.0, "formula", {})


def pace(setting: Setting) -> float:
    """How slow a setting is."""
    if setting.workers == 1:
        return 2 * (1 + abs(math.log10(setting.worker_lr / 0.1)))
    if setting.dataset == "cifar10":
        return CIFAR[setting.partition][setting.cohort] * EPOCHS[setting.local_epochs] * _control(setting)
    if setting.partition not in SKEW:
        return PACE * 3 * EPOCHS_UNBALANCED[setting.local_epochs]
    skew = SKEW[setting.partition] ** COMPLEXITY[setting.model]
    few = FEW_WORKERS[setting.partition] ** ((100 - setting.cohort) / 90)
    return PACE * skew * few * EPOCHS[setting.local_epochs] * rates(setting)


def rates(setting: Setting) -> float:
    """What the rates add to that: least with a worker rate of 0.01 and a server rate of 10."""
    return math.sqrt(0.1 / setting.worker_lr) / setting.server_lr**0.75


def _control(setting: Setting) -> float:
    """What SCAFFOLD gains on skewed images."""
    return 0.9 if (setting.algorithm, setting.partition) == ("scaffold", "shards:2") else 1.0
