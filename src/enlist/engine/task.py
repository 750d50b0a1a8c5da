"""What is to be run, before anything is set up for it."""

from collections.abc import Sequence
from typing import NamedTuple

from enlist.algorithms.core import Algorithm
from enlist.algorithms.work import LocalWork
from enlist.links import Links
from enlist.options import Settings
from enlist.participation.sampling import Sampling
from enlist.problem.federation import Federation
from enlist.problem.models import Model


class Task(NamedTuple):
    """One run: an algorithm, a model, a federation, and how."""

    algorithm: Algorithm
    model: Model
    federation: Federation
    sampling: Sampling
    work: LocalWork
    settings: Settings
    links: Links


class Room(NamedTuple):
    """How much place the arrays of a run leave for other partitions, so that one program serves them all.

    Args:
        rows: what every worker holds where all hold equally many rows, else None.
        capacity: the most rows that a worker holds.
        held: rows that all workers together hold.
        tested: rows that all workers' own test rows come to.
    """

    rows: int | None
    capacity: int
    held: int
    tested: int


def room_for(federations: Sequence[Federation]) -> Room:
    """The smallest room in which all of them fit."""
    sizes = {int(size) for each in federations for size in each.sizes}
    return Room(
        rows=sizes.copy().pop() if len(sizes) == 1 else None,
        capacity=max(sizes),
        held=max(len(each.order) for each in federations),
        tested=max(0 if each.test is None else len(each.test.order) for each in federations),
    )
