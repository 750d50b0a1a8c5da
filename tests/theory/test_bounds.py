"""The theorems as functions: their special cases, conditions, orders, units and derivatives."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enlist.theory.bounds import (
    at_least,
    bound,
    iid,
    recorded,
    theorem_1,
    theorem_2_with_replacement,
    theorem_2_without_replacement,
)
from enlist.theory.conditions import (
    Constants,
    Rates,
    full,
    largest_server_lr,
    largest_worker_lr,
    with_replacement,
    without_replacement,
)
from enlist.theory.corollaries import (
    corollary_rates,
    earlier_largest_local_steps,
    iid_order,
    largest_local_steps,
    least_rounds,
    order,
    partial_order,
)

SOME = Constants(smoothness=2.0, sigma_local=1.5, sigma_global=0.7, gap=3.0)
# u = 0.06, g L = 0.18.
RATES = Rates(worker_lr=0.006, server_lr=3.0)
WORK = {"local_steps": 5, "rounds": 400}


def numbers(found):
    """A bound without what may be infinite, as one array."""
    return np.array([found.bound, found.vanishing, found.phi, *found.parts, found.c])


def literal(constants, rates, K, T, n, q):
    """Theorem 2's statement as it is written, with q for 1/n and (m-n)/(n(m-1)); c as corrected."""
    L, sl, sg, gap = constants
    el, e = rates
    c = 1 / 2 - 15 * K**2 * el**2 * L**2 - L * e * el * q / 2 * (90 * K**3 * L**2 * el**2 + 3 * K)
    phi = L * e * el / (2 * n) * sl**2 + 3 * L * K * e * el * q / 2 * sg**2
    phi += (5 * K * el**2 * L**2 / 2 + 15 * K**2 * e * el**3 * L**3 * q / 2) * (sl**2 + 6 * K * sg**2)
    return gap / (c * e * el * K * T) + phi / c


@pytest.mark.parametrize(
    ("strategy", "n", "q"),
    [
        (full(20), 20, 0),
        (with_replacement(4), 4, 1 / 4),
        (without_replacement(4, 20), 4, 16 / (4 * 19)),
        (without_replacement(1, 20), 1, 1),
    ],
)
def test_the_bound_is_the_statement_of_the_theorem(strategy, n, q):
    found = bound(SOME, RATES, strategy, **WORK)
    np.testing.assert_allclose(found.bound, literal(SOME, RATES, 5, 400, n, q), rtol=1e-13)
    np.testing.assert_allclose(found.vanishing + sum(found.parts), found.bound, rtol=1e-15)
    assert found.conditions.hold


@pytest.mark.parametrize("workers", [1, 2, 7, 100, 12345])
def test_strategy_2_with_all_workers_is_theorem_1_to_the_last_digit(workers):
    one = theorem_1(SOME, RATES, workers=workers, **WORK)
    two = theorem_2_without_replacement(SOME, RATES, workers=workers, cohort=workers, **WORK)
    assert jax.tree.leaves(one) == jax.tree.leaves(two)


@pytest.mark.parametrize("strategy", [full(20), with_replacement(4), without_replacement(4, 20)])
def test_margins_are_what_is_left_to_the_limit(strategy):
    found = bound(SOME, RATES, strategy, **WORK)
    for each in found.conditions:
        np.testing.assert_allclose(each.margin, each.limit - each.value, rtol=1e-13)
    np.testing.assert_allclose(found.conditions.progress.margin, 2 * found.c)


def test_limits_on_the_step_are_the_corrected_ones():
    def limit(strategy):
        return bound(SOME, RATES, strategy, **WORK).conditions.step.limit

    assert limit(full(20)) == 1
    np.testing.assert_allclose(limit(with_replacement(4)), 4 / 3)
    np.testing.assert_allclose(limit(without_replacement(4, 20)), 4 * 19 / (20 * 3))
    assert limit(with_replacement(1)) == limit(without_replacement(1, 20)) == np.inf
    # One worker of one is full participation, and the step is limited.
    assert limit(without_replacement(1, 1)) == 1


def test_strategy_1_admits_a_single_draw():
    found = theorem_2_with_replacement(SOME, RATES, cohort=1, **WORK)
    assert found.conditions.hold
    assert found.conditions.step.margin == np.inf
    # Then c > 0 asks g L below about 1/3.
    near, beyond = (bound(SOME, Rates(1e-4, gl / 1e-3), with_replacement(1), **WORK) for gl in (0.332, 0.334))
    assert near.conditions.hold
    assert not beyond.conditions.hold
    assert not beyond.conditions.progress.holds


