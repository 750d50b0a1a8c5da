"""A run that is set up: the compiled program, the data on the devices, the state, and how to advance it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from enlist.algorithms import keys
from enlist.algorithms.core import Algorithm, Decaying, PerStep
from enlist.algorithms.work import Batch, LocalWork
from enlist.cost import RoundCost, nbytes
from enlist.engine import evaluation, execution, platform
from enlist.engine.clock import Clock, clock
from enlist.engine.execution import Execution
from enlist.engine.plan import Held, Plan
from enlist.engine.program import Program, RoundInfo, RunState, program
from enlist.engine.task import Room, Task, room_for
from enlist.engine.traffic import round_cost
from enlist.errors import BadInput
from enlist.links import Links, resolve
from enlist.options import Settings
from enlist.participation.sampling import Sampling
from enlist.problem.federation import Federation
from enlist.problem.models import Model, accuracy, cross_entropy

EVALUATED_ROWS = {"cpu": 500, "gpu": 2000}


class LocalDraw(NamedTuple):
    """One local run of a round: who, which occurrence of it, and the rows of every batch, in order."""

    worker: int
    draw: int
    batches: list[np.ndarray]


@dataclass
class Session:
    """One run, ready to go. `state` is the only thing that changes."""

    plan: Plan
    program: Program
    federation: Federation
    held: Held
    examples: Any
    rates: dict[str, Array]
    key: Key[Array, ""]
    state: RunState
    cost: RoundCost
    clock: Clock

    def advance(self, rounds: int, evaluate: bool) -> tuple[RoundInfo, evaluation.Evaluation | None]:
        """Runs that many rounds on the device, then looks at the model if asked. Waits for both."""
        self.state, info, seen = self.program.block(
            self.held,
            self.examples,
            self.state,
            self.rates,
            self.key,
            jnp.int32(rounds),
            jnp.asarray(evaluate),
        )
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
        sizes = jnp.asarray(self.federation.sizes)
        cohort = jax.device_get(self.program.cohort(sizes, self.key, jnp.int32(t)))
        return [
            LocalDraw(int(worker), int(draw), list(self._batches(t, int(worker), int(draw))))
            for worker, draw, weight in zip(*cohort, strict=True)
            if weight > 0
        ]

    def _batches(self, t: int, worker: int, draw: int) -> Iterator[np.ndarray]:
        rows = self.federation.train.rows(worker)
        steps = int(self.plan.work.count(len(rows), t))
        if self.plan.work.batch == 0:
            yield from [rows] * steps
            return
        key = keys.worker_key(self.key, jnp.int32(t), jnp.int32(worker), jnp.int32(draw))
        picked = jax.device_get(_all_batches(self.plan.work, self.plan.capacity, key, jnp.int32(len(rows))))
        for positions, count in list(zip(*picked, strict=True))[:steps]:
            yield rows[positions[:count]]


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
    cost = check(task)
    load, settings = load_of(task), task.settings
    params = jax.eval_shape(task.model.init, jax.random.key(0), task.federation.data.x_train[:1])
    devices = execution.devices_for(load.places, settings.devices, nbytes(params))
    room = room_for([task.federation]) if room is None else room

    def seconds(candidate: Execution) -> float:
        trial = _set_up(task, candidate, room, like, cost)
        return execution.timed(lambda: trial.advance(1, False))

    chosen = execution.parse(settings.execution, load.places, devices)
    return _set_up(task, chosen or execution.choose(load, devices, seconds), room, like, cost)


def check(task: Task) -> RoundCost:
    """Refuses parts that do not fit each other, and says what a round of them sends."""
    _check_rates(task.algorithm)
    _check_model(task.model, task.federation)
    _check_settings(task.settings, task.model, task.federation)
    _check_state(task.algorithm, task.model, task.federation, task.sampling)
    data = task.federation.data
    # What a message cannot hold (more entries than the model has) shows when its shape is asked for.
    return round_cost(
        task.algorithm,
        task.model,
        data.x_train[0],
        data.y_train[0],
        task.work,
        task.settings.precision,
        task.federation.workers,
        task.federation.shared_bytes,
    )


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
    mesh, data = platform.mesh(chosen.devices), federation.data
    run_key = jax.random.key(settings.seed)
    params = task.model.init(keys.init_key(run_key), jnp.asarray(data.x_train[:1]))
    plan = _plan(task, chosen, room, nbytes(params))
    x, y, x_test, y_test = _examples_of(federation, plan, like)
    rows = (padded(federation.order, room.held), federation.offsets, federation.sizes)
    rates = {
        name: jax.tree.map(jnp.float32, rate)
        for name, rate in algorithm.rates.items()
        if not _is_schedule(rate)
    }
    looked_at = evaluation.examples(federation, x, y, x_test, y_test, settings.worker_accuracy)
    return Session(
        plan=plan,
        program=program(plan),
        federation=federation,
        held=Held(x, y, *platform.replicate(rows, mesh)),
        examples=platform.replicate(_roomy(looked_at, room), mesh),
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
        schedules=tuple(
            (name, rate) for name, rate in sorted(task.algorithm.rates.items()) if _is_schedule(rate)
        ),
        model=task.model,
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
    )


def _is_schedule(rate: Any) -> bool:
    """Whether a rate is code; all others are data."""
    return callable(rate) or isinstance(rate, PerStep)


def _examples_of(federation: Federation, plan: Plan, like: Session | None) -> Any:
    """The examples on the devices: another session's where that has the same."""
    data = federation.data
    if like is not None and like.federation.data is data and like.plan.mesh == plan.mesh:
        return like.held.x, like.held.y, like.examples.test.x, like.examples.test.y
    return platform.replicate((data.x_train, data.y_train, data.x_test, data.y_test), plan.mesh)


