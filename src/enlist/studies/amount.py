"""How much a run asks for, told before it is run: which of many go first, and how long the rest takes."""

from functools import lru_cache, partial

import jax
import numpy as np

from enlist.engine.task import Task
from enlist.problem.models import Model
from enlist.problem.objective import initial, objective


def work_of(task: Task) -> float:
    """What the time of a round grows with: examples that it looks at, times operations for one of them."""
    federation, work = task.federation, task.work
    steps = np.asarray(work.count(federation.sizes.astype(np.int64)), np.float64)
    rows = steps * (work.batch or federation.sizes)
    x, y = federation.data.x_train, federation.data.y_train
    each = operations(task.model, x.shape[1:], str(x.dtype), y.shape[1:], str(y.dtype))
    return float(np.mean(rows)) * task.sampling.places(federation.workers) * each


@lru_cache(maxsize=64)
def operations(
    model: Model, x_shape: tuple[int, ...], x_dtype: str, y_shape: tuple[int, ...], y_dtype: str
) -> float:
    """Of the loss of one example, as XLA counts them; 1 where it cannot.

    Its gradient takes two or three times as many with any model, so they serve to compare runs.
    """
    x, y = jax.ShapeDtypeStruct((1, *x_shape), x_dtype), jax.ShapeDtypeStruct((1, *y_shape), y_dtype)
    weights = jax.ShapeDtypeStruct((1,), np.float32)
    params = jax.eval_shape(partial(initial, model), jax.random.key(0), x)
    try:
        # As a CPU would do it: kernels of our own hide what they do.
        traced = jax.jit(objective(model).loss).trace(params, x, y, weights)
        facts = traced.lower(lowering_platforms=("cpu",)).cost_analysis() or {}
    except Exception:
        # A model for GPUs alone: no run is to fail for want of an estimate.
        return 1.0
    return max(1.0, float(facts.get("flops", 1.0)))
