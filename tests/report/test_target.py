"""A target that is met exactly is met, though float32 holds it as a little less."""

import math

import numpy as np

from enlist.engine.run import first_round
from enlist.report.target import reaches


def test_the_very_share_of_test_rows_is_reached():
    for right in range(1, 361):
        seen = float(np.float32(right) / np.float32(360))
        assert reaches(seen, right / 360)
        assert reaches(seen, right / 360, falling=True)
        assert not reaches(seen, (right + 1) / 360)
        assert not reaches(seen, (right - 1) / 360, falling=True)


def test_what_is_no_number_reaches_nothing():
    assert not reaches(math.nan, 0.5)
    assert not reaches(math.nan, 0.5, falling=True)


def test_the_first_round_is_the_one_that_meets_it():
    lines = [
        {"round": t, "test_accuracy": float(np.float32(k) / np.float32(360))}
        for t, k in enumerate((323, 324), 1)
    ]
    assert first_round(lines, "test_accuracy", 0.9) == 2
