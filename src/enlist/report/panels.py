"""What every picture is made of: a sheet, its panels and their axes, colours and names (matplotlib)."""

import io
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from enlist.report.record import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart with any kind of colour vision; its yellow is too pale for thin lines.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D")
# The same hues, in an order and at a brightness that read on a dark ground.
DARK_PALETTE = ("#56B4E9", "#E69F00", "#2FBF93", "#DE94BE", "#F0E442", "#E8743B", "#C8C8C8")
DASHES = ("solid", "dashed", "dotted", "dashdot")
INK, MUTED, GRID = "#222222", "#5c5c5c", "#e4e4e4"


def sheet(width: float, height: float) -> "Figure":
    """An empty figure of so many inches."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    spacing = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06, wspace=0.04)
    return Figure(figsize=(width, height), dpi=200, layout=spacing, facecolor="white")


def save(figure: "Figure", path: str | os.PathLike[str]) -> None:
    """Writes the figure as a PNG; the same figure gives the same file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    buffer = io.BytesIO()
    # Without the writer's name and date in it.
    FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
    write_whole(path, buffer.getvalue())


def line_style(index: int) -> dict[str, Any]:
    """The colour and the dashes of the line at this place."""
    return {
        "color": PALETTE[index % len(PALETTE)],
        "linestyle": DASHES[index // len(PALETTE) % len(DASHES)],
    }


def empty(axes: "Axes", words: str) -> None:
    """Says in an empty panel why it is."""
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=MUTED, fontsize=9)
    axes.set(xticks=[], yticks=[])


def dress(axes: "Axes", x_words: str, y_words: str, whole_numbers: bool = False) -> None:
    """Names, ticks and grid, alike in every panel."""
    from matplotlib.ticker import MaxNLocator

    if axes.get_xticks().size:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=whole_numbers, min_n_ticks=1))
        axes.margins(x=0.025)
    axes.set_xlabel(x_words, fontsize=9, color=INK)
    axes.set_ylabel(y_words, fontsize=9, color=INK, parse_math=False)
    axes.grid(True, color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0, labelsize=8, labelcolor=INK, pad=5)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color("#b0b0b0")


def log_axis(axes: "Axes", name: str) -> None:
    """Makes the axis `x` or `y` logarithmic, with a few plain numbers on it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set(**{f"{name}scale": "log"})
    axis = axes.xaxis if name == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    # 1, 2, 5 within few decades, where powers of ten alone would leave an axis with a single number on it.
    few = math.log10(high / low) < 3
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=8))
    if few:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def target_lines(axes: "Axes", marks: Sequence[dict[str, Any]]) -> None:
    """Draws dashed lines across the panel, each with its words."""
    for mark in marks:
        axes.axhline(mark["y"], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        # On the left, where a curve that climbs to its target has not yet arrived.
        place: dict[str, Any] = {
            "xy": (0.0, mark["y"]),
            "xycoords": axes.get_yaxis_transform(),
            "textcoords": "offset points",
        }
        axes.annotate(mark["text"], xytext=(4, 3), fontsize=7.5, color=MUTED, in_layout=False, **place)


def legend(figure: "Figure", handles: Sequence[Any], names: Sequence[str], letters: int) -> None:
    """Puts names above the panels and makes room; about so many letters fill the width of the figure."""
    if not names:
        return
    fits = sum(len(name) + 7 for name in names) <= letters
    columns = len(names) if fits else max(1, letters // (max(map(len, names)) + 7))
    figure.set_figheight(figure.get_figheight() - 0.2 + 0.18 * math.ceil(len(names) / columns))
    style: dict[str, Any] = {"frameon": False, "fontsize": 8.5, "handlelength": 1.8, "labelcolor": INK}
    # matplotlib leaves out labels that begin with an underscore.
    shown = [" " * name.startswith("_") + name for name in names]
    for text in figure.legend(handles, shown, loc="outside upper left", ncols=columns, **style).get_texts():
        text.set_parse_math(False)


def wants_log(values: Sequence[float]) -> bool:
    """Whether the values span so much that a linear axis would flatten most of them."""
    known = [value for value in values if math.isfinite(value)]
    return bool(known) and min(known) > 0 and max(known) / min(known) > 20
