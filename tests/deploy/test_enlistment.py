"""Who is asked: the simulator's cohort where all can be reached, a uniform one among those who can."""

import math
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from enlist.algorithms.work import Steps
from enlist.deploy.enlistment import enlist, needed
from enlist.engine.cohort import draw_cohort
from enlist.engine.plan import Draws
from enlist.options import ParticipationOptions
from enlist.participation import sampling

M, SEED = 10, 4
# Few numbers of workers, since a program is compiled for each.
SOME = [0, 2, 3, 7, 9]
STRATEGIES = {
    "full": ParticipationOptions(M, "full"),
    "with-replacement": ParticipationOptions(4, "with-replacement"),
    "without-replacement": ParticipationOptions(2, "without-replacement"),
    "at-least": ParticipationOptions(3, "at-least", 8),
}


def asked(options, t=0, attempt=0, reachable=range(M), over=1.0, seed=SEED):
    return enlist(options, seed, t, attempt, list(reachable), M, over)


def ids(enlisted):
    return sorted(Counter(enlisted.draws).elements())


@pytest.mark.parametrize("options", STRATEGIES.values(), ids=STRATEGIES)
def test_the_simulators_cohorts_where_all_can_be_reached(options):
    how = sampling.parse(options.sampling, options.cohort, options.cohort_most)
    draws = Draws(how, M, None, Steps(1, 1))
    drawn = jax.jit(lambda t: draw_cohort(draws, jnp.ones(M, jnp.int32), jax.random.key(SEED), t))
    for t in range(12):
        cohort = drawn(jnp.int32(t))
        expected = sorted(np.asarray(cohort.ids)[np.asarray(cohort.weights) > 0].tolist())
        found = asked(options, t)
        assert ids(found) == expected
        assert found.wanted == len(expected)
        assert found.least == (M if options.sampling == "full" else options.cohort)


@pytest.mark.parametrize("over", [1.0, 1.3])
@pytest.mark.parametrize("name", ["with-replacement", "without-replacement", "at-least"])
def test_only_those_who_can_be_reached(name, over):
    drawn = (asked(STRATEGIES[name], t, reachable=SOME, over=over).draws for t in range(30))
    assert {worker for draws in drawn for worker in draws} == set(SOME)


@pytest.mark.parametrize(("over", "many"), [(1.0, 2), (1.3, 3), (1.5, 3), (2.001, 5), (100.0, M)])
def test_more_are_asked_than_are_needed(over, many):
    options = STRATEGIES["without-replacement"]
    for t in range(10):
        cohort, more = asked(options, t), asked(options, t, over=over)
        assert len(more.draws) == many
        assert set(more.draws.values()) == {1}
        assert cohort.draws.items() <= more.draws.items()
        assert (more.wanted, more.least) == (2, 2)


def test_more_draws_are_made_than_are_needed():
    options = STRATEGIES["with-replacement"]
    for t in range(10):
        cohort, more = asked(options, t), asked(options, t, over=1.3)
        assert sum(more.draws.values()) == math.ceil(1.3 * 4)
        assert Counter(more.draws) >= Counter(cohort.draws)
        assert (more.wanted, more.least) == (4, 4)
    # Fewer workers than draws will do.
    assert sum(asked(options, reachable=SOME, over=2.0).draws.values()) == 8


def test_everybody_is_everybody():
    assert asked(STRATEGIES["full"], over=1.3).draws == dict.fromkeys(range(M), 1)
    assert needed(STRATEGIES["full"], M) == M


def test_another_attempt_draws_anew():
    options = STRATEGIES["without-replacement"]
    drawn = {attempt: [ids(asked(options, t, attempt)) for t in range(20)] for attempt in range(3)}
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]
    assert drawn[1] == [ids(asked(options, t, 1)) for t in range(20)]
    assert ids(asked(options, 0, over=2.0)) != ids(asked(options, 0, 1, over=2.0))


@pytest.mark.parametrize(("attempt", "over"), [(0, 1.0), (1, 1.0), (0, 1.5)])
def test_uniform_among_those_who_can_be_reached(attempt, over):
    rounds, n = 400, 2
    times: Counter = Counter()
    cohorts = set()
    for t in range(rounds):
        found = asked(STRATEGIES["without-replacement"], t, attempt, SOME, over)
        times.update(found.draws)
        cohorts.add(tuple(found.draws))
    share = math.ceil(over * n) / len(SOME)
    spread = math.sqrt(rounds * share * (1 - share))
    assert all(abs(times[worker] - rounds * share) < 4 * spread for worker in SOME)
    assert len(cohorts) == math.comb(len(SOME), math.ceil(over * n))


def test_at_least_with_fewer_than_the_most():
    options = STRATEGIES["at-least"]
    sizes = Counter(len(asked(options, t, reachable=SOME).draws) for t in range(60))
    assert set(sizes) == {3, 4, 5}
    assert needed(options, M) == 3
    assert asked(options, reachable=SOME).least == 3


def test_how_many_must_be_there():
    assert needed(ParticipationOptions(4, "without-replacement"), M) == 4
    assert needed(ParticipationOptions(4, "with-replacement"), M) == 1
