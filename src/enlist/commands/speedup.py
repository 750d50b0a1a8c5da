"""`enlist speedup`."""

from pathlib import Path
from typing import Any

from enlist.commands.shared import (
    counted,
    hush,
    is_live,
    no_loose_words,
    quiet,
    show_study,
    stop,
    typed_again,
    unused,
)
from enlist.errors import BadInput
from enlist.options import HASHES, unflatten
from enlist.options.speedup import SpeedupOptions
from enlist.words import kept


def act(given: dict[str, Any], loose: list[str]) -> None:
    """Measures rounds over n or K, then shows them."""
    no_loose_words("speedup", loose)
    resume = given.get("resume")
    options, hashes = (unflatten(SpeedupOptions, given), {}) if resume is None else _begun(given)
    as_json = bool(given.get("json"))
    out = Path(resume or options.output.out or unused("speedup"))
    hush()
    from enlist.launch.run import check_folder
    from enlist.launch.speedup import launch_speedup
    from enlist.report.speedup.page import PLAN_FILE

    if resume is None:
        check_folder(out)
    try:
        with quiet(as_json), counted(is_live(as_json), "searches") as done:
            facts = launch_speedup(options, out, resume=resume is not None, hashes=hashes, done=done)
    except KeyboardInterrupt:
        if not (out / PLAN_FILE).exists():
            raise
        stop(f"interrupted; go on with: enlist speedup --resume {out}", 130)
    show(_provenance(options) | facts, out, as_json)


def show(facts: dict[str, Any], out: Path, as_json: bool, source: Path | None = None) -> None:
    """See `show_study`."""
    from enlist.report.speedup import page as speedup_page

    show_study(speedup_page, facts, out, as_json, source)


def _begun(given: dict[str, Any]) -> tuple[SpeedupOptions, dict[str, Any]]:
    """The study that is gone on with, of which nothing can change; and what its file says of other files."""
    from enlist.engine.folder import read_config
    from enlist.report.speedup.page import PLAN_FILE

    folder = Path(given["resume"])
    if more := next((name for name in given if name not in ("resume", "json")), None):
        raise BadInput(
            f"resume and {more.replace('_', '-')} are both given: a resumed study goes on as it was begun; for "
            "another one leave --resume out"
        )
    path = folder / PLAN_FILE
    if not path.is_file():
        raise BadInput(f"resume {folder}: there is no speedup study in that folder (it has no {PLAN_FILE})")
    values = read_config(path)
    hashes = {name: values.pop(name) for name in HASHES if name in values}
    try:
        return unflatten(SpeedupOptions, kept(values, SpeedupOptions)), hashes
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error


def _provenance(options: SpeedupOptions) -> dict[str, Any]:
    """What was asked for, and where it was made."""
    from enlist.engine import platform
    from enlist.engine.summary import versions
    from enlist.launch.speedup import described

    return {
        "command": typed_again("enlist speedup", described(options)),
        "device": platform.describe(),
        "versions": versions(),
    }
