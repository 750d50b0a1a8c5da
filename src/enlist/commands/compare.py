"""`enlist compare`."""

from pathlib import Path
from typing import Any

from enlist.commands.shared import (
    hush,
    is_live,
    no_loose_words,
    print_json,
    quiet,
    read_options,
    stop,
    unused,
)
from enlist.options.study import CompareOptions


def act(given: dict[str, Any], loose: list[str]) -> None:
    """Compares several methods, then shows how they fared."""
    no_loose_words("compare", loose)
    options, hashes = read_options(CompareOptions, given)
    asked = options.output
    out = Path(asked.resume or asked.out or unused("compare"))
    hush()
    from enlist.launch.compare import launch_compare

    measured = "worker_seconds" not in given and not options.settings.worker_seconds
    try:
        with quiet(asked.json):
            comparison = launch_compare(
                options, out, live=is_live(asked.json), measure=measured, hashes=hashes
            )
    except KeyboardInterrupt:
        if not (out / "config.yaml").exists():
            raise
        stop(f"interrupted; go on with: enlist compare --resume {out}", 130)
    show(comparison, out, asked.json)


def show(comparison: Any, out: Path, as_json: bool) -> None:
    """Draws the comparison's pictures and page, writes its tables and prints its outcome."""
    from enlist.report.comparison.files import print_outcome, write_all

    facts = write_all(comparison, out)
    if as_json:
        print_json(facts | {"folder": str(out)})
        return
    from rich.console import Console

    print_outcome(comparison, out, Console())
