"""The page of `enlist study bound`, in words, pictures and tables; and all files that the study leaves."""

import json
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from enlist.errors import BadInput
from enlist.report.again import read_left
from enlist.report.bound.picture import STRATEGIES, SYMBOLS, picture
from enlist.report.document import header, plot, section, text, write_document
from enlist.report.record import write_whole
from enlist.report.tables import html_facts, html_table

NUMBERS = "bound.json"
LEFT = {"numbers": NUMBERS, "picture": "bound.png", "page": "report.html"}
# Cases of which the page prints the numbers: those that come nearest to their bound.
NEAREST = 20


def write_all(facts: dict[str, Any], out: Path) -> dict[str, Any]:
    """Writes numbers, picture and page into `out`; returns the numbers with what they come to."""
    facts = facts | {"looseness": looseness(facts["cases"]), "verdict": verdict(facts)}
    write_whole(out / NUMBERS, (json.dumps(facts, indent=1, allow_nan=False) + "\n").encode())
    picture(facts, out / LEFT["picture"])
    write_page(facts, out / LEFT["page"])
    return facts


def load(folder: Path) -> dict[str, Any] | None:
    """The study that a folder holds; None where it holds none."""
    facts = read_left(folder / NUMBERS, "enlist study bound", ())
    if facts is not None and "cases" not in facts and "given" in facts:
        raise BadInput(
            f"'{folder / NUMBERS}' is what enlist bound leaves, which has no page; read it as it is"
        )
    return read_left(folder / NUMBERS, "enlist study bound", ("cases", "tight", "outside", "cross_term"))


