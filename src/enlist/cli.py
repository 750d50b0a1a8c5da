"""The command `enlist`. Thin: it reads options, calls the house, prints, and turns errors into one line.

Nothing heavy is imported before it is needed, so that help and complaints come at once.
"""

import contextlib
import json
import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import tyro

from enlist.errors import BadInput, Diverged, EnlistError, unknown
from enlist.options import HASHES, CompareOptions, RunOptions, unflatten
from enlist.words import kept, typed

COMMANDS = {
    "run": "simulate one run",
    "compare": "several algorithms to one target, with their best rates, over seeds",
    "report": "a page and a picture from one or more runs, or from a comparison",
    "data": "list | fetch NAME | where NAME: the data sets",
}
EPILOGUE = (
    "Each command has its own --help. Exit codes: 0 done, 1 ran and failed, 2 bad input, 130 interrupted."
)
HELP = ("-h", "--help")
T = TypeVar("T")
ACTIONS = ("list", "fetch", "where")


@dataclass(frozen=True)
class ReportOptions:
    """Writes curves.png and report.html for one run, for several side by side, or anew for a comparison."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Folders of runs, or the folder of one comparison."""
    out: str | None = None
    """The folder to write (default: the run's own; for several runs a new dated one under runs/)."""
    json: bool = False
    """Print where the files are as JSON and nothing else."""


@dataclass(frozen=True)
class DataOptions:
    """The data sets that enlist knows: what there is, obtaining one, where it lies."""

    action: Annotated[str, tyro.conf.Positional]
    """list, fetch or where."""
    name: Annotated[str | None, tyro.conf.Positional] = None
    """Which one, for fetch and where."""
    json: bool = False
    """Print as JSON and nothing else."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command and exits with its code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _command(given)
    except EnlistError as error:
        _stop(str(error), error.exit_code)
    except KeyboardInterrupt:
        _stop("interrupted", 130)
    except BrokenPipeError:
        # Whoever read our output has gone away; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _stop(f"{error.filename or 'the system'}: {error.strerror or error}", 1)


def _command(given: list[str]) -> None:
    if not given or given[0] in (*HELP, "help"):
        print(_usage())
    elif given[0] in ("-V", "--version"):
        from importlib.metadata import version

        print(f"enlist {version('enlist')}")
    elif given[0] not in COMMANDS:
        raise unknown("command", given[0], COMMANDS)
    else:
        options, act = {
            "run": (RunOptions, _run),
            "compare": (CompareOptions, _compare),
            "report": (ReportOptions, _report),
            "data": (DataOptions, _data),
        }[given[0]]
        if any(word in HELP for word in given):
            _help(options, given[0])
        act(*typed(options, given[1:]))


def _usage() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  enlist {name:<{width}}  {what}" for name, what in COMMANDS.items())
    return f"usage: enlist COMMAND [OPTIONS]\n\n{rows}\n\n{EPILOGUE}"


def _help(options: type, command: str) -> None:
    """The options with their groups, defaults and meaning; exits."""
    config = (tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff)
    tyro.cli(options, args=["--help"], prog=f"enlist {command}", config=config)


# ---- run -----------------------------------------------------------------------------------------------


def _run(given: dict[str, Any], loose: list[str]) -> None:
    if loose:
        raise BadInput(f"run: {loose[0]!r} belongs to no option; options are typed as --name value")
    options, hashes = _options(RunOptions, given)
    asked = options.output
    out = Path(asked.resume or asked.out or _dated(options))
    live = sys.stderr.isatty() and not asked.json
    _hush()
    from enlist.launch.run import launch

    stopped: BaseException | None = None
    # What a person's own model prints must not get between the JSON.
    quiet = contextlib.redirect_stdout(sys.stderr) if asked.json else contextlib.nullcontext()
    try:
        with quiet:
            launch(options, out, live=live, hashes=hashes)
    except (Diverged, KeyboardInterrupt) as stop:
        if not (out / "config.yaml").exists():
            raise
        stopped = stop
    _show(out, asked.json)
    if isinstance(stopped, KeyboardInterrupt):
        _stop(f"interrupted; go on with: enlist run --resume {out}", 130)
    if stopped is not None:
        raise stopped


def _options(group: type[T], given: dict[str, Any]) -> tuple[T, dict[str, Any]]:
    """The options, those of --resume's or --config's file first; and what that file says of other files."""
    resume, config = given.get("resume"), given.get("config")
    if resume is None and config is None:
        return unflatten(group, given), {}
    if resume is not None and config is not None:
        raise BadInput("resume and config are both given: a resumed run has its own config")
    if resume is not None and "out" in given:
        raise BadInput("resume and out are both given: a resumed run goes on in its own folder")
    path = Path(config) if config is not None else Path(str(resume)) / "config.yaml"
    if resume is not None and not os.path.isfile(path):
        raise BadInput(f"resume {resume}: there is no run in that folder (it has no config.yaml)")
    before, hashes = _read(group, path)
    # Of the two ways to say how much a worker does, the one that is typed wins.
    for one, other in (("local_steps", "local_epochs"), ("local_epochs", "local_steps")):
        if one in given:
            before[other] = None
    changed = {name for name in given if name in before and given[name] != before[name]}
    return (
        unflatten(group, before | given),
        {name: value for name, value in hashes.items() if HASHES[name] not in changed},
    )


def _read(group: type, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A configuration file's options, and its hashes of other files."""
    from enlist.engine.folder import read_config

    values = read_config(path)
    hashes = {name: values.pop(name) for name in HASHES if name in values}
    try:
        before = kept(values, group)
        unflatten(group, before)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error
    return before, hashes


