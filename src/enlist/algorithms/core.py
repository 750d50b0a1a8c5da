"""What an algorithm is, and the parts that algorithms share: the mean, the server's step.

An algorithm is a few pure functions over pytrees, written once and run three ways: simulated, sharded over
devices, deployed. This module knows nothing of files, clocks or networks.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Float, Int, Key

from enlist.algorithms.work import LocalWork
from enlist.errors import BadInput
from enlist.problem.objective import Objective

Tree = Any
Scalar = Float[Array, ""]


class PerStep(NamedTuple):
    """A worker rate that changes within the round: `schedule(t, k)` for local step k of round t."""

    schedule: Callable[[Int[Array, ""], Int[Array, ""]], Any]


class Decaying(NamedTuple):
    """A rate that falls with the round t, `first * rounds / (rounds + t)`: half of the first after `rounds` rounds.

    Both numbers are data, so changing them compiles nothing anew. `rounds=1` is first / (1 + t).
    """

    first: Any
    rounds: Any


Rate = float | int | Scalar | Callable[[Int[Array, ""]], Any] | PerStep | Decaying


class WorkerData(NamedTuple):
    """One worker's view of the examples: its rows are `order[offset : offset + size]` of `x` and `y`.

    Without an `order` they are `offset : offset + size`.
    `size` is a Python int where all workers hold equally many rows; `steps` likewise. `reach` bounds `size` and is
    the same for all workers that run side by side; `capacity` bounds all sizes. `longest` bounds `steps` in
    the same way; None where there is nobody to wait for.
    """

    x: Array
    y: Array
    order: Int[Array, " held"] | None
    offset: Int[Array, ""] | int
    size: Int[Array, ""] | int
    reach: Int[Array, ""] | int
    capacity: int
    steps: Int[Array, ""] | int
    longest: Int[Array, ""] | None = None

    def take(self, positions: Int[Array, " batch"]) -> tuple[Array, Array]:
        """Examples at these positions among the worker's own rows."""
        rows = self.offset + positions
        if self.order is not None:
            rows = self.order[rows]
        return self.x[rows], self.y[rows]


class Context(NamedTuple):
    """What a round knows without its being sent.

    Args:
        t: the round, from 0.
        objective: the loss and its gradient.
        work: how much a worker does: `Steps` or `Epochs`.
        rates: the learning rates of this round by name; a `PerStep` rate is a function of the local step.
        replica: what every worker holds from the broadcasts of earlier rounds, where the algorithm counts on it.
    """

    t: Int[Array, ""]
    objective: Objective
    work: LocalWork
    rates: Mapping[str, Any]
    replica: Tree = ()


class Reply(NamedTuple):
    """What a worker gives back: `message` travels, `worker_state` stays with it.

    Its `weight` in the mean is a number from 0 on; with any other the round counts as diverged.
    """

    message: Tree
    weight: Scalar
    worker_state: Tree
    stats: "LocalStats"


class LocalStats(NamedTuple):
    """Mean loss over the local steps, and how many there were."""

    loss: Scalar
    steps: Int[Array, ""]


class Stack(NamedTuple):
    """Every decoded message of a cohort, in its order; a weight of 0 marks an empty place."""

    summands: Tree
    weights: Float[Array, " places"]
    ids: Int[Array, " places"]
    losses: Float[Array, " places"]


class Aggregate(NamedTuple):
    """What the server works on: the weighted mean of the decoded messages.

    Args:
        mean: sum_i w_i s_i / sum_i w_i over the cohort.
        weight: sum_i w_i.
        count: |S_t|, counted with repetition.
        workers: m.
        stack: all of them, for an algorithm that asks for it by `reduce="stack"`.
        probe: the mean of the cohort's probes, for an algorithm that has one.
    """

    mean: Tree
    weight: Scalar
    count: Scalar  # type: ignore[assignment]
    workers: int
    stack: Stack | None = None
    probe: Tree = ()


class Probed(NamedTuple):
    """The payload of an algorithm with a probe: what was broadcast, and the mean of the cohort's probes."""

    payload: Tree
    mean: Tree


Local = Callable[[Context, Key[Array, ""], Tree, Tree, WorkerData], Reply]


def _to_all(payload: Tree, worker: Any) -> Tree:
    return payload


def _nothing(server_state: Tree) -> Tree:
    return ()


class Algorithm(NamedTuple):
    """One algorithm, as drawn in docs/architecture.md. Rates are data; everything else is code.

    Most need the first nine parts alone. The others:

    Args:
        probe: a first exchange within the round: like `local`, on the broadcast payload. The cohort's mean probe
            then goes down too, and `local` gets `Probed(payload, mean)`. A probe changes no worker's state.
        reduce: `mean`, or `stack` where the server must see every message: then memory grows with n.
        address: `address(payload, worker)`: what of the payload goes to that worker; by default all of it.
        replica: `replica(server_state)`: what every worker holds from the broadcasts of earlier rounds, given to
            `local` as `ctx.replica` and not sent again.
    """

    name: str
    init_server: Callable[[Tree, int], Tree]
    init_worker: Callable[[Tree], Tree]
    broadcast: Callable[[Tree], Tree]
    local: Local
    decode: Callable[[Tree], Tree]
    server: Callable[[Context, Key[Array, ""], Tree, Aggregate], Tree]
    params: Callable[[Tree], Tree]
    rates: Mapping[str, Rate]
    probe: Local | None = None
    reduce: str = "mean"
    address: Callable[[Tree, Any], Tree] = _to_all
    replica: Callable[[Tree], Tree] = _nothing


