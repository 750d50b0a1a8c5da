"""Which workers and rows the constants of a problem are measured on, and how a pass goes over them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from enlist.engine.evaluation import drawn_rows
from enlist.problem.federation import Federation
from enlist.problem.gather import gathered

Tree = Any
# What the examples of a measurement may take, whatever number of rows was asked for.
MOST_BYTES = 2**31
# Random streams of their own, beside those that deal rows.
WORKERS, ROWS = 11, 12


class Rows(NamedTuple):
    """Rows of (x, y) in groups: group g is `places[g, :counts[g]]`, each row with a weight.

    NumPy arrays until they are put on the devices.
    """

    x: Any
    y: Any
    places: Any
    weights: Any
    counts: Any


class Sample(NamedTuple):
    """Who and what is looked at.

    Args:
        workers: ids of the workers looked at.
        seen: how many of its rows, for each of them.
        by_worker: those rows, a group a worker; a group's weighted sum is the mean over its rows.
        whole: rows of f, dealt to as many groups as there are devices; the weighted sums of all groups add up to f.
        whole_rows: how many those are.
        drawn: whether they were drawn, or are all rows that the workers hold.
        few: rows drawn from f for what passes over rows again and again; the same as `whole` where that has no more.
        few_rows: how many those are.
    """

    workers: np.ndarray
    seen: np.ndarray
    by_worker: Rows
    whole: Rows
    whole_rows: int
    drawn: bool
    few: Rows
    few_rows: int


def draw(federation: Federation, workers: int, rows: int, most_rows: int, devices: int, seed: int) -> Sample:
    """Chooses at most `workers` workers, `rows` rows of each and of f, and `most_rows` of f for single passes."""
    data = federation.data
    room = max(2, MOST_BYTES // max(1, data.x_train[:1].nbytes))
    chosen = np.arange(federation.workers)
    if workers < federation.workers:
        drawn = np.random.default_rng([seed, WORKERS]).choice(federation.workers, workers, replace=False)
        chosen = np.sort(drawn)
    each = max(2, min(rows, room // len(chosen)))
    held = [_some(federation.train.rows(int(i)), each, [seed, ROWS, int(i)]) for i in chosen]
    by_worker = _grouped(federation, held, [np.full(len(r), 1 / len(r)) for r in held])
    whole, weights, is_drawn = _of_f(federation, min(most_rows, room), seed)
    made = Sample(
        workers=chosen,
        seen=np.array([len(r) for r in held]),
        by_worker=by_worker,
        whole=_dealt(federation, whole, weights, devices),
        whole_rows=len(whole),
        drawn=is_drawn,
        few=by_worker,
        few_rows=0,
    )
    if len(whole) <= rows:
        return made._replace(few=made.whole, few_rows=len(whole))
    few, weights, _ = _of_f(federation, rows, seed)
    return made._replace(few=_dealt(federation, few, weights, devices), few_rows=len(few))


def total(
    rows: Rows, group: Any, block: int, look: Callable[[Array, Array, Float[Array, " block"]], Tree]
) -> Tree:
    """The sum of `look(x, y, weights)` over a group's rows, at most `block` of them at once."""
    # Even blocks: 600 rows that fit 500 at a time are better read 300 and 300.
    room = rows.places.shape[1]
    block = -(-room // -(-room // block))

    def part(i: Any) -> Tree:
        at = i * block + jnp.arange(block, dtype=jnp.int32)
        inside = at < rows.counts[group]
        at = jnp.where(inside, at, 0)
        place = rows.places[group, at]
        return look(rows.x[place], rows.y[place], jnp.where(inside, rows.weights[group, at], 0.0))

    blocks: Int[Array, ""] = -(-rows.counts[group] // block)
    zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(part, jnp.int32(0)))
    return lax.fori_loop(0, blocks, lambda i, so_far: jax.tree.map(jnp.add, so_far, part(i)), zero)


def _some(rows: np.ndarray, most: int, seed: Sequence[int]) -> np.ndarray:
    return rows if len(rows) <= most else np.random.default_rng(seed).choice(rows, most, replace=False)


def _of_f(federation: Federation, most: int, seed: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """Rows and weights whose weighted sum is f, the mean over workers of each one's mean, or estimates it."""
    held = federation.train
    if len(held.order) > most:
        return drawn_rows(federation, most, seed), np.full(most, 1 / most), True
    return held.order, 1 / (federation.workers * held.sizes[held.holder()].astype(np.float64)), False


def _dealt(federation: Federation, rows: np.ndarray, weights: np.ndarray, groups: int) -> Rows:
    return _grouped(
        federation, [rows[g::groups] for g in range(groups)], [weights[g::groups] for g in range(groups)]
    )


def _grouped(federation: Federation, rows: list[np.ndarray], weights: list[np.ndarray]) -> Rows:
    counts = np.array([len(group) for group in rows], np.int32)
    places = np.zeros((len(rows), counts.max()), np.int32)
    shares = np.zeros(places.shape, np.float32)
    begins = np.concatenate([[0], np.cumsum(counts)[:-1]])
    for g, (begin, count) in enumerate(zip(begins, counts, strict=True)):
        places[g, :count] = begin + np.arange(count)
        shares[g, :count] = weights[g]
    flat = np.concatenate(rows)
    x, y = (gathered(part, flat, len(flat)) for part in (federation.data.x_train, federation.data.y_train))
    return Rows(x, y, places, shares, counts)
