"""`enlist speedup`."""

from pathlib import Path
from typing import Any

from enlist.commands.shared import (
    counted,
    hush,
    is_live,
    no_loose_words,
    print_json,
    quiet,
    typed_again,
    unused,
)
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
    with quiet(asked.json), counted(is_live(asked.json), "searches") as done:
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
    return {
        "command": typed_again("enlist speedup", asked),
        "device": platform.describe(),
        "versions": versions(),
    }
