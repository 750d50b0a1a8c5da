"""How a vector travels: codecs that shorten it, giving exactly the arrays that would be sent.

A `Codec` encodes float32 vectors of a fixed length d and decodes what arrives. Encodings have fixed shapes, so their
bytes are known before anything runs. A vector with a NaN or an infinity decodes to one that is not finite, and an
encoding of nothing but zero bits decodes to the zero vector.

    topk:K      the K entries of largest magnitude (Stich et al., 2018)
    randk:K     K entries drawn at random; their places follow from a seed of 8 bytes
    sign        signs and the mean magnitude (Karimireddy et al., 2019)
    qsgd:B      B bits an entry, rounded at random without bias, a norm for each bucket (Alistarh et al., 2017)
    ternary:K   the K largest as signs and one magnitude (Sattler et al., 2019)

K is a number of entries, or a share of d if it is at most 1.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, Float, Int, Key, UInt32

from enlist.algorithms import bits
from enlist.algorithms.bits import Marks
from enlist.errors import BadInput, unknown

Vector = Float[Array, " d"]
Encoded = Any
# All bits of a float32 but its sign. As whole numbers they are ordered as the magnitudes are.
MAGNITUDE = 0x7FFFFFFF


class Codec(NamedTuple):
    """A way to shorten a vector. Equal arguments make the same object, so they share compiled programs.

    Args:
        name: as on the command line.
        encode: `encode(key, vector)`: the arrays as they would travel. Only some codecs draw.
        decode: `decode(encoded, d)`: the vector as it arrives.
        unbiased: whether it arrives right on average.
        variance: `variance(d)`: for an unbiased codec C, a bound of E|C(v) - v|^2 / |v|^2. C / (1 + variance) is
            then a contraction, which is what error feedback needs; a biased codec is one already.
    """

    name: str
    encode: Callable[[Key[Array, ""], Vector], Encoded]
    decode: Callable[[Encoded, int], Vector]
    unbiased: bool
    variance: Callable[[int], float] = lambda d: 0.0


class Sparse(NamedTuple):
    """Some entries, in ascending order of their places."""

    values: Float[Array, " k"]
    places: Marks


class Drawn(NamedTuple):
    """Entries whose places a seed tells, in ascending order of these."""

    values: Float[Array, " k"]
    seed: UInt32[Array, " 2"]


class Signs(NamedTuple):
    """A sign for every entry, 1 for a negative one, and one magnitude for all."""

    negative: UInt32[Array, " words"]
    magnitude: Float[Array, ""]


class Levels(NamedTuple):
    """A code for every entry (its sign, then its level), and the norm of each bucket."""

    codes: UInt32[Array, " words"]
    norms: Float[Array, " buckets"]


class Ternary(NamedTuple):
    """The places of some entries, their signs, and one magnitude for all of them."""

    places: Marks
    signs: Signs


@lru_cache
def identity() -> Codec:
    """The vector as it is."""
    return Codec("none", lambda key, vector: vector, lambda encoded, d: encoded, unbiased=True)


@lru_cache
def topk(amount: float | int) -> Codec:
    """The k entries of largest magnitude; of equal ones the first."""
    name, entries = _amount("topk", amount)

    def encode(key: Key[Array, ""], vector: Vector) -> Sparse:
        chosen = _largest(vector, entries(len(vector)))
        return Sparse(_taken(vector, chosen), bits.write_places(chosen, len(vector)))

    def decode(encoded: Sparse, d: int) -> Vector:
        return _spread(encoded.values, bits.read_places(encoded.places, entries(d), d), d)

    return Codec(name, encode, decode, unbiased=False)


@lru_cache
def randk(amount: float | int, scaled: bool = False) -> Codec:
    """k entries, every set of k equally likely.

    Args:
        scaled: multiply them by d/k, which makes the result right on average: for use without error feedback.
    """
    name, entries = _amount("randk", amount)

    def chosen(seed: UInt32[Array, " 2"], d: int) -> Int[Array, " k"]:
        # The largest of random numbers. Never zero, which would not be marked.
        drawn = random.bits(random.wrap_key_data(seed, impl="threefry2x32"), (d,)) >> 1 | 1
        return bits.marked(bits.largest(drawn, entries(d)), entries(d), beyond=d)

    def encode(key: Key[Array, ""], vector: Vector) -> Drawn:
        seed = random.bits(key, (2,))
        values = _taken(vector, chosen(seed, len(vector)))
        # What is not drawn must not hide that the vector is broken.
        return Drawn(jnp.where(jnp.isfinite(vector).all(), values, jnp.nan), seed)

    def decode(encoded: Drawn, d: int) -> Vector:
        scale = d / entries(d) if scaled else 1.0
        return _spread(encoded.values * jnp.float32(scale), chosen(encoded.seed, d), d)

    if not scaled:
        return Codec(name, encode, decode, unbiased=False)
    return Codec(name, encode, decode, unbiased=True, variance=lambda d: d / entries(d) - 1)


@lru_cache
def sign() -> Codec:
    """The sign of every entry, and the mean magnitude |v|_1 / d."""

    def encode(key: Key[Array, ""], vector: Vector) -> Signs:
        return Signs(bits.pack(_as_bits(vector) >> 31), jnp.mean(jnp.abs(vector)))

    return Codec("sign", encode, _signed, unbiased=False)


@lru_cache
def qsgd(width: int = 4, bucket: int = 512) -> Codec:
    """Every entry as its sign and one of s = 2^(width-1) - 1 levels of the bucket's 2-norm, or none of it.

    |v_i| s / |v| is rounded up or down at random, so that it is right on average.

    Args:
        width: bits an entry, its sign included: 2, 4 or 8.
        bucket: entries that share a norm.
    """
    if width not in (2, 4, 8):
        raise BadInput(f"qsgd:{width}: an entry takes 2, 4 or 8 bits, for example qsgd:4")
    if not isinstance(bucket, int) or bucket < 1:
        raise BadInput(f"qsgd: bucket = {bucket}: must be a whole number, 1 or more")
    levels = 2 ** (width - 1) - 1

    def buckets(vector: Vector) -> Float[Array, "buckets bucket"]:
        return jnp.pad(vector, (0, -len(vector) % bucket)).reshape(-1, bucket)

    def encode(key: Key[Array, ""], vector: Vector) -> Levels:
        rows = buckets(vector)
        # Squares of very large or small numbers leave float32, those of parts of the largest do not.
        most = jnp.max(jnp.abs(rows), axis=1)
        safe = jnp.where(most == 0, 1.0, most)
        norms = most * jnp.sqrt(jnp.sum((rows / safe[:, None]) ** 2, axis=1))
        exact = jnp.abs(rows) / jnp.where(norms == 0, 1.0, norms)[:, None] * levels
        up = random.uniform(key, vector.shape)
        level = jnp.clip(jnp.floor(exact.reshape(-1)[: len(vector)] + up), 0, levels).astype(jnp.uint32)
        negative = _as_bits(vector) >> 31
        return Levels(bits.pack(negative << (width - 1) | level, width), norms)

    def decode(encoded: Levels, d: int) -> Vector:
        codes = bits.unpack(encoded.codes, d, width)
        level = (codes & levels).astype(jnp.float32)
        parts = jnp.where(codes > levels, -level, level) / levels
        return (buckets(parts) * encoded.norms[:, None]).reshape(-1)[:d]

    def variance(d: int) -> float:
        n = min(bucket, d)
        return min(n / levels**2, math.sqrt(n) / levels)

    name = f"qsgd:{width}" if bucket == 512 else f"qsgd:{width},{bucket}"
    return Codec(name, encode, decode, unbiased=True, variance=variance)


@lru_cache
def ternary(amount: float | int) -> Codec:
    """The k entries of largest magnitude, each as its sign; all get the mean magnitude of the k."""
    name, entries = _amount("ternary", amount)

    def encode(key: Key[Array, ""], vector: Vector) -> Ternary:
        chosen = _largest(vector, entries(len(vector)))
        return Ternary(bits.write_places(chosen, len(vector)), sign().encode(key, _taken(vector, chosen)))

    def decode(encoded: Ternary, d: int) -> Vector:
        k = entries(d)
        return _spread(_signed(encoded.signs, k), bits.read_places(encoded.places, k, d), d)

    return Codec(name, encode, decode, unbiased=False)


def parse(text: str, scaled: bool = False) -> Codec:
    """The codec by its name on the command line; `scaled` makes randk unbiased.

    Example:
        >>> parse("topk:0.01") is topk(0.01)
        True
    """
    name, colon, number = text.partition(":")
    if name in ("none", "identity", "sign"):
        if colon:
            raise BadInput(f"{text}: {name} takes nothing after a colon")
        return sign() if name == "sign" else identity()
    if name == "qsgd":
        return qsgd(_whole(text, number)) if colon else qsgd()
    counted: dict[str, Callable[[float], Codec]] = {
        "topk": topk,
        "randk": lambda amount: randk(amount, scaled),
        "ternary": ternary,
    }
    if name not in counted:
        raise unknown("codec", name, [*counted, "sign", "qsgd", "none"])
    try:
        amount = float(number)
    except ValueError:
        raise BadInput(f"{text}: write a number after the colon, for example {name}:0.01") from None
    return counted[name](int(amount) if amount.is_integer() else amount)


def _whole(text: str, number: str) -> int:
    try:
        return int(number)
    except ValueError:
        raise BadInput(f"{text}: write 2, 4 or 8 bits after the colon, for example qsgd:4") from None


def _amount(codec: str, amount: float | int) -> tuple[str, Callable[[int], int]]:
    """The codec's name, and how many entries of d it means."""
    if not 0 < amount < math.inf or (amount > 1 and amount != int(amount)):
        raise BadInput(
            f"{codec}:{amount:g}: give a share above 0 and at most 1 or a whole number of entries, for example "
            f"{codec}:0.01 or {codec}:500"
        )
    name = f"{codec}:{int(amount) if amount == int(amount) else amount}"

    def entries(d: int) -> int:
        if amount > d:
            raise BadInput(
                f"{name}: the vector to send has only {d} entries; choose 2 to {d}, or a share such as {codec}:0.01"
            )
        # A share of 0.07 of 100 entries is 7 of them, though 0.07 * 100 is a little more in floating point.
        return int(amount) if amount > 1 else max(1, math.ceil(round(amount * d, 6)))

    return name, entries


def _largest(vector: Vector, k: int) -> Int[Array, " k"]:
    """The places of the k entries of largest magnitude, ascending. A NaN is the largest of all, a zero is none."""
    magnitude = _as_bits(vector) & jnp.uint32(MAGNITUDE)
    return bits.marked(bits.largest(magnitude, k), k, beyond=len(vector))


def _as_bits(vector: Vector) -> UInt32[Array, " d"]:
    return lax.bitcast_convert_type(vector, jnp.uint32)


def _taken(vector: Vector, places: Int[Array, " k"]) -> Float[Array, " k"]:
    return vector.at[places].get(mode="fill", fill_value=0.0, unique_indices=True, indices_are_sorted=True)


def _spread(values: Float[Array, " k"], places: Int[Array, " k"], d: int) -> Vector:
    zero = jnp.zeros(d, values.dtype)
    return zero.at[places].set(values, mode="drop", unique_indices=True, indices_are_sorted=True)


def _signed(encoded: Signs, count: int) -> Float[Array, " n"]:
    negative = bits.unpack(encoded.negative, count) == 1
    return jnp.where(negative, -encoded.magnitude, encoded.magnitude)
