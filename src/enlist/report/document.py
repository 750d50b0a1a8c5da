"""What every page is made of: one HTML file, complete in itself, with its style, its charts and their data."""

import html
import json
import os
import re
from collections.abc import Sequence
from typing import Any

from enlist.report.panels import DARK_PALETTE, DASHES, PALETTE
from enlist.report.record import write_whole

# The page may load nothing at all; the browser enforces it.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_AXES = {"round": "round", "comm_mib": "MiB sent", "seconds": "simulated seconds"}


def write_document(
    path: str | os.PathLike[str], title: str, sections: Sequence[str], data: dict[str, Any], script: str = ""
) -> None:
    """Writes a page.

    Args:
        path: of the file.
        title: of the browser's window.
        sections: the body, in HTML.
        data: `names` and `x` of what is drawn, `curves` and `figures`: the charts that `plot` left room for;
            `seconds`: what those of `x` are called, where they are not simulated.
        script: how kinds of charts are drawn that only this page has.
    """
    from plotly.offline import get_plotlyjs

    charts = get_plotlyjs() if data["curves"] or data["figures"] else ""
    # "<" inside a script element could end it.
    content = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{text(title)} – enlist</title>
<style>{_style()}</style>
</head>
<body>
<main>{"".join(sections)}</main>
<script type="application/json" id="data">{content}</script>
<script>{charts}</script>
<script>{_SCRIPT}{script}all();</script>
</body>
</html>
"""
    write_whole(path, page.encode())


def text(value: object) -> str:
    """Anything, escaped."""
    return html.escape(str(value))


def prose(value: object) -> str:
    """Escaped, with `words between back ticks` set as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(value))


def section(title: str, body: str) -> str:
    """A heading and what stands below it, in HTML."""
    return f"<section><h2>{title}</h2>{body}</section>\n"


def header(eyebrow: str, title: str, lead: str, status: str = "") -> str:
    """The top of the page: what kind of page it is, of what, and a sentence about that."""
    badge = f' <span class="badge {text(status)}">{text(status)}</span>' if status else ""
    return f"""<header><p class="eyebrow">enlist · {text(eyebrow)}</p>
<h1>{text(title)}{badge}</h1>
<p class="lead">{text(lead)}.</p></header>
"""


def plot(chart: dict[str, Any]) -> str:
    """The place where a chart will be drawn, under its name."""
    return f'<figure><figcaption>{text(chart["words"])}</figcaption><div id="{chart["id"]}"></div></figure>'


def controls(data: dict[str, Any], names: Sequence[str]) -> str:
    """Buttons for what curves are drawn against and how, and one for each name to show or hide it."""
    axes = [key for key in _AXES if any(value is not None for x in data["x"] for value in x[key])]
    words = _AXES | {"seconds": data.get("seconds", _AXES["seconds"])}
    choices = choice("against", "x", {key: words[key] for key in axes}, "round")
    if any(chart["scale"] for chart in data["curves"]):
        scales = {key: key for key in ("auto", "linear", "log")}
        choices += choice("losses and norms", "scale", scales, "auto")
    legend = ""
    for i, label in enumerate(names if len(names) > 1 else []):
        again, colour = divmod(i, len(PALETTE))
        line = f"border-top: 3px {DASHES[again % 3]} var(--c{colour})"
        swatch = f'<i style="{line}"></i>{text(label)}'
        legend += f'<button data-run="{i}" aria-pressed="true">{swatch}</button>'
    return f'<div class="bar">{choices}</div><div class="legend">{legend}</div>'


def choice(words: str, name: str, options: dict[str, str], chosen: str) -> str:
    """Buttons of which one is pressed; each says its key to the script as data of that name."""
    buttons = ""
    for key, label in options.items():
        pressed = "true" if key == chosen else "false"
        buttons += f'<button data-{name}="{text(key)}" aria-pressed="{pressed}">{text(label)}</button>'
    return f'<span class="choice"><span>{text(words)}</span>{buttons}</span>'


def _style() -> str:
    light = "".join(f"--c{i}:{colour};" for i, colour in enumerate(PALETTE))
    dark = "".join(f"--c{i}:{colour};" for i, colour in enumerate(DARK_PALETTE))
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
.bar, .legend, .cut { display: flex; flex-wrap: wrap; gap: 8px 16px; margin-bottom: 12px }
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
small { display: block; color: var(--muted); font-size: 12.5px; font-weight: 400;
  white-space: nowrap } .below { margin-top: 12px }