def _show(out: Path, as_json: bool) -> None:
    """Draws the run's picture and page and prints its outcome."""
    from enlist.report import figures, page, record

    run = record.load(out)
    figures.curves([run], out / "curves.png")
    page.write_page([run], out / "report.html")
    if as_json:
        _print_json(run.summary | {"folder": str(out)})
        return
    from rich.console import Console

    from enlist.report.tables import print_outcome

    print_outcome(run, Console())


def _dated(options: RunOptions) -> Path:
    problem = options.problem
    words = [options.rule.algorithm, Path(problem.model.partition(":")[0]).stem, Path(problem.dataset).stem]
    return _unused("-".join(re.sub(r"[^A-Za-z0-9_.]+", "_", word) for word in words))


def _unused(name: str) -> Path:
    """A new dated folder under runs/."""
    # With milliseconds: a loop in a shell starts several runs a second.
    dated = f"{datetime.now():%Y%m%d-%H%M%S-%f}"[:-3] + f"-{name}"[:80]
    tries = (Path("runs") / (dated if k == 1 else f"{dated}-{k}") for k in range(1, 1000))
    return next(path for path in tries if not path.exists())


# ---- compare -------------------------------------------------------------------------------------------


def _compare(given: dict[str, Any], loose: list[str]) -> None:
    if loose:
        raise BadInput(f"compare: {loose[0]!r} belongs to no option; options are typed as --name value")
    options, hashes = _options(CompareOptions, given)
    asked = options.output
    out = Path(asked.resume or asked.out or _unused("compare"))
    _hush()
    from enlist.launch.compare import launch_compare

    measured = "worker_seconds" not in given and not options.settings.worker_seconds
    quiet = contextlib.redirect_stdout(sys.stderr) if asked.json else contextlib.nullcontext()
    try:
        with quiet:
            comparison = launch_compare(
                options, out, live=sys.stderr.isatty() and not asked.json, measure=measured, hashes=hashes
            )
    except KeyboardInterrupt:
        if not (out / "config.yaml").exists():
            raise
        _stop(f"interrupted; go on with: enlist compare --resume {out}", 130)
    _show_comparison(comparison, out, asked.json)


def _show_comparison(comparison: Any, out: Path, as_json: bool) -> None:
    """Draws the comparison's pictures and page, writes its tables and prints its outcome."""
    from enlist.report.comparison_files import print_outcome, write_all

    facts = write_all(comparison, out)
    if as_json:
        _print_json(facts | {"folder": str(out)})
        return
    from rich.console import Console

    print_outcome(comparison, out, Console())


# ---- report --------------------------------------------------------------------------------------------


def _report(given: dict[str, Any], folders: list[str]) -> None:
    from enlist.report import comparison_files, figures, page, record

    if not folders:
        raise BadInput("report: name at least one folder of a run, for instance: enlist report runs/NAME")
    compared = [comparison_files.load(Path(folder)) for folder in folders]
    if any(compared) and len(folders) > 1:
        raise BadInput("report: a comparison has a page of its own; name its folder alone")
    runs = [] if any(compared) else [record.load(folder) for folder in folders]
    out = Path(given.get("out") or (folders[0] if len(folders) == 1 else _unused("report")))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise BadInput(f"out = {out}: cannot be made a folder ({error}); name another") from error
    if compared[0] is not None:
        _show_comparison(compared[0], out, bool(given.get("json")))
        return
    figures.curves(runs, out / "curves.png")
    page.write_page(runs, out / "report.html")
    made = {"page": str(out / "report.html"), "picture": str(out / "curves.png")}
    if given.get("json"):
        _print_json(made)
        return
    from rich.console import Console

    from enlist.report.tables import summary_table

    Console().print(summary_table(runs))
    print("\n".join(f"{what:8} {where}" for what, where in made.items()))


# ---- data ----------------------------------------------------------------------------------------------


def _data(given: dict[str, Any], words: list[str]) -> None:
    action, *names = words or [""]
    if not action:
        raise BadInput("data: say what to do, for instance: enlist data list")
    if action not in ACTIONS:
        raise unknown("action", action, ACTIONS)
    if action == "list" and names:
        raise BadInput(f"data list takes no name ({names[0]!r}); type: enlist data where {names[0]}")
    if action != "list" and len(names) != 1:
        raise BadInput(f"data {action}: name one data set, for instance: enlist data {action} mnist")
    if action == "list":
        _list(bool(given.get("json")))
    else:
        _locate(action, names[0], bool(given.get("json")))


def _list(as_json: bool) -> None:
    from enlist.problem import datasets

    rows = datasets.catalogue()
    if as_json:
        _print_json([row._asdict() for row in rows])
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "classes", "train", "test", "example")
    for head in ("where", "note"):
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*("-" if cell is None else str(cell) for cell in row))
    Console().print(table)


def _locate(action: str, name: str, as_json: bool) -> None:
    from enlist.problem import datasets

    path = datasets.fetch(name) if action == "fetch" else datasets.where(name)
    if as_json:
        _print_json({"name": name, "where": None if path is None else str(path)})
    elif path is not None:
        print(path)
    else:
        state = next(row.where for row in datasets.catalogue() if row.name == name)
        hint = "" if state in ("bundled", "computed") else f"; type: enlist data fetch {name}"
        print(f"{name}: {state}{hint}")


# ---- what is said --------------------------------------------------------------------------------------


def _print_json(value: Mapping[str, Any] | list[Any]) -> None:
    print(json.dumps(value, indent=2))


def _hush() -> None:
    """Orbax logs (as absl) at length what is said here in one line."""
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: record.name != "absl")
    logging.basicConfig(handlers=[handler], format="%(message)s")


def _stop(message: str, code: int) -> NoReturn:
    print(f"enlist: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
