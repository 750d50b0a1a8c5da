"""From raw metrics and a recipe's panels to what a figure shows, as plain data."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from enlist.report.paper.figures import NOT_RUN, Column, Drawing, Trace
from enlist.studies.paper.raw import Curve, Raw
from enlist.studies.paper.recipe import MODELS, PARTIAL_COHORT, Line, Panel, Recipe
from enlist.studies.paper.recipes import fig5
from enlist.studies.paper.setting import Scale, Setting
from enlist.studies.paper.statistics.table2 import ceiling
from enlist.studies.paper.statistics.table3 import best_of, best_rates

NOTES = "Line: mean over seeds. Band: lowest to highest seed."
DIVERGED_NOTE = "Cross: a seed diverged there; the line goes on as the mean of the others, if any."
HARDEST = {"partition": "digits:1", "cohort": PARTIAL_COHORT, "local_epochs": 5}


def drawing(recipe: Recipe, raw: Raw, scale: Scale) -> Drawing:
    """The figure of a recipe that has panels."""
    assert recipe.panels is not None
    runs = recipe.runs(scale)
    own = Raw(raw.curves[setting] for setting in dict.fromkeys(runs) if setting in raw.curves)
    columns = [_column(panel, recipe.metrics, own, raw, scale, runs) for panel in recipe.panels(scale)]
    ends = any(trace.ends for column in columns for traces in column.traces.values() for trace in traces)
    notes = [NOTES, DIVERGED_NOTE * ends, setting_words(runs)]
    return Drawing(
        headline(recipe),
        columns,
        recipe.metrics,
        " ".join(filter(None, notes)),
        warning(scale, runs),
    )


def headline(recipe: Recipe) -> str:
    """What it is, as a caption begins: `Figure 1. ...`."""
    for kind in ("fig", "table"):
        if recipe.name.startswith(kind):
            word = {"fig": "Figure", "table": "Table"}[kind]
            return f"{word} {recipe.name.removeprefix(kind)}. {recipe.title}"
    return recipe.title


def warning(scale: Scale, runs: Sequence[Setting]) -> str:
    """What makes a figure or table other than the paper's: empty at full scale."""
    if scale.name == "full" or not runs:
        return ""
    rounds, seeds = _extent([setting.rounds for setting in runs]), _seeds(runs)
    said = [f"{scale.rows:,} training and test rows" if scale.rows else "", f"{rounds} rounds"]
    said.append("1 seed" if seeds == "1" else f"{seeds} seeds")
    if scale.image_model != "resnet18" and any(setting.dataset == "cifar10" for setting in runs):
        said.append(f"{MODELS.get(scale.image_model, scale.image_model)} instead of ResNet-18")
    return f"{scale.name} scale: {', '.join(filter(None, said))}; not the paper's size"


def setting_words(runs: Sequence[Setting]) -> str:
    """What the paper leaves open: batches, how images and weights begin, and seeds."""
    batches = _extent([setting.batch for setting in runs])
    varied = "".join(
        f", {words}" for words in dict.fromkeys(each for setting in runs for each in setting.way.beside())
    )
    models = dict.fromkeys(setting.model for setting in runs)
    seeds = {model: _seeds([setting for setting in runs if setting.model == model]) for model in models}
    each = ", ".join(f"{MODELS.get(model, model)} {count}" for model, count in seeds.items())
    return f"Batch {batches}{varied}; seeds: {each}." if runs else ""


def _seeds(runs: Sequence[Setting]) -> str:
    """How often each setting is run."""
    return _extent([*Counter(setting._replace(seed=0) for setting in dict.fromkeys(runs)).values()])


def _extent(values: Sequence[int]) -> str:
    least, most = min(values), max(values)
    return f"{least}" if least == most else f"{least} to {most}"


def _column(
    panel: Panel, metrics: Sequence[str], own: Raw, raw: Raw, scale: Scale, runs: Sequence[Setting]
) -> Column:
    panel = _shortened(panel)
    lines = [(line, own.where(**line.where)) for line in panel.lines]
    if not any(curves for _, curves in lines):
        return Column(panel.title, {metric: [] for metric in metrics}, {})
    words = [_words(line, curves, runs) for line, curves in lines]
    # What is so of all lines is said once.
    common = list(words[0]) if len(words) > 1 and all(each == words[0] for each in words) else []
    labels = [
        line.label if common else named(line.label, said)
        for (line, _), said in zip(lines, words, strict=True)
    ]
    best = _best_rates(panel, raw, scale)
    traces: dict[str, list[Trace]] = {}
    levels: dict[str, list[tuple[float, str]]] = {}
    for metric in metrics:
        traces[metric] = [
            trace(label, curves, metric, line.color, line.dashed)
            for label, (line, curves) in zip(labels, lines, strict=True)
        ]
        if best is not None:
            traces[metric].append(trace(best[0], [best[1]], metric, None))
    if (level := _ceiling(panel, raw, scale)) is not None and "test_accuracy" in metrics:
        levels["test_accuracy"] = [level]
    return Column(named(panel.title, common), traces, levels)