def looseness(cases: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """How many times the measured value the bound is, by strategy: the least, the median and the largest."""
    found = {}
    for strategy in STRATEGIES:
        ratios = [case["ratio"] for case in cases if case["sampling"] == strategy and case["ratio"]]
        if ratios:
            found[strategy] = {
                "cases": sum(case["sampling"] == strategy for case in cases),
                "least": min(ratios),
                "median": statistics.median(ratios),
                "largest": max(ratios),
            }
    return found


def verdict(facts: dict[str, Any]) -> list[str]:
    """What came out, in sentences."""
    return [
        _standing(facts),
        _looseness_words(facts["cases"]),
        _extremes(facts),
        _dropped_words(facts["cross_term"]),
    ]


def _standing(facts: dict[str, Any]) -> str:
    cases = facts["cases"]
    by_verdict = {word: [c for c in cases if c["verdict"] == word] for word in ("holds", "within", "broken")}
    of = f"{len(cases)} cases inside the conditions, {facts['seeds']} seeds each"
    interval = f"the {facts['interval']} interval"
    if broken := by_verdict["broken"]:
        worst = min(broken, key=lambda case: case["ratio"])
        return (
            f"The bound is broken in {len(broken)} of {of}: there {interval} of what was measured lies above it. The "
            f"worst is {_name(worst)}: measured {worst['measured']:.3g}, bound {worst['bound']:.3g}."
        )
    if by_verdict["within"]:
        return (
            f"No violation in {of}: the bound lies above {interval} of what was measured in "
            f"{len(by_verdict['holds'])}, inside it in {len(by_verdict['within'])}."
        )
    return f"No violation in {of}: the bound lies above {interval} of what was measured in every one."


def _looseness_words(cases: Sequence[dict[str, Any]]) -> str:
    each = [
        f"{strategy} {found['least']:.3g} at least, {found['median']:.3g} in the median"
        for strategy, found in looseness(cases).items()
    ]
    return f"How many times what was measured the bound is: {'; '.join(each)}. The worst case is not the usual one."


def _extremes(facts: dict[str, Any]) -> str:
    tight, outside = facts["tight"], facts["outside"]
    broken = "which breaks it" if outside["verdict"] == "broken" else "which does not break it here"
    return (
        f"It cannot be improved for all problems: with H = L I, sigma_G = 0, all workers, g L = 1 and u = "
        f"{tight['u']:.3g} it is {tight['ratio']:.3f} times what was measured. The same problem at g L = "
        f"{outside['g_l']:.2g}, outside the conditions, comes to {1 / outside['ratio']:.2f} times the formula, "
        f"{broken}."
    )


def _dropped_words(found: dict[str, Any]) -> str:
    most = max(found["cases"], key=lambda case: case["factor"])
    return (
        f"The proofs drop the correlation of a step's noise with later gradients. Measured, it changes the noise "
        f"term by factors from {min(case['factor'] for case in found['cases']):.3f} to {most['factor']:.3f} "
        f"({most['problem']}, K = {most['local_steps']}); a repaired proof allows for {found['stated']:g} at most."
    )


def write_page(facts: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes the page."""
    chart = _chart(facts)
    data: dict[str, Any] = {
        "names": list(STRATEGIES),
        "x": [],
        "curves": [],
        "figures": [chart, _dropped_chart(facts["cross_term"])],
    }
    first, *rest = facts["verdict"]
    sections = [
        header("study", "Does the bound hold?", first.rstrip(".")),
        "".join(f"<p>{text(words)}</p>" for words in rest),
        section("The bound against what was measured", _legend() + plot(chart) + _measured_note(facts)),
        section("How loose it is", _looseness_table(facts)),
        section(f"The {NEAREST} cases nearest to their bound", _cases_table(facts["cases"])),
        section("The gap in the proof", _dropped_section(facts["cross_term"], data["figures"][1])),
        section("To repeat it", _provenance(facts)),
    ]
    write_document(path, "Does the bound hold?", sections, data, _SCRIPT)


def _chart(facts: dict[str, Any]) -> dict[str, Any]:
    dots = []
    for i, strategy in enumerate(STRATEGIES):
        for problem, symbol in SYMBOLS.items():
            some = [
                case
                for case in facts["cases"]
                if (case["sampling"], case["problem"]) == (strategy, problem) and case["measured"] > 0
            ]
            dots.append(
                _dots(i, {"o": "circle", "D": "diamond"}[symbol], some, [_name(case) for case in some])
            )
    dots.append(_dots(None, "star", [facts["tight"]], ["the case that meets the bound"]))
    dots.append(_dots(None, "x", [facts["outside"]], [f"outside: g L = {facts['outside']['g_l']:.2g}"]))
    return {
        "id": "against",
        "kind": "against",
        "words": "one point a case; on the dashed line both are equal",
        "dots": dots,
    }


def _dots(
    run: int | None, symbol: str, cases: Sequence[dict[str, Any]], names: Sequence[str]
) -> dict[str, Any]:
    return {
        "run": run,
        "symbol": symbol,
        "x": [case["measured"] for case in cases],
        "y": [case["bound"] for case in cases],
        "text": list(names),
    }


def _dropped_chart(found: dict[str, Any]) -> dict[str, Any]:
    lines: dict[str, dict[str, Any]] = {}
    for case in found["cases"]:
        line = lines.setdefault(case["problem"], {"name": case["problem"], "x": [], "y": [], "reach": []})
        line["x"].append(case["local_steps"])
        line["y"].append(case["factor"])
        line["reach"].append(case["high"] - case["factor"])
    words = "the noise term with the dropped part, over the noise term without it, against K (u = 1/8)"
    return {
        "id": "dropped",
        "kind": "dropped",
        "words": words,
        "lines": [*lines.values()],
        "stated": found["stated"],
    }


def _legend() -> str:
    colours = "".join(
        f'<button data-run="{i}" aria-pressed="true"><i style="border-top: 3px solid var(--c{i})"></i>{name}</button>'
        for i, name in enumerate(STRATEGIES)
    )
    return f'<div class="legend">{colours}</div>'


def _measured_note(facts: dict[str, Any]) -> str:
    said = (
        f"Circles: quadratics with a shared Hessian; diamonds: the non-convex sum. {facts['workers']} workers, "
        f"batches of {facts['batch']}, T = {facts['rounds']}. The expectation is the mean of the exact ||grad f||² "
        f"over {facts['seeds']} seeds; each half of them says in which round the other half is measured, so that the "
        "least of many noisy means is not taken for the truth. Star: the case that meets the bound. Cross: outside "
        "the conditions."
    )
    return f'<p class="note">{text(said)}</p>'


def _looseness_table(facts: dict[str, Any]) -> str:
    rows = [
        [strategy, str(found["cases"]), *(f"{found[key]:.3g}" for key in ("least", "median", "largest"))]
        for strategy, found in facts["looseness"].items()
    ]
    said = (
        "The ratio is large where c is near 0, and where the noise is small: a quadratic then converges far "
    )
    said += "faster than the bound, which is made for any function, can know."
    table = html_table(["strategy", "cases", "least ratio", "median", "largest"], rows)
    return f'{table}<p class="note below">{text(said)}</p>'


def _cases_table(cases: Sequence[dict[str, Any]]) -> str:
    heads = ["case", "u", "g L", "sigma_local", "sigma_global", "measured", "bound", "ratio", ""]
    near = sorted((case for case in cases if case["ratio"]), key=lambda case: case["ratio"])[:NEAREST]
    numbers = ("u", "g_l", "sigma_local", "sigma_global")
    rows = [
        [
            _name(case),
            *(f"{case[key]:.3g}" for key in numbers),
            f"{case['measured']:.3g}\n{_interval(case)}",
            f"{case['bound']:.3g}",
            f"{case['ratio']:.3g}",
            case["verdict"],
        ]
        for case in near
    ]
    return html_table(heads, rows) + f'<p class="note below">All cases: {LEFT["numbers"]}.</p>'


def _dropped_section(found: dict[str, Any], chart: dict[str, Any]) -> str:
    said = (
        "(a5), (b1) and (b9) treat the noise of K steps as uncorrelated with the gradients that follow it. For K = 1 "
        "that is true. For K > 1 noise moves the next points: where f curves up it is undone in part and the true "
        "noise term is smaller, where f curves down it grows."
    )
    rows = [
        [
            case["problem"],
            str(case["local_steps"]),
            f"{case['factor']:.4f}\n{case['low']:.4f} to {case['high']:.4f}",
            "–" if case["expected"] is None else f"{case['expected']:.4f}",
        ]
        for case in found["cases"]
    ]
    return f"<p>{text(said)}</p>{plot(chart)}" + html_table(
        ["problem", "K", "factor", "in closed form"], rows
    )


def _provenance(facts: dict[str, Any]) -> str:
    made = [
        [name, str(value)]
        for name, value in {**facts.get("versions", {}), "device": facts.get("device", "–")}.items()
    ]
    return f"<pre>{text(facts.get('command', ''))}</pre>{html_facts(made)}"


def _name(case: dict[str, Any]) -> str:
    n = "" if case["sampling"] == "full" else f", n\u00a0=\u00a0{case['cohort']}"
    return f"{case['problem']}, {case['sampling']}{n}, K\u00a0=\u00a0{case['local_steps']}"


def _interval(case: dict[str, Any]) -> str:
    return f"{case['low']:.3g} to {case['high']:.3g}"


_SCRIPT = """
draw.against = c => {
  const ink = css("--ink"), dots = c.dots.filter(d => d.run === null || !state.hidden.has(d.run));
  const traces = dots.map(d => ({type: "scatter", mode: "markers", x: d.x, y: d.y, text: d.text,
    hovertemplate: "%{text}<br>measured %{x:.3~g}<br>bound %{y:.3~g}<extra></extra>",
    marker: {symbol: d.symbol, size: d.run === null ? 13 : 7, opacity: d.run === null ? 1 : .65,
      color: d.run === null ? ink : look(d.run).color}}));
  const x = c.dots.flatMap(d => d.x), y = c.dots.flatMap(d => d.y), ends = [Math.min(...x), Math.max(...x)];
  traces.unshift({type: "scatter", mode: "lines", x: ends, y: ends, hoverinfo: "skip",
    line: {color: css("--muted"), width: 1, dash: "dash"}});
  return [traces, layout({words: "measured: min over rounds of the mean of ||grad f||²", ...logAxis(x)},
    {words: "bound", ...logAxis([...ends, ...y])}, {height: 520})];
};
draw.dropped = c => {
  const traces = c.lines.map((l, i) => ({type: "scatter", mode: "lines+markers", x: l.x, y: l.y, name: l.name,
    error_y: {type: "data", array: l.reach, thickness: 1.2, color: look(3 + i).color},
    line: {color: look(3 + i).color, width: 2}, hovertemplate: l.name + "<br>K = %{x}: %{y:.4f}<extra></extra>"}));
  const steps = c.lines[0].x;
  return [traces, layout({words: "K, local steps", type: "log", tickvals: steps, ticktext: steps},
    {words: "factor"}, {height: 320, showlegend: true, legend: {orientation: "h", y: 1.12},
    marks: [{y: c.stated, text: "at most " + c.stated + ", in a repaired proof"}]})];
};
"""
