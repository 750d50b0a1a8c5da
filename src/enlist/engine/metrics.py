"""One line of `metrics.jsonl`: what an evaluated round looked like."""

from typing import Any

import numpy as np

from enlist.engine.evaluation import Evaluation
from enlist.engine.program import RoundInfo
from enlist.engine.session import Session


def line(session: Session, t: int, info: RoundInfo, seen: Evaluation) -> dict[str, Any]:
    """The metrics after the first t rounds; `info` is of the last of them."""
    metric = session.plan.model.metric_name
    taken, spent = info.weights > 0, session.clock.spent(t)
    made: dict[str, Any] = {
        "round": t,
        "train_loss": float(seen.train_loss),
        "test_loss": float(seen.test_loss),
        f"test_{metric}": float(seen.test_metric),
        "delta_norm": float(info.delta_norm),
        "cohort": sorted(info.ids[taken].tolist()),
        "uplink_bytes": session.cost.uplink,
        "downlink_bytes": session.cost.downlink,
        "comm_mib": session.cost.mebibytes(t),
        "seconds": spent.seconds,
        "compute_seconds": spent.compute,
    }
    if session.plan.passes.gradient:
        made["grad_norm_sq"] = float(seen.grad_norm_sq)
    if session.federation.test is not None and len(seen.by_worker):
        # A worker without test rows of its own has no accuracy.
        made[f"worker_{metric}"] = spread(np.asarray(seen.by_worker)[session.federation.test.sizes > 0])
    return made


def spread(values: np.ndarray) -> dict[str, float]:
    """How a number differs between workers."""
    facts = {"min": values.min(), "p10": np.quantile(values, 0.1), "median": np.median(values)}
    return {
        name: float(value) for name, value in (facts | {"mean": values.mean(), "max": values.max()}).items()
    }


def look(session: Session) -> dict[str, Any]:
    """The metrics of the state as it is, for a run that has no evaluated round."""
    info, seen = session.advance(0, True)
    assert seen is not None
    return line(session, int(session.state.t), info, seen)
