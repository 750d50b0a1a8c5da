"""`enlist study`: the project's own studies, one function each."""

import shlex
from pathlib import Path
from typing import Any

from enlist.commands.shared import hush, is_live, no_loose_words, print_json, quiet, unused
from enlist.options import flatten, unflatten
from enlist.project_options import BoundStudyOptions


def bound(given: dict[str, Any], loose: list[str]) -> None:
    """Whether the theorems' bound holds where all constants are known."""
    no_loose_words("study bound", loose)
    options = unflatten(BoundStudyOptions, given)
    asked = options.study
    out = Path(options.output.out or unused("study-bound"))
    hush()
    from enlist.engine import platform
    from enlist.launch.run import check_folder

    check_folder(out)
    platform.prepare()
    from enlist.report import bound_page
    from enlist.studies.bound_holds import SCALES, bound_holds

    with quiet(options.output.json), _shown(is_live(options.output.json)) as done:
        facts = bound_holds(SCALES[asked.scale], asked.seeds, asked.rounds, done=done)
    facts = _provenance("bound", options.study) | facts
    facts = bound_page.write_all(facts, out)
    if options.output.json:
        print_json(facts | {"folder": str(out)})
        return
    for words in facts["verdict"]:
        print(words)
    for name in bound_page.LEFT.values():
        print(out / name)


def _provenance(study: str, asked: Any) -> dict[str, Any]:
    """What was asked for, and where it was made."""
    from enlist.engine import platform
    from enlist.engine.summary import versions

    words = [
        f"--{name.replace('_', '-')} {shlex.quote(str(value))}" for name, value in flatten(asked).items()
    ]
    return {
        "study": study,
        "command": " ".join(["enlist study", study, *words]),
        "scale": asked.scale,
        "device": platform.describe(),
        "versions": versions(),
    }


def _shown(live: bool) -> Any:
    """A progress line, which is told how many of how many programs are done."""
    from contextlib import contextmanager

    @contextmanager
    def line() -> Any:
        if not live:
            yield lambda now, of: None
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("programs", total=None)
            yield lambda now, of: progress.update(task, completed=now, total=of)

    return line()
