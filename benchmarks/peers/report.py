"""The tables: from what was measured to Markdown, and the page that collects all machines' results."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checks import LOSS_TOLERANCE
from lineup import PEERS
from workloads import PFL_CIFAR_EVERY, PFL_CIFAR_ROUNDS, Workload, workload

HEAD = ["peer", "s a round", "CPU s a round", "wall / enlist", "CPU / enlist", "steps", "examples", "loss"]
HEAD += ["processes x threads", "versions"]
PAGE = f"""# enlist and its peers

Written by `benchmarks/peers/compare.py`; how it measures is in
[benchmarks/peers](../benchmarks/peers/README.md). In each table all peers were measured in one run, in turns: medians
(lowest–highest), and the medians of the ratios to the enlist of the same turn. The loss is that of the training
examples after the warm-up from common weights; a run in which the peers' steps or examples differ at all, or a loss
by more than {LOSS_TOLERANCE:.0%} from their median, fails instead of being written here.
"""


def table(rows: Sequence[dict[str, Any]]) -> str:
    """One workload's peers as Markdown."""
    base = next((row for row in rows if row["peer"] == "enlist"), None)
    lines = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    for row in rows:
        cells = [PEERS[row["peer"]].title if row["peer"] in PEERS else row["peer"]]
        cells += [spread(row["wall"]), spread(row["cpu"])]
        cells += ["–" if base is None else f"{ratio(row, base, what):.2f}" for what in ("wall", "cpu")]
        cells += [f"{row['steps']:,}", f"{row['examples']:,}", f"{row['loss']:.4f}", row["way"]]
        cells += [", ".join(f"{name} {version}" for name, version in row["versions"].items())]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def ratio(row: dict[str, Any], base: dict[str, Any], what: str) -> float:
    """How many times the base's seconds: the median over the turns."""
    pairs = zip(row[what], base[what], strict=True)
    return statistics.median(own / max(other, 1e-9) for own, other in pairs)


def spread(seconds: Sequence[float]) -> str:
    """The median and what it lies between."""
    middle = statistics.median(seconds)
    digits = 4 if middle < 0.1 else 3 if middle < 10 else 1
    return f"{middle:.{digits}f} ({min(seconds):.{digits}f}–{max(seconds):.{digits}f})"


def described(name: str, work: Workload) -> str:
    """A workload in words."""
    return (
        f"{name}: {work.workers} workers x {work.rows} examples of {' x '.join(map(str, work.shape))}, "
        f"{work.cohort} a round, {work.epochs} local epochs, batch {work.batch}, SGD with rate {work.worker_lr:g}, "
        f"uniform averaging; {work.warm_up} rounds of warm-up"
    )


def end_to_end(rows: Sequence[dict[str, Any]]) -> str:
    """pfl's published benchmark from the start of the process to its end."""
    head = [
        "peer",
        f"s for {PFL_CIFAR_ROUNDS:,} rounds",
        "measured",
        "s before the first round",
        "s compiling",
    ]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows:
        whole = row["rounds"] == PFL_CIFAR_ROUNDS
        said = "all" if whole else f"{row['rounds']} rounds, extrapolated linearly"
        compiling = f"{row['compile_seconds']:.1f}" if "compile_seconds" in row else "–"
        cells = [
            PEERS[row["peer"]].title,
            f"{projected(row):.1f}",
            said,
            f"{row['start_seconds']:.1f}",
            compiling,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def projected(row: dict[str, Any]) -> float:
    """Seconds of all rounds: what came before the first one, and the pace of those that were done."""
    loop = row["total_seconds"] - row["start_seconds"]
    return row["start_seconds"] + loop * PFL_CIFAR_ROUNDS / row["rounds"]


def page(records: Sequence[dict[str, Any]]) -> str:
    """All machines' results."""
    parts = [PAGE]
    for record in records:
        parts.append(f"## {record['machine']}\n")
        for name, result in record["workloads"].items():
            parts.append(f"{described(name, workload(name))}. `{result['command']}`\n")
            parts.append(table(result["rows"]) + "\n")
            if result.get("end_to_end"):
                parts.append(
                    f"End to end, from the start of the process, evaluated on the test set every {PFL_CIFAR_EVERY} "
                    "rounds; random examples of CIFAR-10's shape:\n"
                )
                parts.append(end_to_end(result["end_to_end"]) + "\n")
    return "\n".join(parts)


def write(out: Path, slug: str, machine: str, results: dict[str, Any]) -> Path:
    """Adds results to this machine's .json beside the page, and writes the page anew from all of them."""
    out.parent.mkdir(parents=True, exist_ok=True)
    numbers = out.with_name(f"{out.stem}-{slug}.json")
    record = json.loads(numbers.read_text()) if numbers.exists() else {"workloads": {}}
    record["machine"] = machine
    record["workloads"] |= results
    numbers.write_text(json.dumps(record, indent=1) + "\n")
    rewrite(out)
    return numbers


def rewrite(out: Path) -> None:
    """The page from the .json files beside it."""
    found = sorted(out.parent.glob(f"{out.stem}-*.json"))
    out.write_text(page([json.loads(path.read_text()) for path in found]))
