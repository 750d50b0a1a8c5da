"""Codecs: each against a literal NumPy twin of its compressor, its bytes against a formula."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import enlist
from enlist import encoding
from enlist.algorithms import bits

# Shares, so that every codec fits every length; the first takes a single entry.
SIZES = (1, 33, 700, 5000)
CODECS = ("topk:0.1", "topk:1", "randk:0.1", "sign", "qsgd:2", "qsgd:4", "qsgd:8", "ternary:0.1", "none")


@functools.cache
def compiled(codec, d):
    """`(key, vector) -> what travels, what arrives`, with nothing but the arrays in between."""
    return jax.jit(lambda key, v: (e := codec.encode(key, v), codec.decode(e, d)))


def through(codec, vector, seed=0):
    sent, arrived = compiled(codec, len(vector))(jax.random.key(seed), jnp.asarray(vector))
    return sent, np.asarray(arrived)


def nbytes(sent):
    return sum(leaf.nbytes for leaf in jax.tree.leaves(sent))


@st.composite
def vectors(draw, sizes=(33, 700)):
    """Of all kinds: smooth, with many ties, mostly or only zeros, tiny, huge, denormal."""
    d, rng = draw(st.sampled_from(sizes)), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    v = rng.normal(size=d)
    kind = draw(st.sampled_from(["smooth", "ties", "sparse", "zero", "mixed"]))
    if kind == "ties":
        v = np.round(v)
    elif kind == "sparse":
        v = v * (rng.random(d) < 0.05)
    elif kind == "zero":
        v = v * 0
    elif kind == "mixed":
        v = v * 10.0 ** rng.integers(-44, 10, size=d)
    return (v * draw(st.sampled_from([1.0, 1e-6, 1e-40, 1e20]))).astype(np.float32)


def largest(v, k):
    """The k largest magnitudes, of equal ones the first."""
    magnitude = v.view(np.uint32) & 0x7FFFFFFF
    return np.sort(np.argsort(-magnitude.astype(np.int64), kind="stable")[:k])


def share(amount, d):
    return max(1, math.ceil(amount * d - 1e-9))


@pytest.mark.parametrize("amount", [1e-9, 0.1, 1])
@given(v=vectors(SIZES))
def test_topk_keeps_the_largest_to_the_bit(amount, v):
    expected = np.zeros_like(v)
    chosen = largest(v, share(amount, len(v)))
    expected[chosen] = v[chosen]
    sent, arrived = through(encoding.topk(amount), v)
    assert len(sent.values) == len(chosen)
    np.testing.assert_array_equal(arrived.view(np.uint32), (expected + 0.0).view(np.uint32))


def test_topk_by_number():
    v = np.array([3, -5, 0, 5, 1, -3], np.float32)
    assert through(encoding.topk(2), v)[1].tolist() == [0, -5, 0, 5, 0, 0]
    assert through(encoding.topk(3), v)[1].tolist() == [3, -5, 0, 5, 0, 0]
    assert through(encoding.topk(6), v)[1].tolist() == v.tolist()


def ternary_twin(v, k):
    """Sattler et al., algorithm 1: mu sign(v) on the k largest, mu the mean of their magnitudes."""
    chosen = largest(v, k)
    mu = np.abs(v[chosen].astype(np.float64)).sum() / k
    expected = np.zeros(len(v))
    expected[chosen] = mu * np.sign(v[chosen])
    return expected


@given(v=vectors())
def test_ternary_equals_its_pseudo_code(v):
    expected = ternary_twin(v, share(0.1, len(v)))
    np.testing.assert_allclose(through(encoding.ternary(0.1), v)[1], expected, rtol=1e-5, atol=1e-37)


@given(v=vectors())
def test_sign_equals_its_pseudo_code(v):
    expected = np.abs(v.astype(np.float64)).mean() * np.where(np.signbit(v), -1, 1)
    np.testing.assert_allclose(through(encoding.sign(), v)[1], expected, rtol=1e-5, atol=1e-37)


def qsgd_twin(v, width, bucket, up):
    """Alistarh et al., section 3: |v| sgn(v_i) xi_i / s by buckets; and how far each was from rounding otherwise."""
    s, expected, margin = 2 ** (width - 1) - 1, np.zeros(len(v)), np.full(len(v), np.inf)
    for start in range(0, len(v), bucket):
        inside = slice(start, start + bucket)
        part = v[inside].astype(np.float64)
        norm = np.sqrt((part**2).sum())
        if norm > 0:
            level = np.abs(part) / norm * s + up[inside]
            expected[inside] = norm * np.sign(part) * np.minimum(np.floor(level), s) / s
            margin[inside] = np.abs(level - np.round(level))
    return expected, margin


@pytest.mark.parametrize("width", [2, 4, 8])
@given(v=vectors())
def test_qsgd_equals_its_pseudo_code(width, v):
    up = np.asarray(jax.random.uniform(jax.random.key(5), (len(v),)), np.float64)
    expected, margin = qsgd_twin(v, width, 512, up)
    _, arrived = through(encoding.qsgd(width), v, seed=5)
    sure = (margin > 1e-4) & (np.abs(v).max() > 1e-36)
    np.testing.assert_allclose(arrived[sure], expected[sure], rtol=1e-5, atol=1e-37)


@given(v=vectors(), seed=st.integers(0, 99))
def test_randk_keeps_k_entries_wherever_they_are(v, seed):
    k = share(0.1, len(v))
    v = np.where(v == 0, np.float32(1), v)
    sent, arrived = through(encoding.randk(0.1), v, seed)
    assert (arrived != 0).sum() == k
    np.testing.assert_array_equal(arrived[arrived != 0], v[arrived != 0])
    np.testing.assert_array_equal(arrived[arrived != 0], sent.values)


def many(codec, v, times=4000):
    draw = jax.jit(jax.vmap(lambda key: codec.decode(codec.encode(key, v), len(v))))
    return np.asarray(draw(jax.random.split(jax.random.key(1), times)), np.float64)


def test_randk_draws_every_set_alike():
    d, k, times = 12, 5, 4000
    kept = many(encoding.randk(k), jnp.ones(d), times)
    assert (kept.sum(axis=1) == k).all()
    single, pair = k / d, k * (k - 1) / (d * (d - 1))
    together = kept.T @ kept / times
    expected = np.where(np.eye(d, dtype=bool), single, pair)
    assert np.abs(together - expected).max() < 5 * np.sqrt(0.25 / times)


@pytest.mark.parametrize("codec", [encoding.randk(7, scaled=True), *map(encoding.qsgd, (2, 4, 8))])
def test_right_on_average_and_within_its_variance(codec):
    assert codec.unbiased
    v = jnp.asarray(np.random.default_rng(0).normal(size=40), jnp.float32)
    arrived = many(codec, v)
    error = arrived - np.asarray(v)
    assert (np.abs(error.mean(axis=0)) < 5 * arrived.std(axis=0) / np.sqrt(len(arrived)) + 1e-6).all()
    relative = (error**2).sum(axis=1).mean() / float((v**2).sum())
    assert relative < codec.variance(40) * 1.05
    # Divided by 1 + its variance it is a contraction, as the others are: what error feedback rests on.
    damped = arrived / (1 + codec.variance(40)) - np.asarray(v)
    assert (damped**2).sum(axis=1).mean() < float((v**2).sum())


def words(count):
    return -(-count // 32)


def places_bytes(k, d):
    elias_fano = min(words(k + ((d - 1) >> low)) + words(k * low) for low in range(d.bit_length()))
    return 4 * min(elias_fano, words(d))


def sizes_of(codec, d):
    shapes = jax.eval_shape(codec.encode, jax.random.key(0), jnp.zeros(d))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))


@settings(max_examples=10)
@given(st.integers(1, 300_000), st.data())
def test_bytes_are_those_of_the_formula(d, data):
    amount = data.draw(st.one_of(st.floats(1e-6, 1), st.integers(min(d, 2), d)))
    k = amount if amount > 1 else share(amount, d)
    assert sizes_of(encoding.topk(amount), d) == 4 * k + places_bytes(k, d)
    assert sizes_of(encoding.ternary(amount), d) == 4 + 4 * words(k) + places_bytes(k, d)
    assert sizes_of(encoding.randk(amount), d) == 4 * k + 8
    assert sizes_of(encoding.sign(), d) == 4 + 4 * words(d)
    for width in (2, 4, 8):
        assert sizes_of(encoding.qsgd(width), d) == 4 * -(-d * width // 32) + 4 * -(-d // 512)
    assert sizes_of(encoding.identity(), d) == 4 * d
    # About 2 + log2(d/k) bits a place, and the last word of each row.
    assert 8 * places_bytes(k, d) <= min(k * (2 + math.log2(d / k)) + 64, d + 32)


def test_what_is_counted_is_what_is_made():
    for name in CODECS:
        codec = encoding.parse(name)
        assert nbytes(through(codec, np.ones(700, np.float32))[0]) == sizes_of(codec, 700)


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_what_is_broken_arrives_broken(name, broken):
    for seed in range(3):
        v = np.random.default_rng(seed).normal(size=700).astype(np.float32)
        v[seed * 300] = broken
        assert not np.isfinite(through(encoding.parse(name), v, seed)[1]).all()


@pytest.mark.parametrize("name", CODECS)
def test_zero_bits_mean_zero(name):
    codec = encoding.parse(name)
    sent, arrived = through(codec, np.zeros(700, np.float32))
    assert not arrived.any()
    assert not jax.jit(codec.decode, static_argnums=1)(jax.tree.map(jnp.zeros_like, sent), 700).any()


def test_side_by_side_equals_one_by_one():
    some = np.random.default_rng(0).normal(size=(3, 700)).astype(np.float32)
    keys = jax.random.split(jax.random.key(0), 3)
    for name in ("topk:0.1", "qsgd:4"):
        run = compiled(encoding.parse(name), 700)
        together = jax.jit(jax.vmap(run))(keys, some)[1]
        alone = [run(key, v)[1] for key, v in zip(keys, some, strict=True)]
        np.testing.assert_allclose(together, np.stack(alone), rtol=1e-6)


@given(
    st.integers(0, 2**32 - 1), st.sampled_from([(1, 1), (1, 40), (40, 40), (9, 300), (200, 300), (3, 5000)])
)
def test_places_survive_being_written(seed, sizes):
    k, d = sizes
    rng = np.random.default_rng(seed)
    fewer = rng.integers(0, k + 1)
    places = np.concatenate([np.sort(rng.choice(d, fewer, replace=False)), d + np.arange(fewer, k)])
    write = jax.jit(bits.write_places, static_argnums=1)
    read = jax.jit(bits.read_places, static_argnums=(1, 2))
    assert read(write(jnp.asarray(places, jnp.int32), d), k, d).tolist() == places.tolist()


def test_equal_arguments_make_one_object():
    assert encoding.parse("topk:0.01") is encoding.topk(0.01)
    assert encoding.parse("topk:500") is encoding.topk(500)
    assert encoding.parse("ternary:0.5") is encoding.ternary(0.5)
    assert encoding.parse("qsgd") is encoding.parse("qsgd") is encoding.qsgd()
    assert encoding.parse("none") is encoding.parse("identity") is encoding.identity()
    assert encoding.parse("randk:0.2", scaled=True) is encoding.randk(0.2, True)
    for name in CODECS:
        assert encoding.parse(name).name == name
        assert hash(encoding.parse(name)) is not None
    assert encoding.topk(1234567).name == "topk:1234567"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: encoding.parse("topkk:3"), "unknown codec 'topkk': did you mean 'topk'"),
        (lambda: encoding.parse("topk:many"), "topk:many: write a number"),
        (lambda: encoding.topk(0), "topk:0: give a share"),
        (lambda: encoding.randk(float("nan")), "randk:nan: give a share"),
        (lambda: encoding.ternary(2.5), "ternary:2.5: give a share"),
        (lambda: encoding.qsgd(5), "qsgd:5: an entry takes 2, 4 or 8 bits"),
        (lambda: encoding.qsgd(4, bucket=0), "bucket = 0"),
        (lambda: through(encoding.topk(34), np.zeros(33, np.float32)), "topk:34: .* only 33 entries"),
        (lambda: through(encoding.randk(34), np.zeros(33, np.float32)), "randk:34: .* only 33 entries"),
    ],
)
def test_what_cannot_be_is_refused(make, says):
    with pytest.raises(enlist.BadInput, match=says):
        make()
