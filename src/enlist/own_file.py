"""A person's own Python file, named on the command line as FILE.py:FUNCTION.

Parameters of the function may follow, each as +NAME=VALUE: `clipped.py:clipped+bound=0.5`.
"""

import hashlib
import inspect
import re
import sys
import types
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from enlist.errors import BadInput, unknown

# Where a NAME=VALUE begins.
PAIR = re.compile(r"\+(?=[A-Za-z][A-Za-z0-9_-]*=)")


class Named(NamedTuple):
    """What a text names."""

    file: Path
    function: str
    parameters: Mapping[str, Any]


def named(text: str, kind: str) -> Named | None:
    """The file, the function and its parameters that `text` names; None where it names no file.

    Args:
        kind: what the function is to give, for the words of a complaint.
    """
    spot, parameters = parted(text, kind)
    if spot.endswith(".py"):
        raise BadInput(f"{kind} {spot!r} names a file but no function: type {spot}:FUNCTION")
    file, _, function = spot.rpartition(":")
    return Named(Path(file), function, parameters) if file.endswith(".py") else None


def parted(text: str, kind: str) -> tuple[str, dict[str, Any]]:
    """What stands before the parameters, and the parameters.

    Example:
        >>> parted("two_nn+hidden=50", "model")
        ('two_nn', {'hidden': 50})
    """
    spot, *pairs = PAIR.split(text)
    parameters: dict[str, Any] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name in parameters:
            raise BadInput(f"{kind} {text}: {name} is there twice")
        parameters[name] = _value(value)
    return spot, parameters


def _value(text: str) -> Any:
    """A number, true, false or none; else the text itself.

    Example:
        >>> [_value(text) for text in ("3", "1e-3", "true", "None", "relu")]
        [3, 0.001, True, None, 'relu']
    """
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def moved(text: str, kind: str, folder: Path) -> str:
    """The text with a copy of its file in `folder` instead; as it is where it names no file."""
    found = named(text, kind)
    if found is None:
        return text
    file, _, _ = PAIR.split(text)[0].rpartition(":")
    return f"{folder / found.file.name}{text[len(file) :]}"


def digest(text: str, kind: str) -> str | None:
    """The SHA-256 of the file that `text` names, to be kept with a run; None where it names none."""
    found = named(text, kind)
    return hashlib.sha256(_read(found.file, kind)).hexdigest() if found else None


def function(text: str, kind: str, elsewhere: Mapping[str, str]) -> Callable[..., Any] | None:
    """The function that `text` names, the same object for as long as the file stays the same; None for no file.

    The file stands alone: modules beside it are not found, so that its hash says all.

    Args:
        elsewhere: parameters that are not set here, and what sets them.
    """
    found = named(text, kind)
    if found is None:
        return None
    make = _loaded(found.file, found.function, kind, _read(found.file, kind))
    return with_parameters(make, text, kind, elsewhere)


def with_parameters(
    make: Callable[..., Any], text: str, kind: str, elsewhere: Mapping[str, str]
) -> Callable[..., Any]:
    """The function with the parameters that `text` sets, refused where it has no such; itself where it sets none."""
    name, given = parted(text, kind)
    if not given:
        return make
    known = inspect.signature(make).parameters
    own = [each for each in known if each not in elsewhere]
    for each in given:
        if each in elsewhere:
            raise BadInput(f"{kind} {text}: {each} is set by {elsewhere[each]}; leave it out here")
        if each not in own and not any(one.kind is one.VAR_KEYWORD for one in known.values()):
            raise unknown(f"parameter of {name}", each, own or ["none"])
    return partial(make, **given)


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
