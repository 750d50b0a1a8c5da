"""What a federation's size costs: `python benchmarks/scale.py`, and with `--streaming` what it costs not to hold it.

From 10^3 to 10^6 workers whose rows lie in a folder of .npy files (784 bytes an example, 4 to 64 rows a worker, about
16), n = 1,000, logistic regression, one local epoch, batch 10. Each federation has a process of its own: how long
until its first round may start, how much memory it takes, how long a round is. The processes take turns, several
times; medians. Before a turn the rows are read into the system's file cache; a last turn begins without them.

`--streaming` runs one federation that fits both ways in turns: all rows on the devices, and each cohort's sent as the
rounds come to it.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rounds import command, machine, timed

FEATURES, CLASSES, TESTED = 784, 10, 2000
FEWEST, MORE, MOST = 4, 12.5, 64
# Rows that are made at a time.
PIECE = 2**16
MIB = 2**20
CASES = ("two_nn:10:E5:float32", "two_nn:10:E5:uint8", "logistic:10:K1:float32")


def main() -> None:
    """Measures and prints; with --out also writes the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", default="1000,10000,100000,1000000", help="m, several with commas")
    parser.add_argument("--cohort", type=int, default=1000, help="n")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "enlist-scale")
    parser.add_argument(
        "--streaming", action="store_true", help="rows on the devices against rows on the host"
    )
    parser.add_argument(
        "--cases", default=",".join(CASES), help="of --streaming: MODEL:n:E<epochs>|K<steps>:DTYPE"
    )
    parser.add_argument("--federation", type=int, default=500, help="of --streaming: m, each with 600 rows")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each repeat")
    parser.add_argument("--execution", default="auto")
    parser.add_argument("--out", type=Path, help="a .json file for the numbers")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options)
    if options.streaming:
        from streaming import stream, streaming_table

        rows = [stream(text, options) for text in options.cases.split(",")]
        print(streaming_table(rows))
    else:
        rows = grow(options)
        print(table(rows))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        typed = re.sub(r" --folder[ =]\S+", "", command())
        facts = {"command": typed, "machine": machine(), "rows": rows}
        options.out.write_text(json.dumps(facts, indent=2) + "\n")


def sizes_of(workers: int, seed: int = 0) -> np.ndarray:
    """How many rows each worker holds."""
    drawn = FEWEST + np.random.default_rng([seed, workers]).exponential(MORE, workers)
    return np.minimum(drawn, MOST).astype(np.int64)


