"""What recipes took: runs, device time, wall time, machines, versions."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from enlist.report.paper.page import Grid
from enlist.studies.paper.raw import Curve, Raw, Sitting
from enlist.studies.paper.recipe import Recipe
from enlist.studies.paper.setting import Scale, Setting


class Spent(NamedTuple):
    """What runs took on one machine.

    Args:
        wall_seconds: their share of what groups of runs took, compiling and files included; None where not recorded.
    """

    runs: int
    device_seconds: float
    wall_seconds: float | None


class Cost(NamedTuple):
    """Of one recipe.

    Args:
        wanted: runs that it needs; `runs` of them are there.
        machines: what they took on each.
    """

    runs: int
    wanted: int
    diverged: int
    machines: Mapping[str, Spent]

    def words(self) -> str:
        """In a sentence."""
        if not self.wanted:
            return "It takes no runs."
        there = f"{self.runs} of {self.wanted} runs" if self.runs < self.wanted else f"{self.runs} runs"
        gone = f", {self.diverged} of them diverged" if self.diverged else ""
        if not self.runs:
            return f"{there}."
        return f"{there}{gone}: {'; '.join(_on(*each) for each in self.machines.items())}."


def _on(machine: str, spent: Spent) -> str:
    device = f"{_minutes(spent.device_seconds)} device minutes on {machine}"
    if spent.wall_seconds is None:
        return device
    return f"{device}, {_minutes(spent.wall_seconds)} of wall time with compiling"


def cost_of(recipe: Recipe, raw: Raw, sittings: Sequence[Sitting], scale: Scale) -> Cost:
    """What the runs of a recipe took."""
    wanted = list(dict.fromkeys(recipe.runs(scale)))
    curves = [raw.curves[setting] for setting in wanted if setting in raw.curves]
    return Cost(
        len(curves),
        len(wanted),
        sum(curve.status == "diverged" for curve in curves),
        by_machine(curves, wall_shares(raw, sittings)),
    )


def by_machine(curves: Iterable[Curve], shares: Mapping[Setting, float]) -> dict[str, Spent]:
    """What runs took, machine by machine."""
    groups: defaultdict[str, list[Curve]] = defaultdict(list)
    for curve in curves:
        groups[curve.device].append(curve)
    found = {}
    for machine, own in groups.items():
        known = [shares[curve.setting] for curve in own if curve.setting in shares]
        wall = sum(known) if len(known) == len(own) else None
        found[machine] = Spent(len(own), sum(curve.device_seconds for curve in own), wall)
    return found


def wall_shares(raw: Raw, sittings: Sequence[Sitting]) -> dict[Setting, float]:
    """Of the wall time of groups on a machine, by what they are called, each run's share, by its device time."""
    groups: defaultdict[tuple[str, str], list[Curve]] = defaultdict(list)
    for curve in raw:
        groups[curve.setting.group(), curve.device].append(curve)
    walls: defaultdict[tuple[str, str], float] = defaultdict(float)
    for sitting in sittings:
        walls[sitting.what, sitting.device] += sitting.wall_seconds
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
    walls: defaultdict[str, float] = defaultdict(float)
    for sitting in sittings:
        walls[sitting.device] += sitting.wall_seconds
    machines = {
        name: spent._replace(wall_seconds=walls.get(name)) for name, spent in by_machine(curves, {}).items()
    }
    versions: dict[str, dict[str, Any]] = {}
    for curve in curves:
        key = json.dumps(dict(curve.versions), sort_keys=True)
        versions.setdefault(key, {"versions": dict(curve.versions), "runs": 0})["runs"] += 1
    return {
        "scale": scale.name,
        "runs": len(curves),
        "diverged": sum(curve.status == "diverged" for curve in curves),
        "device_seconds": round(sum(curve.device_seconds for curve in curves), 2),
        "wall_seconds": round(sum(walls.values()), 2),
        "machines": _plain(machines),
        "versions": list(versions.values()),
        "worker_seconds": [{"of": list(key), "seconds": value} for key, value in raw.seconds.items()],
        "recipes": {recipe.name: _facts(cost_of(recipe, raw, sittings, scale)) for recipe in recipes},
    }


def _facts(cost: Cost) -> dict[str, Any]:
    return cost._asdict() | {"machines": _plain(cost.machines)}


def _plain(machines: Mapping[str, Spent]) -> dict[str, Any]:
    return {
        name: {
            "runs": spent.runs,
            "device_seconds": round(spent.device_seconds, 2),
            "wall_seconds": None if spent.wall_seconds is None else round(spent.wall_seconds, 2),
        }
        for name, spent in machines.items()
    }


def costs_of(facts: dict[str, Any]) -> Grid:
    """The environment's recipes as a table, a row for each machine: heads and rows."""
    rows = []
    for name, cost in facts["recipes"].items():
        runs = f"{cost['runs']}" if cost["runs"] == cost["wanted"] else f"{cost['runs']} of {cost['wanted']}"
        rows += _rows([name, runs, str(cost["diverged"])], cost["machines"])
    rows += _rows(["all runs", str(facts["runs"]), str(facts["diverged"])], facts["machines"])
    return ["recipe", "runs", "diverged", "machine", "runs there", "device minutes", "wall minutes"], rows


def _rows(first: Sequence[str], machines: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    if not machines:
        return [[*first, *["–"] * 4]]
    return [
        [
            *(first if number == 0 else [""] * len(first)),
            name,
            str(spent["runs"]),
            _minutes(spent["device_seconds"]),
            "–" if spent["wall_seconds"] is None else _minutes(spent["wall_seconds"]),
        ]
        for number, (name, spent) in enumerate(machines.items())
    ]


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f}" if seconds >= 60 else f"{seconds / 60:.2f}"
