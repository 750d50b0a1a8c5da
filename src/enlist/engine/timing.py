"""How long one worker needs for its part of a round, measured here."""

import math
import time
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from enlist.engine.session import open_session
from enlist.engine.task import Task
from enlist.participation.sampling import without_replacement

# Enough for a quiet moment on a shared machine, few enough not to be waited for.
LEAST_ROUNDS, MOST_ROUNDS, SECONDS = 3, 200, 0.5


def worker_seconds(task: Task) -> float:
    """Seconds of a worker with the average number of local steps, alone on one device.

    Rounds with a cohort of one are timed, and the fastest counts; the server's step is next to nothing beside it.
    """
    alone = replace(task.settings, execution="one-by-one", devices=1, worker_accuracy=False, grad_norm=False)
    session = open_session(task._replace(sampling=without_replacement(1), settings=alone))
    sizes = task.federation.sizes.astype(np.int64)
    session.advance(1, False)  # compiles
    a_step = math.inf
    began = time.perf_counter()
    for t in range(1, 1 + MOST_ROUNDS):
        if t > LEAST_ROUNDS and time.perf_counter() - began > SECONDS:
            break
        cohort = session.program.cohort(jnp.asarray(task.federation.sizes), session.key, jnp.int32(t))
        start = time.perf_counter()
        session.advance(1, False)
        elapsed = time.perf_counter() - start
        a_step = min(a_step, elapsed / float(task.work.count(sizes[int(cohort.ids[0])], t)))
    return a_step * float(np.mean(np.asarray(task.work.count(sizes, 0))))
