"""Everything that a tune leaves besides its runs and rungs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enlist.report import tune_map, tune_page, tune_tables
from enlist.report.record import write_whole
from enlist.report.sweep import word
from enlist.report.tune import Tuned

if TYPE_CHECKING:
    from rich.console import Console

PLAN_FILE = "tune.yaml"
CONFIG_FILE = "config.yaml"
FILES = {"page": "report.html", "picture": "heatmap.png", "all of it": "tune.json"}


def write_all(tuned: Tuned, out: Path) -> dict[str, Any]:
    """Writes the picture, the page and `tune.json` into `out`, and returns what that holds."""
    tune_page.write_page(tuned, out / FILES["page"])
    tune_map.write_picture(tuned, out / FILES["picture"])
    facts = tune_tables.summary(tuned)
    # Last: a folder with this file is that of a tune which is finished.
    write_whole(out / FILES["all of it"], (json.dumps(facts, indent=2, allow_nan=False) + "\n").encode())
    return facts


def print_outcome(tuned: Tuned, out: Path, console: "Console") -> None:
    """Prints the rungs, the best candidates, where everything lies, and what to type next."""
    from rich.text import Text

    console.print(tune_tables.rungs_table(tuned))
    console.print(tune_tables.candidates_table(tuned))
    for what, name in {**FILES, "folder": ""}.items():
        # Never wrapped: a path broken over two lines cannot be clicked or copied.
        console.print(Text(f"{what:<10}", style="dim") + Text(str(out / name)), soft_wrap=True)
    won = ", ".join(f"{name.replace('_', '-')} {word(value)}" for name, value in tuned.winner.items())
    console.print(Text(f"\nThe winner: {won}. To run it:", style="bold"))
    console.print(Text(f"enlist run --config {out / CONFIG_FILE}"), soft_wrap=True)
