"""pfl-research's published benchmark in enlist, end to end: `python benchmarks/peers/pfl_cifar.py`.

CIFAR-10 dealt i.i.d. to 1,000 workers of 50 examples, 50 a round, 1,500 rounds, one local epoch, batch 10, worker
rate 0.1, server rate 1, the small CNN of `models.py`, accuracy on the test set every 10 rounds. Seconds count from
the start of the process; everything is compiled anew unless `--cached`.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workloads import PFL_CIFAR, PFL_CIFAR_EVERY, PFL_CIFAR_ROUNDS

IMPORTED = time.time()
LOOKED_AT = 500


def main() -> int:
    """Trains, prints."""
    options = arguments()
    import jax
    from models import pfl_cnn

    from enlist import Dataset, EnlistError, Epochs, datasets, fedavg, partition
    from enlist.engine import platform
    from enlist.engine.session import open_session
    from enlist.engine.simulate import make_task

    if not options.cached:
        jax.config.update("jax_enable_compilation_cache", False)
    platform.prepare()
    try:
        data = (
            Dataset(*random_arrays(), classes=10, name="random") if options.synthetic else datasets.cifar10()
        )
    except EnlistError as error:
        print(f"{error}; or give --synthetic", file=sys.stderr)
        return 2
    settings = {"precision": options.precision, "execution": options.execution, "seed": options.seed}
    task = make_task(
        fedavg(worker_lr=PFL_CIFAR.worker_lr, server_lr=PFL_CIFAR.server_lr),
        pfl_cnn(),
        partition.iid(data, PFL_CIFAR.workers, options.seed),
        PFL_CIFAR.cohort,
        Epochs(PFL_CIFAR.epochs, PFL_CIFAR.batch),
        settings,
    )
    before = time.perf_counter()
    session = open_session(task)
    session.advance(0, False)
    look = accuracy(session, data)
    look()
    compiled = time.perf_counter() - before
    began, seen = process_age(), []
    for done in range(0, options.rounds, PFL_CIFAR_EVERY):
        session.advance(min(PFL_CIFAR_EVERY, options.rounds - done), False)
        seen.append(look())
    say(
        options,
        {
            "total_seconds": process_age(),
            "start_seconds": began,
            "compile_seconds": compiled,
            "rounds": options.rounds,
            "evaluations": len(seen),
            "accuracy": seen[-1],
            "best_accuracy": max(seen),
        },
    )
    return 0


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=PFL_CIFAR_ROUNDS)
    parser.add_argument("--synthetic", action="store_true", help="random examples of CIFAR-10's shape")
    parser.add_argument("--cached", action="store_true", help="use what earlier runs compiled")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--execution", default="auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    return parser.parse_args()


def random_arrays() -> Any:
    """x, y to train on, x, y to test on."""
    import numpy as np

    rng = np.random.default_rng(0)
    for rows in (PFL_CIFAR.workers * PFL_CIFAR.rows, 10_000):
        yield rng.standard_normal((rows, *PFL_CIFAR.shape), dtype=np.float32)
        yield rng.integers(0, 10, rows).astype(np.int32)


def accuracy(session: Any, data: Any) -> Callable[[], float]:
    """A look at the test set in blocks, each split over all devices."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    model, devices = session.plan.model, jax.local_devices()
    block = next(
        rows for rows in range(LOOKED_AT, 0, -1) if rows % len(devices) == 0 and len(data.x_test) % rows == 0
    )
    split = NamedSharding(Mesh(np.array(devices), ("rows",)), PartitionSpec("rows"))
    blocks = [
        jax.device_put((data.x_test[at : at + block], data.y_test[at : at + block]), split)
        for at in range(0, len(data.x_test), block)
    ]
    hits = jax.jit(lambda params, x, y: model.metric(model.apply(params, x), y).sum())

    def look() -> float:
        params = session.params()
        return float(sum(hits(params, x, y) for x, y in blocks)) / len(data.x_test)

    return look


def say(options: argparse.Namespace, result: dict[str, Any]) -> None:
    """In words, or as JSON."""
    if options.json:
        print(json.dumps(result))
        return
    print(
        f"{result['total_seconds']:.1f} s from the start of the process: {result['start_seconds']:.1f} s to the "
        f"first round, of which {result['compile_seconds']:.1f} s compiling; {result['rounds']} rounds with "
        f"{result['evaluations']} evaluations; test accuracy {result['accuracy']:.4f} (best "
        f"{result['best_accuracy']:.4f})"
    )


def process_age() -> float:
    """Seconds since this process began, imports included; where that cannot be read, since the first import."""
    try:
        started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        up = float(Path("/proc/uptime").read_text().split()[0])
        return up - started / os.sysconf("SC_CLK_TCK")
    except OSError:
        return time.time() - IMPORTED


if __name__ == "__main__":
    sys.exit(main())
