"""`enlist study`: the project's own studies, one function each."""

from pathlib import Path
from typing import Any

from enlist.commands.shared import (
    counted,
    hush,
    is_live,
    no_loose_words,
    quiet,
    show_study,
    typed_again,
    unused,
)
from enlist.options import flatten, unflatten
from enlist.options.project import BoundStudyOptions


def bound(given: dict[str, Any], loose: list[str]) -> None:
    """Whether the theorems' bound holds where all constants are known."""
    no_loose_words("study bound", loose)
    options = unflatten(BoundStudyOptions, given)
    asked = options.study
    out = Path(options.output.out or unused("study-bound"))
    hush()
    from enlist.engine import platform
    from enlist.launch.run import check_folder

    check_folder(out)
    platform.prepare()
    from enlist.studies.bound_holds import SCALES, bound_holds

    with quiet(options.output.json), counted(is_live(options.output.json), "programs") as done:
        facts = bound_holds(SCALES[asked.scale], asked.seeds, asked.rounds, done=done)
    show_bound(_provenance("bound", options.study) | facts, out, options.output.json)


def show_bound(facts: dict[str, Any], out: Path, as_json: bool, source: Path | None = None) -> None:
    """See `show_study`."""
    from enlist.report.bound import page as bound_page

    show_study(bound_page, facts, out, as_json, source)


def _provenance(study: str, asked: Any) -> dict[str, Any]:
    """What was asked for, and where it was made."""
    from enlist.engine import platform
    from enlist.engine.summary import versions

    return {
        "study": study,
        "command": typed_again(f"enlist study {study}", flatten(asked)),
        "scale": asked.scale,
        "device": platform.describe(),
        "versions": versions(),
    }
