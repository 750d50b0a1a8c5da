"""One federation with its rows on the devices, and with its rows on the host: `scale.py --streaming`."""

import argparse
import statistics
from typing import Any, NamedTuple

import numpy as np
from rounds import machine, timed

CLASSES, ROWS = 10, 600
MIB = 2**20


class Case(NamedTuple):
    """What is streamed: workers of 600 examples of MNIST's shape, of whom n take part in a round."""

    model: str
    cohort: int
    work: Any
    dtype: str
    text: str

    @staticmethod
    def parse(text: str) -> "Case":
        """`two_nn:10:E5:float32`, `logistic:10:K1:uint8`."""
        from enlist import Epochs, Steps

        model, cohort, work, dtype = text.split(":")
        kind = {"E": Epochs, "K": Steps}[work[0]]
        return Case(model, int(cohort), kind(int(work[1:]), 60), dtype, text)


def stream(text: str, options: argparse.Namespace) -> dict[str, Any]:
    """One case both ways in turns."""
    case = Case.parse(text)
    from enlist import Dataset, Settings, fedavg, models, partition, sampling
    from enlist.engine import platform
    from enlist.engine.session import links_of, open_session
    from enlist.engine.task import Task

    platform.prepare()
    rng = np.random.default_rng(0)
    x = [rng.integers(0, 256, (rows, 28, 28, 1), np.uint8) for rows in (options.federation * ROWS, 1000)]
    if case.dtype == "float32":
        x = [part.astype(np.float32) / 255 for part in x]
    y = [rng.integers(0, CLASSES, len(part)).astype(np.int32) for part in x]
    fed = partition.iid(
        Dataset(x[0], y[0], x[1], y[1], classes=CLASSES, name="random"), options.federation, 0
    )
    sessions: dict[str, Any] = {}
    for where in ("device", "host"):
        settings = Settings(execution=options.execution, rows=where, eval_rows=1000)
        model, strategy = getattr(models, case.model)(), sampling.without_replacement(case.cohort)
        parts = Task(fedavg(), model, fed, strategy, case.work, settings, links_of(settings, fed.workers))
        sessions[where] = open_session(parts)
    flow = sessions["host"].read.source.flow
    rounds = {}
    for where, session in sessions.items():
        session.advance(2, False)
        rounds[where] = max(
            1, round(options.seconds / (timed(lambda s=session: finite(s.advance(4, False)))[0] / 4))
        )
    seen: dict[str, list[tuple[float, float]]] = {where: [] for where in sessions}
    before = vars(flow).copy()
    for _ in range(options.repeats):
        for where, session in sessions.items():
            wall, cpu = timed(lambda s=session, k=rounds[where]: finite(s.advance(k, False)))
            seen[where].append((wall / rounds[where], cpu / rounds[where]))
    spent = {
        name: (value - before[name]) / rounds["host"] / options.repeats for name, value in vars(flow).items()
    }
    return streamed(case, seen, spent)


def finite(outcome: Any) -> None:
    """Rounds that came to nothing are no rounds."""
    assert np.isfinite(outcome[0].delta_norm)


def streamed(
    case: Case, seen: dict[str, list[tuple[float, float]]], spent: dict[str, float]
) -> dict[str, Any]:
    """One line of the table of both ways."""
    facts: dict[str, Any] = {"case": case.text}
    for where, pairs in seen.items():
        facts[f"{where}_ms"] = 1e3 * statistics.median(wall for wall, _ in pairs)
        facts[f"{where}_cpu_ms"] = 1e3 * statistics.median(cpu for _, cpu in pairs)
    ratios = [d[0] / h[0] for d, h in zip(seen["device"], seen["host"], strict=True)]
    waited = spent["waiting"] / (spent["waiting"] + spent["computing"])
    return facts | {
        "speed": statistics.median(ratios),
        "speed_lowest": min(ratios),
        "speed_highest": max(ratios),
        "gathering_ms": 1e3 * spent["gathering"],
        "computing_ms": 1e3 * spent["computing"],
        "waiting_ms": 1e3 * spent["waiting"],
        "mib_a_round": spent["sent"] / MIB,
        "bound": "transfer" if waited > 0.1 else "compute",
    }


def streaming_table(rows: list[dict[str, Any]]) -> str:
    """As Markdown."""
    head = ["case", "device ms", "host ms", "speed of host / device (lowest-highest)", "CPU ms device, host"]
    head += ["gathering and sending ms", "waiting ms", "MiB a round", "bound"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for r in rows:
        cells = [r["case"], f"{r['device_ms']:.2f}", f"{r['host_ms']:.2f}"]
        cells += [f"{r['speed']:.2f} ({r['speed_lowest']:.2f}-{r['speed_highest']:.2f})"]
        cells += [f"{r['device_cpu_ms']:.2f}, {r['host_cpu_ms']:.2f}", f"{r['gathering_ms']:.2f}"]
        cells += [f"{r['waiting_ms']:.2f}", f"{r['mib_a_round']:.1f}", r["bound"]]
        lines.append(f"| {' | '.join(cells)} |")
    return f"{machine()['device']}, {machine()['versions']}\n\n" + "\n".join(lines)
