"""The learnable task that all peers share, in NumPy alone: the examples, and the loss by which models are judged."""

import networks
import numpy as np
from workloads import Workload

CLASSES = 10
CELL, NOISE = 4, 0.3
JUDGED_AT_ONCE = 100


def examples(work: Workload, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images around ten coarse patterns, and their classes. Worker i holds rows `[i * rows, (i + 1) * rows)`.

    Every row is drawn alike, so the deal is i.i.d.
    """
    rng = np.random.default_rng(seed)
    height, width, channels = work.shape
    coarse = rng.standard_normal((CLASSES, height // CELL, width // CELL, channels), dtype=np.float32)
    patterns = work.contrast * coarse.repeat(CELL, axis=1).repeat(CELL, axis=2)
    y = rng.integers(0, CLASSES, work.workers * work.rows).astype(np.int32)
    x = rng.standard_normal((len(y), *work.shape), dtype=np.float32)
    x += patterns[y]
    x *= NOISE
    return x, y


def loss(work: Workload, params: networks.Params, x: np.ndarray, y: np.ndarray) -> float:
    """Mean cross-entropy on the first `judged` training examples."""
    total = 0.0
    for at in range(0, work.judged, JUDGED_AT_ONCE):
        z = networks.logits(work.model, params, x[at : at + JUDGED_AT_ONCE]).astype(np.float64)
        label = y[at : at + JUDGED_AT_ONCE]
        top = z.max(axis=1)
        total += (np.log(np.exp(z - top[:, None]).sum(axis=1)) + top - z[np.arange(len(z)), label]).sum()
    return total / work.judged
