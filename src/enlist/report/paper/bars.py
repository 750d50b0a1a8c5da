"""The paper's figure 7: bars of seconds, computing and sending."""

import os
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from enlist.report.panels import INK, MUTED, PALETTE, dress, save, sheet
from enlist.report.paper.figures import DPI, set_notes, set_title, warning_height

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Inches.
WIDTH = 7.6


class Bar(NamedTuple):
    """Seconds to a target, of one method.

    Args:
        seconds: of computing and of sending; None where the target was not reached, or the runs are not there.
        words: at its end.
    """

    group: str
    label: str
    color: int
    seconds: tuple[float, float] | None
    words: str


def draw_bars(
    title: str,
    goal: str,
    bars: Sequence[Bar],
    path: str | os.PathLike[str],
    notes: str = "",
    warning: str = "",
) -> None:
    """Writes a PNG: computing, and sending paler, a bar a method.

    Args:
        goal: what the seconds are to.
    """
    from matplotlib.patches import Patch

    foot = textwrap.wrap(notes, 105)
    groups = list(dict.fromkeys(bar.group for bar in bars))
    room = 1.35 + 0.34 * len(bars) + 0.3 * len(groups) + 0.14 * len(foot)
    figure = sheet(WIDTH, room + warning_height(warning, WIDTH))
    figure.set_dpi(DPI)
    axes = figure.subplots()
    places = [place + 0.35 * groups.index(bar.group) for place, bar in enumerate(bars)]
    for place, bar in zip(places, bars, strict=True):
        _bar(axes, place, bar)
    dress(axes, f"seconds to {goal}", "")
    longest = max((sum(bar.seconds) for bar in bars if bar.seconds), default=0.0)
    # Room for the words.
    axes.set_xlim(0, 1.9 * longest or 1)
    if not longest:
        axes.set_xticks([])
    names = [f"{bar.group}: {bar.label}" for bar in bars]
    axes.set_yticks(places, names, parse_math=False, fontsize=8.5)
    axes.set_ylim(places[-1] + 0.6, -0.6)
    axes.grid(False, axis="y")
    shades = [Patch(facecolor=MUTED, linewidth=0), Patch(facecolor=_paler(MUTED), linewidth=0)]
    style: dict[str, Any] = {"frameon": False, "fontsize": 8.5, "labelcolor": INK, "ncols": 2}
    axes.legend(shades, ["computing", "sending"], loc="lower left", bbox_to_anchor=(0, 1), **style)
    set_title(figure, title, warning)
    set_notes(figure, foot)
    save(figure, path)


def _bar(axes: "Axes", place: float, bar: Bar) -> None:
    computing, sending = bar.seconds or (0.0, 0.0)
    colour = PALETTE[bar.color % len(PALETTE)]
    axes.barh(place, computing, 0.66, color=colour)
    axes.barh(place, sending, 0.66, left=computing, color=_paler(colour))
    style: dict[str, Any] = {"va": "center", "fontsize": 8, "color": INK if bar.seconds else MUTED}
    end = (computing + sending, place)
    axes.annotate(bar.words, end, xytext=(4, 0), textcoords="offset points", parse_math=False, **style)


def _paler(colour: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    red, green, blue = (0.4 * part + 0.6 for part in to_rgb(colour))
    return red, green, blue
