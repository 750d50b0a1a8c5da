"""What several commands do alike: reading options with those of a file beneath them, naming folders, printing."""

import json
import logging
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from enlist.errors import BadInput
from enlist.options import HASHES, unflatten
from enlist.words import kept

T = TypeVar("T")


def no_loose_words(command: str, loose: list[str]) -> None:
    """Refuses words that belong to no option."""
    if loose:
        raise BadInput(f"{command}: {loose[0]!r} belongs to no option; options are typed as --name value")


def read_options(group: type[T], given: dict[str, Any]) -> tuple[T, dict[str, Any]]:
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
    # A record says by itself how many take part.
    if str(given.get("sampling", "")).startswith("recorded:"):
        before |= {"cohort": None, "cohort_most": None}
    changed = {name for name in given if name in before and given[name] != before[name]}
    return (
        unflatten(group, before | given),
        {name: value for name, value in hashes.items() if HASHES[name] not in changed},
    )


def _read(group: type, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A configuration file's options, and its hashes of other files."""
    from enlist.engine.folder import read_config

    values = read_config(path)
    if "begun_from" in values:
        raise BadInput(
            f"{path}: that run was begun from Python, with objects that a file does not hold; go on there, with "
            "resume=True"
        )
    hashes = {name: values.pop(name) for name in HASHES if name in values}
    try:
        before = kept(values, group)
        unflatten(group, before)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error
    return before, hashes


def plain_name(word: str) -> str:
    """A word as a part of a folder's name."""
    return re.sub(r"[^A-Za-z0-9_.]+", "_", word)


def unused(name: str) -> Path:
    """A new dated folder under runs/."""
    # With milliseconds: a loop in a shell starts several runs a second.
    dated = f"{datetime.now():%Y%m%d-%H%M%S-%f}"[:-3] + f"-{name}"[:80]
    tries = (Path("runs") / (dated if k == 1 else f"{dated}-{k}") for k in range(1, 1000))
    return next(path for path in tries if not path.exists())


def is_live(as_json: bool) -> bool:
    """Whether somebody watches."""
    return sys.stderr.isatty() and not as_json


def quiet(as_json: bool) -> AbstractContextManager[Any]:
    """What a person's own model prints must not get between the JSON."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()


@contextmanager
def counted(live: bool, what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress line, which is told how many of how many are done."""
    if not live:
        yield lambda now, of: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda now, of: progress.update(task, completed=now, total=of)


def typed_again(command: str, flat: Mapping[str, Any]) -> str:
    """A command with these options, as a person would type it."""
    words = [f"--{name.replace('_', '-')} {shlex.quote(str(value))}" for name, value in flat.items()]
    return " ".join([command, *words])


def print_json(value: Mapping[str, Any] | list[Any]) -> None:
    """The outcome for other programs."""
    print(json.dumps(value, indent=2))


def show_study(
    page: Any, facts: dict[str, Any], out: Path, as_json: bool, source: Path | None = None
) -> None:
    """Draws the picture and page of a study, writes its numbers, and prints its verdict.

    Args:
        page: the module of `enlist.report` that knows how.
        source: the file of numbers that it is made anew from.
    """
    from enlist.report.again import drawn

    facts = drawn(lambda place: page.write_all(facts, place), out, source)
    if as_json:
        print_json(facts | {"folder": str(out)})
        return
    for words in facts["verdict"]:
        print(words)
    for name in page.LEFT.values():
        print(out / name)


def hush() -> None:
    """Orbax logs (as absl) at length what is said here in one line."""
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: record.name != "absl")
    logging.basicConfig(handlers=[handler], format="%(message)s")


def stop(message: str, code: int) -> NoReturn:
    """Says in one line why nothing more comes, and exits."""
    print(f"enlist: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
