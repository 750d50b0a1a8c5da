"""How fast a round is, against what the machine can do: `make bench`, or `python benchmarks/rounds.py --help`.

100 workers x 600 examples of MNIST's shape, E = 5, batch 60; for ResNet-18 500 of CIFAR's, E = 1, batch 50. Each
line is a ratio of two things measured in this run, in turns: the useful arithmetic of a round a second, and that of a
2048^3 matrix product in a plain jax of its own process (float32 on a CPU; on a GPU in the precision that jax chooses
there). Medians over the repeats; CPU seconds stand beside wall seconds, since other jobs may share the cores.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

WORKERS, ROWS, EPOCHS, BATCH = 100, 600, 5, 60
SIDE = 2048
# Multiplications of one example: of each layer's forward product. The input's gradient is not needed in the first.
LAYERS = {
    "two_nn": [784 * 200, 200 * 200, 200 * 10],
    "cnn": [24 * 24 * 25 * 32, 8 * 8 * 25 * 32 * 64, 1024 * 512, 512 * 10],
    "resnet18": [
        32 * 32 * 27 * 64,
        4 * 32 * 32 * 9 * 64 * 64,
        # In each later stage: the first convolution and the shortcut from half as many channels, three more.
        *(
            side * side * ((9 + 1) * c * c // 2 + 3 * 9 * c * c)
            for side, c in ((16, 128), (8, 256), (4, 512))
        ),
        512 * 10,
    ],
}


# Shape of an example, rows of a worker, local epochs, batch.
PROBLEMS: dict[str, tuple[tuple[int, ...], int, int, int]] = {"resnet18": ((32, 32, 3), 500, 1, 50)}
MNIST_LIKE = ((28, 28, 1), ROWS, EPOCHS, BATCH)


class Case(NamedTuple):
    """What is measured."""

    model: str
    cohort: int
    partition: str


PRODUCT = f"""
import sys, time, jax, numpy as np
a = jax.numpy.asarray(np.random.default_rng(0).random(({SIDE}, {SIDE}), dtype=np.float32))
product = jax.jit(lambda a: a @ a)
product(a).block_until_ready()
for line in sys.stdin:
    start = time.perf_counter()
    for _ in range(int(line)):
        b = product(a)
    b.block_until_ready()
    print((time.perf_counter() - start) / int(line), flush=True)
"""


def main() -> None:
    """Measures and prints; with --out also writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cases",
        default="two_nn:10,two_nn:100,two_nn:100:quantity:1.5,cnn:10",
        help="MODEL:COHORT[:PARTITION], ...",
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each repeat")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--execution", default="auto")
    parser.add_argument("--devices", type=int, default=0)
    parser.add_argument("--no-product", action="store_true", help="leave the matrix product out")
    parser.add_argument("--out", type=Path, help="a .json file for the numbers")
    options = parser.parse_args()
    cases = [case(text) for text in options.cases.split(",")]
    rows = measure(cases, options)
    print(table(rows))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(
            json.dumps({"command": command(), "machine": machine(), "rows": rows}, indent=2)
        )


def case(text: str) -> Case:
    """`two_nn:100` or `two_nn:100:quantity:1.5`."""
    model, cohort, *how = text.split(":")
    return Case(model, int(cohort), ":".join(how) or "iid")


def measure(cases: list[Case], options: argparse.Namespace) -> list[dict[str, Any]]:
    """All cases and the product in turns, several times."""
    sessions = {case: session(case, options) for case in cases}
    seen: dict[Any, list[tuple[float, float]]] = {case: [] for case in cases}
    products: list[float] = []
    child = None if options.no_product else start_product()
    rounds = {}
    for case, (advance, _) in sessions.items():
        once = timed(lambda advance=advance: advance(1))[0]
        rounds[case] = max(1, round(options.seconds / once))
    for _ in range(options.repeats):
        for case, (advance, _) in sessions.items():
            if child:
                products.append(ask(child, 10))
            wall, cpu = timed(lambda advance=advance, case=case: advance(rounds[case]))
            seen[case].append((wall / rounds[case], cpu / rounds[case]))
    product = 2 * SIDE**3 / statistics.median(products) if products else None
    return [row(case, seen[case], product, sessions[case][1]) for case in cases]


