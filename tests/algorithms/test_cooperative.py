"""Cooperative SGD and elastic averaging: mixing matrices, against NumPy and against what they must preserve."""

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from test_fedavg import assert_close, layers_of, replay
from test_methods import flat, layered, run, start, unequal

import enlist
from enlist import sampling
from enlist.algorithms.cooperative import ServerState, _average, _elastic, _ring
from enlist.algorithms.core import Aggregate, Context, Stack

OPTIONS = {"execution": "chunk:2", "devices": 1}


def anchored(n):
    """Workers in a chain, each also tied a little to the anchor."""
    w = 0.2 * (np.eye(n + 1, k=1) + np.eye(n + 1, k=-1))
    w[:n, n] = w[n, :n] = 0.1
    return w + np.diag(1 - w.sum(axis=1))


def average_by_hand(n, places):
    w = np.full((n + 1, n + 1), 1 / n)
    w[n], w[:, n] = 0, 0
    w[n, n] = 1
    return w


def ring_by_hand(n, places):
    w = np.eye(n + 1)
    w[:n, :n] = 0
    for i in range(n):
        for j in (i - 1, i, i + 1):
            w[i, j % n] += 1 / 3
    return w


def anchored_by_hand(n, places):
    """Of `places` the last stay empty; their weight goes back."""
    keep = [*range(n), places]
    w = anchored(places)[np.ix_(keep, keep)]
    return w + np.diag(1 - w.sum(axis=1))


def cooperative_by_hand(result, fed, eta_l, mixing, rounds=4):
    """All models and the anchor, with W for those who take part."""
    x = fed.data.x_train.astype(np.float64)
    models = [start(fed) for _ in range(fed.workers)]
    anchor, places = start(fed), result.session.plan.sampling.places(fed.workers)
    for t in range(rounds):
        drawn = result.drawn(t)
        moved = []
        for one in drawn:
            mine = models[one.worker]
            delta = flat(oracle.local_run(layered(mine), x, fed.data.y_train, one.batches, eta_l))
            moved.append([a + d for a, d in zip(mine, delta, strict=True)])
        moved.append(anchor)
        w = mixing(len(drawn), places)
        mixed = [
            [sum(w[i, j] * other[k] for j, other in enumerate(moved)) for k in range(len(anchor))]
            for i in range(len(moved))
        ]
        for one, new in zip(drawn, mixed, strict=False):
            models[one.worker] = new
        anchor = mixed[-1]
    return models, anchor


def assert_state(result, models, anchor):
    state = result.session.state.server
    for i, model in enumerate(models):
        mine = layers_of(jax.tree.map(lambda leaf, i=i: leaf[i], state.models))
        for got, expected in zip(flat(mine), model, strict=True):
            np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)
    for got, expected in zip(flat(layers_of(state.anchor)), anchor, strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("mixing", "by_hand", "cohort"),
    [
        ("average", average_by_hand, sampling.without_replacement(3)),
        ("ring", ring_by_hand, sampling.at_least(2, 5)),
        (anchored, anchored_by_hand, sampling.at_least(2, 5)),
    ],
    ids=["average", "ring", "anchored"],
)
def test_equals_its_matrix(mixing, by_hand, cohort):
    fed = unequal()
    result = run(enlist.cooperative(worker_lr=0.05, mixing=mixing), fed, cohort=cohort, **OPTIONS)
    models, anchor = cooperative_by_hand(result, fed, 0.05, by_hand)
    assert_state(result, models, anchor)
    assert_close(result, layered([sum(parts) / fed.workers for parts in zip(*models, strict=True)]))


def test_elastic_equals_easgd():
    """x_i <- x_i - a (x_i - z),  z <- z + a sum (x_i - z), after the local steps."""
    fed, alpha, cohort = unequal(), 0.15, sampling.at_least(2, 5)
    algorithm = enlist.elastic(worker_lr=0.05, elasticity=alpha)
    result = run(algorithm, fed, cohort=cohort, **OPTIONS)
    x = fed.data.x_train.astype(np.float64)
    models, z = [start(fed) for _ in range(fed.workers)], start(fed)
    for t in range(4):
        pulls = []
        for one in result.drawn(t):
            mine = models[one.worker]
            delta = flat(oracle.local_run(layered(mine), x, fed.data.y_train, one.batches, 0.05))
            moved = [a + d for a, d in zip(mine, delta, strict=True)]
            pulls.append([a - b for a, b in zip(moved, z, strict=True)])
            models[one.worker] = [a - alpha * p for a, p in zip(moved, pulls[-1], strict=True)]
        z = [b + alpha * sum(parts) for b, *parts in zip(z, *pulls, strict=True)]
    assert_state(result, models, z)
    assert_close(result, layered(z))
    other = run(enlist.elastic(worker_lr=0.01, elasticity=0.3), fed, cohort=cohort, **OPTIONS)
    assert other.session.program is result.session.program


