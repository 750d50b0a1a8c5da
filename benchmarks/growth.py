"""How the time of a round grows: `python benchmarks/growth.py --help`.

The 2NN on examples of 784 bytes, batch 60, SGD. One thing grows at a time: n (cohort), K (local steps), m (workers),
P (parameters, by the width), devices, hosts (processes that meet over loopback, each with its part of the cores); and
what does not shrink with more devices (`overheads.py`). All values take turns, several times; medians; CPU seconds
stand beside wall seconds. Exponents are fitted where the part that does not grow is a small one.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from host_group import Hosts
from overheads import APART
from rounds import command, machine, timed
from turns import Pair, in_turns, middle

ROWS, FEATURES, BATCH = 4, 784, 60
# Two-sided 95% quantiles of Student's t, by degrees of freedom.
STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)

# An exponent is fitted where what grows is at least so many times what does not.
GROWN = 4


class Point(NamedTuple):
    """What is measured; devices 0 means all."""

    cohort: int = 10
    steps: int = 10
    workers: int = 1000
    hidden: int = 200
    devices: int = 0
    hosts: int = 1


# What grows: the field, its values, and the rest of the point.
AXES: dict[str, tuple[str, tuple[int, ...], Point]] = {
    "cohort": ("cohort", (1, 2, 4, 8, 16, 32, 64, 128, 256), Point()),
    "steps": ("steps", (1, 2, 4, 8, 16, 32, 64, 128), Point()),
    "workers": ("workers", (100, 1000, 10_000, 100_000, 1_000_000), Point()),
    "parameters": ("hidden", (12, 25, 50, 100, 200, 400, 800, 1600), Point(steps=4)),
    "devices": ("devices", (1, 2, 4, 8), Point(cohort=64)),
    "hosts": ("hosts", (1, 2, 4), Point(cohort=64)),
}
LINES = ("cohort", "steps", "workers", "parameters")


def main() -> None:
    """Measures, fits and prints; with --out also writes the numbers and the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--what", default=",".join([*AXES, *APART]), help="what grows, with commas")
    parser.add_argument("--quick", action="store_true", help="fewer values, shorter repeats")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each repeat")
    parser.add_argument(
        "--out", type=Path, help="a .json file for the numbers; what it has of other runs stays"
    )
    parser.add_argument("--figure", type=Path, help="draw the numbers of --out into this .png")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(*map(int, options.serve.split(":")))
    if options.quick:
        options.repeats, options.seconds = 3, 0.3
    found: dict[str, Any] = {}
    for what in filter(None, options.what.split(",")):
        found[what] = {"command": command()} | grown(what, options)
        print(f"\n{what}\n{table(what, found[what])}", flush=True)
    if options.out:
        before = json.loads(options.out.read_text()) if options.out.is_file() else {}
        found = before | {"machine": machine()} | found
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    if options.figure:
        from growth_figure import draw

        draw(found, options.figure)


def grown(what: str, options: argparse.Namespace) -> dict[str, Any]:
    """The numbers of one axis."""
    if what in APART:
        return {"rows": APART[what](options)}
    field, values, base = AXES[what]
    if options.quick:
        values = values[:3]
    if what == "hosts":
        return {"rows": on_hosts(values, base, options)}
    if what == "devices":
        values = tuple(value for value in values if value <= device_count())
    rows = on_devices(field, values, base, options)
    return {"rows": rows} | ({"fit": fits(rows)} if what in LINES and len(rows) > 2 else {})


def device_count() -> int:
    """How many there are."""
    import jax

    from enlist.engine import platform

    platform.prepare()
    return jax.local_device_count()


