"""The picture of `enlist speedup`: rounds against n or K beside the ideal, and what the bound consists of there."""

import math
import os
from typing import TYPE_CHECKING, Any

from enlist.report.panels import INK, MUTED, PALETTE, dress, empty, legend, log_axis, save, sheet
from enlist.report.speedup.words import LETTERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AXES = {"cohort": "n, workers a round", "local_steps": "K, local steps"}
SHORT = {
    "vanishing": "vanishing",
    "local_noise": "gradient noise",
    "drift_local": "drift by noise",
    "drift_global": "drift by data",
    "sampling": "sampling",
    "sampling_drift_local": "sampling × drift by noise",
    "sampling_drift_global": "sampling × drift by data",
}


def picture(facts: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Draws the rounds, and beside them what the bound consists of where that is known."""
    explained = any(point["terms"] is not None for point in facts["points"])
    figure = sheet(10.5 if explained else 6.0, 4.7)
    left, *right = figure.subplots(1, 1 + explained, squeeze=False, width_ratios=(1.25, 1)[: 1 + explained])[
        0
    ]
    handles, names = _rounds(left, facts)
    for axes in right:
        more, others = _terms(axes, facts)
        handles, names = [*handles, *more], [*names, *others]
    legend(figure, handles, names, 130 if explained else 75)
    save(figure, path)


def lines(facts: dict[str, Any]) -> dict[str, Any]:
    """The fitted line, its ends by the interval, and the ideal or the rates, through the middle of the points."""
    axis, slope = facts["axis"], facts["slope"]
    used = [point for point in facts["points"] if point[axis] not in facts["left_out"]]
    if slope is None:
        return {"x": [], "lines": {}}
    x = [point[axis] for point in used]
    across = [math.log(each) for each in x]
    middle = sum(across) / len(across)
    level = sum(math.log(point["rounds"]) for point in used) / len(used)

    def line(steepness: float, about: float = middle, at: float = level) -> list[float]:
        return [math.exp(at + steepness * (each - about)) for each in across]

    # The ideal starts where the fit does: it says how many rounds n workers should need by what the first needed.
    start = level + slope["value"] * (across[0] - middle)
    ideals = (
        {"ideal: slope -1": -1.0}
        if axis == "cohort"
        else {
            "1/sqrt(mKT): slope -1": -1.0,
            "sqrt(K)/sqrt(nT): slope +1": 1.0,
        }
    )
    return {
        "x": x,
        "fit": line(slope["value"]),
        "low": line(slope["low"]),
        "high": line(slope["high"]),
        "lines": {name: line(each, across[0], start) for name, each in ideals.items()},
    }


def reach(point: dict[str, Any]) -> tuple[float, float]:
    """How far the interval goes down and up from the point; nowhere where there is none."""
    if point["low"] is None:
        return 0.0, 0.0
    return max(0.0, point["rounds"] - point["low"]), max(0.0, point["high"] - point["rounds"])


def _rounds(axes: "Axes", facts: dict[str, Any]) -> tuple[list[Any], list[str]]:
    axis = facts["axis"]
    points = [point for point in facts["points"] if point["rounds"] is not None]
    handles: list[Any] = []
    names: list[str] = []
    if not points:
        empty(axes, "the goal was not reached anywhere")
        return handles, names
    drawn = lines(facts)
    for (name, y), dash in zip(drawn["lines"].items(), ((0, (4, 3)), (0, (1, 2))), strict=False):
        handles += axes.plot(drawn["x"], y, color=MUTED, linewidth=1.2, linestyle=dash, zorder=1)
        names.append(name)
    if drawn["x"]:
        axes.fill_between(drawn["x"], drawn["low"], drawn["high"], color=PALETTE[0], alpha=0.15, linewidth=0)
        handles += axes.plot(drawn["x"], drawn["fit"], color=PALETTE[0], linewidth=1.6)
        slope = facts["slope"]
        names.append(f"fit: slope {slope['value']:.2f} ({slope['low']:.2f} to {slope['high']:.2f})")
    x = [point[axis] for point in points]
    measured = axes.errorbar(
        x,
        [point["rounds"] for point in points],
        yerr=[list(each) for each in zip(*map(reach, points), strict=True)],
        color=INK,
        marker="o",
        markersize=5,
        linestyle="none",
        capsize=3,
        zorder=4,
    )
    for point in points:
        if point["at_least"]:
            axes.plot(point[axis], point["rounds"], "o", color="white", markersize=3, zorder=5)
    handles.append(measured)
    names.append("measured")
    dress(axes, AXES[axis], "T, rounds to the goal")
    log_axis(axes, "x")
    log_axis(axes, "y")
    axes.set_xticks(x, [str(each) for each in x])
    axes.minorticks_off()
    return handles, names


def _terms(axes: "Axes", facts: dict[str, Any]) -> tuple[list[Any], list[str]]:
    axis = facts["axis"]
    points = [point for point in facts["points"] if point["terms"] is not None]
    handles: list[Any] = []
    names: list[str] = []
    below = [0.0] * len(points)
    places = list(range(len(points)))
    for i, (name, words) in enumerate(SHORT.items()):
        share = [point["terms"][name] / point["bound"] for point in points]
        # What cannot be seen needs no name.
        if max(share) < 0.005:
            continue
        handles.append(
            axes.bar(places, share, bottom=below, color=PALETTE[(i + 1) % len(PALETTE)], width=0.7)
        )
        names.append(words)
        below = [a + b for a, b in zip(below, share, strict=True)]
    dress(axes, AXES[axis], "share of the bound, at the T found")
    axes.set_xticks(places, [f"{LETTERS[axis]} = {point[axis]}" for point in points])
    axes.set_ylim(0, 1)
    return handles, names
