"""The compiled program of a run: many rounds of an algorithm, and a look at the model, without leaving the device."""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec
from jaxtyping import Array, Bool, Float, Int, Key

from enlist.algorithms import core
from enlist.algorithms.core import Tree
from enlist.algorithms.round import context, step
from enlist.engine import evaluation
from enlist.engine.cohort import Round, draw_cohort, members, put_back, work_off
from enlist.engine.evaluation import Evaluation
from enlist.engine.plan import AXIS, Cohort, Delivered, Draws, Held, Plan
from enlist.problem.objective import objective


class RunState(NamedTuple):
    """Everything that a run carries from round to round, and that a checkpoint keeps.

    Args:
        server: the algorithm's server state.
        workers: the workers' own states, stacked over m; () for algorithms without.
        t: rounds done.
        alive: False from the round on whose update was not finite; that round is not counted in `t`, and the
            states stay what they were before it.
    """

    server: Tree
    workers: Tree
    t: Int[Array, ""]
    alive: Bool[Array, ""]


class RoundInfo(NamedTuple):
    """What the last round looked like."""

    delta_norm: Float[Array, ""]
    local_loss: Float[Array, ""]
    ids: Int[Array, " places"]
    weights: Float[Array, " places"]


class Program(NamedTuple):
    """The compiled functions of a plan.

    Args:
        start: `start(params) -> RunState`.
        block: `block(held, examples, state, rates, key, rounds, evaluate) -> state, info, evaluation`; `rounds`
            and `evaluate` are data, so blocks of any length are one program.
        cohort: `cohort(sizes, key, t) -> Cohort`, to see what a round drew.
    """

    start: Callable[[Tree], RunState]
    block: Callable[..., tuple[RunState, RoundInfo, Evaluation]]
    cohort: Callable[..., Cohort]


@lru_cache(maxsize=64)
def program(plan: Plan) -> Program:
    """Builds (once for equal plans) the functions of a run."""
    whole: Callable[..., Any] = partial(block, plan)
    if plan.devices > 1:
        # Everything is replicated: only the cohort is split, by the device's own number, and rows that come with it.
        replicated, split = PartitionSpec(), PartitionSpec(AXIS)
        held = Delivered(split, split, replicated, replicated) if plan.streamed else replicated  # type: ignore[arg-type]
        whole = jax.shard_map(
            whole,
            mesh=plan.mesh,
            in_specs=(held, *[replicated] * 6),
            out_specs=replicated,
            check_vma=False,
        )
    return Program(
        start=partial(start, plan),
        block=jax.jit(whole, donate_argnums=2),
        cohort=cohorts_of(plan.draws),
    )


@lru_cache(maxsize=64)
def cohorts_of(draws: Draws) -> Callable[..., Cohort]:
    """`cohort(sizes, key, t)`, compiled when first asked for."""
    return jax.jit(partial(draw_cohort, draws))


def block(
    plan: Plan,
    held: Held | Delivered,
    examples: Any,
    state: RunState,
    rates: Mapping[str, Any],
    key: Key[Array, ""],
    rounds: Int[Array, ""],
    evaluate: Bool[Array, ""],
) -> tuple[RunState, RoundInfo, Evaluation]:
    """Rounds, and a look at the model they lead to."""
    places = plan.sampling.places(plan.workers)
    nothing = RoundInfo(jnp.zeros(()), jnp.zeros(()), jnp.zeros(places, jnp.int32), jnp.zeros(places))

    def next_round(_: Int[Array, ""], carry: tuple[RunState, RoundInfo]) -> tuple[RunState, RoundInfo]:
        return one_round(plan, held, carry[0], rates, key)

    state, info = lax.fori_loop(0, rounds, next_round, (state, nothing))
    look = partial(
        evaluation.evaluate, plan.passes, objective(plan.model, plan.precision), plan.devices, AXIS
    )
    params = plan.algorithm.params(state.server)
    blank = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(look, params, examples))
    seen = lax.cond(evaluate, lambda: look(params, examples), lambda: blank)
    return state, info, seen


def start(plan: Plan, params: Tree) -> RunState:
    """The state before round 0."""
    one = plan.algorithm.init_worker(params)
    workers = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (plan.workers, *jnp.shape(leaf))).copy(), one)
    # An array that the state holds twice would be given away twice.
    server = jax.tree.map(jnp.copy, plan.algorithm.init_server(params, plan.workers))
    return RunState(server, workers, jnp.int32(0), jnp.asarray(True))


def one_round(
    plan: Plan, held: Held | Delivered, state: RunState, rates: Mapping[str, Any], key: Key[Array, ""]
) -> tuple[RunState, RoundInfo]:
    """Round t: sample, work locally, fold, step on the server.

    If the update is not finite the state stays what it was, marked as no longer alive.
    """
    algorithm, t = plan.algorithm, state.t
    ctx = context(
        objective(plan.model, plan.precision),
        plan.work,
        {**rates, **dict(plan.schedules)},
        t,
        algorithm.replica(state.server),
    )
    cohort = members(plan.draws, held, key, t)
    shared = Round(plan, ctx, key, algorithm.broadcast(state.server), held)
    probe: Tree = ()
    if algorithm.probe is not None:
        probes = work_off(shared._replace(probing=True), cohort, state.workers).total
        probe = core.mean(probes, plan.workers).mean
        shared = shared._replace(payload=core.Probed(shared.payload, probe))
    worked = work_off(shared, cohort, state.workers)
    made = step(algorithm, ctx, key, state.server, worked.total, plan.workers, worked.stack, probe)
    info = RoundInfo(made.delta_norm, made.local_loss, cohort.ids, cohort.weights)
    alive = state.alive & made.finite
    server, t = jax.tree.map(
        lambda new, old: jnp.where(alive, new, old), (made.server, t + 1), (state.server, t)
    )
    return RunState(server, put_back(state.workers, worked, plan.workers, alive), t, alive), info
