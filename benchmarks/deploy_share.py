"""Where the time of a worker's process goes, in fresh processes whose programs are in the cache.

Flower starts a process for every message. Two kinds of processes take turns here: one does what
`enlist.deploy.worker_app` does in steps that are timed, the other calls it as a whole, which must come to the same.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BEGAN = time.time()
START, FLOWER, IMPORTS = "Python's start", "Flower's imports", "imports of enlist and jax"
BOTH, AGAIN, PROGRAM = "the first run", "computing", "tracing, and the program from the cache"
ANSWER = "all of ours, in one call"
Seconds = dict[str, tuple[float, float]]


class Clock:
    """Wall and CPU seconds of one step after the other."""

    def __init__(self, spawned: float):
        self.steps: Seconds = {START: (BEGAN - spawned, 0.0)}
        self.resume()

    def resume(self) -> None:
        """What was done since the last step is of no interest."""
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def step(self, name: str) -> None:
        """Ends a step."""
        self.steps[name] = (time.perf_counter() - self._wall, time.process_time() - self._cpu)
        self.resume()


def in_steps(clock: Clock, app: Path, node: dict[str, Any], order: Path) -> int:
    """What a worker does with an order, step by step; the order is left in a file. Returns how much was compiled."""
    import pickle

    import jax

    from enlist.deploy import messages
    from enlist.deploy.halves import worker_half
    from enlist.deploy.job import problem, read_job
    from enlist.deploy.rows import read_rows
    from enlist.deploy.worker_state import Versions
    from enlist.engine import platform
    from enlist.engine.traffic import travelling

    platform.prepare()
    platform.cache_everything()
    clock.step(IMPORTS)
    misses: list[str] = []
    jax.monitoring.register_event_listener(
        lambda event, **_: misses.append(event) if event.endswith("/cache_misses") else None
    )
    jax.devices()
    clock.step("jax's start")
    job = read_job(app)
    it = problem(job, app)
    rows = read_rows(Path(node["data"]))
    clock.step("reading job and rows")
    algorithm, settings = it.algorithm._replace(rates=it.rates | it.schedules), it.options.settings
    sent = travelling(algorithm, it.model, rows.x[0], rows.y[0], it.work, settings.precision, job.workers)
    clock.step("shapes of what travels")
    if not order.exists():
        order.write_bytes(pickle.dumps(messages.order_record(_order(job, sent, node))))
    record = pickle.loads(order.read_bytes())
    clock.resume()
    asked = messages.read_order(record, sent.down, sent.before)
    versions = Versions(Path(node["home"]) / "state" / job.token)
    versions.settle(asked.acknowledged)
    state = versions.load(asked.acknowledged, lambda: (), sent.state)
    clock.step("reading the order")
    given = (asked.payload, asked.replica, state)
    run = worker_half(it, len(rows.x), False)
    for name in (BOTH, AGAIN):
        got = jax.device_get(run(rows.x, rows.y, settings.seed, asked.t, asked.worker, 0, *given))
        clock.step(name)
    messages.answer_record(
        messages.Answer(
            job.token,
            "local",
            0,
            asked.worker,
            len(rows.x),
            0.0,
            [float(got.weight)],
            [float(got.loss)],
            [got.message],
        )
    )
    clock.step("packing the reply")
    return len(misses)


def as_a_whole(clock: Clock, app: Path, node: dict[str, Any], order: Path) -> int:
    """The same by the worker app's own function."""
    import pickle

    record = pickle.loads(order.read_bytes())
    clock.resume()
    from enlist.deploy.worker_app import answer

    answer(record, node, app)
    clock.step(ANSWER)
    return 0


def _order(job: Any, sent: Any, node: dict[str, Any]) -> Any:
    import jax
    import numpy as np

    from enlist.deploy.messages import LOCAL, Order

    rng = np.random.default_rng(0)
    payload = jax.tree.map(lambda leaf: rng.random(leaf.shape).astype(leaf.dtype) / 100, sent.down)
    return Order(job.token, LOCAL, 0, int(node["id"]), 1, -1, payload, ())


WAYS: dict[str, Callable[[Clock, Path, dict[str, Any], Path], int]] = {
    "steps": in_steps,
    "whole": as_a_whole,
}


def measure(app: Path, data: Path, home: Path, repeats: int) -> dict[str, dict[str, float]]:
    """Medians of each step, wall and CPU seconds. The first process of each kind fills the caches and is not counted.

    Args:
        app: the folder of a run's own files, as it travels.
        data: the rows of worker 0.
        home: a new folder.
    """
    home.mkdir()
    node = {"id": 0, "data": str(data), "home": str(home)}
    seen: list[Seconds] = []
    for repeat in range(1 + repeats):
        told = {way: _ask(way, app, node, home / "order") for way in WAYS}
        if repeat:
            if told["steps"]["compiled"]:
                raise RuntimeError(f"{told['steps']['compiled']} programs were not in the cache")
            seen.append(split(told["steps"]["steps"]) | {ANSWER: told["whole"]["steps"][ANSWER]})
    return medians(seen)


def split(steps: Seconds) -> Seconds:
    """With the first run taken apart: what it took beyond computing went into its program."""
    parts: Seconds = {}
    for name, (wall, cpu) in steps.items():
        if name == BOTH:
            again = steps[AGAIN]
            parts[PROGRAM] = (max(0.0, wall - again[0]), max(0.0, cpu - again[1]))
        else:
            parts[name] = (wall, cpu)
    return parts


def medians(seen: list[Seconds]) -> dict[str, dict[str, float]]:
    """Of each step over the processes."""
    return {
        name: {
            "wall": statistics.median(each[name][0] for each in seen),
            "cpu": statistics.median(each[name][1] for each in seen),
        }
        for name in seen[0]
    }


def _ask(way: str, app: Path, node: dict[str, Any], order: Path) -> dict[str, Any]:
    words = [sys.executable, __file__, way, str(time.time()), str(app), json.dumps(node), str(order)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["a measuring process failed"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """In a fresh process: one way of answering."""
    way, spawned, app, node, order = sys.argv[1:]
    clock = Clock(float(spawned))
    clock.steps[START] = (clock.steps[START][0], time.process_time())
    import flwr.clientapp
    import flwr.supernode.cli.flwr_clientapp  # noqa: F401

    clock.step(FLOWER)
    compiled = WAYS[way](clock, Path(app), json.loads(node), Path(order))
    print(json.dumps({"steps": clock.steps, "compiled": compiled}))


if __name__ == "__main__":
    main()
