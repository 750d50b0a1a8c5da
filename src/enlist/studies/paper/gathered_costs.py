"""What recipes took: runs, device time, wall time, machines, versions."""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from enlist.report.paper_page import Grid
from enlist.studies.paper.raw import Curve, Raw, Sitting
from enlist.studies.paper.recipe import Recipe
from enlist.studies.paper.setting import Scale, Setting


class Cost(NamedTuple):
    """Of one recipe.

    Args:
        wanted: runs that it needs; `runs` of them are there.
        wall_seconds: its share of what groups of runs took, compiling and files included; None where not recorded.
    """

    runs: int
    wanted: int
    diverged: int
    device_seconds: float
    wall_seconds: float | None
    machines: Sequence[str]

    def words(self) -> str:
        """In a sentence."""
        if not self.wanted:
            return "It takes no runs."
        there = f"{self.runs} of {self.wanted} runs" if self.runs < self.wanted else f"{self.runs} runs"
        gone = f", {self.diverged} of them diverged" if self.diverged else ""
        if not self.runs:
            return f"{there}."
        wall = (
            ""
            if self.wall_seconds is None
            else f"; {_minutes(self.wall_seconds)} minutes of wall time, compiling included"
        )
        return f"{there}{gone}: {_minutes(self.device_seconds)} device minutes on {', '.join(self.machines)}{wall}."


def cost_of(recipe: Recipe, raw: Raw, sittings: Sequence[Sitting], scale: Scale) -> Cost:
    """What the runs of a recipe took."""
    wanted = list(dict.fromkeys(recipe.runs(scale)))
    curves = [raw.curves[setting] for setting in wanted if setting in raw.curves]
    shares = wall_shares(raw, sittings)
    known = [shares[curve.setting] for curve in curves if curve.setting in shares]
    return Cost(
        len(curves),
        len(wanted),
        sum(curve.status == "diverged" for curve in curves),
        sum(curve.device_seconds for curve in curves),
        sum(known) if known and len(known) == len(curves) else None,
        list(dict.fromkeys(curve.device for curve in curves)),
    )


def wall_shares(raw: Raw, sittings: Sequence[Sitting]) -> dict[Setting, float]:
    """Of the wall time of groups, by what they are called, each run's share: as its share of their device time."""
    groups: defaultdict[str, list[Curve]] = defaultdict(list)
    for curve in raw:
        groups[curve.setting.group()].append(curve)
    walls: defaultdict[str, float] = defaultdict(float)
    for sitting in sittings:
        walls[sitting.what] += sitting.wall_seconds
    shares = {}
    for what, wall in walls.items():
        total = sum(curve.device_seconds for curve in groups[what])
        for curve in groups[what]:
            part = curve.device_seconds / total if total else 1 / len(groups[what])
            shares[curve.setting] = wall * part
    return shares


def environment(
    raw: Raw, sittings: Sequence[Sitting], recipes: Sequence[Recipe], scale: Scale
) -> dict[str, Any]:
    """Versions, machines, counts, and seconds by recipe, ready for JSON."""
    curves = list(raw)
    machines: dict[str, dict[str, Any]] = {}
    versions: dict[str, dict[str, Any]] = {}
    for curve in curves:
        machine = machines.setdefault(curve.device, {"runs": 0, "device_seconds": 0.0})
        machine["runs"] += 1
        machine["device_seconds"] += curve.device_seconds
        key = json.dumps(dict(curve.versions), sort_keys=True)
        versions.setdefault(key, {"versions": dict(curve.versions), "runs": 0})["runs"] += 1
    for machine in machines.values():
        machine["device_seconds"] = round(machine["device_seconds"], 2)
    return {
        "scale": scale.name,
        "runs": len(curves),
        "diverged": sum(curve.status == "diverged" for curve in curves),
        "device_seconds": round(sum(curve.device_seconds for curve in curves), 2),
        "wall_seconds": round(sum(sitting.wall_seconds for sitting in sittings), 2),
        "machines": machines,
        "versions": list(versions.values()),
        "worker_seconds": [{"of": list(key), "seconds": value} for key, value in raw.seconds.items()],
        "recipes": {recipe.name: _facts(cost_of(recipe, raw, sittings, scale)) for recipe in recipes},
    }


def _facts(cost: Cost) -> dict[str, Any]:
    wall = None if cost.wall_seconds is None else round(cost.wall_seconds, 2)
    return {
        "runs": cost.runs,
        "wanted": cost.wanted,
        "diverged": cost.diverged,
        "device_seconds": round(cost.device_seconds, 2),
        "wall_seconds": wall,
        "machines": list(cost.machines),
    }


def costs_of(facts: dict[str, Any]) -> Grid:
    """The environment's recipes as a table: heads and rows."""
    rows = []
    for name, cost in facts["recipes"].items():
        runs = f"{cost['runs']}" if cost["runs"] == cost["wanted"] else f"{cost['runs']} of {cost['wanted']}"
        wall = "–" if cost["wall_seconds"] is None else _minutes(cost["wall_seconds"])
        spent = [_minutes(cost["device_seconds"]), wall, ", ".join(cost["machines"]) or "–"]
        rows.append([name, runs, str(cost["diverged"]), *spent])
    totals = [_minutes(facts[name]) for name in ("device_seconds", "wall_seconds")]
    rows.append(
        ["all runs", str(facts["runs"]), str(facts["diverged"]), *totals, ", ".join(facts["machines"])]
    )
    return ["recipe", "runs", "diverged", "device minutes", "wall minutes", "machine"], rows


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f}" if seconds >= 60 else f"{seconds / 60:.2f}"
