"""Everything that a plan leaves besides its config.yaml, reading it back, and a plan on a terminal."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

from enlist.report.again import read_left
from enlist.report.plan import map as plan_map
from enlist.report.plan import page as plan_page
from enlist.report.plan import words as plan_words
from enlist.report.plan.words import Plan
from enlist.report.record import write_whole

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NUMBERS = "plan.json"
FILES = {"page": "report.html", "picture": "heatmap.png", "all of it": NUMBERS}
# Letters in a line of a plan as a text.
WIDTH = 110


def write_all(plan: Plan, out: Path) -> None:
    """Writes the picture, the page and `plan.json` into `out`."""
    plan_page.write_page(plan, out / FILES["page"])
    plan_map.write_picture(plan, out / FILES["picture"])
    # Last: a folder with this file is that of a plan which is finished.
    write_whole(out / NUMBERS, (json.dumps(plan, indent=2, allow_nan=False) + "\n").encode())


def load(folder: Path) -> Plan | None:
    """The plan that a folder holds; None where it holds none."""
    return read_left(folder / NUMBERS, "a plan", ("map", "rates", "constants", "advice"))


def print_outcome(plan: Plan, out: Path, console: "Console") -> None:
    """Prints the plan, where everything lies, and what to type next."""
    from rich.text import Text

    print_plan(plan, console)
    for what, name in {**FILES, "folder": ""}.items():
        # Never wrapped: a path broken over two lines cannot be clicked or copied.
        console.print(Text(f"{what:<10}", style="dim") + Text(str(out / name)), soft_wrap=True)
    console.print(Text(f"\n{plan_words.recommended_words(plan)}", style="bold"))
    config = plan_words.config_of(plan)
    if config is not None and (out / config).is_file():
        console.print(Text("To run it:", style="bold"))
        console.print(Text(f"enlist run --config {out / config}"), soft_wrap=True)


def print_plan(plan: Plan, console: "Console") -> None:
    """Prints constants, rates, conditions, warnings, advice and what is predicted."""
    from rich.text import Text

    for rows in (plan_words.constant_rows, plan_words.rate_rows, plan_words.condition_rows):
        console.print(_table(*rows(plan)))
    for line in (plan_words.allowed_words(plan), plan_words.infimum_words(plan)):
        console.print(Text(line + "\n"))
    for line in plan["warnings"]:
        console.print(Text(f"warning: {line}", style="yellow"))
    for line in plan["advice"]:
        console.print(Text(f"- {line}"))
    console.print(Text(f"\n{plan_words.predicted_words(plan)}\n", style="bold"))


def as_text(plan: Plan) -> str:
    """The plan as a plain text."""
    from rich.console import Console

    file = io.StringIO()
    console = Console(file=file, width=WIDTH, no_color=True)
    print_plan(plan, console)
    file.write(plan_words.recommended_words(plan))
    return file.getvalue()


def rates_table(plan: Plan) -> "Table":
    """The theory's rates and those given, for a terminal or a notebook."""
    return _table(*plan_words.rate_rows(plan))


def _table(heads: list[str], rows: list[list[str]]) -> "Table":
    """Without the last column: what each row is, is for the page, since a terminal is narrow."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(*heads[:-1], box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*map(Text, row[:-1]))
    return table