thead th { color: var(--muted); vertical-align: bottom; border: 0 }
.sortable { max-height: 640px; overflow: auto } .sortable td, .sortable th { white-space: nowrap }
.sortable thead th { cursor: pointer; position: sticky; top: 0; background: var(--card) }
.sortable thead th:focus-visible { outline: 2px solid var(--c0) }
.sortable [aria-sort]::after { content: " ↑" } .sortable [aria-sort=descending]::after { content: " ↓" }
.apart > * { background: color-mix(in srgb, var(--c0) 11%, transparent) }
@media (max-width: 820px) { .grid { grid-template-columns: minmax(0, 1fr) } main { padding: 26px 14px 48px } }
"""

_SCRIPT = """
const D = JSON.parse(document.getElementById("data").textContent);
const state = {x: "round", scale: "auto", hidden: new Set()};
const X = {round: ["communication round", "round %{x}"], seconds: [D.seconds || "simulated seconds", "%{x:.4~g} s"],
  comm_mib: ["MiB sent, one worker up and down", "%{x:.4~g} MiB"]};
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const look = i => ({color: css("--c" + i % 7), dash: ["solid", "dash", "dot"][Math.floor(i / 7) % 3]});
const shown = lines => lines.filter(line => !state.hidden.has(line.run));

// Left to itself plotly prints 0.6, 0.7, 0.8, 0.9 over one another on a log axis.
function logAxis(values) {
  const known = values.filter(v => v > 0).sort((a, b) => a - b);
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
    const hover = c.unit ? "%{y:.2f}" + c.unit : "%{y:.4~g}";
    const traces = shown(c.lines).map(l => ({
      x: D.x[l.run][state.x], y: l.y, name: l.label || D.names[l.run],
      mode: l.quiet || l.y.filter(v => v !== null).length > 12 ? "lines" : "lines+markers",
      line: {...look(l.run), width: l.width || 2, ...l.quiet ? {color: look(l.run).color + "80", dash: "solid"} : {}},
      fill: l.fill || "none",
      fillcolor: look(l.run).color + "1f", marker: l.symbol ? {symbol: l.symbol, size: 9} : {},
      ...l.quiet ? {hoverinfo: "skip"} : {text: l.text, hovertemplate: hover + (l.text ? "%{text}" : "")}}));
    const [words, title] = X[state.x];
    const x = {words, showspikes: true, unifiedhovertitle: {text: title},
      ...(D.log_x || []).includes(state.x) ? logAxis(traces.flatMap(t => t.x)) : {}};
    return [traces, layout(x, log ? logAxis(traces.flatMap(t => t.y)) : {},
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
  },
  stack(c) {
    const bars = shown(c.bars), ends = bars.map(b => b.parts[0] + b.parts[1]), rows = bars.map((_, i) => i);
    const traces = ["computing", "communicating"].map((part, k) => ({type: "bar", orientation: "h", y: rows,
      x: bars.map(b => b.parts[k]), hovertemplate: part + ": %{x:.4~g} s<extra></extra>",
      marker: {color: bars.map(b => look(b.run).color + (k ? "66" : "")), line: {width: 0}}}));
    const said = bars.map((b, i) => ({x: ends[i], y: i, text: b.text, showarrow: false, xanchor: "left",
      font: {size: 12, color: css(b.parts[0] === null ? "--muted" : "--ink")}}));
    return [traces, layout({words: "simulated seconds", range: [0, 1.2 * Math.max(...ends) || 1]},
      {tickvals: rows, ticktext: bars.map(b => D.names[b.run]), range: [rows.length - .5, -.5], showgrid: false},
      {height: 90 + 34 * rows.length, barmode: "stack", bargap: 0.35, annotations: said})];
  }};
function all() {
  // plotly's own bar has a button that sends the chart, with its data, to plotly's servers: not from here.
  // And a name with two dollar signs in it is no formula.
  const config = {responsive: true, displaylogo: false, plotlyServerURL: "", showSendToCloud: false,
    typesetMath: false,
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
"""
