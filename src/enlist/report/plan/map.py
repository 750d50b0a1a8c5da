"""A plan in one picture: rounds, traffic and seconds to the goal over cohort sizes and local steps."""

import os
import textwrap
from typing import TYPE_CHECKING, Any

from enlist.report.heatmap import COLOURS, ink_on
from enlist.report.panels import INK, MUTED, save, sheet, wants_log
from enlist.report.plan.words import MEASURES, Measure, Plan, number, problem_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Inches of a cell.
_CELL = (0.74, 0.42)
# All of them would say the same thrice: of all workers together is on the page.
DRAWN = [measure for measure in MEASURES if measure.key != "total_mib"]


def write_picture(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Writes a PNG (200 dpi); where the plan itself lies is framed."""
    across, down = plan["map"]["cohort"], plan["map"]["local_steps"]
    width = max(2.4, len(across) * _CELL[0] + 0.9)
    picture = sheet(len(DRAWN) * width + 0.3, max(1.6, len(down) * _CELL[1] + 0.8) + 0.5)
    panels = picture.subplots(1, len(DRAWN), squeeze=False)
    for axes, measure in zip(panels.flat, DRAWN, strict=True):
        _panel(axes, plan, measure)
    goal = f"until the bound on E||grad f||^2 is {number(plan['goal'])}, at the rates recommended"
    said = f"{problem_words(plan)}; {goal}"
    told = textwrap.fill(said, max(40, int(13 * picture.get_figwidth())))
    picture.set_figheight(picture.get_figheight() + 0.14 * told.count("\n"))
    picture.suptitle(told, x=0.012, ha="left", fontsize=8.5, color=MUTED, parse_math=False)
    save(picture, path)


def framed(plan: Plan) -> list[int] | None:
    """Where on the map the plan's own n and K lie; None where they are not on it."""
    of, axes = plan["problem"], plan["map"]
    n, steps = of["cohort"], round(of["local_steps"])
    if n not in axes["cohort"] or steps not in axes["local_steps"]:
        return None
    return [axes["cohort"].index(n), axes["local_steps"].index(steps)]


def cell_text(value: float) -> str:
    """A number in a few letters."""
    return (
        f"{value:.2g}" if value >= 1e6 or value < 1 else f"{value:,.0f}" if value >= 1e3 else f"{value:.3g}"
    )


def _panel(axes: "Axes", plan: Plan, measure: Measure) -> None:
    from matplotlib.patches import Rectangle

    grid = plan["map"][measure.key]
    colour = _colours([value for row in grid for value in row])
    for y, row in enumerate(grid):
        for x, value in enumerate(row):
            shade = colour.to_rgba(value)
            ink = ink_on(shade[:3])
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=shade, edgecolor="white"))
            axes.text(x, y, cell_text(value), ha="center", va="center", fontsize=7.2, color=ink)
    if (here := framed(plan)) is not None:
        axes.add_patch(
            Rectangle((here[0] - 0.47, here[1] - 0.47), 0.94, 0.94, fill=False, edgecolor=INK, linewidth=2)
        )
    across, down = plan["map"]["cohort"], plan["map"]["local_steps"]
    axes.set(xlim=(-0.5, len(across) - 0.5), ylim=(-0.5, len(down) - 0.5))
    axes.set_xticks(range(len(across)), [f"{each:g}" for each in across])
    axes.set_yticks(range(len(down)), [f"{each:g}" for each in down])
    axes.set_xlabel("cohort n", fontsize=9, color=INK)
    axes.set_ylabel("local steps K", fontsize=9, color=INK)
    axes.set_title(textwrap.fill(measure.words, 44), fontsize=8.5, color=INK, loc="left", parse_math=False)
    axes.tick_params(length=0, labelsize=8, labelcolor=INK, pad=4)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _colours(values: list[float]) -> Any:
    """The fewer, the brighter."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm, Normalize

    low, high = min(values), max(values)
    high = high if high > low else low + 1
    norm = LogNorm(low, high) if wants_log(values) else Normalize(low, high)
    return ScalarMappable(norm, colormaps[f"{COLOURS}_r"])
