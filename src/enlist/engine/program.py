"""The compiled program of a run: many rounds of an algorithm, and the evaluation at their end, without leaving
the device.

A cohort is worked off in groups of `devices x lanes` workers: every device runs `lanes` workers at once, and
the messages of a group are folded in cohort order before the next group starts. So memory grows with the group
and not with n, and the sum comes out the same however the cohort was cut.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Bool, Float, Int, Key

from enlist.algorithms import core, keys
from enlist.algorithms.core import Algorithm, Rate, Tree, WorkerData
from enlist.algorithms.work import LocalWork
from enlist.engine import evaluation
from enlist.engine.evaluation import Evaluation, Passes
from enlist.participation.sampling import Sampling, occurrences
from enlist.problem.models import Model
from enlist.problem.objective import objective

AXIS = "cohort"


class Plan(NamedTuple):
    """All that shapes the compiled program, apart from the shapes of arrays. Equal plans share one program.

    Args:
        algorithm: its code; the rates are data and left out.
        schedules: the rates that are functions, by name.
        rows: what every worker holds where all hold equally many rows, else None.
        capacity: the most rows that a worker holds.
        lanes: workers that one device runs at once.
        devices: how many devices share the cohort.
        passes: what an evaluation looks at.
    """

    algorithm: Algorithm
    schedules: tuple[tuple[str, Rate], ...]
    model: Model
    precision: str
    work: LocalWork
    sampling: Sampling
    workers: int
    rows: int | None
    capacity: int
    lanes: int
    mesh: Mesh
    passes: Passes

    @property
    def group(self) -> int:
        """Workers that run at once, over all devices."""
        return self.lanes * self.mesh.size


class Held(NamedTuple):
    """A federation's training rows on the device."""

    x: Array
    y: Array
    order: Int[Array, " held"]
    offsets: Int[Array, " m"]
    sizes: Int[Array, " m"]


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


class Cohort(NamedTuple):
    """S_t, in the order in which it is worked off and added up."""

    ids: Int[Array, " places"]
    draws: Int[Array, " places"]
    weights: Float[Array, " places"]


class Program(NamedTuple):
    """The compiled functions of a plan.

    Args:
        start: `start(params) -> RunState`.
        block: `block(held, passes, state, rates, key, rounds, evaluate) -> state, info, evaluation`; `rounds`
            and `evaluate` are data, so blocks of any length are one program.
        cohort: `cohort(sizes, key, t) -> Cohort`, to see what a round drew.
    """

    start: Callable[[Tree], RunState]
    block: Callable[..., tuple[RunState, RoundInfo, Evaluation]]
    cohort: Callable[..., Cohort]


@lru_cache(maxsize=64)
def program(plan: Plan) -> Program:
    """Builds (once for equal plans) the functions of a run."""
    replicated = PartitionSpec()

    def block(
        held: Held,
        examples: Any,
        state: RunState,
        rates: Mapping[str, Array],
        key: Key[Array, ""],
        rounds: Int[Array, ""],
        evaluate: Bool[Array, ""],
    ) -> tuple[RunState, RoundInfo, Evaluation]:
        places = plan.sampling.places(plan.workers)
        nothing = RoundInfo(jnp.zeros(()), jnp.zeros(()), jnp.zeros(places, jnp.int32), jnp.zeros(places))

        def step(_: Int[Array, ""], carry: tuple[RunState, RoundInfo]) -> tuple[RunState, RoundInfo]:
            before, _info = carry
            after, info = one_round(plan, held, before, rates, key)
            return _freeze_if_broken(plan.algorithm, before, after, info), info

        state, info = lax.fori_loop(0, rounds, step, (state, nothing))
        look = partial(
            evaluation.evaluate, plan.passes, objective(plan.model, plan.precision), plan.mesh.size, AXIS
        )
        params = plan.algorithm.params(state.server)
        blank = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(look, params, examples))
        seen = lax.cond(evaluate, lambda: look(params, examples), lambda: blank)
        return state, info, seen

    if plan.mesh.size > 1:
        block = jax.shard_map(
            block, mesh=plan.mesh, in_specs=replicated, out_specs=replicated, check_vma=False
        )  # everything is replicated: only the cohort is split, by the device's own number
    return Program(
        start=partial(start, plan),
        block=jax.jit(block, donate_argnums=2),
        cohort=jax.jit(partial(draw_cohort, plan)),
    )


def start(plan: Plan, params: Tree) -> RunState:
    """The state before round 0."""
    one = plan.algorithm.init_worker(params)
    workers = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (plan.workers, *jnp.shape(leaf))).copy(), one)
    server = plan.algorithm.init_server(params, plan.workers)
    return RunState(server, workers, jnp.int32(0), jnp.asarray(True))


def draw_cohort(plan: Plan, sizes: Int[Array, " m"], key: Key[Array, ""], t: Int[Array, ""]) -> Cohort:
    """S_t, those with most local steps first: a group then holds workers with about equally much to do.

    The order is a matter of steps and ids alone, so it is the same whatever the groups are.
    """
    ids, weights = plan.sampling.draw(keys.sample_key(key, t), plan.workers)
    cohort = Cohort(ids, occurrences(ids), weights)
    if plan.rows is not None:
        return cohort
    steps = jnp.where(weights > 0, plan.work.count(sizes[ids]), 0)
    order = jnp.argsort(-steps, stable=True)
    return jax.tree.map(lambda a: a[order], cohort)


