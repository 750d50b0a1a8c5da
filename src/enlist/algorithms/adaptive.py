"""FedAvg with as many local steps as a budget of seconds is best spent on (Wang et al., 2019).

Algorithms 2 and 3 of its paper. A local step costs c seconds, a round b besides, R may be spent:

    worker i, from x_t and tau_t, with x_i, where its last local run ended (at first x_0), all on the first batch:
        rho_i  = |F_i(x_i) - F_i(x_t)| / ||x_i - x_t||
        beta_i = ||grad F_i(x_i) - grad F_i(x_t)|| / ||x_i - x_t||
        x_i <- x_t after tau_t steps x - eta_L g
        sends (x_i - x_t, grad F_i(x_t), F_i(x_t), rho_i, beta_i)
    server:
        x_{t+1} = x_t + mean (x_i - x_t)
        rho, beta = mean rho_i, mean beta_i;     delta = mean ||grad F_i(x_t) - grad F(x_t)||
        tau_{t+1} = argmin G(tau) over tau <= 10 tau_t, or what R still pays for if that is less     tau_0 = 1

    G(tau) = 1/(2 eta_L phi T) + sqrt(1/(2 eta_L phi T)^2 + rho h(tau)/(eta_L phi tau)) + rho h(tau)
    h(tau) = delta/beta ((eta_L beta + 1)^tau - 1) - eta_L delta tau
    T      = (R - b - c) tau / (c tau + b), the steps that R pays for

tau is at most the local work of the run. When R pays for no further step, one more round looks at the last model, and
then the model is the one with the least F(x_t) that was seen.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from enlist.algorithms.checks import one_worker_rate
from enlist.algorithms.core import (
    Aggregate,
    Algorithm,
    Context,
    Rate,
    Reply,
    Scalar,
    Stack,
    Tree,
    WorkerData,
    add_scaled,
    difference,
)
from enlist.algorithms.local import loss_and_gradient, run_locally
from enlist.errors import BadInput

# tau grows at most tenfold from one round to the next, as in the paper, and never beyond this.
GROWTH, LARGEST = 10, 1000
# A smaller estimate of the smoothness counts as this much: h divides by it.
LEAST_BETA = 1e-5


class ServerState(NamedTuple):
    """Where the run is.

    Args:
        params: x_t.
        best, best_loss: the model with the least F(x_t) seen so far, and that loss.
        tau: local steps of the round to come; 0 when the budget pays for none.
        seconds: what is spent.
        over: whether the last model was looked at, after which nothing changes.
    """

    params: Tree
    best: Tree
    best_loss: Scalar
    tau: Int[Array, ""]
    seconds: Scalar
    over: Bool[Array, ""]


class Payload(NamedTuple):
    """What goes down: x_t and tau_t."""

    params: Tree
    tau: Int[Array, ""]


class Message(NamedTuple):
    """What comes up. `beta` is 0 where there was nothing to estimate it from; `most` bounds the worker's steps."""

    delta: Tree
    gradient: Tree
    loss: Scalar
    rho: Scalar
    beta: Scalar
    most: Scalar


class Estimates(NamedTuple):
    """Of the constants of the problem: Lipschitz, smoothness, how far the workers' gradients are apart."""

    rho: Scalar
    beta: Scalar
    delta: Scalar


def adaptive(
    worker_lr: Rate = 0.1,
    step_seconds: float = 0.013,
    round_seconds: float = 0.13,
    budget: float = 15.0,
    phi: float = 0.025,
) -> Algorithm:
    """FedAvg with an adaptive number of local steps; the local work of the run is the most that a worker does.

    Args:
        worker_lr: eta_L.
        step_seconds: c. The defaults of this and the next two are about those of its authors' experiments.
        round_seconds: b.
        budget: R, in seconds.
        phi: the control parameter; the paper takes 0.025, and 0.00005 for its convolutional networks.
    """
    for name, number in (("step-seconds", step_seconds), ("phi", phi)):
        if not 0 < number < float("inf"):
            raise BadInput(f"{name} = {number:g}: must be above 0")
    if not 0 <= round_seconds < float("inf"):
        raise BadInput(f"round-seconds = {round_seconds:g}: must be 0 or more")
    least = 2 * (step_seconds + round_seconds)
    if not least < budget < float("inf"):
        raise BadInput(
            f"budget = {budget:g}: must pay for two rounds of one step, so be above {least:g} seconds"
        )
    return _adaptive()._replace(
        rates={
            "worker_lr": worker_lr,
            "step_seconds": step_seconds,
            "round_seconds": round_seconds,
            "budget": budget,
            "phi": phi,
        }
    )


