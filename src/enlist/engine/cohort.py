"""Working off a cohort: who is in it, in which order, and which device runs whom.

A cohort is cut into groups of `devices x turns x lanes` workers. Within a group every device runs `lanes` workers
side by side, `turns` times; then the devices exchange their messages and add them up in cohort order, each device a
slice of the parameters. So memory grows with the group and not with n, and the sum comes out the same however the
cohort was cut.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from enlist.algorithms import core, keys
from enlist.algorithms.core import Tree, WorkerData
from enlist.algorithms.round import work
from enlist.engine import exchange
from enlist.engine.plan import AXIS, RUNS, Cohort, Delivered, Draws, Held, Members, Plan
from enlist.participation.sampling import occurrences


class Round(NamedTuple):
    """What all workers of a round share.

    Args:
        probing: whether this is the first of two exchanges, in which workers probe and keep no new state.
    """

    plan: Plan
    ctx: core.Context
    key: Key[Array, ""]
    payload: Tree
    held: Held | Delivered
    probing: bool = False


class Pace(NamedTuple):
    """What bounds all workers that run side by side.

    Args:
        reach: their rows.
        longest: their local steps; None where all take equally many.
    """

    reach: Int[Array, ""] | int
    longest: Int[Array, ""] | None


class Results(NamedTuple):
    """What local runs gave: the decoded message, its weight, the local loss, the worker's new state."""

    summand: Tree
    weight: Float[Array, "..."]
    loss: Float[Array, "..."]
    state: Tree


def draw_cohort(draws: Draws, sizes: Int[Array, " m"], key: Key[Array, ""], t: Int[Array, ""]) -> Cohort:
    """S_t, those with most local steps first: who runs side by side then has about equally much to do.

    The order is a matter of steps and ids alone, so it is the same whatever the groups are.
    """
    ids, weights = draws.sampling.draw(keys.sample_key(key, t), draws.workers, t)
    cohort = Cohort(ids, occurrences(ids), weights)
    if draws.rows is not None:
        return cohort
    steps = jnp.where(weights > 0, draws.work.count(sizes[ids], t), 0)
    order = jnp.argsort(-steps, stable=True)
    return jax.tree.map(lambda a: a[order], cohort)


def members(draws: Draws, held: Held | Delivered, key: Key[Array, ""], t: Int[Array, ""]) -> Members:
    """The cohort of round t, and where its rows are."""
    if isinstance(held, Delivered):
        return jax.tree.map(
            lambda a: lax.dynamic_index_in_dim(a, t - held.first, keepdims=False), held.cohorts
        )
    cohort = draw_cohort(draws, held.sizes, key, t)
    return Members(*cohort, held.offsets[cohort.ids], held.sizes[cohort.ids])


class Worked(NamedTuple):
    """What a cohort gave.

    Args:
        total: the weighted sum of its messages.
        stack: all of them, where the algorithm wants to see each.
        seated, states: the new states of the workers, in the order in which they sat.
    """

    total: core.Total
    stack: core.Stack | None
    seated: Members
    states: Tree


def work_off(round_: Round, cohort: Members, worker_states: Tree) -> Worked:
    """Runs all of a cohort. The workers' states are only read: there may be too many to copy."""
    plan = round_.plan
    missing = -len(cohort.ids) % plan.group
    padded = jax.tree.map(lambda a: jnp.pad(a, (0, missing)), cohort)
    # A place that nobody takes is of one row, so that nothing is divided by none.
    padded = padded._replace(sizes=jnp.maximum(padded.sizes, 1))
    groups = jax.tree.map(lambda a: a.reshape(-1, plan.group), padded)
    stacked = plan.algorithm.reduce == "stack" and not round_.probing
    # Who must see every message has each of them whole.
    sliced = plan.devices > 1 and not stacked

    def one_group(total: core.Total, group: Members) -> tuple[core.Total, Any]:
        seated, order = _seat(plan, group)
        results = _exchanged(_run(round_, worker_states, seated), plan.devices, sliced)
        total = core.fold(total, results.summand, results.weight, results.loss, order)
        return total, (seated, results.state, _in_order(results, order) if stacked else None)

    first = jax.tree.map(lambda a: a[0], cohort)
    summand = jax.eval_shape(lambda: _local(round_, worker_states, Pace(plan.capacity, None), first).summand)
    carried = exchange.slices_of(summand, plan.devices) if sliced else summand
    total, parts = lax.scan(one_group, core.empty_total(carried), groups)
    if sliced:
        total = total._replace(sum=exchange.whole(total.sum, summand, AXIS))
    seated, states, each = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), parts)
    return Worked(total, _stack(cohort, each) if stacked else None, seated, states)


def _exchanged(mine: "Results", devices: int, sliced: bool) -> "Results":
    """The results of a whole group: of the messages this device's slice, or all; of everything else all."""
    if devices == 1:
        return mine
    if not sliced:
        return lax.all_gather(mine, AXIS, tiled=True)
    rest = lax.all_gather(mine._replace(summand=()), AXIS, tiled=True)
    return rest._replace(summand=exchange.slices(mine.summand, devices, AXIS))


def _in_order(results: "Results", order: Int[Array, " group"] | None) -> "Results":
    """Without the states, in the order of the cohort."""
    kept = results._replace(state=())
    return kept if order is None else jax.tree.map(lambda a: a[order], kept)


def _stack(cohort: Members, parts: "Results") -> core.Stack:
    whole = jax.tree.map(lambda a: a[: len(cohort.ids)], parts)
    return core.Stack(whole.summand, whole.weight, cohort.ids, whole.loss)


