"""Pictures of runs: `curves.png` for a paper (matplotlib); the page's charts as data for plotly."""

import io
import json
import math
import os
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from enlist.report.record import RunRecord, labels, number, outcome, whole, write_whole
from enlist.report.tables import metric_words, round_text, sentence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart with any kind of colour vision; its yellow is too pale for thin lines.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D")
# The same hues, in an order and at a brightness that read on a dark ground.
DARK_PALETTE = ("#56B4E9", "#E69F00", "#2FBF93", "#DE94BE", "#F0E442", "#E8743B", "#C8C8C8")
DASHES = ("solid", "dashed", "dotted", "dashdot")
_INK, _MUTED, _GRID = "#222222", "#5c5c5c", "#e4e4e4"

# A line of more points than a screen has pixels only makes the page slow.
MOST_POINTS = 2000
# Partitions differ between the runs of a sweep over seeds; this many are drawn, and the page says so.
_MOST_PARTITIONS = 4
# Beyond this, single bars are thinner than a pixel.
_MOST_BARS = 400


def curves(runs: Sequence[RunRecord], path: str | os.PathLike[str]) -> None:
    """Writes a PNG (200 dpi): training loss and test metric against the round, a line for each run."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    spacing = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06, wspace=0.04)
    figure = Figure(figsize=(7.4, 3.3), dpi=200, layout=spacing, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _panel(left, "training loss f(x)", [run.series("train_loss") for run in runs])
    if wants_log([y for run in runs for y in run.column("train_loss")]):
        _log_axis(left)
    _panel(right, metric_words(runs), [_metric_series(run) for run in runs])
    _target_lines(right, runs)
    _head(figure, left, runs)
    buffer = io.BytesIO()
    # Without the writer's name and date in it, the same run gives the same file.
    canvas.print_png(buffer, metadata={"Software": None})
    write_whole(path, buffer.getvalue())


def wants_log(values: Sequence[float]) -> bool:
    """Whether the values span so much that a linear axis would flatten most of them."""
    known = [value for value in values if math.isfinite(value)]
    return bool(known) and min(known) > 0 and max(known) / min(known) > 20


def charts(runs: Sequence[RunRecord]) -> dict[str, Any]:
    """The curves of the page, ready for JSON: no NaN, and names escaped the way plotly unescapes them."""
    kept = [_kept(len(run.metrics)) for run in runs]
    axes = [
        {key: _points(run.column(key), rows) for key in ("round", "comm_mib", "seconds")}
        for run, rows in zip(runs, kept, strict=True)
    ]
    named = {"metric": metric_words(runs), "train_loss": "training loss f(x)", "test_loss": "test loss"}
    named |= {"delta_norm": "length of the mean update ‖Δ‖", "grad_norm_sq": "squared gradient norm ‖∇f(x)‖²"}
    drawn = []
    for chart, words in named.items():
        keys = [run.metric_key if chart == "metric" else chart for run in runs]
        if chart == "metric" and set(keys) == {"test_loss"}:
            continue
        values = [_scaled(run, run.column(key), key) for run, key in zip(runs, keys, strict=True)]
        lines = [
            {"run": index, "y": _points(y, rows)}
            for index, (y, rows) in enumerate(zip(values, kept, strict=True))
            if not all(math.isnan(value) for value in y)
        ]
        if lines:
            log = chart != "metric" and wants_log([value for y in values for value in y])
            base = {"id": chart, "kind": "curve", "words": words, "log": log, "scale": chart != "metric"}
            marks = _marks(runs) if chart == "metric" else []
            unit = "%" if words.endswith("(%)") else ""
            drawn.append({**base, "lines": lines, "marks": marks, "unit": unit})
    drawn += _worker_accuracy(runs, kept)
    return {"names": [_plotly_text(label) for label in labels(runs)], "x": axes, "curves": drawn}


def partition_charts(runs: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """A chart for each distinct partition: workers by classes where there are any, else rows by worker."""
    found: dict[str, dict[str, Any]] = {}
    for index, run in enumerate(runs):
        if run.partition:
            known = found.setdefault(json.dumps(run.partition, sort_keys=True), {"runs": [], **run.partition})
            known["runs"].append(index)
    drawn = []
    for order, part in enumerate(list(found.values())[:_MOST_PARTITIONS]):
        counts, sizes = part.get("class_counts"), part.get("worker_sizes")
        base = {"runs": part["runs"], "partition": part, "left_out": len(found) - _MOST_PARTITIONS}
        if counts:
            by_class = [list(column) for column in zip(*counts, strict=True)]
            words = "rows of each class, by worker"
            drawn.append({**base, "id": f"classes-{order}", "kind": "heat", "words": words, "z": by_class})
        if sizes and (not counts or len(set(sizes)) > 1):
            bars = [{"run": part["runs"][0], "x": list(range(len(sizes))), "y": sizes}]
            chart = {"id": f"sizes-{order}", "kind": "bar", "words": "rows, by worker", "bars": bars}
            hover = "worker %{x}: %{y:,} rows<extra></extra>"
            drawn.append({**base, **chart, "x_words": "worker", "y_words": "rows", "hover": hover})
    return drawn


def participation_chart(runs: Sequence[RunRecord]) -> dict[str, Any] | None:
    """How often each worker was in an evaluated round's cohort; of many workers or runs, the distribution."""
    bars: list[dict[str, Any]] = []
    by_worker = len(runs) == 1
    for index, run in enumerate(runs):
        cohorts = [line["cohort"] for line in run.metrics if isinstance(line.get("cohort"), list)]
        times = Counter(int(worker) for cohort in cohorts for worker in set(cohort))
        if not times:
            continue
        workers = max(whole(run.config.get("workers")) or 0, *(worker + 1 for worker in times))
        counts = [times[worker] for worker in range(workers)]
        by_worker = by_worker and workers <= _MOST_BARS
        shares = Counter(counts)
        x = list(range(workers)) if by_worker else sorted(shares)
        bars.append({"run": index, "x": x, "y": counts if by_worker else [shares[value] for value in x]})
    if not bars:
        return None
    chart = {"id": "participation", "kind": "bar", "bars": bars}
    if by_worker:
        mean = sum(bars[0]["y"]) / len(bars[0]["y"])
        chart["words"] = f"evaluated rounds that a worker took part in; dashed: the mean, {mean:.3g}"
        hover = "worker %{x}: in %{y} evaluated rounds<extra></extra>"
        words = {"x_words": "worker", "y_words": "evaluated rounds", "hover": hover}
        return {**chart, **words, "marks": [{"y": mean, "text": ""}]}
    chart["words"] = "how many workers took part in how many evaluated rounds"
    hover = "%{y:,} workers were in %{x} evaluated rounds<extra></extra>"
    return {**chart, "x_words": "evaluated rounds", "y_words": "workers", "hover": hover}


