"""A deployed run on the server's disk and in its memory: its state, taken up again and kept after every round."""

import math
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from enlist.algorithms import keys
from enlist.cost import RoundCost, nbytes
from enlist.deploy.coordinator import Round
from enlist.deploy.holdout import read_holdout
from enlist.deploy.job import Job, problem
from enlist.deploy.ledger import Ledger
from enlist.engine import evaluation, platform
from enlist.engine.checkpoint import Checkpoints
from enlist.engine.folder import RunFolder
from enlist.engine.program import RunState
from enlist.engine.run import first_round
from enlist.engine.session import EVALUATED_ROWS
from enlist.engine.summary import versions
from enlist.engine.traffic import travelling
from enlist.errors import Diverged
from enlist.problem.models import count
from enlist.problem.objective import initial, objective


class Keeping:
    """The run so far, and what is left of it."""

    def __init__(self, job: Job, folder: Path):
        self.job, self.problem = job, problem(job, folder)
        self.folder = RunFolder(Path(job.out))
        self.folder.hold()
        self.ledger = Ledger(self.folder.path)
        self.settings = self.problem.options.settings
        self.rounds = self.settings.rounds
        rows = read_holdout(self.problem.options.problem.dataset, job.workers, self.settings.seed)
        it = self.problem
        self.sent = travelling(
            it.algorithm._replace(rates=it.rates | it.schedules),
            it.model,
            rows.x[0],
            rows.y[0],
            it.work,
            self.settings.precision,
            job.workers,
        )
        # A worker may have missed earlier broadcasts, so what others hold from them is sent along.
        self.cost = RoundCost(
            uplink=nbytes((self.sent.probe, self.sent.up)),
            downlink=nbytes((self.sent.first, self.sent.down, self.sent.before)),
            setup=0,
            exchanges=1 if it.algorithm.probe is None else 2,
        )
        self._look = _looking(self.problem, rows)
        self._state = self._first(rows.x[:1])
        self._checkpoints = Checkpoints(self.folder.checkpoints)
        self._metrics = self._take_up()
        self._began, self._before = time.monotonic(), self._spent_before()

    @property
    def t(self) -> int:
        """Rounds that count so far."""
        return int(self._state.t)

    @property
    def server(self) -> Any:
        """The algorithm's server state."""
        return self._state.server

    def take(self, made: Round) -> None:
        """Takes a round's outcome: the cohort, the metrics and the state are on disk when this returns."""
        if not bool(made.stepped.finite):
            raise Diverged(f"diverged in round {self.t + 1}: its update is not finite", self.t + 1)
        t = self.t + 1
        self.ledger.used(
            self.t,
            made.ids,
            enlisted=made.enlisted,
            attempt=made.attempt,
            seconds=round(made.seconds, 3),
            slowest=round(made.slowest, 3),
        )
        self._state = self._state._replace(server=made.stepped.server, t=jnp.int32(t))
        if self._evaluated(t):
            line = self._line(made)
            self._metrics.append(line)
            self.folder.append(line)
        self._checkpoints.save(self._state)

    def close(self) -> None:
        """Lets go of the checkpoints."""
        self._checkpoints.close()

    def finish(self, status: str) -> None:
        """Writes the outcome, as a simulated run does."""
        params = jax.device_get(self.problem.algorithm.params(self.server))
        metric = self.problem.model.metric_name
        key = f"test_{metric}"
        final = self._metrics[-1] if self._metrics else {"round": self.t} | self._seen()
        best = max(self._metrics or [final], key=lambda line: -math.inf if line[key] is None else line[key])
        wall = self._seconds()
        facts = {
            "status": status,
            "rounds": self.t,
            "metric": metric,
            "final": {name: value for name, value in final.items() if name != "cohort"},
            "best": {key: best[key], "round": best["round"]},
            "target": self._to_target(key),
            "parameters": count(params),
            "uplink_bytes": self.cost.uplink,
            "downlink_bytes": self.cost.downlink,
            "setup_bytes": self.cost.setup,
            "comm_mib": self.cost.mebibytes(self.t),
            "wall_seconds": round(wall, 3),
            "rounds_per_second": round(self.t / max(wall, 1e-9), 4),
            "execution": "deployed",
            "device": platform.describe(),
            "versions": versions(),
            "seed": self.settings.seed,
            "deployment": self.ledger.facts(),
        }
        self.folder.finish(facts, params)
        self.folder.release()

    def _first(self, x: np.ndarray) -> RunState:
        """Before round 0, as the simulator begins; the workers keep their own states."""
        run = jax.random.key(self.settings.seed)
        params = initial(self.problem.model, keys.init_key(run), jnp.asarray(x))
        server = self.problem.algorithm.init_server(params, self.job.workers)
        return RunState(server, (), jnp.int32(0), jnp.asarray(True))

    def _take_up(self) -> list[dict[str, Any]]:
        """The newest checkpoint's state, and the lines that belong to it."""
        done = self._checkpoints.latest()
        if done is not None:
            self._state = self._checkpoints.restore(self._state)
            self.ledger.event("resumed", self.t)
        self.ledger.rewind(self.t, complete=bool(jax.tree.leaves(self.sent.state)))
        return self.folder.rewind(self.t, self._evaluated)

    def _evaluated(self, t: int) -> bool:
        """Whether the model is looked at after so many rounds."""
        return t % self.settings.eval_every == 0 or t == self.rounds

    def _spent_before(self) -> tuple[float, float]:
        """Seconds in earlier sittings: all, and of computing."""
        if not self._metrics:
            return 0.0, 0.0
        return self._metrics[-1]["seconds"], self._metrics[-1]["compute_seconds"]

    def _seconds(self) -> float:
        return self._before[0] + time.monotonic() - self._began

    def _seen(self) -> dict[str, Any]:
        loss, metric = jax.device_get(self._look(self.problem.algorithm.params(self.server)))
        return {"test_loss": float(loss), f"test_{self.problem.model.metric_name}": float(metric)}

    def _line(self, made: Round) -> dict[str, Any]:
        computing = self._metrics[-1]["compute_seconds"] if self._metrics else 0.0
        return {
            "round": self.t,
            "train_loss": None,
            "local_loss": float(made.stepped.local_loss),
            **self._seen(),
            "delta_norm": float(made.stepped.delta_norm),
            "cohort": made.ids,
            "uplink_bytes": self.cost.uplink,
            "downlink_bytes": self.cost.downlink,
            "comm_mib": self.cost.mebibytes(self.t),
            "seconds": round(self._seconds(), 3),
            "compute_seconds": round(computing + made.slowest, 3),
        }

    def _to_target(self, key: str) -> dict[str, Any] | None:
        target = self.settings.target
        if target is None:
            return None
        reached = first_round(self._metrics, key, target)
        at = next((line for line in self._metrics if line["round"] == reached), None)
        return {
            "value": target,
            "rounds": reached,
            "comm_mib": None if at is None else at["comm_mib"],
            "seconds": None if at is None else at["seconds"],
        }


def _looking(it: Any, rows: Any) -> Any:
    """`look(params) -> loss, metric` on the server's own rows."""
    size = EVALUATED_ROWS["cpu" if jax.devices()[0].platform == "cpu" else "gpu"]
    sought = objective(it.model, it.options.settings.precision)
    test = evaluation.evenly(jnp.asarray(rows.x), jnp.asarray(rows.y), np.arange(len(rows.x)))
    look = jax.jit(lambda params, shown: evaluation.scores(sought, params, shown, size))
    return lambda params: look(params, test)
