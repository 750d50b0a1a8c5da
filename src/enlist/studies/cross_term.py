"""The term that (a5), (b1) and (b9) of the proofs drop, measured.

They take the noise of K local steps and the gradients at the points it leads to for uncorrelated:

    E|sum_k g_k|^2 = E|sum_k (g_k - grad F(x_k))|^2 + E|sum_k grad F(x_k)|^2 + 2 E<noise, gradients>,

and leave the last part out. But the noise of a step moves all later points, and so their gradients. What is kept of
the noise is K sigma_L^2; here both are measured on local runs of problems whose constants are known. Workers draw
independently, so the sum over a cohort has the same ratio under every strategy.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import random

from enlist.algorithms import keys
from enlist.algorithms.core import Context, Tree, WorkerData
from enlist.algorithms.local import full_gradient, run_locally
from enlist.algorithms.work import Steps
from enlist.problem.objective import initial, objective
from enlist.problem.quadratic import Known, nonconvex, quadratic
from enlist.studies.ensemble import quick_to_compile

# What the notes on the proofs give as the most by which the noise term can grow.
STATED = 1.2
DIMENSION, WORKERS = 8, 10


class Sums(NamedTuple):
    """What a local run's noise and its exact gradients add up to."""

    noise: Tree
    exact: Tree


def cross_terms(local_steps: Sequence[int], drift: float, seeds: int, z: float) -> list[dict[str, Any]]:
    """1 + dropped / kept for each problem and K, at u = drift, with an interval of z standard errors.

    The problems: H = L I; the non-convex sum where it is most concave; and H = -L I, the worst there is for noise
    that is the same at every point. For the first and last the value is also known in closed form.
    """
    flat = partial(quadratic, workers=WORKERS, heterogeneity=1.0)
    problems = {
        "convex, H = L I": (flat([1.0] * DIMENSION), 1.0),
        "non-convex, where it is most concave": (nonconvex(DIMENSION, WORKERS, heterogeneity=0.2), None),
        "concave, H = -L I": (flat([-1.0] * DIMENSION), -1.0),
    }
    found = []
    for name, (problem, curvature) in problems.items():
        noise, dropped = _measured(problem, local_steps, drift, seeds)
        for i, steps in enumerate(local_steps):
            # Each seed is one sample: the mean over its workers.
            ratio, error = _ratio(dropped[i].mean(axis=1), noise[i].mean(axis=1))
            found.append(
                {
                    "problem": name,
                    "local_steps": int(steps),
                    "u": drift,
                    "kept_over_k_sigma_squared": float(noise[i].mean() / (steps * problem.noise**2)),
                    "factor": 1 + ratio,
                    "low": 1 + ratio - z * error,
                    "high": 1 + ratio + z * error,
                    "expected": None if curvature is None else expected_factor(curvature * drift, steps),
                }
            )
    return found


def expected_factor(drift: float, steps: int) -> float:
    """The factor where every worker's Hessian is a multiple of the identity and noise is the same everywhere.

    With a = drift / K, negative for a concave problem: 1 - 2 (1 - (1 - (1 - a)^K) / (a K)).

    Example:
        >>> round(expected_factor(-1 / 8, 1), 4), round(expected_factor(-1 / 8, 10_000), 4)
        (1.0, 1.1304)
    """
    a = drift / steps
    return 1 - 2 * (1 + math.expm1(steps * math.log1p(-a)) / (a * steps))


def _measured(
    problem: Known, local_steps: Sequence[int], drift: float, seeds: int
) -> tuple[np.ndarray, np.ndarray]:
    """|noise|^2 and 2 <noise, gradients> of local runs from x_0, by K, seed and worker."""
    goal = objective(problem.model, "highest")
    held, work = problem.federation, Steps(max(local_steps), 1)
    x, y = jnp.asarray(held.data.x_train), jnp.asarray(held.data.y_train)
    rows = int(held.sizes[0])
    x_t = initial(problem.model, random.key(0), x[:1])

    def one(steps: Any, seed: Any, worker: Any) -> tuple[Any, Any]:
        data = WorkerData(x, y, None, worker * rows, rows, rows, rows, steps)
        rate = drift / (problem.smoothness * steps.astype(jnp.float32))
        ctx = Context(jnp.int32(0), goal, work, {"worker_lr": rate})
        key = keys.worker_key(random.key(seed), jnp.int32(0), worker, jnp.int32(0))
        exact: Callable[[Tree], Tree] = lambda at: full_gradient(goal, at, data, key)[1]
        sums = run_locally(ctx, key, x_t, data, _recording(rate, exact)).optimizer_state
        # <noise, K grad F(x_t)> has mean 0: without it the same mean shows with fewer seeds.
        moved = jax.tree.map(
            lambda total, first: total - steps.astype(jnp.float32) * first, sums.exact, exact(x_t)
        )
        return optax.tree.norm(sums.noise, squared=True), 2 * optax.tree.vdot(sums.noise, moved)

    by_worker = jax.vmap(one, (None, None, 0))
    by_seed = jax.vmap(by_worker, (None, 0, None))
    by_steps = jax.jit(jax.vmap(by_seed, (0, None, None)), compiler_options=quick_to_compile())
    noise, dropped = by_steps(
        jnp.asarray(local_steps, jnp.int32),
        jnp.arange(seeds, dtype=jnp.uint32),
        jnp.arange(held.workers, dtype=jnp.int32),
    )
    return np.asarray(noise, np.float64), np.asarray(dropped, np.float64)


def _recording(rate: Any, exact: Callable[[Tree], Tree]) -> optax.GradientTransformation:
    """Plain SGD that also adds up noise and exact gradients as it goes."""

    def init(params: Tree) -> Sums:
        zero = jax.tree.map(jnp.zeros_like, params)
        return Sums(zero, zero)

    def update(g: Tree, sums: Sums, x: Tree) -> tuple[Tree, Sums]:
        here = exact(x)
        noise = jax.tree.map(lambda total, a, b: total + a - b, sums.noise, g, here)
        return jax.tree.map(lambda a: -rate * a, g), Sums(noise, jax.tree.map(jnp.add, sums.exact, here))

    return optax.GradientTransformation(init, update)


def _ratio(top: np.ndarray, bottom: np.ndarray) -> tuple[float, float]:
    """The ratio of two means, and its standard error."""
    ratio = top.mean() / bottom.mean()
    error = (top - ratio * bottom).std(ddof=1) / (bottom.mean() * math.sqrt(len(top)))
    return float(ratio), float(error)
