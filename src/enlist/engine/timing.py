"""How long one worker needs for its part of a round, measured here."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from enlist.engine.session import Session, open_session
from enlist.engine.task import Task
from enlist.participation.sampling import without_replacement
from enlist.problem.federation import Federation, Holding

# Enough for a quiet moment on a shared machine, few enough not to be waited for.
LEAST_TURNS, MOST_TURNS, SECONDS = 3, 200, 0.5
# Workers, from the smallest to the largest, that take turns: the states of all might not find room.
WORKERS = 8


def worker_seconds(tasks: Sequence[Task]) -> list[float]:
    """For each task, seconds of a worker with the average number of local steps, alone on one device.

    Rounds with a cohort of one are timed, the tasks in turns, so that whatever else the machine does slows them all
    alike; of each the fastest counts. The server's own step is next to nothing beside them.
    """
    sessions = [_with_one_worker(task) for task in tasks]
    fastest = [math.inf for _ in tasks]
    for session in sessions:
        session.advance(1, False)  # compiles
    began = time.perf_counter()
    for turn in range(1, 1 + MOST_TURNS):
        if turn > LEAST_TURNS and time.perf_counter() - began > SECONDS * len(tasks):
            break
        for i, session in enumerate(sessions):
            fastest[i] = min(fastest[i], _a_step(session, turn))
    averages = [np.mean(np.asarray(task.work.count(_sizes(task.federation), 0))) for task in tasks]
    return [step * float(average) for step, average in zip(fastest, averages, strict=True)]


def _with_one_worker(task: Task) -> Session:
    federation = _some_workers(task.federation)
    settings = replace(
        task.settings, execution="one-by-one", devices=1, worker_accuracy=False, grad_norm=False
    )
    links = task.links._replace(
        **{name: each[: federation.workers] for name, each in task.links._asdict().items()}
    )
    return open_session(
        task._replace(federation=federation, sampling=without_replacement(1), settings=settings, links=links)
    )


def _some_workers(federation: Federation) -> Federation:
    by_size = np.argsort(federation.sizes, kind="stable")
    chosen = by_size[np.unique(np.linspace(0, len(by_size) - 1, WORKERS).astype(int))]
    rows = [federation.train.rows(int(worker)) for worker in chosen]
    return Federation(federation.data, Holding.of(rows), common=federation.common)


def _a_step(session: Session, t: int) -> float:
    """Seconds of a local step in round t, which is run."""
    sizes = session.federation.sizes
    (worker,) = np.asarray(session.program.cohort(jnp.asarray(sizes), session.key, jnp.int32(t)).ids)
    start = time.perf_counter()
    session.advance(1, False)
    elapsed = time.perf_counter() - start
    return elapsed / float(session.plan.work.count(int(sizes[worker]), t))


def _sizes(federation: Federation) -> np.ndarray:
    return federation.sizes.astype(np.int64)