def _roomy(examples: evaluation.Examples, room: Room) -> evaluation.Examples:
    """With rows of no weight up to the room's size."""

    def pad(rows: evaluation.Weighted, size: int) -> evaluation.Weighted:
        holder = padded(rows.holder, size) if len(rows.holder) else rows.holder
        return rows._replace(
            order=padded(rows.order, size), weights=padded(rows.weights, size), holder=holder
        )

    own = None if examples.own is None else pad(examples.own, room.tested)
    # Rows that many workers hold are looked at once, so there are never more than the data has.
    return examples._replace(train=pad(examples.train, min(room.held, len(examples.train.x))), own=own)


def padded(array: np.ndarray, size: int) -> np.ndarray:
    """With zeros up to that size."""
    return array if len(array) == size else np.pad(array, (0, size - len(array)))


def _check_rates(algorithm: Algorithm) -> None:
    for name, rate in algorithm.rates.items():
        if name == "server_lr" and isinstance(rate, PerStep):
            raise BadInput(
                "server-lr: the server takes one step a round, so its rate depends on the round alone"
            )
        if _is_schedule(rate) or not name.endswith("_lr"):
            continue
        for number in rate if isinstance(rate, Decaying) else (rate,):
            if isinstance(number, bool | str):
                raise BadInput(
                    f"{name.replace('_', '-')} = {rate!r}: a learning rate must be a number or a function"
                )
            # As the float32 that it will be: 1e-60 is none.
            if not 0 < np.float32(number) < np.inf:  # type: ignore[arg-type]
                raise BadInput(f"{name.replace('_', '-')} = {rate}: a learning rate must be a number above 0")


def _check_settings(settings: Settings, model: Model, federation: Federation) -> None:
    """What is to be measured can be."""
    if settings.target is not None and model.metric is accuracy and not 0 < settings.target <= 1:
        raise BadInput(
            f"target = {settings.target:g}: an accuracy is above 0 and at most 1, for instance 0.95"
        )
    own = federation.test
    if settings.worker_accuracy and (own is None or not own.sizes.any()):
        raise BadInput(
            f"worker-accuracy: {federation.name} by {federation.partition} leaves the workers no test rows of "
            "their own (a .npz names their holders in worker_test)"
        )


def _check_state(algorithm: Algorithm, model: Model, federation: Federation, sampling: Sampling) -> None:
    """A worker drawn twice in a round would have two new states and one place to keep them."""
    params = jax.eval_shape(model.init, jax.random.key(0), federation.data.x_train[:1])
    own = jax.tree.leaves(jax.eval_shape(algorithm.init_worker, params))
    # What is addressed to one worker is a state of its own that the server keeps.
    if sampling.repeats and (own or algorithm.address is not Algorithm._field_defaults["address"]):
        raise BadInput(
            f"algorithm {algorithm.name} keeps a state for each worker, which sampling {sampling.name} leaves "
            f"undefined when a worker is drawn twice in a round: use without-replacement"
        )


def _check_model(model: Model, federation: Federation) -> None:
    """The model takes these examples, and its outputs suit these labels."""
    data = federation.data
    if federation.classes is None and model.loss is cross_entropy:
        raise BadInput(
            f"{federation.name} has numbers to predict, not classes, but model {model.name} predicts classes: give "
            "one whose loss is for numbers, as examples/regression.py does, or integer labels"
        )
    x = jax.ShapeDtypeStruct((2, *data.x_train.shape[1:]), data.x_train.dtype)
    y = jax.ShapeDtypeStruct((2, *data.y_train.shape[1:]), data.y_train.dtype)
    try:
        params = jax.eval_shape(model.init, jax.random.key(0), x)
        out = jax.eval_shape(model.apply, params, x)
        loss = jax.eval_shape(model.loss, out, y)
    except BadInput:
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadInput(
            f"model {model.name} does not fit {federation.name} (examples {data.x_train.shape[1:]}, "
            f"targets {y.dtype} {y.shape[1:]}): {reason[:200]}"
        ) from error
    if getattr(loss, "shape", None) != (2,):
        raise BadInput(f"model {model.name}: its loss must give one number an example, but gives {loss}")
    if federation.classes is not None and getattr(out, "ndim", 0) == 2 and out.shape[1] < federation.classes:
        raise BadInput(
            f"model {model.name} has {out.shape[1]} outputs but {federation.name} has {federation.classes} classes"
        )
