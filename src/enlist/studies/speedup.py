"""Whether n workers need n times fewer rounds: T to a goal at the corollary's rates, over n or over K.

The rates eta_L = 1/(sqrt(T) K L) and eta = sqrt(Kn) depend on T, so for each n (or K) the smallest T is searched with
which a run at the rates for that T reaches the goal. All seeds and several T are one program; T and the rates are
data, so that a whole search compiles once.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from enlist.algorithms.fedavg import fedavg
from enlist.algorithms.work import Steps
from enlist.engine.plan import Plan
from enlist.engine.program import RunState, block
from enlist.engine.session import Session, links_of, open_session
from enlist.engine.supply import Resident
from enlist.engine.task import Task
from enlist.errors import BadInput
from enlist.options import Settings
from enlist.participation import sampling
from enlist.problem.federation import Federation
from enlist.problem.models import Model
from enlist.studies.ensemble import quick_to_compile
from enlist.studies.rounds_needed import Needed, Search, smallest
from enlist.studies.searches import SEARCHES, Found, made_once
from enlist.studies.slopes import Slope, drawn, interval, least_values, resample, slope
from enlist.theory import bounds, conditions
from enlist.theory.conditions import Constants, Strategy
from enlist.theory.corollaries import corollary_rates, least_rounds

# What a goal may be about; each is looked at such that less is better.
MEASURES = ("gradient", "loss", "accuracy")


class Case(NamedTuple):
    """One place on the axis: a problem, who takes part, and how much they do.

    Args:
        constants: None where only the smoothness is known.
    """

    model: Model
    federation: Federation
    smoothness: float
    constants: Constants | None
    sampling: str
    cohort: int
    local_steps: int
    batch: int

    @property
    def strategy(self) -> Strategy:
        """As the theorems know it."""
        if self.sampling == "full":
            return conditions.full(self.federation.workers)
        if self.sampling == "with-replacement":
            return conditions.with_replacement(self.cohort)
        return conditions.without_replacement(self.cohort, self.federation.workers)

    @property
    def described(self) -> dict[str, Any]:
        """In words and numbers, by which one case is told from another."""
        told = self._asdict() | {"model": self.model.name, "federation": self.federation.fingerprint()}
        return {name: value for name, value in told.items() if name != "constants"}


class Goal(NamedTuple):
    """What is to be reached: a measure, and the value of it."""

    measure: str
    value: float

    @property
    def least(self) -> float:
        """The value such that less is better: the error for an accuracy."""
        return 1 - self.value if self.measure == "accuracy" else self.value


class Effort(NamedTuple):
    """What a study may cost.

    Args:
        seeds: runs of each T.
        most_rounds: the largest T that is tried.
        looks: rounds of a run in which the goal is looked for, evenly apart; the last one is among them.
        at_once: how many T run side by side.
        resolution: see `Search`.
    """

    seeds: int
    most_rounds: int
    looks: int = 32
    at_once: int = 4
    resolution: float = 0.03


def speedup(
    cases: Sequence[Case],
    axis: str,
    goal: Goal,
    effort: Effort,
    done: Callable[[int, int], None] = lambda now, of: None,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Searches the rounds of every case, and fits their slope.

    Args:
        cases: by n or by K, in ascending order.
        axis: "cohort" or "local_steps", in which they differ.
        done: told how many cases of how many are done.
        folder: where each search is kept as it is done; those that are there are not made again.
    """
    found: list[Found] = []
    guess: int | None = None
    for i, case in enumerate(cases):
        path = None if folder is None else folder / SEARCHES / f"{i + 1}.json"
        about = case.described | goal._asdict() | effort._asdict()
        search = partial(rounds_of, case, goal, effort, guess)
        found.append(made_once(path, about, (effort.seeds, effort.looks), search))
        guess = found[-1].needed.rounds
        done(i + 1, len(cases))
    return facts_of(cases, axis, goal, effort, found)


def fewest(case: Case, effort: Effort) -> int:
    """The smallest T that the conditions of the corollary allow; it must not be more than may be tried."""
    least = int(least_rounds(case.strategy, local_steps=case.local_steps).whole)
    if least > effort.most_rounds:
        raise BadInput(
            f"most-rounds = {effort.most_rounds}: the corollary needs T >= {least} at n = {case.cohort}, K = "
            f"{case.local_steps}; raise it, or lower n or K"
        )
    return least


def rounds_of(case: Case, goal: Goal, effort: Effort, guess: int | None = None) -> Found:
    """The smallest T of one case, at no less than the conditions of the corollary allow."""
    least = fewest(case, effort)
    search = Search(least, effort.most_rounds, effort.at_once, effort.resolution)
    session = _session(case, goal.measure)
    seen: dict[int, np.ndarray] = {}

    def value(rounds: Sequence[int]) -> Sequence[float]:
        looked = look(session, case, rounds, goal.measure, effort.seeds, effort.looks)
        seen.update(zip(rounds, looked, strict=True))
        return [float(each) for each in least_values(looked)]

    # Without a guess from the last case the search goes up from the smallest T.
    return Found(smallest(value, goal.least, search, 2 * least if guess is None else guess), seen)


