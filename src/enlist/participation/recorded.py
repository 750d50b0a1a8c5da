"""Cohorts that were recorded: the file that a deployed run leaves, read back."""

import hashlib
import json
from pathlib import Path
from typing import Any

from enlist.errors import BadInput

PREFIX = "recorded:"


def file_of(strategy: str) -> str | None:
    """The file that a strategy names, as in recorded:FILE; None where it names none."""
    return strategy.removeprefix(PREFIX) if strategy.startswith(PREFIX) else None


def file_digest(strategy: str) -> str | None:
    """The SHA-256 of that file; None where there is none that can be read."""
    file = file_of(strategy)
    try:
        return None if not file else hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except (OSError, ValueError):
        return None


def read_cohorts(file: str) -> list[list[int]]:
    """The worker ids of every round, from lines such as {"round": 0, "ids": [2, 5, 7]}; other keys are not read.

    Raises:
        BadInput: the file cannot be read, is damaged, or leaves out a round.
    """
    if not file:
        raise BadInput(
            f"sampling {PREFIX}: a file is missing: write {PREFIX}FILE, for instance {PREFIX}cohorts.jsonl"
        )
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise BadInput(
            f"sampling {PREFIX}{file}: no such file; a deployed run leaves a cohorts.jsonl"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise BadInput(f"sampling {PREFIX}{file}: cannot be read ({reason})") from error
    if not lines:
        raise BadInput(f"{file}: no round is recorded there")
    return [_ids(file, t, line) for t, line in enumerate(lines)]


def _ids(file: str, t: int, line: str) -> list[int]:
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    if not isinstance(entry, dict) or not _whole(entry.get("round")) or not _all_whole(entry.get("ids")):
        raise BadInput(
            f'{file}: damaged, line {t + 1} is not a round\'s cohort such as {{"round": {t}, "ids": [2, 5, 7]}}'
        )
    if entry["round"] != t:
        raise BadInput(
            f"{file}: line {t + 1} is of round {entry['round']}, where round {t} should be: rounds count from 0, and "
            "none may be left out"
        )
    return list(entry["ids"])


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _all_whole(value: Any) -> bool:
    return isinstance(value, list) and all(map(_whole, value))
