"""The picture of `enlist study bound`: the bound against what was measured, and the dropped term."""

import os
from typing import TYPE_CHECKING, Any

from enlist.report.panels import INK, MUTED, PALETTE, dress, legend, log_axis, save, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRATEGIES = ("full", "with-replacement", "without-replacement")
SYMBOLS = {"quadratic": "o", "non-convex": "D"}


def picture(facts: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Draws both panels."""
    figure = sheet(10.5, 4.9)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    handles, names = _against(left, facts)
    _dropped(right, facts["cross_term"])
    legend(figure, handles, names, 130)
    save(figure, path)


def _against(axes: "Axes", facts: dict[str, Any]) -> tuple[list[Any], list[str]]:
    handles: list[Any] = []
    names = []
    cases = [case for case in facts["cases"] if case["measured"] > 0]
    for i, strategy in enumerate(STRATEGIES):
        for problem, symbol in SYMBOLS.items():
            some = [case for case in cases if (case["sampling"], case["problem"]) == (strategy, problem)]
            dots = axes.scatter(
                [case["measured"] for case in some],
                [case["bound"] for case in some],
                s=14,
                marker=symbol,
                color=PALETTE[i],
                alpha=0.6,
                linewidths=0,
            )
            if some:
                handles.append(dots)
                names.append(f"{strategy}, {problem}")
    extremes = {"tight": ("met exactly", "*"), "outside": ("outside the conditions", "X")}
    for key, (name, symbol) in extremes.items():
        case = facts[key]
        handles.append(
            axes.scatter(case["measured"], case["bound"], s=70, marker=symbol, color=INK, zorder=4)
        )
        names.append(name)
    shown = [*cases, facts["tight"], facts["outside"]]
    ends = [edge(case["measured"] for case in shown) for edge in (min, max)]
    axes.plot(ends, ends, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    dress(axes, "measured: min over rounds of the mean of ||grad f||²", "bound")
    log_axis(axes, "x")
    log_axis(axes, "y")
    axes.annotate(
        "bound = measured",
        (ends[0], ends[0]),
        xytext=(18, -4),
        textcoords="offset points",
        color=MUTED,
        fontsize=8,
    )
    return handles, names


def _dropped(axes: "Axes", found: dict[str, Any]) -> None:
    by_problem: dict[str, list[dict[str, Any]]] = {}
    for case in found["cases"]:
        by_problem.setdefault(case["problem"], []).append(case)
    for i, (problem, cases) in enumerate(by_problem.items()):
        x = [case["local_steps"] for case in cases]
        y = [case["factor"] for case in cases]
        reach = [case["high"] - case["factor"] for case in cases]
        colour = PALETTE[3 + i]
        axes.errorbar(x, y, yerr=reach, color=colour, marker="o", markersize=4, linewidth=1.4, capsize=3)
        axes.annotate(
            problem,
            (x[-1], y[-1]),
            xytext=(-8, 12 if y[-1] > 1 else -16),
            textcoords="offset points",
            ha="right",
            fontsize=8,
            color=colour,
        )
    axes.axhline(found["stated"], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.annotate(
        f"at most, in a repaired proof: {found['stated']:g}",
        (min(case["local_steps"] for case in found["cases"]), found["stated"]),
        xytext=(0, -11),
        textcoords="offset points",
        fontsize=8,
        color=MUTED,
    )
    dress(axes, "K, local steps (u = 1/8)", "noise term with the dropped part, over without")
    log_axis(axes, "x")
    axes.set_xticks(x, [str(steps) for steps in x])
