"""A run that is set up: the compiled program, the data on the devices, the state, and how to advance it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from enlist.algorithms import keys
from enlist.algorithms.core import data_and_schedules
from enlist.algorithms.local import all_varied
from enlist.algorithms.work import Batch, LocalWork
from enlist.cost import RoundCost, nbytes
from enlist.engine import evaluation, execution, platform, rows
from enlist.engine.clock import Clock, clock
from enlist.engine.execution import Execution
from enlist.engine.fit import check
from enlist.engine.plan import Plan
from enlist.engine.program import Program, RoundInfo, RunState, program
from enlist.engine.rows import Read, put_rows
from enlist.engine.task import Room, Task, room_for
from enlist.links import Links, resolve
from enlist.options import Settings
from enlist.problem.federation import Federation
from enlist.problem.objective import Objective, initial, objective

# Rows as a local step sees them: of (the worker's key of the round, the step, positions among its rows, the rows).
Vary = Callable[[Key[Array, ""], Int[Array, ""], Array, Array], Array]
EVALUATED_ROWS = {"cpu": 500, "gpu": 2000}


class LocalDraw(NamedTuple):
    """One local run of a round.

    Args:
        worker: who.
        draw: which occurrence of it in the round.
        batches: the rows of every batch, in order; all of them where a step takes a full gradient.
        inputs: every batch as it was varied at random, where the model does that (`Model.augment`).
    """

    worker: int
    draw: int
    batches: list[np.ndarray]
    inputs: list[np.ndarray] | None = None


@dataclass
class Session:
    """One run, ready to go. `state` is the only thing that changes."""

    plan: Plan
    program: Program
    federation: Federation
    settings: Settings
    read: Read
    rates: dict[str, Array]
    key: Key[Array, ""]
    state: RunState
    cost: RoundCost
    clock: Clock

    def advance(self, rounds: int, evaluate: bool) -> tuple[RoundInfo, evaluation.Evaluation | None]:
        """Runs that many rounds on the device, then looks at the model if asked. Waits for both."""
        left = rounds
        for held, some in self.read.source.portions(int(self.state.t), rounds):
            left -= some
            self.state, info, seen = self.program.block(
                held,
                self.read.examples,
                self.state,
                self.rates,
                self.key,
                jnp.int32(some),
                jnp.asarray(evaluate and left == 0),
            )
            # Before more rows are asked for: those in use and the next are as many as have room.
            info, seen = jax.device_get((info, seen))
        return info, seen if evaluate else None

    def params(self) -> Any:
        """x_t, on the host."""
        return jax.device_get(self.plan.algorithm.params(self.state.server))

    def put(self, state: RunState) -> None:
        """Takes up another state, for instance a checkpoint's."""
        self.state = platform.replicate(state, self.plan.mesh)

    def drawn(self, t: int) -> list[LocalDraw]:
        """What round t (from 0) draws: its cohort in order, and for each local run the rows of every batch."""
        vary = _varying(objective(self.plan.model, self.plan.precision), self.plan.work)
        return [self._drawn_by(t, worker, draw, vary) for worker, draw in self.cohort(t)]

    def cohort(self, t: int) -> list[tuple[int, int]]:
        """Who takes part in round t (from 0), in order: (worker, which occurrence of it in the round)."""
        sizes = jnp.asarray(self.federation.sizes)
        drawn = jax.device_get(self.program.cohort(sizes, self.key, jnp.int32(t)))
        return [(int(worker), int(draw)) for worker, draw, weight in zip(*drawn, strict=True) if weight > 0]

    def _drawn_by(self, t: int, worker: int, draw: int, vary: Vary | None) -> LocalDraw:
        rows = self.federation.train.rows(worker)
        key = keys.worker_key(self.key, jnp.int32(t), jnp.int32(worker), jnp.int32(draw))
        batches = self._batches(key, len(rows), int(self.plan.work.count(len(rows), t)))
        meant = [rows[positions[:count]] for positions, count in batches]
        if vary is None:
            return LocalDraw(worker, draw, meant)
        x = self.federation.data.x_train
        seen = [
            np.asarray(vary(key, jnp.int32(k), jnp.asarray(positions), jnp.asarray(x[rows[positions]])))[
                :count
            ]
            for k, (positions, count) in enumerate(batches)
        ]
        return LocalDraw(worker, draw, meant, seen)

    def _batches(self, key: Key[Array, ""], size: int, steps: int) -> list[tuple[np.ndarray, int]]:
        """Positions among a worker's rows, and how many of them count, for each of its steps."""
        if self.plan.work.batch == 0:
            return [(np.arange(size, dtype=np.int32), size)] * steps
        picked = jax.device_get(_all_batches(self.plan.work, self.plan.capacity, key, jnp.int32(size)))
        return [(positions, int(count)) for positions, count in zip(*picked, strict=True)][:steps]


