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
from enlist.algorithms.core import Algorithm, Context, PerStep, WorkerData, rates_at
from enlist.algorithms.work import Batch, LocalWork
from enlist.cost import RoundCost, nbytes
from enlist.engine import evaluation, execution, platform
from enlist.engine.execution import Execution
from enlist.engine.plan import Held, Plan
from enlist.engine.program import Program, RoundInfo, RunState, program
from enlist.errors import BadInput
from enlist.options import Settings
from enlist.participation.sampling import Sampling
from enlist.problem.federation import Federation
from enlist.problem.models import Model, accuracy, cross_entropy
from enlist.problem.objective import objective

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
        steps = int(self.plan.work.count(len(rows)))
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


def open_session(
    algorithm: Algorithm,
    model: Model,
    federation: Federation,
    sampling: Sampling,
    work: LocalWork,
    settings: Settings,
) -> Session:
    """Checks that the parts fit each other, decides how to execute, and sets everything up on the devices."""
    places = sampling.places(federation.workers)
    _check_rates(algorithm)
    _check_model(model, federation)
    _check_settings(settings, model, federation)
    _check_state(algorithm, model, federation, sampling)
    data = federation.data
    params = jax.eval_shape(model.init, jax.random.key(0), data.x_train[:1])
    devices = execution.devices_for(places, settings.devices, nbytes(params))
    load = execution.Load(
        model, settings.precision, work, federation.sizes, places, (data.x_train[:1], data.y_train[:1])
    )

    def session(chosen: Execution) -> Session:
        return _set_up(algorithm, model, federation, sampling, work, settings, chosen)

    def seconds(candidate: Execution) -> float:
        trial = session(candidate)
        return execution.timed(lambda: trial.advance(1, False))

    chosen = execution.parse(settings.execution, places, devices) or execution.choose(load, devices, seconds)
    return session(chosen)


def _set_up(
    algorithm: Algorithm,
    model: Model,
    federation: Federation,
    sampling: Sampling,
    work: LocalWork,
    settings: Settings,
    chosen: Execution,
) -> Session:
    mesh = platform.mesh(chosen.devices)
    data, sizes = federation.data, federation.sizes
    run_key = jax.random.key(settings.seed)
    params = model.init(keys.init_key(run_key), jnp.asarray(data.x_train[:1]))
    schedules = tuple(
        (name, rate)
        for name, rate in sorted(algorithm.rates.items())
        if callable(rate) or isinstance(rate, PerStep)
    )
    passes = evaluation.Passes(
        rows=EVALUATED_ROWS["cpu" if jax.devices()[0].platform == "cpu" else "gpu"],
        gradient=settings.grad_norm,
        workers=federation.workers if settings.worker_accuracy else 0,
    )
    plan = Plan(
        algorithm=algorithm._replace(rates=()),  # type: ignore[arg-type]
        schedules=schedules,
        model=model,
        precision=settings.precision,
        work=work,
        sampling=sampling,
        workers=federation.workers,
        rows=int(sizes[0]) if (sizes == sizes[0]).all() else None,
        capacity=int(sizes.max()),
        lanes=chosen.lanes,
        turns=chosen.turns(sampling.places(federation.workers), nbytes(params)),
        mesh=mesh,
        passes=passes,
    )
    x, y, x_test, y_test = platform.replicate((data.x_train, data.y_train, data.x_test, data.y_test), mesh)
    rows = (federation.order, federation.offsets, federation.sizes)
    start = program(plan).start(params)
    held = Held(x, y, *platform.replicate(rows, mesh))
    rates = {
        name: rate
        for name, rate in algorithm.rates.items()
        if not callable(rate) and not isinstance(rate, PerStep)
    }
    return Session(
        plan=plan,
        program=program(plan),
        federation=federation,
        held=held,
        examples=platform.replicate(
            evaluation.examples(federation, x, y, x_test, y_test, settings.worker_accuracy), mesh
        ),
        rates=platform.replicate({name: jnp.float32(rate) for name, rate in rates.items()}, mesh),
        key=run_key,
        state=platform.replicate(start, mesh),
        cost=_round_cost(plan, algorithm, held, start),
    )


def _round_cost(plan: Plan, algorithm: Algorithm, held: Held, state: RunState) -> RoundCost:
    """Bytes of what goes down and what comes up, from the payload and the message themselves."""

    def message(state: RunState) -> Any:
        ctx = Context(
            state.t, objective(plan.model, plan.precision), plan.work, rates_at(algorithm.rates, state.t)
        )
        data = WorkerData(held.x, held.y, held.order, 0, plan.capacity, plan.capacity, plan.capacity, 1)
        own = jax.tree.map(lambda leaf: leaf[0], state.workers)
        return algorithm.local(ctx, jax.random.key(0), algorithm.broadcast(state.server), own, data).message

    down = jax.eval_shape(lambda s: algorithm.broadcast(s.server), state)
    return RoundCost(uplink=nbytes(jax.eval_shape(message, state)), downlink=nbytes(down))


def _check_rates(algorithm: Algorithm) -> None:
    for name, rate in algorithm.rates.items():
        if name == "server_lr" and isinstance(rate, PerStep):
            raise BadInput(
                "server-lr: the server takes one step a round, so its rate depends on the round alone"
            )
        if callable(rate) or isinstance(rate, PerStep) or not name.endswith("_lr"):
            continue
        if isinstance(rate, bool | str):
            raise BadInput(
                f"{name.replace('_', '-')} = {rate!r}: a learning rate must be a number or a function"
            )
        # As the float32 that it will be: 1e-60 is none.
        if not 0 < np.float32(rate) < np.inf:
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
    if sampling.repeats and jax.tree.leaves(jax.eval_shape(algorithm.init_worker, params)):
        raise BadInput(
            f"algorithm {algorithm.name} keeps a state with each worker, which sampling {sampling.name} leaves "
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
