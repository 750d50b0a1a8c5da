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
        print_json({"name": name, "where": None if path is None else str(path)})
    elif path is not None:
        print(path)
    else:
        state = next(row.where for row in datasets.catalogue() if row.name == name)
        hint = "" if state in ("bundled", "computed") else f"; type: enlist data fetch {name}"
        print(f"{name}: {state}{hint}")
