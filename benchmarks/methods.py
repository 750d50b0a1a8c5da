"""What a round of other methods costs, in rounds of FedAvg: `python benchmarks/methods.py --help`.

The problem of `rounds.py`; for resnet18 100 workers x 500 examples of 32 x 32 x 3, one epoch, batch 50. Every method
and FedAvg are timed in turns, several times; each line is the median of the ratios to the FedAvg measured beside it,
by wall time and by CPU time.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from rounds import Case, case, command, machine, session, timed

METHODS = "scaffold,fedavg+compress=topk:0.01"


def main() -> None:
    """Measures and prints; with --out also writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", default="two_nn:100", help="MODEL:COHORT[:PARTITION]")
    parser.add_argument("--methods", default=METHODS, help="as enlist compare takes them")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each repeat")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--execution", default="auto")
    parser.add_argument("--devices", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a .json file for the numbers")
    options = parser.parse_args()
    rows = measure(case(options.case), options)
    width = max(len(row["method"]) for row in rows)
    print(f"{'method':<{width}}  ms a round  wall ratio (lowest-highest)  CPU ratio   MiB of memory")
    for row in rows:
        spread = f"{row['ratio']:.2f} ({row['lowest']:.2f}-{row['highest']:.2f})"
        peak = row["peak_mib"] or "-"
        print(
            f"{row['method']:<{width}}  {row['ms']:>10.2f}  {spread:>27}  {row['cpu_ratio']:>9.2f}  {peak:>14}"
        )
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        facts = {"command": command(), "machine": machine(), "case": options.case, "rows": rows}
        options.out.write_text(json.dumps(facts, indent=2))


def measure(problem: Case, options: argparse.Namespace) -> list[dict[str, Any]]:
    """All methods in turns."""
    names = ["fedavg", *options.methods.split(",")]
    runs = {}
    for name in names:
        advance, _ = session(problem, options, algorithm(name))
        advance(1)
        rounds = max(1, round(options.seconds / timed(lambda advance=advance: advance(1))[0]))
        runs[name] = (advance, rounds, memory())
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for _ in range(options.repeats):
        for name, (advance, rounds, _) in runs.items():
            wall, cpu = timed(lambda advance=advance, rounds=rounds: advance(rounds))
            seen[name].append((wall / rounds, cpu / rounds))
    return [row(name, seen[name], seen["fedavg"], runs[name][2]) for name in names]


def row(
    name: str, seen: list[tuple[float, float]], beside: list[tuple[float, float]], peak: int | None
) -> dict[str, Any]:
    """One line of the table."""
    ratios = [mine[0] / other[0] for mine, other in zip(seen, beside, strict=True)]
    return {
        "method": name,
        "ms": 1e3 * statistics.median(wall for wall, _ in seen),
        "cpu_ms": 1e3 * statistics.median(cpu for _, cpu in seen),
        "ratio": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
        "cpu_ratio": statistics.median(mine[1] / other[1] for mine, other in zip(seen, beside, strict=True)),
        "peak_mib": peak,
    }


def algorithm(name: str) -> Any:
    """A method as `enlist compare` takes it."""
    from enlist.engine import platform

    platform.prepare()
    from enlist.launch.compare import read_methods
    from enlist.launch.methods import algorithm
    from enlist.options import unflatten
    from enlist.options.study import CompareOptions

    (typed,) = read_methods(unflatten(CompareOptions, {"algorithms": name}))
    return algorithm(*typed.candidates[0])


def memory() -> int | None:
    """The most that the device has held so far, in MiB; None where it does not say."""
    import jax

    stats = jax.local_devices()[0].memory_stats() or {}
    return None if "peak_bytes_in_use" not in stats else stats["peak_bytes_in_use"] // 2**20


if __name__ == "__main__":
    main()
