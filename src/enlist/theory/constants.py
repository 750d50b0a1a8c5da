"""The constants of the theorems, measured on a person's own problem along a short run of it.

L is that of Assumption 1: the largest over workers. The paper asks for the largest sigma_local and sigma_global over
workers too, but its proofs need no more than the root of the mean square, which a sample of workers tells: that is
what `Estimated.constants` holds, and `Estimated.worst` has the largest. All of them are those of the models x_t that
the server holds, not of the iterates in between, which workers do not show.
"""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from enlist.cost import nbytes
from enlist.engine import execution, platform
from enlist.engine.session import Session, open_session
from enlist.engine.task import Task
from enlist.errors import BadInput
from enlist.limits import of_kind, within
from enlist.problem.models import cross_entropy, squared_error
from enlist.theory import noise
from enlist.theory.noise import Value
from enlist.theory.passes import ByWorker, Passes, passes, shape_for
from enlist.theory.sample import Sample, draw

if TYPE_CHECKING:
    from enlist.theory.bounds import Constants

# Losses that are known never to fall below 0.
NEVER_NEGATIVE = (cross_entropy, squared_error)


class Point(NamedTuple):
    """What was measured at x_t.

    Args:
        round: t.
        loss: f(x_t).
        grad_norm_sq: ||grad f(x_t)||^2.
        smoothness: the largest Hessian eigenvalue, in size, of the worst F_i; `high` adds the Lanczos residual.
        worst_worker: whose that is.
        smoothness_of_f: that of f itself.
        sigma_local: of a local step's gradient, the root of the mean over workers.
        sigma_local_worst: the largest over workers.
        sigma_global: of grad F_i about grad f, the root of the mean over workers.
        sigma_global_worst: the largest over workers.
    """

    round: int
    loss: float
    grad_norm_sq: float
    smoothness: Value
    worst_worker: int
    smoothness_of_f: Value
    sigma_local: Value
    sigma_local_worst: Value
    sigma_global: Value
    sigma_global_worst: Value


class Peak(NamedTuple):
    """The largest along the run, and the round it was seen in."""

    value: Value
    round: int


class Cost(NamedTuple):
    """What the measurement took; `gradients` counts examples, a product with a Hessian as two."""

    seconds: float
    gradients: int


class Estimated(NamedTuple):
    """The constants of a problem.

    Args:
        points: what was measured, by round.
        gap_seen: f(x_0) less the lowest loss at any point: f(x_0) - f* is at least that.
        gap_bound: at most that: f(x_0) where the loss is never negative; None where nothing is known.
        workers: how many workers were looked at.
        of_workers: of how many.
        diverged: whether the run ended early because its update was not finite; the points are those before.
        cost: seconds and gradients.
    """

    points: tuple[Point, ...]
    gap_seen: float
    gap_bound: float | None
    workers: int
    of_workers: int
    diverged: bool
    cost: Cost

    def peak(self, name: str) -> Peak:
        """The largest of a measured constant along the run, for instance `peak("smoothness")`."""
        where = max(self.points, key=lambda point: getattr(point, name).value)
        return Peak(getattr(where, name), where.round)

    @property
    def constants(self) -> "Constants":
        """What the bounds take: the largest along the run, means over workers for the sigmas; the gap as bounded."""
        return self._constants("sigma_local", "sigma_global")

    @property
    def worst(self) -> "Constants":
        """The same with the largest sigmas over workers, as the paper's assumptions are worded."""
        return self._constants("sigma_local_worst", "sigma_global_worst")

    def _constants(self, local: str, between: str) -> "Constants":
        from enlist.theory.bounds import Constants

        smoothness, sigma_local, sigma_global = (
            self.peak(name).value.value for name in ("smoothness", local, between)
        )
        gap = self.gap_seen if self.gap_bound is None else self.gap_bound
        return Constants(smoothness, sigma_local, sigma_global, gap)


def estimate(
    task: Task,
    *,
    points: int = 3,
    rounds: int = 20,
    workers: int = 100,
    rows: int = 2000,
    most_rows: int = 100_000,
    iterations: int = 20,
    tolerance: float = 0.02,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
) -> Estimated:
    """Runs the task for a few rounds and measures its constants at x_0 and at later points, evenly apart.

    Args:
        task: what `enlist.engine.simulate.make_task` returns; its own number of rounds does not matter.
        points: how many models are looked at, x_0 and the last one included; 1 is x_0 alone, and nothing runs.
        rounds: how far the run goes.
        workers: workers looked at, at most; they are drawn where there are more.
        rows: rows of one worker that are looked at, at most; and of f, where a Hessian is multiplied again and again.
        most_rows: rows of f read in a single pass, at most; where workers hold more, f is estimated from so many.
        iterations: products with a Hessian for one eigenvalue, at most.
        tolerance: an eigenvalue is done when its residual is this part of it; its error is about the square.
        seed: for what is drawn: workers, rows, first directions. The run itself has the task's seed.
        say: is told about each point.
    """
    _check(points, rounds, workers, rows, most_rows, iterations, tolerance, seed)
    if task.model.augment is not None:
        raise BadInput(
            "augment: the constants of a problem are those of its rows as they are, not of what is varied at random; "
            "give a model that varies nothing (`enlist plan --augment none` makes one of any)"
        )
    began = time.perf_counter()
    session = open_session(task)
    federation = task.federation
    looked_at = min(workers, federation.workers)
    mesh = platform.mesh(
        execution.devices_for(max(looked_at, 2), task.settings.devices, nbytes(session.params()))
    )
    sample = draw(federation, looked_at, rows, most_rows, mesh.devices.size, seed)
    programs = passes(shape_for(task, iterations, mesh))
    sample = sample._replace(
        **{name: platform.replicate(getattr(sample, name), mesh) for name in ("by_worker", "whole", "few")}
    )
    found, gradients = [], 0
    stops = [0] if points == 1 else np.unique(np.linspace(0, rounds, points).round().astype(int)).tolist()
    for t in _trajectory(session, stops):
        point, spent = _measure(
            task, sample, programs, platform.replicate(session.params(), mesh), t, tolerance, seed
        )
        if not np.isfinite(point.loss):
            break
        found.append(point)
        gradients += spent
        if say is not None:
            say(describe(point))
    if not found:
        raise BadInput("the loss at the initial model is not finite: look at the data for extreme values")
    return Estimated(
        points=tuple(found),
        gap_seen=found[0].loss - min(point.loss for point in found),
        gap_bound=found[0].loss if task.model.loss in NEVER_NEGATIVE else None,
        workers=looked_at,
        of_workers=federation.workers,
        diverged=found[-1].round < stops[-1],
        cost=Cost(time.perf_counter() - began, gradients),
    )