def one_round(
    plan: Plan, held: Held, state: RunState, rates: Mapping[str, Any], key: Key[Array, ""]
) -> tuple[RunState, RoundInfo]:
    """Round t: sample, work locally, fold, step on the server."""
    algorithm, t = plan.algorithm, state.t
    ctx = core.Context(
        t,
        objective(plan.model, plan.precision),
        plan.work,
        core.rates_at({**rates, **dict(plan.schedules)}, t),
    )
    cohort = draw_cohort(plan, held.sizes, key, t)
    payload = algorithm.broadcast(state.server)
    groups = _in_groups(cohort, plan.group)

    def work_off(carry: tuple[core.Total, Tree], group: Cohort) -> tuple[tuple[core.Total, Tree], None]:
        total, worker_states = carry
        summands, weights, losses, new_states = _group(plan, ctx, key, payload, held, worker_states, group)
        total = core.fold(total, summands, weights, losses)
        return (total, _put_back(worker_states, group, new_states)), None

    summand = jax.eval_shape(partial(_one_summand, plan, ctx, key, payload, held, state.workers), cohort)
    (total, workers), _ = lax.scan(work_off, (core.empty_total(summand), state.workers), groups)
    got = core.mean(total, plan.workers)
    server = algorithm.server(ctx, keys.server_key(key, t), state.server, got)
    info = RoundInfo(
        optax.tree.norm(got.mean), total.loss / jnp.maximum(total.count, 1.0), cohort.ids, cohort.weights
    )
    return RunState(server, workers, t + 1, state.alive), info


def _group(
    plan: Plan,
    ctx: core.Context,
    key: Key[Array, ""],
    payload: Tree,
    held: Held,
    worker_states: Tree,
    group: Cohort,
) -> tuple[Tree, Float[Array, " group"], Float[Array, " group"], Tree]:
    """Runs one group, each device its own lanes, and hands every device the summands of all."""
    device = lax.axis_index(AXIS) if plan.mesh.size > 1 else 0
    mine = jax.tree.map(lambda a: lax.dynamic_slice_in_dim(a, device * plan.lanes, plan.lanes), group)

    def local(one: Cohort) -> tuple[Tree, Float[Array, ""], Float[Array, ""], Tree]:
        return _local(plan, ctx, key, payload, held, worker_states, one)

    if plan.lanes == 1:
        results = jax.tree.map(lambda a: a[None], local(jax.tree.map(lambda a: a[0], mine)))
    else:
        results = jax.vmap(local)(mine)
    if plan.mesh.size > 1:
        results = lax.all_gather(results, AXIS, tiled=True)
    return results


def _local(
    plan: Plan,
    ctx: core.Context,
    key: Key[Array, ""],
    payload: Tree,
    held: Held,
    worker_states: Tree,
    one: Cohort,
) -> tuple[Tree, Float[Array, ""], Float[Array, ""], Tree]:
    """One worker's local run, decoded: (summand, weight, loss, new worker state)."""
    data = _worker_data(plan, held, one)
    state = jax.tree.map(lambda leaf: leaf[one.ids], worker_states)
    reply = plan.algorithm.local(ctx, keys.worker_key(key, ctx.t, one.ids, one.draws), payload, state, data)
    return (
        plan.algorithm.decode(reply.message),
        one.weights * reply.weight,
        reply.stats.loss,
        reply.worker_state,
    )


def _one_summand(
    plan: Plan,
    ctx: core.Context,
    key: Key[Array, ""],
    payload: Tree,
    held: Held,
    states: Tree,
    cohort: Cohort,
) -> Tree:
    return _local(plan, ctx, key, payload, held, states, jax.tree.map(lambda a: a[0], cohort))[0]


def _worker_data(plan: Plan, held: Held, one: Cohort) -> WorkerData:
    size = plan.rows if plan.rows is not None else held.sizes[one.ids]
    steps = plan.work.count(size)
    if plan.lanes == 1:
        # Alone on its device, an empty place costs nothing: it takes no step.
        steps = jnp.where(one.weights > 0, steps, 0)
    return WorkerData(held.x, held.y, held.order, held.offsets[one.ids], size, plan.capacity, steps)


def _in_groups(cohort: Cohort, group: int) -> Cohort:
    """The cohort as groups x group, filled up with empty places."""
    missing = -len(cohort.ids) % group
    return jax.tree.map(lambda a: jnp.pad(a, (0, missing)).reshape(-1, group), cohort)


def _put_back(worker_states: Tree, group: Cohort, new_states: Tree) -> Tree:
    m = [leaf.shape[0] for leaf in jax.tree.leaves(worker_states)]
    if not m:
        return worker_states
    # An empty place writes outside the array, which is dropped.
    where = jnp.where(group.weights > 0, group.ids, m[0])
    return jax.tree.map(lambda all_, new: all_.at[where].set(new, mode="drop"), worker_states, new_states)


def _freeze_if_broken(algorithm: Algorithm, before: RunState, after: RunState, info: RoundInfo) -> RunState:
    size = optax.tree.norm(algorithm.params(after.server))
    alive = before.alive & jnp.isfinite(info.delta_norm) & jnp.isfinite(size)
    kept = jax.tree.map(lambda new, old: jnp.where(alive, new, old), after, before)
    return kept._replace(alive=alive)
