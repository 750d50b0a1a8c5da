"""`enlist plan`."""

import sys
from pathlib import Path
from typing import Any

from enlist.commands.shared import hush, is_live, no_loose_words, print_json, quiet, read_options, unused
from enlist.options.plan import PlanOptions


def act(given: dict[str, Any], loose: list[str]) -> None:
    """Measures the constants, then shows what the theory makes of them."""
    no_loose_words("plan", loose)
    if "rounds" not in given and given.get("config") is None:
        given = given | {"rounds": 0}
    options, hashes = read_options(PlanOptions, given)
    asked = options.output
    out = Path(asked.out or unused("plan"))
    hush()
    from enlist.launch.plan import launch_plan

    with quiet(asked.json):
        facts = launch_plan(
            options,
            out,
            measure="worker_seconds" not in given and not options.settings.worker_seconds,
            hashes=hashes,
            say=_say if is_live(asked.json) else None,
        )
    show(facts, out, asked.json)


def show(facts: dict[str, Any], out: Path, as_json: bool, source: Path | None = None) -> None:
    """Draws the map and the page, writes plan.json, and prints what to type next.

    Args:
        source: the plan.json that it is made anew from.
    """
    from enlist.report.again import drawn
    from enlist.report.plan.files import print_outcome, write_all

    drawn(lambda place: write_all(facts, place), out, source)
    if as_json:
        print_json(facts | {"folder": str(out)})
        return
    from rich.console import Console

    print_outcome(facts, out, Console())


def _say(line: str) -> None:
    print(line, file=sys.stderr)
