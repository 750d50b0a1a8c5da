"""How a cohort is put on the devices: how many of them, and how many workers each runs at once.

Measured on 2 cores, one worker after the other beats batching them wherever a step is more than a few
microseconds of arithmetic; on a GPU the whole cohort at once wins until memory ends. In between it is measured:
one short round each way, once for a kind of problem and machine, remembered in the cache folder so that the same
machine always chooses the same.
"""

import hashlib
import json
import math
import os
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np

from enlist.algorithms.core import WorkerData
from enlist.algorithms.local import all_varied, gradient
from enlist.algorithms.work import Batch, LocalWork
from enlist.engine import platform
from enlist.errors import BadInput
from enlist.problem.models import Model
from enlist.problem.objective import initial, objective

# Arithmetic of one local step, in multiplications. Below: batching wins on a CPU; above: one by one.
SMALL_STEP, LARGE_STEP = 2e4, 2e6
# A GPU's step of c workers costs about as much as OVERHEAD + c workers.
OVERHEAD = 30
MEMORY_SHARE = 0.6
MOST_TURNS = 8
# What the messages that CPU devices exchange may take: each device keeps its own, and a slice of everybody's.
EXCHANGE_BYTES = 2**30


class Execution(NamedTuple):
    """Workers at once on a device, and devices."""

    lanes: int
    devices: int

    def turns(self, places: int, message_bytes: int) -> int:
        """How many workers a device runs one after the other before the devices exchange messages.

        Every exchange waits for the slowest device, so they are few; every turn keeps one message of each device
        more, on each device.
        """
        if self.devices == 1 or self.lanes > 1:
            return 1
        each = math.ceil(places / self.devices)
        affordable = int(EXCHANGE_BYTES / (2 * self.devices * message_bytes))
        return math.ceil(each / math.ceil(each / max(1, min(MOST_TURNS, affordable))))

    def name(self, places: int) -> str:
        """As on the command line."""
        if self.lanes == 1:
            return "one-by-one"
        return "batch" if self.lanes * self.devices >= places else f"chunk:{self.lanes}"


class Load(NamedTuple):
    """What the choice depends on."""

    model: Model
    precision: str
    work: LocalWork
    sizes: np.ndarray
    places: int
    example: tuple[np.ndarray, np.ndarray]