def test_averaging_everybody_is_fedavg():
    fed = unequal()
    result = run(enlist.cooperative(worker_lr=0.05), fed, cohort=sampling.full(), **OPTIONS)
    assert_close(result, replay(result, fed, 0.05, 1.0))
    model = 4 * result.summary["parameters"]
    assert (result.metrics[-1]["uplink_bytes"], result.metrics[-1]["downlink_bytes"]) == (model, model)


@pytest.mark.parametrize("mix", [_average, _ring, _elastic])
@pytest.mark.parametrize(
    "taken", [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 1, 0, 0], [0, 1, 0, 0, 0], [0] * 5]
)
def test_every_matrix_is_doubly_stochastic_and_leaves_empty_places_alone(mix, taken):
    taken = np.array(taken, bool)
    w = np.asarray(mix({"elasticity": jnp.float32(0.1)}, jnp.asarray(taken)))
    np.testing.assert_allclose(w, w.T, atol=1e-6)
    np.testing.assert_allclose(w.sum(axis=1), 1, atol=1e-6)
    empty = [*np.flatnonzero(~taken), *([5] if mix is not _elastic else [])]
    np.testing.assert_array_equal(w[empty], np.eye(6, dtype=np.float32)[empty])


def mixed(algorithm, models, stack):
    """The server's step alone."""
    ctx = Context(jnp.int32(0), None, None, {name: jnp.float32(r) for name, r in algorithm.rates.items()})
    state = ServerState(models, jax.tree.map(lambda x: 0 * x[0] - 1, models))
    got = Aggregate((), jnp.zeros(()), jnp.zeros(()), len(models["w"]), stack)
    return algorithm.server(ctx, jax.random.key(0), state, got)


def test_the_identity_never_mixes():
    models = {"w": jnp.arange(18.0).reshape(6, 3)}
    stack = Stack({"w": jnp.full((2, 3), 0.5)}, jnp.ones(2), jnp.array([4, 1]), jnp.zeros(2))
    after = mixed(enlist.cooperative(mixing=np.eye), models, stack).models["w"]
    np.testing.assert_array_equal(
        after - models["w"], 0.5 * np.isin(np.arange(6), [1, 4])[:, None].repeat(3, 1)
    )


def test_mixing_keeps_the_mean_and_an_empty_place_leaves_no_trace():
    models = {"w": jnp.asarray(np.random.default_rng(0).normal(size=(6, 3)), jnp.float32)}
    deltas = jnp.zeros((4, 3)).at[3].set(jnp.nan)
    stack = Stack({"w": deltas}, jnp.array([1.0, 1, 1, 0]), jnp.array([4, 0, 2, 5]), jnp.zeros(4))
    for mixing in ("average", "ring", lambda n: np.full((n, n), 1 / n)):
        after = mixed(enlist.cooperative(mixing=mixing), models, stack).models["w"]
        np.testing.assert_allclose(after.mean(axis=0), models["w"].mean(axis=0), atol=1e-6)
        np.testing.assert_array_equal(after[jnp.array([1, 3, 5])], models["w"][jnp.array([1, 3, 5])])
        assert (after[4] != models["w"][4]).all()
    pulled = mixed(enlist.elastic(elasticity=0.1), models, stack)
    total = jnp.sum(models["w"], axis=0) - 1
    np.testing.assert_allclose(jnp.sum(pulled.models["w"], axis=0) + pulled.anchor["w"], total, atol=1e-5)


@pytest.mark.parametrize(
    ("matrix", "says"),
    [
        (lambda n: np.eye(n + 2), "for 4 workers W must be 4 x 4, or one more"),
        (lambda n: np.full((n, n), 1 / (n + 1)), "each of its rows sum to 1"),
        (lambda n: np.roll(np.eye(n), 1, axis=0), "must be symmetric"),
    ],
)
def test_a_matrix_that_does_not_average_is_refused(matrix, says):
    models = {"w": jnp.zeros((6, 3))}
    stack = Stack({"w": jnp.zeros((4, 3))}, jnp.ones(4), jnp.arange(4), jnp.zeros(4))
    with pytest.raises(enlist.BadInput, match=says):
        mixed(enlist.cooperative(mixing=matrix), models, stack)


def test_what_is_not_defined_is_refused():
    with pytest.raises(enlist.BadInput, match="cooperative keeps a state for each worker"):
        run(enlist.cooperative(), cohort=sampling.with_replacement(3))
    with pytest.raises(enlist.BadInput, match="unknown mixing 'rings': did you mean 'ring'"):
        enlist.cooperative(mixing="rings")
    for alpha in (0.0, 1.5, float("nan")):
        with pytest.raises(enlist.BadInput, match="elasticity = "):
            enlist.elastic(elasticity=alpha)
