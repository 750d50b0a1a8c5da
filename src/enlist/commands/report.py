"""`enlist report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from enlist.commands import compare, sweep
from enlist.commands.shared import print_json, unused
from enlist.errors import BadInput


@dataclass(frozen=True)
class ReportOptions:
    """Writes curves.png and report.html for one run or for several side by side; anew for a comparison or a sweep."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Folders of runs, or the folder of one comparison or sweep."""
    out: str | None = None
    """The folder to write (default: the run's own; for several runs a new dated one under runs/)."""
    json: bool = False
    """Print where the files are as JSON and nothing else."""


def act(given: dict[str, Any], folders: list[str]) -> None:
    """Writes the page and pictures of what the folders hold."""
    from enlist.report import comparison_files, record, sweep_files

    if not folders:
        raise BadInput("report: name at least one folder of a run, for instance: enlist report runs/NAME")
    swept = [sweep_files.load(Path(folder)) for folder in folders]
    compared = [None if any(swept) else comparison_files.load(Path(folder)) for folder in folders]
    for kind, found in (("sweep", swept), ("comparison", compared)):
        if any(found) and len(folders) > 1:
            raise BadInput(f"report: a {kind} has a page of its own; name its folder alone")
    runs = [] if any(swept) or any(compared) else [record.load(folder) for folder in folders]
    out = Path(given.get("out") or (folders[0] if len(folders) == 1 else unused("report")))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise BadInput(f"out = {out}: cannot be made a folder ({error}); name another") from error
    as_json = bool(given.get("json"))
    if swept[0] is not None:
        sweep.show(swept[0], out, as_json)
    elif compared[0] is not None:
        compare.show(compared[0], out, as_json)
    else:
        _show(runs, out, as_json)


def _show(runs: list[Any], out: Path, as_json: bool) -> None:
    from enlist.report import figures, page

    figures.curves(runs, out / "curves.png")
    page.write_page(runs, out / "report.html")
    made = {"page": str(out / "report.html"), "picture": str(out / "curves.png")}
    if as_json:
        print_json(made)
        return
    from rich.console import Console

    from enlist.report.deployment import deployment_tables
    from enlist.report.tables import summary_table

    for table in (summary_table(runs), *deployment_tables(runs)):
        Console().print(table)
    print("\n".join(f"{what:8} {where}" for what, where in made.items()))
