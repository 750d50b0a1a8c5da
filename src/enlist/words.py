"""Reading options: words typed on the command line, and values kept in a configuration file.

tyro draws the help from the same classes; the words are read here because its complaints are boxes of several lines,
and ours are one line that says what was given, what is allowed and what was probably meant.
"""

import difflib
from collections.abc import Container, Iterable, Mapping
from dataclasses import is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from enlist.errors import BadInput
from enlist.options import RunOptions

# Groups of options that a configuration file does not hold.
ELSEWHERE = ("output", "machines")


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
    known = kinds(group)
    pairs, loose = _pairs(known, words)
    return {name: _typed_value(name, known[name], text) for name, text in pairs}, loose


def typed_several(
    group: type, words: Iterable[str], *, single: Container[str], whole: Container[str]
) -> tuple[dict[str, list[Any]], list[str]]:
    """As `typed`, but an option may have several values, with commas between them.

    Args:
        single: options that have one value.
        whole: options whose values hold commas of their own, and so are typed once for each.

    Example:
        >>> typed_several(RunOptions, ["--worker-lr", "0.1,1", "--out", "a,b"], single=["out"], whole=[])[0]
        {'worker_lr': [0.1, 1.0], 'out': ['a,b']}
    """
    known = kinds(group)
    pairs, loose = _pairs(known, words)
    given: dict[str, list[Any]] = {}
    for name, text in pairs:
        cut = isinstance(text, str) and name not in single and name not in whole
        texts = [part.strip() for part in str(text).split(",")] if cut else [text]
        if "" in texts:
            raise BadInput(f"{_dashed(name)} = {str(text)[:60]}: a value is missing beside a comma")
        values = [_typed_value(name, known[name], each) for each in texts]
        # Typed again, the last one counts, as everywhere.
        given[name] = given.get(name, []) + values if name in whole else values
    return given, loose


def _pairs(known: Mapping[str, Any], words: Iterable[str]) -> tuple[list[tuple[str, str | bool]], list[str]]:
    """Names and what was typed for them, in order; and the words that belong to no option."""
    pairs: list[tuple[str, str | bool]] = []
    loose: list[str] = []
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
            pairs.append((flag, name == flag))
        elif name in known:
            text = text if equals else next(left, "--")
            if not text or (text.startswith("--") and not equals):
                raise BadInput(f"{option} needs a value after it: {_words(known[name])}")
            pairs.append((name, text))
        else:
            raise _unknown(option, known)
    return pairs, loose


def _typed_value(name: str, kind: Any, text: str | bool) -> Any:
    return text if isinstance(text, bool) else _value(_dashed(name), kind, text)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def kept(values: Mapping[str, Any], group: type = RunOptions) -> dict[str, Any]:
    """A configuration file's values as options; each must be of the kind that its option has.

    Where a command runs and puts its results is no part of what it does, so no option of those groups is taken.
    """
    known = _kept_kinds(values, group)
    return {name: _kept_value(name, known[name], value) for name, value in values.items()}


def kept_several(values: Mapping[str, Any], group: type = RunOptions) -> dict[str, list[Any]]:
    """As `kept`, but an option may have several values, in a list.

    Example:
        >>> kept_several({"worker_lr": [0.1, "1e-3"], "rounds": 5})
        {'worker_lr': [0.1, 0.001], 'rounds': [5]}
    """
    known = _kept_kinds(values, group)
    found: dict[str, list[Any]] = {}
    for name, value in values.items():
        if value == []:
            raise BadInput(f"{name} = []: an empty list; give at least one value")
        texts = value if isinstance(value, list) else [value]
        try:
            found[name] = [_kept_value(name, known[name], each) for each in texts]
        except BadInput as error:
            if isinstance(value, str) and "," in value:
                raise BadInput(f"{error}; several values are written as a list: [{value[:60]}]") from None
            raise
    return found


def _kept_kinds(values: Mapping[str, Any], group: type) -> dict[str, Any]:
    known, parts = kinds(group), get_type_hints(group)
    for name in (name for part in ELSEWHERE if part in parts for name in kinds(parts[part])):
        del known[name]
    if stranger := next((name for name in values if name not in known), None):
        raise _unknown(stranger, known)
    return known


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
