"""The page of a plan: what to expect, what to type, constants, rates, conditions, a map over n and K, and advice."""

import os
from typing import Any

from enlist.report import tables
from enlist.report.document import choice, header, plot, section, text, write_document
from enlist.report.figures import plotly_text
from enlist.report.panels import wants_log
from enlist.report.plan import words as plan_words
from enlist.report.plan.map import cell_text, framed
from enlist.report.plan.words import MEASURES, Plan, count, number
from enlist.report.sweep.page import MAP_SCRIPT, map_axis


def write_page(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Writes the page about a plan to `path`."""
    title = f"Plan for {plan['problem']['model']} on {plan['problem']['dataset']}"
    chart = map_chart(plan)
    sections = [
        header("plan", title, plan_words.problem_words(plan)),
        _tiles(plan),
        _next(plan),
        section("Advice", _list(plan["advice"])),
        section("Warnings", _list(plan["warnings"])) if plan["warnings"] else "",
        _map(chart),
        _table("Rates", plan_words.infimum_words(plan), plan_words.rate_rows(plan)),
        _table(
            "Are the rates given allowed?", plan_words.allowed_words(plan), plan_words.condition_rows(plan)
        ),
        _table("What the bound consists of", "At the rates recommended.", plan_words.part_rows(plan)),
        _table("Constants of the problem", _measured(plan), plan_words.constant_rows(plan)),
    ]
    data: dict[str, Any] = {"names": [], "x": [], "curves": [], "figures": [chart]}
    write_document(path, title, sections, data, MAP_SCRIPT)


def map_chart(plan: Plan) -> dict[str, Any]:
    """The map for the page, ready for JSON."""
    axes = plan["map"]
    cells = [
        {
            "at": [x, y],
            "name": plotly_text(f"n = {n}, K = {steps}"),
            "shown": [_shown(axes[measure.key][y][x]) for measure in MEASURES],
        }
        for y, steps in enumerate(axes["local_steps"])
        for x, n in enumerate(axes["cohort"])
    ]
    return {
        "id": "map",
        "kind": "map",
        "words": "until the bound is at the goal, at the rates recommended for each place",
        "axes": [map_axis("cohort n", axes["cohort"]), map_axis("local steps K", axes["local_steps"])],
        "cells": cells,
        "best": framed(plan),
        "measures": [
            {
                "words": plotly_text(measure.words),
                "falls": True,
                "log": wants_log([value for row in axes[measure.key] for value in row]),
            }
            for measure in MEASURES
        ],
    }


def _next(plan: Plan) -> str:
    if (config := plan_words.config_of(plan)) is None:
        return ""
    return section("What to type", f"<pre>enlist run --config {text(config)}</pre>")


def _shown(value: float) -> dict[str, Any]:
    return {"mean": value, "deviation": None, "text": cell_text(value), "said": number(value)}


def _map(chart: dict[str, Any]) -> str:
    words = {str(i): measure.head for i, measure in enumerate(MEASURES)}
    bars = f'<div class="cut">{choice("show", "measure", words, "0")}</div>'
    said = "The brighter, the fewer. Framed: this plan. The rates are others in every place."
    return section("Over n and K", f'{bars}{plot(chart)}<p class="note">{text(said)}</p>')


def _tiles(plan: Plan) -> str:
    found, best = plan["predicted"], plan["rates"]["recommended"]
    low, high = found["rounds_range"]
    told = [
        ("goal", number(plan["goal"]), "of E||grad f||^2"),
        (
            "rounds",
            count(found["rounds"]),
            f"{count(low)} to {'?' if high is None else count(high)} by the intervals",
        ),
        ("MiB of a worker", number(found["mib"]), "up and down, if it takes part in every round"),
        (
            "seconds",
            number(found["seconds"]),
            f"{number(plan['worker_seconds']['value'])} s of computing a round"
            + (", measured here" if plan["worker_seconds"]["measured"] else ""),
        ),
        ("worker rate", number(best["worker_lr"]), f"recommended for {plan['rounds']:,} rounds"),
        ("server rate", number(best["server_lr"]), f"the bound there: {number(best['bound'])}"),
    ]
    cards = "".join(
        f'<div><dt>{text(what)}</dt><dd>{text(value)}</dd><dd class="note">{text(note)}</dd></div>'
        for what, value, note in told
    )
    return f'<dl class="tiles">{cards}</dl>\n<p class="note below">{text(plan_words.CONSERVATIVE)}</p>'


def _table(title: str, said: str, rows: tuple[list[str], list[list[str]]]) -> str:
    return section(text(title), f"<p>{text(said)}</p>{tables.html_table(*rows)}")


def _list(lines: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{text(line)}</li>' for line in lines)}</ul>"


def _measured(plan: Plan) -> str:
    of = plan["estimate"]
    rounds = ", ".join(map(str, of["points"]))
    return (
        f"Measured on {of['workers']} of {of['of_workers']} workers at the models of rounds {rounds}: "
        f"{of['gradients']:,} gradients in {of['seconds']:.1f} s ({plan['made_with']}). The bounds take the largest "
        "along the run."
    )
