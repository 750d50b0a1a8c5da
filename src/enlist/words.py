"""Reading options: words typed on the command line, and values kept in a configuration file.

tyro draws the help from the same classes; the words are read here because its complaints are boxes of several lines,
and ours are one line that says what was given, what is allowed and what was probably meant.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from enlist.errors import BadInput
from enlist.options import RunOptions


def kinds(group: type) -> dict[str, Any]:
    """The type of each option by its name; what has a place instead of a name is left out."""
    found: dict[str, Any] = {}
    for name, hint in get_type_hints(group, include_extras=True).items():
        if is_dataclass(hint):
            found |= kinds(hint)  # type: ignore[arg-type]
        elif get_origin(hint) is not Annotated:
            found[name] = hint
    return found


def typed(group: type, words: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
    """What was typed: options by name, and the words that belong to none.

    `--name value` or `--name=value`; `--name` and `--no-name` for what is on or off.

    Example:
        >>> typed(RunOptions, ["--worker-lr", "0.3", "--json", "there"])
        ({'worker_lr': 0.3, 'json': True}, ['there'])
    """
    known, given, loose = kinds(group), {}, []
    left = iter(words)
    for word in left:
        if not word.startswith("-"):
            loose.append(word)
            continue
        option, equals, text = word.partition("=")
        name = option[2:].replace("-", "_") if option.startswith("--") else ""
        flag = name.removeprefix("no_")
        if known.get(flag) is bool:
            if equals:
                raise BadInput(f"{option} takes no value: leave out {equals}{text}")
            given[flag] = name == flag
        elif name in known:
            text = text if equals else next(left, "--")
            if not text or (text.startswith("--") and not equals):
                raise BadInput(f"{option} needs a value after it: {_words(known[name])}")
            given[name] = _value(option[2:], known[name], text)
        else:
            raise _unknown(option, known)
    return given, loose


def kept(values: Mapping[str, Any], group: type = RunOptions) -> dict[str, Any]:
    """A configuration file's values as options; each must be of the kind that its option has.

    Where a command puts its results is no part of what it does, so no option of its `output` group is taken.
    """
    known = kinds(group)
    for name in kinds(get_type_hints(group)["output"]):
        del known[name]
    if stranger := next((name for name in values if name not in known), None):
        raise _unknown(stranger, known)
    return {name: _kept_value(name, known[name], value) for name, value in values.items()}


def _kept_value(name: str, kind: Any, value: Any) -> Any:
    if (value is None and type(None) in get_args(kind)) or (kind is bool and isinstance(value, bool)):
        return value
    if kind is bool or isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadInput(f"{name} = {value}: must be {_words(kind)}")
    # As if it were typed: YAML takes 1e-3 for a text.
    return _value(name, kind, str(value))


def _value(name: str, kind: Any, text: str) -> Any:
    """`text` as a value of that kind; `none` unsets a number that may be left out."""
    plain = next(inner for inner in (*get_args(kind), kind) if inner is not type(None))
    if plain is str:
        return text
    if plain is not kind and text.lower() == "none":
        return None
    try:
        return plain(text)
    except (TypeError, ValueError):
        raise BadInput(f"{name} = {text[:60]}: must be {_words(kind)}") from None


def _words(kind: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    return next(names[inner] for inner in (*get_args(kind), kind) if inner in names)


def _unknown(given: str, known: Iterable[str]) -> BadInput:
    close = difflib.get_close_matches(given.strip("-").replace("-", "_"), known, n=1, cutoff=0.5)
    if not close:
        return BadInput(f"unknown option {given}: --help lists them all")
    # In a file an option is written as Python does, on the command line with dashes.
    meant = f"--{close[0].replace('_', '-')}" if given.startswith("-") else close[0]
    return BadInput(f"unknown option {given}: did you mean {meant}?")
