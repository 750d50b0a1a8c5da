"""The page of a reproduction: every figure and table, what is claimed beside what was found, and what it took."""

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from enlist.report.document import header, prose, section, text, write_document
from enlist.report.paper.figures import NOT_RUN
from enlist.report.paper.tables import Table, markdown
from enlist.report.record import write_whole
from enlist.report.tables import html_table

# How each verdict is coloured on the page.
_KINDS = {"holds": "good", "holds in part": "part", "does not hold": "bad", "cannot be reached": "bad"}
Grid = tuple[Sequence[str], Sequence[Sequence[str]]]


class Judged(NamedTuple):
    """A claim and what became of it."""

    number: int
    claim: str
    verdict: str
    statistic: str
    rule: str


class Exhibit(NamedTuple):
    """A figure, a table or a study.

    Args:
        about: paragraphs.
        picture: its file, from the folder of the page.
        grids: heads and rows of smaller tables.
        claims: the numbers of those it bears on.
        cost: what it took, in words.
    """

    name: str
    title: str
    about: Sequence[str]
    picture: str | None
    table: Table | None
    grids: Sequence[Grid]
    claims: Sequence[int]
    cost: str


class Reproduction(NamedTuple):
    """All of it.

    Args:
        warning: what keeps it from being the paper's size; empty where nothing does.
        costs: what every recipe took.
        made: facts about machines and versions.
    """

    lead: str
    warning: str
    judged: Sequence[Judged]
    exhibits: Sequence[Exhibit]
    costs: Grid
    cost_note: str
    made: Sequence[Sequence[str]]
    commands: Sequence[str]


TITLE = "The paper, reproduced"
OVERVIEW = ["", "claim", "verdict", "what says so"]


def write_page(found: Reproduction, path: str | os.PathLike[str]) -> None:
    """Writes the page, complete in itself."""
    place = Path(path).parent
    sections = [
        _STYLE + header("reproduce", TITLE, found.lead.rstrip(".")),
        f'<p class="warning">{text(found.warning)}.</p>' if found.warning else "",
        section("Verdicts", _verdicts(found)),
        *(_exhibit(each, found.judged, place) for each in found.exhibits),
        section("What it took", _costs(found)),
        section("To repeat it", f"<pre>{text(chr(10).join(found.commands))}</pre>"),
    ]
    data: dict[str, Any] = {"names": [], "x": [], "curves": [], "figures": []}
    write_document(path, TITLE, sections, data)


def write_markdown(found: Reproduction, path: str | os.PathLike[str]) -> None:
    """Writes the same as Markdown; pictures are linked."""
    parts = [f"# {TITLE}", found.lead]
    if found.warning:
        parts.append(f"**{found.warning}.**")
    rows = [[str(each.number), each.claim, f"**{each.verdict}**", each.statistic] for each in found.judged]
    parts += ["## Verdicts", markdown(OVERVIEW, rows)]
    parts += ["How each is computed:", "\n".join(f"{each.number}. {each.rule}" for each in found.judged)]
    for exhibit in found.exhibits:
        parts += _markdown_exhibit(exhibit, found.judged)
    parts += ["## What it took", markdown(*found.costs), found.cost_note]
    parts.append("\n".join(f"- {name}: {value}" for name, value in found.made))
    parts += ["## To repeat it", "```\n" + "\n".join(found.commands) + "\n```"]
    write_whole(path, ("\n\n".join(part.strip("\n") for part in parts if part) + "\n").encode())


def _markdown_exhibit(exhibit: Exhibit, judged: Sequence[Judged]) -> list[str]:
    parts = [f"## {exhibit.title}", *exhibit.about]
    if exhibit.picture:
        parts.append(f"![{exhibit.title}]({exhibit.picture})")
    if exhibit.table is not None:
        parts += [markdown(exhibit.table.heads, exhibit.table.rows), exhibit.table.caption]
    parts += [markdown(heads, rows) for heads, rows in exhibit.grids if rows]
    said = [
        f"- Claim {each.number}: {each.claim} **{each.verdict}**. {each.statistic}"
        for each in judged
        if each.number in exhibit.claims
    ]
    return [*parts, "\n".join(said), exhibit.cost]


