"""The folder of a run: what is written there, in an order that no kill can make a lie of."""

import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from enlist.engine import holding
from enlist.errors import BadInput
from enlist.problem.federation import Federation

SHOWN_WORKERS = 400


class RunFolder:
    """Reads and writes `config.yaml`, `metrics.jsonl`, `summary.json`, `partition.json`, `model.safetensors`."""

    def __init__(self, path: Path):
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.metrics = path / "metrics.jsonl"

    def hold(self) -> None:
        """Keeps other processes off this run until `release`, or until this process ends, however it does."""
        holding.hold(self.path)

    def release(self) -> None:
        """Lets go of what `hold` holds."""
        holding.release(self.path)

    def create(self, config: dict[str, Any], federation: Federation) -> None:
        """Begins a new run's folder. An existing one with anything in it is not touched."""
        self.begin(config, partition_facts(federation))

    def begin(self, config: dict[str, Any], facts: dict[str, Any]) -> None:
        """As `create`, where no more than these facts are known of who holds what."""
        refuse_if_used(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"out = {self.path}: cannot be made a folder ({error.strerror})") from error
        self.metrics.touch()
        _write(self.path / "partition.json", json.dumps(facts))
        # Last: a folder with a config is one that can be resumed.
        self.rewrite_config(config)

    def rewrite_config(self, config: dict[str, Any]) -> None:
        """Keeps the options of the run."""
        write_config(self.path / "config.yaml", config)

    def config(self) -> dict[str, Any]:
        """The options of the run that is kept here."""
        return read_config(self.path / "config.yaml")

    def fingerprint(self) -> str | None:
        """Of the federation that the run was begun with; None where it was not kept."""
        try:
            found = json.loads((self.path / "partition.json").read_text())["fingerprint"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return str(found)

    def append(self, line: dict[str, Any]) -> None:
        """Adds one line to the metrics; on disk when this returns."""
        with self.metrics.open("a") as file:
            file.write(json.dumps(_plain(line)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def lines(self) -> Iterator[dict[str, Any]]:
        """The metrics so far; a line that a kill cut short is not one."""
        if self.metrics.exists():
            for text in self.metrics.read_text().splitlines(keepends=True):
                if not text.endswith("\n"):
                    return
                try:
                    line = json.loads(text)
                    int(line["round"])
                except (ValueError, KeyError, TypeError) as error:
                    raise BadInput(
                        f"{self.metrics}: damaged, {text[:40]!r} is not a round's metrics"
                    ) from error
                yield line

    def rewind(self, t: int, wanted: Callable[[int], bool] = bool) -> list[dict[str, Any]]:
        """Drops every line after round t or of a round that is not wanted, and returns those that stay."""
        kept = [line for line in self.lines() if line["round"] <= t and wanted(line["round"])]
        _write(self.metrics, "".join(json.dumps(line) + "\n" for line in kept))
        return kept

    def finish(self, summary: dict[str, Any], params: Any) -> None:
        """Writes the outcome."""
        from safetensors.numpy import save_file

        draft = self.path / ".model.safetensors"
        save_file(named_arrays(params), draft)
        # As readable as the other files.
        draft.chmod(self.metrics.stat().st_mode)
        os.replace(draft, self.path / "model.safetensors")
        _write(self.path / "summary.json", json.dumps(_plain(summary), indent=2) + "\n")


def refuse_if_used(path: Path) -> None:
    """A folder that already holds something is not overwritten."""
    if path.is_file():
        raise BadInput(f"out = {path}: that is a file; name a folder")
    if path.is_dir() and any(path.iterdir()):
        raise BadInput(
            f"out = {path}: that folder is not empty; name a new one, or go on with --resume {path}"
        )


def finished(path: Path | None) -> bool:
    """Whether the folder holds a run that came to its end, be it a bad one."""
    try:
        facts = json.loads((path / "summary.json").read_text()) if path is not None else {}
    except (OSError, ValueError):
        return False
    return isinstance(facts, dict) and facts.get("status") in ("done", "diverged")


def write_config(path: Path, config: dict[str, Any]) -> None:
    """Options as a config.yaml."""
    _write(path, yaml.safe_dump(config, sort_keys=False))


def read_config(path: Path) -> dict[str, Any]:
    """A config.yaml as a flat mapping."""
    try:
        config = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadInput(f"{path}: cannot be read as YAML ({' '.join(str(error).split())[:120]})") from error
    if not isinstance(config, dict) or not all(isinstance(key, str) for key in config):
        raise BadInput(f"{path}: must hold options as 'name: value' lines")
    return config


def named_arrays(params: Any) -> dict[str, np.ndarray]:
    """The leaves of a pytree by their path: `hidden/kernel` and the like."""
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {
        jax.tree_util.keystr(path, simple=True, separator="/") or "params": np.ascontiguousarray(leaf)
        for path, leaf in leaves
    }


def describe_partition(federation: Federation) -> dict[str, Any]:
    """Who holds how much of what, for the page; at most the first few hundred workers."""
    sizes = federation.sizes
    counts = federation.class_counts(SHOWN_WORKERS)
    facts: dict[str, Any] = {
        "workers": federation.workers,
        "rows": len(federation.data.x_train) - federation.left_over,
        "left_over": federation.left_over,
        "sizes": {"min": int(sizes.min()), "median": float(np.median(sizes)), "max": int(sizes.max())},
        "classes": federation.classes,
        "worker_sizes": sizes[:SHOWN_WORKERS].tolist(),
    }
    if federation.common is not None:
        facts["shared_rows"] = federation.shared_rows
    return facts if counts is None else facts | {"class_counts": counts.tolist()}


def partition_facts(federation: Federation) -> dict[str, Any]:
    """The same with what shows whether a federation is this one."""
    return describe_partition(federation) | {"fingerprint": federation.fingerprint()}


def _write(path: Path, text: str) -> None:
    """Whole or not at all, also when the power fails."""
    draft = path.with_name(f".{path.name}.draft")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
