"""Orders and answers arrive as they were sent, or are refused with a cause."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st
from stub import same

from enlist.deploy.checks import checked
from enlist.deploy.messages import (
    LOCAL,
    Answer,
    Malformed,
    Order,
    answer_record,
    kind_of,
    order_record,
    packed,
    read_answer,
    read_order,
)


class Inner(NamedTuple):
    mean: Any
    codes: Any


class Outer(NamedTuple):
    inner: Inner
    rest: Any


NESTED = Outer(
    Inner(np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 2**32 - 1], np.uint32)),
    {
        "number": np.float32(0.5),
        "short": np.asarray(jnp.asarray([1.5, -2.0], jnp.bfloat16)),
        "one short": np.asarray(jnp.bfloat16(3.0)),
        "flags": np.array([True, False]),
        "none": np.zeros((0, 4), np.float32),
        "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "whole": jnp.int32(7),
    },
)
MESSAGE = {"w": np.ones((2, 3), np.float32), "b": np.float32(2.0)}


def shapes(tree):
    return jax.eval_shape(lambda: jax.tree.map(jnp.asarray, tree))


def over_the_wire(record):
    """As Flower does: into bytes and back."""
    return RecordDict.inflate(
        record.deflate(), {key: _inflated(part) for key, part in record.children.items()}
    )


def _inflated(part):
    children = {key: _inflated(child) for key, child in (part.children or {}).items()}
    return type(part).inflate(part.deflate(), children or None)


def an_answer(**other):
    facts = {
        "token": "t0",
        "kind": LOCAL,
        "t": 3,
        "worker": 1,
        "rows": 20,
        "seconds": 0.5,
        "weights": [1.0],
        "losses": [0.25],
        "messages": [MESSAGE],
    }
    return Answer(**(facts | other))


def check(record, draws=1, bound=None, decode=lambda message: message, like=MESSAGE):
    return checked(record, "t0", LOCAL, 3, 1, draws, shapes(like), bound, decode)


@pytest.mark.parametrize(
    "tree", [NESTED, (), np.float32(1.0), jnp.zeros(3)], ids=["nested", "empty", "one", "jax"]
)
def test_a_tree_comes_back_as_it_was(tree):
    sent = Order("t0", LOCAL, 3, 1, 2, -1, tree, ())
    record = over_the_wire(order_record(sent))
    assert kind_of(record) == LOCAL
    got = read_order(record, shapes(tree), ())
    assert got[:6] == sent[:6]
    assert jax.tree.structure(got.payload) == jax.tree.structure(tree)
    assert same(got.payload, tree)
    pairs = zip(jax.tree.leaves(got.payload), jax.tree.leaves(tree), strict=True)
    assert all((a.dtype, a.shape) == (b.dtype, b.shape) for a, b in pairs)


def test_what_is_packed_stays_packed():
    once = packed(MESSAGE)
    assert packed(once) is once


def test_an_answer_comes_back_as_it_was():
    sent = an_answer(
        weights=[1.0, 2.0],
        losses=[0.5, 0.25],
        messages=[MESSAGE, {"w": 2 * MESSAGE["w"], "b": np.float32(1.0)}],
    )
    got = check(over_the_wire(answer_record(sent)), draws=2)
    assert got[:8] == sent[:8]
    assert same(got.messages, sent.messages)


def arrays(*given):
    return packed(list(map(np.asarray, given)))


def parts(layout, whole):
    return ArrayRecord({"layout": Array(np.frombuffer(layout, np.uint8)), "bytes": Array(np.asarray(whole))})


LAYOUT = b'[["float32", []], ["float32", [2, 3]]]'


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            arrays(np.float32(2.0), np.ones((3, 2), np.float32)),
            r"array 1: float32 \(3, 2\) where float32 \(2, 3\)",
        ),
        (arrays(np.float32(2.0), np.ones((2, 3))), r"array 1: float64 \(2, 3\) where float32"),
        (
            arrays(np.ones(1, np.float32), np.ones((2, 3), np.float32)),
            r"array 0: float32 \(1,\) where float32 \(\)",
        ),
        (arrays(np.ones((2, 3), np.float32)), "1 arrays where 2 arrays"),
        (arrays(*[np.float32(2.0)] * 3), "3 arrays where 2 arrays"),
        (ArrayRecord({"0": Array(np.float32([1])), "w": Array(np.float32([1]))}), "0, w where 2 arrays"),
        (ConfigRecord({"layout": 1.0, "bytes": "b"}), "cannot be read"),
        (parts(b"[[", np.zeros(28, np.uint8)), "cannot be read"),
        (parts(b"{}", np.zeros(28, np.uint8)), "no arrays where 2 arrays"),
        (parts(b'["float32", 3]', np.zeros(28, np.uint8)), r"array 0: float32 where float32 \(\)"),
        (parts(LAYOUT, np.zeros(27, np.uint8)), r"uint8 \(27,\) where 28 bytes"),
        (parts(LAYOUT, np.zeros(7, np.float32)), r"float32 \(7,\) where 28 bytes"),
    ],
)
def test_other_arrays_are_refused(message, cause):
    record = answer_record(an_answer())
    record["message-0"] = message
    with pytest.raises(Malformed, match=cause):
        check(record)


@pytest.mark.parametrize("bytes_", [[1], [1, 2, 3], [1] * 8])
def test_bytes_that_are_no_short_numbers_are_refused(bytes_):
    record = order_record(Order("t0", LOCAL, 0, 1, 1, -1, (), ()))
    record["payload"] = arrays(np.uint8(bytes_))
    with pytest.raises(Malformed, match="payload, array 0"):
        read_order(record, shapes(jnp.zeros(2, jnp.bfloat16)), ())


def test_an_array_that_is_none_is_refused():
    record = answer_record(an_answer())
    torn = record["message-0"]["bytes"]
    torn.data = torn.data[: len(torn.data) // 2]
    with pytest.raises(Malformed, match="message-0: cannot be read"):
        check(record)


def test_parts_that_are_missing_are_named():
    record = answer_record(an_answer())
    del record["message-0"]
    with pytest.raises(Malformed, match="0 messages where 1 were asked for"):
        check(record)
    with pytest.raises(Malformed, match="no token, kind, t, worker, rows, seconds, weights, losses in it"):
        check(RecordDict({"message-0": packed(MESSAGE)}))
    facts = {name: value for name, value in answer_record(an_answer())["answer"].items() if name != "rows"}
    with pytest.raises(Malformed, match=r"^no rows in it"):
        check(RecordDict({"answer": ConfigRecord(facts), "message-0": packed(MESSAGE)}))
    misnamed = answer_record(an_answer())
    misnamed["message-7"] = misnamed.pop("message-0")
    with pytest.raises(Malformed, match="message-0: nothing where 2 arrays"):
        check(misnamed)
    order = order_record(Order("t0", LOCAL, 0, 1, 1, -1, MESSAGE, ()))
    del order["payload"]
    with pytest.raises(Malformed, match="payload: nothing where 2 arrays are expected"):
        read_order(order, shapes(MESSAGE), ())


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        ({"token": "t1"}, "another run"),
        ({"t": 2}, "answers local of round 2, not local of round 3"),
        ({"kind": "probe"}, "answers probe of round 3, not local"),
        ({"worker": 2}, "says that it is worker 2's"),
        ({"rows": 0}, "counts 0 rows"),
        ({"rows": 2**40}, "counts 1099511627776 rows"),
        ({"rows": 2.5}, "rows is '2.5', which is not of type int"),
        ({"rows": True}, "rows is 'True'"),
        ({"t": "3"}, "t is '3'"),
        ({"seconds": "long"}, "seconds are 'long'"),
        ({"seconds": float("nan")}, "seconds are 'nan'"),
        ({"seconds": -1.0}, "seconds are '-1.0'"),
        ({"weights": [-1.0]}, "negative weight"),
        ({"weights": [float("inf")]}, "weights are not finite"),
        ({"weights": [1e39]}, "weights are not finite"),
        ({"weights": ["heavy"]}, "weights are not 1 numbers"),
        ({"weights": 1.0}, "weights are not 1 numbers"),
        ({"weights": [1.0, 1.0]}, "weights are not 1 numbers"),
        ({"losses": [float("nan")]}, "losses are not finite"),
        ({"losses": [b"1"]}, "losses are not 1 numbers"),
        ({"losses": []}, "losses are not 1 numbers"),
    ],
)
def test_an_answer_to_something_else_is_refused(facts, cause):
    record = answer_record(an_answer())
    record["answer"] = ConfigRecord(dict(record["answer"]) | facts)
    with pytest.raises(Malformed, match=cause):
        check(record)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16])
def test_numbers_that_are_not_finite_are_refused(bad, dtype):
    message = {"w": np.ones((2, 3), dtype), "codes": np.uint8([255, 255])}
    assert same(check(answer_record(an_answer(messages=[message])), like=message).messages[0], message)
    message["w"][1, 2] = bad
    with pytest.raises(Malformed, match="not finite"):
        check(answer_record(an_answer(messages=[message])), like=message)


def test_the_norm_is_that_of_the_whole_message():
    record = answer_record(
        an_answer(messages=[{"w": np.full((2, 3), 2.0, np.float32), "b": np.float32(1.0)}])
    )
    check(record, bound=5.0)
    with pytest.raises(Malformed, match=r"its norm 5 is above the bound 4\.9"):
        check(record, bound=4.9)


def test_the_norm_of_a_shortened_message_is_that_of_what_it_stands_for():
    message = {"scale": np.float32(1.0), "codes": np.ones(100, np.uint8)}
    decode = lambda message: message["scale"] * message["codes"].astype(np.float32)
    record = answer_record(an_answer(messages=[message]))
    check(record, bound=10.0, decode=decode, like=message)
    with pytest.raises(Malformed, match="its norm 10 is above"):
        check(record, bound=9.9, decode=decode, like=message)
    with pytest.raises(Malformed, match="not finite"):
        check(record, decode=lambda message: decode(message) * np.inf, like=message)


PLAIN = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans(), st.text(max_size=3), st.binary(max_size=3)
)
LISTS = st.one_of(
    *(st.lists(each, max_size=2) for each in (st.floats(), st.integers(0, 9), st.text(), st.booleans()))
)


@given(st.dictionaries(st.sampled_from(Answer._fields[:8]), PLAIN | LISTS))
def test_whatever_a_worker_says_it_is_an_answer_or_refused(facts):
    record = answer_record(an_answer())
    record["answer"] = ConfigRecord(dict(record["answer"]) | facts)
    try:
        got = check(record)
    except Malformed:
        pass
    else:
        assert (got.token, got.kind, got.t, got.worker) == ("t0", LOCAL, 3, 1)
        assert got.rows > 0
        assert np.isfinite([got.seconds, *got.weights, *got.losses]).all()


def test_an_order_that_is_not_of_the_expected_shapes_is_refused():
    record = order_record(Order("t0", LOCAL, 0, 1, 1, -1, MESSAGE, ()))
    with pytest.raises(Malformed, match="payload, array 1"):
        read_order(record, shapes(MESSAGE | {"w": np.ones(2, np.float32)}), ())
    with pytest.raises(Malformed, match="replica: no array where 1 arrays"):
        read_order(record, shapes(MESSAGE), shapes(np.float32(1)))
    del record["order"]["t"]
    with pytest.raises(Malformed, match="no t in it"):
        read_order(record, shapes(MESSAGE), ())
    with pytest.raises(Malformed, match="no kind in it"):
        kind_of(RecordDict())
    with pytest.raises(Malformed, match="0 messages where 2"):
        read_answer(
            answer_record(an_answer(weights=[1.0] * 2, losses=[1.0] * 2, messages=[])), shapes(MESSAGE), 2
        )
