"""Several runs that share a shape: one compiled program for all of them.

On an accelerator they run side by side, as many at once as memory holds. On a CPU, where batching gains nothing, they
run in turn, each exactly as it would alone; the program is still compiled once.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax

from enlist.cost import nbytes
from enlist.engine import execution, platform
from enlist.engine.crew import Alone, SideBySide
from enlist.engine.loop import carry_out
from enlist.engine.progress import Shown, silent
from enlist.engine.run import Run
from enlist.engine.session import Session, load_of
from enlist.engine.supply import Resident
from enlist.engine.task import Room, Task, room_for
from enlist.engine.undertaking import Undertaking, undertake

# What there may be of a run's folder before its config.yaml, which comes last.
UNBEGUN = {"metrics.jsonl", "partition.json", ".partition.json.draft", ".config.yaml.draft"}


class Job(NamedTuple):
    """One of the runs: what to run, the folder to leave it in, and what its `config.yaml` shall say."""

    task: Task
    out: Path | None = None
    config: dict[str, Any] | None = None


def simulate_together(
    jobs: Sequence[Job],
    *,
    room: Room | None = None,
    side_by_side: bool | None = None,
    display: Shown = silent,
) -> list[Run]:
    """Carries out runs of one algorithm, model and amount of work that differ in seed, start, rates or partition.

    A run that diverges ends as such, and the others go on. A job whose folder already holds its run is taken up
    again. After Ctrl-C all are kept for that, and KeyboardInterrupt is raised.

    Args:
        room: place to leave for partitions of later jobs; by default for those of these jobs.
        side_by_side: all on one device; by default on accelerators, unless several devices are asked for.
        display: how progress is shown, of those that are carried out at a time.
    """
    return list(simulate_each(jobs, room=room, side_by_side=side_by_side, display=display))


def simulate_each(
    jobs: Sequence[Job],
    *,
    room: Room | None = None,
    side_by_side: bool | None = None,
    display: Shown = silent,
) -> Iterator[Run]:
    """As `simulate_together`, but hands each run over when it is finished: many of them need not be held at once."""
    if side_by_side is None:
        side_by_side = jax.devices()[0].platform != "cpu" and jobs[0].task.settings.devices < 2
    if side_by_side:
        jobs = [_on_one_device(job) for job in jobs]
    room = room_for([job.task.federation for job in jobs]) if room is None else room
    like: Session | None = None
    for part in _parts(jobs, _at_once(jobs) if side_by_side else 1):
        runs = list(_begun(part, room, like))
        like = runs[-1].session
        _carry_out(runs, display)
        made = [_finished(each) for each in runs]
        for each in runs:
            if isinstance(each.stopped, KeyboardInterrupt):
                raise each.stopped
        yield from made


def _finished(run: Undertaking) -> Run:
    """The outcome, without the states: those of many runs, their workers' included, need not be held at once."""
    made = run.finish()
    run.session.state = run.session.state._replace(server=None, workers=None)
    return made


def _on_one_device(job: Job) -> Job:
    settings = replace(job.task.settings, devices=1)
    return job._replace(task=job.task._replace(settings=settings))


def _parts(jobs: Sequence[Job], at_once: int) -> Iterator[Sequence[Job]]:
    """Of about equal size: 24 jobs of which 20 find room are better run 12 and 12."""
    parts = -(-len(jobs) // at_once)
    each = -(-len(jobs) // parts)
    return (jobs[i : i + each] for i in range(0, len(jobs), each))


def _begun(jobs: Sequence[Job], room: Room, like: Session | None) -> Iterator[Undertaking]:
    for job in jobs:
        resume = job.out is not None and (job.out / "config.yaml").exists()
        if job.out is not None and not resume:
            _clear_unbegun(job.out)
        run = undertake(job.task, job.out, resume=resume, config=job.config, room=room, like=like)
        # Nobody reads it of many runs.
        run.explain = False
        like = run.session
        yield run


def _clear_unbegun(folder: Path) -> None:
    """Takes away what a kill left of a folder that was being made: without its config it holds no run."""
    left = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if left <= UNBEGUN and not ("metrics.jsonl" in left and (folder / "metrics.jsonl").stat().st_size):
        for name in left:
            (folder / name).unlink()


def _carry_out(runs: list[Undertaking], display: Shown) -> None:
    with display(runs[0].settings.rounds, len(runs)) as show:
        level = max(int(each.session.state.t) for each in runs)
        for each in runs:
            if int(each.session.state.t) < level or len(runs) == 1:
                # A kill may have come between the checkpoints of two runs.
                alone = Alone(each.session)
                alone.advance(0, False)
                each.compiled = time.perf_counter() - each.began
                carry_out(alone, [each], show, until=level if len(runs) > 1 else None)
        for group in _alike([each for each in runs if each.stopped is None and len(runs) > 1]):
            crew = SideBySide([each.session for each in group]) if len(group) > 1 else Alone(group[0].session)
            crew.advance(0, False)
            for each in group:
                each.compiled = time.perf_counter() - each.began
            carry_out(crew, group, show)


def _alike(runs: Sequence[Undertaking]) -> list[list[Undertaking]]:
    """Those that one program can run: of equal plans and shapes."""
    groups: dict[Any, list[Undertaking]] = {}
    for each in runs:
        session = each.session
        source = session.read.source
        # Rows that come as they are needed come to one run at a time.
        held, own = (source.held, None) if isinstance(source, Resident) else (None, id(session))
        arrays = (held, session.read.examples, session.state.server)
        shapes = jax.tree.map(lambda a: (a.shape, str(a.dtype)), arrays)
        groups.setdefault((session.plan, str(shapes), own), []).append(each)
    return list(groups.values())


def _at_once(jobs: Sequence[Job]) -> int:
    """How many find room side by side in an accelerator's memory."""
    limit, task = platform.memory_bytes(), jobs[0].task
    if limit is None:
        return len(jobs)
    load = load_of(task)
    x = jax.ShapeDtypeStruct((1, *load.example[0].shape[1:]), load.example[0].dtype)
    params = jax.eval_shape(task.model.init, jax.random.key(0), x)
    workers = task.federation.workers
    own = nbytes(jax.eval_shape(task.algorithm.init_worker, params)) * workers
    server = nbytes(jax.eval_shape(lambda x: task.algorithm.init_server(x, workers), params))
    # Of the states there are those of a round, those it leads to, and for a moment those that are stacked.
    one = load.places * execution.lane_bytes(load) + 3 * (own + server)
    data = task.federation.data
    if any(job.task.federation.data is not data for job in jobs):
        # Examples that are not the same for all are stacked too.
        one += sum(each.nbytes for each in (data.x_train, data.y_train, data.x_test, data.y_test))
    return max(1, min(len(jobs), int(execution.MEMORY_SHARE * limit / one)))