def badge(verdict: str) -> str:
    """A verdict, coloured."""
    return f'<span class="verdict {_KINDS.get(verdict, "none")}">{text(verdict)}</span>'


def _verdicts(found: Reproduction) -> str:
    rows = "".join(
        f'<tr id="claim-{each.number}"><th>{each.number}</th><td>{text(each.claim)}</td>'
        f"<td>{badge(each.verdict)}</td><td>{prose(each.statistic)}<details><summary>How it is computed</summary>"
        f"{text(each.rule)}</details></td></tr>"
        for each in found.judged
    )
    heads = "".join(f"<th>{head}</th>" for head in OVERVIEW)
    return (
        f'<div class="wide words"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _exhibit(exhibit: Exhibit, judged: Sequence[Judged], place: Path) -> str:
    body = "".join(f"<p>{prose(paragraph)}</p>" for paragraph in exhibit.about)
    if exhibit.picture:
        body += f"<figure>{_image(exhibit.title, (place / exhibit.picture).read_bytes())}</figure>"
    if exhibit.table is not None:
        body += f'<div class="left{exhibit.table.left}">{html_table(exhibit.table.heads, exhibit.table.rows)}</div>'
        body += f'<p class="note below">{text(exhibit.table.caption)}</p>'
    body += "".join(
        f'<div class="plain words{_leading_words(grid[1])}">{html_table(*grid)}</div><p class="below"></p>'
        for grid in exhibit.grids
        if grid[1]
    )
    body += "".join(
        f'<p class="claim"><a href="#claim-{each.number}">Claim {each.number}</a>: {text(each.claim)} '
        f"{badge(each.verdict)} {prose(each.statistic)}</p>"
        for each in judged
        if each.number in exhibit.claims
    )
    return section(text(exhibit.title), f'{body}<p class="note">{text(exhibit.cost)}</p>')


def _leading_words(rows: Sequence[Sequence[str]]) -> int:
    """How many columns from the first on name what a row is, of three at most: up to the last that holds words."""

    def is_word(cell: str) -> bool:
        return cell[:1].isalpha() and cell != NOT_RUN

    return max((place for row in rows for place, cell in enumerate(row[:3], 1) if is_word(cell)), default=1)


def _image(words: str, png: bytes) -> str:
    """A picture inside the page, at two thirds of its size, so that it is sharp on fine screens too."""
    width = round(int.from_bytes(png[16:20], "big") / 1.5)
    return f'<img alt="{text(words)}" width="{width}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def _costs(found: Reproduction) -> str:
    facts = "".join(f"<p>{text(name)}: {text(value)}.</p>" for name, value in found.made)
    return f'{html_table(*found.costs)}<p class="note below">{text(found.cost_note)}</p>{facts}'


_STYLE = """<style>
figure img { max-width: 100%; display: block } figure { background: #fff }
.words td, .words th { text-align: left } .words td:nth-child(2) { min-width: 220px }
.words details { color: var(--muted); font-size: 13.5px; margin-top: 4px } .words summary { cursor: pointer }
.verdict { display: inline-block; white-space: nowrap; font-size: 13px; padding: 1px 9px; border-radius: 99px;
  border: 1px solid; color: var(--muted) }
.verdict.good { color: var(--good) } .verdict.bad { color: var(--bad) } .verdict.part { color: var(--c0) }
.left3 :is(td, th):nth-child(-n+3), .left7 :is(td, th) { text-align: left }
.plain tbody th { white-space: nowrap } .words2 :is(td, th):nth-child(-n+2) { text-align: left }
.words3 :is(td, th):nth-child(-n+3) { text-align: left }
.left3 td, .left3 th { padding: 6px 10px } .left3 table { font-size: 13.5px }
.warning { color: var(--bad); font-weight: 600 } .claim { max-width: none } .claim a { color: inherit }
</style>
"""