def test_too_long_a_step_is_not_admitted():
    found = theorem_1(Constants(1.0, 1.0, 0.0, 1.0), Rates(0.001, 1500.0), local_steps=1, rounds=9, workers=4)
    assert found.c > 0
    assert not found.conditions.hold
    np.testing.assert_allclose(found.conditions.step.margin, -0.5)


@given(
    server_lr=st.floats(0.01, 1e4),
    worker_lr=st.floats(1e-6, 0.2),
    steps=st.integers(1, 50),
    cohort=st.integers(1, 30),
    kind=st.sampled_from(["full", "with", "without"]),
)
def test_the_largest_rates_are_where_a_condition_ends(server_lr, worker_lr, steps, cohort, kind):
    strategy = {
        "full": full(30),
        "with": with_replacement(cohort),
        "without": without_replacement(cohort, 30),
    }[kind]

    def hold(worker, server):
        return bound(SOME, Rates(worker, server), strategy, local_steps=steps, rounds=10).conditions.hold

    worker = largest_worker_lr(SOME.smoothness, server_lr, strategy, local_steps=steps)
    assert hold(worker * (1 - 1e-9), server_lr)
    assert not hold(worker * (1 + 1e-9), server_lr)
    server = largest_server_lr(SOME.smoothness, worker_lr, strategy, local_steps=steps)
    if server == 0:
        assert not hold(worker_lr, 1e-9)
    else:
        assert hold(worker_lr, server * (1 - 1e-9))
        assert not hold(worker_lr, server * (1 + 1e-9))


def second_moment(smoothness, sigma, workers, rates, steps, rounds, start):
    """E|grad f|^2 in each round for f = L/2 |x|^2, all workers alike: by its exact recursion."""
    shrink = 1 - rates.worker_lr * smoothness
    keep = 1 + rates.server_lr * (shrink**steps - 1)
    noise = (rates.server_lr * rates.worker_lr * sigma) ** 2 / workers
    noise *= sum(shrink ** (2 * k) for k in range(steps))
    moments = [start]
    for _ in range(rounds - 1):
        moments.append(keep**2 * moments[-1] + noise)
    return smoothness**2 * np.array(moments)


