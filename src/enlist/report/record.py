"""What a run left in its folder, read back and named: tables, figures and page start from it."""

import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from enlist.errors import BadInput
from enlist.report.target import reaches

# Options that say where a run was put, not what was run: they never tell two runs apart.
_PLACES = {"out", "name", "config", "resume", "json"}


@dataclass(frozen=True)
class RunRecord:
    """One run: what was asked (`config`), what happened (`metrics`, by evaluated round), how it ended."""

    name: str
    config: dict[str, Any]
    metrics: list[dict[str, Any]]
    summary: dict[str, Any]
    partition: dict[str, Any] | None = None
    folder: Path | None = None

    @property
    def metric_key(self) -> str:
        """The key of the test metric in `metrics`; `test_loss` where the run measured nothing else."""
        if self.summary.get("metric"):
            return f"test_{self.summary['metric']}"
        keys = (key for line in self.metrics for key in line)
        return next((key for key in keys if key.startswith("test_") and key != "test_loss"), "test_loss")

    @property
    def loss_key(self) -> str:
        """`train_loss`, or `local_loss` of a run whose server saw no training row: the workers tell it theirs."""
        lines = [*self.metrics, _mapping(self.summary.get("final"))]
        known = (
            key
            for key in ("train_loss", "local_loss")
            for line in lines
            if not math.isnan(number(line.get(key)))
        )
        return next(known, "train_loss")

    @property
    def is_deployed(self) -> bool:
        """Whether real machines carried it out, so that its seconds are not simulated."""
        return "deployment" in self.summary or self.loss_key == "local_loss"

    @property
    def is_percent(self) -> bool:
        """Whether the test metric is a share, which people read in percent."""
        return self.metric_key == "test_accuracy"

    def column(self, key: str) -> list[float]:
        """`key` in every evaluated round; NaN where it is missing or not finite."""
        return [number(line.get(key)) for line in self.metrics]

    def series(self, key: str, against: str = "round") -> tuple[list[float], list[float]]:
        """(`against`, `key`) over the rounds that recorded `key`; NaN where the value is not finite."""
        rows = [(number(line.get(against)), number(line[key])) for line in self.metrics if key in line]
        return [x for x, _ in rows], [y for _, y in rows]


@dataclass(frozen=True)
class Outcome:
    """How a run ended, or where it stands. NaN and None mean: not known."""

    status: str
    rounds: int
    train_loss: float
    local_loss: float
    test_loss: float
    final: float
    best: float
    best_round: int | None
    target: float | None
    target_rounds: int | None
    comm_mib: float
    wall_seconds: float
    rounds_per_second: float


def number(value: object) -> float:
    """`value` as a finite float, else NaN: one odd entry must not cost a person the whole report."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        result = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return result if math.isfinite(result) else math.nan


def whole(value: object) -> int | None:
    """`value` as an int, None where it is no number."""
    result = number(value)
    return None if math.isnan(result) else int(result)


def load(folder: str | os.PathLike[str]) -> RunRecord:
    """Reads the folder of a run, finished or not.

    Args:
        folder: what `enlist run --out` wrote to. Files that are missing or cut off at their end (a run still
            going, a killed one) are taken as far as they go.

    Raises:
        BadInput: it is not the folder of a run, or one of its files is damaged.
    """
    place = Path(folder)
    if not place.is_dir():
        raise BadInput(f"no run at '{place}': give the folder that `enlist run --out DIR` wrote")
    if not any((place / name).is_file() for name in ("config.yaml", "metrics.jsonl", "summary.json")):
        raise BadInput(
            f"'{place}' is not the folder of a run: it holds no config.yaml, metrics.jsonl or summary.json"
        )
    return RunRecord(
        name=place.resolve().name,
        config=_read_config(place / "config.yaml"),
        metrics=_read_metrics(place / "metrics.jsonl"),
        summary=_read_json(place / "summary.json") or {},
        partition=_read_json(place / "partition.json"),
        folder=place,
    )


def outcome(run: RunRecord) -> Outcome:
    """The summary's word where there is one, else what the metrics so far say."""
    last = run.metrics[-1] if run.metrics else {}
    final = {**last, **_mapping(run.summary.get("final"))}
    best = _mapping(run.summary.get("best")) or _best_so_far(run)
    goal = _mapping(run.summary.get("target"))
    target = number(goal.get("value", run.config.get("target")))
    reached = goal.get("rounds") if goal else _first_reaching(run, target)
    rounds = whole(run.summary.get("rounds"))
    return Outcome(
        status=str(run.summary.get("status") or "unfinished"),
        rounds=rounds if rounds is not None else whole(last.get("round")) or 0,
        train_loss=number(final.get("train_loss")),
        local_loss=number(final.get("local_loss")),
        test_loss=number(final.get("test_loss")),
        final=number(final.get(run.metric_key)),
        best=number(best.get(run.metric_key)),
        best_round=whole(best.get("round")),
        target=None if math.isnan(target) else target,
        target_rounds=whole(reached),
        comm_mib=number(final.get("comm_mib")),
        wall_seconds=number(run.summary.get("wall_seconds")),
        rounds_per_second=number(run.summary.get("rounds_per_second")),
    )