def seats(devices: int, turns: int) -> np.ndarray:
    """Which of the group's `devices * turns` units each device takes, in turn.

    Units come with the longest first. They are dealt to and fro, so that every device gets about as much.

    Example:
        >>> seats(2, 3).tolist()
        [[0, 3, 4], [1, 2, 5]]
    """
    dealt = np.arange(devices * turns).reshape(turns, devices)
    dealt[1::2] = dealt[1::2, ::-1]
    return dealt.T


def seating(plan: Plan) -> np.ndarray:
    """The places of a group, device by device: each device runs `turns * lanes` of them in a row."""
    dealt = seats(plan.devices, plan.turns).reshape(-1)
    return (dealt[:, None] * plan.lanes + np.arange(plan.lanes)).reshape(-1)


def _seat(plan: Plan, group: Members) -> tuple[Members, Int[Array, " group"] | None]:
    """The group device by device, and where each of its members then sits."""
    if plan.devices == 1:
        return group, None
    places = seating(plan)
    return jax.tree.map(lambda a: a[places], group), jnp.asarray(np.argsort(places), jnp.int32)


def _run(round_: Round, worker_states: Tree, seated: Members) -> Results:
    """Runs this device's members of a group."""
    plan = round_.plan
    device = lax.axis_index(AXIS) if plan.devices > 1 else 0
    each = plan.turns * plan.lanes
    mine = jax.tree.map(lambda a: lax.dynamic_slice_in_dim(a, device * each, each), seated)
    turns = jax.tree.map(lambda a: a.reshape(plan.turns, plan.lanes), mine)

    def side_by_side(unit: Members) -> Results:
        pace = _pace(round_, unit)
        if plan.lanes == 1:
            alone = _local(round_, worker_states, pace, jax.tree.map(lambda a: a[0], unit))
            return jax.tree.map(lambda a: a[None], alone)

        def one(member: Members, rates: dict[str, Any]) -> Results:
            ctx = round_.ctx._replace(rates={**round_.ctx.rates, **rates})
            return _local(round_._replace(ctx=ctx), worker_states, pace, member)

        return jax.vmap(one)(unit, _rates_of_each(round_))

    if plan.turns == 1:
        return side_by_side(jax.tree.map(lambda a: a[0], turns))
    return jax.tree.map(lambda a: a.reshape(each, *a.shape[2:]), lax.map(side_by_side, turns))


def _pace(round_: Round, unit: Members) -> Pace:
    """Of those who run side by side: who runs together decides together how much to draw and when to stop."""
    plan = round_.plan
    most: Callable[[Any], Any] = lambda a: lax.pmax(a, RUNS) if plan.together else a
    reach = plan.rows if plan.rows is not None else most(jnp.max(unit.sizes))
    longest = plan.work.count(reach, round_.ctx.t)
    alone = plan.lanes == 1 and not plan.together
    return Pace(reach, None if alone or isinstance(longest, int) else most(longest))


def _rates_of_each(round_: Round) -> dict[str, Any]:
    """Rates that differ by run, once for every worker: a GPU would else write them out for every parameter."""
    if not round_.plan.together:
        return {}
    lanes = round_.plan.lanes
    numbers = {name: rate for name, rate in round_.ctx.rates.items() if not callable(rate)}
    each = jax.tree.map(lambda rate: jnp.broadcast_to(rate, (lanes, *jnp.shape(rate))), numbers)
    # Kept from being put together with what follows.
    return lax.optimization_barrier(each)


def _local(round_: Round, worker_states: Tree, pace: Pace, one: Members) -> Results:
    """One worker's local run, or its probe."""
    ctx, algorithm = round_.ctx, round_.plan.algorithm
    state = jax.tree.map(lambda leaf: leaf[one.ids], worker_states)
    payload, data = algorithm.address(round_.payload, one.ids), _data(round_, pace, one)
    reply = work(algorithm, ctx, round_.key, one.ids, one.draws, payload, state, data, probing=round_.probing)
    # An empty place has none, whatever its reply says: it may have taken no step.
    weight = jnp.where(one.weights > 0, one.weights * reply.weight, 0.0)
    if round_.probing:
        return Results(reply.message, weight, reply.stats.loss, ())
    return Results(algorithm.decode(reply.message), weight, reply.stats.loss, reply.worker_state)


def _data(round_: Round, pace: Pace, one: Members) -> WorkerData:
    plan, held = round_.plan, round_.held
    size = plan.rows if plan.rows is not None else one.sizes
    steps = plan.work.count(size, round_.ctx.t)
    if plan.lanes == 1 and not plan.together:
        # Alone on its device, an empty place costs nothing: it takes no step.
        steps = jnp.where(one.weights > 0, steps, 0)
    # Of rows that were delivered only this device's are here, in order.
    order = None if isinstance(held, Delivered) else held.order
    return WorkerData(
        held.x, held.y, order, one.offsets, size, pace.reach, plan.capacity, steps, pace.longest
    )


def put_back(worker_states: Tree, worked: Worked, workers: int, alive: Bool[Array, ""]) -> Tree:
    """All workers' states, with those of a cohort replaced, in place; none if the round is not to count."""
    # An empty place writes outside the array, which is dropped.
    where = jnp.where(alive & (worked.seated.weights > 0), worked.seated.ids, workers)
    return jax.tree.map(lambda all_, new: all_.at[where].set(new, mode="drop"), worker_states, worked.states)
