"""Pictures of runs: `curves.png` for a paper (matplotlib); the page's charts as data for plotly."""

import json
import math
import os
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from enlist.report.deployment import loss_words, losses, seconds_words
from enlist.report.panels import (
    MUTED,
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
from enlist.report.record import RunRecord, labels, number, outcome, whole
from enlist.report.tables import metric_words, round_text, sentence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# A line of more points than a screen has pixels only makes the page slow.
MOST_POINTS = 2000
# Partitions differ between the runs of a sweep over seeds; this many are drawn, and the page says so.
_MOST_PARTITIONS = 4
# Beyond this, single bars are thinner than a pixel.
_MOST_BARS = 400


def curves(runs: Sequence[RunRecord], path: str | os.PathLike[str]) -> None:
    """Writes a PNG (200 dpi): training loss and test metric against the round, a line for each run.

    Of a run whose server saw no training row the loss is that of the local steps, and the picture says so.
    """
    figure = sheet(7.4, 3.3)
    left, right = figure.subplots(1, 2)
    _panel(left, loss_words(runs), [run.series(run.loss_key) for run in runs])
    if wants_log([y for run in runs for y in run.column(run.loss_key)]):
        log_axis(left, "y")
    _panel(right, metric_words(runs), [_metric_series(run) for run in runs])
    target_lines(right, _marks(runs))
    _head(figure, left, runs)
    save(figure, path)


def charts(runs: Sequence[RunRecord]) -> dict[str, Any]:
    """The curves of the page, ready for JSON: no NaN, and names escaped the way plotly unescapes them."""
    kept = [kept_rows(len(run.metrics)) for run in runs]
    axes = [
        {key: points(run.column(key), rows) for key in ("round", "comm_mib", "seconds")}
        for run, rows in zip(runs, kept, strict=True)
    ]
    named = {"metric": metric_words(runs), "train_loss": "training loss f(x)"}
    named |= {"local_loss": "mean loss of the local steps", "test_loss": "test loss"}
    named |= {"delta_norm": "length of the mean update ‖Δ‖", "grad_norm_sq": "squared gradient norm ‖∇f(x)‖²"}
    drawn = []
    for chart, words in named.items():
        keys = [run.metric_key if chart == "metric" else chart for run in runs]
        if chart == "metric" and set(keys) == {"test_loss"}:
            continue
        values = [_scaled(run, run.column(key), key) for run, key in zip(runs, keys, strict=True)]
        lines = [
            {"run": index, "y": points(y, rows)}
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
    names = [plotly_text(label) for label in labels(runs)]
    return {"names": names, "x": axes, "seconds": seconds_words(runs), "curves": drawn}


def partition_charts(runs: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """A chart for each distinct partition: workers by classes where there are any, else rows by worker."""
    found: dict[str, dict[str, Any]] = {}
    for index, run in enumerate(runs):
        if run.partition:
            shown = {key: value for key, value in run.partition.items() if key != "fingerprint"}
            known = found.setdefault(json.dumps(shown, sort_keys=True), {"runs": [], **shown})
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
    for index, (rounds, values) in enumerate(lines):
        known = [i for i, value in enumerate(values) if math.isfinite(value)]
        style = line_style(index)
        marker = "o" if len(known) <= 12 else ""
        axes.plot(
            rounds, values, linewidth=1.5, marker=marker, markersize=3.5, solid_joinstyle="round", **style
        )
        if known and known[-1] < len(values) - 1:
            # The curve stops before the run does: it turned non-finite here.
            axes.plot(rounds[known[-1]], values[known[-1]], "x", color=style["color"], markersize=7, mew=1.8)
    if not any(math.isfinite(value) for _, values in lines for value in values):
        empty(axes, "no finite value" if any(values for _, values in lines) else "no evaluated round yet")
    dress(axes, "communication round", words, whole_numbers=True)


def _head(figure: "Figure", axes: "Axes", runs: Sequence[RunRecord]) -> None:
    if len(runs) == 1:
        # Broken between phrases only: "5 local epochs" belongs together.
        words = textwrap.fill(sentence(runs).replace(" ", "\xa0").replace(",\xa0", ", "), 104)
        figure.suptitle(words, x=0.012, ha="left", fontsize=8.5, color=MUTED, parse_math=False)
        return
    handles = [line for line in axes.get_lines() if line.get_marker() != "x"]
    ends = [" (diverged)" if outcome(run).status == "diverged" else "" for run in runs]
    if len(losses(runs)) > 1:
        ends = [
            end + (" (loss of its local steps)" if run.loss_key == "local_loss" else "")
            for run, end in zip(runs, ends, strict=True)
        ]
    names = [label + end for label, end in zip(labels(runs), ends, strict=True)]
    legend(figure, handles, names, 110)


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
            y = points([100 * number(by_worker.get(key)) for by_worker in spread], rows)
            if any(value is not None for value in y):
                label = key.replace("p10", "10th percentile") if len(runs) == 1 else None
                lines.append({"run": index, "y": y, "width": width, "fill": fill, "label": label})
    base = {"id": "worker_accuracy", "kind": "curve", "words": words, "log": False, "scale": False}
    return [{**base, "lines": lines, "marks": [], "unit": "%"}] if lines else []


def kept_rows(count: int) -> list[int]:
    """Which of so many points are drawn."""
    step = max(1, math.ceil(count / MOST_POINTS))
    # Counted from the end, so that the outcome is always among the points drawn.
    return list(range(count - 1, -1, -step))[::-1]


def points(values: Sequence[float], rows: Sequence[int]) -> list[float | None]:
    """The values at these rows, ready for JSON."""
    return [float(f"{values[i]:.7g}") if math.isfinite(values[i]) else None for i in rows]


def plotly_text(text: str) -> str:
    """Escaped the way plotly unescapes it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
