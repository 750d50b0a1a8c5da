"""Why a run probably diverged: which condition of the theorems its rates break, with L measured where it was."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from enlist.algorithms.core import rates_at
from enlist.algorithms.local import all_varied
from enlist.engine.session import Session
from enlist.problem.objective import objective

ROWS, ITERATIONS = 512, 12


def why_diverged(session: Session) -> str:
    """In words: u = K L eta_L <= 1/8 and g L = eta eta_L K L <= 1, with the numbers of this run."""
    now = rates_at(session.rates, session.state.t)
    # A method without a server rate moves to the mean itself.
    rates = {"server_lr": 1.0} | {name: float(rate) for name, rate in now.items()}
    if {"worker_lr", "server_lr"} & dict(session.plan.schedules).keys() or "worker_lr" not in rates:
        return "the likely cause is a learning-rate schedule that is too high"
    if int(session.state.t) == 0 and not np.isfinite(_first_loss(session)):
        varied = "" if session.plan.model.augment is None else ", and at how they are varied"
        return f"the loss of the model it begins with is not finite: look at the model and the data{varied}"
    smoothness = largest_curvature(session)
    if not np.isfinite(smoothness) or smoothness <= 0:
        return f"the likely cause is worker-lr = {rates['worker_lr']:g}: lower it tenfold"
    steps = float(np.median(session.plan.work.count(session.federation.sizes.astype(np.int64))))
    u = steps * smoothness * rates["worker_lr"]
    g = rates["server_lr"] * u
    broken = []
    if u > 1 / 8:
        broken.append(f"K L eta_L = {u:.3g} (theory asks for at most 1/8)")
    if g > 1:
        broken.append(f"eta eta_L K L = {g:.3g} (at most 1)")
    measured = f"with L = {smoothness:.3g} measured at the last good round and K = {steps:g}"
    if not broken:
        return f"{measured} no condition on the rates is broken there: look at the data for extreme values"
    lower = "server-lr" if rates["server_lr"] > 1 and rates["worker_lr"] * smoothness < 2 else "worker-lr"
    return f"{measured} the rates break {' and '.join(broken)}: lower {lower} first"


def largest_curvature(session: Session) -> float:
    """An estimate of L: the largest Hessian eigenvalue of the loss on some rows, by power iteration."""
    x, y, weights = _some_rows(session)
    # The highest precision: kernels that round products have no second derivatives.
    loss = objective(session.plan.model, "highest").loss
    params = jax.tree.map(jnp.asarray, session.params())

    # All that is large is given: a compiler would try to work out what it can see.
    @jax.jit
    def iterate(direction: Any, params: Any, x: Array, y: Array, weights: Array) -> tuple[Any, Any]:
        slope = jax.grad(lambda p: loss(p, x, y, weights))
        curved = jax.jvp(slope, (params,), (direction,))[1]
        size = optax.tree.norm(curved)
        return jax.tree.map(lambda leaf: leaf / jnp.maximum(size, 1e-30), curved), size

    direction = optax.tree.random_like(jax.random.key(0), params, jax.random.normal)
    size = optax.tree.norm(direction)
    direction = jax.tree.map(lambda leaf: leaf / size, direction)
    curvature = 0.0
    for _ in range(ITERATIONS):
        direction, curvature = iterate(direction, params, x, y, weights)
    return float(curvature)


def _first_loss(session: Session) -> float:
    """On rows as a local step sees them."""
    x, y, weights = _some_rows(session)
    params, goal = jax.tree.map(jnp.asarray, session.params()), objective(session.plan.model, "highest")
    return float(goal.loss(params, all_varied(goal, jax.random.key(0), 0, jnp.arange(len(x)), x), y, weights))


def _some_rows(session: Session) -> tuple[Array, Array, Array]:
    data, rows = session.federation.data, session.federation.order
    some = np.random.default_rng(0).choice(rows, min(ROWS, len(rows)), replace=False)
    weights = jnp.full(len(some), 1 / len(some))
    return jnp.asarray(data.x_train[some]), jnp.asarray(data.y_train[some]), weights
