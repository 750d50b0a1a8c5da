"""A comparison in pictures: medians and ranges of the curves over the seeds, and where the seconds go."""

import itertools
import math
import os
import statistics
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from enlist.report.comparison.outcome import Comparison, SeedOutcome, Standing, falls, outcomes
from enlist.report.comparison.standings import amount, cost_text, goal_words
from enlist.report.figures import kept_rows, plotly_text, points
from enlist.report.panels import (
    INK,
    MUTED,
    PALETTE,
    dress,
    empty,
    legend,
    line_style,
    log_axis,
    save,
    sheet,
    target_lines,
    wants_log,
)
from enlist.report.record import number, plain, whole
from enlist.report.tables import metric_words, round_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What a curve is drawn against.
_AXES = {
    "round": "communication round",
    "comm_mib": "MiB, one worker up and down",
    "seconds": "simulated seconds",
}


class End(NamedTuple):
    """Where a seed diverged: its last evaluated round, as a row of the band, and the value there."""

    seed: str
    row: int
    value: float


class Band(NamedTuple):
    """One contender's curve; NaN where there is none.

    Args:
        x: what it is drawn against, by the keys of the metrics; the median over the seeds.
        middle: the median over the seeds.
        low, high: the range of the seeds that still go on.
        ends: where seeds diverged.
    """

    x: dict[str, list[float]]
    middle: list[float]
    low: list[float]
    high: list[float]
    ends: list[End]


def band(standing: Standing, key: str, factor: float = 1.0) -> Band:
    """The curve of `key` over the evaluated rounds, values times `factor`.

    A seed that has ended still counts in the median: as the worst if it diverged, as the best if it reached the
    target, so that the curve is not drawn by those alone who are left. It ends where the median seed has.
    """
    runs = standing.contender.runs
    by_round = [{whole(line.get("round")): line for line in run.metrics} for run in runs]
    rounds = sorted({t for lines in by_round for t in lines if t is not None})
    columns, ends = [], []
    for seed, lines in zip(standing.seeds, by_round, strict=True):
        values = [factor * number(lines.get(t, {}).get(key)) for t in rounds]
        last = max((row for row, value in enumerate(values) if not math.isnan(value)), default=-1)
        columns.append(values[: last + 1] + [_after_the_end(seed, key)] * (len(rounds) - last - 1))
        if seed.diverged and last >= 0:
            ends.append(End(plain(seed.seed), last, values[last]))
    rows = [[value for value in row if not math.isnan(value)] for row in zip(*columns, strict=True)]
    going = [[value for value in row if math.isfinite(value)] for row in rows]
    middle = [statistics.median(row) if row else math.nan for row in rows]
    return Band(
        x={axis: _positions(by_round, rounds, axis) for axis in _AXES},
        middle=[value if math.isfinite(value) else math.nan for value in middle],
        low=[min(row, default=math.nan) for row in going],
        high=[max(row, default=math.nan) for row in going],
        ends=ends,
    )


