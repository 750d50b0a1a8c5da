"""A sweep in words and rows: for a terminal, for other programs (CSV, JSON), for a paper (LaTeX)."""

import csv
import io
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from enlist.report.comparison.outcome import resolution
from enlist.report.comparison.standings import latex_text
from enlist.report.record import short, write_whole
from enlist.report.sweep.outcome import SEED, Cell, Measure, Spread, Sweep, word

if TYPE_CHECKING:
    from rich.table import Table

# A terminal shows so many combinations, the best ones.
SHOWN_CELLS = 12
_SYMBOLS = {"worker_lr": r"$\eta_L$", "server_lr": r"$\eta$"}


def summary(sweep: Sweep) -> dict[str, Any]:
    """The outcome ready for JSON."""
    best = sweep.best()
    return {
        "axes": {name: list(values) for name, values in sweep.axes.items()},
        "metric": sweep.metric,
        "measure": sweep.measures[0].key,
        "done": sum(row["status"] == "done" for row in sweep.rows),
        "diverged": sum(row["status"] == "diverged" for row in sweep.rows),
        "best": cell_facts(sweep, best),
        "cells": [cell_facts(sweep, cell) for cell in sweep.cells],
        "runs": sweep.rows,
    }


def cell_facts(sweep: Sweep, cell: Cell) -> dict[str, Any]:
    """A combination in one flat row: of every measure the mean, the standard deviation and how many seeds have it."""
    facts = {**cell.values, "seeds": len(cell.rows), "diverged": cell.diverged}
    for measure in sweep.measures:
        spread = cell.spread(measure.key) or Spread(math.nan, None, 0)
        facts[f"{measure.key}_mean"] = None if math.isnan(spread.mean) else spread.mean
        facts[f"{measure.key}_std"] = spread.deviation
        facts[f"{measure.key}_seeds"] = spread.known
    return facts


