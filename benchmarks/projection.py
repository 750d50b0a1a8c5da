"""What a round would take on many GPUs: `python benchmarks/projection.py`. Nothing here was run on more than one.

Measured: a round on one H200 for two cohorts (results/rounds-h200-kernels.json), of which follows a + b n. Counted:
the bytes that a device receives (collectives.py). Assumed, and options: how fast they come, what a collective costs
to start, what each peer costs in an all-to-all, and, unless results/growth-h200.json has it (growth.py --what fold),
what a message costs to add up: every device adds its slices of all n, one after the other.

    T(n, d) = a + b ceil(n / d) + bytes(n, d) / bandwidth + 2 start + (d - 1) peer + (n - n / d) add
    efficiency = T(n, 1) / (d T(n, d))
"""

import argparse
import json
import math
from pathlib import Path
from typing import NamedTuple

from collectives import Layout, received

RESULTS = Path(__file__).parent.parent / "results"
# Microseconds to add a message, where it was not measured.
ASSUMED_ADDING = 2.0
PARAMETERS = {"two_nn": 199_210, "cnn": 582_026}


class Network(NamedTuple):
    """GB/s of each device, and microseconds: all assumed, but perhaps the last."""

    bandwidth: float
    start: float
    peer: float
    add: float


class Line(NamedTuple):
    """Milliseconds of a round on one device: `constant + each * n`."""

    constant: float
    each: float


class Cost(NamedTuple):
    """Milliseconds of a round on d devices: computing, bytes, starting collectives and their peers, adding up."""

    computing: float
    bytes: float
    starting: float
    adding: float

    @property
    def all(self) -> float:
        """Together."""
        return sum(self)


def main() -> None:
    """Prints a table for each model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bandwidth", type=float, default=50.0, help="assumed GB/s that reach a device")
    parser.add_argument(
        "--start", type=float, default=20.0, help="assumed microseconds to start a collective"
    )
    parser.add_argument(
        "--peer", type=float, default=1.0, help="assumed microseconds for each peer of an all-to-all"
    )
    parser.add_argument("--add", type=float, help="microseconds to add a message up")
    parser.add_argument("--cohorts", default="1000,10000")
    parser.add_argument("--devices", default="1,8,64,250,500,1000")
    options = parser.parse_args()
    add, how = (options.add, "given") if options.add is not None else adding()
    network = Network(options.bandwidth, options.start, options.peer, add)
    print(f"assumed: {options.bandwidth:g} GB/s, {options.start:g} us to start, {options.peer:g} us a peer")
    print(f"{how}: {add:.2f} us to add a message")
    for model in PARAMETERS:
        line = measured(model)
        print(f"\n{model}: {line.constant:.2f} ms + {line.each:.3f} ms a worker, measured on one H200")
        print("| n | d | computing ms | bytes ms | starting ms | adding ms | round ms | efficiency |")
        print("|---|---|---|---|---|---|---|---|")
        for cohort in map(int, options.cohorts.split(",")):
            for devices in map(int, options.devices.split(",")):
                cost = projected(model, line, network, cohort, devices)
                parts = " | ".join(f"{part:.2f}" for part in (*cost, cost.all))
                share = efficiency(model, line, network, cohort, devices)
                print(f"| {cohort:,} | {devices:,} | {parts} | {share:.2f} |")
            print(f"n = {cohort:,}: efficiency 1/2 up to d = {halved(model, line, network, cohort):,}")


def measured(model: str) -> Line:
    """From the times of the smallest and the largest cohort of equal workers."""
    rows = json.loads((RESULTS / "rounds-h200-kernels.json").read_text())["rows"]
    times = {
        row["cohort"]: row["ms_a_round"] for row in rows if (row["model"], row["partition"]) == (model, "iid")
    }
    few, many = min(times), max(times)
    each = (times[many] - times[few]) / (many - few)
    return Line(times[few] - each * few, each)


def adding() -> tuple[float, str]:
    """Microseconds to add a message of a short slice, and whether that was measured."""
    place = RESULTS / "growth-h200.json"
    rows = json.loads(place.read_text()).get("fold", {}).get("rows", []) if place.is_file() else []
    if not rows:
        return ASSUMED_ADDING, "assumed"
    most = max((row for row in rows if row["length"] <= 1000), key=lambda row: row["messages"])
    return 1e3 * most["ms"] / most["messages"], "measured on one H200"


def projected(model: str, line: Line, network: Network, cohort: int, devices: int) -> Cost:
    """A round on so many devices, all of whose workers run side by side."""
    workers = math.ceil(cohort / devices)
    computing = line.constant + line.each * workers
    if devices == 1:
        return Cost(computing, 0.0, 0.0, 0.0)
    layout = Layout(cohort, PARAMETERS[model], devices, workers)
    carried = sum(received(layout).values()) / (network.bandwidth * 1e9)
    starting = (2 * network.start + (devices - 1) * network.peer) / 1e6
    return Cost(computing, 1e3 * carried, 1e3 * starting, (cohort - workers) * network.add / 1e3)


def efficiency(model: str, line: Line, network: Network, cohort: int, devices: int) -> float:
    """Of one device's time over that of all, together."""
    alone = projected(model, line, network, cohort, 1).all
    return alone / (devices * projected(model, line, network, cohort, devices).all)


def halved(model: str, line: Line, network: Network, cohort: int) -> int:
    """The most devices that are still at least half as useful each as one alone."""
    tried = range(1, cohort + 1)
    return max(d for d in tried if efficiency(model, line, network, cohort, d) >= 0.5)


if __name__ == "__main__":
    main()
