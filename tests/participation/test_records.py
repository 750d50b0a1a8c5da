"""Recorded cohorts: what was written down is what takes part, and what cannot be is refused in one line."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from enlist.errors import BadInput
from enlist.participation import sampling
from enlist.participation.recorded import file_digest, file_of, read_cohorts

UNEQUAL = [[4, 1], [0], [5, 2, 3]]


def drawn(strategy, m, t):
    ids, weights = strategy.draw(jax.random.key(t), m, jnp.int32(t))
    return ids.tolist(), weights.tolist()


def test_each_round_has_its_own_cohort_and_empty_places_carry_the_last_id():
    strategy = sampling.recorded(UNEQUAL)
    assert (strategy.cohort, strategy.places(7), strategy.rounds, strategy.repeats) == (3, 3, 3, False)
    assert drawn(strategy, 7, 0) == ([1, 4, 6], [1, 1, 0])
    assert drawn(strategy, 7, 1) == ([0, 6, 6], [1, 0, 0])
    assert drawn(strategy, 7, 2) == ([2, 3, 5], [1, 1, 1])


def test_a_worker_may_be_there_twice():
    strategy = sampling.recorded([[1, 2], [3, 0, 3]])
    assert strategy.repeats
    assert drawn(strategy, 4, 1) == ([0, 3, 3], [1, 1, 1])


def test_equal_records_are_one_strategy_and_share_its_programs():
    one = sampling.recorded(UNEQUAL)
    again = sampling.recorded(tuple(np.array(ids)[::-1] for ids in UNEQUAL))
    other = sampling.recorded([*UNEQUAL[:2], [5, 2, 4]])
    assert one is again
    assert len({one, again, other}) == 2
    assert other.name != one.name


def test_a_long_record_is_two_constants():
    """Not a program that grows with the rounds."""

    def size(rounds):
        strategy = sampling.recorded([[t % 7, 7, 9] for t in range(rounds)])
        return len(jax.make_jaxpr(lambda t: strategy.draw(jax.random.key(0), 10, t))(jnp.int32(0)).eqns)

    assert size(1000) == size(2)


@pytest.mark.parametrize(
    ("cohorts", "says"),
    [
        ([], "there is no round"),
        ([[0], []], "round 1 has no worker"),
        ([[0], [-1]], "round 1 names -1, which is no worker"),
        ([[0.5]], "names 0.5"),
        ([[True]], "names True"),
        ([["a"]], "names 'a'"),
        ([[2**31]], "names 2147483648"),
    ],
)
def test_what_is_no_cohort_is_refused(cohorts, says):
    with pytest.raises(BadInput, match=says):
        sampling.recorded(cohorts)


def test_a_worker_that_there_is_not_is_refused_by_its_round():
    with pytest.raises(BadInput, match="round 2 names worker 5, but workers are 0 to 4 here"):
        sampling.recorded(UNEQUAL).places(5)


def write(path, entries):
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_a_file_is_read_and_other_keys_are_not(tmp_path):
    file = write(
        tmp_path / "cohorts.jsonl", [{"round": t, "ids": ids, "x": 1} for t, ids in enumerate(UNEQUAL)]
    )
    assert read_cohorts(str(file)) == UNEQUAL
    assert sampling.parse(f"recorded:{file}", 10) is sampling.recorded(UNEQUAL)
    assert file_of(f"recorded:{file}") == str(file)
    assert file_of("full") is None
    assert len(file_digest(f"recorded:{file}")) == 64
    assert file_digest("recorded:nowhere") is file_digest("recorded:") is file_digest("full") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no round is recorded"),
        ('{"round": 0, "ids": [1]}\n{"round": 1, "id', "damaged, line 2 is not a round's cohort"),
        ('{"round": 0, "ids": [1]}\n\n', "damaged, line 2"),
        ("[0, 1]\n", "damaged, line 1"),
        ('{"round": 0}\n', "damaged, line 1"),
        ('{"round": 0, "ids": 3}\n', "damaged, line 1"),
        ('{"round": 0, "ids": [1, "2"]}\n', "damaged, line 1"),
        ('{"round": true, "ids": [1]}\n', "damaged, line 1"),
        ('{"round": 1, "ids": [1]}\n', "line 1 is of round 1, where round 0 should be"),
        ('{"round": 0, "ids": [1]}\n{"round": 2, "ids": [1]}\n', "line 2 is of round 2, where round 1"),
        ('{"round": 0, "ids": [1]}\n{"round": 0, "ids": [1]}\n', "line 2 is of round 0, where round 1"),
        ('{"round": 0, "ids": [1]}\n{"round": 1, "ids": []}\n', "round 1 has no worker"),
        ('{"round": 0, "ids": [-3]}\n', "round 0 names -3"),
    ],
)
def test_a_damaged_file_is_refused_by_its_line(tmp_path, text, says):
    file = tmp_path / "cohorts.jsonl"
    file.write_text(text)
    with pytest.raises(BadInput, match=says) as refused:
        sampling.parse(f"recorded:{file}", 10)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "cohorts.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="it is no text"):
        sampling.parse(f"recorded:{tmp_path / 'cohorts.jsonl'}", 10)
