"""A sweep in one picture: heat maps over two axes, a panel for each combination of the others; a line over one."""

import itertools
import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from enlist.report.panels import GRID, INK, MUTED, PALETTE, dress, empty, log_axis, save, sheet, wants_log
from enlist.report.sweep.outcome import SEED, Cell, Measure, Sweep, label, word
from enlist.report.sweep.tables import value_text
from enlist.report.tables import sentence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.figure import Figure

# Told apart with any kind of colour vision, and in grey; the bright end is the better one.
COLOURS = "viridis"
MOST_PANELS = 48
# Inches: of a cell at its largest, of all panels, of a cell in which numbers can still be read.
_CELL, _WIDEST, _READABLE = (0.82, 0.5), 15.0, 0.36
_NO_VALUE = "#efefef"
# So many values of a line's axis are all written below it.
_NAMED = 12


def write_picture(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """Writes a PNG (200 dpi) of the first measure of the sweep."""
    if len(picture_axes(sweep)) == 1:
        _line(sweep, sweep.measures[0], path)
    else:
        _heatmaps(sweep, sweep.measures[0], path)


def picture_axes(sweep: Sweep) -> list[str]:
    """The axes that are drawn: seeds are averaged over, unless nothing else differs."""
    return [name for name in sweep.axes if name != SEED] or list(sweep.axes)


def is_numeric(values: Sequence[Any]) -> bool:
    """Whether all of them are numbers."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def scaled(value: float, measure: Measure) -> float:
    """As it is drawn: shares in percent."""
    return 100 * value if measure.is_percent else value


def shown_cells(sweep: Sweep) -> list[Cell]:
    """The combinations; where nothing but the seed differs, each seed as one."""
    if picture_axes(sweep) != [SEED]:
        return sweep.cells
    return [Cell({SEED: row[SEED]}, [row]) for row in sweep.rows]


class _Scale(NamedTuple):
    """What colour a value has."""

    colours: "Colormap"
    norm: "Normalize"

    def of(self, value: float) -> Any:
        return self.colours(self.norm(value))


def _scale(values: Sequence[float], measure: Measure) -> _Scale:
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize

    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if low == high:
        # All alike: the better end.
        low, high = (low, low + 1) if measure.falls else (low - 1, low)
    norm = LogNorm(low, high) if wants_log(values) and not measure.is_percent else Normalize(low, high)
    return _Scale(colormaps[f"{COLOURS}_r" if measure.falls else COLOURS], norm)


def _heatmaps(sweep: Sweep, measure: Measure, path: str | os.PathLike[str]) -> None:
    names = picture_axes(sweep)
    across, down, *rest = names
    others = list(itertools.product(*(sweep.axes[name] for name in rest)))
    columns, rows = _layout(sweep, across, rest, len(others[:MOST_PANELS]))
    wide, high = len(sweep.axes[across]), len(sweep.axes[down])
    cell = min(_CELL[0], _WIDEST / (columns * wide)), min(_CELL[1], _WIDEST / (rows * high))
    labels = 0.09 * max(len(word(value)) for value in sweep.axes[down])
    picture = sheet(columns * (wide * cell[0] + 0.35 + labels) + 1.1, rows * (high * cell[1] + 0.75) + 0.55)
    found = {_place(each.values, names): each for each in sweep.cells}
    known = [spread.mean for each in sweep.cells if (spread := each.spread(measure.key))]
    scale = _scale([scaled(value, measure) for value in known], measure)
    panels = picture.subplots(rows, columns, squeeze=False)
    for panel, values in itertools.zip_longest(panels.flat, others[:MOST_PANELS]):
        if values is None:
            panel.set_visible(False)
            continue
        fixed = dict(zip(rest, values, strict=True))
        grid = [
            [found.get(_place(fixed | {across: x, down: y}, names)) for x in sweep.axes[across]]
            for y in sweep.axes[down]
        ]
        _panel(panel, grid, measure, scale, min(cell) if min(cell) >= _READABLE else 0)
        _name_axes(panel, sweep, across, down)
        panel.set_title(
            textwrap.fill(label(fixed), 40), fontsize=8.5, color=INK, loc="left", parse_math=False
        )
    _head(picture, sweep, len(others) - MOST_PANELS)
    _colour_bar(picture, panels, measure, scale, bool(known))
    save(picture, path)


def _layout(sweep: Sweep, across: str, rest: Sequence[str], panels: int) -> tuple[int, int]:
    """Columns and rows of panels: the last axis side by side where it fits a page, with few places left empty."""
    fit = max(1, round(_WIDEST / (len(sweep.axes[across]) * _CELL[0] + 0.8)))
    if len(rest) > 1 and len(sweep.axes[rest[-1]]) <= fit and panels % len(sweep.axes[rest[-1]]) == 0:
        columns = len(sweep.axes[rest[-1]])
    else:
        wide = math.sqrt(panels * 1.5)
        columns = min(range(1, min(panels, fit) + 1), key=lambda c: (-panels % c) + abs(c - wide))
    return columns, math.ceil(panels / columns)


def _place(values: Mapping[str, Any], axes: Sequence[str]) -> str:
    return repr([values[name] for name in axes])


def _panel(
    axes: "Axes", grid: Sequence[Sequence[Cell | None]], measure: Measure, scale: _Scale, size: float
) -> None:
    from matplotlib.patches import Rectangle

    for y, row in enumerate(grid):
        for x, cell in enumerate(row):
            if cell is None:
                continue
            spread = cell.spread(measure.key)
            colour = scale.of(scaled(spread.mean, measure)) if spread else _NO_VALUE
            hatch = "////" if spread is None and cell.diverged else None
            axes.add_patch(
                Rectangle(
                    (x - 0.5, y - 0.5), 1, 1, facecolor=colour, edgecolor="white", hatch=hatch, linewidth=1
                )
            )
            if size or spread is None:
                _say(axes, x, y, cell, measure, colour, size)
    axes.set(xlim=(-0.5, len(grid[0]) - 0.5), ylim=(-0.5, len(grid) - 0.5))


def _say(axes: "Axes", x: int, y: int, cell: Cell, measure: Measure, colour: Any, size: float) -> None:
    ink = ink_on(colour)
    first, second = cell_words(cell, measure)
    if not size:
        first, second = ("×" if cell.diverged else "–"), ""
    big = 8.2 if size > 0.42 else 7.0
    style: dict[str, Any] = {"ha": "center", "va": "center", "color": ink, "parse_math": False}
    if second and size:
        place: dict[str, Any] = {"xy": (x, y), "textcoords": "offset points", **style}
        axes.annotate(first, xytext=(0, 4), fontsize=big, **place)
        axes.annotate(second, xytext=(0, -8), fontsize=5.6, alpha=0.9, **place)
    else:
        axes.text(x, y, first, fontsize=big, **style)


def cell_words(cell: Cell, measure: Measure) -> tuple[str, str]:
    """What is written into a cell: the mean, and below it how far the seeds lie apart or how many are missing."""
    spread, count = cell.spread(measure.key), len(cell.rows)
    if spread is None and cell.diverged:
        ended = "diverged" if cell.diverged == count else f"{cell.diverged} of {count} diverged"
        return "×", f"after {cell.rows[0]['rounds']:,}" if count == 1 else ended
    if spread is None:
        return ("–", "not reached") if measure.key.endswith("_to_target") else ("–", "")
    mean = value_text(spread.mean, measure.is_percent).removesuffix("%")
    # Of a percentage, tenths are more than seeds agree in.
    mean = f"{100 * spread.mean:.1f}" if measure.is_percent else mean
    if cell.diverged:
        return mean, f"{cell.diverged} of {count} diverged"
    if spread.known < count:
        return mean, f"{spread.known} of {count} reached"
    if spread.deviation is None:
        return mean, ""
    deviation = scaled(spread.deviation, measure)
    return mean, f"± {deviation:.1f}" if measure.is_percent else f"± {deviation:.2g}"


def ink_on(colour: Any) -> str:
    """White or nearly black, whichever can be read on a colour."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.45 else "#111111"


def _name_axes(axes: "Axes", sweep: Sweep, across: str, down: str) -> None:
    names = [[word(value) for value in sweep.axes[name]] for name in (across, down)]
    slant: dict[str, Any] = {"rotation": 35, "ha": "right"} if max(map(len, names[0])) > 9 else {}
    axes.set_xticks(range(len(names[0])), names[0], parse_math=False, **slant)
    axes.set_yticks(range(len(names[1])), names[1], parse_math=False)
    axes.set_xlabel(across, fontsize=9, color=INK, parse_math=False)
    axes.set_ylabel(down, fontsize=9, color=INK, parse_math=False)
    if not is_numeric(sweep.axes[down]):
        # Numbers grow upwards, as on any axis; words are read downwards.
        axes.invert_yaxis()
    axes.tick_params(length=0, labelsize=8, labelcolor=INK, pad=4)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _head(figure: "Figure", sweep: Sweep, left_out: int = 0) -> None:
    words = sentence([each.run for each in sweep.runs])
    words += f"; {left_out} more panels are not drawn" if left_out > 0 else ""
    letters = max(30, int(13 * figure.get_figwidth()))
    told = textwrap.fill(words.replace(" ", "\xa0").replace(",\xa0", ", "), letters)
    figure.set_figheight(figure.get_figheight() + 0.14 * told.count("\n"))
    figure.suptitle(told, x=0.012, ha="left", fontsize=8.5, color=MUTED, parse_math=False)


def _colour_bar(figure: "Figure", panels: Any, measure: Measure, scale: _Scale, any_value: bool) -> None:
    from matplotlib.cm import ScalarMappable

    if not any_value:
        return
    words = measure.words + (" (%)" if measure.is_percent else "")
    bar = figure.colorbar(
        ScalarMappable(scale.norm, scale.colours), ax=panels, pad=0.02, fraction=0.06, aspect=24, shrink=0.9
    )
    bar.set_label(textwrap.fill(words, 34), fontsize=8.5, color=INK, parse_math=False)
    bar.ax.tick_params(labelsize=8, length=0, labelcolor=INK)
    bar.outline.set_visible(False)
    if measure.falls:
        # The better end is the upper one.
        bar.ax.invert_yaxis()


def _line(sweep: Sweep, measure: Measure, path: str | os.PathLike[str]) -> None:
    (name,) = picture_axes(sweep)
    picture = sheet(5.6, 3.4)
    axes = picture.subplots()
    values = list(sweep.axes[name])
    positions = _positions(values)
    cells = {repr(cell.values[name]): cell for cell in shown_cells(sweep)}
    means = []
    for x, value in zip(positions, values, strict=True):
        cell = cells[repr(value)]
        spread = cell.spread(measure.key)
        means.append(math.nan if spread is None else scaled(spread.mean, measure))
        _mark(axes, x, cell, measure)
    # Between words, or seeds, there is nothing, so the line that leads the eye is thin.
    width = 1.5 if is_numeric(values) and name != SEED else 0.5
    axes.plot(positions, means, color=PALETTE[0], linewidth=width, marker="o", markersize=4.5, zorder=3)
    if not any(map(math.isfinite, means)):
        empty(axes, "no run has a value")
    unit = " (%)" if measure.is_percent else ""
    dress(axes, name, textwrap.fill(measure.words + unit, 40))
    axes.margins(x=0.08, y=0.12)
    # Places without a value are in view too.
    axes.update_datalim([(x, 0.0) for x in positions], updatey=False)
    axes.autoscale_view()
    if is_numeric(values) and wants_log(positions):
        log_axis(axes, "x")
    if len(values) <= _NAMED or not is_numeric(values):
        names = [word(value) for value in values]
        slant: dict[str, Any] = {"rotation": 30, "ha": "right"} if max(map(len, names)) > 12 else {}
        axes.set_xticks(positions, names, parse_math=False, **slant)
    if wants_log(means) and not measure.is_percent:
        log_axis(axes, "y")
    _head(picture, sweep)
    save(picture, path)


def _positions(values: Sequence[Any]) -> list[float]:
    """Numbers where they lie, anything else one after the other."""
    if is_numeric(values):
        return [float(value) for value in values]
    return [float(place) for place in range(len(values))]


def _mark(axes: "Axes", x: float, cell: Cell, measure: Measure) -> None:
    """The seeds one by one, and a cross at the foot where some diverged or a dash where some have no value."""
    spread, count = cell.spread(measure.key), len(cell.rows)
    if spread is not None and spread.deviation is not None:
        mean, deviation = scaled(spread.mean, measure), scaled(spread.deviation, measure)
        axes.errorbar(x, mean, deviation, color=PALETTE[0], linewidth=1.1, capsize=3, zorder=2)
        known = [
            scaled(float(row[measure.key]), measure) for row in cell.rows if row[measure.key] is not None
        ]
        axes.plot([x] * len(known), known, ".", color=GRID, markeredgecolor=MUTED, markersize=5, zorder=1)
    missing = count - (spread.known if spread else 0)
    if missing:
        why = "diverged" if cell.diverged else "not reached"
        said = f"× {missing} of {count}\n{why}" if count > 1 else f"×\n{why}"
        place: dict[str, Any] = {
            "xy": (x, 0.0),
            "xycoords": axes.get_xaxis_transform(),
            "textcoords": "offset points",
        }
        colour = PALETTE[1] if cell.diverged else MUTED
        axes.annotate(said, xytext=(0, 4), ha="center", fontsize=7, color=colour, **place)
