"""`report.html`: one page about one run or several, complete in itself, to be opened without a network."""

import html
import json
import math
import os
import shlex
from collections.abc import Sequence
from typing import Any

from enlist.report import figures, tables
from enlist.report.record import RunRecord, differing, labels, outcome, write_whole

# The page may load nothing at all; the browser enforces it.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_AXES = {"round": "round", "comm_mib": "MiB sent", "seconds": "simulated seconds"}
# Partitions differ between the runs of a sweep over seeds; this many are drawn, the page says so.
_MOST_PARTITIONS = 4


def write_page(runs: Sequence[RunRecord], path: str | os.PathLike[str]) -> None:
    """Writes the page about `runs` (at least one) to `path`."""
    from plotly.offline import get_plotlyjs

    data, held = figures.charts(runs), figures.partition_charts(runs)
    present = figures.participation_chart(runs)
    sections = [
        _header(runs),
        _outcome(runs),
        _curves(runs, data),
        _partition(runs, held),
        _participation(runs, present),
        _facts("What it cost", runs, tables.cost_rows(runs)),
        _facts("Configuration", runs, tables.config_rows(runs), strong=len(differing(runs))),
        _provenance(runs),
    ]
    drawn = [{key: chart[key] for key in chart if key != "partition"} for chart in held]
    data["figures"] = [*drawn, present] if present else drawn
    # "<" inside a script element could end it.
    content = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{_text(" · ".join(labels(runs)[:3]))} – enlist</title>
<style>{_style()}</style>
</head>
<body>
<main>{"".join(sections)}</main>
<script type="application/json" id="data">{content}</script>
<script>{get_plotlyjs()}</script>
<script>{_SCRIPT}</script>
</body>
</html>
"""
    write_whole(path, page.encode())


def _header(runs: Sequence[RunRecord]) -> str:
    name = labels(runs)[0] if len(runs) == 1 else "Comparison"
    end = outcome(runs[0])
    badge = f' <span class="badge {_text(end.status)}">{_text(end.status)}</span>' if len(runs) == 1 else ""
    return f"""<header><p class="eyebrow">enlist · {"run" if len(runs) == 1 else "runs"}</p>