def look(
    session: Session, case: Case, rounds: Sequence[int], measure: str, seeds: int, looks: int
) -> np.ndarray:
    """What runs of T rounds show, each at the rates for its T: [T, seed, look]; infinite after a divergence."""
    assert isinstance(session.read.source, Resident)
    rates = corollary_rates(
        case.smoothness, local_steps=case.local_steps, rounds=np.asarray(rounds), cohort=case.cohort
    )
    own = {
        "worker_lr": jnp.asarray(rates.worker_lr, jnp.float32),
        "server_lr": jnp.full(len(rounds), rates.server_lr, jnp.float32),
    }
    # Of x_0 ... x_{T-1}: the first, the last, and others evenly between them, each once or more.
    stops = np.rint(np.linspace(0, np.asarray(rounds) - 1, looks, axis=-1)).astype(np.int32)
    ahead = jnp.asarray(np.diff(stops, axis=-1, prepend=0))
    keys = jax.vmap(random.key)(jnp.arange(seeds, dtype=jnp.uint32))
    start = jax.tree.map(jnp.copy, session.state)
    run = _program(session.plan, measure)
    return np.asarray(
        run(session.read.source.held, session.read.examples, start, own, keys, ahead), np.float64
    )


@lru_cache(maxsize=64)
def _program(plan: Plan, measure: str) -> Any:
    """All runs; compiled once for a plan and a number of T, seeds and looks."""

    def one(held: Any, examples: Any, start: RunState, rates: Any, key: Any, ahead: Any) -> Any:
        def on(state: RunState, rounds: Any) -> tuple[RunState, Any]:
            state, _, seen = block(plan, held, examples, state, rates, key, rounds, jnp.asarray(True))
            shown = {
                "gradient": seen.grad_norm_sq,
                "loss": seen.train_loss,
                "accuracy": 1 - seen.test_metric,
            }
            return state, jnp.where(state.alive, shown[measure], jnp.inf)

        return lax.scan(on, start, ahead)[1]

    by_seed = jax.vmap(one, (None, None, None, None, 0, None))
    by_rounds = jax.vmap(by_seed, (None, None, None, 0, None, 0))
    return jax.jit(by_rounds, compiler_options=quick_to_compile())


def _session(case: Case, measure: str) -> Session:
    settings = Settings(grad_norm=measure == "gradient", precision="highest", execution="batch", devices=1)
    return open_session(task_of(case, settings))


def task_of(case: Case, settings: Settings) -> Task:
    """A run of generalized FedAvg on the problem, its rates still to be chosen."""
    how = sampling.parse(case.sampling, case.cohort)
    links = links_of(settings, case.federation.workers)
    work = Steps(case.local_steps, case.batch)
    return Task(fedavg(), case.model, case.federation, how, work, settings, links)


def facts_of(
    cases: Sequence[Case], axis: str, goal: Goal, effort: Effort, found: Sequence[Found]
) -> dict[str, Any]:
    """The points, the slope through all of them and through the first few, with intervals from seeds."""
    draws = drawn(effort.seeds)
    points, resampled = [], {}
    for case, each in zip(cases, found, strict=True):
        point = _point(case, each.needed)
        if each.needed.rounds is not None:
            again = resample(each.seen, goal.least, draws)
            if not each.needed.at_least:
                point["low"], point["high"] = interval(each.needed.rounds, again, effort.seeds)[1:]
            resampled[point[axis]] = again
        points.append(point)
    return {
        "axis": axis,
        "sampling": cases[0].sampling,
        "goal": goal._asdict(),
        "seeds": effort.seeds,
        "interval": "95%",
        "points": points,
        **fitted(points, axis, resampled, effort.seeds),
    }


def fitted(
    points: Sequence[dict[str, Any]], axis: str, resampled: dict[int, np.ndarray], seeds: int
) -> dict[str, Any]:
    """The slope through all points that were searched, and through the first 2, 3, ... of them."""
    used = [point for point in points if point["rounds"] is not None and not point["at_least"]]

    def through(some: Sequence[dict[str, Any]]) -> Slope:
        x = [point[axis] for point in some]
        again = np.stack([resampled[each] for each in x], axis=1)
        return slope(x, [point["rounds"] for point in some], again, seeds)

    first = [{"up_to": used[k - 1][axis], **through(used[:k])._asdict()} for k in range(2, len(used) + 1)]
    last = through(used[-2:])._asdict() if len(used) > 2 else None
    return {
        "slope": through(used)._asdict() if len(used) > 1 else None,
        "first": first,
        "last": last,
        "left_out": [point[axis] for point in points if point not in used],
    }


def _point(case: Case, needed: Needed) -> dict[str, Any]:
    """The rounds, and what the theorems say of the run with so many."""
    known: dict[str, Any] = {
        "workers": case.federation.workers,
        "cohort": case.cohort,
        "local_steps": case.local_steps,
        "rounds": needed.rounds,
        "at_least": needed.at_least,
        "low": None,
        "high": None,
        "rounds_over_kn": None,
        "terms": None,
        "bound": None,
    }
    if needed.rounds is None:
        return known
    rates = corollary_rates(
        case.smoothness, local_steps=case.local_steps, rounds=needed.rounds, cohort=case.cohort
    )
    known |= {name: float(rate) for name, rate in rates._asdict().items()}
    known["rounds_over_kn"] = needed.rounds / (case.local_steps * case.cohort)
    if case.constants is None:
        return known
    promised = bounds.bound(
        case.constants, rates, case.strategy, local_steps=case.local_steps, rounds=needed.rounds
    )
    terms = {"vanishing": promised.vanishing, **promised.parts._asdict()}
    known["terms"] = {name: float(term) for name, term in terms.items()}
    known["bound"] = float(promised.bound)
    return known
