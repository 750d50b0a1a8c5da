"""Bits in 32-bit words: packing codes, marking the largest entries, writing down where they are. No sort anywhere.

Entry i of packed bits is bit i mod 32 of word i div 32. All shapes are fixed, so everything compiles, and runs side
by side for many workers.
"""

from functools import lru_cache

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int, UInt32

WORD = 32
# Counts up to here are exact in float32, in which a CPU adds several times faster than in integers.
EXACT = 2**24
Marks = tuple[UInt32[Array, "..."], ...]


def words(count: int, width: int = 1) -> int:
    """How many words hold `count` codes of `width` bits."""
    return -(-count // (WORD // width))


def pack(codes: UInt32[Array, " n"], width: int = 1) -> UInt32[Array, " words"]:
    """Codes below 2^width, one after the other; `width` divides 32."""
    each = WORD // width
    rows = jnp.pad(codes, (0, -len(codes) % each)).reshape(-1, each)
    # Codes do not overlap, so their sum is their union.
    return jnp.sum(rows << _shifts(width)[None], axis=1, dtype=jnp.uint32)


def unpack(packed: UInt32[Array, " words"], count: int, width: int = 1) -> UInt32[Array, " n"]:
    """The first `count` codes."""
    codes = (packed[:, None] >> _shifts(width)[None]) & jnp.uint32(2**width - 1)
    return codes.reshape(-1)[:count]


def _shifts(width: int) -> UInt32[Array, " each"]:
    return jnp.arange(0, WORD, width, dtype=jnp.uint32)


def mark(places: Int[Array, " k"], count: int) -> UInt32[Array, " words"]:
    """Words in which of `count` bits those at these ascending places are set; places beyond are left out."""
    bits = jnp.zeros(count, jnp.uint32)
    return pack(bits.at[places].set(1, mode="drop", unique_indices=True, indices_are_sorted=True))


def marked(packed: UInt32[Array, " words"], k: int, beyond: int) -> Int[Array, " k"]:
    """Where the first k bits are set, ascending; where fewer are, `beyond`, `beyond` + 1, ... fill the rest."""
    upto = jnp.cumsum(lax.population_count(packed).astype(jnp.int32))
    slot = jnp.arange(k, dtype=jnp.int32)
    word = jnp.searchsorted(upto, slot, side="right", method="scan_unrolled").astype(jnp.int32)
    word = jnp.minimum(word, len(packed) - 1)
    held = packed[word]
    before = upto[word] - lax.population_count(held).astype(jnp.int32)
    return jnp.where(slot < upto[-1], word * WORD + _nth_bit(held, slot - before), beyond + slot)


def largest(values: UInt32[Array, " d"], k: int) -> UInt32[Array, " words"]:
    """Marks the k largest of values below 2^31, of equal ones the first; zeros are never marked.

    The k-th largest value is found bit by bit: 31 passes that count how many values reach a bound.
    """
    counts = jnp.float32 if len(values) <= EXACT else jnp.int32

    def settle_bit(i: Int[Array, ""], bound: UInt32[Array, ""]) -> UInt32[Array, ""]:
        higher = bound | (jnp.uint32(1) << (30 - i).astype(jnp.uint32))
        return jnp.where(jnp.sum(values >= higher, dtype=counts) >= k, higher, bound)

    kth = lax.fori_loop(0, 31, settle_bit, jnp.uint32(0))
    above = pack((values > kth).astype(jnp.uint32))
    equal = pack(((values == kth) & (values > 0)).astype(jnp.uint32))
    return above | _first(equal, k - jnp.sum(lax.population_count(above).astype(jnp.int32)))


def _first(packed: UInt32[Array, " words"], count: Int[Array, ""]) -> UInt32[Array, " words"]:
    """Only the first `count` of the bits that are set."""
    held = lax.population_count(packed).astype(jnp.int32)
    left = count - (jnp.cumsum(held) - held)
    below = (jnp.uint32(1) << _nth_bit(packed, jnp.clip(left, 0, WORD - 1)).astype(jnp.uint32)) - 1
    return jnp.where(left >= held, packed, jnp.where(left > 0, packed & below, 0))


def _nth_bit(word: UInt32[Array, " n"], nth: Int[Array, " n"]) -> Int[Array, " n"]:
    """Where the nth (from 0) of a word's bits is that are set, by halves."""
    place = jnp.zeros_like(nth)
    for half in (16, 8, 4, 2, 1):
        below = lax.population_count(word & jnp.uint32(2**half - 1)).astype(jnp.int32)
        higher = nth >= below
        nth = jnp.where(higher, nth - below, nth)
        word = jnp.where(higher, word >> half, word)
        place = jnp.where(higher, place + half, place)
    return place


@lru_cache
def low_bits(k: int, d: int) -> int | None:
    """How k ascending places below d are written in the fewest words: by Elias and Fano, or as d bits (None).

    Elias and Fano keep the low bits of the places apart; their number is what is returned. The high parts become a
    row of bits: the j-th one (from 0), at place h + j, says that the j-th high part is h. That takes about
    2 + log2(d/k) bits a place, and never more than is known beforehand.
    """
    best = min(range(d.bit_length()), key=lambda low: _elias_fano(k, d, low))
    return best if _elias_fano(k, d, best) < words(d) else None


def _elias_fano(k: int, d: int, low: int) -> int:
    return words(_row(k, d, low)) + words(k * low)


def _row(k: int, d: int, low: int) -> int:
    """How long the row of the high parts is."""
    return ((d - 1) >> low) + k


def write_places(places: Int[Array, " k"], d: int) -> Marks:
    """Ascending places below d; larger ones are left out."""
    k, low = len(places), low_bits(len(places), d)
    if low is None:
        return (mark(places, d),)
    there, row, slot = places < d, _row(k, d, low), jnp.arange(k, dtype=jnp.int32)
    high = mark(jnp.where(there, (places >> low) + slot, row + slot), row)
    if low == 0:
        return (high,)
    planes = (jnp.where(there, places, 0)[None] >> jnp.arange(low, dtype=jnp.int32)[:, None]) & 1
    return high, pack(planes.reshape(-1).astype(jnp.uint32))


def read_places(marks: Marks, k: int, d: int) -> Int[Array, " k"]:
    """The places as they were written; d, d + 1, ... stand for those left out."""
    low = low_bits(k, d)
    if low is None:
        return marked(marks[0], k, beyond=d)
    slot, row = jnp.arange(k, dtype=jnp.int32), _row(k, d, low)
    found = marked(marks[0], k, beyond=row)
    places = (found - slot) << low
    if low > 0:
        planes = unpack(marks[1], k * low).reshape(low, k).astype(jnp.int32)
        places = places | jnp.sum(
            planes << jnp.arange(low, dtype=jnp.int32)[:, None], axis=0, dtype=jnp.int32
        )
    return jnp.where(found < row, places, d + slot)
