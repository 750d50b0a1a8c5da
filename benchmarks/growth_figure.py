"""The picture of `growth.py`: `python benchmarks/growth.py --what "" --out FILE.json --figure FILE.png`."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from collectives import Layout, received

AXES = {
    "cohort": "n, workers in a round",
    "steps": "K, local steps",
    "workers": "m, workers in all",
    "parameters": "P, parameters",
}
BLUE, ORANGE, GREY = "#2b6cb0", "#c05621", "#718096"
MIB = 2**20


def draw(found: dict[str, Any], path: Path) -> None:
    """Writes the picture of what was found."""
    figure, places = plt.subplots(2, 3, figsize=(11, 6.4), layout="constrained")
    for place, (what, label) in zip(places.flat, AXES.items(), strict=False):
        if what in found:
            _line(place, found[what], label)
    _together(places[1, 1], found)
    _bytes(places[1, 2], found.get("bytes", {"rows": []})["rows"])
    for place in places.flat:
        place.grid(alpha=0.25, which="major")
        place.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _line(place: Any, found: dict[str, Any], label: str) -> None:
    """Measured times against one thing that grows, with what was fitted."""
    rows, fitted = found["rows"], found["fit"]["ms"]
    x = np.array([row["value"] for row in rows], float)
    wall = np.array([row["ms"] for row in rows])
    ends = np.array([[row["ms"] - row["lowest_ms"], row["highest_ms"] - row["ms"]] for row in rows]).T
    place.errorbar(x, wall, ends, fmt="o", ms=4, color=BLUE, elinewidth=1, label="wall (lowest to highest)")
    place.plot(
        x, [row["cpu_ms"] for row in rows], "^", ms=4, mfc="none", color=ORANGE, label="CPU, all cores"
    )
    used = x[(x >= fitted["fitted_from"]) & (x <= fitted["fitted_to"])]
    at = np.exp(np.mean(np.log(wall[np.isin(x, used)])))
    middle = np.exp(np.mean(np.log(used)))
    place.plot(used, at * (used / middle) ** fitted["exponent"], color=GREY, lw=1.2)
    low, high = fitted["interval"]
    place.set_title(f"exponent {fitted['exponent']:.2f} ({low:.2f} to {high:.2f})", fontsize=10)
    place.set(xscale="log", yscale="log", xlabel=label, ylabel="ms a round")
    if fitted["exponent"] < 0.2:
        place.set_ylim(wall.min() / 4, wall.max() * 4)
    place.legend(fontsize=7, frameon=False)


def _together(place: Any, found: dict[str, Any]) -> None:
    """The same cohort on several devices of a process, and on several processes."""
    labels, wall, cpu = [], [], []
    for what, word in (("devices", "device"), ("hosts", "process")):
        for row in found.get(what, {"rows": []})["rows"]:
            many = "es" if word == "process" else "s"
            labels.append(f"{row['value']} {word}{many if row['value'] > 1 else ''}")
            wall.append(row["ms"])
            cpu.append(row["cpu_ms"])
    at = np.arange(len(labels))
    place.barh(at - 0.2, wall, 0.4, color=BLUE, label="wall")
    place.barh(at + 0.2, cpu, 0.4, color=ORANGE, alpha=0.7, label="CPU, all cores")
    place.set_yticks(at, labels)
    place.invert_yaxis()
    place.set(xlabel="ms a round, n = 64", xlim=(0, 1.45 * max([1, *wall, *cpu])))
    place.set_title(f"sharing a cohort: {found['machine']['device'].split(',')[0]})", fontsize=10)
    place.legend(fontsize=7, frameon=False)


def _bytes(place: Any, rows: list[dict[str, Any]]) -> None:
    """What a device receives in a round: lines by the formula, dots counted in compiled programs."""
    devices = 2 ** np.arange(1, 11)
    for cohort, color in ((100, GREY), (1000, BLUE), (10_000, ORANGE)):
        sums = [_sum(Layout(cohort, 199_210, int(d), -(-cohort // int(d)))) for d in devices]
        place.plot(devices, sums, color=color, lw=1.2, label=f"n = {cohort:,}")
    dots = [row for row in rows if row["cohort"] == 100]
    counted = [sum(row["counted"].values()) / MIB for row in dots]
    place.plot([row["devices"] for row in dots], counted, "o", ms=4, color=GREY, label="n = 100, counted")
    place.set(xscale="log", yscale="log", xlabel="d, devices", ylabel="MiB a device receives a round")
    place.set_title("bytes, 2NN (0.76 MiB a message)", fontsize=10)
    place.legend(fontsize=7, frameon=False)


def _sum(layout: Layout) -> float:
    return sum(received(layout).values()) / MIB
