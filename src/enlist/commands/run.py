"""`enlist run`."""

import sys
from pathlib import Path
from typing import Any

from enlist.commands.shared import (
    hush,
    is_live,
    no_loose_words,
    plain_name,
    print_json,
    quiet,
    read_options,
    stop,
    unused,
)
from enlist.errors import BadInput, Diverged
from enlist.launch import local_hosts
from enlist.options import RunOptions


def act(given: dict[str, Any], loose: list[str]) -> None:
    """Simulates one run, then shows how it ended."""
    no_loose_words("run", loose)
    _refuse_if_no_run(given.get("resume"))
    options, hashes = read_options(RunOptions, given)
    asked = options.output
    out = Path(asked.resume or asked.out or _dated(options))
    if (here := local_hosts.number(options.machines.hosts or "")) is not None:
        sys.exit(local_hosts.supervise(_words(given, out), here, f"go on with: enlist run --resume {out}"))
    live = is_live(asked.json)
    hush()
    from enlist.engine import hosts
    from enlist.launch.run import launch

    stopped: BaseException | None = None
    try:
        with quiet(asked.json):
            launch(options, out, live=live, hashes=hashes)
    except (Diverged, KeyboardInterrupt) as end:
        if hosts.lead() and not (out / "config.yaml").exists():
            raise
        stopped = end
    if hosts.lead():
        show(out, asked.json)
    if isinstance(stopped, KeyboardInterrupt):
        stop(f"interrupted; go on with: enlist run --resume {out}", 130)
    if stopped is not None:
        raise stopped


def _refuse_if_no_run(resume: str | None) -> None:
    """A plan's and a tune's folder have a config too, to be run elsewhere."""
    if resume is None:
        return
    config = Path(resume) / "config.yaml"
    if config.is_file() and not (Path(resume) / "metrics.jsonl").is_file():
        raise BadInput(
            f"resume {resume}: there is no run in that folder; begin one with: enlist run --config {config}"
        )


def _words(given: dict[str, Any], out: Path) -> list[str]:
    """The same command for one of several processes."""
    named = {name: value for name, value in given.items() if name not in ("hosts", "host_id", "out")}
    if "resume" not in named:
        named["out"] = str(out)
    words = ["run"]
    for name, value in named.items():
        option = f"--{name.replace('_', '-')}"
        words += [option] if value is True else [] if value is False else [f"{option}={value}"]
    return words


def show(out: Path, as_json: bool) -> None:
    """Draws the run's picture and page and prints its outcome."""
    from enlist.report import figures, page, record

    run = record.load(out)
    figures.curves([run], out / "curves.png")
    page.write_page([run], out / "report.html")
    if as_json:
        print_json(run.summary | {"folder": str(out)})
        return
    from rich.console import Console

    from enlist.report.tables import print_outcome

    print_outcome(run, Console())


def _dated(options: RunOptions) -> Path:
    problem = options.problem
    words = [options.rule.algorithm, Path(problem.model.partition(":")[0]).stem, Path(problem.dataset).stem]
    return unused("-".join(map(plain_name, words)))
