"""Everything that a comparison leaves besides its runs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enlist.report import bands, comparison_page, standings
from enlist.report.comparison import Comparison, summary
from enlist.report.record import write_whole

if TYPE_CHECKING:
    from rich.console import Console

LEFT = {
    "page": "report.html",
    "picture": "curves.png",
    "split": "split.png",
    "table": "compare.csv",
    "seeds": "seeds.csv",
    "latex": "compare.tex",
}


def write_all(comparison: Comparison, out: Path) -> dict[str, Any]:
    """Writes tables, pictures, the page and `summary.json` into `out`, and returns the summary."""
    standings.write_csv(comparison, out / LEFT["table"])
    standings.write_seeds_csv(comparison, out / LEFT["seeds"])
    standings.write_latex(comparison, out / LEFT["latex"])
    bands.figure(comparison, out / LEFT["picture"])
    bands.split(comparison, out / LEFT["split"])
    comparison_page.write_page(comparison, out / LEFT["page"])
    facts = summary(comparison)
    write_whole(out / "summary.json", (json.dumps(facts, indent=2) + "\n").encode())
    return facts


def print_outcome(comparison: Comparison, out: Path, console: "Console") -> None:
    """Prints the table and where everything lies."""
    from rich.text import Text

    console.print(standings.terminal_table(comparison))
    if comparison.tuning:
        console.print(Text(comparison.tuning, style="dim"))
    for what, name in {**LEFT, "folder": ""}.items():
        # Never wrapped: a path broken over two lines cannot be clicked or copied.
        console.print(Text(f"{what:<8}", style="dim") + Text(str(out / name)), soft_wrap=True)
