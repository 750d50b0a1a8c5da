"""Searches of `enlist speedup` in a folder: each is kept when it is done, and read instead of made again."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from enlist.errors import BadInput
from enlist.report.record import write_whole
from enlist.studies.rounds_needed import Needed

SEARCHES = "searches"


class Found(NamedTuple):
    """Of one case: what it needs, and all that was seen, by T: [seed, look]."""

    needed: Needed
    seen: dict[int, np.ndarray]


def made_once(
    path: Path | None, about: dict[str, Any], shape: tuple[int, int], search: Callable[[], Found]
) -> Found:
    """The search that a file keeps, or a new one, which it keeps from now on.

    Args:
        path: None where nothing is to be kept.
        about: what the search depends on.
        shape: seeds and looks.
    """
    if path is None:
        return search()
    if (found := _kept(path, about, shape)) is None:
        found = search()
        _keep(path, about, found)
    return found


def _keep(path: Path, about: dict[str, Any], found: Found) -> None:
    """Writes a finished search, whole or not at all."""
    seen = {str(rounds): _told(values) for rounds, values in found.seen.items()}
    facts = {"about": about, **found.needed._asdict(), "seen": seen}
    write_whole(path, (json.dumps(facts, allow_nan=False) + "\n").encode())


def _kept(path: Path, about: dict[str, Any], shape: tuple[int, int]) -> Found | None:
    """The search that was kept there; None where none was."""
    if not path.is_file():
        return None
    try:
        facts = json.loads(path.read_text())
        seen = {int(rounds): _read(values, shape) for rounds, values in facts["seen"].items()}
        needed = Needed(facts["rounds"], facts["at_least"])
        is_this = facts["about"] == about and bool(seen)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path}: damaged; remove it, and that search is made again") from error
    if not is_this:
        raise BadInput(f"{path}: not a search of this study; remove it, and that search is made again")
    return Found(needed, seen)


def _told(values: np.ndarray) -> list[list[float | None]]:
    """JSON has no infinity: null stands for it, that is for a run that diverged."""
    return [[each if math.isfinite(each) else None for each in row] for row in values.tolist()]


def _read(values: Any, shape: tuple[int, int]) -> np.ndarray:
    found = np.array([[math.inf if each is None else each for each in row] for row in values], np.float64)
    if found.shape != shape:
        raise ValueError(f"{found.shape} is not {shape}")
    return found
