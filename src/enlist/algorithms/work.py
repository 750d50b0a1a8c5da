"""How much a worker does in a round, and on which of its rows: K steps, or E epochs, in every round or by round.

What a worker draws depends on its key and its own size, never on how its rows are padded or batched with
others', so it is the same alone, in a cohort and on another machine. `batch = 0` means the full gradient.
"""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, Int, Key

from enlist.errors import BadInput

Size = int | Int[Array, ""]
Table = Int[Array, "..."]
# Rounds are counted in int32.
MOST_ROUNDS = 2**31 - 1
# Below this many rows a shuffle costs next to nothing.
SMALLEST_ROOM = 64


class Batch(NamedTuple):
    """Positions within a worker's own rows; the first `count` of them are meant, the rest is padding."""

    positions: Int[Array, " batch"]
    count: Int[Array, ""]  # type: ignore[assignment]


Later = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Steps:
    """K local steps, each on a batch drawn independently and uniformly: the unbiased estimate of Assumption 2.

    `later` changes K by the round: `Steps(1, later=((50, 16),))` is post-local SGD, one step a round and sixteen
    from round 50 (counted from 0) on.
    """

    steps: int
    batch: int = 10
    later: Later = ()

    def __post_init__(self) -> None:
        _check("local-steps", self.steps, self.batch, self.later)

    def count(self, size: Any, t: Any = None) -> Any:
        """K in round t, whatever the worker's size; without a round the most that K comes to."""
        return _amount(self.steps, self.later, t) + 0 * size

    def table(self, key: Key[Array, ""], size: Size, reach: Size, capacity: int) -> Table:
        """All positions that the local run will use, K x batch. Step k's do not depend on how many steps follow."""
        if self.batch == 0:
            return jnp.zeros((0, 0), jnp.int32)
        most = _amount(self.steps, self.later, None)
        return random.randint(key, (most, self.batch), 0, size, jnp.int32)

    def pick(self, table: Table, k: Int[Array, ""], size: Size) -> Batch:
        """The batch of step k."""
        return Batch(lax.dynamic_index_in_dim(table, k, keepdims=False), jnp.int32(self.batch))


@dataclass(frozen=True)
class Epochs:
    """E passes over the worker's rows, reshuffled for each; the last batch of a pass counts at its true size.

    `later` changes E by the round, as in `Steps`.
    """

    epochs: int
    batch: int = 10
    later: Later = ()

    def __post_init__(self) -> None:
        _check("local-epochs", self.epochs, self.batch, self.later)

    def count(self, size: Any, t: Any = None) -> Any:
        """E ceil(size / batch): the number of local steps of a worker of that size in round t, or at most."""
        return _amount(self.epochs, self.later, t) * self._in_a_pass(size)

    def _in_a_pass(self, size: Any) -> Any:
        return 1 + 0 * size if self.batch == 0 else -(-size // self.batch)

    def table(self, key: Key[Array, ""], size: Size, reach: Size, capacity: int) -> Table:
        """A permutation of the worker's positions for each epoch, padded to whole batches of `capacity`.

        Shuffling costs what `reach`, a bound of the size, asks for: a small worker does not sort a large one's
        padding.
        """
        if self.batch == 0:
            return jnp.zeros((0, 0), jnp.int32)
        if isinstance(reach, int):
            return self._shuffled(key, size, reach, capacity)
        rooms = [capacity]
        while rooms[-1] > 4 * max(self.batch, SMALLEST_ROOM):
            rooms.append(-(-rooms[-1] // 4))
        smallest = sum(jnp.asarray(room >= reach, jnp.int32) for room in rooms) - 1
        return lax.switch(smallest, [partial(self._shuffled, key, size, room, capacity) for room in rooms])

    def _shuffled(self, key: Key[Array, ""], size: Size, room: int, capacity: int) -> Table:
        position = jnp.arange(room, dtype=jnp.int32)
        # One key an epoch: the bits of a row then do not depend on how long the rows are.
        epochs = jnp.arange(_amount(self.epochs, self.later, None))
        keys = jax.vmap(random.fold_in, (None, 0))(key, epochs)
        bits = jax.vmap(lambda epoch: random.bits(epoch, (room,)))(keys)
        # Padding sorts last: it has the largest key, and the sort is stable.
        bits = jnp.where(position[None] < size, bits, jnp.uint32(0xFFFFFFFF))
        order = jnp.argsort(bits, axis=1, stable=True).astype(jnp.int32)
        return jnp.pad(order, ((0, 0), (0, self._in_a_pass(capacity) * self.batch - room)))

    def pick(self, table: Table, k: Int[Array, ""], size: Size) -> Batch:
        """The batch of step k."""
        a_pass = self._in_a_pass(size)
        start = (k % a_pass) * self.batch
        positions = lax.dynamic_slice(table, (k // a_pass, start), (1, self.batch))[0]
        if isinstance(size, int) and size % self.batch == 0:
            return Batch(positions, jnp.int32(self.batch))  # every batch is full: nothing to mask
        count = jnp.minimum(self.batch, size - start).astype(jnp.int32)
        return Batch(jnp.where(jnp.arange(self.batch) < count, positions, 0), count)


LocalWork = Steps | Epochs


def parse_schedule(text: str) -> Later:
    """`ROUND:AMOUNT,...` as on the command line.

    Example:
        >>> parse_schedule("50:16,100:32")
        ((50, 16), (100, 32))
    """
    try:
        pairs = [part.split(":") for part in text.split(",")]
        return tuple((int(t), int(amount)) for t, amount in pairs)
    except ValueError:
        raise BadInput(
            f"local-schedule {text[:60]!r}: give ROUND:AMOUNT, several with commas, for instance 50:16"
        ) from None


def _amount(first: int, later: Later, t: Any) -> Any:
    """Steps or epochs in round t; the most of any round where t is None."""
    if t is None:
        return max([first, *(amount for _, amount in later)])
    if not later:
        return first
    rounds, amounts = zip(*later, strict=True)
    which = jnp.searchsorted(jnp.asarray(rounds), t, side="right")
    return jnp.asarray([first, *amounts], jnp.int32)[which]


def _check(what: str, amount: int, batch: int, later: Later) -> None:
    if amount < 1:
        raise BadInput(f"{what} = {amount}: a worker must do at least 1")
    rounds = [0, *(t for t, _ in later)]
    if any(a >= b for a, b in pairwise(rounds)):
        raise BadInput(f"local-schedule: its rounds must ascend from 1 on, not {rounds[1:]}")
    if rounds[-1] > MOST_ROUNDS:
        raise BadInput(f"local-schedule: round {rounds[-1]} is too far: {MOST_ROUNDS} at most")
    if (wrong := next((each for _, each in later if each < 1), None)) is not None:
        raise BadInput(f"local-schedule: {wrong} {what}: a worker must do at least 1")
    if batch < 0:
        raise BadInput(f"batch = {batch}: give a positive batch size, or 0 for the full gradient")
