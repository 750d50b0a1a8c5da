"""The outcome of a run in a few numbers, and its options in a few words."""

import importlib.metadata
import math
import platform as host
from typing import Any, NamedTuple

import numpy as np

from enlist import __version__
from enlist.algorithms.core import Decaying
from enlist.algorithms.work import Epochs
from enlist.engine import platform
from enlist.engine.execution import Execution
from enlist.engine.run import first_round
from enlist.engine.session import Session
from enlist.links import file_digest
from enlist.options import Settings, flatten
from enlist.problem.models import count

PACKAGES = ("jax", "jaxlib", "optax", "numpy")


class Times(NamedTuple):
    """Of this sitting, in seconds: all of it, setting up and compiling, the devices' work; and the rounds run.

    `before` is what earlier sittings took.
    """

    wall: float
    compile: float
    device: float
    rounds: int
    before: float = 0.0


def summarize(
    session: Session,
    options: Settings,
    metrics: list[dict[str, Any]],
    final: dict[str, Any],
    status: str,
    times: Times,
) -> dict[str, Any]:
    """What `summary.json` holds."""
    metric = session.plan.model.metric_name
    key = f"test_{metric}"
    rounds = int(session.state.t)
    best = max(metrics or [final], key=lambda line: -math.inf if line[key] is None else line[key])
    chosen = Execution(session.plan.lanes, session.plan.devices)
    return {
        "status": status,
        "rounds": rounds,
        "metric": metric,
        "final": {name: value for name, value in final.items() if name != "cohort"},
        "best": {key: best[key], "round": best["round"]},
        "target": None if options.target is None else _to_target(session, options.target, metrics, key),
        "parameters": count(session.params()),
        "uplink_bytes": session.cost.uplink,
        "downlink_bytes": session.cost.downlink,
        "setup_bytes": session.cost.setup,
        "comm_mib": session.cost.mebibytes(rounds),
        "wall_seconds": round(times.before + times.wall, 3),
        "compile_seconds": round(times.compile, 3),
        "device_seconds": round(times.device, 4),
        "rounds_per_second": round(times.rounds / max(times.wall - times.compile, 1e-9), 3),
        "execution": chosen.name(session.plan.sampling.places(session.plan.workers)),
        "devices": chosen.devices,
        "device": platform.describe(),
        "supply": session.read.source.facts(),
        "versions": versions(),
        "seed": options.seed,
    }


def _to_target(session: Session, target: float, metrics: list[dict[str, Any]], key: str) -> dict[str, Any]:
    reached = first_round(metrics, key, target)
    spent = None if reached is None else session.clock.spent(reached)
    return {
        "value": target,
        "rounds": reached,
        "comm_mib": None if reached is None else session.cost.mebibytes(reached),
        "seconds": None if spent is None else spent.seconds,
        "compute_seconds": None if spent is None else spent.compute,
        "communication_seconds": None if spent is None else spent.communication,
    }


def versions() -> dict[str, str]:
    """Of Python and of the packages that decide the numbers."""
    known = {"enlist": __version__, "python": host.python_version()}
    return known | {name: importlib.metadata.version(name) for name in PACKAGES}


def as_typed(number: Any) -> float:
    """0.1, not the nearest float32 in sixteen digits."""
    return float(str(np.float32(number)))


def describe(session: Session, options: Settings) -> dict[str, Any]:
    """The options of a run begun from Python, as far as words and numbers say them.

    The optimizers and the model may be anybody's objects, so `enlist run --config` does not take this for a complete
    description: it refuses the key `begun_from`.
    """
    plan, federation = session.plan, session.federation
    augment = plan.model.augment
    chosen = Execution(plan.lanes, plan.devices)
    rates: dict[str, float] = {}
    for name, rate in session.rates.items():
        first, *decay = map(as_typed, rate) if isinstance(rate, Decaying) else [as_typed(rate)]
        rates |= {name: first} | {name.replace("_lr", "_decay"): rounds for rounds in decay}
    schedules = {name: getattr(rate, "__name__", "schedule") for name, rate in plan.schedules}
    work = plan.work
    local: dict[str, Any] = (
        {"local_epochs": work.epochs} if isinstance(work, Epochs) else {"local_steps": work.steps}
    )
    if work.later:
        local["local_schedule"] = ",".join(f"{t}:{amount}" for t, amount in work.later)
    table = file_digest(options.profile)
    return {
        "begun_from": "python",
        "dataset": federation.name,
        "partition": federation.partition,
        "workers": federation.workers,
        "model": plan.model.name,
        "augment": None if augment is None else getattr(augment, "__name__", "own"),
        "cohort": plan.sampling.cohort or federation.workers,
        "sampling": plan.sampling.name,
        "algorithm": plan.algorithm.name,
        **rates,
        **schedules,
        **local,
        "batch": plan.work.batch,
        **flatten(options),
        **({} if table is None else {"profile_sha256": table}),
        "execution": chosen.name(plan.sampling.places(plan.workers)),
    }