def simulated(smoothness, sigma, workers, rates, steps, rounds, start, seeds=3000, size=4):
    """The same by running it, round by round and step by step."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(seeds, 1, size)) * (start / size) ** 0.5
    seen = []
    for _ in range(rounds):
        seen.append(smoothness**2 * (x**2).sum(-1).mean())
        local = np.repeat(x, workers, axis=1)
        for _ in range(steps):
            noise = rng.normal(size=local.shape) * sigma / size**0.5
            local = local - rates.worker_lr * (smoothness * local + noise)
        x = x + rates.server_lr * (local - x).mean(1, keepdims=True)
    return np.array(seen)


# H = L I, no heterogeneity, all workers, g L = 1 and u -> 0.
TIGHT = {"smoothness": 2.0, "sigma": 3.0, "workers": 5, "steps": 2}


def tight_rates(reach):
    u = 1e-4
    return Rates(u / (TIGHT["smoothness"] * TIGHT["steps"]), reach / u)


def against_truth(reach, rounds):
    """The bound over the truth, started where the noise keeps it."""
    noise = TIGHT["sigma"] ** 2 / TIGHT["workers"] / TIGHT["steps"] / TIGHT["smoothness"] ** 2
    rates, start = tight_rates(reach), reach**2 * noise / (1 - (1 - reach) ** 2)
    truth = second_moment(**TIGHT, rates=rates, rounds=rounds, start=start).min()
    constants = Constants(TIGHT["smoothness"], TIGHT["sigma"], 0.0, TIGHT["smoothness"] / 2 * start)
    found = theorem_1(constants, rates, local_steps=TIGHT["steps"], rounds=rounds, workers=TIGHT["workers"])
    return found, found.bound / truth


def test_the_bound_is_met_to_a_percent_where_it_is_tight():
    found, ratio = against_truth(1.0, rounds=1000)
    assert found.conditions.hold
    assert 1 <= ratio < 1.01


def test_the_tight_case_is_what_really_happens():
    rates = tight_rates(1.0)
    exact = second_moment(**TIGHT, rates=rates, rounds=12, start=0.05)
    drawn = simulated(**TIGHT, rates=rates, rounds=12, start=0.05)
    # 12000 squared normals a round.
    np.testing.assert_allclose(drawn, exact, rtol=5 * (2 / 12000) ** 0.5)


def test_outside_the_conditions_the_bound_fails():
    found, ratio = against_truth(1.5, rounds=1000)
    assert not found.conditions.hold
    np.testing.assert_allclose(ratio, 0.5, rtol=0.01)


@pytest.mark.parametrize("draw", [with_replacement, lambda p: without_replacement(p, 20)])
def test_a_record_of_equal_cohorts_is_theorem_2(draw):
    same = recorded(SOME, RATES, draw(np.full(400, 6)), local_steps=5)
    fixed = bound(SOME, RATES, draw(6), **WORK)
    np.testing.assert_allclose(numbers(same), numbers(fixed), rtol=1e-12)
    assert same.conditions == fixed.conditions


def test_a_record_of_varying_cohorts():
    sizes = np.random.default_rng(1).integers(3, 15, 400)
    found = recorded(SOME, RATES, without_replacement(sizes, 20), local_steps=5)
    each = [bound(SOME, RATES, without_replacement(p, 20), **WORK) for p in sizes]
    g, c = 0.006 * 3 * 5, np.array([one.c for one in each])
    by_hand = (SOME.gap / g + sum(one.phi * one.c for one in each)) / c.sum()
    np.testing.assert_allclose(found.bound, by_hand, rtol=1e-12)
    # Better than the smallest cohort promises, with the limits of both ends.
    least, most = without_replacement(3, 20), without_replacement(14, 20)
    promised = at_least(SOME, RATES, least, most, **WORK)
    assert found.bound < promised.bound
    assert found.conditions == promised.conditions
    assert at_least(SOME, RATES, least, **WORK).conditions.step.limit == 1
    assert promised.conditions.step.limit < bound(SOME, RATES, least, **WORK).conditions.step.limit


INSIDE = {
    "smoothness": st.floats(0.01, 100),
    "sigma_local": st.floats(0, 100),
    "sigma_global": st.floats(0, 100),
    "gap": st.floats(0.001, 100),
    "steps": st.integers(1, 100),
    "rounds": st.integers(1, 10**6),
    "workers": st.integers(2, 10**4),
    "share": st.floats(0, 1),
    "u": st.floats(1e-4, 0.12),
    "step": st.floats(1e-4, 0.2),
    "replacement": st.booleans(),
}


@given(**INSIDE)
def test_monotone_inside_the_conditions(
    smoothness, sigma_local, sigma_global, gap, steps, rounds, workers, share, u, step, replacement
):
    constants = Constants(smoothness, sigma_local, sigma_global, gap)
    rates = Rates(u / (steps * smoothness), step / u)
    cohort = 1 + int(share * (workers - 2))

    def value(constants=constants, rounds=rounds, cohort=cohort):
        strategy = with_replacement(cohort) if replacement else without_replacement(cohort, workers)
        found = bound(constants, rates, strategy, local_steps=steps, rounds=rounds)
        if cohort > 5:
            assert found.conditions.hold
        return found.bound if found.c > 0 else np.inf

    slack = 1 + 1e-12
    assert value(cohort=cohort + 1) <= value() * slack
    assert value(rounds=2 * rounds) <= value() * slack
    if np.isfinite(value()):
        assert value(rounds=2 * rounds) < value()
        assert value(constants._replace(sigma_local=sigma_local + 1)) > value()
        assert value(constants._replace(sigma_global=sigma_global + 1)) > value()
        assert value(iid(constants)) <= value()


@given(a=st.floats(0.01, 100), b=st.floats(0.01, 100), **INSIDE)
def test_units_cancel(
    a, b, smoothness, sigma_local, sigma_global, gap, steps, rounds, workers, share, u, step, replacement
):
    """x -> a x and f -> b f: nothing but the unit of |grad f|^2 changes, which is (b/a)^2."""
    constants = Constants(smoothness, sigma_local, sigma_global, gap)
    rates = Rates(u / (steps * smoothness), step / u)
    other = Constants(smoothness * b / a**2, sigma_local * b / a, sigma_global * b / a, gap * b)
    cohort = 1 + int(share * (workers - 1))
    strategy = with_replacement(cohort) if replacement else without_replacement(cohort, workers)
    one = bound(constants, rates, strategy, local_steps=steps, rounds=rounds)
    two = bound(
        other, Rates(rates.worker_lr * a**2 / b, rates.server_lr), strategy, local_steps=steps, rounds=rounds
    )
    np.testing.assert_allclose(numbers(two)[:-1], numbers(one)[:-1] * (b / a) ** 2, rtol=1e-7, atol=1e-300)
    for mine, theirs in zip(one.conditions, two.conditions, strict=True):
        np.testing.assert_allclose(theirs.value, mine.value, rtol=1e-10)


def slope(x, y):
    return np.polyfit(np.log(x), np.log(y), 1)[0]


def at_corollary(strategy, constants=SOME, **work):
    rates = corollary_rates(constants.smoothness, cohort=strategy.cohort, **work)
    found = bound(constants, rates, strategy, **work)
    assert np.all(found.conditions.hold)
    return found.bound


def test_corollary_1_gives_its_order():
    T, many = np.geomspace(1e9, 1e13, 20), np.geomspace(4, 400, 20)
    assert abs(slope(T, at_corollary(full(50), local_steps=8, rounds=T)) + 0.5) < 0.02
    assert abs(slope(many, at_corollary(full(many), local_steps=8, rounds=1e11)) + 0.5) < 0.02
    assert abs(slope(many, at_corollary(full(50), local_steps=many, rounds=1e11)) + 0.5) < 0.02
    # Where workers differ much and few rounds are made, 15 sigma_G^2 / T decides, and nobody is faster.
    apart = SOME._replace(sigma_global=1e3)
    T = np.geomspace(1e5, 1e7, 20)
    assert abs(slope(T, at_corollary(full(50), apart, local_steps=8, rounds=T)) + 1) < 0.02


def test_corollary_2_gives_its_order():
    T, many = np.geomspace(1e9, 1e13, 20), np.geomspace(4, 400, 20)

    def without(n):
        return without_replacement(n, 1e5)

    for draw in (with_replacement, without):
        assert abs(slope(T, at_corollary(draw(50), local_steps=8, rounds=T)) + 0.5) < 0.02
        assert abs(slope(many, at_corollary(draw(many), local_steps=8, rounds=1e11)) + 0.5) < 0.02
    # Local steps hurt where workers differ, and help where they do not.
    apart = SOME._replace(sigma_global=100.0)
    hurt = at_corollary(with_replacement(50), apart, local_steps=many, rounds=1e11)
    helped = at_corollary(with_replacement(50), iid(SOME), local_steps=many, rounds=1e11)
    assert abs(slope(many, hurt) - 0.5) < 0.02
    assert abs(slope(many, helped) + 0.5) < 0.02


def test_the_bound_over_its_order_is_a_constant():
    T = np.geomspace(1e4, 1e12, 9)
    work = {"local_steps": 4, "rounds": T}
    for found, promised in (
        (at_corollary(full(50), **work), order(workers=50, **work)),
        (at_corollary(with_replacement(50), **work), partial_order(cohort=50, **work)),
        (at_corollary(full(50), iid(SOME), **work), iid_order(cohort=50, **work)),
        (at_corollary(with_replacement(50), iid(SOME), **work), iid_order(cohort=50, **work)),
    ):
        ratio = found / promised.total
        assert np.all((ratio > 0.5) & (ratio < 40))


@pytest.mark.parametrize(
    ("strategy", "steps"),
    [
        (full(50), 7),
        (full(2), 3),
        (with_replacement(1), 40),
        (with_replacement(10), 33),
        (without_replacement(1, 20), 9),
        (without_replacement(12, 20), 100),
        (without_replacement(20, 20), 100),
    ],
)
def test_the_corollarys_rates_need_just_these_rounds(strategy, steps):
    least = int(least_rounds(strategy, local_steps=steps).whole)

    def hold(rounds):
        rates = corollary_rates(3.0, local_steps=steps, rounds=rounds, cohort=strategy.cohort)
        constants = SOME._replace(smoothness=3.0)
        return bound(constants, rates, strategy, local_steps=steps, rounds=rounds).conditions.hold

    assert hold(least)
    assert not hold(least - 1)
    # And the same conditions, solved for K: one local step less or more.
    if least > 64:
        assert largest_local_steps(strategy, rounds=least) >= steps * (1 - 1e-12)
        assert largest_local_steps(strategy, rounds=least - 1) < steps


def test_rounds_by_hand():
    n, m, K = 12, 20, 100
    np.testing.assert_allclose(least_rounds(full(m), local_steps=K)[:2], (64, m * K))
    np.testing.assert_allclose(least_rounds(with_replacement(n), local_steps=K).step, K * (n - 1) ** 2 / n)
    by_hand = K * n * (m * (n - 1) / (n * (m - 1))) ** 2
    np.testing.assert_allclose(least_rounds(without_replacement(n, m), local_steps=K).step, by_hand)
    # c > 0 asks for roughly 9K/n.
    for cohort in (1, 2, 5):
        np.testing.assert_allclose(
            least_rounds(with_replacement(cohort), local_steps=10**5).progress, 9e5 / cohort, rtol=1e-3
        )


def test_the_largest_number_of_local_steps():
    """The paper's example: T = 10^6 and m = 100."""
    assert largest_local_steps(full(100), rounds=10**6) == 10**4
    np.testing.assert_allclose(earlier_largest_local_steps(rounds=10**6, workers=100), 1)
    assert largest_local_steps(full(1), rounds=63) == 0
    few = largest_local_steps(with_replacement(np.array([1, 2])), rounds=10**6)
    np.testing.assert_allclose(few, np.array([1, 2]) * 1e6 / 9, rtol=1e-3)
    np.testing.assert_allclose(largest_local_steps(with_replacement(101), rounds=10**6), 101e6 / 100**2)


