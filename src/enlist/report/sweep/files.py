"""Everything that a sweep leaves besides its runs, and reading it back."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enlist.errors import BadInput
from enlist.report import heatmap, record
from enlist.report.record import write_whole
from enlist.report.sweep import page as sweep_page
from enlist.report.sweep import tables as sweep_tables
from enlist.report.sweep.outcome import Sweep, Swept

if TYPE_CHECKING:
    from rich.console import Console

GRID_FILE = "sweep.yaml"
RUNS = "runs"


def left(sweep: Sweep) -> dict[str, str]:
    """The files of a sweep by what they are."""
    drawn = "heatmap.png" if len(heatmap.picture_axes(sweep)) > 1 else "line.png"
    files = {"page": "report.html", "picture": drawn, "table": "sweep.csv", "latex": "sweep.tex"}
    cells = {"cells": "cells.csv", "cells, latex": "cells.tex"} if sweep.seeds > 1 else {}
    return files | cells


def load(folder: Path) -> Sweep | None:
    """The sweep that a folder holds; None where it holds none."""
    if not (folder / GRID_FILE).is_file():
        return None
    try:
        facts = json.loads((folder / "summary.json").read_text())
        axes, rows = dict(facts["axes"]), list(facts["runs"])
        values = [({name: row[name] for name in axes}, str(row["run"])) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{folder} holds a sweep that is not finished: go on with enlist sweep --resume {folder}"
        ) from error
    return Sweep(axes, [Swept(each, record.load(folder / RUNS / name)) for each, name in values])


def write_all(sweep: Sweep, out: Path) -> dict[str, Any]:
    """Writes tables, the picture, the page and `summary.json` into `out`, and returns the summary."""
    makers: dict[str, Callable[[Sweep, Path], None]] = {
        "page": sweep_page.write_page,
        "picture": heatmap.write_picture,
        "table": sweep_tables.write_csv,
        "latex": sweep_tables.write_latex,
        "cells": sweep_tables.write_cells_csv,
        "cells, latex": sweep_tables.write_cells_latex,
    }
    for what, name in left(sweep).items():
        makers[what](sweep, out / name)
    facts = sweep_tables.summary(sweep)
    # Last: a folder with a summary is that of a sweep which is finished.
    write_whole(out / "summary.json", (json.dumps(facts, indent=2, allow_nan=False) + "\n").encode())
    return facts


def print_outcome(sweep: Sweep, out: Path, console: "Console") -> None:
    """Prints the best combinations and where everything lies."""
    from rich.text import Text

    console.print(sweep_tables.terminal_table(sweep))
    for what, name in {**left(sweep), "runs": RUNS, "folder": ""}.items():
        # Never wrapped: a path broken over two lines cannot be clicked or copied.
        console.print(Text(f"{what:<13}", style="dim") + Text(str(out / name)), soft_wrap=True)
