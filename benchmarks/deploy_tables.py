"""The tables of `deploy.py`: from what was seen of each round to medians, ratios and Markdown."""

import itertools
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from deploy_processes import Mark

BARE = "Flower alone"
MB = 1e6
Facts = dict[str, Any]


class Run(NamedTuple):
    """The rounds of a run: the first one's seconds, and of the others what was counted."""

    first: float
    seconds: list[float]
    whole: list[float]
    slowest: list[float]
    spent: list[dict[str, float]]


def of_marks(marks: Sequence[Mark]) -> Run:
    """The first round apart; what the others took and spent, each from the end of the one before."""
    pairs = list(itertools.pairwise(marks))
    return Run(
        first=marks[0].line["seconds"],
        seconds=[mark.line["seconds"] for mark in marks[1:]],
        whole=[mark.at - before.at for before, mark in pairs],
        slowest=[mark.line.get("slowest", 0.0) for mark in marks[1:]],
        spent=[
            {name: mark.spent[name] - before.spent[name] for name in mark.spent} for before, mark in pairs
        ],
    )


def row(workers: int, who: str, nbytes: int, runs: Sequence[Run]) -> Facts:
    """One line of the table, from the runs of all turns."""
    seconds = [each for run in runs for each in run.seconds]
    spent = [each for run in runs for each in run.spent]
    return {
        "workers": workers,
        "who": who,
        "message_bytes": nbytes,
        "first_seconds": [run.first for run in runs],
        "seconds": statistics.median(seconds),
        "lowest": min(seconds),
        "highest": max(seconds),
        "rounds": len(seconds),
        "whole_seconds": statistics.median(each for run in runs for each in run.whole),
        "slowest_worker_seconds": statistics.median(each for run in runs for each in run.slowest),
        "cpu_seconds": statistics.median(sum(each.values()) for each in spent),
        "cpu_by_purpose": {name: statistics.median(each[name] for each in spent) for name in spent[0]},
    }


def compared(rows: Sequence[Facts]) -> list[Facts]:
    """With the ratios to the engine alone: with messages of the same size where it had such, and empty ones."""
    alone = {(each["workers"], each["message_bytes"]): each for each in rows if each["who"] == BARE}
    told = []
    for each in rows:
        empty = alone.get((each["workers"], 0))
        beside = alone.get((each["workers"], each["message_bytes"]), empty)
        ratios: Facts = {"of_flower": None, "cpu_of_flower": None, "of_empty": None}
        if beside is not None and each is not beside:
            ratios["of_flower"] = each["seconds"] / beside["seconds"]
            ratios["cpu_of_flower"] = each["cpu_seconds"] / beside["cpu_seconds"]
        if empty is not None:
            ratios["of_empty"] = each["seconds"] / empty["seconds"]
        told.append(each | ratios)
    return told


def report(facts: Facts) -> str:
    """All tables, as Markdown."""
    parts = [rounds_table(facts["rows"]), purposes_table(facts["rows"])]
    parts += [share_table(facts["worker_process_seconds"]), start_table(facts["start_seconds"])]
    idle = ", ".join(
        f"{value:.2f} with {workers} workers" for workers, value in facts["idle_cpu_seconds_a_second"].items()
    )
    parts += [f"CPU seconds a second without any work: {idle}."]
    parts += [f"{facts['machine']['device']}, measured in {facts['measured_in_seconds']:.0f} s"]
    return "\n\n".join(parts)


def rounds_table(rows: Sequence[Facts]) -> str:
    """Seconds of a round, and the ratios."""
    head = [
        "workers",
        "",
        "MB each way",
        "s a round (lowest–highest)",
        "of Flower alone",
        "of an empty message",
    ]
    head += [
        "CPU s",
        "of Flower alone",
        "slowest worker s",
        "with evaluation and checkpoint s",
        "first rounds s",
    ]
    lines = []
    for each in rows:
        bounds = f"{each['lowest']:.1f}–{each['highest']:.1f}"
        first = ", ".join(f"{seconds:.1f}" for seconds in each["first_seconds"])
        cells = [str(each["workers"]), each["who"], f"{each['message_bytes'] / MB:.1f}"]
        cells += [f"{each['seconds']:.2f} ({bounds})", ratio(each["of_flower"]), ratio(each["of_empty"])]
        cells += [f"{each['cpu_seconds']:.1f}", ratio(each["cpu_of_flower"])]
        cells += ["-" if each["who"].startswith(BARE) else f"{each['slowest_worker_seconds']:.2f}"]
        lines.append([*cells, f"{each['whole_seconds']:.2f}", first])
    return table(head, lines)


def purposes_table(rows: Sequence[Facts]) -> str:
    """Which processes spend the CPU seconds of a round."""
    purposes = list(rows[0]["cpu_by_purpose"])
    lines = [
        [str(each["workers"]), each["who"], f"{each['message_bytes'] / MB:.1f}"]
        + [f"{each['cpu_by_purpose'][name]:.2f}" for name in purposes]
        for each in rows
    ]
    return table(["workers", "CPU s a round", "MB each way", *purposes], lines)


def share_table(share: dict[str, dict[str, dict[str, float]]]) -> str:
    """Where the time of a worker's process goes."""
    steps = list(next(iter(share.values())))
    lines = [
        [step, *(f"{found[step]['wall']:.2f} ({found[step]['cpu']:.2f})" for found in share.values())]
        for step in steps
    ]
    return table(["a worker's process: wall (CPU) s", *share], lines)


def start_table(starts: Sequence[Facts]) -> str:
    """From typing to the first round."""
    lines = [
        [each["cache"], str(each["workers"])]
        + [f"{each[name]:.1f}" for name in ("first_round", "of_it_round", "end")]
        for each in starts
    ]
    return table(
        [
            "enlist deploy local: cache",
            "workers",
            "first round done after s",
            "of it the round",
            "ended after s",
        ],
        lines,
    )


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """As Markdown."""
    return "\n".join(
        [f"| {' | '.join(head)} |", "|" + "---|" * len(head)] + [f"| {' | '.join(x)} |" for x in lines]
    )


def ratio(value: float | None) -> str:
    """For a cell."""
    return "-" if value is None else f"{value:.2f}"