def _shortened(panel: Panel) -> Panel:
    """What all lines' names have in common is said once, in the title."""
    names = [line.label.split(", ") for line in panel.lines]
    common = [part for part in names[0] if all(part in name for name in names)] if len(names) > 1 else []
    lines = [
        line._replace(label=", ".join(part for part in name if part not in common) or line.label)
        for line, name in zip(panel.lines, names, strict=True)
    ]
    return Panel(", ".join([panel.title, *common]), lines)


def _words(line: Line, curves: Sequence[Curve], runs: Sequence[Setting]) -> list[str]:
    """What a line lacks, and how many of its runs diverged."""
    wanted = len({setting for setting in runs if setting.matches(line.where)})
    if not curves:
        return [NOT_RUN]
    gone = sum(curve.status == "diverged" for curve in curves)
    missing = [f"{len(curves)} of {wanted} seeds"] if len(curves) < wanted else []
    return missing + ([f"{gone} diverged" if len(curves) > 1 else "diverged"] if gone else [])


def named(label: str, words: Sequence[str]) -> str:
    """With these words behind it, where there are any."""
    return f"{label} ({', '.join(words)})" if words else label


def trace(label: str, curves: Sequence[Curve], metric: str, color: int | None, dashed: bool = False) -> Trace:
    """Mean, lowest and highest over the seeds that have a finite value, round by round."""
    rounds = sorted({int(t) for curve in curves for t in curve.round})
    factor = 100.0 if metric == "test_accuracy" else 1.0
    place = {t: i for i, t in enumerate(rounds)}
    table = np.full((len(curves), len(rounds)), np.nan)
    ends = []
    for row, curve in zip(table, curves, strict=True):
        values = factor * getattr(curve, metric)
        row[[place[int(t)] for t in curve.round]] = values
        known = np.flatnonzero(np.isfinite(row))
        if curve.status == "diverged" and len(known):
            ends.append((rounds[known[-1]], float(row[known[-1]])))
    columns = [[value for value in column if math.isfinite(value)] for column in table.T.tolist()]
    return Trace(
        label,
        rounds,
        [sum(column) / len(column) if column else math.nan for column in columns],
        [min(column, default=math.nan) for column in columns],
        [max(column, default=math.nan) for column in columns],
        ends,
        color,
        dashed,
    )


def _best_rates(panel: Panel, raw: Raw, scale: Scale) -> tuple[str, Curve] | None:
    """Beside the hardest setting, where a panel shows it: what other rates would have given."""
    for line in panel.lines:
        if _is_hardest(line.where):
            return _best_of_grid(line.where["model"], raw, scale)
        if _is_usual_for_images(line.where):
            return _best_for_images(line.where["partition"], raw, scale)
    return None


def _best_of_grid(model: str, raw: Raw, scale: Scale) -> tuple[str, Curve] | None:
    where = HARDEST | {"model": model}
    best = next((each for each in best_rates(raw, scale) if each.setting.matches(where)), None)
    if best is None or best.is_papers:
        return None
    rates = f"{best.setting.worker_lr:g} and {best.setting.server_lr:g}"
    return f"p = 1, n = {PARTIAL_COHORT} at table 3's best rates ({rates})", raw.curves[best.setting]


def _best_for_images(partition: str, raw: Raw, scale: Scale) -> tuple[str, Curve] | None:
    tried = fig5.rated(scale, partition)
    best = None if raw.missing(tried) else best_of([raw.curves[setting] for setting in tried])
    if best is None or best.is_papers:
        return None
    rates = f"worker rate {best.setting.worker_lr:g}, the best of {len(tried)}"
    return f"n = {PARTIAL_COHORT}, K = 5 at {rates}", raw.curves[best.setting]


def _is_usual_for_images(where: Mapping[str, Any]) -> bool:
    return (where["dataset"], where["cohort"], where["local_epochs"]) == ("cifar10", PARTIAL_COHORT, 5)


def _is_hardest(where: Mapping[str, Any]) -> bool:
    return where["dataset"] == "mnist" and all(where[name] == value for name, value in HARDEST.items())


def _ceiling(panel: Panel, raw: Raw, scale: Scale) -> tuple[float, str] | None:
    models = {(line.where["dataset"], line.where["model"]) for line in panel.lines}
    found = ceiling(raw, scale, *models.pop()) if len(models) == 1 else None
    return None if found is None else (100 * found, f"trained in one place: {100 * found:.1f}% at best")
