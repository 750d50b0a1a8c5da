"""Everything that a tune leaves besides its runs and rungs, and reading it back."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from enlist.errors import BadInput
from enlist.report import record
from enlist.report.again import read_left
from enlist.report.record import write_whole
from enlist.report.sweep.files import RUNS
from enlist.report.sweep.outcome import word
from enlist.report.tune import map as tune_map
from enlist.report.tune import page as tune_page
from enlist.report.tune import tables as tune_tables
from enlist.report.tune.outcome import Cost, Entry, Rung, Tuned, measure_of

if TYPE_CHECKING:
    from rich.console import Console

PLAN_FILE = "tune.yaml"
CONFIG_FILE = "config.yaml"
NUMBERS = "tune.json"
FILES = {"page": "report.html", "picture": "heatmap.png", "all of it": NUMBERS}


def write_all(tuned: Tuned, out: Path) -> dict[str, Any]:
    """Writes the picture, the page and `tune.json` into `out`, and returns what that holds."""
    tune_page.write_page(tuned, out / FILES["page"])
    tune_map.write_picture(tuned, out / FILES["picture"])
    facts = tune_tables.summary(tuned)
    # Last: a folder with this file is that of a tune which is finished.
    write_whole(out / NUMBERS, (json.dumps(facts, indent=2, allow_nan=False) + "\n").encode())
    return facts


def load(folder: Path) -> Tuned | None:
    """The tune that a folder holds; None where it holds none."""
    path, begun = folder / NUMBERS, folder / PLAN_FILE
    if not begun.is_file() and not path.is_file():
        return None
    facts = read_left(path, "a tune", ("winner", "rungs", "axes", "cost", "curves"))
    if facts is None:
        raise BadInput(
            f"{folder} holds a tune that is not finished: go on with enlist tune --resume {folder}"
        )
    try:
        return _tuned(folder, facts, yaml.safe_load(begun.read_text()))
    except (OSError, LookupError, TypeError, ValueError, AttributeError, yaml.YAMLError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise BadInput(f"'{path}', or {PLAN_FILE} beside it, is damaged: {reason}") from error


def _tuned(folder: Path, facts: Mapping[str, Any], begun: Mapping[str, Any]) -> Tuned:
    runs = [record.load(folder / RUNS / name) for name in facts["curves"]]
    metric = runs[0].metric_key.removeprefix("test_")
    candidates = _candidates(facts)
    places = {_key(values): i for i, values in enumerate(candidates)}
    cost = {name: facts["cost"][name] for name in Cost._fields}
    return Tuned(
        candidates,
        facts["seeds"],
        measure_of(begun["by"], metric, begun.get("target")),
        facts["eta"],
        [_rung(rung, places, candidates[0]) for rung in facts["rungs"]],
        Cost(**cost),
        runs,
        facts["config"],
    )


def _candidates(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All of them ran on the first rung; in the order in which they were given."""
    names = list(facts["winner"])
    found = [{name: entry[name] for name in names} for entry in facts["rungs"][0]["entries"]]
    at = {name: {repr(value): i for i, value in enumerate(facts["axes"].get(name, []))} for name in names}
    return sorted(found, key=lambda values: [at[name].get(repr(values[name]), 0) for name in names])


def _rung(facts: Mapping[str, Any], places: Mapping[str, int], names: Mapping[str, Any]) -> Rung:
    entries = [
        Entry(
            places[_key({name: each[name] for name in names})],
            each["scores"],
            each["test_metric"],
            each["diverged"],
            each["kept"],
        )
        for each in facts["entries"]
    ]
    return Rung(facts["rounds"], entries, facts["device_seconds"], facts["wall_seconds"], facts["advanced"])


def _key(values: Mapping[str, Any]) -> str:
    return repr(list(values.items()))


def print_outcome(tuned: Tuned, out: Path, console: "Console") -> None:
    """Prints the rungs, the best candidates, where everything lies, and what to type next."""
    from rich.text import Text

    console.print(tune_tables.rungs_table(tuned))
    console.print(tune_tables.candidates_table(tuned))
    for what, name in {**FILES, "folder": ""}.items():
        # Never wrapped: a path broken over two lines cannot be clicked or copied.
        console.print(Text(f"{what:<10}", style="dim") + Text(str(out / name)), soft_wrap=True)
    won = ", ".join(f"{name.replace('_', '-')} {word(value)}" for name, value in tuned.winner.items())
    console.print(Text(f"\nThe winner: {won}.", style="bold"))
    # A tune begun from Python has none, nor has a folder that only the page was put into.
    if (out / CONFIG_FILE).is_file():
        console.print(Text("To run it:", style="bold"))
        console.print(Text(f"enlist run --config {out / CONFIG_FILE}"), soft_wrap=True)
