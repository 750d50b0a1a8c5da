"""The page of `enlist speedup`, in words, pictures and a table; and all files that the study leaves."""

import json
import os
from pathlib import Path
from typing import Any

from enlist.errors import BadInput
from enlist.report.again import read_left
from enlist.report.document import header, plot, section, text, write_document
from enlist.report.record import write_whole
from enlist.report.speedup.picture import AXES, SHORT, lines, picture, reach
from enlist.report.speedup.words import LETTERS, largest_term, verdict
from enlist.report.tables import html_facts, html_table

PLAN_FILE = "speedup.yaml"
NUMBERS = "summary.json"
LEFT = {"numbers": NUMBERS, "picture": "speedup.png", "page": "report.html"}
MEASURES = {"gradient": "E||grad f||^2", "loss": "mean training loss", "accuracy": "mean test accuracy"}


def write_all(facts: dict[str, Any], out: Path) -> dict[str, Any]:
    """Writes numbers, picture and page into `out`; returns the numbers with the verdict."""
    facts = facts | verdict(facts)
    write_whole(out / NUMBERS, (json.dumps(facts, indent=1, allow_nan=False) + "\n").encode())
    picture(facts, out / LEFT["picture"])
    write_page(facts, out / LEFT["page"])
    return facts


def load(folder: Path) -> dict[str, Any] | None:
    """The study that a folder holds; None where it holds none."""
    path, begun = folder / NUMBERS, (folder / PLAN_FILE).is_file()
    if not path.is_file():
        if begun:
            raise BadInput(
                f"{folder} holds a speedup study that is not finished: go on with enlist speedup --resume {folder}"
            )
        return None
    if not begun and not _is_study(path):
        return None
    return read_left(path, "a speedup study", ("axis", "points", "slope", "goal"))


def _is_study(path: Path) -> bool:
    """Whether a summary.json is that of such a study: runs, sweeps and comparisons have one too."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return isinstance(facts, dict) and {"axis", "points", "slope"} <= facts.keys()


def write_page(facts: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes the page."""
    charts = [_rounds_chart(facts)]
    if any(point["terms"] is not None for point in facts["points"]):
        charts.append(_terms_chart(facts))
    title = "Do n workers need n times fewer rounds?" if facts["axis"] == "cohort" else "Do local steps help?"
    first, *rest = facts["verdict"]
    sections = [
        header("speedup", title, first.rstrip(".")),
        "".join(f"<p>{text(words)}</p>" for words in rest),
        section("Rounds to the goal", plot(charts[0]) + _note(facts)),
        section("What the bound consists of there", plot(charts[1])) if len(charts) > 1 else "",
        section("Numbers", _table(facts)),
        section("To repeat it", _provenance(facts)),
    ]
    data: dict[str, Any] = {"names": [], "x": [], "curves": [], "figures": charts}
    write_document(path, title, sections, data, _SCRIPT)


def _rounds_chart(facts: dict[str, Any]) -> dict[str, Any]:
    points = [point for point in facts["points"] if point["rounds"] is not None]
    return {
        "id": "rounds",
        "kind": "rounds",
        "words": f"T against {AXES[facts['axis']]}; both axes logarithmic; shaded: the slope's interval",
        "axis": AXES[facts["axis"]],
        "x": [point[facts["axis"]] for point in points],
        "y": [point["rounds"] for point in points],
        "down": [reach(point)[0] for point in points],
        "up": [reach(point)[1] for point in points],
        "fewest": [point["at_least"] for point in points],
        "drawn": lines(facts),
    }


def _terms_chart(facts: dict[str, Any]) -> dict[str, Any]:
    points = [point for point in facts["points"] if point["terms"] is not None]
    return {
        "id": "terms",
        "kind": "terms",
        "words": "share of each term of the bound, at the T that was found and its rates",
        "axis": AXES[facts["axis"]],
        "x": [f"{LETTERS[facts['axis']]} = {point[facts['axis']]}" for point in points],
        "bars": [
            {"name": words, "y": [point["terms"][name] / point["bound"] for point in points]}
            for name, words in SHORT.items()
            if max(point["terms"][name] / point["bound"] for point in points) >= 0.005
        ],
    }