def devices_for(places: int, asked: int, message_bytes: int) -> int:
    """How many devices share a cohort of that many places."""
    there, hosts = jax.local_device_count(), jax.process_count()
    if asked > there:
        raise BadInput(f"devices = {asked}: this machine has {there}; type --devices 0 for as many as help")
    if asked or hosts > 1:
        # Every host takes part.
        return (asked or there) * hosts
    if jax.devices()[0].platform == "cpu":
        there = min(there, max(1, 2 * EXCHANGE_BYTES // message_bytes))
    return max(1, min(there, places))


def parse(text: str, places: int, devices: int) -> Execution | None:
    """`batch`, `one-by-one`, `chunk:N`; None for `auto`."""
    if text == "auto":
        return None
    if text == "one-by-one":
        return Execution(1, devices)
    most = math.ceil(places / devices)
    if text == "batch":
        return Execution(most, devices)
    kind, _, number = text.partition(":")
    if kind == "chunk" and number.isdigit() and int(number) >= 1:
        return Execution(min(int(number), most), devices)
    raise BadInput(f"execution {text!r}: choose auto, batch, one-by-one, or chunk:N with N from 1 up")


def choose(load: Load, devices: int, seconds: Callable[[Execution], float]) -> Execution:
    """The execution for `auto`; `seconds(execution)` times one round, and is asked only where it must be."""
    most = math.ceil(load.places / devices)
    if most == 1:
        return Execution(1, devices)
    if jax.devices()[0].platform != "cpu":
        return Execution(_gpu_lanes(load, most), devices)
    arithmetic = step_multiplications(load)
    if arithmetic > LARGE_STEP:
        return Execution(1, devices)
    if arithmetic < SMALL_STEP and not _unequal(load):
        return Execution(most, devices)
    if jax.process_count() > 1:
        # All hosts must choose alike, and one after the other is never far behind.
        return Execution(1, devices)
    return _measured(load, [Execution(1, devices), Execution(most, devices)], seconds)


def step_multiplications(load: Load) -> float:
    """Multiplications of one local step, counted in the traced matrix products."""
    return sum(_products(eqn) for eqn in _equations(_step_jaxpr(load).jaxpr))


def lane_bytes(load: Load) -> float:
    """About the memory that one more worker at once takes: what is alive at once in the course of a step, and the
    parameters twice more (the global ones it started from, its message)."""
    jaxpr = _step_jaxpr(load).jaxpr
    return _most_alive(jaxpr) + 2 * sum(_bytes(leaf) for leaf in jax.tree.leaves(_params(load)))


def _most_alive(jaxpr: Any) -> float:
    """Bytes of values computed and still needed, at their most. Fusion saves some of it; nothing adds to it."""
    last = {id(v): i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.invars}
    last |= {id(v): len(jaxpr.eqns) for v in jaxpr.outvars}
    alive = most = sum(_bytes(v.aval) for v in jaxpr.invars)
    for i, eqn in enumerate(jaxpr.eqns):
        made = sum(_bytes(v.aval) for v in eqn.outvars)
        most = max(most, alive + max([made, *(_most_alive(inner) for inner in _inner(eqn))]))
        alive += made - sum(
            _bytes(v.aval) for v in {id(v): v for v in eqn.invars}.values() if last[id(v)] == i
        )
    return most


def _gpu_lanes(load: Load, most: int) -> int:
    limit = platform.memory_bytes()
    if limit is not None:
        most = max(1, min(most, int(MEMORY_SHARE * limit / lane_bytes(load))))
    if not _unequal(load):
        # Equal groups: 100 workers that fit 60 at a time are better run 50 and 50.
        return math.ceil(load.places / math.ceil(load.places / most))
    # A typical cohort, most steps first: a group takes as long as its first worker.
    steps = np.sort(load.work.count(load.sizes.astype(np.int64)))[::-1]
    cohort = steps[np.linspace(0, len(steps) - 1, load.places).astype(int)]
    halvings = {max(1, most >> k) for k in range(most.bit_length())}
    return min(halvings, key=lambda lanes: (OVERHEAD + lanes) * cohort[::lanes].sum())


def _unequal(load: Load) -> bool:
    return len(np.unique(load.work.count(load.sizes.astype(np.int64)))) > 1


def _measured(load: Load, candidates: list[Execution], seconds: Callable[[Execution], float]) -> Execution:
    shapes = jax.tree.map(lambda a: (a.shape, str(a.dtype)), _params(load))
    facts = [str(shapes), str(load.work), str(candidates), load.places, _unequal(load), platform.describe()]
    remembered = (
        platform.cache_folder()
        / "execution"
        / f"{hashlib.sha256(repr(facts).encode()).hexdigest()[:24]}.json"
    )
    try:
        return Execution(**json.loads(remembered.read_text()))
    except (OSError, ValueError, TypeError):
        best = min(candidates, key=seconds)
    try:
        remembered.parent.mkdir(parents=True, exist_ok=True)
        draft = remembered.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(best._asdict()))
        os.replace(draft, remembered)
    except OSError:
        pass  # a cache folder that cannot be written only means measuring again
    return best


def timed(call: Callable[[], Any], repeats: int = 2) -> float:
    """Seconds of a call, the best of a few, its first (which compiles) left out."""
    jax.block_until_ready(call())
    best = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(call())
        best = min(best, time.perf_counter() - start)
    return best


def _params(load: Load) -> Any:
    return jax.eval_shape(partial(initial, load.model), jax.random.key(0), load.example[0])


def _step_jaxpr(load: Load) -> Any:
    rows = load.work.batch or int(load.sizes.max())
    x, y = (jax.ShapeDtypeStruct((rows, *a.shape[1:]), a.dtype) for a in load.example)
    return _traced_step(load.model, load.precision, x, y, load.work.batch == 0)


@lru_cache(maxsize=64)
def _traced_step(
    model: Model, precision: str, x: jax.ShapeDtypeStruct, y: jax.ShapeDtypeStruct, full: bool
) -> Any:
    """Once for all runs that differ in rates, seeds or partitions."""
    rows, key, goal = len(x), jax.random.key(0), objective(model, precision)

    def step(params: Any, x: Any, y: Any) -> Any:
        order = jax.numpy.arange(rows)
        data = WorkerData(x, y, order, 0, rows, rows, rows, 1)
        if full:  # each row is varied alone
            data = data._replace(x=all_varied(goal, key, 0, order, x))
        own = goal._replace(augment=None) if full else goal
        return gradient(own, params, data, Batch(order, jax.numpy.int32(rows)), key, 0)

    return jax.make_jaxpr(step)(jax.eval_shape(partial(initial, model), jax.random.key(0), x), x, y)


def _equations(jaxpr: Any) -> Any:
    for eqn in jaxpr.eqns:
        inner = _inner(eqn)
        if not inner:
            yield eqn
        for sub in inner:
            yield from _equations(sub)


def _inner(eqn: Any) -> list[Any]:
    """The programs inside an equation, such as a jitted function's."""
    subs = [v for v in eqn.params.values() if hasattr(v, "eqns") or hasattr(v, "jaxpr")]
    return [getattr(sub, "jaxpr", sub) for sub in subs]


def _products(eqn: Any) -> float:
    if eqn.primitive.name != "dot_general":
        return 0.0
    (left, _), _ = eqn.params["dimension_numbers"]
    contracted = math.prod(eqn.invars[0].aval.shape[i] for i in left)
    return float(contracted * math.prod(eqn.outvars[0].aval.shape))


def _bytes(aval: Any) -> float:
    return float(math.prod(aval.shape) * aval.dtype.itemsize) if hasattr(aval, "shape") else 0.0
