"""A person's own Python file, named on the command line as FILE.py:FUNCTION."""

import hashlib
import sys
import types
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from enlist.errors import BadInput


def named(text: str, kind: str) -> tuple[Path, str] | None:
    """The file and the function that `text` names; None where it names no file.

    Args:
        kind: what the function is to give, for the words of a complaint.
    """
    file, _, function = text.rpartition(":")
    if text.endswith(".py"):
        raise BadInput(f"{kind} {text!r} names a file but no function: type {text}:FUNCTION")
    return (Path(file), function) if file.endswith(".py") else None


def digest(text: str, kind: str) -> str | None:
    """The SHA-256 of the file that `text` names, to be kept with a run; None where it names none."""
    found = named(text, kind)
    return hashlib.sha256(_read(found[0], kind)).hexdigest() if found else None


def function(text: str, kind: str) -> Callable[..., Any] | None:
    """The function that `text` names, the same object for as long as the file stays the same; None for no file.

    The file stands alone: modules beside it are not found, so that its hash says all.
    """
    found = named(text, kind)
    if found is None:
        return None
    return _loaded(*found, kind, _read(found[0], kind))


@lru_cache(maxsize=64)
def _loaded(file: Path, name: str, kind: str, source: bytes) -> Callable[..., Any]:
    module = types.ModuleType(f"enlist_{kind}_{hashlib.sha256(source).hexdigest()[:16]}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # dataclasses and pickle look their module up here
    try:
        exec(compile(source, str(file), "exec"), module.__dict__)
    except Exception as error:
        raise BadInput(f"{file} cannot be loaded: {cause(error)}") from error
    except SystemExit as stop:
        raise BadInput(
            f"{kind} {file}:{name}: the file ended the program (sys.exit({stop.code!r}))"
        ) from stop
    make = getattr(module, name, None)
    if not callable(make):
        article = "an" if kind[0] in "aeiou" else "a"
        raise BadInput(
            f"{file} has no function {name!r}: give FILE.py:FUNCTION with one that returns {article} {kind}"
        )
    return make


def cause(error: BaseException) -> str:
    """An exception in one line."""
    if isinstance(error, BadInput):
        return str(error)
    text = " ".join(str(error).split())
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"{text}: pip install {error.name.partition('.')[0]}"
    return f"{type(error).__name__}: {text[:300]}"


def _read(file: Path, kind: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadInput(f"{kind} file {file} cannot be read: {error.strerror or error}") from error
