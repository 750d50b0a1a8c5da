"""What workers keep, brought together where all of them are on this machine: the simulator can then go on."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from enlist.algorithms import keys
from enlist.deploy.app_folder import PACKAGE
from enlist.deploy.holdout import read_holdout
from enlist.deploy.job import Job, problem
from enlist.deploy.ledger import Ledger
from enlist.deploy.place import ServerPlace
from enlist.deploy.worker_state import Versions
from enlist.engine import gathered
from enlist.engine.checkpoint import Checkpoints
from enlist.engine.folder import RunFolder
from enlist.problem.objective import initial


def gather_states(job: Job, place: ServerPlace) -> None:
    """Writes the states of all workers beside the run's newest checkpoint; nothing where workers keep none."""
    out = RunFolder(Path(job.out))
    it = problem(job, out.path / "app" / PACKAGE)
    settings = it.options.settings
    rows = read_holdout(it.options.problem.dataset, job.workers, settings.seed)
    key = keys.init_key(jax.random.key(settings.seed))
    first = jax.device_get(it.algorithm.init_worker(initial(it.model, key, jnp.asarray(rows.x[:1]))))
    done = _rounds_done(out.checkpoints)
    if not jax.tree.leaves(first) or done is None:
        return
    ledger = Ledger(out.path)
    ledger.rewind(done, complete=True)
    states = [
        Versions(place.worker(worker).state / job.token).load(
            ledger.acknowledged(worker), lambda: first, first
        )
        for worker in range(job.workers)
    ]
    gathered.save(out.path, done, jax.tree.map(lambda *leaves: np.stack(leaves), *states))


def _rounds_done(folder: Path) -> int | None:
    checkpoints = Checkpoints(folder)
    try:
        return checkpoints.latest()
    finally:
        checkpoints.close()
