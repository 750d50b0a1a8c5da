"""The compiled program: the same result however the cohort is cut, no trace too many, nothing silently wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import make_dataset

import enlist
from enlist import Epochs, Steps, models, partition, sampling
from enlist.algorithms.core import Aggregate, Algorithm, LocalStats, Reply, empty_total, fold, mean
from enlist.engine import program
from enlist.problem.federation import Federation, Holding

MODEL = models.two_nn(hidden=8)


def unequal(sizes=(3, 41, 17, 30, 8, 55, 12)):
    data = make_dataset()
    rows = np.random.default_rng(0).permutation(len(data.x_train))[: sum(sizes)]
    return Federation(data, Holding.of(np.split(rows, np.cumsum(sizes)[:-1])))


def run(fed=None, algorithm=None, model=MODEL, **options):
    arguments = {"cohort": 5, "rounds": 3, "local": Epochs(2, 8), "eval_every": 3, "seed": 1} | options
    return enlist.simulate(algorithm or enlist.fedavg(), model, fed or unequal(), **arguments)


def leaves(result):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(result.params)]


@pytest.mark.parametrize("fed", [unequal(), partition.iid(make_dataset(), 7, 0)], ids=["unequal", "equal"])
def test_the_result_does_not_depend_on_how_the_cohort_is_cut(fed):
    reference = leaves(run(fed, execution="one-by-one", devices=1))
    for execution, devices in [("batch", 1), ("chunk:2", 1), ("one-by-one", 3), ("chunk:2", 2), ("batch", 4)]:
        for a, b in zip(reference, leaves(run(fed, execution=execution, devices=devices)), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_devices_do_not_change_a_bit():
    """Workers are added up in cohort order whoever computed them."""
    one, three = (run(execution="one-by-one", devices=d) for d in (1, 3))
    for a, b in zip(leaves(one), leaves(three), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(one.metrics, three.metrics, strict=True):
        # The norm of the update is a long sum that each program may round its own way.
        assert a.pop("delta_norm") == pytest.approx(b.pop("delta_norm"), rel=1e-6)
        assert a == b


def test_a_seed_repeats_to_the_bit_and_another_does_not():
    first, again, other = (leaves(run(seed=seed)) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert any((a != b).any() for a, b in zip(first, other, strict=True))


def test_blocks_of_any_length_are_the_same_run():
    for a, b in zip(leaves(run(rounds=6, eval_every=1)), leaves(run(rounds=6, eval_every=4)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_rates_seeds_rounds_and_equal_shapes_are_not_traced_again():
    traces = []

    def apply(params, x):
        traces.append(1)
        return MODEL.apply(params, x)

    counted = MODEL._replace(apply=apply)
    run(model=counted)
    first = len(traces)
    for k in range(1, 4):
        fed = unequal() if k == 1 else None
        run(fed, enlist.fedavg(worker_lr=0.1 / k, server_lr=k), counted, seed=k, rounds=2 * k, eval_every=2)
    program_traces = len(traces) - first
    # Setting a session up looks at shapes (once each for the check and the cost); the program itself is not traced.
    assert program_traces <= 3 * 2
    assert first > 4


def test_one_worker_and_everybody_work():
    for cohort in (1, 7, sampling.full()):
        assert np.isfinite(run(cohort=cohort).metrics[-1]["train_loss"])


def test_a_worker_of_more_than_two_thousand_rows_among_small_ones():
    data = make_dataset(rows=2600)
    rows = np.arange(2600)
    fed = Federation(data, Holding.of([rows[:2200], rows[2200:2203], rows[2203:2600]]))
    a = leaves(run(fed, cohort=3, execution="one-by-one", devices=1, local=Epochs(1, 16)))
    b = leaves(run(fed, cohort=3, execution="batch", devices=1, local=Epochs(1, 16)))
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5)


def test_an_empty_place_equals_absence():
    """Weight 0, even with garbage in it, leaves no trace in the sum."""
    summands = {"w": jnp.array([[1.0, 2.0], [jnp.nan, jnp.inf], [3.0, 4.0]])}
    losses = jnp.array([1.0, jnp.nan, 2.0])
    total = fold(empty_total({"w": jnp.zeros(2)}), summands, jnp.array([1.0, 0.0, 3.0]), losses)
    got = mean(total, 9)
    np.testing.assert_allclose(got.mean["w"], [2.5, 3.5])
    assert (float(got.count), float(got.weight), float(total.loss)) == (2.0, 4.0, 3.0)


def test_folding_in_pieces_is_folding_at_once():
    rng = np.random.default_rng(0)
    summands, weights = (
        jnp.asarray(rng.normal(size=(9, 50)), jnp.float32),
        jnp.asarray([1.0, 0, 1, 1, 2, 1, 0, 1, 1]),
    )
    zero = empty_total(jnp.zeros(50))
    whole = fold(zero, summands, weights, jnp.zeros(9))
    pieces = zero
    for piece in (slice(0, 1), slice(1, 5), slice(5, 9)):
        pieces = fold(pieces, summands[piece], weights[piece], jnp.zeros(9)[piece])
    np.testing.assert_array_equal(whole.sum, pieces.sum)


def counting() -> Algorithm:
    """A toy with worker state: each worker counts its own rounds and sends that number."""
    inner = enlist.fedavg()

    def local(ctx, key, payload, state, data):
        return Reply(
            {"times": state["times"] + 1.0},
            jnp.ones(()),
            {"times": state["times"] + 1.0},
            LocalStats(jnp.zeros(()), jnp.int32(1)),
        )

    def server(ctx, key, state, got: Aggregate):
        return state._replace(params=jax.tree.map(lambda p: p + got.mean["times"], state.params))

    return inner._replace(
        name="counting", init_worker=lambda params: {"times": jnp.zeros(())}, local=local, server=server
    )


@pytest.mark.parametrize("execution", ["one-by-one", "chunk:2", "batch"])
def test_worker_states_stay_with_their_workers(execution):
    result = run(algorithm=counting(), cohort=3, rounds=8, eval_every=8, execution=execution, devices=2)
    expected, times = 0.0, np.zeros(7)
    for t in range(8):
        ids = [one.worker for one in result.drawn(t)]
        times[ids] += 1
        expected += times[ids].mean()
    np.testing.assert_allclose(result.session.state.workers["times"], times)
    start = leaves(run(rounds=0))
    np.testing.assert_allclose(leaves(result)[0], start[0] + expected, rtol=1e-5)


def test_worker_state_and_repeated_draws_are_refused_together():
    with pytest.raises(enlist.BadInput, match="with-replacement"):
        run(algorithm=counting(), cohort=sampling.with_replacement(3))


def test_the_cohort_is_ordered_by_work_then_id():
    result = run(cohort=7)
    drawn = [one.worker for one in result.drawn(0)]
    steps = [2 * -(-int(result.session.federation.sizes[w]) // 8) for w in drawn]
    assert steps == sorted(steps, reverse=True)
    assert sorted(drawn) == list(range(7))


def test_unequal_workers_cost_what_they_weigh():
    """Groups by steps: the padded steps of a skewed cohort stay near the true ones."""
    fed = partition.quantity(make_dataset(rows=3000), 1.5, 40, 0)
    result = enlist.simulate(
        enlist.fedavg(), MODEL, fed, cohort=40, rounds=0, local=Epochs(1, 8), execution="chunk:5", devices=1
    )
    steps = np.array([-(-int(fed.sizes[one.worker]) // 8) for one in result.drawn(0)])
    padded = 5 * steps.reshape(-1, 5).max(axis=1).sum()
    assert padded < 40 * steps.max() / 3, "far from padding everybody to the largest"
    assert padded < 3.2 * steps.sum()


def test_the_whole_program_is_cached_by_plan():
    plan = run().session.plan
    assert program.program(plan) is program.program(run(seed=5).session.plan)


def test_steps_of_a_single_full_gradient_are_bounded_in_memory():
    big = make_dataset(rows=5000)
    fed = Federation(big, Holding.of([np.arange(4500), np.arange(4500, 5000)]))
    a = run(fed, cohort=2, local=Steps(2, 0), rounds=1, execution="one-by-one", devices=1)
    b = run(fed, cohort=2, local=Steps(2, 0), rounds=1, execution="batch", devices=2)
    for x, y in zip(leaves(a), leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6)


def test_memory_grows_with_the_group_and_not_with_the_cohort():
    def scratch(cohort, execution):
        fed = partition.iid(make_dataset(), 60, 0)
        model = models.two_nn(hidden=200)
        session = run(fed, model=model, cohort=cohort, rounds=0, execution=execution, devices=1).session
        lowered = session.program.block.lower(
            session.read.source.held,
            session.read.examples,
            session.state,
            session.rates,
            session.key,
            jnp.int32(1),
            jnp.asarray(True),
        )
        return lowered.compile().memory_analysis().temp_size_in_bytes

    few, many = scratch(6, "chunk:3"), scratch(60, "chunk:3")
    assert many < 1.1 * few
    assert scratch(60, "batch") > 4 * many
