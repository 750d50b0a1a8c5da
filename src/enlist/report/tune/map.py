"""A tune in one picture: a heat map over the rates for each amount of work, candidates marked by their last rung."""

import itertools
import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from enlist.report.heatmap import COLOURS, scaled
from enlist.report.panels import INK, MUTED, save, sheet, wants_log
from enlist.report.sweep.outcome import label, word
from enlist.report.sweep.tables import value_text
from enlist.report.tune.outcome import Entry, Tuned
from enlist.report.tune.tables import problem_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Inches: of a cell at its largest, of all panels beside each other, of a cell in which numbers can be read.
_CELL, _WIDEST, _READABLE = (0.86, 0.56), 13.0, (0.6, 0.36)
_NO_VALUE = "#efefef"


def write_picture(tuned: Tuned, path: str | os.PathLike[str]) -> None:
    """Writes a PNG (200 dpi): scores on the last rung that each candidate reached."""
    across, down, rest = picture_axes(tuned)
    others = list(itertools.product(*(tuned.axes[name] for name in rest)))
    wide, high = len(tuned.axes[across]), len(tuned.axes[down]) if down else 1
    cell = min(_CELL[0], _WIDEST / wide), min(_CELL[1], _WIDEST / high)
    columns = max(1, min(len(others), int(_WIDEST / (wide * cell[0] + 0.8))))
    rows = math.ceil(len(others) / columns)
    picture = sheet(columns * (wide * cell[0] + 0.8) + 1.1, rows * (high * cell[1] + 0.9) + 0.7)
    said = cell[0] >= _READABLE[0] and cell[1] >= _READABLE[1]
    panels = picture.subplots(rows, columns, squeeze=False)
    colour = _colours(tuned)
    found = {repr(tuned.candidates[i]): reached for i, reached in tuned.reached.items()}
    for panel, values in itertools.zip_longest(panels.flat, others):
        if values is None:
            panel.set_visible(False)
            continue
        fixed = dict(zip(rest, values, strict=True))
        _panel(panel, tuned, (across, down), fixed, found, colour, said)
    _head(picture, tuned)
    _bar(picture, panels, tuned, colour)
    save(picture, path)


def picture_axes(tuned: Tuned) -> tuple[str, str | None, list[str]]:
    """What lies across, what goes up, and what has a panel for each of its values."""
    across, *rest = tuned.axes
    down = next((name for name in rest if name.endswith("_lr")), rest[0] if rest else None)
    return across, down, [name for name in rest if name != down]


def mark(tuned: Tuned, number: int, entry: Entry) -> str:
    """The rung that a candidate ended on, in a few letters."""
    if entry is tuned.best:
        return "winner"
    return f"rung {number} of {len(tuned.rungs)}"


def _colours(tuned: Tuned) -> Any:
    """The colour of a score; the bright end is the better one."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm, Normalize

    measure = tuned.measure
    known = [
        scaled(entry.mean, measure) for _, entry in tuned.reached.values() if entry.mean is not None
    ] or [1.0]
    low, high = min(known), max(known)
    high = high if high > low else low + 1
    norm = LogNorm(low, high) if wants_log(known) and not measure.is_percent else Normalize(low, high)
    return ScalarMappable(norm, colormaps[f"{COLOURS}_r" if measure.falls else COLOURS])


def _panel(
    axes: "Axes",
    tuned: Tuned,
    names: tuple[str, str | None],
    fixed: Mapping[str, Any],
    found: Mapping[str, tuple[int, Entry]],
    colour: Any,
    said: bool,
) -> None:
    across, down = names
    columns, rows = tuned.axes[across], tuned.axes[down] if down else [None]
    for (y, second), (x, first) in itertools.product(enumerate(rows), enumerate(columns)):
        wanted = {**fixed, across: first} | ({down: second} if down else {})
        values = next(each for each in tuned.candidates if all(each[k] == v for k, v in wanted.items()))
        _cell(axes, (x, y), tuned, *found[repr(values)], colour, said)
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(-0.5, len(rows) - 0.5))
    _ticks(axes.set_xticks, columns, said)
    _ticks(axes.set_yticks, rows if down else [], said)
    axes.set_xlabel(across, fontsize=9, color=INK, parse_math=False)
    axes.set_ylabel(down or "", fontsize=9, color=INK, parse_math=False)
    axes.set_title(textwrap.fill(label(fixed), 44), fontsize=9, color=INK, loc="left", parse_math=False)
    axes.tick_params(length=0, labelsize=8, labelcolor=INK, pad=4)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _ticks(put: Any, values: Sequence[Any], every: bool) -> None:
    """Names the values; of many only some."""
    step = 1 if every else math.ceil(len(values) / 12)
    words = [textwrap.shorten(word(value), 24, placeholder="…") for value in values[::step]]
    put(range(0, len(values), step), words, parse_math=False)


def _cell(
    axes: "Axes", at: tuple[int, int], tuned: Tuned, number: int, entry: Entry, colour: Any, said: bool
) -> None:
    from matplotlib.patches import Rectangle

    x, y = at
    mean = None if entry.mean is None else scaled(entry.mean, tuned.measure)
    face = _NO_VALUE if mean is None else colour.to_rgba(mean)
    hatch = "////" if entry.diverged else None
    style: dict[str, Any] = {
        "facecolor": face,
        "edgecolor": "white",
        "hatch": hatch,
        "linewidth": float(said),
    }
    axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, **style))
    if said:
        _say(axes, at, tuned, number, entry, face)
    if entry is tuned.best:
        axes.add_patch(Rectangle((x - 0.47, y - 0.47), 0.94, 0.94, fill=False, edgecolor=INK, linewidth=2))


def _say(axes: "Axes", at: tuple[int, int], tuned: Tuned, number: int, entry: Entry, face: Any) -> None:
    from matplotlib.colors import to_rgb

    light = sum(part * share for part, share in zip(to_rgb(face), (0.299, 0.587, 0.114), strict=True))
    score = "×" if entry.diverged else value_text(entry.mean, tuned.measure.is_percent)
    below = "diverged" if entry.diverged else mark(tuned, number, entry)
    style: dict[str, Any] = {"xy": at, "textcoords": "offset points", "ha": "center", "va": "center"}
    style["color"] = "white" if light < 0.45 else "#111111"
    further = number >= max(2, len(tuned.rungs) - 1)
    axes.annotate(score, xytext=(0, 5), fontsize=8, **style)
    axes.annotate(below, xytext=(0, -7), fontsize=6, fontweight="bold" if further else "normal", **style)


def _head(figure: Any, tuned: Tuned) -> None:
    said = f"{problem_words(tuned)}; scores on the last rung that each of {len(tuned.candidates)} candidates reached"
    told = textwrap.fill(said, max(40, int(13 * figure.get_figwidth())))
    figure.set_figheight(figure.get_figheight() + 0.14 * told.count("\n"))
    figure.suptitle(told, x=0.012, ha="left", fontsize=8.5, color=MUTED, parse_math=False)


def _bar(figure: Any, panels: Any, tuned: Tuned, colour: Any) -> None:
    measure = tuned.measure
    bar = figure.colorbar(colour, ax=panels, pad=0.02, fraction=0.06, aspect=24, shrink=0.9)
    words = measure.words + (" (%)" if measure.is_percent else "")
    bar.set_label(textwrap.fill(words, 34), fontsize=8.5, color=INK, parse_math=False)
    bar.ax.tick_params(labelsize=8, length=0, labelcolor=INK)
    bar.outline.set_visible(False)
    if measure.falls:
        # The better end is the upper one.
        bar.ax.invert_yaxis()
