"""How near a run comes to the rounds that table 2 gives for FedAvg."""

import math

from enlist.studies.paper.raw import Curve
from enlist.studies.paper.recipes.table2 import TARGETS, Row


def rounds_to_target(curve: Curve) -> int | None:
    """Of the data set; None where it is not reached."""
    return curve.rounds_to(TARGETS[curve.setting.dataset])


def distance_from(row: Row, curve: Curve) -> float:
    """|log2(rounds / paper's rounds)|; a target that is not reached counts with the rounds that were run."""
    return abs(math.log2((rounds_to_target(curve) or curve.setting.rounds) / row.fedavg[0]))