def figure(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Writes a PNG (200 dpi): the test metric against rounds, MiB and seconds, a line and a band a contender.

    Where all seeds of all contenders reached the target, what came long after is not in view.
    """
    from matplotlib.lines import Line2D

    drawn, standings, mark = _metric_bands(comparison), outcomes(comparison), _mark(comparison)
    picture = sheet(9.6, 3.2)
    panels = picture.subplots(1, len(_AXES))
    for axes, (axis, x_words) in zip(panels, _AXES.items(), strict=True):
        _panel(axes, drawn, axis)
        y_words = metric_words([comparison.example]) if axes is panels[0] else ""
        dress(axes, x_words, y_words, whole_numbers=axis == "round")
        if not any(math.isfinite(x) for one in drawn for x in one.x[axis]):
            empty(axes, "not recorded" if any(one.middle for one in drawn) else "no evaluated round")
            continue
        target_lines(axes, [{**mark, "text": ""}])
        if wants_log(_reach(drawn, axis)):
            log_axis(axes, "x")
        elif 0 < (slowest := _slowest(standings, axis)) < math.inf:
            right = min(1.5 * slowest, axes.get_xlim()[1])
            axes.set_xlim(-0.025 * right, right)
    handles = [Line2D([], [], linewidth=1.5, **line_style(index)) for index in range(len(drawn))]
    handles.append(Line2D([], [], linewidth=0.9, linestyle="dashed", color=MUTED))
    legend(picture, handles, [*_names_in_words(standings), mark["text"]], 145)
    save(picture, path)


def split(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Writes a PNG (200 dpi): computing and communicating seconds to the target, a bar a contender."""
    from matplotlib.patches import Patch

    standings = outcomes(comparison)
    picture = sheet(7.4, 1.0 + 0.3 * len(standings))
    axes = picture.subplots()
    for place, standing in enumerate(standings):
        _bar(axes, place, standing, _split_text(comparison, standing))
    dress(axes, f"simulated seconds to {goal_words(comparison)}", "")
    longest = max((sum(standing.split) for standing in standings if standing.split), default=0.0)
    # Room for the words at the end of the longest bar.
    axes.set_xlim(0, 1.25 * longest or 1)
    names = [textwrap.fill(label, 34) for label in comparison.labels]
    axes.set_yticks(range(len(names)), names, parse_math=False, fontsize=8.5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(False, axis="y")
    shades = [Patch(facecolor=colour, linewidth=0) for colour in (MUTED, _paler(MUTED))]
    legend(picture, shades, ["computing", "communicating"], 110)
    save(picture, path)


def charts(comparison: Comparison) -> dict[str, Any]:
    """The charts of the page, ready for JSON: no NaN, and names escaped the way plotly unescapes them."""
    standings, metric = outcomes(comparison), _metric_bands(comparison)
    rows = [kept_rows(len(one.middle)) for one in metric]
    words = metric_words([comparison.example])
    mark = _mark(comparison)
    # Named in the heading: in the panel the words would lie under the curves.
    marks = {"words": f"{words}; dashed: the {mark['text']}", "marks": [{**mark, "text": ""}]}
    target = {**marks, "log": False, "scale": False}
    unit = "%" if words.endswith("(%)") else ""
    drawn = [_curve(comparison, metric, rows, {"id": "metric", "unit": unit, **target})]
    losses = [band(standing, "train_loss") for standing in standings]
    log = wants_log([value for one in losses for value in (*one.low, *one.high)])
    loss = {"words": "training loss f(x)", "marks": [], "log": log, "scale": True}
    drawn.append(_curve(comparison, losses, rows, {"id": "train_loss", "unit": "", **loss}))
    return {
        "names": [plotly_text(label) for label in comparison.labels],
        "x": [
            {axis: points(one.x[axis], kept) for axis in _AXES}
            for one, kept in zip(metric, rows, strict=True)
        ],
        "log_x": [axis for axis in _AXES if wants_log(_reach(metric, axis))],
        "curves": [curve for curve in drawn if curve["lines"]],
        "figures": [_split_chart(comparison, standings)],
    }


def _after_the_end(seed: SeedOutcome, key: str) -> float:
    best = -math.inf if falls(key) else math.inf
    return -best if seed.diverged else best if seed.reached else math.nan


def _positions(by_round: Sequence[dict[int | None, Any]], rounds: Sequence[int], axis: str) -> list[float]:
    middle = []
    for t in rounds:
        known = [number(lines[t].get(axis)) for lines in by_round if t in lines]
        middle.append(statistics.median(known) if not any(map(math.isnan, known)) else math.nan)
    # Where a slow seed ends, the median of those left must not step back.
    return middle if any(map(math.isnan, middle)) else list(itertools.accumulate(middle, max))


def _metric_bands(comparison: Comparison) -> list[Band]:
    run = comparison.example
    factor = 100.0 if run.is_percent else 1.0
    return [band(standing, run.metric_key, factor) for standing in outcomes(comparison)]


def _reach(drawn: Sequence[Band], axis: str) -> list[float]:
    """How far each curve goes: methods that send a hundredth of the bytes need a logarithmic axis."""
    return [one.x[axis][-1] for one in drawn if one.x[axis]]


def _panel(axes: "Axes", drawn: Sequence[Band], axis: str) -> None:
    marker = "o" if all(len(one.middle) <= 12 for one in drawn) else ""
    for index, one in enumerate(drawn):
        style, x = line_style(index), one.x[axis]
        if one.low != one.high:
            axes.fill_between(x, one.low, one.high, color=style["color"], alpha=0.14, linewidth=0)
            # Where a single seed is left the band has no width.
            axes.plot(x, one.low, x, one.high, linewidth=0.4, alpha=0.35, color=style["color"])
        axes.plot(x, one.middle, linewidth=1.5, marker=marker, markersize=3, **style)
        for end in one.ends:
            axes.plot(x[end.row], end.value, "x", color=style["color"], markersize=6, mew=1.5)


def _slowest(standings: Sequence[Standing], axis: str) -> float:
    """What the slowest seed of all spent to the target; infinite where one did not reach it."""
    name = {"round": "rounds", "comm_mib": "mib"}.get(axis, axis)
    costs = [standing.cost[name] for standing in standings]
    return max(math.inf if cost is None else cost.highest for cost in costs)


def _bar(axes: "Axes", place: int, standing: Standing, words: str) -> None:
    compute, communication = standing.split or (0.0, 0.0)
    colour = PALETTE[place % len(PALETTE)]
    axes.barh(place, compute, 0.62, color=colour)
    axes.barh(place, communication, 0.62, left=compute, color=_paler(colour))
    style: dict[str, Any] = {"va": "center", "fontsize": 8, "color": INK if standing.split else MUTED}
    style["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    end = (compute + communication, place)
    axes.annotate(words, end, xytext=(4, 0), textcoords="offset points", parse_math=False, **style)


def _paler(colour: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    red, green, blue = (0.4 * part + 0.6 for part in to_rgb(colour))
    return red, green, blue


def _names_in_words(standings: Sequence[Standing]) -> list[str]:
    ends = [f" ({standing.diverged} diverged)" if standing.diverged else "" for standing in standings]
    return [standing.contender.label + end for standing, end in zip(standings, ends, strict=True)]


def _mark(comparison: Comparison) -> dict[str, Any]:
    run, target = comparison.example, comparison.target
    return {"y": 100 * target if run.is_percent else target, "text": f"target {round_text(run, target)}"}


def _curve(
    comparison: Comparison, drawn: Sequence[Band], rows: Sequence[Sequence[int]], chart: dict[str, Any]
) -> dict[str, Any]:
    lines = []
    for index, (one, kept) in enumerate(zip(drawn, rows, strict=True)):
        lines += _lines(comparison, index, one, kept, chart["unit"])
    return {**chart, "kind": "curve", "lines": lines}


def _lines(
    comparison: Comparison, index: int, one: Band, rows: Sequence[int], unit: str
) -> list[dict[str, Any]]:
    """One contender's lines on the page: the edges of its band, its median, and a cross where a seed diverged."""
    middle, low, high = (points(values, rows) for values in (one.middle, one.low, one.high))
    if all(value is None for value in low):
        return []
    lines: list[dict[str, Any]] = []
    over = None
    if one.low != one.high:
        lines.append({"run": index, "y": low, "width": 0.6, "quiet": True})
        lines.append({"run": index, "y": high, "width": 0.6, "quiet": True, "fill": "tonexty"})
        over = [_over(a, b, unit) for a, b in zip(low, high, strict=True)]
    lines.append({"run": index, "y": middle, "text": over})
    for end in one.ends:
        # Of a long run not every round is drawn: the next one that is.
        place = next(i for i, row in enumerate(rows) if row >= end.row)
        y = [None] * place + [end.value] + [None] * (len(rows) - place - 1)
        name = plotly_text(f"{comparison.labels[index]}: seed {end.seed} diverged")
        lines.append({"run": index, "y": y, "label": name, "symbol": "x"})
    return lines


def _over(low: float | None, high: float | None, unit: str) -> str:
    if low is None or high is None:
        return ""
    form = ".2f" if unit else ".4g"
    return f" ({low:{form}}–{high:{form}}{unit})"


def _split_text(comparison: Comparison, standing: Standing) -> str:
    if standing.split:
        part = (
            ""
            if standing.reached == len(standing.seeds)
            else f", {standing.reached} of {len(standing.seeds)}"
        )
        return f"{amount('seconds', sum(standing.split))} s{part}"
    said = cost_text(comparison, standing, "rounds")
    return said if said.startswith("not") else "not recorded"


def _split_chart(comparison: Comparison, standings: Sequence[Standing]) -> dict[str, Any]:
    bars = []
    for index, standing in enumerate(standings):
        text = plotly_text(_split_text(comparison, standing))
        bars.append({"run": index, "parts": standing.split or (None, None), "text": text})
    words = f"simulated seconds to {goal_words(comparison)}: computing, and communicating (paler)"
    return {"id": "split", "kind": "stack", "words": words, "bars": bars}