def _panel(axes: "Axes", words: str, lines: Sequence[tuple[list[float], list[float]]]) -> None:
    from matplotlib.ticker import MaxNLocator

    for index, (rounds, values) in enumerate(lines):
        known = [i for i, value in enumerate(values) if math.isfinite(value)]
        style: dict[str, Any] = {
            "color": PALETTE[index % len(PALETTE)],
            "linestyle": DASHES[index // len(PALETTE) % len(DASHES)],
        }
        marker = "o" if len(known) <= 12 else ""
        axes.plot(
            rounds, values, linewidth=1.5, marker=marker, markersize=3.5, solid_joinstyle="round", **style
        )
        if known and known[-1] < len(values) - 1:
            # The curve stops before the run does: it turned non-finite here.
            axes.plot(rounds[known[-1]], values[known[-1]], "x", color=style["color"], markersize=7, mew=1.8)
    if not any(math.isfinite(value) for _, values in lines for value in values):
        said = "no finite value" if any(values for _, values in lines) else "no evaluated round yet"
        axes.text(
            0.5, 0.5, said, transform=axes.transAxes, ha="center", va="center", color=_MUTED, fontsize=9
        )
        axes.set(xticks=[], yticks=[])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
        axes.margins(x=0.025)
    axes.set_xlabel("communication round", fontsize=9, color=_INK)
    axes.set_ylabel(words, fontsize=9, color=_INK, parse_math=False)
    axes.grid(True, color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0, labelsize=8, labelcolor=_INK, pad=5)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color("#b0b0b0")


def _log_axis(axes: "Axes") -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    # 1, 2, 5 within few decades, where powers of ten alone would leave an axis with a single number on it.
    few = math.log10(high / low) < 3
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=8))
    if few:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _target_lines(axes: "Axes", runs: Sequence[RunRecord]) -> None:
    for mark in _marks(runs):
        axes.axhline(mark["y"], color=_MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        # On the left, where a curve that climbs to its target has not yet arrived.
        place: dict[str, Any] = {
            "xy": (0.0, mark["y"]),
            "xycoords": axes.get_yaxis_transform(),
            "textcoords": "offset points",
        }
        axes.annotate(mark["text"], xytext=(4, 3), fontsize=7.5, color=_MUTED, in_layout=False, **place)


def _head(figure: "Figure", axes: "Axes", runs: Sequence[RunRecord]) -> None:
    if len(runs) == 1:
        # Broken between phrases only: "5 local epochs" belongs together.
        words = textwrap.fill(sentence(runs).replace(" ", "\xa0").replace(",\xa0", ", "), 104)
        figure.suptitle(words, x=0.012, ha="left", fontsize=8.5, color=_MUTED, parse_math=False)
        return
    handles = [line for line in axes.get_lines() if line.get_marker() != "x"]
    ends = [" (diverged)" if outcome(run).status == "diverged" else "" for run in runs]
    # matplotlib leaves out labels that begin with an underscore.
    names = [" " * label.startswith("_") + label + end for label, end in zip(labels(runs), ends, strict=True)]
    # About 110 letters of this size fill the width of the figure.
    fits = sum(len(name) + 7 for name in names) <= 110
    columns = len(runs) if fits else max(1, 110 // (max(map(len, names)) + 7))
    figure.set_figheight(3.1 + 0.18 * math.ceil(len(runs) / columns))
    style: dict[str, Any] = {"frameon": False, "fontsize": 8.5, "handlelength": 1.8, "labelcolor": _INK}
    legend = figure.legend(handles, names, loc="outside upper left", ncols=columns, **style)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _metric_series(run: RunRecord) -> tuple[list[float], list[float]]:
    rounds, values = run.series(run.metric_key)
    return rounds, _scaled(run, values, run.metric_key)


def _scaled(run: RunRecord, values: list[float], key: str) -> list[float]:
    return [100 * value for value in values] if run.is_percent and key == run.metric_key else values


def _marks(runs: Sequence[RunRecord]) -> list[dict[str, Any]]:
    marks = {}
    for run in runs:
        target = outcome(run).target
        if target is not None:
            said = f"target {round_text(run, target)}"
            marks[said] = {"y": 100 * target if run.is_percent else target, "text": said}
    # A sweep over the target itself would paint the panel full of lines.
    return list(marks.values())[:4]


def _worker_accuracy(runs: Sequence[RunRecord], kept: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    # One run shows the whole spread; of several, the workers who fare worst are what a person compares.
    words = "accuracy of the worker at the 10th percentile (%)"
    shown: list[tuple[str, float, str | None]] = [("p10", 2, None)]
    if len(runs) == 1:
        words = "accuracy by worker: min, 10th percentile, median, max (%)"
        shown = [("max", 1, None), ("min", 1, "tonexty"), ("p10", 1.5, None), ("median", 2.2, None)]
    lines = []
    for index, (run, rows) in enumerate(zip(runs, kept, strict=True)):
        spread = [line.get("worker_accuracy") or {} for line in run.metrics]
        for key, width, fill in shown:
            y = _points([100 * number(by_worker.get(key)) for by_worker in spread], rows)
            if any(value is not None for value in y):
                label = key.replace("p10", "10th percentile") if len(runs) == 1 else None
                lines.append({"run": index, "y": y, "width": width, "fill": fill, "label": label})
    base = {"id": "worker_accuracy", "kind": "curve", "words": words, "log": False, "scale": False}
    return [{**base, "lines": lines, "marks": [], "unit": "%"}] if lines else []


def _kept(count: int) -> list[int]:
    step = max(1, math.ceil(count / MOST_POINTS))
    # Counted from the end, so that the outcome is always among the points drawn.
    return list(range(count - 1, -1, -step))[::-1]


def _points(values: Sequence[float], rows: Sequence[int]) -> list[float | None]:
    return [float(f"{values[i]:.7g}") if math.isfinite(values[i]) else None for i in rows]


def _plotly_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