def on_devices(
    field: str, values: Sequence[int], base: Point, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """All values of a field in turns."""
    from enlist.problem.models import count

    sessions = {value: session_at(base._replace(**{field: value}), "device") for value in values}
    runs = {value: _advancing(session) for value, session in sessions.items()}
    seen = in_turns(runs, options)
    rows = []
    for value, session in sessions.items():
        size = count(session.params()) if field == "hidden" else value
        rows.append({"value": size} | middle(seen[value]))
    return rows


def _advancing(session: Any) -> Callable[[int], Pair]:
    def run(rounds: int) -> Pair:
        def advance() -> None:
            info, _ = session.advance(rounds, False)
            assert np.isfinite(info.delta_norm)

        return timed(advance)

    return run


def session_at(point: Point, rows: str) -> Any:
    """A compiled run of the benchmark's problem."""
    import jax

    from enlist import Dataset, Settings, Steps, fedavg, models, sampling
    from enlist.engine import platform
    from enlist.engine.session import links_of, open_session
    from enlist.engine.task import Task
    from enlist.problem.federation import Federation, Holding

    platform.prepare()
    rng = np.random.default_rng(0)
    many = point.workers * ROWS
    x = np.frombuffer(rng.bytes(many * FEATURES), np.uint8).reshape(many, FEATURES)
    y = rng.integers(0, 10, many).astype(np.int32)
    data = Dataset(x, y, x[:100], y[:100], classes=10, name="random")
    begins = np.arange(0, many, ROWS, dtype=np.int32)
    held = Holding(np.arange(many, dtype=np.int32), begins, np.full(point.workers, ROWS, np.int32))
    fed = Federation(data, held)
    one = "one-by-one" if jax.devices()[0].platform == "cpu" else "batch"
    settings = Settings(execution=one, devices=point.devices, rows=rows, eval_rows=100)
    model, strategy = models.two_nn(hidden=point.hidden), sampling.without_replacement(point.cohort)
    work, links = Steps(point.steps, BATCH), links_of(settings, fed.workers)
    return open_session(Task(fedavg(), model, fed, strategy, work, settings, links))


def fits(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Exponent and affine fit, by wall and by CPU time."""
    values = [row["value"] for row in rows]
    return {kind: fit(values, [row[kind] for row in rows]) for kind in ("ms", "lowest_ms", "cpu_ms")}


def fit(values: Sequence[float], times: Sequence[float]) -> dict[str, Any]:
    """time = a + b value; and time ~ value^exponent with a 95% interval, where b value > 4 a (at least 3 values).

    Both are least squares; the affine one in relative errors.
    """
    v, t = np.asarray(values, float), np.asarray(times, float)
    (constant, slope), *_ = np.linalg.lstsq(np.stack([1 / t, v / t], 1), np.ones(len(t)), rcond=None)
    above = v * slope > GROWN * constant
    used = above if above.sum() >= 3 else np.arange(len(v)) >= len(v) - 3
    if slope * v.max() < 0.5 * constant:
        used = np.ones(len(v), bool)  # it hardly grows: the exponent is that of all values
    x, y = np.log(v[used]), np.log(t[used])
    spread = x - x.mean()
    exponent = float(spread @ y / (spread @ spread))
    left = y - y.mean() - exponent * spread
    free = len(x) - 2
    error = float(np.sqrt(left @ left / free / (spread @ spread)))
    half = STUDENT[min(free, len(STUDENT)) - 1] * error
    return {
        "constant_ms": float(constant),
        "ms_each": float(slope),
        "exponent": exponent,
        "interval": [exponent - half, exponent + half],
        "fitted_from": float(v[used].min()),
        "fitted_to": float(v[used].max()),
    }


def on_hosts(values: Sequence[int], base: Point, options: argparse.Namespace) -> list[dict[str, Any]]:
    """All numbers of hosts in turns."""
    words = [sys.executable, __file__, "--serve"]
    groups = {value: Hosts(value, [*words, f"{value}:{base.cohort}"]) for value in values}
    seen = in_turns({value: group.run for value, group in groups.items()}, options)
    for group in groups.values():
        group.close()
    return [{"value": value} | groups[value].facts | middle(seen[value]) for value in values]


def serve(count: int, cohort: int) -> None:
    """One of several hosts: runs as many rounds as each line of the input says."""
    from enlist.engine import platform
    from enlist.launch import joining

    platform.prepare()
    if count > 1:
        joining.join(joining.meeting(None, None))
    session = session_at(Point(cohort=cohort), "host")
    advance = _advancing(session)
    advance(1)
    print(json.dumps({"devices": session.plan.devices, "turns": session.plan.turns}), flush=True)
    for line in sys.stdin:
        wall, cpu = advance(int(line))
        print(json.dumps({"wall": wall, "cpu": cpu}), flush=True)


def table(what: str, found: dict[str, Any]) -> str:
    """For people."""
    lines = [timing(row) if "value" in row else json.dumps(row) for row in found["rows"]]
    for kind, line in found.get("fit", {}).items():
        low, high = line["interval"]
        lines.append(
            f"{kind}: value^{line['exponent']:.3f} (95%: {low:.3f} to {high:.3f}) from {line['fitted_from']:g} to "
            f"{line['fitted_to']:g}; {line['constant_ms']:.3g} ms + {line['ms_each']:.3g} ms each"
        )
    return "\n".join(lines)


def timing(row: dict[str, Any]) -> str:
    """One measured line."""
    spread = f"({row['lowest_ms']:.2f}-{row['highest_ms']:.2f})"
    return f"{row['value']:>10,} {row['ms']:>10.2f} ms {spread:>20}  CPU {row['cpu_ms']:.2f} ms"


if __name__ == "__main__":
    main()
