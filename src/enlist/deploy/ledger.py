"""What a deployed run writes down beside its metrics: the cohorts really used, and everything out of the ordinary."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from enlist.errors import BadInput

COHORTS, EVENTS = "cohorts.jsonl", "events.jsonl"
MOST_LISTED = 50


class Ledger:
    """`cohorts.jsonl`: a line for each round that counts. `events.jsonl`: what was refused, abandoned, resumed."""

    def __init__(self, folder: Path):
        self._cohorts, self._events = folder / COHORTS, folder / EVENTS
        self._used: dict[int, int] = {}

    def rewind(self, t: int, complete: bool = False) -> None:
        """Goes back to the end of the first t rounds; events stay, for they have happened.

        Args:
            complete: whether every one of these rounds must be there, since workers go on from what they kept.
        """
        kept = [line for line in whole_lines(self._cohorts) if line["round"] < t]
        if complete and [line["round"] for line in kept] != list(range(t)):
            raise BadInput(
                f"{self._cohorts}: not every round up to {t} is there, so it is not known which states the workers "
                "go on from; begin a new run"
            )
        draft = self._cohorts.with_name(f".{COHORTS}.draft")
        draft.write_text("".join(json.dumps(line) + "\n" for line in kept))
        os.replace(draft, self._cohorts)
        self._used = {worker: line["round"] for line in kept for worker in line["ids"]}

    def acknowledged(self, worker: int) -> int:
        """The last round in which a reply of this worker was used; -1 for none."""
        return self._used.get(worker, -1)

    def used(self, t: int, ids: list[int], **facts: Any) -> None:
        """Notes the cohort of a round; it is on disk when this returns."""
        _append(self._cohorts, {"round": t, "ids": ids, **facts})
        self._used |= dict.fromkeys(ids, t)

    def event(self, what: str, t: int, **facts: Any) -> None:
        """Notes what is out of the ordinary."""
        _append(self._events, {"what": what, "round": t, **facts})

    def facts(self) -> dict[str, Any]:
        """All of it in a few numbers, over all sittings."""
        events, rounds = list(whole_lines(self._events)), list(whole_lines(self._cohorts))
        counts = Counter(event["what"] for event in events)
        refused = [
            # Rounds that people read are counted from 1, as in the metrics.
            {"round": event["round"] + 1, "worker": event["worker"], "cause": event["cause"]}
            for event in events
            if event["what"] == "refused"
        ]
        # What was tried in vain was asked for, and took its time.
        tried = [*rounds, *(event for event in events if event["what"] == "abandoned")]
        seconds = sum(line.get("seconds", 0.0) for line in tried)
        return {
            "abandoned": counts["abandoned"],
            "late": sum(event.get("late", 0) for event in events if event["what"] == "dropped"),
            "doubled": sum(event.get("doubled", 0) for event in events if event["what"] == "dropped"),
            "unsolicited": sum(event.get("unsolicited", 0) for event in events if event["what"] == "dropped"),
            "refused": refused[:MOST_LISTED],
            "refusals": len(refused),
            "sittings": 1 + counts["resumed"],
            "enlisted": sum(line.get("enlisted", 0) for line in tried),
            "used": sum(len(line["ids"]) for line in rounds),
            "seconds_a_round": round(seconds / len(rounds), 3) if rounds else None,
        }


def _append(path: Path, line: dict[str, Any]) -> None:
    """On disk when this returns. A line that was cut short before does not spoil this one."""
    with path.open("ab+") as file:
        torn = file.tell() > 0 and _last_byte(file) != b"\n"
        file.write(b"\n" * torn + json.dumps(line).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _last_byte(file: BinaryIO) -> bytes:
    file.seek(-1, os.SEEK_END)
    return file.read(1)


def whole_lines(path: Path) -> Iterator[dict[str, Any]]:
    """All but those that were cut short."""
    if path.exists():
        for text in path.read_text().splitlines(keepends=True):
            if text.endswith("\n") and (line := parsed(text)) is not None:
                yield line


def parsed(text: str) -> dict[str, Any] | None:
    """A line of either file; None where it is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
