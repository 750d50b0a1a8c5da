"""Many runs of one small problem at once: every rate with every seed in one program, looked at every round."""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from enlist.algorithms.fedavg import fedavg
from enlist.algorithms.work import Steps
from enlist.engine.plan import Plan
from enlist.engine.program import RunState, block
from enlist.engine.session import Session, links_of, open_session
from enlist.engine.supply import Resident
from enlist.engine.task import Task
from enlist.options import Settings
from enlist.participation.sampling import Sampling
from enlist.problem.quadratic import Known


def prepared(problem: Known, sampling: Sampling, work: Steps) -> Session:
    """A run of generalized FedAvg on the problem, set up; its rates and its seed are still to be chosen."""
    settings = Settings(grad_norm=True, precision="highest", execution="batch", devices=1)
    workers = problem.federation.workers
    links = links_of(settings, workers)
    return open_session(Task(fedavg(), problem.model, problem.federation, sampling, work, settings, links))


def squared_gradients(
    session: Session, worker_lr: np.ndarray, server_lr: np.ndarray, seeds: int, rounds: int
) -> np.ndarray:
    """||grad f(x_t)||^2, the exact gradient's, for t = 0 ... rounds - 1, by rates, seed and round.

    Rates, seeds and rows are data: sessions of one plan share one program, whatever their problems' noise.

    Args:
        worker_lr, server_lr: a pair of rates for each run of a seed.
        seeds: 0, 1, ...; the same for every pair of rates.
    """
    assert isinstance(session.read.source, Resident)
    rates = {
        "worker_lr": jnp.asarray(worker_lr, jnp.float32),
        "server_lr": jnp.asarray(server_lr, jnp.float32),
    }
    # Looked at before the first round, and after each but the last.
    ahead = jnp.asarray([0, *[1] * (rounds - 1)], jnp.int32)
    keys = jax.vmap(random.key)(jnp.arange(seeds, dtype=jnp.uint32))
    start = jax.tree.map(jnp.copy, session.state)
    run = _program(session.plan)
    return np.asarray(
        run(session.read.source.held, session.read.examples, start, rates, keys, ahead), np.float64
    )


@lru_cache(maxsize=64)
def _program(plan: Plan) -> Any:
    """All runs; compiled once for a plan and a number of rates, seeds and rounds."""

    def one(held: Any, examples: Any, start: RunState, rates: Any, key: Any, ahead: Any) -> Any:
        def on(state: RunState, rounds: Any) -> tuple[RunState, Any]:
            state, _, seen = block(plan, held, examples, state, rates, key, rounds, jnp.asarray(True))
            return state, jnp.where(state.alive, seen.grad_norm_sq, jnp.inf)

        return lax.scan(on, start, ahead)[1]

    by_seed = jax.vmap(one, (None, None, None, None, 0, None))
    return jax.jit(jax.vmap(by_seed, (None, None, None, 0, None, None)), compiler_options=quick_to_compile())


def quick_to_compile() -> dict[str, Any]:
    """Options for programs that run for a second: on a CPU, optimizing them takes many times longer than they run."""
    return {"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else {}
