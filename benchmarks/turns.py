"""Several things measured in turns, so that what else the machine does falls on all of them."""

import argparse
import statistics
from collections.abc import Callable

Pair = tuple[float, float]


def in_turns(runs: dict[int, Callable[[int], Pair]], options: argparse.Namespace) -> dict[int, list[Pair]]:
    """Wall and CPU seconds of a round, for each repeat."""
    rounds = {}
    for value, run in runs.items():
        run(1)
        rounds[value] = max(1, round(options.seconds / (run(3)[0] / 3)))
    seen: dict[int, list[Pair]] = {value: [] for value in runs}
    for _ in range(options.repeats):
        for value, run in runs.items():
            wall, cpu = run(rounds[value])
            seen[value].append((wall / rounds[value], cpu / rounds[value]))
    return seen


def middle(pairs: list[Pair]) -> dict[str, float]:
    """Medians, and the lowest and highest, in ms."""
    walls = [1e3 * wall for wall, _ in pairs]
    cpu = 1e3 * statistics.median(cpu for _, cpu in pairs)
    return {"ms": statistics.median(walls), "lowest_ms": min(walls), "highest_ms": max(walls), "cpu_ms": cpu}
