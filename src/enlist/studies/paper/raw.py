"""The raw metrics of many runs, compactly: a file for each data set and model, a line for each run.

A line is appended when its run is finished, so that a kill loses no run that was. Files of several machines are put
together by copying their lines into one file; a setting that is there twice counts once, as it was first.
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from enlist.errors import BadInput
from enlist.studies.paper.setting import Setting

# Enough digits for any verdict, few enough to be kept.
DIGITS = 5
T = TypeVar("T")
SECONDS_FILE, SITTINGS_FILE = "worker_seconds.json", "sittings.jsonl"
SECONDS_KEY = 6
SERIES = ("train_loss", "test_loss", "test_accuracy")


class Curve(NamedTuple):
    """One run.

    Args:
        status: done, or diverged.
        round: those that were evaluated, each series beside it.
        uplink_bytes, downlink_bytes: of one worker in a round.
        device_seconds: its share of what the runs that advanced with it took, without compiling.
        device: what it ran on.
    """

    setting: Setting
    status: str
    round: np.ndarray
    train_loss: np.ndarray
    test_loss: np.ndarray
    test_accuracy: np.ndarray
    uplink_bytes: int
    downlink_bytes: int
    device_seconds: float
    device: str
    versions: Mapping[str, str]

    def rounds_to(self, accuracy: float) -> int | None:
        """The first evaluated round with this test accuracy; None where there is none."""
        reached = np.flatnonzero(self.test_accuracy >= accuracy - 1e-9)
        return int(self.round[reached[0]]) if len(reached) else None

    def within(self, rounds: int) -> "Curve":
        """The first so many rounds of it: one that diverged later did not diverge in these."""
        if not len(self.round) or self.round[-1] < rounds:
            return self
        known = self.round <= rounds
        series = {name: getattr(self, name)[known] for name in ("round", *SERIES)}
        return self._replace(status="done", **series)

    def best_accuracy(self) -> float | None:
        """The highest test accuracy of any round; None where there is none."""
        known = self.test_accuracy[np.isfinite(self.test_accuracy)]
        return float(known.max()) if len(known) else None


class Sitting(NamedTuple):
    """Runs that advanced together: what they are, and what they took, compiling and files included in `wall`."""

    what: str
    runs: int
    device_seconds: float
    wall_seconds: float
    device: str


class Raw:
    """Finished runs by their settings.

    Args:
        seconds: what a worker computes in a round, by (dataset, model, algorithm, local epochs, batch, augment),
            where measured.
    """

    def __init__(self, curves: Iterable[Curve], seconds: Mapping[tuple[Any, ...], float] = {}):
        self.curves: dict[Setting, Curve] = {}
        for curve in curves:
            self.curves.setdefault(curve.setting, curve)
        self.seconds = dict(seconds)

    def __iter__(self) -> Iterator[Curve]:
        return iter(self.curves.values())

    def __len__(self) -> int:
        return len(self.curves)

    def where(self, **wanted: Any) -> list[Curve]:
        """Those with these values, by seed."""
        found = [curve for curve in self if curve.setting.matches(wanted)]
        return sorted(found, key=lambda curve: curve.setting.seed)

    def only(self, settings: Iterable[Setting]) -> "Raw":
        """Those of the settings alone."""
        return Raw(
            [self.curves[setting] for setting in dict.fromkeys(settings) if setting in self.curves],
            self.seconds,
        )

    def missing(self, settings: Iterable[Setting]) -> list[Setting]:
        """Those of the settings that are not here, each once."""
        return [setting for setting in dict.fromkeys(settings) if setting not in self.curves]


def line_of(curve: Curve) -> str:
    """A run as its file keeps it."""
    known = curve._asdict() | {"setting": curve.setting._asdict(), "round": curve.round.tolist()}
    return json.dumps(known | {name: _short(getattr(curve, name)) for name in SERIES})


def curve_of(line: str) -> Curve:
    """The inverse of `line_of`; a ValueError, KeyError or TypeError where it is none."""
    known = json.loads(line)
    arrays = {
        name: np.array([math.nan if value is None else value for value in known[name]], np.float64)
        for name in SERIES
    }
    curve = Curve(
        **known
        | arrays
        | {"setting": Setting(**known["setting"]), "round": np.array(known["round"], np.int64)}
    )
    hash(curve.setting)
    if any(array.shape != (len(curve.round),) for array in (curve.round, *arrays.values())):
        raise ValueError("a series has not one number for each round")
    if (curve.test_accuracy < 0).any() or (curve.test_accuracy > 1).any():
        raise ValueError("an accuracy is not from 0 to 1")
    if curve.status not in ("done", "diverged") or not isinstance(curve.device, str):
        raise ValueError("status or device is none")
    if not all(each >= 0 for each in (curve.device_seconds, curve.uplink_bytes, curve.downlink_bytes)):
        raise ValueError("seconds or bytes are below 0")
    return curve


def seconds_key(setting: Setting) -> tuple[str, str, str, int, int, str | None]:
    """Of what a worker computes in a round; how many workers there are, their digits, how pixels are scaled and what
    weights start from change nothing of it."""
    amount = setting.local_epochs, setting.batch, setting.augment
    return setting.dataset, setting.model, setting.algorithm, *amount


def append(folder: Path, curves: Sequence[Curve]) -> None:
    """Adds finished runs to the files in a folder; on disk when this returns."""
    by_file: dict[str, list[str]] = {}
    for curve in curves:
        name = f"{curve.setting.dataset}-{curve.setting.model}.jsonl"
        by_file.setdefault(name, []).append(line_of(curve))
    for name, lines in by_file.items():
        _add(folder / name, lines)


def append_sitting(folder: Path, sitting: Sitting) -> None:
    """Adds what a group of runs took."""
    _add(folder / SITTINGS_FILE, [json.dumps(sitting._asdict())])


def sittings(folder: Path) -> list[Sitting]:
    """What all runs in a folder took, group by group."""
    path = folder / SITTINGS_FILE
    return _lines(path, _sitting_of, "what these runs took is then not counted") if path.exists() else []


def _sitting_of(line: str) -> Sitting:
    sitting = Sitting(**json.loads(line))
    if not isinstance(sitting.what, str) or not (sitting.device_seconds >= 0 and sitting.wall_seconds >= 0):
        raise ValueError("not what a group of runs is and took")
    return sitting


def _add(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cut = False
    if path.exists() and path.stat().st_size:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            cut = file.read() != b"\n"
    with path.open("a") as file:
        # What a kill cut off must not run into what follows.
        file.write("\n" * cut + "".join(f"{line}\n" for line in lines))
        file.flush()
        os.fsync(file.fileno())


def read(folder: Path) -> Raw:
    """All runs in a folder; none where there is no folder."""
    return Raw(
        [
            curve
            for path in sorted(folder.glob("*-*.jsonl"))
            for curve in _lines(path, curve_of, "the run is then made again")
        ],
        _seconds(folder),
    )


def _lines(path: Path, meaning: Callable[[str], T], otherwise: str) -> list[T]:
    """What the lines of a file mean; a kill cuts a line off, which is then as if it were not there."""
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if line.rstrip().endswith(b"}"):
            try:
                found.append(meaning(line.decode()))
            except (ValueError, KeyError, TypeError) as error:
                raise BadInput(f"{path}: line {number} is damaged; remove it ({otherwise})") from error
    return found


def keep_seconds(folder: Path, seconds: Mapping[tuple[Any, ...], float]) -> None:
    """Writes what a worker computes in a round."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"of": list(key), "seconds": value} for key, value in seconds.items()]
    draft = folder / f".{SECONDS_FILE}.draft"
    draft.write_text(json.dumps(rows, indent=1))
    os.replace(draft, folder / SECONDS_FILE)


def _seconds(folder: Path) -> dict[tuple[Any, ...], float]:
    path = folder / SECONDS_FILE
    if not path.exists():
        return {}
    try:
        return {_whole_key(row["of"]): float(row["seconds"]) for row in json.loads(path.read_text())}
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path}: damaged; remove it, and it is measured again") from error


def _whole_key(of: Sequence[Any]) -> tuple[Any, ...]:
    """Written down before images could be varied, it says nothing about that."""
    return (*of, None) if len(of) == SECONDS_KEY - 1 else tuple(of)


def _short(values: np.ndarray) -> list[float | None]:
    return [float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None for value in values.tolist()]