def _note(facts: dict[str, Any]) -> str:
    fixed = f"K = {facts['local_steps']}" if facts["axis"] == "cohort" else f"n = {facts['cohort']}"
    learned = ", ".join(facts[name] for name in ("problem", "model", "partition") if facts.get(name))
    said = (
        f"{learned}, {facts['sampling']}, {fixed}, batches of {facts['batch']}. Each point is the "
        f"smallest T with which runs at eta_L = 1/(sqrt(T) K L) and eta = sqrt(Kn), L = {facts['smoothness']:.4g}, "
        f"reach {MEASURES[facts['goal']['measure']]} {'>=' if facts['goal']['measure'] == 'accuracy' else '<='} "
        f"{facts['goal']['value']:g} in one of their rounds: the rates are others for every T, so each T is a set of "
        f"runs of its own. Mean over {facts['seeds']} seeds; intervals of {facts['interval']} by drawing seeds again."
    )
    return f'<p class="note">{text(said)}</p>'


def _table(facts: dict[str, Any]) -> str:
    heads = [
        LETTERS[facts["axis"]],
        "m",
        "T",
        "T / Kn",
        "worker rate",
        "server rate",
        "bound",
        "largest term",
    ]
    rows = []
    for point in facts["points"]:
        name = str(point[facts["axis"]])
        if point["rounds"] is None:
            rows.append([name, str(point["workers"]), "not reached", *["–"] * 5])
            continue
        largest = largest_term(point)
        rows.append(
            [
                name,
                str(point["workers"]),
                f"{point['rounds']:,}\n"
                + (
                    "the fewest allowed"
                    if point["at_least"]
                    else f"{point['low']:,.0f} to {point['high']:,.0f}"
                ),
                f"{point['rounds_over_kn']:.3g}",
                f"{point['worker_lr']:.3g}",
                f"{point['server_lr']:.3g}",
                "–" if point["bound"] is None else f"{point['bound']:.3g}",
                "–" if largest is None else f"{SHORT[largest[0]]}, {largest[1]:.0%}",
            ]
        )
    return html_table(heads, rows) + f'<p class="note below">All numbers: {LEFT["numbers"]}.</p>'


def _provenance(facts: dict[str, Any]) -> str:
    made = [
        [name, str(value)]
        for name, value in {**facts.get("versions", {}), "device": facts.get("device", "–")}.items()
    ]
    return f"<pre>{text(facts.get('command', ''))}</pre>{html_facts(made)}"


_SCRIPT = """
draw.rounds = c => {
  const d = c.drawn, blue = css("--c0"), muted = css("--muted"), traces = [];
  const line = (y, more) => ({type: "scatter", mode: "lines", x: d.x, y, hoverinfo: "skip", ...more});
  if (d.x.length) {
    traces.push(line(d.low, {line: {width: 0}, showlegend: false}));
    traces.push(line(d.high, {line: {width: 0}, fill: "tonexty", fillcolor: blue + "22", showlegend: false}));
    traces.push(line(d.fit, {name: "fit", line: {color: blue, width: 2}}));
    Object.entries(d.lines).forEach(([name, y], i) => traces.push(line(y, {name,
      line: {color: muted, width: 1.4, dash: i ? "dot" : "dash"}})));
  }
  traces.push({type: "scatter", mode: "markers", x: c.x, y: c.y, name: "measured",
    marker: {color: css("--ink"), size: 8, symbol: c.fewest.map(f => f ? "circle-open" : "circle")},
    error_y: {type: "data", symmetric: false, array: c.up, arrayminus: c.down, thickness: 1.2, color: css("--ink")},
    hovertemplate: "%{x}: %{y} rounds<extra></extra>"});
  const all = [...c.y, ...c.y.map((v, i) => v + c.up[i]), ...Object.values(d.lines).flat()];
  return [traces, layout({words: c.axis, type: "log", tickvals: c.x, ticktext: c.x},
    {words: "T, rounds to the goal", ...logAxis(all)},
    {height: 440, showlegend: true, legend: {orientation: "h", y: 1.1}})];
};
draw.terms = c => [c.bars.map((b, i) => ({type: "bar", x: c.x, y: b.y, name: b.name,
    marker: {color: look(i + 1).color, line: {width: 0}}, hovertemplate: b.name + ": %{y:.1%}<extra></extra>"})),
  layout({words: c.axis}, {words: "share of the bound", range: [0, 1], tickformat: ".0%"},
    {height: 320, barmode: "stack", showlegend: true, legend: {orientation: "h", y: 1.15}})];
"""
