"""The paper's figures: columns of panels, a row for each metric, a mean and a band over seeds."""

import math
import os
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from enlist.report.panels import INK, MUTED, PALETTE, dress, empty, log_axis, save, sheet, wants_log

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRICS = {
    "train_loss": "training loss f(x)",
    "test_loss": "test loss",
    "test_accuracy": "test accuracy (%)",
}
PERCENT = "test_accuracy"
NOT_RUN = "not run yet"
# Inches: a panel, a line of a legend, a title, each further line of it.
_WIDE, _HIGH, _LINE, _TITLE, _TITLE_LINE = 3.55, 2.45, 0.185, 0.34, 0.17
_REFERENCE = "#8a8a8a"
# Fewer than elsewhere: eight such pictures are kept with the project, and again inside a page.
DPI = 150
# Letters of a legend that fit beside each other above a panel; what the mark before a name takes.
_LEGEND_LETTERS, _MARK_LETTERS = 54, 5
# Letters of a column's title on one line.
_TITLE_LETTERS = 42
# Letters of a warning that an inch holds.
_WARNING_LETTERS = 12


class Trace(NamedTuple):
    """A curve over seeds; NaN where there is none.

    Args:
        color: its place among the colours; None for what is there to compare with, in grey.
        ends: (round, value) where seeds diverged.
    """

    label: str
    rounds: list[int]
    middle: list[float]
    low: list[float]
    high: list[float]
    ends: list[tuple[int, float]]
    color: int | None = 0
    dashed: bool = False


class Column(NamedTuple):
    """A panel for each metric.

    Args:
        traces: by metric; all metrics have the same lines in the same order.
        levels: by metric, heights drawn across the panel with the words for them.
    """

    title: str
    traces: dict[str, list[Trace]]
    levels: dict[str, list[tuple[float, str]]]


class Drawing(NamedTuple):
    """A figure of curves.

    Args:
        warning: what keeps it from being the paper's; empty where nothing does.
        notes: how it is to be read.
    """

    title: str
    columns: Sequence[Column]
    metrics: Sequence[str]
    notes: str
    warning: str = ""


def draw_curves(drawing: Drawing, path: str | os.PathLike[str]) -> None:
    """Writes a PNG (200 dpi); a column without any run says so."""
    columns, rows = len(drawing.columns), len(drawing.metrics)
    head = max(map(_head_height, drawing.columns))
    foot = textwrap.wrap(drawing.notes, 58 * columns)
    width = max(_WIDE * columns, 5.5)
    height = head + _HIGH * rows + 0.35 + 0.14 * len(foot) + warning_height(drawing.warning, width)
    figure = sheet(width, height)
    figure.set_dpi(DPI)
    ratios = [head / _HIGH, *[1.0] * rows]
    grid = figure.subplots(rows + 1, columns, squeeze=False, height_ratios=ratios)
    for place, column in enumerate(drawing.columns):
        _head(grid[0][place], column, head)
    for row, metric in enumerate(drawing.metrics, 1):
        _row(list(grid[row]), drawing, metric, last=row == rows)
    set_title(figure, drawing.title, drawing.warning)
    set_notes(figure, foot)
    save(figure, path)


def set_title(figure: "Figure", title: str, warning: str) -> None:
    """The title, and below it, in another colour, what keeps the figure from being the paper's."""
    style: dict[str, Any] = {"ha": "left", "fontsize": 10.5, "parse_math": False}
    lines = _warning_lines(warning, figure.get_figwidth())
    head = figure.suptitle(title + "\n " * len(lines), x=0.012, color=INK, **style)
    # Room is made for the title alone, so the warning takes the place of its other lines.
    below = head.get_position()[1] - 0.16 / figure.get_figheight()
    figure.text(0.012, below, "\n".join(lines), color=PALETTE[1], va="top", **style | {"fontsize": 9})


def warning_height(warning: str, width: float) -> float:
    """Inches that a warning takes in a figure so wide."""
    return 0.25 * len(_warning_lines(warning, width))


def _warning_lines(warning: str, width: float) -> list[str]:
    return textwrap.wrap(warning, int(_WARNING_LETTERS * width))


def set_notes(figure: "Figure", lines: Sequence[str]) -> None:
    """How the figure is to be read, below it."""
    figure.supxlabel("\n".join(lines), x=0.012, ha="left", fontsize=7.5, color=MUTED, parse_math=False)


def _names(column: Column) -> list[Trace]:
    return next(iter(column.traces.values()), [])


def _references(column: Column) -> list[str]:
    """What stands there to compare with, named apart from the lines."""
    said = [trace.label for trace in _names(column) if trace.color is None]
    return said + [words for levels in column.levels.values() for _, words in levels]


def _legend_columns(column: Column) -> int:
    """As many as the panel is wide enough for."""
    labels = [trace.label for trace in _names(column) if trace.color is not None]
    most = 2 if len(labels) > 3 else len(labels)
    return next((count for count in range(most, 1, -1) if _letters(labels, count) <= _LEGEND_LETTERS), 1)


def _letters(labels: Sequence[str], count: int) -> int:
    """How wide so many columns are, filled one after the other."""
    each = math.ceil(len(labels) / count)
    columns = [labels[i : i + each] for i in range(0, len(labels), each)]
    return sum(_MARK_LETTERS + max(map(len, own)) for own in columns)


