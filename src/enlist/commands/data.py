"""`enlist data`."""

from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from enlist.commands.shared import print_json
from enlist.errors import BadInput, unknown

ACTIONS = ("list", "fetch", "where")


@dataclass(frozen=True)
class DataOptions:
    """The data sets that enlist knows: what there is, obtaining one, where it lies."""

    action: Annotated[str, tyro.conf.Positional]
    """list, fetch or where."""
    name: Annotated[str | None, tyro.conf.Positional] = None
    """Which one, for fetch and where."""
    json: bool = False
    """Print as JSON and nothing else."""


def act(given: dict[str, Any], words: list[str]) -> None:
    """Lists, obtains or locates data sets."""
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
        print_json([row._asdict() for row in rows])
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for head in ("name", "classes", "train", "test", "example", "where"):
        table.add_column(
            head, no_wrap=True, justify="right" if head in ("classes", "train", "test") else "left"
        )
    table.add_column("note")
    kept = {row.name: path for row in rows if (path := datasets.where(row.name)) is not None}
    for row in rows:
        state = "here" if row.name in kept else row.where
        told = row._replace(where=state)._asdict() | {"shape": "×".join(map(str, row.shape))}
        table.add_row(*("-" if cell is None else str(cell) for cell in told.values()))
    console = Console()
    console.print(table)
    for name, path in kept.items():
        # Never wrapped: a path broken over two lines cannot be copied.
        console.print(Text(f"{name} ", style="dim") + Text(str(path)), soft_wrap=True)


def _locate(action: str, name: str, as_json: bool) -> None:
    from enlist.problem import datasets

    path = datasets.fetch(name) if action == "fetch" else datasets.where(name)
    if as_json:
        print_json({"name": name, "where": None if path is None else str(path)})
    elif path is not None:
        print(path)
    else:
        state = next(row.where for row in datasets.catalogue() if row.name == name)
        hint = "" if state in ("bundled", "computed") else f"; type: enlist data fetch {name}"
        print(f"{name}: {state}{hint}")
