"""Any algorithm with shorter messages: what is left out of one message is added to the next (error feedback).

    up, worker i, whose algorithm would send u_t^i:
        v = u_t^i + e_i                 e_i = 0 at first
        sends C(v),  e_i' = v - C(v)    e_i stays with the worker
    down, the server, whose algorithm would broadcast p_{t+1}; r_t is what every worker holds:
        sends C(p_{t+1} - r_t),  r_{t+1} = r_t + C(p_{t+1} - r_t)

(Stich et al., 2018; Karimireddy et al., 2019.) No residual is kept for the way down, for it is there already: by how
much the server's own payload is ahead of the workers, R_t = p_t - r_t, obeys R_{t+1} = R_t + d_t - C(R_t + d_t) with
d_t = p_{t+1} - p_t. That is the server's residual in Sattler et al. (2019), whose algorithm this is with `ternary`
both ways.

An unbiased codec is left without feedback unless asked for. With feedback it is divided by 1 + its variance: only
then does every round take away a part of the error, whatever was drawn.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Float, Key

from enlist.algorithms import keys
from enlist.algorithms.core import Aggregate, Algorithm, Context, Local, Probed, Reply, Tree, WorkerData
from enlist.algorithms.encoding import Codec, Encoded, identity
from enlist.algorithms.parts import Layout, Vectors, cut, join, layout
from enlist.algorithms.work import Steps
from enlist.errors import BadInput
from enlist.problem.objective import Objective

RunKey = Key[Array, ""]


class WorkerState(NamedTuple):
    """The algorithm's own state with the worker, and e_i: a vector for each part of a message."""

    inner: Tree
    residual: Vectors


class ServerState(NamedTuple):
    """The algorithm's own state, r_t as the workers hold it before the round, and what the round broadcasts."""

    inner: Tree
    replica: Tree
    update: "Update"


class Update(NamedTuple):
    """An encoded vector for each part, and what is too small to be worth it, as it is."""

    encoded: tuple[Encoded, ...]
    rest: tuple[Array, ...]


@partial(jax.tree_util.register_dataclass, data_fields=["update"], meta_fields=["layout"])
@dataclass(frozen=True)
class Message:
    """What comes up: an `Update`, and its `Layout`, which both sides know beforehand."""

    update: Any
    layout: Any


def compressed(
    algorithm: Algorithm,
    up: Codec | None = None,
    down: Codec | None = None,
    error_feedback: bool | None = None,
) -> Algorithm:
    """The algorithm with encoded messages; their bytes are then what is counted.

    Args:
        up: how workers encode what they send (`enlist.encoding.topk(0.01)` and others); None: not at all.
        down: how the server encodes what it broadcasts. Every worker is taken to hear every round's broadcast.
        error_feedback: whether a worker adds to its message what earlier ones left out; by default it does for
            codecs that are not unbiased. The way down always has it.

    Example:
        >>> from enlist.algorithms.encoding import topk
        >>> from enlist.algorithms.fedavg import fedavg
        >>> compressed(fedavg(), up=topk(0.01)).name
        'fedavg+topk:0.01'
    """
    if up is None and error_feedback is not None:
        raise BadInput("error_feedback is about messages that come up compressed: give `up` too")
    made = algorithm._replace(rates=())  # type: ignore[arg-type]
    if up is not None:
        feedback = not up.unbiased if error_feedback is None else error_feedback
        made = _upward(made, tuple(sorted(algorithm.rates)), up, feedback)
    if down not in (None, identity()):  # whole, it needs no replica
        made = _downward(made, down)
    return made._replace(rates=algorithm.rates)


@lru_cache
def _upward(inner: Algorithm, rates: tuple[str, ...], codec: Codec, feedback: bool) -> Algorithm:
    """The code without the rates, of which only the names matter: changing a rate compiles nothing anew."""

    def init_worker(params: Tree) -> Tree:
        own = inner.init_worker(params)
        if not feedback:
            return own
        lengths = layout(_message(inner, rates, params)).lengths
        return WorkerState(own, tuple(jnp.zeros(d) for d in lengths))

    def local(ctx: Context, key: RunKey, payload: Tree, state: Tree, data: WorkerData) -> Reply:
        own, residual = state if feedback else (state, ())
        reply = inner.local(ctx, key, payload, own, data)
        plan = layout(reply.message)
        vectors, rest = cut(plan, reply.message)
        if feedback:
            vectors = tuple(u + e for u, e in zip(vectors, residual, strict=True))
        message = Message(Update(_encoded(codec, key, vectors), rest), plan)
        if not feedback:
            return reply._replace(message=message)
        sent = _decoded(codec, message.update.encoded, plan, feedback)
        left = tuple(v - c for v, c in zip(vectors, sent, strict=True))
        return reply._replace(message=message, worker_state=WorkerState(reply.worker_state, left))

    def probe(ctx: Context, key: RunKey, payload: Tree, state: Tree, data: WorkerData) -> Reply:
        assert inner.probe is not None
        return inner.probe(ctx, key, payload, state.inner, data)

    def decode(message: Message) -> Tree:
        vectors = _decoded(codec, message.update.encoded, message.layout, feedback)
        return inner.decode(join(message.layout, vectors, message.update.rest))

    return inner._replace(
        name=f"{inner.name}+{codec.name}",
        init_worker=init_worker,
        local=local,
        decode=decode,
        probe=probe if feedback and inner.probe is not None else inner.probe,
    )


