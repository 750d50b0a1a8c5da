"""`enlist deploy local`: a whole deployment on one machine, with all its locks, which ends by itself."""

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from enlist.deploy import place as places
from enlist.deploy.all_up import ROWS
from enlist.deploy.gathering import gather_states
from enlist.deploy.link import is_up
from enlist.deploy.operate import Asked, Say, prepare, run_deployed
from enlist.deploy.place import ServerPlace
from enlist.engine.folder import partition_facts
from enlist.errors import BadInput, EnlistError
from enlist.launch.local_hosts import free_port
from enlist.launch.problem import deal
from enlist.options import ProblemOptions
from enlist.problem import datasets
from enlist.problem.federation import Federation

WORKERS, MOST_WORKERS = 4, 64
START_SECONDS = 120.0


def run_locally(
    asked: Asked, hashes: dict[str, Any], out: Path, keep: Path | None, say: Say
) -> dict[str, Any]:
    """Deals the rows, starts a server and its workers, runs, and ends all of them. Returns how the run ended.

    Args:
        keep: where the deployment is to lie and stay; by default it lies in the run's folder until the run is done,
            for what workers keep from round to round must outlive a run that is interrupted.
    """
    problem, federation = _dealt(asked.run.problem, asked.run.settings.seed)
    within = replace(asked, run=replace(asked.run, problem=problem))
    job = prepare(within, federation.workers, out, hashes, partition_facts(federation))
    folder = out / "deployment" if keep is None else keep
    place = _deployment(folder, federation)
    try:
        with _up(place, say):
            ended = run_deployed(place, job, say)
    finally:
        gather_states(job, place)
    if keep is None and ended["status"] == "done":
        shutil.rmtree(folder, ignore_errors=True)
    return ended


def _dealt(problem: ProblemOptions, seed: int) -> tuple[ProblemOptions, Federation]:
    """The rows dealt to as many workers as one machine carries."""
    asked = problem.workers or WORKERS
    data = datasets.load(problem.dataset, workers=asked, seed=seed)
    if data.worker is None or problem.partition not in (None, "by-key"):
        problem = replace(problem, workers=asked)
    dealt, federation = deal(problem, seed, load=lambda *_, **__: data)
    if federation.workers > MOST_WORKERS:
        raise BadInput(
            f"workers = {federation.workers}: on one machine {MOST_WORKERS} at most, since each is several processes"
        )
    return dealt, federation


def _deployment(folder: Path, federation: Federation) -> ServerPlace:
    """Keys, certificates and every worker's own rows; those of an earlier sitting where they are there."""
    port = free_port()
    if (folder / "deploy.yaml").is_file():
        place = places.server_place(folder)
        if place.workers != federation.workers:
            raise BadInput(
                f"{folder}: has {place.workers} workers, not {federation.workers}; name another folder"
            )
        # What the link remembers is of processes that are gone: workers would have to wait until it notices.
        place.database.unlink(missing_ok=True)
    else:
        place = places.init(folder, "localhost", port, federation.workers)
    for worker in range(federation.workers):
        rows = federation.train.rows(worker)
        np.savez(
            place.worker(worker).folder / ROWS,
            x_train=federation.data.x_train[rows],
            y_train=federation.data.y_train[rows],
        )
    return place


@contextlib.contextmanager
def _up(place: ServerPlace, say: Say) -> Iterator[None]:
    """While inside, the server and all workers are up."""
    began = time.monotonic()
    words = [sys.executable, "-m", "enlist.deploy.all_up", str(place.root)]
    # A process of its own keeps them up: this one has jax in it, which does not stand being forked.
    keeper = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        while not is_up(place):
            if keeper.poll() is not None or time.monotonic() - began > START_SECONDS:
                raise EnlistError(f"the server did not come up: see {place.folder}")
            time.sleep(0.2)
        say(f"the server is up after {time.monotonic() - began:.1f} s; {place.workers} workers are joining")
        yield
    finally:
        keeper.terminate()
        keeper.wait()
