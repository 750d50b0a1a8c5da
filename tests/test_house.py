"""The house keeps its plan: imports point one way, rooms stay small, docstrings' examples are true."""

import ast
import doctest
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "enlist"
# What each part may import from the house. `errors` is everybody's.
MAY_IMPORT = {
    "errors": set(),
    "limits": set(),
    "options": {"options", "limits"},
    "words": {"options"},
    "own_file": set(),
    "problem": {"problem", "own_file"},
    "participation": {"participation"},
    "links": set(),
    "cost": {"links"},
    "algorithms": {"algorithms", "problem"},
    "report": {"report"},
    "engine": {
        "engine",
        "algorithms",
        "participation",
        "problem",
        "cost",
        "links",
        "options",
        "report",
        "__version__",
    },
    "theory": {"theory", "engine", "algorithms", "problem", "cost", "limits", "options"},
    "studies": {
        "studies",
        "theory",
        "engine",
        "algorithms",
        "participation",
        "problem",
        "links",
        "limits",
        "options",
        "report",
    },
    "launch": {
        "launch",
        "studies",
        "engine",
        "algorithms",
        "participation",
        "problem",
        "links",
        "limits",
        "options",
        "theory",
        "cost",
        "words",
        "report",
        "own_file",
    },
    "deploy": {
        "deploy",
        "own_file",
        "launch",
        "engine",
        "algorithms",
        "participation",
        "problem",
        "cost",
        "limits",
        "options",
        "__version__",
    },
    "commands": {
        "commands",
        "deploy",
        "launch",
        "studies",
        "limits",
        "words",
        "engine",
        "problem",
        "options",
        "theory",
        "report",
    },
    "cli": {
        "commands",
        "words",
        "options",
    },
    "__main__": {"cli"},
}
HEAVY = {"jax", "optax", "matplotlib", "plotly", "orbax", "sklearn"}


def files():
    return sorted(SOURCE.rglob("*.py"))


def with_examples():
    """The modules whose docstrings show what something gives."""
    shown = [path for path in files() if ">>> " in path.read_text()]
    names = [path.relative_to(SOURCE.parent).with_suffix("").parts for path in shown]
    return [".".join(part for part in parts if part != "__init__") for parts in names]


def imports(path, top_only=False):
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "enlist":
                yield from (f"enlist.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if part == "__init__":
        pytest.skip("the public names, loaded lazily from everywhere")
    house = {name.split(".")[1] for name in imports(path) if name.startswith("enlist.")}
    assert house - {"errors"} <= MAY_IMPORT[part], f"{path.name} imports {house}"


@pytest.mark.parametrize(
    "path",
    [
        SOURCE / "cli.py",
        *sorted((SOURCE / "commands").glob("*.py")),
        SOURCE / "limits.py",
        *sorted((SOURCE / "options").glob("*.py")),
        SOURCE / "words.py",
        SOURCE / "errors.py",
        SOURCE / "__init__.py",
    ],
)
def test_help_needs_nothing_heavy(path):
    assert not {name.split(".")[0] for name in imports(path, top_only=True)} & HEAVY


def test_algorithms_know_nothing_of_files_clocks_or_networks():
    for path in (SOURCE / "algorithms").glob("*.py"):
        assert not {"os", "time", "pathlib", "socket", "json", "logging", "io"} & set(imports(path))


@pytest.mark.parametrize("name", with_examples())
def test_examples_in_docstrings_are_true(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples():
    assert {"enlist.algorithms.fedavg", "enlist.problem.layers"} <= set(with_examples())


def test_every_public_name_can_be_had():
    import enlist

    for name in enlist.__all__:
        assert getattr(enlist, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'fedag'"):
        enlist.fedag  # noqa: B018