def write_csv(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """Writes a row for each run; empty: no such number."""
    _write_rows(sweep.rows, path)


def write_cells_csv(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """Writes a row for each combination: mean and standard deviation over its seeds."""
    _write_rows([cell_facts(sweep, cell) for cell in sweep.cells], path)


def write_latex(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """Writes a table for a paper, a row for each run, to be read in with `\\input`; it needs booktabs."""
    heads, rows = run_rows(sweep)
    _write_table(heads, rows, len(sweep.axes), f"{_caption(sweep)}.", path)


def write_cells_latex(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """Writes a table for a paper, a row for each combination: mean and standard deviation over its seeds."""
    heads, rows = cell_rows(sweep)
    caption = f"{_caption(sweep)}; mean and standard deviation over {sweep.seeds} seeds."
    _write_table(heads, rows, len(_cell_axes(sweep)), caption, path)


def run_rows(sweep: Sweep) -> tuple[list[str], list[list[str]]]:
    """Every run as text: the heads of the columns, and a row each."""
    metric = sweep.metric.replace("_", " ")
    heads = [*sweep.axes, "status", f"best {metric}", f"final {metric}", "train loss"]
    with_target = any(row["target"] is not None for row in sweep.rows)
    heads += ["rounds", "MiB", "seconds"] if with_target else []
    percent = sweep.metric == "accuracy"
    rows = []
    for row in sweep.rows:
        cells = [word(row[name]) for name in sweep.axes]
        cells.append(status_text(row))
        cells += [value_text(row[f"{kind}_{sweep.metric}"], percent) for kind in ("best", "final")]
        cells.append(value_text(row["train_loss"]))
        if with_target:
            reached = row["rounds_to_target"] is not None
            cells.append(value_text(row["rounds_to_target"]) if reached else "not reached")
            cells += [value_text(row[f"{cost}_to_target"]) for cost in ("mib", "seconds")]
        rows.append([*cells, value_text(row["wall_seconds"])])
    return [*heads, "wall s"], rows


def cell_rows(sweep: Sweep, cells: Sequence[Cell] | None = None) -> tuple[list[str], list[list[str]]]:
    """Combinations as text, over their seeds: the heads of the columns, and a row each."""
    axes, measures = _cell_axes(sweep), shown_measures(sweep)
    rows = []
    for cell in sweep.cells if cells is None else cells:
        told = [spread_text(cell, measure) for measure in measures]
        rows.append([*(word(cell.values[name]) for name in axes), *told, cell_remark(cell, measures[0])])
    return [*axes, *(measure.head for measure in measures), "remarks"], rows


def shown_measures(sweep: Sweep) -> list[Measure]:
    """Those that there is room for in a table."""
    return [each for each in sweep.measures if not each.key.startswith(("mib", "seconds", "train"))]


def status_text(row: Mapping[str, Any]) -> str:
    """`done`, or after how many rounds the run diverged."""
    if row["status"] != "diverged":
        return str(row["status"])
    return f"diverged after {row['rounds']:,} round{'s' * (row['rounds'] != 1)}"


def spread_text(cell: Cell, measure: Measure) -> str:
    """The mean over the seeds, with the standard deviation where there are several."""
    spread = cell.spread(measure.key)
    if spread is None:
        return "–"
    mean = value_text(spread.mean, measure.is_percent)
    if spread.deviation is None:
        return mean
    deviation = spread.deviation
    if measure.is_percent:
        return f"{mean.removesuffix('%')} ± {100 * deviation:.2f}%"
    return f"{mean} ± {deviation:.2g}"


def cell_remark(cell: Cell, measure: Measure) -> str:
    """How many of the seeds diverged, or did not reach the target; empty where there is nothing to say."""
    count, said = len(cell.rows), []
    if cell.diverged:
        when = status_text(cell.rows[0]) if count == 1 else f"{cell.diverged} of {count} diverged"
        said.append(when)
    spread = cell.spread(measure.key)
    missed = count - (spread.known if spread else 0) - cell.diverged
    if measure.key.endswith("_to_target") and missed > 0:
        said.append("not reached" if count == 1 else f"{missed} of {count} did not reach it")
    return ", ".join(said)


def value_text(value: float | None, percent: bool = False) -> str:
    """A number to a few digits; a dash for none."""
    if value is None:
        return "–"
    return f"{100 * value:.2f}%" if percent else short(value)


def terminal_table(sweep: Sweep) -> "Table":
    """The best combinations for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    ranked = sweep.ranked()
    heads, rows = cell_rows(sweep, ranked[:SHOWN_CELLS])
    if not any(row[-1] for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title_justify="left")
    table.title = Text(f"By {sweep.measures[0].words}, the best first", style="bold")
    table.caption_justify = "left"
    table.caption = Text(" ".join(notes(sweep, len(ranked))), style="dim")
    axes = len(_cell_axes(sweep))
    for index, head in enumerate(heads):
        # Text, not str: a value may hold what rich would read as markup.
        table.add_column(Text(head), justify="left" if index < axes else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def notes(sweep: Sweep, cells: int = 0) -> list[str]:
    """What is to be known of the table, in sentences."""
    said = [f"{len(sweep.runs)} runs."]
    if sweep.seeds > 1:
        said.append(f"Mean ± standard deviation over {sweep.seeds} seeds.")
    diverged = sum(row["status"] == "diverged" for row in sweep.rows)
    if diverged:
        said.append(f"{diverged} diverged.")
    every = resolution([each.run for each in sweep.runs])
    if every > 1 and sweep.measures[0].key.endswith("_to_target"):
        said.append(f"Evaluated every {every} rounds, so rounds to the target are known to within {every}.")
    if cells > SHOWN_CELLS:
        said.append(f"{cells - SHOWN_CELLS} more combinations are in the tables.")
    return said + edges(sweep)


def edges(sweep: Sweep) -> list[str]:
    """Which rates of the best combination lie at the edge of what was tried: a better one may lie beyond."""
    best, found = sweep.best(), []
    if best.spread(sweep.measures[0].key) is None:
        return []
    for name, values in sweep.axes.items():
        tried = [value for value in values if isinstance(value, int | float)]
        if name.endswith("_lr") and len(tried) > 1 and best.values[name] in (min(tried), max(tried)):
            found.append(f"{name} {word(best.values[name])}")
    if not found:
        return []
    return [f"At the edge of what was tried, so that a better one may lie beyond: {', '.join(found)}."]


def _cell_axes(sweep: Sweep) -> list[str]:
    return [name for name in sweep.axes if name != SEED]


def _caption(sweep: Sweep) -> str:
    target = any(row["target"] is not None for row in sweep.rows)
    return f"{len(sweep.runs)} runs" + (f"; rounds, MiB and seconds to {sweep.goal}" if target else "")


def _write_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], left: int, caption: str, path: str | os.PathLike[str]
) -> None:
    columns = [*heads[: len(rows[0])]]
    lines = ["  " + " & ".join(map(latex_text, row)).replace("±", r"$\pm$") + r" \\" for row in rows]
    text = [
        r"% \usepackage{booktabs}",
        r"\begin{table}[tb]",
        r"\centering",
        rf"\caption{{{latex_text(caption)}}}",
        rf"\begin{{tabular}}{{{'l' * left}{'r' * (len(columns) - left)}}}",
        r"  \toprule",
        "  " + " & ".join(_SYMBOLS.get(head, latex_text(head)) for head in columns) + r" \\",
        r"  \midrule",
        *lines,
        r"  \bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    write_whole(path, ("\n".join(text) + "\n").encode())


def _write_rows(rows: Sequence[Mapping[str, Any]], path: str | os.PathLike[str]) -> None:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, buffer.getvalue().encode())