<h1>{_text(name)}{badge}</h1>
<p class="lead">{_text(tables.sentence(runs))}.</p></header>
"""


def _outcome(runs: Sequence[RunRecord]) -> str:
    if len(runs) > 1:
        return _section("Outcome", tables.html_table(*tables.summary_rows(runs)))
    cards = (
        f'<div><dt>{_text(what)}</dt><dd>{_text(value)}</dd><dd class="note">{_text(note)}</dd></div>'
        for what, value, note in tables.tiles(runs[0])
    )
    return f'<dl class="tiles">{"".join(cards)}</dl>\n'


def _curves(runs: Sequence[RunRecord], data: dict[str, Any]) -> str:
    if not data["curves"]:
        return _section("Curves", '<p class="note">No evaluated round yet.</p>')
    axes = [key for key in _AXES if any(value is not None for x in data["x"] for value in x[key])]
    controls = _choice("against", "x", {key: _AXES[key] for key in axes}, "round")
    controls += _choice("losses and norms", "scale", {key: key for key in ("auto", "linear", "log")}, "auto")
    legend = ""
    for i, label in enumerate(labels(runs) if len(runs) > 1 else []):
        again, colour = divmod(i, len(figures.PALETTE))
        line = f"border-top: 3px {figures.DASHES[again % 3]} var(--c{colour})"
        swatch = f'<i style="{line}"></i>{_text(label)}'
        legend += f'<button data-run="{i}" aria-pressed="true">{swatch}</button>'
    plots = "".join(_plot(chart) for chart in data["curves"])
    step = max(math.ceil(len(run.metrics) / figures.MOST_POINTS) for run in runs)
    note = f"Of the longest run one evaluated round in {step} is drawn." if step > 1 else ""
    body = f'<div class="bar">{controls}</div><div class="legend">{legend}</div>'
    return _section("Curves", f'{body}<div class="grid">{plots}</div><p class="note">{note}</p>')


def _partition(runs: Sequence[RunRecord], drawn: Sequence[dict[str, Any]]) -> str:
    names, body = labels(runs), ""
    told: list[list[int]] = []
    for chart in drawn:
        part, owners = chart["partition"], chart["runs"]
        if owners not in told:
            told.append(owners)
            whose = "" if len(owners) == len(runs) else f"{', '.join(names[i] for i in owners)}: "
            body += f"<p>{_text(whose + tables.partition_facts(part))}</p>"
        body += _plot(chart)
    if drawn and drawn[0]["left_out"] > 0:
        body += f'<p class="note">{drawn[0]["left_out"]} more partitions are not drawn.</p>'
    return _section("Who holds what", body) if drawn else ""


def _participation(runs: Sequence[RunRecord], chart: dict[str, Any] | None) -> str:
    if chart is None:
        return ""
    told = [f"{len(run.metrics):,} of {outcome(run).rounds:,} rounds were evaluated" for run in runs]
    if len(set(told)) > 1:
        told = [f"{label}: {line}" for label, line in zip(labels(runs), told, strict=True)]
    rest = "Only the cohorts of evaluated rounds are on record, so others are not counted here."
    return _section("Who took part", f"<p>{_text('; '.join(dict.fromkeys(told)))}. {rest}</p>{_plot(chart)}")


def _facts(title: str, runs: Sequence[RunRecord], rows: Sequence[Sequence[str]], strong: int = 0) -> str:
    if len(runs) == 1 or not rows:
        return _section(title, tables.html_facts(rows)) if rows else ""
    return _section(title, tables.html_table(["", *labels(runs)], rows, strong))


def _provenance(runs: Sequence[RunRecord]) -> str:
    told = "".join(f"<p>{_text(line)}.</p>" for line in tables.made_with(runs))
    places = ["config.yaml"] if len(runs) == 1 else [f"{run.name}/config.yaml" for run in runs]
    commands = "\n".join(f"enlist run --config {shlex.quote(place)}" for place in places)
    return _section("To repeat it", f"<pre>{_text(commands)}</pre>{told}")


def _text(value: object) -> str:
    return html.escape(str(value))


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>\n"


def _plot(chart: dict[str, Any]) -> str:
    return f'<figure><figcaption>{_text(chart["words"])}</figcaption><div id="{chart["id"]}"></div></figure>'


def _choice(words: str, name: str, options: dict[str, str], chosen: str) -> str:
    buttons = ""
    for key, label in options.items():
        pressed = "true" if key == chosen else "false"
        buttons += f'<button data-{name}="{key}" aria-pressed="{pressed}">{label}</button>'
    return f'<span class="choice"><span>{words}</span>{buttons}</span>'


def _style() -> str:
    light = "".join(f"--c{i}:{colour};" for i, colour in enumerate(figures.PALETTE))
    dark = "".join(f"--c{i}:{colour};" for i, colour in enumerate(figures.DARK_PALETTE))
    return _CSS.replace("/*light*/", light).replace("/*dark*/", dark)


_CSS = """
:root { --bg: #fafaf8; --card: #fff; --ink: #1d2125; --muted: #626a73; --line: #e2e4e7; --good: #00704f;
  --bad: #b13f00; /*light*/ }
@media (prefers-color-scheme: dark) { :root { --bg: #111417; --card: #181c20; --ink: #e8eaed; --line: #2c3238;
  --muted: #9ba4ae; --good: #3fcf9f; --bad: #ff9a62; /*dark*/ } }
* { box-sizing: border-box }
body { margin: 0; background: var(--bg); color: var(--ink); font: 16px/1.55 system-ui, sans-serif }
main { max-width: 1160px; margin: 0 auto; padding: 40px 24px 72px }
h1 { font-size: 30px; line-height: 1.2; letter-spacing: -.015em; margin: 0 0 10px; overflow-wrap: anywhere }
h2 { font-size: 20px; letter-spacing: -.01em; margin: 48px 0 12px }
p { margin: 0 0 12px; max-width: 80ch; text-wrap: pretty }
.lead { font-size: 18px; color: var(--muted) }
.eyebrow, .note, figcaption, .choice span, .tiles dt { color: var(--muted); font-size: 13.5px }
.badge { font-size: 13px; letter-spacing: 0; vertical-align: middle; padding: 3px 10px; border-radius: 99px;
  color: var(--bad); border: 1px solid } .badge.done { color: var(--good) }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: 12px }
.tiles div, figure, .wide, pre { background: var(--card); border: 1px solid var(--line); border-radius: 10px }
.tiles div, pre { padding: 12px 16px; overflow: auto }
.tiles dd { margin: 2px 0 0 } .tiles dd:not(.note) { font-size: 24px; line-height: 1.3; font-weight: 600 }
.bar, .legend { display: flex; flex-wrap: wrap; gap: 8px 16px; margin-bottom: 12px }
button { font: inherit; font-size: 13.5px; color: var(--ink); background: none; border: 1px solid var(--line);
  padding: 3px 11px; cursor: pointer }
button:focus-visible { outline: 2px solid var(--c0); outline-offset: 2px }
.legend:empty { display: none } .choice button { margin-left: -1px } .choice span { margin-right: 8px }
.choice button:first-of-type { border-radius: 7px 0 0 7px } .choice :last-child { border-radius: 0 7px 7px 0 }
.choice button[aria-pressed=true] { color: var(--bg); background: var(--ink); border-color: var(--ink) }
.legend button { border-radius: 7px } .legend [aria-pressed=false] { opacity: .45 }
.legend i { display: inline-block; width: 20px; vertical-align: middle; margin-right: 8px }
.grid { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 14px }
.grid figure:last-child:nth-child(odd) { grid-column: 1 / -1 }
figure { margin: 0 0 14px; padding: 12px 14px 6px; min-width: 0 } .grid figure { margin: 0 }
figure > div { margin-top: -18px } .wide { overflow-x: auto }
.facts { columns: 3 300px; column-gap: 40px; margin: 0; font-size: 14.5px }
.facts div { display: flex; gap: 9px; padding: 4px 0; border-bottom: 1px solid var(--line) }
.facts dt { color: var(--muted) } .facts dd { margin: 0 0 0 auto; text-align: right; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100%; font-size: 14.5px; font-variant-numeric: tabular-nums }
th, td { padding: 6px 16px; text-align: right; border-top: 1px solid var(--line); vertical-align: top }
th { font-weight: 500 } th:first-child { text-align: left }
thead th { color: var(--muted); vertical-align: bottom; border: 0 }
.apart > * { background: color-mix(in srgb, var(--c0) 11%, transparent) }
@media (max-width: 820px) { .grid { grid-template-columns: minmax(0, 1fr) } main { padding: 26px 14px 48px } }
"""

_SCRIPT = """
const D = JSON.parse(document.getElementById("data").textContent);
const state = {x: "round", scale: "auto", hidden: new Set()};
const X = {round: ["communication round", "round %{x}"], seconds: ["simulated seconds", "%{x:.4~g} s"],
  comm_mib: ["MiB sent, one worker up and down", "%{x:.4~g} MiB"]};
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const look = i => ({color: css("--c" + i % 7), dash: ["solid", "dash", "dot"][Math.floor(i / 7) % 3]});
const shown = lines => lines.filter(line => !state.hidden.has(line.run));

// Left to itself plotly prints 0.6, 0.7, 0.8, 0.9 over one another on a log axis.
function logAxis(traces) {
  const known = traces.flatMap(t => t.y).filter(v => v > 0).sort((a, b) => a - b);
  const span = Math.log10(known.at(-1) / known[0]);
  const dtick = span > 3 ? Math.ceil(span / 6) : span > 0.7 ? "D2" : undefined;
  return {type: "log", tickformat: "~g", dtick};
}
// Counts are whole numbers, and so should their ticks be.
const unit = counts => counts.every(count => count <= 6) ? 1 : undefined;

function layout(x, y, more) {
  const line = css("--line"), muted = css("--muted"), clear = "rgba(0,0,0,0)";
  const axis = a => ({gridcolor: line, linecolor: line, zeroline: false, automargin: true, showspikes: false,
    ...a, spikecolor: muted, spikethickness: 1, tickfont: {color: muted, size: 12},
    title: {text: a.words, font: {color: muted, size: 12}, standoff: 8}});
  const marks = more.marks || [];
  return {height: 280, margin: {l: 44, r: 12, t: 24, b: 40}, paper_bgcolor: clear,
    // Not clear: plotly chooses the ground of its hover line by it.
    plot_bgcolor: css("--card"),
    font: {family: "system-ui, sans-serif", color: css("--ink")}, showlegend: false, bargap: 0.15,
    modebar: {bgcolor: clear, color: muted, activecolor: css("--ink")},
    hoverlabel: {bgcolor: css("--card"), bordercolor: line, font: {color: css("--ink"), size: 13}},
    shapes: marks.map(m => ({type: "line", xref: "paper", x0: 0, x1: 1, y0: m.y, y1: m.y,
      line: {color: muted, width: 1, dash: "dash"}})),
    annotations: marks.map(m => ({xref: "paper", x: 0, y: m.y, text: m.text, showarrow: false,
      xanchor: "left", yanchor: "bottom", font: {color: muted, size: 11.5}})),
    ...more, xaxis: axis(x), yaxis: axis(y)};
}
const draw = {
  curve(c) {
    const log = c.scale && (state.scale === "log" || (state.scale === "auto" && c.log));
    const traces = shown(c.lines).map(l => ({
      x: D.x[l.run][state.x], y: l.y, name: l.label || D.names[l.run],
      mode: l.y.filter(v => v !== null).length > 12 ? "lines" : "lines+markers",
      line: {...look(l.run), width: l.width || 2}, fill: l.fill || "none",
      fillcolor: look(l.run).color + "1f",
      hovertemplate: c.unit ? "%{y:.2f}" + c.unit : "%{y:.4~g}"}));
    const [words, title] = X[state.x];
    const x = {words, showspikes: true, unifiedhovertitle: {text: title}};
    return [traces, layout(x, log ? logAxis(traces) : {},
      {hovermode: "x unified", marks: c.marks, uirevision: state.x + state.scale})];
  },
  heat(c) {
    const bar = {thickness: 10, outlinewidth: 0, tickfont: {color: css("--muted")}, title: {text: "rows"}};
    const room = document.getElementById(c.id).clientWidth / c.z[0].length;
    return [[{type: "heatmap", z: c.z, colorscale: [[0, css("--card")], [1, css("--c0")]], zmin: 0,
      colorbar: bar, xgap: room > 6 ? 1 : 0, ygap: 1,
      hovertemplate: "worker %{x}<br>class %{y}<br>%{z:,} rows<extra></extra>"}],
      layout({words: "worker", showgrid: false}, {words: "class", showgrid: false, autorange: "reversed",
        dtick: c.z.length > 20 ? null : 1}, {height: Math.max(230, Math.min(640, 90 + 20 * c.z.length))})];
  },
  bar(c) {
    const traces = shown(c.bars).map(b => ({type: "bar", x: b.x, y: b.y, name: D.names[b.run],
      hovertemplate: c.hover, marker: {color: look(b.run).color, line: {width: 0}}}));
    const ticks = key => unit(c.bars.flatMap(b => b[key]));
    return [traces, layout({words: c.x_words, dtick: ticks("x")},
      {words: c.y_words, rangemode: "tozero", dtick: ticks("y")}, {height: 240, marks: c.marks})];
  }};
function all() {
  // plotly's own bar has a button that sends the chart, with its data, to plotly's servers: not from here.
  const config = {responsive: true, displaylogo: false, plotlyServerURL: "", showSendToCloud: false,
    modeBarButtons: [["toImage", "zoomIn2d", "zoomOut2d", "resetScale2d"]]};
  for (const c of [...D.curves, ...D.figures]) Plotly.react(c.id, ...draw[c.kind](c), config);
}
document.addEventListener("click", event => {
  const button = event.target.closest(".bar button, .legend button");
  if (!button) return;
  const {x, scale, run} = button.dataset;
  if (run !== undefined) {
    const back = state.hidden.delete(+run);
    if (!back) state.hidden.add(+run);
    button.setAttribute("aria-pressed", back);
  } else {
    Object.assign(state, x ? {x} : {scale});
    const group = button.parentNode.querySelectorAll("button");
    for (const one of group) one.setAttribute("aria-pressed", one === button);
  }
  all();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
all();
"""