def _head_height(column: Column) -> float:
    own = sum(trace.color is not None for trace in _names(column))
    lines = math.ceil(own / _legend_columns(column)) + len(_references(column))
    return _TITLE + _further(column) + _LINE * lines


def _title_lines(column: Column) -> list[str]:
    return textwrap.wrap(column.title, _TITLE_LETTERS)


def _further(column: Column) -> float:
    """Inches that a title takes beyond its first line."""
    return _TITLE_LINE * (len(_title_lines(column)) - 1)


def _head(axes: "Axes", column: Column, height: float) -> None:
    """The title of a column and the names of its lines, in so many inches."""
    from matplotlib.lines import Line2D

    axes.set_axis_off()
    style: dict[str, Any] = {
        "frameon": False,
        "fontsize": 7.8,
        "labelcolor": INK,
        "handlelength": 1.9,
        "handletextpad": 0.5,
        "columnspacing": 0.9,
        "labelspacing": 0.3,
        "borderaxespad": 0,
    }
    own = [trace for trace in _names(column) if trace.color is not None]
    axes.text(
        0,
        1,
        "\n".join(_title_lines(column)),
        transform=axes.transAxes,
        ha="left",
        va="top",
        fontsize=9.5,
        color=INK,
        weight="bold",
        parse_math=False,
    )
    title = 0.23 + _further(column)
    if own:
        handles = [Line2D([], [], linewidth=1.6, **_style(trace)) for trace in own]
        first = axes.legend(
            handles,
            [trace.label for trace in own],
            loc="upper left",
            bbox_to_anchor=(0, 1 - title / height),
            ncols=_legend_columns(column),
            **style,
        )
        first.set_in_layout(False)
        axes.add_artist(first)
    if words := _references(column):
        greys = [trace for trace in _names(column) if trace.color is None]
        handles = [Line2D([], [], linewidth=1.3, **_style(trace)) for trace in greys]
        handles += [Line2D([], [], linewidth=1.1, linestyle=":", color=_REFERENCE)] * (
            len(words) - len(greys)
        )
        rows = math.ceil(len(own) / _legend_columns(column))
        below = 1 - (title + _LINE * rows + 0.02) / height
        second = axes.legend(handles, words, loc="upper left", bbox_to_anchor=(0, below), ncols=1, **style)
        second.set_in_layout(False)


def _row(panels: Sequence["Axes"], drawing: Drawing, metric: str, last: bool) -> None:
    """The panels of one metric, all at one scale."""
    seen = [values for column in drawing.columns for values in _values(column, metric)]
    log = metric != PERCENT and wants_log(seen)
    span = _span(seen, log)
    for place, (axes, column) in enumerate(zip(panels, drawing.columns, strict=True)):
        dress(
            axes,
            "communication round" if last else "",
            METRICS[metric] if place == 0 else "",
            whole_numbers=True,
        )
        if not _values(column, metric):
            empty(axes, NOT_RUN)
            continue
        for trace in column.traces[metric]:
            _line(axes, trace)
        for height, _ in column.levels.get(metric, ()):
            axes.axhline(height, color=_REFERENCE, linewidth=1.1, linestyle=":", zorder=1)
        if span is not None:
            axes.set_ylim(*span)
        if log:
            log_axis(axes, "y")


def _values(column: Column, metric: str) -> list[float]:
    return [
        value
        for trace in column.traces.get(metric, ())
        for value in (*trace.low, *trace.high)
        if math.isfinite(value)
    ] + [height for height, _ in column.levels.get(metric, ()) if column.traces.get(metric)]


def _span(values: Sequence[float], log: bool) -> tuple[float, float] | None:
    """A little more than from the lowest to the highest."""
    if not values:
        return None
    low, high = min(values), max(values)
    if log:
        return low / 1.15, high * 1.15
    room = 0.04 * (high - low) or 0.5
    return low - room, high + room


def _line(axes: "Axes", trace: Trace) -> None:
    style = _style(trace)
    if trace.color is not None and trace.low != trace.high:
        axes.fill_between(
            trace.rounds, trace.low, trace.high, color=style["color"], alpha=0.13, linewidth=0, zorder=1.5
        )
    marker = "o" if sum(map(math.isfinite, trace.middle)) <= 12 else ""
    axes.plot(
        trace.rounds,
        trace.middle,
        linewidth=1.4,
        marker=marker,
        markersize=2.8,
        solid_joinstyle="round",
        # What zigzags lies below what does not.
        zorder=2 if trace.dashed or trace.color is None else 3,
        **style,
    )
    for when, value in trace.ends:
        if math.isfinite(value):
            axes.plot(when, value, "x", color=style["color"], markersize=6.5, mew=1.6, zorder=4)


def _style(trace: Trace) -> dict[str, Any]:
    if trace.color is None:
        return {"color": _REFERENCE, "linestyle": (0, (1, 1.2))}
    return {
        "color": PALETTE[trace.color % len(PALETTE)],
        "linestyle": (0, (3.2, 1.6)) if trace.dashed else "solid",
    }