def _varying(goal: Objective, work: LocalWork) -> Vary | None:
    """What a local step does to the rows that it looks at; None where it takes them as they are."""
    if (augment := goal.augment) is None:
        return None
    if work.batch == 0:
        return jax.jit(partial(all_varied, goal))
    return jax.jit(lambda key, k, positions, x: augment(keys.augment_key(key, k), x))


@partial(jax.jit, static_argnums=(0, 1))
def _all_batches(work: LocalWork, capacity: int, key: Key[Array, ""], size: Int[Array, ""]) -> Batch:
    """The batches of a local run, stacked; those beyond the worker's own number of steps mean nothing."""
    table = work.table(key, size, capacity, capacity)
    return jax.vmap(lambda k: work.pick(table, k, size))(jnp.arange(work.count(capacity)))


def open_session(task: Task, room: Room | None = None, like: Session | None = None) -> Session:
    """Checks that the parts fit each other, decides how to execute, and sets everything up on the devices.

    Args:
        room: place to leave, for a run that shares its program with runs on other partitions.
        like: a session whose examples are taken over where they are the same.
    """
    task = task._replace(settings=rows.complete(task.settings, task.federation))
    cost = check(task)
    load, settings = load_of(task), task.settings
    params = jax.eval_shape(partial(initial, task.model), jax.random.key(0), task.federation.data.x_train[:1])
    devices = execution.devices_for(load.places, settings.devices, nbytes(params))
    room = room_for([task.federation]) if room is None else room

    def seconds(candidate: Execution) -> float:
        trial = _set_up(task, candidate, room, like, cost)
        return execution.timed(lambda: trial.advance(1, False))

    chosen = execution.parse(settings.execution, load.places, devices)
    return _set_up(task, chosen or execution.choose(load, devices, seconds), room, like, cost)


def load_of(task: Task) -> execution.Load:
    """What the choice of an execution depends on."""
    data, workers = task.federation.data, task.federation.workers
    return execution.Load(
        task.model,
        task.settings.precision,
        task.work,
        task.federation.sizes,
        task.sampling.places(workers),
        (data.x_train[:1], data.y_train[:1]),
    )


def links_of(settings: Settings, workers: int, profile: Any = None) -> Links:
    """The workers' links and devices, from the settings alone or with a profile that they only name."""
    return resolve(
        workers,
        settings.seed,
        bandwidth=settings.bandwidth,
        uplink=settings.uplink,
        downlink=settings.downlink,
        latency=settings.latency,
        profile=settings.profile if profile is None else profile,
    )


def _set_up(task: Task, chosen: Execution, room: Room, like: Session | None, cost: RoundCost) -> Session:
    algorithm, federation, settings = task.algorithm, task.federation, task.settings
    mesh = platform.mesh(chosen.devices)
    run_key = jax.random.key(settings.seed)
    params = initial(task.model, keys.init_key(run_key), jnp.asarray(federation.data.x_train[:1]))
    plan = _plan(task, chosen, room, nbytes(params))
    rates = jax.tree.map(jnp.float32, data_and_schedules(algorithm.rates)[0])
    return Session(
        plan=plan,
        program=program(plan),
        federation=federation,
        settings=settings,
        read=put_rows(task, plan, room, None if like is None else like.read, run_key),
        rates=platform.replicate(rates, mesh),
        key=run_key,
        state=platform.replicate(program(plan).start(params), mesh),
        cost=cost,
        clock=clock(plan, run_key, cost, task.links, federation.sizes, settings.worker_seconds),
    )


def _plan(task: Task, chosen: Execution, room: Room, message_bytes: int) -> Plan:
    settings, workers = task.settings, task.federation.workers
    passes = evaluation.Passes(
        rows=EVALUATED_ROWS["cpu" if jax.devices()[0].platform == "cpu" else "gpu"],
        gradient=settings.grad_norm,
        workers=workers if settings.worker_accuracy else 0,
    )
    return Plan(
        algorithm=task.algorithm._replace(rates=()),  # type: ignore[arg-type]
        schedules=tuple(data_and_schedules(task.algorithm.rates)[1].items()),
        model=task.model.once_started(),
        precision=settings.precision,
        work=task.work,
        sampling=task.sampling,
        workers=workers,
        rows=room.rows,
        capacity=room.capacity,
        lanes=chosen.lanes,
        turns=chosen.turns(task.sampling.places(workers), message_bytes),
        mesh=platform.mesh(chosen.devices),
        passes=passes,
        streamed=settings.rows == "host",
    )