def labels(runs: Sequence[RunRecord]) -> list[str]:
    """A distinct label for each run: its name, or the options that set it apart if that is but a date."""
    names = [run.name for run in runs]
    dated = any(re.match(r"\d{4}-?\d\d", name) for name in names)
    if len(set(names)) < len(names) or dated:
        keys = differing(runs)
        told = [", ".join(f"{key} {plain(run.config.get(key))}" for key in keys) for run in runs]
        if keys and len(keys) <= 3 and len(set(told)) == len(told):
            return told
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        seen[name] = seen.get(name, 0) + 1
        names[index] = name if seen[name] == 1 else f"{name} ({seen[name]})"
    return names


def differing(runs: Sequence[RunRecord]) -> list[str]:
    """The options in which the runs are not all alike, in the order of the configuration."""
    keys = dict.fromkeys(key for run in runs for key in run.config if key not in _PLACES)
    return [key for key in keys if any(run.config.get(key) != runs[0].config.get(key) for run in runs[1:])]


def plain(value: object) -> str:
    """An option the way a person writes it, nothing rounded away: 0.1, 1, 3e-05; a dash for none."""
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return "–" if value is None else str(value)


def short(value: float) -> str:
    """A measured number to four digits; a dash for what is not known."""
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file so that a reader finds the old one or the new one, never a part."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        unfinished.write_bytes(data)
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(f"'{path}' is damaged: not valid YAML ({str(error).splitlines()[0]})") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise BadInput(f"'{path}' is damaged: it should map options to values")
    return {str(key): value for key, value in content.items()}


def _read_json(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8", errors="replace").rstrip()
    # A file caught while it is being written is cut off, which is no damage: the run is still going.
    if (text.startswith("{") and not text.endswith("}")) or not text:
        return None
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"'{path}' is damaged: not valid JSON at line {error.lineno}") from error
    if not isinstance(content, dict):
        raise BadInput(f"'{path}' is damaged: it should hold one JSON object")
    return content


def _read_metrics(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    rounds: dict[int, dict[str, Any]] = {}
    for position, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
            # A run that was killed and resumed writes some rounds twice; the later line counts.
            rounds[int(content["round"])] = content
        except (ValueError, KeyError, TypeError) as error:
            if position == len(lines):
                break
            raise BadInput(f"'{path}' is damaged: line {position} is not a round's metrics") from error
    return [rounds[t] for t in sorted(rounds)]


def _best_so_far(run: RunRecord) -> dict[str, Any]:
    # Of a metric other than accuracy we do not know here whether more is better, so nothing is claimed.
    known = [line for line in run.metrics if not math.isnan(number(line.get(run.metric_key)))]
    if not run.is_percent or not known:
        return {}
    return max(known, key=lambda line: number(line[run.metric_key]))


def _first_reaching(run: RunRecord, target: float) -> int | None:
    if not run.is_percent:
        return None
    reached = (line for line in run.metrics if reaches(number(line.get(run.metric_key)), target))
    return whole(next(reached, {}).get("round"))


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
