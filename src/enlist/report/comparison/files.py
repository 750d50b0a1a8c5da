"""Everything that a comparison leaves besides its runs."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from enlist.errors import BadInput
from enlist.report import record
from enlist.report.comparison import bands, standings
from enlist.report.comparison import page as comparison_page
from enlist.report.comparison.outcome import Comparison, Contender, summary
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


def folder_name(label: str) -> str:
    """A label as the name of a folder.

    Example:
        >>> folder_name("fedavg+compress=topk:0.01")
        'fedavg+compress=topk_0.01'
    """
    return re.sub(r"[^A-Za-z0-9_.=+-]+", "_", label)


def load(folder: Path) -> Comparison | None:
    """The comparison that a folder holds; None where it holds none."""
    facts, begun = _mapping(folder / "summary.json"), _mapping(folder / "config.yaml")
    if "contenders" not in facts and "algorithms" not in begun:
        return None
    try:
        contenders = [_contender(folder, each) for each in facts["contenders"]]
        return Comparison(float(facts["target"]), contenders, str(facts["tuning"]))
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(
            f"{folder} holds a comparison that is not finished: go on with enlist compare --resume {folder}"
        ) from error


def _contender(folder: Path, facts: Any) -> Contender:
    place = folder / "runs" / folder_name(facts["label"])
    runs = [record.load(place / f"seed-{run['seed']}") for run in facts["runs"]]
    return Contender(facts["label"], runs, facts["rates"], facts["tried"])


def _mapping(path: Path) -> dict[str, Any]:
    """What a YAML (or JSON, which is YAML) file says; nothing where it cannot be read."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return content if isinstance(content, dict) else {}


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
