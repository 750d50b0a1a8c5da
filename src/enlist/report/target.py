"""Whether a metric has come to a target."""

import numpy as np


def reaches(value: float, target: float, falling: bool = False) -> bool:
    """Whether a value is as good as the target; never of NaN.

    As float32, in which metrics are computed: 324 right of 360 are 0.9, and float32 holds 0.9 as a little less.

    Args:
        falling: whether less is better.
    """
    seen, wanted = np.float32(value), np.float32(target)
    return bool(seen <= wanted if falling else seen >= wanted)