def test_arrays_in_arrays_out():
    cohorts, steps = np.array([1, 3, 9])[:, None], np.array([1, 2, 4, 8])[None]
    lr = 0.04 / steps
    found = bound(SOME, Rates(lr, 2.0), without_replacement(cohorts, 9), local_steps=steps, rounds=50)
    assert found.bound.shape == (3, 4)
    for (i, n), (j, K) in itertools.product(enumerate(cohorts[:, 0]), enumerate(steps[0])):
        rates = Rates(lr[0, j], 2.0)
        alone = theorem_2_without_replacement(SOME, rates, local_steps=K, rounds=50, cohort=n, workers=9)
        assert found.bound[i, j] == alone.bound
        assert found.conditions.hold[i, j] == alone.conditions.hold


def test_records_are_vectorised_too():
    sizes = np.array([[2, 3, 4], [5, 5, 9]])
    rates = Rates(np.array([0.006, 0.003]), 3.0)
    found = recorded(SOME, rates, with_replacement(sizes), local_steps=5)
    for i in range(2):
        alone = recorded(SOME, Rates(rates[0][i], 3.0), with_replacement(sizes[i]), local_steps=5)
        np.testing.assert_allclose(numbers(found)[:, i], numbers(alone))


@pytest.mark.parametrize(
    "made", [lambda: full(20), lambda: with_replacement(jnp.int32(3)), lambda: without_replacement(3, 20)]
)
def test_compiled_and_in_float32_it_is_the_same(made):
    compiled = jax.jit(lambda rates: bound(SOME, rates, made(), **WORK))(
        Rates(jnp.float32(0.006), jnp.float32(3))
    )
    assert isinstance(compiled.bound, jax.Array)
    strategy = made()
    exact = bound(SOME, RATES, type(strategy)(*(np.float64(each) for each in strategy)), **WORK)
    np.testing.assert_allclose(numbers(compiled), numbers(exact), rtol=2e-6)
    assert bool(compiled.conditions.hold)


