"""`enlist tune`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from enlist.commands.shared import hush, is_live, no_loose_words, print_json, quiet, stop, unused
from enlist.errors import BadInput
from enlist.options.tune import TuneOutput
from enlist.words import kinds, typed_several

SEVERAL = ("local_epochs", "local_steps")


def read(group: type, words: Iterable[str]) -> tuple[dict[str, list[Any]], list[str]]:
    """What was typed; rates are read later, since they may be ranges."""
    return typed_several(group, words, single=kinds(group).keys() - {*SEVERAL}, whole=())


def act(given: dict[str, list[Any]], loose: list[str]) -> None:
    """Finds the best candidate, then shows it."""
    no_loose_words("tune", loose)
    output = {name: given.pop(name)[-1] for name in TuneOutput.__dataclass_fields__ if name in given}
    as_json, resume = bool(output.get("json")), output.get("resume")
    out = Path(resume or output.get("out") or unused("tune"))
    file = _file(given, output)
    hush()
    from enlist.launch.tune import asked_for, launch_tune
    from enlist.report.tune.files import PLAN_FILE

    try:
        with quiet(as_json):
            tuned = launch_tune(asked_for(given, file), out, live=is_live(as_json), resume=resume is not None)
    except KeyboardInterrupt:
        if not (out / PLAN_FILE).exists():
            raise
        stop(f"interrupted; go on with: enlist tune --resume {out}", 130)
    show(tuned, out, as_json)


def show(tuned: Any, out: Path, as_json: bool, source: Path | None = None) -> None:
    """Draws the picture and the page, writes the rest, and prints what to type next.

    Args:
        source: the tune.json that it is made anew from.
    """
    from enlist.report.again import drawn
    from enlist.report.tune.files import print_outcome, write_all

    facts = drawn(lambda place: write_all(tuned, place), out, source)
    if as_json:
        print_json(facts | {"folder": str(out)})
        return
    from rich.console import Console

    print_outcome(tuned, out, Console())


def _file(given: dict[str, list[Any]], output: dict[str, Any]) -> Path | None:
    """The file beneath what was typed: of the tune that is gone on with nothing can change."""
    from enlist.report.tune.files import PLAN_FILE

    if (resume := output.get("resume")) is None:
        return None if output.get("config") is None else Path(output["config"])
    path = Path(resume) / PLAN_FILE
    if more := next((name for name in (*given, *output) if name not in ("resume", "json")), None):
        raise BadInput(
            f"resume and {more.replace('_', '-')} are both given: a resumed tune goes on as it was begun; for "
            f"another one type --config {path} and a new --out"
        )
    if not path.is_file():
        raise BadInput(f"resume {resume}: there is no tune in that folder (it has no {PLAN_FILE})")
    return path