@lru_cache
def _adaptive() -> Algorithm:
    def init_server(params: Tree, workers: int) -> ServerState:
        best = jax.tree.map(lambda x: jnp.array(x, copy=True), params)
        none = jnp.zeros(())
        return ServerState(params, best, none + jnp.inf, jnp.int32(1), none, jnp.asarray(False))

    def local(ctx: Context, key: Key[Array, ""], payload: Payload, x_i: Tree, data: WorkerData) -> Reply:
        (x_t, tau), eta_l = payload, one_worker_rate("adaptive", ctx)
        table = ctx.work.table(key, data.size, data.reach, data.capacity)
        at = loss_and_gradient(ctx, key, table, data, jnp.int32(0))
        (loss, gradient), (own_loss, own_gradient) = at(x_t), at(x_i)
        distance = optax.tree.norm(difference(x_i, x_t))
        scale = jnp.where(distance > 0, 1 / jnp.maximum(distance, 1e-30), 0.0)
        rho = jnp.abs(own_loss - loss) * scale
        beta = optax.tree.norm(difference(own_gradient, gradient)) * scale
        fewer = data._replace(steps=jnp.minimum(data.steps, tau))
        x_K, _, stats = run_locally(ctx, key, x_t, fewer, optax.sgd(eta_l))
        most = jnp.asarray(data.steps, jnp.float32)
        message = Message(difference(x_K, x_t), gradient, loss, rho, beta, most)
        return Reply(message, jnp.ones(()), x_K, stats)

    def server_step(ctx: Context, key: Key[Array, ""], state: ServerState, got: Aggregate) -> ServerState:
        assert got.stack is not None
        c, b, budget = (ctx.rates[name] for name in ("step_seconds", "round_seconds", "budget"))
        most = jnp.max(jnp.where(got.stack.weights > 0, got.stack.summands.most, 0.0)).astype(jnp.int32)
        # The last look at the model costs a gradient too.
        cost = c * jnp.maximum(jnp.minimum(state.tau, most), 1).astype(jnp.float32) + b
        seconds = state.seconds + jnp.where(state.over, 0.0, cost)
        found, known = estimates(got.stack, got.mean.gradient)
        reach = jnp.minimum(GROWTH * state.tau, most)
        chosen = jnp.where(known, _best_tau(ctx.rates, found, reach), state.tau)
        # After the round to come there is one more, which looks.
        affordable = jnp.floor((budget - seconds - 2 * b - c) / c)
        tau = jnp.minimum(chosen, jnp.clip(affordable, 0, LARGEST).astype(jnp.int32))
        better = ~state.over & (got.mean.loss < state.best_loss)
        return ServerState(
            add_scaled(state.params, 1.0, got.mean.delta),
            jax.tree.map(lambda x, best: jnp.where(better, x, best), state.params, state.best),
            jnp.where(better, got.mean.loss, state.best_loss),
            jnp.where(state.tau > 0, tau, 0),
            seconds,
            state.tau == 0,
        )

    return Algorithm(
        name="adaptive",
        init_server=init_server,
        init_worker=lambda params: params,
        broadcast=lambda state: Payload(state.params, state.tau),
        local=local,
        decode=lambda message: message,
        server=server_step,
        params=lambda state: jax.tree.map(
            lambda x, best: jnp.where(state.over, best, x), state.params, state.best
        ),
        rates={},
        reduce="stack",
    )


def estimates(stack: Stack, mean_gradient: Tree) -> tuple[Estimates, Bool[Array, ""]]:
    """rho, beta and delta of a cohort, and whether there was anything to estimate them from."""
    got, taken = stack.summands, stack.weights > 0
    apart = jax.vmap(lambda gradient: optax.tree.norm(difference(gradient, mean_gradient)))(got.gradient)
    told = taken & (got.beta > 0)
    return Estimates(_mean(got.rho, told), _mean(got.beta, told), _mean(apart, taken)), jnp.any(told)


def _mean(values: Float[Array, " n"], of: Bool[Array, " n"]) -> Scalar:
    return jnp.sum(jnp.where(of, values, 0.0)) / jnp.maximum(jnp.sum(of), 1).astype(jnp.float32)


def _best_tau(rates: Mapping[str, Any], found: Estimates, reach: Int[Array, ""]) -> Int[Array, ""]:
    candidates = jnp.arange(1, LARGEST + 1, dtype=jnp.int32)
    gap = bound(rates, found, candidates.astype(jnp.float32))
    # Where it overflows it is not small.
    return candidates[jnp.argmin(jnp.where(jnp.isnan(gap) | (candidates > reach), jnp.inf, gap))]


def bound(rates: Mapping[str, Any], found: Estimates, tau: Float[Array, " n"]) -> Float[Array, " n"]:
    """G(tau), which bounds how far from the optimum the budget leaves the model."""
    eta, phi, c, b, budget = (
        rates[name] for name in ("worker_lr", "phi", "step_seconds", "round_seconds", "budget")
    )
    beta = jnp.maximum(found.beta, LEAST_BETA)
    # (eta beta + 1)^tau - 1, without losing digits where eta beta is small.
    grown = jnp.expm1(tau * jnp.log1p(eta * beta))
    h = found.delta / beta * jnp.maximum(grown - tau * eta * beta, 0.0)
    steps = (budget - b - c) * tau / (c * tau + b)
    lead = 1 / (2 * eta * phi * steps)
    return lead + jnp.sqrt(lead**2 + found.rho * h / (eta * phi * tau)) + found.rho * h
