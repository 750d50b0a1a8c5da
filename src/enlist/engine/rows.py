"""What a run reads, put where it reads it from: the rows of the rounds, and those of an evaluation."""

import os
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Key

from enlist.engine import evaluation, platform
from enlist.engine.plan import Held, Plan
from enlist.engine.supply import Resident, Source, Supply
from enlist.engine.task import Room, Task
from enlist.errors import unknown
from enlist.options import Settings
from enlist.problem.dataset import Dataset
from enlist.problem.federation import Federation
from enlist.problem.gather import gathered

PLACEMENTS = ("auto", "device", "host")
# Rows that all lie on the devices may take this part of a device's memory.
MEMORY_SHARE = 0.4
# Where rows stay on the host, the training loss is estimated from so many.
EVALUATED_SAMPLE = 10_000


class Read(NamedTuple):
    """Where the rounds' rows come from, and what an evaluation reads."""

    source: Source
    examples: evaluation.Examples
    data: Dataset
    mesh: Mesh


def placement(federation: Federation, asked: str) -> str:
    """Where the rows lie: `device` or `host`. Mapped files stay files unless the devices hold all of them easily."""
    if asked not in PLACEMENTS:
        raise unknown("rows", asked, PLACEMENTS)
    if asked != "auto":
        return asked
    if jax.process_count() > 1:
        return "host"  # each of several hosts then reads only what its own workers need
    data = federation.data
    needed = data.x_train.nbytes + data.y_train.nbytes
    return "host" if needed > MEMORY_SHARE * _memory_bytes() else "device"


def _memory_bytes() -> int:
    """Of one accelerator, or of the host."""
    return platform.memory_bytes() or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def complete(settings: Settings, federation: Federation) -> Settings:
    """With what was left to us filled in."""
    where = placement(federation, settings.rows)
    rows = EVALUATED_SAMPLE if where == "host" and settings.eval_rows is None else settings.eval_rows
    return replace(settings, rows=where, eval_rows=rows)


def put_rows(task: Task, plan: Plan, room: Room, like: Read | None, key: Key[Array, ""]) -> Read:
    """Puts a run's rows in place, or sets their supply up.

    Args:
        like: what another run reads: its examples are taken over where they are the same.
    """
    federation, settings = task.federation, task.settings
    if plan.streamed:
        examples = _sampled_examples(federation, settings, plan)
        return Read(Supply(plan, federation, key), examples, federation.data, plan.mesh)
    x, y, x_test, y_test = _examples_of(federation, plan, like)
    rows = (padded(federation.order, room.held), federation.offsets, federation.sizes)
    if settings.eval_rows is None:
        train = evaluation.all_rows(federation, x, y)
    else:
        some = evaluation.drawn_rows(federation, settings.eval_rows, settings.seed)
        train = evaluation.evenly(x, y, some)
    looked_at = evaluation.examples(federation, train, x_test, y_test, settings.worker_accuracy)
    examples = platform.replicate(_roomy(looked_at, room, settings.eval_rows), plan.mesh)
    held = Held(x, y, *platform.replicate(rows, plan.mesh))
    return Read(Resident(held), examples, federation.data, plan.mesh)


def _sampled_examples(federation: Federation, settings: Settings, plan: Plan) -> evaluation.Examples:
    """What an evaluation reads where the devices do not hold all rows: some of them."""
    data = federation.data
    assert settings.eval_rows is not None
    some = evaluation.drawn_rows(federation, settings.eval_rows, settings.seed)
    x, y = (gathered(part, some, len(some)) for part in (data.x_train, data.y_train))
    train = evaluation.evenly(x, y, np.arange(len(some)))
    test = np.asarray(data.x_test), np.asarray(data.y_test)
    looked_at = evaluation.examples(federation, train, *test, settings.worker_accuracy)
    return platform.replicate(looked_at, plan.mesh)


def _examples_of(federation: Federation, plan: Plan, like: Read | None) -> Any:
    """The examples on the devices: another session's where that has the same."""
    data = federation.data
    if (
        like is not None
        and isinstance(like.source, Resident)
        and like.data is data
        and like.mesh == plan.mesh
    ):
        held = like.source.held
        return held.x, held.y, like.examples.test.x, like.examples.test.y
    return platform.replicate((data.x_train, data.y_train, data.x_test, data.y_test), plan.mesh)


def _roomy(examples: evaluation.Examples, room: Room, drawn: int | None) -> evaluation.Examples:
    """With rows of no weight up to the room's size; a drawn number of rows is the same for all."""

    def pad(rows: evaluation.Weighted, size: int) -> evaluation.Weighted:
        holder = padded(rows.holder, size) if len(rows.holder) else rows.holder
        return rows._replace(
            order=padded(rows.order, size), weights=padded(rows.weights, size), holder=holder
        )

    own = None if examples.own is None else pad(examples.own, room.tested)
    # Rows that many workers hold are looked at once, so there are never more than the data has.
    rows = drawn or min(room.held, len(examples.train.x))
    return examples._replace(train=pad(examples.train, rows), own=own)


def padded(array: np.ndarray, size: int) -> np.ndarray:
    """With zeros up to that size."""
    return array if len(array) == size else np.pad(array, (0, size - len(array)))
