"""The command `enlist`. Thin: it reads options, calls the house, prints, and turns errors into one line.

Nothing heavy is imported before it is needed, so that help and complaints come at once.
"""

import contextlib
import difflib
import io
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from enlist.errors import BadInput, Diverged, EnlistError, unknown
from enlist.options import RunOptions, flatten

COMMANDS = {
    "run": "simulate one run",
    "report": "a page and a picture from one or more runs",
    "data": "list | fetch NAME | where NAME: the data sets",
}
EPILOGUE = (
    "Each command has its own --help. Exit codes: 0 done, 1 ran and failed, 2 bad input, 130 interrupted."
)
T = TypeVar("T")


@dataclass(frozen=True)
class ReportOptions:
    """Writes curves.png and report.html for one run, or for several in comparison."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Folders of runs."""
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
        _complain(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        _complain("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has gone away; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _command(given: list[str]) -> None:
    if not given or given[0] in ("-h", "--help", "help"):
        print(_usage())
    elif given[0] in ("-V", "--version"):
        from importlib.metadata import version

        print(f"enlist {version('enlist')}")
    elif given[0] == "run":
        _run(given[1:])
    elif given[0] == "report":
        _report(_parse(ReportOptions, "report", given[1:]))
    elif given[0] == "data":
        _data(_parse(DataOptions, "data", given[1:]))
    else:
        raise unknown("command", given[0], COMMANDS)


def _usage() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  enlist {name:<{width}}  {what}" for name, what in COMMANDS.items())
    return f"usage: enlist COMMAND [OPTIONS]\n\n{rows}\n\n{EPILOGUE}"


def _run(given: list[str]) -> None:
    options, hashes = _run_options(given)
    asked = options.output
    out = Path(asked.resume) if asked.resume else Path(asked.out) if asked.out else _dated(options)
    live = sys.stderr.isatty() and not asked.json
    from enlist.launch import launch

    stopped: BaseException | None = None
    try:
        launch(options, out, live=live, hashes=hashes)
    except (Diverged, KeyboardInterrupt) as stop:
        stopped = stop
    _show(out, asked.json)
    if isinstance(stopped, KeyboardInterrupt):
        _complain(f"interrupted; go on with: enlist run --resume {out}")
        sys.exit(130)
    if stopped is not None:
        raise stopped


def _show(out: Path, as_json: bool) -> None:
    """Draws the run's picture and page and prints its outcome."""
    from enlist.report import figures, page, record

    kept = record.load(out)
    figures.curves([kept], out / "curves.png")
    page.write_page([kept], out / "report.html")
    if as_json:
        print(json.dumps(kept.summary | {"folder": str(out)}, indent=2))
        return
    from rich.console import Console

    from enlist.report.tables import print_outcome

    print_outcome(kept, Console())


def _run_options(given: list[str]) -> tuple[RunOptions, dict[str, str]]:
    """The options: from --resume's or --config's file where there is one, what is typed beside it wins."""
    first = _parse(RunOptions, "run", given)
    resume, config = first.output.resume, first.output.config
    if resume is None and config is None:
        return first, {}
    if resume is not None and config is not None:
        raise BadInput("resume and config are both given: a resumed run has its own config")
    if resume is not None and first.output.out is not None:
        raise BadInput("resume and out are both given: a resumed run goes on in its own folder")
    from enlist.engine.folder import read_config

    path = Path(config) if config is not None else Path(str(resume)) / "config.yaml"
    if resume is not None and not path.exists():
        raise BadInput(f"resume {resume}: there is no run in that folder (it has no config.yaml)")
    kept = read_config(path)
    hashes = {name: kept.pop(name) for name in list(kept) if name.endswith("_sha256")}
    return _parse(RunOptions, "run", given, default=_typed(kept, path)), hashes


def _typed(kept: dict[str, Any], path: Path) -> RunOptions:
    """A configuration file's values as options; each must be of the kind that the option has."""
    known = flatten(RunOptions())
    for name in kept:
        if name not in known:
            close = difflib.get_close_matches(name, list(known), n=1)
            raise BadInput(
                f"{path}: unknown option {name!r}" + (f": did you mean {close[0]!r}?" if close else "")
            )
    line = [word for name, value in kept.items() for word in _words(name, value)]
    try:
        return _parse(RunOptions, "run", line)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error


def _words(name: str, value: Any) -> list[str]:
    """An option as it would be typed; this way a file's values pass the same checks as typed ones."""
    option = f"--{name.replace('_', '-')}"
    if value is None or value is False:
        return []
    return (
        [option]
        if value is True
        else [f"{option}={value}" if str(value).startswith("-") else option, str(value)][
            : 2 - str(value).startswith("-")
        ]
    )


def _parse(kind: type[T], command: str, given: list[str], default: T | None = None) -> T:
    """tyro's parsing, with its boxed complaints made one line."""
    said = io.StringIO()
    config = (tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff)
    wants_help = any(word in ("-h", "--help") for word in given)
    try:
        with contextlib.nullcontext() if wants_help else contextlib.redirect_stderr(said):
            kwargs: dict[str, Any] = {} if default is None else {"default": default}
            return tyro.cli(kind, args=given, prog=f"enlist {command}", config=config, **kwargs)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise BadInput(_one_line(said.getvalue(), command)) from None


def _one_line(box: str, command: str) -> str:
    """The message inside one of tyro's boxes, with the option it thinks was meant."""
    lines = [re.sub(r"[│╭╰╮╯─]", " ", line).strip() for line in box.splitlines()]
    parts = re.split(r"\n(?:-{5,}|\s*)\n", "\n".join(line for line in lines))
    parts = [" ".join(part.split()) for part in parts if part.strip(" -\n")]
    text = next(
        (p for p in parts if re.match(r"Error|Unrec.*:|Missing val|Required|Invalid", p)),
        parts[0] if parts else "",
    )
    text = re.sub(r"^Error parsing (?:[a-z]+: )?", "", text)
    text = re.sub(
        r"(?:could not convert string to float|invalid literal for int\(\) with base 10): (.*)",
        r"must be a number, not \1",
        text,
    )
    meant = re.search(r"Perhaps you meant:?\s*(--[a-z-]+)", " ".join(parts))
    hint = f": did you mean {meant[1]}?" if meant else f" (see enlist {command} --help)"
    return text.rstrip(".") + hint


def _report(options: ReportOptions) -> None:
    from enlist.report import figures, page, record

    if not options.runs:
        raise BadInput("report: name at least one folder of a run")
    runs = [record.load(Path(folder)) for folder in options.runs]
    if options.out is not None:
        out = Path(options.out)
    else:
        out = Path(options.runs[0]) if len(runs) == 1 else _unused(Path("runs"), f"{_now()}-report")
    if out.is_file():
        raise BadInput(f"out = {out}: that is a file; name a folder")
    out.mkdir(parents=True, exist_ok=True)
    figures.curves(runs, out / "curves.png")
    page.write_page(runs, out / "report.html")
    made = {"page": str(out / "report.html"), "picture": str(out / "curves.png")}
    if options.json:
        print(json.dumps(made, indent=2))
        return
    from rich.console import Console

    from enlist.report.tables import summary_table

    Console().print(summary_table(runs))
    print("\n".join(f"{what:8} {where}" for what, where in made.items()))


def _data(options: DataOptions) -> None:
    from enlist.problem import datasets

    if options.action not in ("list", "fetch", "where"):
        raise unknown("action", options.action, ("list", "fetch", "where"))
    if options.action == "list":
        rows = datasets.catalogue()
        if options.json:
            print(json.dumps([row._asdict() for row in rows], indent=2))
            return
        from rich.console import Console
        from rich.table import Table

        table = Table("name", "classes", "train", "test", "example", "where", "note")
        for row in rows:
            table.add_row(*("-" if cell is None else str(cell) for cell in row))
        Console().print(table)
        return
    if options.name is None:
        raise BadInput(
            f"data {options.action}: name a data set, for instance: enlist data {options.action} mnist"
        )
    where = datasets.fetch(options.name) if options.action == "fetch" else datasets.where(options.name)
    if options.json:
        print(json.dumps({"name": options.name, "where": None if where is None else str(where)}))
    elif where is not None:
        print(where)
    else:
        ready = next(row.where for row in datasets.catalogue() if row.name == options.name.partition(":")[0])
        print(
            f"{options.name}: {ready}"
            + ("" if ready in ("bundled", "computed") else f"; enlist data fetch {options.name}")
        )


def _dated(options: RunOptions) -> Path:
    problem = options.problem
    words = [options.method.algorithm, Path(problem.model.partition(":")[0]).stem, Path(problem.dataset).stem]
    return _unused(
        Path("runs"), f"{_now()}-{'-'.join(re.sub(r'[^A-Za-z0-9_.]+', '_', word) for word in words)}"
    )


def _now() -> str:
    return datetime.now().strftime("%Y%m%d-%H%M%S")


def _unused(parent: Path, name: str) -> Path:
    tries = [parent / name, *(parent / f"{name}-{k}" for k in range(2, 1000))]
    return next(path for path in tries if not path.exists())


def _complain(message: str) -> None:
    print(f"enlist: {' '.join(message.split())}", file=sys.stderr)


if __name__ == "__main__":
    main()
