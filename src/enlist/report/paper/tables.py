"""A table of the paper as CSV, LaTeX, Markdown and HTML."""

import csv
import io
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from enlist.report.comparison.standings import latex_text
from enlist.report.record import write_whole


class Table(NamedTuple):
    """A table.

    Args:
        rows: as text; lines after a cell's first are remarks.
        left: so many columns are words, the others numbers.
        records: what the CSV file holds, complete.
        latex: the rows as LaTeX has them, where they are not those of `rows`.
        latex_note: what is to be known of those, in LaTeX.
    """

    name: str
    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int
    records: Sequence[Mapping[str, Any]]
    latex: Sequence[Sequence[str]] | None = None
    latex_note: str = ""


def write_csv(table: Table, path: str | os.PathLike[str]) -> None:
    """Writes all records; empty: no such number."""
    buffer = io.StringIO()
    heads = list(table.records[0]) if table.records else list(table.heads)
    writer = csv.DictWriter(buffer, heads, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.records)
    write_whole(path, buffer.getvalue().encode())


def write_latex(table: Table, path: str | os.PathLike[str]) -> None:
    """Writes a table for a paper, to be read in with `\\input`; it needs the package booktabs."""
    rows = [[latex_cell(cell) for cell in row] for row in table.rows]
    lines = ["  " + " & ".join(row) + r" \\" for row in table.latex or rows]
    caption = " ".join(filter(None, (latex_cell(table.caption), table.latex_note)))
    text = [
        r"% \usepackage{booktabs}",
        r"\begin{table}[tb]",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{caption}}}",
        rf"\begin{{tabular}}{{{'l' * table.left}{'r' * (len(table.heads) - table.left)}}}",
        r"  \toprule",
        "  " + " & ".join(map(latex_cell, table.heads)) + r" \\",
        r"  \midrule",
        *lines,
        r"  \bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    write_whole(path, ("\n".join(text) + "\n").encode())


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(_markdown_cell, line)) + " |" for line in lines) + "\n"


def latex_cell(cell: str) -> str:
    """A cell escaped for LaTeX, its remarks in brackets."""
    return latex_text(_one_line(cell)).replace("±", r"$\pm$").replace("η", r"$\eta$").replace("→", r"$\to$")


def _markdown_cell(cell: str) -> str:
    return _one_line(str(cell)).replace("|", "\\|")


def _one_line(cell: str) -> str:
    first, *remarks = cell.split("\n")
    return f"{first} ({'; '.join(remarks)})" if remarks else first