def is_schedule(rate: Any) -> bool:
    """Whether a rate is code; all others are data."""
    return callable(rate) or isinstance(rate, PerStep)


def data_and_schedules(rates: Mapping[str, Rate]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those that a compiled program is given, and those that it is compiled with, each by name in order."""
    ordered = sorted(rates.items())
    return (
        {name: rate for name, rate in ordered if not is_schedule(rate)},
        {name: rate for name, rate in ordered if is_schedule(rate)},
    )


def rates_at(rates: Mapping[str, Rate], t: Int[Array, ""]) -> dict[str, Any]:
    """The rates of round t: schedules are evaluated at the round, a `PerStep` is bound to it."""

    def at(rate: Rate) -> Any:
        if isinstance(rate, PerStep):
            return lambda k: rate.schedule(t, k)
        if isinstance(rate, Decaying):
            return rate.first * rate.rounds / (rate.rounds + t.astype(jnp.float32))
        return jnp.asarray(rate(t), jnp.float32) if callable(rate) else rate

    return {name: at(rate) for name, rate in rates.items()}


def difference(a: Tree, b: Tree) -> Tree:
    """a - b."""
    return jax.tree.map(jnp.subtract, a, b)


def add_scaled(a: Tree, scale: Any, b: Tree) -> Tree:
    """a + scale b."""
    return jax.tree.map(lambda x, y: x + jnp.asarray(scale, y.dtype) * y, a, b)


def check_optimizer(side: str, make: Callable[[Any], optax.GradientTransformation]) -> None:
    """Refuses what is no optax constructor, needs more than gradients, or hides its rate in its state.

    The rate is data, handed in anew each round; an optimizer that keeps the first one (rprop) would ignore it.
    """
    name = getattr(make, "__name__", repr(make))
    tiny = jax.ShapeDtypeStruct((2,), jnp.float32)
    try:
        # Traced, not computed: that would start jax before a run has chosen its devices.
        traced = jax.make_jaxpr(lambda rate, params: make(rate).init(params))(1.0, tiny)
        state = jax.eval_shape(make(1.0).init, tiny)
        jax.eval_shape(make(1.0).update, tiny, state, tiny)
    except Exception as error:
        raise BadInput(
            f"{side} optimizer {name}: must be an optax constructor that takes a rate and steps on gradients alone"
        ) from error
    from_rate = {id(traced.jaxpr.invars[0])}
    for eqn in traced.jaxpr.eqns:
        if any(id(v) in from_rate for v in eqn.invars):
            from_rate |= {id(v) for v in eqn.outvars}
    if any(id(v) in from_rate for v in traced.jaxpr.outvars):
        raise BadInput(
            f"{side} optimizer {name} keeps its first rate for good, so none can be given by round"
        )


def step_along(
    optimizer: optax.GradientTransformation, direction: Tree, state: Tree, params: Tree
) -> tuple[Tree, Tree]:
    """The server's step: optax descends along what it is given, so handed -Delta_t, sgd(eta) is x_t + eta Delta_t."""
    updates, state = optimizer.update(jax.tree.map(jnp.negative, direction), state, params)
    return optax.apply_updates(params, updates), state


class Total(NamedTuple):
    """A weighted sum under way."""

    sum: Tree
    weight: Scalar
    count: Scalar  # type: ignore[assignment]
    loss: Scalar


def empty_total(summand: Tree) -> Total:
    """Nothing added yet; `summand` gives the shapes. Integers and half precision are added up as float32."""
    zero = jnp.zeros(())
    wide = jax.tree.map(lambda s: jnp.zeros(s.shape, jnp.promote_types(s.dtype, jnp.float32)), summand)
    return Total(wide, zero, zero, zero)


def fold(
    total: Total,
    summands: Tree,
    weights: Float[Array, " n"],
    losses: Float[Array, " n"],
    order: Int[Array, " n"] | None = None,
) -> Total:
    """Adds a stack of summands one after the other; a weight of 0 marks an empty place.

    The order of addition (as given, or as `order` says) does not depend on how many come at once, so a cohort
    computed in groups, on several devices or on real machines gives the same bits as one computed worker by worker.
    """

    def add(total: Total, i: Int[Array, ""]) -> tuple[Total, None]:
        summand, weight, loss = jax.tree.map(
            lambda a: lax.dynamic_index_in_dim(a, i, keepdims=False), (summands, weights, losses)
        )
        # No weight at all: it must show in the sum.
        weight = jnp.where(weight >= 0, weight, jnp.nan)
        taken = weight != 0
        # An empty place must not leave a trace, not even a NaN times zero.
        added = jax.tree.map(
            lambda a, s: jnp.where(taken, a + weight.astype(a.dtype) * s.astype(a.dtype), a),
            total.sum,
            summand,
        )
        return Total(
            added,
            total.weight + weight,
            total.count + taken,
            jnp.where(taken, total.loss + loss, total.loss),
        ), None

    places = len(weights)
    one_by_one = jnp.arange(places, dtype=jnp.int32) if order is None else order
    return lax.scan(add, total, one_by_one, unroll=min(8, places))[0]


def mean(total: Total, workers: int, stack: Stack | None = None, probe: Tree = ()) -> Aggregate:
    """The weighted mean; of an empty cohort it is zero, which leaves the model where it is."""
    scale = jnp.where(total.weight > 0, 1 / jnp.maximum(total.weight, 1e-30), 0.0)
    return Aggregate(
        jax.tree.map(lambda s: s * scale.astype(s.dtype), total.sum),
        total.weight,
        total.count,
        workers,
        stack,
        probe,
    )