@lru_cache
def _downward(inner: Algorithm, codec: Codec) -> Algorithm:
    plain = Algorithm._field_defaults
    if inner.address is not plain["address"] or inner.replica is not plain["replica"]:
        raise BadInput(
            f"{inner.name} does not send the same to all workers anew in every round, so its way down cannot be "
            f"compressed by {codec.name}: leave out compress-down"
        )

    def init_server(params: Tree, workers: int) -> ServerState:
        state = inner.init_server(params, workers)
        payload = inner.broadcast(state)
        vectors, rest = cut(layout(payload), payload)
        # Before round 0 all know p_0. Zero bits decode to zero.
        update = jax.eval_shape(partial(_encoded, codec), random.key(0), vectors)
        zero = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), update)
        # Copies: what is kept twice in a state must not be one array, for a run gives its state away.
        replica, rest = jax.tree.map(lambda a: jnp.array(a, copy=True), (payload, rest))
        return ServerState(state, replica, Update(zero, rest))

    def received(replica: Tree, update: Update) -> Tree:
        plan = layout(replica)
        held, _ = cut(plan, replica)
        news = _decoded(codec, update.encoded, plan, feedback=True)
        return join(plan, tuple(r + c for r, c in zip(held, news, strict=True)), update.rest)

    def on_whole_payload(act: Local) -> Local:
        def acting(ctx: Context, key: RunKey, payload: Tree, state: Tree, data: WorkerData) -> Reply:
            if isinstance(payload, Probed):
                whole: Tree = payload._replace(payload=received(ctx.replica, payload.payload))
            else:
                whole = received(ctx.replica, payload)
            return act(ctx._replace(replica=()), key, whole, state, data)

        return acting

    def server(ctx: Context, key: RunKey, state: ServerState, got: Aggregate) -> ServerState:
        new = inner.server(ctx._replace(replica=()), key, state.inner, got)
        payload, held = inner.broadcast(new), received(state.replica, state.update)
        plan = layout(payload)
        (ahead, rest), (behind, _) = cut(plan, payload), cut(plan, held)
        gaps = tuple(p - r for p, r in zip(ahead, behind, strict=True))
        return ServerState(new, held, Update(_encoded(codec, key, gaps), rest))

    return inner._replace(
        name=f"{inner.name}+down:{codec.name}",
        init_server=init_server,
        broadcast=lambda state: state.update,
        local=on_whole_payload(inner.local),
        server=server,
        params=lambda state: inner.params(state.inner),
        probe=None if inner.probe is None else on_whole_payload(inner.probe),
        replica=lambda state: state.replica,
    )


def _encoded(codec: Codec, key: RunKey, vectors: Vectors) -> tuple[Encoded, ...]:
    return tuple(codec.encode(keys.encoding_key(key, part), v) for part, v in enumerate(vectors))


def _decoded(codec: Codec, encoded: tuple[Encoded, ...], plan: Layout, feedback: bool) -> Vectors:
    def one(each: Encoded, d: int) -> Float[Array, " n"]:
        vector = codec.decode(each, d)
        spread = codec.variance(d) if feedback else 0.0
        return vector / jnp.float32(1 + spread) if spread else vector

    return tuple(one(each, d) for each, d in zip(encoded, plan.lengths, strict=True))


def _message(algorithm: Algorithm, rates: tuple[str, ...], params: Tree) -> Tree:
    """The shapes of the algorithm's own message, which neither the loss nor the data have a part in."""
    flat = Objective(
        loss=lambda x, *batch: jnp.zeros(()),
        loss_and_grad=lambda x, *batch: (jnp.zeros(()), jax.tree.map(jnp.zeros_like, x)),
        scores=lambda x, inputs, targets: (jnp.zeros(len(inputs)), jnp.zeros(len(inputs))),
    )

    def sent(params: Tree) -> Tree:
        server, own, key = algorithm.init_server(params, 1), algorithm.init_worker(params), random.key(0)
        ctx = Context(
            jnp.int32(0), flat, Steps(1, 1), {name: jnp.ones(()) for name in rates}, algorithm.replica(server)
        )
        data = WorkerData(jnp.zeros(1), jnp.zeros(1), jnp.zeros(1, jnp.int32), 0, 1, 1, 1, 1)
        payload = algorithm.broadcast(server)
        if algorithm.probe is not None:
            alone = algorithm.probe(ctx, key, algorithm.address(payload, jnp.int32(0)), own, data).message
            payload = Probed(payload, alone)
        return algorithm.local(ctx, key, algorithm.address(payload, jnp.int32(0)), own, data).message

    return jax.eval_shape(sent, params)