def describe(point: Point) -> str:
    """One line about a point."""
    return (
        f"round {point.round}: loss {point.loss:.4g}, smoothness {point.smoothness.value:.4g} "
        f"(of f {point.smoothness_of_f.value:.4g}), sigma_local {point.sigma_local.value:.4g}, "
        f"sigma_global {point.sigma_global.value:.4g}"
    )


def _trajectory(session: Session, stops: list[int]) -> Iterator[int]:
    """Advances the run from stop to stop, as long as its updates are finite."""
    for t in stops:
        done = int(session.state.t)
        if t > done:
            session.advance(t - done, False)
        if int(session.state.t) < t:
            return
        yield t


def _measure(
    task: Task, sample: Sample, programs: Passes, params: Any, t: int, tolerance: float, seed: int
) -> tuple[Point, int]:
    """The constants at one model, and how many gradients they took."""
    key = jax.random.fold_in(jax.random.key(seed), t)
    extreme = programs.curvature(params, sample.few, jax.random.fold_in(key, 0), np.float32(tolerance))
    whole = programs.whole(params, sample.whole, extreme.vector)
    by_worker = programs.workers(
        params, sample.by_worker, whole.gradient, jax.random.fold_in(key, 1), np.float32(tolerance)
    )
    extreme, whole, by_worker = jax.device_get((extreme, whole, by_worker))
    federation = task.federation
    sizes, m = federation.sizes[sample.workers].astype(np.int64), federation.workers
    slopes = noise.Slopes(*(np.asarray(each, np.float64) for each in by_worker.slopes))
    share = noise.batch_share(task.work, sizes)
    local, local_worst = noise.local(slopes, sample.seen, sizes, share, m)
    between, between_worst = noise.between(
        slopes, sample.seen, sizes, m, float(sample.whole_rows) if sample.drawn else np.inf
    )
    worst = int(np.argmax(np.abs(by_worker.value)))
    point = Point(
        round=t,
        loss=float(whole.loss),
        grad_norm_sq=float(np.sum(np.asarray(whole.gradient, np.float64) ** 2)),
        smoothness=_largest_curvature(by_worker, m),
        worst_worker=int(sample.workers[worst]),
        smoothness_of_f=_checked_curvature(extreme.vector, whole.curved),
        sigma_local=local,
        sigma_local_worst=local_worst,
        sigma_global=between,
        sigma_global_worst=between_worst,
    )
    spent = 2 * int(extreme.steps) * sample.few_rows + 3 * sample.whole_rows
    return point, spent + int(np.sum((2 * by_worker.steps + 2) * sample.seen))


def _largest_curvature(by_worker: ByWorker, workers: int) -> Value:
    size = np.abs(by_worker.value)
    high = float((size + by_worker.residual).max())
    return Value(float(size.max()), float(size.max()), high, lower_bound=len(size) < workers)


def _checked_curvature(direction: np.ndarray, curved: np.ndarray) -> Value:
    """Of f: the direction came from some rows, its curvature and residual from all that a pass reads."""
    direction, curved = direction.astype(np.float64), curved.astype(np.float64)
    value = float(direction @ curved)
    residual = float(np.linalg.norm(curved - value * direction))
    return Value(abs(value), abs(value), abs(value) + residual)


def _check(
    points: int,
    rounds: int,
    workers: int,
    rows: int,
    most_rows: int,
    iterations: int,
    tolerance: float,
    seed: int,
) -> None:
    whole = {
        "points": (points, 1),
        "rounds": (rounds, 0),
        "workers": (workers, 1),
        "rows": (rows, 2),
        "most-rows": (most_rows, 2),
        "iterations": (iterations, 1),
        "seed": (seed, 0),
    }
    for name, (given, least) in whole.items():
        of_kind(name, given, "int")
        within(name, given, least)
    of_kind("tolerance", tolerance, "float")
    within("tolerance", tolerance, 0, 1)
