"""The page of a sweep: a map of the grid that can be cut in any direction, every run, and the best curves."""

import os
import shlex
from collections.abc import Sequence
from typing import Any

from enlist.report import figures, tables
from enlist.report.document import choice, controls, header, plot, section, text, write_document
from enlist.report.figures import plotly_text
from enlist.report.heatmap import cell_words, is_numeric, picture_axes, scaled, shown_cells
from enlist.report.panels import PALETTE, wants_log
from enlist.report.record import RunRecord, labels, plain
from enlist.report.sweep import tables as sweep_tables
from enlist.report.sweep.outcome import SEED, Cell, Measure, Sweep, label, word

# Curves are drawn of as many runs as there are colours, the best ones.
_CURVES = len(PALETTE)


def write_page(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """Writes the page about a sweep to `path`."""
    title = f"Sweep over {' × '.join(sweep.axes)}"
    best = _best_runs(sweep)
    data = figures.charts(best)
    chart = map_chart(sweep)
    data["figures"] = [chart]
    sections = [
        header("sweep", title, tables.sentence([each.run for each in sweep.runs])),
        _tiles(sweep),
        _map(sweep, chart),
        _combinations(sweep),
        _runs(sweep),
        _curves(sweep, best, data),
        _configuration(sweep),
        _provenance(sweep),
    ]
    write_document(path, title, sections, data, MAP_SCRIPT)


def map_chart(sweep: Sweep) -> dict[str, Any]:
    """The grid for the page, ready for JSON: each combination with its place on every axis and its numbers."""
    axes, measures = picture_axes(sweep), sweep.measures
    places = {name: {repr(value): i for i, value in enumerate(sweep.axes[name])} for name in axes}
    cells: list[dict[str, Any]] = []
    for cell in shown_cells(sweep):
        at = [places[name][repr(cell.values[name])] for name in axes]
        shown = [_numbers(cell, measure) for measure in measures]
        cells.append({"at": at, "shown": shown, "name": plotly_text(label(cell.values))})
    best = sweep.best()
    return {
        "id": "map",
        "kind": "map",
        "words": "mean over the seeds" if sweep.seeds > 1 else "one run in each place",
        "axes": [map_axis(name, sweep.axes[name]) for name in axes],
        "cells": cells,
        "best": None if axes == [SEED] else [places[name][repr(best.values[name])] for name in axes],
        "measures": [
            _measure(measure, [cell["shown"][i]["mean"] for cell in cells])
            for i, measure in enumerate(measures)
        ],
    }


def map_axis(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Its words, and where its values lie on a line, if they are numbers."""
    numeric = is_numeric(values)
    return {
        "name": plotly_text(name),
        "values": [plotly_text(word(value)) for value in values],
        "x": [float(value) for value in values] if numeric else None,
        "log": numeric and wants_log(values),
    }


def _measure(measure: Measure, means: Sequence[float | None]) -> dict[str, Any]:
    known = [mean for mean in means if mean is not None]
    return {
        "words": plotly_text(measure.words + (" (%)" if measure.is_percent else "")),
        "falls": measure.falls,
        "log": not measure.is_percent and wants_log(known),
    }


def _numbers(cell: Cell, measure: Measure) -> dict[str, Any]:
    spread = cell.spread(measure.key)
    first, second = cell_words(cell, measure)
    remark = sweep_tables.cell_remark(cell, measure)
    said = sweep_tables.spread_text(cell, measure)
    return {
        "mean": None if spread is None else scaled(spread.mean, measure),
        "deviation": None
        if spread is None or spread.deviation is None
        else scaled(spread.deviation, measure),
        "text": first if not second else f"{first}<br>{second}",
        "said": plotly_text(f"{said} ({remark})" if remark else said),
    }


def _best_runs(sweep: Sweep) -> list[RunRecord]:
    """The runs of the best combinations, no more than there are colours for."""
    by_name = {each.run.name: each.run for each in sweep.runs}
    ranked = [by_name[row["run"]] for cell in sweep.ranked() for row in cell.rows]
    return [run for run in ranked if run.metrics][:_CURVES] or ranked[:1]


def _tiles(sweep: Sweep) -> str:
    best, measure = sweep.best(), sweep.measures[0]
    diverged = sum(row["status"] == "diverged" for row in sweep.rows)
    told = [
        (measure.words, sweep_tables.spread_text(best, measure), label(best.values)),
        (
            "combinations",
            f"{len(sweep.cells):,}",
            " × ".join(str(len(sweep.axes[name])) for name in picture_axes(sweep)),
        ),
        ("runs", f"{len(sweep.runs):,}", f"{diverged} diverged" if diverged else "none diverged"),
    ]
    if not measure.key.startswith("best_"):
        then = next(each for each in sweep.measures if each.key.startswith("best_"))
        told.insert(1, (then.words, sweep_tables.spread_text(best, then), "of the same combination"))
    cards = "".join(
        f'<div><dt>{text(what)}</dt><dd>{text(value)}</dd><dd class="note">{text(note)}</dd></div>'
        for what, value, note in told
    )
    notes = " ".join(sweep_tables.notes(sweep)[1:])
    return f'<dl class="tiles">{cards}</dl>\n<p class="note below">{text(notes)}</p>'


def _map(sweep: Sweep, chart: dict[str, Any]) -> str:
    axes = picture_axes(sweep)
    words = {str(i): measure.head for i, measure in enumerate(sweep.measures)}
    bars = f'<div class="cut">{choice("show", "measure", words, "0")}</div>'
    if len(axes) > 2:
        names = {str(i): name for i, name in enumerate(axes)}
        bars += f'<div class="cut">{choice("across", "across", names, "0")}'
        bars += f"{choice('down', 'down', names, '1')}</div>"
        cuts = ""
        for i, name in enumerate(axes):
            values = {f"{i}:{j}": word(value) for j, value in enumerate(sweep.axes[name])}
            at_best = f"{i}:{chart['best'][i]}"
            cuts += f'<span data-axis="{i}">{choice(name, "at", values, at_best)}</span>'
        bars += f'<div class="cut">{cuts}</div>'
    said = "The brighter, the better. Framed: the best of all." if len(axes) > 1 else ""
    return section("Map", f'{bars}{plot(chart)}<p class="note">{said}</p>')


def _combinations(sweep: Sweep) -> str:
    if sweep.seeds == 1:
        return ""
    said = f"Mean ± standard deviation over {sweep.seeds} seeds, the best first; a head sorts by its column."
    table = tables.html_table(*sweep_tables.cell_rows(sweep, sweep.ranked()), sortable=True)
    return section("Every combination", f"<p>{text(said)}</p>{table}")


def _runs(sweep: Sweep) -> str:
    said = "A head sorts by its column."
    if sweep.measures[0].key.endswith("_to_target"):
        said = f"Rounds, MiB (one worker) and simulated seconds are those to {sweep.goal}. {said}"
    table = tables.html_table(*sweep_tables.run_rows(sweep), sortable=True)
    return section("Every run", f"<p>{text(said)}</p>{table}")


def _curves(sweep: Sweep, best: list[RunRecord], data: dict[str, Any]) -> str:
    if not data["curves"]:
        return section("Curves", '<p class="note">No evaluated round.</p>')
    plots = "".join(plot(chart) for chart in data["curves"])
    few = f"Of the {len(best)} best of {len(sweep.runs)} runs." if len(best) < len(sweep.runs) else ""
    body = f'<p>{few}</p>{controls(data, labels(best))}<div class="grid">{plots}</div>'
    return section("Curves", body)


def _configuration(sweep: Sweep) -> str:
    configs = [each.run.config for each in sweep.runs]
    same = {name: value for name, value in configs[0].items() if value is not None and name not in sweep.axes}
    shared = [
        [name, plain(value)]
        for name, value in same.items()
        if all(config.get(name) == value for config in configs)
    ]
    axes = [[name, ", ".join(word(value) for value in values)] for name, values in sweep.axes.items()]
    table = tables.html_table(["axis", "values"], axes)
    return section(
        "Configuration", f'{table}<div class="below"><p>The same in all:</p>{tables.html_facts(shared)}</div>'
    )


def _provenance(sweep: Sweep) -> str:
    told = "".join(f"<p>{text(line)}.</p>" for line in _made_with(sweep))
    if any("begun_from" in each.run.config for each in sweep.runs):
        return section("How it was made", f"<p>Begun from Python.</p>{told}")
    one = shlex.quote(f"runs/{sweep.runs[0].run.name}/config.yaml")
    commands = f"enlist sweep --grid sweep.yaml\nenlist run --config {one}   # one run of it"
    return section("To repeat it", f"<pre>{text(commands)}</pre>{told}")


def _made_with(sweep: Sweep) -> list[str]:
    """Versions and device; of many runs, those that there were."""
    return list(dict.fromkeys(tables.made_with([each.run])[0] for each in sweep.runs))[:4]


MAP_SCRIPT = """
const cut = {measure: 0, across: 0, down: 1, at: [...(D.figures[0].best || [])]};
draw.map = c => {
  const m = c.measures[cut.measure], of = cell => cell.shown[cut.measure];
  return c.axes.length === 1 ? alongLine(c, m, of) : asMap(c, m, of);
};
function alongLine(c, m, of) {
  const a = c.axes[0], cells = [...c.cells].sort((p, q) => p.at[0] - q.at[0]);
  const place = cell => a.x ? a.x[cell.at[0]] : cell.at[0];
  const known = cells.filter(cell => of(cell).mean !== null), gone = cells.filter(cell => of(cell).mean === null);
  const trace = {x: known.map(place), y: known.map(cell => of(cell).mean), mode: "lines+markers",
    line: {color: look(0).color, width: 2}, marker: {size: 8},
    error_y: {array: known.map(cell => of(cell).deviation || 0), color: look(0).color, thickness: 1.2,
      visible: known.some(cell => of(cell).deviation !== null)},
    text: known.map(cell => cell.name + "<br>" + of(cell).said), hovertemplate: "%{text}<extra></extra>"};
  const said = gone.map(cell => ({x: a.log ? Math.log10(place(cell)) : place(cell), y: 0, yref: "paper",
    text: of(cell).text, showarrow: false, yanchor: "bottom", font: {size: 12, color: css("--bad")}}));
  const ticks = {tickvals: a.x || a.values.map((_, i) => i), ticktext: a.values};
  return [[trace], layout({words: a.name, ...ticks, type: a.log ? "log" : "linear"},
    {words: m.words, ...m.log ? logAxis(trace.y) : {}}, {height: 380, annotations: said})];
}
function asMap(c, m, of) {
  const [across, down] = [c.axes[cut.across], c.axes[cut.down]];
  const inside = at => at.every((place, i) => i === cut.across || i === cut.down || place === cut.at[i]);
  const scale = v => v === null ? null : m.log ? Math.log10(v) : v;
  const blank = () => down.values.map(() => across.values.map(() => null));
  const [z, words, hover] = [blank(), blank(), blank()], notes = [];
  for (const cell of c.cells.filter(cell => inside(cell.at))) {
    const [x, y] = [cell.at[cut.across], cell.at[cut.down]], seen = of(cell);
    z[y][x] = scale(seen.mean);
    words[y][x] = seen.text;
    hover[y][x] = cell.name + "<br>" + m.words + ": " + seen.said;
    // plotly writes nothing into a place without a value.
    if (seen.mean === null) notes.push({x, y, text: seen.text, showarrow: false,
      font: {size: 12, color: css(seen.text.startsWith("×") ? "--bad" : "--muted")}});
  }
  const all = c.cells.map(cell => scale(of(cell).mean)).filter(v => v !== null);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const bar = {thickness: 12, outlinewidth: 0, tickfont: {color: css("--muted")}};
  if (m.log) Object.assign(bar, {tickvals: [0, .25, .5, .75, 1].map(s => low + s * (high - low)),
    ticktext: [0, .25, .5, .75, 1].map(s => Number((10 ** (low + s * (high - low))).toPrecision(3)))});
  const room = document.getElementById(c.id).clientWidth / across.values.length;
  const trace = {type: "heatmap", z, text: words, texttemplate: room > 40 ? "%{text}" : "", hovertext: hover,
    hovertemplate: "%{hovertext}<extra></extra>", colorscale: "Viridis", reversescale: m.falls, colorbar: bar,
    zmin: low, zmax: high > low ? high : low + 1, xgap: 2, ygap: 2, hoverongaps: true};
  const frame = !c.best || cut.measure || !inside(c.best) ? [] : [{type: "rect",
    line: {color: css("--ink"), width: 3}, x0: c.best[cut.across] - .5, x1: c.best[cut.across] + .5,
    y0: c.best[cut.down] - .5, y1: c.best[cut.down] + .5}];
  const ticks = a => ({words: a.name, tickvals: a.values.map((_, i) => i), ticktext: a.values, showgrid: false});
  return [[trace], layout({...ticks(across), range: [-.5, across.values.length - .5]},
    {...ticks(down), range: down.x ? [-.5, down.values.length - .5] : [down.values.length - .5, -.5]},
    {height: Math.max(260, Math.min(900, 90 + 58 * down.values.length)), shapes: frame, annotations: notes})];
}
function press(name, key) {
  for (const button of document.querySelectorAll(`.cut [data-${name}]`))
    if (name !== "at" || button.dataset.at.split(":")[0] === key.split(":")[0])
      button.setAttribute("aria-pressed", button.dataset[name] === key);
}
function hideCuts() {
  for (const span of document.querySelectorAll(".cut [data-axis]"))
    span.hidden = [cut.across, cut.down].includes(+span.dataset.axis);
}
document.addEventListener("click", event => {
  const button = event.target.closest(".cut button");
  if (!button) return;
  const {measure, across, down, at} = button.dataset;
  if (measure !== undefined) cut.measure = +measure;
  if (at !== undefined) cut.at[+at.split(":")[0]] = +at.split(":")[1];
  // Who takes the other's axis gives it its own.
  if (across !== undefined) [cut.across, cut.down] = [+across, +across === cut.down ? cut.across : cut.down];
  if (down !== undefined) [cut.down, cut.across] = [+down, +down === cut.across ? cut.down : cut.across];
  press("measure", String(cut.measure)), press("across", String(cut.across)), press("down", String(cut.down));
  if (at !== undefined) press("at", at);
  hideCuts();
  all();
});
function sortBy(table, column, head) {
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const said = row => row.cells[column].firstChild ? row.cells[column].firstChild.textContent : "";
  const value = row => parseFloat(said(row).replace(/,/g, ""));
  const none = row => ["", "–", "not reached"].includes(said(row));
  const compare = (a, b) => isNaN(value(a)) || isNaN(value(b))
    ? said(a).localeCompare(said(b), "en", {numeric: true}) : value(a) - value(b);
  const rows = [...table.tBodies[0].rows];
  // What has no value stays below, whichever way is up.
  rows.sort((a, b) => none(a) - none(b) || (up ? compare(a, b) : compare(b, a)));
  table.tBodies[0].append(...rows);
}
for (const table of document.querySelectorAll(".sortable table"))
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    head.tabIndex = 0;
    head.addEventListener("click", () => sortBy(table, column, head));
    head.addEventListener("keydown", event => { if (event.key === "Enter") sortBy(table, column, head); });
  });
hideCuts();
"""
