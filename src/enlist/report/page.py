"""`report.html`: one page about one run or several, complete in itself, to be opened without a network."""

import math
import os
import shlex
from collections.abc import Sequence
from typing import Any

from enlist.report import figures, tables
from enlist.report.deployment import MOST_REFUSED, deployed, deployment_rows, refusals
from enlist.report.document import controls, header, plot, section, text, write_document
from enlist.report.record import RunRecord, differing, labels, outcome


def write_page(runs: Sequence[RunRecord], path: str | os.PathLike[str]) -> None:
    """Writes the page about `runs` (at least one) to `path`."""
    data, held = figures.charts(runs), figures.partition_charts(runs)
    present = figures.participation_chart(runs)
    sections = [
        _header(runs),
        _outcome(runs),
        _curves(runs, data),
        _partition(runs, held),
        _participation(runs, present),
        _deployment(runs),
        _facts("What it cost", runs, tables.cost_rows(runs)),
        _facts("Configuration", runs, tables.config_rows(runs), strong=len(differing(runs))),
        _provenance(runs),
    ]
    drawn = [{key: chart[key] for key in chart if key != "partition"} for chart in held]
    data["figures"] = [*drawn, present] if present else drawn
    write_document(path, " · ".join(labels(runs)[:3]), sections, data)


def _header(runs: Sequence[RunRecord]) -> str:
    if len(runs) == 1:
        return header("run", labels(runs)[0], tables.sentence(runs), outcome(runs[0]).status)
    return header("runs", "Comparison", tables.sentence(runs))


def _outcome(runs: Sequence[RunRecord]) -> str:
    if len(runs) > 1:
        return section("Outcome", tables.html_table(*tables.summary_rows(runs)))
    cards = (
        f'<div><dt>{text(what)}</dt><dd>{text(value)}</dd><dd class="note">{text(note)}</dd></div>'
        for what, value, note in tables.tiles(runs[0])
    )
    return f'<dl class="tiles">{"".join(cards)}</dl>\n'


def _curves(runs: Sequence[RunRecord], data: dict[str, Any]) -> str:
    if not data["curves"]:
        return section("Curves", '<p class="note">No evaluated round yet.</p>')
    plots = "".join(plot(chart) for chart in data["curves"])
    step = max(math.ceil(len(run.metrics) / figures.MOST_POINTS) for run in runs)
    note = f"Of the longest run one evaluated round in {step} is drawn." if step > 1 else ""
    bar = controls(data, labels(runs))
    return section("Curves", f'{bar}<div class="grid">{plots}</div><p class="note">{note}</p>')


def _partition(runs: Sequence[RunRecord], drawn: Sequence[dict[str, Any]]) -> str:
    names, body = labels(runs), ""
    told: list[list[int]] = []
    for chart in drawn:
        part, owners = chart["partition"], chart["runs"]
        if owners not in told:
            told.append(owners)
            whose = "" if len(owners) == len(runs) else f"{', '.join(names[i] for i in owners)}: "
            body += f"<p>{text(whose + tables.partition_facts(part))}</p>"
        body += plot(chart)
    if drawn and drawn[0]["left_out"] > 0:
        body += f'<p class="note">{drawn[0]["left_out"]} more partitions are not drawn.</p>'
    return section("Who holds what", body) if drawn else ""


def _participation(runs: Sequence[RunRecord], chart: dict[str, Any] | None) -> str:
    if chart is None:
        return ""
    told = [f"{len(run.metrics):,} of {outcome(run).rounds:,} rounds were evaluated" for run in runs]
    if len(set(told)) > 1:
        told = [f"{label}: {line}" for label, line in zip(labels(runs), told, strict=True)]
    rest = "Only the cohorts of evaluated rounds are on record, so others are not counted here."
    return section("Who took part", f"<p>{text('; '.join(dict.fromkeys(told)))}. {rest}</p>{plot(chart)}")


def _deployment(runs: Sequence[RunRecord]) -> str:
    """What came of the messages between real machines."""
    if not deployed(runs):
        return ""
    (names, facts), (heads, refused) = deployment_rows(runs), refusals(runs)
    body = tables.html_facts(facts) if len(runs) == 1 else tables.html_table(["", *names], facts)
    if refused:
        said = f"Replies refused, by worker and cause (at most {MOST_REFUSED} are listed):"
        body += f'<p class="note below">{said}</p>{tables.html_table(heads, refused)}'
    return section("Deployment", body)


def _facts(title: str, runs: Sequence[RunRecord], rows: Sequence[Sequence[str]], strong: int = 0) -> str:
    if len(runs) == 1 or not rows:
        return section(title, tables.html_facts(rows)) if rows else ""
    return section(title, tables.html_table(["", *labels(runs)], rows, strong))


def _provenance(runs: Sequence[RunRecord]) -> str:
    told = "".join(f"<p>{text(line)}.</p>" for line in tables.made_with(runs))
    places = ["config.yaml"] if len(runs) == 1 else [f"{run.name}/config.yaml" for run in runs]
    commands = "\n".join(_command(run, place) for run, place in zip(runs, places, strict=True))
    if any(run.is_deployed for run in runs):
        said = (
            "A deployed run is simulated with the cohorts that it used; give all workers' rows by --dataset."
        )
        told = f"<p>{text(said)}</p>{told}"
    return section("To repeat it", f"<pre>{text(commands)}</pre>{told}")


def _command(run: RunRecord, config: str) -> str:
    command = f"enlist run --config {shlex.quote(config)}"
    if not run.is_deployed:
        return command
    return f"{command} --sampling {shlex.quote('recorded:' + config.replace('config.yaml', 'cohorts.jsonl'))}"