def examples(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy copies of ten patterns, and which pattern each is of."""
    patterns = np.random.default_rng(7).integers(0, 2, (CLASSES, FEATURES), np.uint8) * np.uint8(16)
    labels = rng.integers(0, CLASSES, rows).astype(np.int32)
    noise = np.frombuffer(rng.bytes(rows * FEATURES), np.uint8).reshape(rows, FEATURES)
    return (noise >> 1) + patterns[labels], labels


def write(folder: Path, workers: int) -> Path:
    """A federation's folder, made unless it is there already and complete."""
    place, sizes = folder / f"m{workers}", sizes_of(workers)
    facts = {"workers": workers, "rows": int(sizes.sum()), "features": FEATURES}
    done = place / "complete.json"
    if done.is_file() and json.loads(done.read_text()) == facts:
        return place
    place.mkdir(parents=True, exist_ok=True)
    done.unlink(missing_ok=True)
    rng = np.random.default_rng([1, workers])
    x = np.lib.format.open_memmap(place / "x_train.npy", "w+", np.uint8, (facts["rows"], FEATURES))
    y = np.empty(facts["rows"], np.int32)
    for start in range(0, facts["rows"], PIECE):
        end = min(start + PIECE, facts["rows"])
        x[start:end], y[start:end] = examples(rng, end - start)
    x.flush()
    np.save(place / "y_train.npy", y)
    np.save(place / "worker.npy", np.repeat(np.arange(workers, dtype=np.int32), sizes))
    for name, part in zip(("x_test", "y_test"), examples(rng, TESTED), strict=True):
        np.save(place / f"{name}.npy", part)
    done.write_text(json.dumps(facts))
    return place


class Child:
    """A process with one federation, which runs rounds when told to."""

    def __init__(self, place: Path, options: argparse.Namespace, execution: str, cache: str):
        words = [sys.executable, __file__, "--serve", place, "--cohort", options.cohort]
        words += ["--execution", execution, "--began", time.time()]
        # A cache of its own: what compiling costs is to be seen.
        self._process = subprocess.Popen(
            list(map(str, words)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"ENLIST_CACHE": cache},
        )
        self.facts = self._answer()

    def advance(self, rounds: int, cold: bool = False) -> dict[str, Any]:
        """Rounds, and what they took; cold: with no row in the file cache at first."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{rounds} {int(cold)}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a measuring process ended early; what it said stands above")
        return json.loads(line)

    def close(self) -> None:
        """Lets the process end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def grow(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All federations in turns."""
    counts = [int(text) for text in options.workers.split(",")]
    places = {m: write(options.folder, m) for m in counts}
    execution = options.execution
    if execution == "auto":
        with tempfile.TemporaryDirectory() as cache:
            first = Child(places[counts[0]], options, "auto", cache)
            first.close()
            execution = first.facts["execution"]
    children = {}
    for m in counts:
        with tempfile.TemporaryDirectory() as cache:
            children[m] = Child(places[m], options, execution, cache)
    rounds = {m: max(1, round(options.seconds / child.advance(2)["wall"])) for m, child in children.items()}
    seen: dict[int, list[dict[str, Any]]] = {m: [] for m in counts}
    for _ in range(options.repeats):
        for m, child in children.items():
            remember(places[m] / "x_train.npy")
            seen[m].append(child.advance(rounds[m]))
    cold = {m: child.advance(rounds[m], cold=True) for m, child in children.items()}
    for child in children.values():
        child.close()
    rows = [row(m, children[m].facts, seen[m], cold[m]) for m in counts]
    return [each | {"of_the_first": each["ms_a_round"] / rows[0]["ms_a_round"]} for each in rows]


def serve(options: argparse.Namespace) -> None:
    """Sets one federation up, says what that took, then runs as many rounds as each line of the input says."""
    import jax

    from enlist import Epochs, Settings, datasets, fedavg, models, partition, sampling
    from enlist.engine import platform
    from enlist.engine.execution import Execution
    from enlist.engine.session import links_of, open_session
    from enlist.engine.task import Task

    compiling = {"seconds": 0.0}

    def heard(event: str, duration_secs: float, **_: Any) -> None:
        if event.endswith("backend_compile_duration"):
            compiling["seconds"] += duration_secs

    jax.monitoring.register_event_duration_secs_listener(heard)
    platform.prepare()
    jax.devices()
    stages = {"import": time.time() - options.began}
    bare = memory()
    data, stages["load"] = lasting(lambda: datasets.from_folder(options.serve))
    fed, stages["deal"] = lasting(lambda: partition.by_key(data))
    settings = Settings(execution=options.execution, rows="host")
    strategy, model = sampling.without_replacement(options.cohort), models.logistic()
    task = Task(fedavg(), model, fed, strategy, Epochs(1, 10), settings, links_of(settings, fed.workers))
    ready, stages["session"] = lasting(lambda: open_session(task))
    _, stages["program"] = lasting(lambda: ready.advance(0, False))
    held = data.x_train.nbytes + data.y_train.nbytes
    chosen = Execution(ready.plan.lanes, ready.plan.devices).name(options.cohort)
    tell(
        stages=stages, compiling=compiling["seconds"], bare=bare, memory=memory(), data=held, execution=chosen
    )
    for line in sys.stdin:
        rounds, cold = map(int, line.split())
        if cold:
            forget(options.serve / "x_train.npy")
        before, read = vars(ready.read.source.flow).copy(), from_disk()
        wall, cpu = timed(partial(run, ready, rounds))
        flow = {name: (value - before[name]) / rounds for name, value in vars(ready.read.source.flow).items()}
        facts = {"wall": wall / rounds, "cpu": cpu / rounds, "read": (from_disk() - read) / rounds}
        tell(**facts, memory=memory(), flow=flow, bound=ready.read.source.facts()["bound"])
    _, seen = ready.advance(0, True)
    print(
        f"m = {fed.workers}: accuracy {seen.test_metric:.3f} after {int(ready.state.t)} rounds",
        file=sys.stderr,
    )


def lasting(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call gives, and its seconds."""
    start = time.perf_counter()
    return call(), time.perf_counter() - start


def run(session: Any, rounds: int) -> None:
    """Rounds; such as came to nothing are none."""
    info, _ = session.advance(rounds, False)
    assert np.isfinite(info.delta_norm)


def remember(file: Path) -> None:
    """Takes a file into the system's cache."""
    with file.open("rb", buffering=0) as opened:
        while opened.read(PIECE * FEATURES):
            pass


def forget(file: Path) -> None:
    """Takes a file out of the system's cache."""
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def from_disk() -> int:
    """Bytes that this process has had read for it so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def tell(**facts: Any) -> None:
    """One line to the process that asked."""
    print(json.dumps(facts), flush=True)


def memory() -> dict[str, float]:
    """Of this process, in MiB: the most it had (`peak`), what of its own it has now (`own`), file pages (`file`)."""
    names = {"VmHWM": "peak", "RssAnon": "own", "RssFile": "file"}
    lines = (line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return {names[name]: int(rest.split()[0]) / 1024 for name, rest in lines if name in names}


def row(m: int, facts: dict[str, Any], seen: list[dict[str, Any]], cold: dict[str, Any]) -> dict[str, Any]:
    """One line of the table."""
    flow = {name: 1e3 * statistics.mean(each["flow"][name] for each in seen) for name in seen[0]["flow"]}
    peak = max(each["memory"]["peak"] for each in seen)
    own = max(each["memory"]["own"] for each in [facts, *seen])
    return {
        "workers": m,
        "data_mib": facts["data"] / MIB,
        "seconds_to_first_round": sum(facts["stages"].values()),
        "compiling_seconds": facts["compiling"],
        "stages": facts["stages"],
        "peak_mib": peak,
        "own_mib": own,
        "bare_process_mib": facts["bare"]["peak"],
        "peak_over_data": peak * MIB / facts["data"],
        "ms_a_round": 1e3 * statistics.median(each["wall"] for each in seen),
        "ms_best": 1e3 * min(each["wall"] for each in seen),
        "cpu_ms_a_round": 1e3 * statistics.median(each["cpu"] for each in seen),
        "gathering_ms": flow["gathering"],
        "waiting_ms": flow["waiting"],
        "mib_a_round": flow["sent"] / 1e3 / MIB,
        "bound": seen[-1]["bound"],
        "mib_read_a_round": statistics.mean(each["read"] for each in seen) / MIB,
        "cold_ms_a_round": 1e3 * cold["wall"],
        "cold_mib_read_a_round": cold["read"] / MIB,
        "execution": facts["execution"],
    }


def table(rows: list[dict[str, Any]]) -> str:
    """As Markdown."""
    head = ["m", "data MiB", "first round after s", "compiling s", "peak MiB", "own MiB", "peak / data"]
    head += ["ms a round (best)", "CPU ms", "over the first", "gathering ms", "waiting ms", "bound"]
    head += ["cold ms a round", "MiB read"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for r in rows:
        cells = [f"{r['workers']:,}", f"{r['data_mib']:,.0f}", f"{r['seconds_to_first_round']:.1f}"]
        cells += [f"{r['compiling_seconds']:.1f}", f"{r['peak_mib']:.0f}", f"{r['own_mib']:.0f}"]
        cells += [f"{r['peak_over_data']:.2f}", f"{r['ms_a_round']:.1f} ({r['ms_best']:.1f})"]
        cells += [f"{r['cpu_ms_a_round']:.1f}", f"{r['of_the_first']:.2f}", f"{r['gathering_ms']:.1f}"]
        cells += [f"{r['waiting_ms']:.1f}", r["bound"]]
        cells += [f"{r['cold_ms_a_round']:.0f}", f"{r['cold_mib_read_a_round']:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
