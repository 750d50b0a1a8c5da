"""Pages and pictures made anew from what a folder holds: what is damaged is one line, and nothing is half made."""

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from enlist.errors import BadInput
from enlist.report.record import write_whole

T = TypeVar("T")
# What facts that lack something, or are of another kind, make of the code that draws them.
_WRONG = (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError)


def read_left(path: Path, what: str, keys: Sequence[str]) -> dict[str, Any] | None:
    """The facts that a command left in a JSON file; None where there is no such file.

    Args:
        what: the command left, in words such as "a plan".
        keys: that the facts have at least.
    """
    if not path.is_file():
        return None
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInput(f"'{path}' is damaged: it is not the JSON of {what}; make it anew") from error
    if not isinstance(facts, dict) or (lacks := next((key for key in keys if key not in facts), None)):
        missing = f" (no '{lacks}')" if isinstance(facts, dict) else ""
        raise BadInput(f"'{path}' is damaged: it is not the JSON of {what}{missing}; make it anew")
    return facts


def drawn(write: Callable[[Path], T], out: Path, source: Path | None) -> T:
    """Lets `write` write into the folder `out`, and returns what it returned.

    Args:
        source: the file that it all comes from, where it is made anew. Then nothing is touched before all is made,
            and where that fails the file is to blame.
    """
    if source is None:
        return write(out)
    with tempfile.TemporaryDirectory() as draft:
        try:
            made = write(Path(draft))
        except _WRONG as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
            raise BadInput(f"'{source}' is damaged: no page can be made of it ({reason})") from error
        try:
            out.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise BadInput(f"out = {out}: cannot be made a folder ({error}); name another") from error
        for file in Path(draft).iterdir():
            write_whole(out / file.name, file.read_bytes())
    return made
