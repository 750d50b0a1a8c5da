"""The page of a comparison: who reached the target at what cost, curves with bands, and all that it rests on."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from enlist.report import tables
from enlist.report.comparison import bands, standings
from enlist.report.comparison.outcome import Comparison, is_diverged
from enlist.report.document import controls, header, plot, section, text, write_document
from enlist.report.record import RunRecord, differing, plain


def write_page(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Writes the page about a comparison to `path`."""
    data = bands.charts(comparison)
    title = f"Comparison to {standings.goal_words(comparison)}"
    sections = [
        header("comparison", title, _lead(comparison)),
        _outcome(comparison),
        _curves(comparison, data),
        _split(data["figures"][0]),
        _rates(comparison),
        section("Every seed", tables.html_table(*standings.seed_rows(comparison))),
        _configuration(comparison),
        _provenance(comparison, Path(path).parent),
    ]
    write_document(path, title, sections, data)


def _lead(comparison: Comparison) -> str:
    methods, counts = len(comparison.contenders), {len(one.runs) for one in comparison.contenders}
    said = f"{methods} method{'s' * (methods > 1)}"
    if len(counts) == 1:
        count = counts.pop()
        said += f", {count} seed{'s' * (count > 1)}{' each' * (methods > 1)}"
    shared = tables.shared_phrases(comparison.runs)
    return f"{said}: {', '.join(shared)}" if shared else said


def _outcome(comparison: Comparison) -> str:
    said = text(" ".join(standings.notes(comparison)))
    table = tables.html_table(*standings.outcome_rows(comparison))
    return section("Outcome", f'{table}<p class="note below">{said}</p>')


def _curves(comparison: Comparison, data: dict[str, Any]) -> str:
    if not data["curves"]:
        return section("Curves", '<p class="note">No evaluated round yet.</p>')
    said = "Line: the median over the seeds. Band: from the lowest to the highest of those that go on. "
    said += "Seeds cross the target one by one, so the line need not cross it in the median of their rounds. "
    if any(map(is_diverged, comparison.runs)):
        said += "Cross: a seed diverged, and counts in the median as the worst from there on."
    several = any(len(one.runs) > 1 for one in comparison.contenders)
    plots = "".join(plot(chart) for chart in data["curves"])
    body = f'{controls(data, comparison.labels)}<div class="grid">{plots}</div>'
    return section("Curves", body + (f'<p class="note below">{said}</p>' if several else ""))


def _split(chart: dict[str, Any]) -> str:
    said = "Of the seed with the median seconds; of two such, their mean."
    return section("Where the time goes", f'{plot(chart)}<p class="note">{said}</p>')


def _rates(comparison: Comparison) -> str:
    names = standings.rate_names(comparison)
    rows = []
    for one in comparison.contenders:
        given = [plain(one.rates.get(name)) for name in names]
        rows.append([one.label, *given, str(one.tried) if one.tried > 1 else "–"])
    chosen = any(one.tried > 1 for one in comparison.contenders)
    said = comparison.tuning or ("" if chosen else "They were given.")
    table = tables.html_table(["method", *names, "tried"], rows)
    return section("How the rates were chosen", f"<p>{text(said)}</p>{table}" if said else table)


def _configuration(comparison: Comparison) -> str:
    runs = comparison.runs
    apart = differing(runs)
    rows = []
    for one in comparison.contenders:
        told = [dict.fromkeys(plain(run.config.get(key)) for run in one.runs) for key in apart]
        rows.append([one.label, *(", ".join(values) for values in told)])
    shared = [[key, plain(value)] for key, value in runs[0].config.items() if _is_shared(key, runs)]
    body = tables.html_table(["method", *apart], rows) if apart else ""
    lead = "<p>What sets the runs apart:</p>" if apart else ""
    rest = f"<p>The same in all:</p>{tables.html_facts(shared)}" if shared else ""
    return section("Configuration", f'{lead}{body}<div class="below">{rest}</div>')


def _is_shared(key: str, runs: Sequence[RunRecord]) -> bool:
    """Whether the option is given, and the same in all."""
    values = [run.config.get(key) for run in runs]
    return values[0] is not None and all(value == values[0] for value in values)


def _provenance(comparison: Comparison, place: Path) -> str:
    commands, made = [], dict[str, list[str]]()
    for one in comparison.contenders:
        for run in one.runs:
            commands.append(f"enlist run --config {shlex.quote(_config_path(run, place))}")
            owners = made.setdefault(tables.made_with([run])[0], [])
            if one.label not in owners:
                owners.append(one.label)
    told = [line if len(made) == 1 else f"{', '.join(owners)}: {line}" for line, owners in made.items()]
    lines = "".join(f"<p>{text(line)}.</p>" for line in told)
    return section("To repeat it", f"<pre>{text(chr(10).join(commands))}</pre>{lines}")


def _config_path(run: RunRecord, place: Path) -> str:
    """Seen from the folder of the page, where the run lies in it: folders are moved about as a whole."""
    if run.folder is None:
        return f"{run.name}/config.yaml"
    config = run.folder / "config.yaml"
    inside = config.resolve().is_relative_to(place.resolve())
    return str(config.resolve().relative_to(place.resolve()) if inside else config)