@pytest.mark.parametrize("strategy", [full(20), with_replacement(3), without_replacement(3, 20)])
def test_gradients_are_finite_differences(strategy):
    def value(rates):
        return bound(SOME, rates, strategy, **WORK).bound

    slopes = jax.grad(value)(Rates(*map(jnp.float32, RATES)))
    for name, rate in RATES._asdict().items():
        up, down = (value(RATES._replace(**{name: rate * (1 + by)})) for by in (1e-5, -1e-5))
        np.testing.assert_allclose(getattr(slopes, name), (up - down) / (2e-5 * rate), rtol=1e-4)


def test_numbers_of_int32_do_not_overflow():
    many = jnp.int32(2_000_000)
    found = bound(SOME, Rates(1e-9, 1.0), without_replacement(many, many + 5), local_steps=many, rounds=many)
    exact = bound(SOME, Rates(1e-9, 1.0), without_replacement(2e6, 2e6 + 5), local_steps=2e6, rounds=2e6)
    np.testing.assert_allclose(found.bound, exact.bound, rtol=1e-5)


def test_parts_are_named_for_what_they_are():
    """Each part alone, by taking away what causes the others."""
    quiet = SOME._replace(sigma_local=0.0)
    assert [name for name, part in bound(quiet, RATES, full(9), **WORK).parts._asdict().items() if part] == [
        "drift_global"
    ]
    same = bound(iid(SOME), RATES, with_replacement(9), **WORK).parts
    assert [name for name, part in same._asdict().items() if part] == [
        "local_noise",
        "drift_local",
        "sampling_drift_local",
    ]
