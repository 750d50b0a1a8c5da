"""The two halves of a round as compiled programs: a worker's on its own rows, and the server's on the replies."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from enlist.algorithms import core, round
from enlist.algorithms.core import Tree, WorkerData
from enlist.deploy.job import Problem
from enlist.problem.objective import objective


class Ran(NamedTuple):
    """What a local run gave: the message that travels, its weight, the loss of its steps, the worker's new state."""

    message: Tree
    weight: Any
    loss: Any
    state: Tree


def worker_half(problem: Problem, rows: int, probing: bool) -> Callable[..., Ran]:
    """`run(x, y, seed, t, worker, draw, payload, replica, state)` for a worker with so many rows.

    Everything but the number of rows is data: one program serves all rounds.
    """

    def run(
        x: Any, y: Any, rates: Any, seed: Any, t: Any, worker: Any, draw: Any, steps: Any, *given: Tree
    ) -> Ran:
        payload, replica, state = given
        ctx = _context(problem, rates, t, replica)
        # The number of steps is traced, as where workers are simulated one after the other.
        data = WorkerData(x, y, None, 0, rows, rows, rows, steps)
        reply = round.work(
            problem.algorithm, ctx, jax.random.key(seed), worker, draw, payload, state, data, probing
        )
        return Ran(reply.message, reply.weight, reply.stats.loss, reply.worker_state)

    compiled = jax.jit(run)

    def call(x: Any, y: Any, seed: int, t: int, worker: int, draw: int, *given: Tree) -> Ran:
        steps = int(problem.work.count(rows, t))
        numbers = (jnp.int32(number) for number in (t, worker, draw, steps))
        return compiled(x, y, _float32(problem.rates), jnp.uint32(seed), *numbers, *given)

    return call


class ServerHalf(NamedTuple):
    """What the server computes.

    Args:
        payload: `payload(server) -> (payload, replica)` of a round.
        addressed: `addressed(payload, worker)`.
        decode: `decode(message)`.
        add: `add(total, message, weight, loss)`: one more reply.
        add_probe: the same for a probe.
        step: `step(server, total, seed, t, stack, probe) -> Stepped`.
    """

    payload: Callable[[Tree], tuple[Tree, Tree]]
    addressed: Callable[[Tree, int], Tree]
    decode: Callable[[Tree], Tree]
    add: Callable[..., core.Total]
    add_probe: Callable[..., core.Total]
    step: Callable[..., round.Stepped]


def server_half(problem: Problem, workers: int) -> ServerHalf:
    """The server's programs."""
    algorithm = problem.algorithm

    def add(
        decode: Callable[[Tree], Tree], total: core.Total, message: Tree, weight: Any, loss: Any
    ) -> core.Total:
        one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], (decode(message), weight, loss))
        return core.fold(total, *one)

    def step(
        server: Tree, total: core.Total, rates: Any, seed: Any, t: Any, stack: Any, probe: Tree
    ) -> round.Stepped:
        ctx = _context(problem, rates, t, algorithm.replica(server))
        return round.step(algorithm, ctx, jax.random.key(seed), server, total, workers, stack, probe)

    stepped = jax.jit(step)
    everyone = algorithm.address is core.Algorithm._field_defaults["address"]
    return ServerHalf(
        payload=jax.jit(lambda server: (algorithm.broadcast(server), algorithm.replica(server))),
        addressed=(lambda payload, worker: payload) if everyone else jax.jit(algorithm.address),
        decode=jax.jit(algorithm.decode),
        add=jax.jit(lambda *given: add(algorithm.decode, *given)),
        add_probe=jax.jit(lambda *given: add(lambda message: message, *given)),
        step=lambda server, total, seed, t, stack, probe: stepped(
            server, total, _float32(problem.rates), jnp.uint32(seed), jnp.int32(t), stack, probe
        ),
    )


def _context(problem: Problem, rates: Any, t: Any, replica: Tree) -> core.Context:
    sought = objective(problem.model, problem.options.settings.precision)
    return round.context(sought, problem.work, {**rates, **problem.schedules}, t, replica)


def _float32(rates: Any) -> Any:
    return jax.tree.map(jnp.float32, rates)
