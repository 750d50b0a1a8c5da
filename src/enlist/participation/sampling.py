"""Who takes part in a round: the paper's two strategies, everybody, at least n, and what was recorded elsewhere.

A `Sampling` draws S_t into arrays of fixed length: `ids` in ascending order, `weights` 1 for a place that is
taken and 0 for an empty one. Every draw is uniform and does not look at the workers, as Lemma 1 asks; only recorded
cohorts are what they are. The cost of a draw grows with n, never with m.
"""

import hashlib
from collections.abc import Callable, Iterable
from functools import lru_cache
from numbers import Integral
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jaxtyping import Array, Bool, Float, Int, Key, UInt32

from enlist.errors import BadInput, unknown
from enlist.participation.recorded import PREFIX, file_of, read_cohorts

Draw = tuple[Int[Array, " places"], Float[Array, " places"]]
Round = Int[Array, ""]
MOST_ID = 2**31 - 1


class Sampling(NamedTuple):
    """How a cohort is drawn.

    Args:
        name: as on the command line.
        cohort: n, the cohort size asked for (the least size for `at_least`); None for everybody.
        places: `places(m)`: the length of the arrays that `draw` returns.
        draw: `draw(key, m, t) -> ids, weights` of round t, whose key it is.
        repeats: whether a worker may occur more than once (Strategy 1).
        rounds: how many rounds it has cohorts for; None for any number.
    """

    name: str
    cohort: int | None
    places: Callable[[int], int]
    draw: Callable[[Key[Array, ""], int, Round], Draw]
    repeats: bool = False
    rounds: int | None = None


@lru_cache
def full() -> Sampling:
    """Everybody, every round (Theorem 1)."""

    def draw(key: Key[Array, ""], m: int, t: Round) -> Draw:
        return jnp.arange(m, dtype=jnp.int32), jnp.ones(m)

    return Sampling("full", None, lambda m: m, draw)


@lru_cache
def with_replacement(n: int) -> Sampling:
    """Strategy 1: n independent uniform draws. S_t is a multiset; each occurrence is its own local run."""
    _check(n)

    def draw(key: Key[Array, ""], m: int, t: Round) -> Draw:
        return jnp.sort(random.randint(key, (n,), 0, m, jnp.int32)), jnp.ones(n)

    return Sampling("with-replacement", n, lambda m: n, draw, repeats=True)


@lru_cache
def without_replacement(n: int) -> Sampling:
    """Strategy 2: a uniform subset of n workers."""
    _check(n)

    def draw(key: Key[Array, ""], m: int, t: Round) -> Draw:
        return jnp.sort(_distinct(key, _fits(n, m), m)), jnp.ones(n)

    return Sampling("without-replacement", n, lambda m: _fits(n, m), draw)


@lru_cache
def at_least(n: int, most: int | None = None) -> Sampling:
    """A uniform subset whose size varies by round: p_t uniform on {n, ..., most}, drawn apart from who is in it.

    The paper's relaxation |S_t| >= n. `most` is the smaller of 2n and m unless given.
    """
    _check(n)
    if most is not None and most < n:
        raise BadInput(f"at-least: the largest cohort ({most}) must not be below the least one ({n})")

    def places(m: int) -> int:
        _fits(n, m)
        return min(2 * n, m) if most is None else _fits(most, m, "cohort-most")

    def draw(key: Key[Array, ""], m: int, t: Round) -> Draw:
        who, how_many = random.split(key)
        capacity = places(m)
        # In the order drawn: its first p entries are a uniform subset of size p, for every p.
        ids = _distinct(who, capacity, m)
        size = random.randint(how_many, (), n, capacity + 1)
        taken = jnp.arange(capacity) < size
        order = jnp.argsort(jnp.where(taken, ids, m))
        # Empty places carry the last id, so that ids stay ascending; their weight says that nobody is there.
        return jnp.where(taken, ids, m - 1)[order], taken[order].astype(jnp.float32)

    return Sampling("at-least", n, places, draw)


def recorded(cohorts: Iterable[Iterable[Any]]) -> Sampling:
    """Cohorts that are known already, round by round, such as those that a deployed run recorded.

    Args:
        cohorts: the ids of the workers of each round, in any order; they may be more in one round than in another,
            and an id that is there twice is two local runs.
    """
    return _recorded(tuple(_checked(t, ids) for t, ids in enumerate(cohorts)))


