"""`enlist speedup`."""

import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from enlist.commands.shared import hush, is_live, no_loose_words, print_json, quiet, unused
from enlist.options import flatten, unflatten
from enlist.speedup_options import SpeedupOptions, SpeedupOutput


def act(given: dict[str, Any], loose: list[str]) -> None:
    """Measures rounds over n or K, then shows them."""
    no_loose_words("speedup", loose)
    options = unflatten(SpeedupOptions, given)
    asked = options.output
    out = Path(asked.out or unused("speedup"))
    hush()
    from enlist.launch.run import check_folder
    from enlist.launch.speedup import launch_speedup
    from enlist.report import speedup_page

    check_folder(out)
    with quiet(asked.json), _shown(is_live(asked.json)) as done:
        facts = launch_speedup(options, done)
    facts = speedup_page.write_all(_provenance(options) | facts, out)
    if asked.json:
        print_json(facts | {"folder": str(out)})
        return
    for words in facts["verdict"]:
        print(words)
    for name in speedup_page.LEFT.values():
        print(out / name)


def _provenance(options: SpeedupOptions) -> dict[str, Any]:
    """What was asked for, and where it was made."""
    from enlist.engine import platform
    from enlist.engine.summary import versions

    asked = {
        name: value
        for name, value in flatten(options).items()
        if value is not None and name not in SpeedupOutput.__dataclass_fields__
    }
    words = [f"--{name.replace('_', '-')} {shlex.quote(str(value))}" for name, value in asked.items()]
    return {
        "command": " ".join(["enlist speedup", *words]),
        "device": platform.describe(),
        "versions": versions(),
    }


@contextmanager
def _shown(live: bool) -> Any:
    """A progress line, which is told how many of how many searches are done."""
    if not live:
        yield lambda now, of: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("searches", total=None)
        yield lambda now, of: progress.update(task, completed=now, total=of)
