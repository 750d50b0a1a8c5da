"""Problems whose constants are known: smoothness, sigma_local, sigma_global and f* in closed form.

Both are ordinary: a federation of rows and a model with a loss, which the engine runs as it runs any other. A batch
that is drawn independently and uniformly (`Steps`) has gradient noise of exactly the size said here, at every point.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from enlist.errors import BadInput
from enlist.problem.dataset import Dataset
from enlist.problem.federation import Federation, Holding
from enlist.problem.models import Model

# Bits of a row's entries: two fewer than float32 holds, so that a centre plus its noise is exact.
BITS = 22
# The largest second derivative of z^2 / (1 + z^2), at 0; the smallest is -1/2, at 1.
STEEPEST = 2.0


class Known(NamedTuple):
    """A problem, and its constants.

    Args:
        model, federation: what is run.
        smoothness: L, the same for f and for every worker's F_i, or a bound where a problem says so.
        noise: sigma_local of a batch of one row.
        sigma_global: the largest ||grad F_i(x) - grad f(x)|| of any worker at any point.
        least: f*; minus infinity where f has no least value.
        gap: f(x_0) - f*.
    """

    model: Model
    federation: Federation
    smoothness: float
    noise: float
    sigma_global: float
    least: float
    gap: float

    def sigma_local(self, batch: int = 1) -> float:
        """sigma_local where a step takes so many rows, drawn independently; 0 means all of them."""
        return self.noise / math.sqrt(batch) if batch else 0.0


def quadratic(
    spectrum: Sequence[float],
    workers: int,
    rows: int = 8,
    noise: float = 1.0,
    heterogeneity: float = 1.0,
    distance: float = 1.0,
    seed: int = 0,
) -> Known:
    """Quadratics that share a Hessian H: a row a of worker i costs (x - a)^T H (x - a) / 2, and a = b_i + e.

    The e of a worker add up to zero, so F_i has its least value at b_i, f at the mean of all b_i. The noise of a
    row's gradient is -H e, grad F_i - grad f is H (mean b - b_i), the same at every x. All constants are exact.

    Args:
        spectrum: the eigenvalues of H, as many as the problem has dimensions; the eigenvectors are drawn. Where one
            is negative f has no least value and the gap is infinite: single rounds can be studied, not convergence.
        workers: m.
        rows: of each worker, an even number.
        noise: sigma_local of one row, the same with every worker.
        heterogeneity: sigma_global.
        distance: from x_0 = 0 to the minimiser, in a direction that is drawn.
        seed: of eigenvectors, rows and centres.
    """
    _check(workers, rows, noise=noise, heterogeneity=heterogeneity, distance=distance)
    if not len(spectrum) or not np.isfinite(spectrum).all() or not np.any(spectrum):
        raise BadInput(
            f"spectrum = {list(spectrum)}: give one finite eigenvalue a dimension, not all of them 0"
        )
    rng = np.random.default_rng(seed)
    hessian, model = _quadratic_model(tuple(map(float, spectrum)), seed)
    dimension = len(hessian)
    apart = rng.normal(size=(workers, dimension))
    apart -= apart.mean(axis=0)
    largest = np.linalg.norm(apart @ hessian, axis=1).max()
    if workers > 1:
        apart *= heterogeneity / largest
    elif heterogeneity:
        raise BadInput(f"heterogeneity = {heterogeneity:g}: one worker alone differs from nobody, so it is 0")
    direction = rng.normal(size=dimension)
    centres = apart + distance * direction / np.linalg.norm(direction)
    spread = _in_pairs(rng, (workers, rows, dimension))
    spread *= noise / np.sqrt(np.mean(np.sum((spread @ hessian) ** 2, axis=-1), axis=1))[:, None, None]
    unit = _unit(np.abs(centres).max() + np.abs(spread).max())
    centres, spread = np.rint(centres / unit) * unit, np.rint(spread / unit) * unit
    middle = centres.mean(axis=0)
    off = (centres[:, None] + spread).reshape(-1, dimension) - middle
    least, gap = 0.5 * np.mean(np.sum((off @ hessian) * off, axis=1)), 0.5 * middle @ hessian @ middle
    eigenvalues = np.linalg.eigvalsh(hessian)
    bounded = eigenvalues.min() >= -1e-6 * eigenvalues.max()
    return Known(
        model,
        _federation((centres[:, None] + spread), f"quadratic in {dimension} dimensions"),
        smoothness=float(np.abs(eigenvalues).max()),
        noise=float(np.sqrt(np.mean(np.sum((spread @ hessian) ** 2, axis=-1), axis=1).max())),
        sigma_global=float(np.linalg.norm((centres - middle) @ hessian, axis=1).max()),
        least=float(least) if bounded else -math.inf,
        gap=float(gap) if bounded else math.inf,
    )


def nonconvex(
    dimension: int,
    workers: int,
    rows: int = 8,
    noise: float = 1.0,
    heterogeneity: float = 1.0,
    height: float = 1.0,
    start: float = 1.0,
    seed: int = 0,
) -> Known:
    """A smooth non-convex sum over coordinates: a row (theta, e) of worker i costs

        sum_j  height x_j^2 / (1 + x_j^2)  +  A cos(x_j + theta_ij)  +  e_j x_j.

    Along each coordinate the workers' theta are evenly spread over the circle, in an order that is drawn, so their
    cosines cancel: f is the first term alone, f* = 0 at x = 0. The e of a worker add up to zero: they are the
    gradient noise. grad F_i - grad f is -A sin(x_j + theta_ij), whose largest norm over all x is A sqrt(dimension).
    The second derivative of the first term lies between -height / 2 and 2 height, so L = 2 height + A. That is exact
    where m is even (somebody's theta is pi, and at x_j = 0 both terms are at their most); where m is odd it is an
    upper bound, at most by a factor (2 height + A) / (2 height + A cos(pi / m)).

    Args:
        dimension: of x.
        workers: m, at least 2.
        rows: of each worker, an even number.
        noise: sigma_local of one row.
        heterogeneity: sigma_global = A sqrt(dimension).
        height: what the first term comes to far out.
        start: every coordinate of x_0.
        seed: of phases and rows.
    """
    _check(workers, rows, noise=noise, heterogeneity=heterogeneity)
    if dimension < 1 or workers < 2:
        raise BadInput(
            f"dimension = {dimension}, workers = {workers}: give at least 1 dimension and 2 workers"
        )
    if not (0 < height < math.inf and math.isfinite(start)):
        raise BadInput(f"height = {height:g}, start = {start:g}: give a height above 0 and a finite start")
    rng = np.random.default_rng(seed)
    amplitude = heterogeneity / math.sqrt(dimension)
    phases = 2 * np.pi * np.stack([rng.permutation(workers) for _ in range(dimension)], axis=1) / workers
    waves = amplitude * np.concatenate([np.cos(phases), np.sin(phases)], axis=1)
    spread = _in_pairs(rng, (workers, rows, dimension))
    spread *= noise / np.sqrt(np.mean(np.sum(spread**2, axis=-1), axis=1))[:, None, None]
    spread = spread.astype(np.float32).astype(np.float64)
    values = np.concatenate([np.broadcast_to(waves[:, None], (workers, rows, 2 * dimension)), spread], axis=2)
    return Known(
        _nonconvex_model(dimension, float(height), float(start)),
        _federation(values, f"non-convex sum in {dimension} dimensions"),
        smoothness=STEEPEST * height + amplitude,
        noise=float(np.sqrt(np.mean(np.sum(spread**2, axis=-1), axis=1).max())),
        sigma_global=float(heterogeneity),
        least=0.0,
        gap=dimension * height * start**2 / (1 + start**2),
    )


@lru_cache(maxsize=16)
def _quadratic_model(spectrum: tuple[float, ...], seed: int) -> tuple[np.ndarray, Model]:
    """H, as float32 has it, and the model; the same object for equal arguments, so that it is compiled once."""
    rng = np.random.default_rng([seed, 1])
    turn, _ = np.linalg.qr(rng.normal(size=(len(spectrum), len(spectrum))))
    # Of equal eigenvalues nothing needs turning, and H stays exactly a multiple of the identity.
    hessian = np.diag(spectrum) if len(set(spectrum)) == 1 else (turn * spectrum) @ turn.T
    rounded = np.asarray((hessian + hessian.T) / 2, np.float32)

    def apply(params: Any, a: Float[Array, "batch d"]) -> Float[Array, " batch"]:
        off = params["x"][None] - a
        return 0.5 * jnp.sum((off @ jnp.asarray(rounded)) * off, axis=1)

    def init(key: Any, a: Any) -> Any:
        return {"x": jnp.zeros(len(spectrum))}

    return rounded.astype(np.float64), _model("quadratic", init, apply)


@lru_cache(maxsize=16)
def _nonconvex_model(dimension: int, height: float, start: float) -> Model:
    def apply(params: Any, row: Float[Array, "batch three_d"]) -> Float[Array, " batch"]:
        x = params["x"][None]
        # A cos(x + theta) = A cos theta cos x - A sin theta sin x.
        cosine, sine, e = jnp.split(row, 3, axis=1)
        base = height * x**2 / (1 + x**2)
        return jnp.sum(base + cosine * jnp.cos(x) - sine * jnp.sin(x) + e * x, axis=1)

    def init(key: Any, row: Any) -> Any:
        return {"x": jnp.full(dimension, start)}

    return _model("nonconvex", init, apply)


def _model(name: str, init: Any, apply: Any) -> Model:
    """A model whose output on a row already is what the row costs."""
    return Model(
        init,
        apply,
        loss=lambda cost, y: cost,
        metric=lambda cost, y: -cost,
        metric_name="negative cost",
        name=name,
    )


def _federation(values: np.ndarray, name: str) -> Federation:
    """Rows [worker, row, entry], each with the worker that it belongs to. Nothing is predicted and nothing held out:
    targets are 0, and the test row is the first row."""
    workers, rows, entries = values.shape
    x = values.reshape(-1, entries).astype(np.float32)
    y = np.zeros(len(x), np.float32)
    data = Dataset(x, y, x[:1], y[:1], name=name)
    return Federation(data, Holding.of([*np.arange(len(x)).reshape(workers, rows)]), partition="known")


def _in_pairs(rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    """Gaussian rows of each worker, every one with its opposite, so that they add up to zero without rounding."""
    workers, rows, dimension = shape
    half = rng.normal(size=(workers, rows // 2, dimension))
    return np.concatenate([half, -half], axis=1)


def _unit(largest: float) -> float:
    """The step of a grid on which numbers up to that size are exact in float32."""
    return 2.0 ** (math.ceil(math.log2(largest)) - BITS) if largest else 1.0


def _check(workers: int, rows: int, **sizes: float) -> None:
    if workers < 1:
        raise BadInput(f"workers = {workers}: at least 1 is needed")
    if rows < 2 or rows % 2:
        raise BadInput(f"rows = {rows}: every row has its opposite, so give an even number from 2 up")
    for name, size in sizes.items():
        if not 0 <= size < math.inf:
            raise BadInput(f"{name} = {size:g}: must be a finite number, 0 or more")
