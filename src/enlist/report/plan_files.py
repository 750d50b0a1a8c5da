"""Everything that a plan leaves besides its config.yaml."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from enlist.report import plan_map, plan_page, plan_words
from enlist.report.plan_words import Plan
from enlist.report.record import write_whole

if TYPE_CHECKING:
    from rich.console import Console

CONFIG_FILE = "config.yaml"
FILES = {"page": "report.html", "picture": "heatmap.png", "all of it": "plan.json"}


def write_all(plan: Plan, out: Path) -> None:
    """Writes the picture, the page and `plan.json` into `out`."""
    plan_page.write_page(plan, out / FILES["page"])
    plan_map.write_picture(plan, out / FILES["picture"])
    # Last: a folder with this file is that of a plan which is finished.
    write_whole(out / FILES["all of it"], (json.dumps(plan, indent=2, allow_nan=False) + "\n").encode())


def print_outcome(plan: Plan, out: Path, console: "Console") -> None:
    """Prints constants, rates, conditions and advice, where everything lies, and what to type next."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    for heads, rows in (
        plan_words.constant_rows(plan),
        plan_words.rate_rows(plan),
        plan_words.condition_rows(plan),
    ):
        # The last column, what each row is, is for the page: a terminal is narrow.
        table = Table(*heads[:-1], box=box.SIMPLE_HEAD)
        for row in rows:
            table.add_row(*map(Text, row[:-1]))
        console.print(table)
    for line in (plan_words.allowed_words(plan), plan_words.infimum_words(plan)):
        console.print(Text(line + "\n"))
    for line in plan["warnings"]:
        console.print(Text(f"warning: {line}", style="yellow"))
    for line in plan["advice"]:
        console.print(Text(f"- {line}"))
    console.print(Text(f"\n{plan_words.predicted_words(plan)}\n", style="bold"))
    for what, name in {**FILES, "folder": ""}.items():
        # Never wrapped: a path broken over two lines cannot be clicked or copied.
        console.print(Text(f"{what:<10}", style="dim") + Text(str(out / name)), soft_wrap=True)
    best = plan["rates"]["recommended"]
    rates = f"worker-lr {best['worker_lr']:g}, server-lr {best['server_lr']:g}, {plan['rounds']:,} rounds"
    console.print(Text(f"\nRecommended: {rates}. To run it:", style="bold"))
    console.print(Text(f"enlist run --config {out / CONFIG_FILE}"), soft_wrap=True)
