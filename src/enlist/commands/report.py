"""`enlist report`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import tyro

from enlist.commands import compare, plan, speedup, study, sweep, tune
from enlist.commands.shared import print_json, unused
from enlist.errors import BadInput


@dataclass(frozen=True)
class ReportOptions:
    """Writes curves.png and report.html for one run or for several side by side. Makes the pictures and the page of a
    comparison, sweep, tune, plan, speedup study or bound study anew, from what it left."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Folders of runs, or the folder of one of the others."""
    out: str | None = None
    """The folder to write (default: the run's own; for several runs a new dated one under runs/)."""
    json: bool = False
    """Print where the files are, or what came out, as JSON and nothing else."""


class Held(NamedTuple):
    """What a folder holds besides runs: in words, and how it is shown anew in a folder."""

    words: str
    show: Callable[[Path, bool], None]


def act(given: dict[str, Any], folders: list[str]) -> None:
    """Writes the page and pictures of what the folders hold."""
    if not folders:
        raise BadInput("report: name at least one folder of a run, for instance: enlist report runs/NAME")
    held = [_held(Path(folder)) for folder in folders]
    other = next((each for each in held if each is not None), None)
    if other is not None and len(folders) > 1:
        raise BadInput(f"report: {other.words} has a page of its own; name its folder alone")
    from enlist.report import record

    runs = [] if other is not None else [record.load(folder) for folder in folders]
    out = Path(given.get("out") or (folders[0] if len(folders) == 1 else unused("report")))
    as_json = bool(given.get("json"))
    if other is not None:
        other.show(out, as_json)
    else:
        _show(runs, _made(out), as_json)


def _held(folder: Path) -> Held | None:
    """What a folder holds, if that is no run; two things in one folder are nothing to make a page of."""
    from enlist.report.bound import page as bound_page
    from enlist.report.comparison import files as comparison_files
    from enlist.report.plan import files as plan_files
    from enlist.report.speedup import page as speedup_page
    from enlist.report.sweep import files as sweep_files
    from enlist.report.tune import files as tune_files

    found = []
    if (swept := sweep_files.load(folder)) is not None:
        found.append(Held("a sweep", lambda out, as_json: sweep.show(swept, _made(out), as_json)))
    if (compared := comparison_files.load(folder)) is not None:
        found.append(Held("a comparison", lambda out, as_json: compare.show(compared, _made(out), as_json)))
    for words, pages, show in (
        ("a tune", tune_files, tune.show),
        ("a plan", plan_files, plan.show),
        ("a speedup study", speedup_page, speedup.show),
        ("a bound study", bound_page, study.show_bound),
    ):
        if (left := pages.load(folder)) is not None:
            source = folder / pages.NUMBERS
            found.append(Held(words, _again(show, left, source)))
    names = [each.words for each in found] + ["a run"] * (folder / "metrics.jsonl").is_file()
    if found and len(names) > 1:
        raise BadInput(f"report: {folder} holds {' and '.join(names)}; name a folder that holds one of them")
    return found[0] if found else None


def _again(show: Callable[..., None], left: Any, source: Path) -> Callable[[Path, bool], None]:
    return lambda out, as_json: show(left, out, as_json, source)


def _made(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise BadInput(f"out = {out}: cannot be made a folder ({error}); name another") from error
    return out


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