@lru_cache(maxsize=32)
def _recorded(cohorts: tuple[tuple[int, ...], ...]) -> Sampling:
    if not cohorts:
        raise BadInput("sampling recorded: there is no round; give the worker ids of each")
    sizes = np.array([len(ids) for ids in cohorts], np.int32)
    largest = int(sizes.max())
    table = np.zeros((len(cohorts), largest), np.int32)
    for t, ids in enumerate(cohorts):
        table[t, : len(ids)] = ids

    def places(m: int) -> int:
        if (t := next((t for t, ids in enumerate(cohorts) if ids[-1] >= m), None)) is not None:
            raise BadInput(
                f"sampling recorded: round {t} names worker {cohorts[t][-1]}, but workers are 0 to {m - 1} here: the "
                "record is of another federation"
            )
        return largest

    def draw(key: Key[Array, ""], m: int, t: Round) -> Draw:
        # One who looks further ahead than was recorded sees the last round again; a run does not get there.
        ids, size = (lax.dynamic_index_in_dim(jnp.asarray(a), t, keepdims=False) for a in (table, sizes))
        taken = jnp.arange(largest) < size
        return jnp.where(taken, ids, m - 1), taken.astype(jnp.float32)

    repeats = any(len(set(ids)) < len(ids) for ids in cohorts)
    content = hashlib.sha256(repr(cohorts).encode()).hexdigest()
    return Sampling(f"{PREFIX}{content[:16]}", largest, places, draw, repeats, len(cohorts))


def parse(name: str, cohort: int, most: int | None = None) -> Sampling:
    """The strategy by its name on the command line."""
    makers: dict[str, Callable[[], Sampling]] = {
        "full": full,
        "with-replacement": lambda: with_replacement(cohort),
        "without-replacement": lambda: without_replacement(cohort),
        "at-least": lambda: at_least(cohort, most),
    }
    file = file_of(name)
    if file is None and name not in makers:
        raise unknown("sampling", name, [*makers, f"{PREFIX}FILE"])
    if most is not None and name != "at-least":
        raise BadInput(f"cohort-most = {most} belongs to --sampling at-least, not to {name}")
    return makers[name]() if file is None else recorded(read_cohorts(file))


def occurrences(ids: Int[Array, " places"]) -> Int[Array, " places"]:
    """For ascending ids, the how-manieth draw of its worker each entry is: 0, 1, ... within equal ids."""
    return jnp.arange(len(ids), dtype=jnp.int32) - jnp.searchsorted(ids, ids).astype(jnp.int32)


def _distinct(key: Key[Array, ""], n: int, m: int) -> Int[Array, " n"]:
    """n distinct workers out of m, in random order.

    Few of many: draw n, then draw anew whatever repeats an earlier entry, until nothing does. The procedure
    treats all workers alike, so every subset is equally likely; it costs a few sorts of n entries. Many of few
    (n > m/2): a random order of all m <= 2n workers.
    """
    if 2 * n > m:
        return random.permutation(key, m)[:n].astype(jnp.int32)

    def fresh(tries: UInt32[Array, ""]) -> Int[Array, " n"]:
        return random.randint(random.fold_in(key, tries), (n,), 0, m, jnp.int32)

    def again(state: tuple[Array, Array]) -> tuple[Array, Array]:
        tries, ids = state
        return tries + 1, jnp.where(_repeated(ids), fresh(tries), ids)

    start = (jnp.uint32(1), fresh(jnp.uint32(0)))
    return lax.while_loop(lambda state: _repeated(state[1]).any(), again, start)[1]


def _repeated(ids: Int[Array, " n"]) -> Bool[Array, " n"]:
    """Which entries have an equal entry before them."""
    order = jnp.argsort(ids, stable=True)
    ranked = ids[order]
    same = jnp.concatenate([jnp.zeros(1, bool), ranked[1:] == ranked[:-1]])
    return jnp.zeros(len(ids), bool).at[order].set(same)


def _checked(t: int, ids: Iterable[Any]) -> tuple[int, ...]:
    """The cohort of a round in ascending order."""
    known = list(ids)
    if not known:
        raise BadInput(f"sampling recorded: round {t} has no worker; a round needs at least 1")
    for each in known:
        if isinstance(each, bool) or not isinstance(each, Integral) or not 0 <= int(each) <= MOST_ID:
            raise BadInput(
                f"sampling recorded: round {t} names {repr(each)[:40]}, which is no worker: ids are 0, 1, 2, ..."
            )
    return tuple(sorted(map(int, known)))


def _check(n: int) -> None:
    if n < 1:
        raise BadInput(f"cohort = {n}: a round needs at least 1 worker")


def _fits(n: int, m: int, option: str = "cohort") -> int:
    if n > m:
        otherwise = ", or with-replacement" if option == "cohort" else ""
        raise BadInput(f"{option} = {n} is more than the {m} workers there are: choose 1 to {m}{otherwise}")
    return n