def session(
    case: Case, options: argparse.Namespace, algorithm: Any = None
) -> tuple[Callable[[int], None], dict[str, Any]]:
    """A compiled run of the benchmark's problem by an algorithm (FedAvg), and what compiling took."""
    import numpy as np

    from enlist import Dataset, Epochs, Settings, fedavg, models, partition, sampling
    from enlist.engine import platform
    from enlist.engine.session import links_of, open_session
    from enlist.engine.task import Task

    platform.prepare()
    rng = np.random.default_rng(0)

    shape, each, epochs, batch = PROBLEMS.get(case.model, MNIST_LIKE)

    def draw(rows: int) -> tuple[Any, Any]:
        return rng.random((rows, *shape), dtype=np.float32), rng.integers(0, 10, rows).astype(np.int32)

    data = Dataset(*draw(WORKERS * each), *draw(1000), classes=10, name="random")
    fed = partition.parse(case.partition)(data, WORKERS, 0)
    settings = Settings(precision=options.precision, execution=options.execution, devices=options.devices)
    start = time.perf_counter()
    ready = open_session(
        Task(
            algorithm or fedavg(),
            getattr(models, case.model)(),
            fed,
            sampling.without_replacement(case.cohort),
            Epochs(epochs, batch),
            settings,
            links_of(settings, WORKERS),
        )
    )
    ready.advance(0, False)
    compile_seconds = time.perf_counter() - start

    def advance(rounds: int) -> None:
        info, _ = ready.advance(rounds, False)
        assert np.isfinite(info.delta_norm)

    return advance, {
        "compile_seconds": compile_seconds,
        "lanes": ready.plan.lanes,
        "devices": ready.plan.devices,
    }


def row(
    case: Case, seen: list[tuple[float, float]], product: float | None, facts: dict[str, Any]
) -> dict[str, Any]:
    """One line of the table."""
    layers = LAYERS[case.model]
    _, each, epochs, _ = PROBLEMS.get(case.model, MNIST_LIKE)
    # Right for unequal workers too if all of them take part.
    examples = case.cohort * epochs * each
    operations = examples * 2 * (2 * sum(layers) + sum(layers[1:]))
    wall = statistics.median(wall for wall, _ in seen)
    rate = operations / wall
    return facts | {
        "model": case.model,
        "cohort": case.cohort,
        "partition": case.partition,
        "ms_a_round": 1e3 * wall,
        "ms_best": 1e3 * min(wall for wall, _ in seen),
        "cpu_ms_a_round": 1e3 * statistics.median(cpu for _, cpu in seen),
        "examples_a_second": examples / wall,
        "gflops": rate / 1e9,
        "product_gflops": None if product is None else product / 1e9,
        "ratio": None if product is None else rate / product,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """As Markdown."""
    head = [
        "model",
        "n",
        "partition",
        "ms a round (best)",
        "CPU ms a round",
        "examples/s",
        "GFLOP/s",
        "product GFLOP/s",
        "ratio",
    ]
    head += ["lanes x devices", "compile s"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for r in rows:
        product = "-" if r["ratio"] is None else f"{r['product_gflops']:.0f}"
        ratio = "-" if r["ratio"] is None else f"{r['ratio']:.2f}"
        cells = [
            r["model"],
            r["cohort"],
            r["partition"],
            f"{r['ms_a_round']:.2f} ({r['ms_best']:.2f})",
            f"{r['cpu_ms_a_round']:.2f}",
        ]
        cells += [
            f"{r['examples_a_second']:.0f}",
            f"{r['gflops']:.0f}",
            product,
            ratio,
            f"{r['lanes']} x {r['devices']}",
            f"{r['compile_seconds']:.1f}",
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return f"{machine()['device']}, {machine()['versions']}\n\n" + "\n".join(lines)


def command() -> str:
    """What was typed, less where the numbers went."""
    words = sys.argv[1:]
    if "--out" in words:
        at = words.index("--out")
        words = words[:at] + words[at + 2 :]
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])


def machine() -> dict[str, Any]:
    """Where this ran."""
    from enlist.engine import platform
    from enlist.engine.summary import versions

    return {"device": platform.describe(), "versions": versions()}


def start_product() -> subprocess.Popen[str]:
    """A process that times matrix products when told to; its jax is as anybody's."""
    return subprocess.Popen(
        [sys.executable, "-c", PRODUCT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def ask(child: subprocess.Popen[str], times: int) -> float:
    """Seconds of one product."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(f"{times}\n")
    child.stdin.flush()
    return float(child.stdout.readline())


def timed(call: Callable[[], None]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


if __name__ == "__main__":
    main()
