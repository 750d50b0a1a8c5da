"""The page of a tune: the winner, the rungs, a map of the candidates, and the curves of the best."""

import os
from typing import Any

from enlist.report import figures, tables
from enlist.report.document import choice, controls, header, plot, section, text, write_document
from enlist.report.figures import plotly_text
from enlist.report.heatmap import scaled
from enlist.report.panels import PALETTE, wants_log
from enlist.report.record import labels, short
from enlist.report.sweep.outcome import label, word
from enlist.report.sweep.page import MAP_SCRIPT, map_axis
from enlist.report.tune import tables as tune_tables
from enlist.report.tune.map import mark, picture_axes
from enlist.report.tune.outcome import Tuned


def write_page(tuned: Tuned, path: str | os.PathLike[str]) -> None:
    """Writes the page about a tune to `path`."""
    title = f"Tune over {' × '.join(tuned.axes)}"
    best = [run for run in tuned.runs if run.metrics][: len(PALETTE)]
    data, chart = figures.charts(best), map_chart(tuned)
    data["figures"] = [chart]
    sections = [
        header("tune", title, tune_tables.problem_words(tuned)),
        _tiles(tuned),
        _next(tuned),
        _rungs(tuned),
        _map(tuned, chart),
        _candidates(tuned),
        _curves(best, data),
        _provenance(tuned),
    ]
    write_document(path, title, sections, data, MAP_SCRIPT)


def map_chart(tuned: Tuned) -> dict[str, Any]:
    """The candidates for the page, ready for JSON: each with its place on every axis, its score and its rung."""
    axes, measure = _map_axes(tuned), tuned.measure
    places = {name: {repr(value): i for i, value in enumerate(tuned.axes[name])} for name in axes}
    at = lambda values: [places[name][repr(values[name])] for name in axes]
    cells = []
    for candidate, (number, entry) in tuned.reached.items():
        mean = None if entry.mean is None else scaled(entry.mean, measure)
        score = tune_tables.score_text(tuned, entry)
        below = "diverged" if entry.diverged else mark(tuned, number, entry)
        first = "×" if entry.diverged else "–" if mean is None else short(mean)
        remark = tune_tables.remark(tuned, entry)
        said = f"{score}, {below} (to round {tuned.rungs[number - 1].rounds})" + (
            f", {remark}" if remark else ""
        )
        shown = {"mean": mean, "deviation": None, "text": f"{first}<br>{below}", "said": plotly_text(said)}
        values = tuned.candidates[candidate]
        cells.append({"at": at(values), "shown": [shown], "name": plotly_text(label(values))})
    known = [cell["shown"][0]["mean"] for cell in cells if cell["shown"][0]["mean"] is not None]  # type: ignore[index]
    return {
        "id": "map",
        "kind": "map",
        "words": f"{measure.words} on the last rung that each candidate reached",
        "axes": [map_axis(name, tuned.axes[name]) for name in axes],
        "cells": cells,
        "best": at(tuned.winner),
        "measures": [
            {
                "words": plotly_text(measure.words + (" (%)" if measure.is_percent else "")),
                "falls": measure.falls,
                "log": not measure.is_percent and wants_log(known),
            }
        ],
    }


def _map_axes(tuned: Tuned) -> list[str]:
    across, down, rest = picture_axes(tuned)
    return [across, *([down] if down else []), *rest]


def _tiles(tuned: Tuned) -> str:
    cost, measure = tuned.cost, tuned.measure
    told = [(name.replace("_", " "), word(tuned.winner[name]), "of the winner") for name in tuned.axes]
    told += [
        (
            measure.words,
            tune_tables.score_text(tuned, tuned.best),
            f"after {tuned.rungs[-1].rounds} rounds, seed {', '.join(map(str, tuned.seeds))}",
        ),
        ("candidates", str(len(tuned.candidates)), f"{tuned.diverged} diverged"),
        (
            "cost",
            f"{cost.full_runs:.2f} full runs",
            f"of device time: {short(cost.device_seconds)} s; {cost.rounds:,} rounds in all",
        ),
    ]
    cards = "".join(
        f'<div><dt>{text(what)}</dt><dd>{text(value)}</dd><dd class="note">{text(note)}</dd></div>'
        for what, value, note in told
    )
    notes = " ".join([*tune_tables.cost_sentences(tuned), *tune_tables.notes(tuned)])
    return f'<dl class="tiles">{cards}</dl>\n<p class="note below">{text(notes)}</p>'


def _next(tuned: Tuned) -> str:
    if tuned.config is None:
        return ""
    return section("What to type", f"<pre>{text('enlist run --config config.yaml')}</pre>")


def _rungs(tuned: Tuned) -> str:
    said = (
        f"Of the candidates on a rung one in {tuned.eta} goes on from where it is, never one that diverged. "
        "A score is the mean over the last quarter of the evaluated rounds so far, and over the seeds."
    )
    return section("Rungs", f"<p>{text(said)}</p>{tables.html_table(*tune_tables.rung_rows(tuned))}")


def _map(tuned: Tuned, chart: dict[str, Any]) -> str:
    axes, bars = _map_axes(tuned), ""
    for i, name in enumerate(axes[2:], 2):
        values = {f"{i}:{j}": word(value) for j, value in enumerate(tuned.axes[name])}
        at_best = f"{i}:{chart['best'][i]}"
        bars += f'<span data-axis="{i}">{choice(name, "at", values, at_best)}</span>'
    said = "Scores of another rung are those after other rounds."
    said += " The brighter, the better. Framed: the winner." if len(axes) > 1 else ""
    return section("Map", f'<div class="cut">{bars}</div>{plot(chart)}<p class="note">{text(said)}</p>')


def _candidates(tuned: Tuned) -> str:
    said = "The best first: who came further stands before who did not. A head sorts by its column."
    table = tables.html_table(*tune_tables.candidate_rows(tuned), sortable=True)
    return section("Every candidate", f"<p>{text(said)}</p>{table}")


def _curves(best: list[Any], data: dict[str, Any]) -> str:
    if not data["curves"]:
        return section("Curves", '<p class="note">No evaluated round.</p>')
    plots = "".join(plot(chart) for chart in data["curves"])
    body = f"<p>The winner, and those that came nearest to it.</p>{controls(data, labels(best))}"
    return section("Curves", f'{body}<div class="grid">{plots}</div>')


def _provenance(tuned: Tuned) -> str:
    made = "".join(f"<p>{text(line)}.</p>" for line in tables.made_with(tuned.runs[:1]))
    if tuned.config is None:
        return section("How it was made", f"<p>Begun from Python.</p>{made}")
    return section("To repeat it", f"<pre>{text('enlist tune --config tune.yaml')}</pre>{made}")
