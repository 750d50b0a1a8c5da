"""Every other method: against its paper's pseudo-code in NumPy, and equal to FedAvg where theory says it must be."""

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from conftest import make_dataset
from test_fedavg import assert_close, layers_of

import enlist
from enlist import Epochs, Steps, models, sampling
from enlist.algorithms.core import Aggregate, Context, Probed, Stack, WorkerData, rates_at
from enlist.algorithms.encoding import sign
from enlist.launch.methods import ALGORITHMS
from enlist.problem.federation import Federation, Holding
from enlist.problem.models import Model, negative_squared_error, squared_error
from enlist.problem.objective import objective

METHODS = {
    "fedavg": enlist.fedavg,
    "fedprox": enlist.fedprox,
    "scaffold I": lambda **rates: enlist.scaffold(variates="I", **rates),
    "scaffold II": enlist.scaffold,
    "fedavgm": enlist.fedavgm,
    "fedadagrad": enlist.fedadagrad,
    "fedadam": enlist.fedadam,
    "fedyogi": enlist.fedyogi,
    "slowmo": enlist.slowmo,
    "local momentum": enlist.local_momentum,
    "fednova": enlist.fednova,
    "feddyn": lambda server_lr, **rates: enlist.feddyn(**rates),
    "mime": enlist.mime,
    "mimelite": enlist.mimelite,
    "cooperative": lambda server_lr, **rates: enlist.cooperative(**rates),
    "elastic": lambda server_lr, **rates: enlist.elastic(elasticity=0.1, **rates),
    "adaptive": lambda server_lr, **rates: enlist.adaptive(**rates),
    "loadaboost": enlist.loadaboost,
    # Of the codecs the one that compiles fastest; all of them have tests of their own.
    "scaffold, signs both ways": lambda **rates: enlist.compressed(
        enlist.scaffold(**rates), up=sign(), down=sign()
    ),
}
SIZES = (3, 41, 17, 30, 8, 55)


def unequal():
    data = make_dataset()
    rows = np.random.default_rng(0).permutation(len(data.x_train))[: sum(SIZES)]
    return Federation(data, Holding.of(np.split(rows, np.cumsum(SIZES)[:-1])))


def run(algorithm, fed=None, **options):
    arguments = {"cohort": 3, "rounds": 4, "local": Epochs(2, 8), "seed": 7, "eval_every": 4} | options
    return enlist.simulate(algorithm, models.logistic(), fed or unequal(), **arguments)


def flat(layers):
    return [array for layer in layers for array in layer]


def layered(arrays):
    return list(zip(arrays[::2], arrays[1::2], strict=True))


def gradient(arrays, fed, rows):
    x, y = fed.data.x_train.astype(np.float64), fed.data.y_train
    return flat(oracle.gradient(layered(arrays), x[rows], y[rows]))


def start(fed):
    return [np.asarray(a, np.float64) for a in flat(layers_of(run(enlist.fedavg(), fed, rounds=0).params))]


def mean(many):
    return [sum(parts) / len(many) for parts in zip(*many, strict=True)]


def fedprox_by_hand(result, fed, eta_l, eta, mu):
    x = start(fed)
    for t in range(4):
        deltas = []
        for one in result.drawn(t):
            y = [a.copy() for a in x]
            for rows in one.batches:
                y = [
                    a - eta_l * (g + mu * (a - a0))
                    for a, g, a0 in zip(y, gradient(y, fed, rows), x, strict=True)
                ]
            deltas.append([a - a0 for a, a0 in zip(y, x, strict=True)])
        x = [a + eta * d for a, d in zip(x, mean(deltas), strict=True)]
    return x


def scaffold_by_hand(result, fed, eta_l, eta, option):
    x = start(fed)
    c = [np.zeros_like(a) for a in x]
    own = {i: [np.zeros_like(a) for a in x] for i in range(fed.workers)}
    for t in range(4):
        deltas, changes = [], []
        for one in result.drawn(t):
            i, y = one.worker, [a.copy() for a in x]
            for rows in one.batches:
                g = gradient(y, fed, rows)
                y = [a - eta_l * (gk - ci + ck) for a, gk, ci, ck in zip(y, g, own[i], c, strict=True)]
            if option == "I":
                new = gradient(x, fed, fed.train.rows(i))
            else:
                k = len(one.batches)
                new = [
                    ci - ck + (a0 - a) / (k * eta_l) for ci, ck, a0, a in zip(own[i], c, x, y, strict=True)
                ]
            deltas.append([a - a0 for a, a0 in zip(y, x, strict=True)])
            changes.append([n - ci for n, ci in zip(new, own[i], strict=True)])
            own[i] = new
        x = [a + eta * d for a, d in zip(x, mean(deltas), strict=True)]
        share = len(deltas) / fed.workers
        c = [ck + share * d for ck, d in zip(c, mean(changes), strict=True)]
    return x


def fedopt_by_hand(result, fed, eta_l, eta, name):
    x = start(fed)
    m = [np.zeros_like(a) for a in x]
    b1, b2, tau = {"fedadagrad": (0.0, 0.0, 1e-3)}.get(name, (0.9, 0.99, 1e-3))
    v = [np.full_like(a, tau**2) for a in x]
    for t in range(4):
        deltas = [
            flat(
                oracle.local_run(
                    layered(x), fed.data.x_train.astype(float), fed.data.y_train, one.batches, eta_l
                )
            )
            for one in result.drawn(t)
        ]
        for j, d in enumerate(mean(deltas)):
            if name == "fedavgm":
                m[j] = 0.9 * m[j] + d
                x[j] = x[j] + eta * m[j]
                continue
            m[j] = b1 * m[j] + (1 - b1) * d
            if name == "fedadagrad":
                v[j] = v[j] + d**2
            elif name == "fedyogi":
                v[j] = v[j] - (1 - b2) * d**2 * np.sign(v[j] - d**2)
            else:
                v[j] = b2 * v[j] + (1 - b2) * d**2
            x[j] = x[j] + eta * m[j] / (np.sqrt(v[j]) + tau)
    return x


def test_fedprox_equals_its_pseudo_code():
    fed = unequal()
    result = run(enlist.fedprox(worker_lr=0.05, server_lr=1.5, mu=0.7), fed)
    assert_close(result, layered(fedprox_by_hand(result, fed, 0.05, 1.5, 0.7)))


@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize("cohort", [sampling.without_replacement(3), sampling.at_least(2, 4)])
def test_scaffold_equals_its_pseudo_code(option, cohort):
    fed = unequal()
    result = run(
        enlist.scaffold(worker_lr=0.05, server_lr=1.2, variates=option),
        fed,
        cohort=cohort,
        execution="chunk:2",
    )
    assert_close(result, layered(scaffold_by_hand(result, fed, 0.05, 1.2, option)))


@pytest.mark.parametrize("name", ["fedavgm", "fedadagrad", "fedadam", "fedyogi"])
def test_server_memory_equals_its_pseudo_code(name):
    fed = unequal()
    result = run(getattr(enlist, name)(worker_lr=0.05, server_lr=0.03), fed)
    assert_close(result, layered(fedopt_by_hand(result, fed, 0.05, 0.03, name)))


def test_fedadams_first_steps_by_hand():
    """tau and the missing bias correction: one coordinate, Delta = 0.1 each time."""
    from enlist.algorithms.fedopt import _adam_rule, _reddi

    optimizer = _reddi(_adam_rule, 0.9, 0.99, 1e-3)(0.5)
    state, x = optimizer.init(jnp.zeros(1)), 0.0
    for expected in (
        0.5 * 0.01 / (np.sqrt(0.99 * 1e-6 + 0.01 * 0.01) + 1e-3),
        0.5 * 0.019 / (np.sqrt(0.99**2 * 1e-6 + 0.0199 * 0.01) + 1e-3),
    ):
        updates, state = optimizer.update(jnp.array([-0.1]), state)
        assert float(updates[0]) == pytest.approx(expected, rel=1e-5)
        x += float(updates[0])


def assert_same(a, b, rtol=2e-5):
    for x, y in zip(jax.tree.leaves(a.params), jax.tree.leaves(b.params), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-6)


def test_where_theory_says_so_it_is_fedavg():
    plain = run(enlist.fedavg(worker_lr=0.05))
    assert_same(run(enlist.fedprox(worker_lr=0.05, mu=0.0)), plain)
    assert_same(run(enlist.fedavgm(worker_lr=0.05, momentum=0.0)), plain)
    one_step = {"local": Steps(1, 0), "cohort": sampling.full(), "rounds": 3}
    # K = 1, everybody: the variates' corrections cancel in the mean.
    assert_same(
        run(enlist.scaffold(worker_lr=0.05), **one_step), run(enlist.fedavg(worker_lr=0.05), **one_step), 1e-4
    )
    # The first round, all variates still zero.
    assert_same(run(enlist.scaffold(worker_lr=0.05), rounds=1), run(enlist.fedavg(worker_lr=0.05), rounds=1))


def test_scaffold_sends_twice_what_fedavg_sends():
    one, two = run(enlist.fedavg(), rounds=1).metrics[-1], run(enlist.scaffold(), rounds=1).metrics[-1]
    assert two["uplink_bytes"] == 2 * one["uplink_bytes"]
    assert two["downlink_bytes"] == 2 * one["downlink_bytes"]
    assert two["comm_mib"] == 2 * one["comm_mib"]


def test_no_public_method_is_left_out():
    tried = {METHODS[name](worker_lr=0.1, server_lr=0.1).name for name in METHODS}
    assert {*ALGORITHMS} <= tried


@pytest.mark.parametrize("name", METHODS)
def test_the_parts(name):
    """What goes in keeps its shape, is left as it was, and gives the same compiled or not."""
    algorithm, fed, model = METHODS[name](worker_lr=0.03, server_lr=0.02), unequal(), models.logistic()
    params = model.init(jax.random.key(0), fed.data.x_train[:1])
    server, own = algorithm.init_server(params, fed.workers), algorithm.init_worker(params)
    t = jnp.int32(0)
    ctx = Context(t, objective(model), Epochs(1, 8), rates_at(algorithm.rates, t), algorithm.replica(server))
    data = WorkerData(
        jnp.asarray(fed.data.x_train), jnp.asarray(fed.data.y_train), jnp.asarray(fed.order), 3, 41, 41, 55, 6
    )
    payload = algorithm.broadcast(server)
    if algorithm.probe is not None:
        payload = Probed(payload, algorithm.probe(ctx, jax.random.key(1), payload, own, data).message)
    before = jax.tree.map(np.array, (payload, own, server))

    def one(payload, own, server):
        mine = algorithm.address(payload, 1)
        reply = algorithm.local(ctx, jax.random.key(1), mine, own, data)
        summand = algorithm.decode(reply.message)
        alone = jax.tree.map(lambda a: a[None], (summand, jnp.ones(()), jnp.int32(1), jnp.ones(())))
        probe = payload.mean if algorithm.probe is not None else ()
        got = Aggregate(summand, jnp.ones(()), jnp.ones(()), fed.workers, Stack(*alone), probe)
        return reply, algorithm.server(ctx, jax.random.key(2), server, got)

    plain, compiled = one(payload, own, server), jax.jit(one)(payload, own, server)
    for a, b in zip(jax.tree.leaves(plain), jax.tree.leaves(compiled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    for a, b in zip(jax.tree.leaves(before), jax.tree.leaves((payload, own, server)), strict=True):
        np.testing.assert_array_equal(a, b)
    reply, after = plain
    kinds = lambda tree: jax.tree.map(lambda a: (jnp.shape(a), jnp.result_type(a)), tree)
    assert kinds(reply.worker_state) == kinds(own)
    assert kinds(after) == kinds(server)
    assert kinds(algorithm.params(after)) == kinds(params)
    assert int(reply.stats.steps) <= 6


@pytest.mark.parametrize("name", METHODS)
def test_the_protocol(name, tmp_path):
    """Groups, resume, zero rounds, n = 1, n = m, unequal workers, no trace for another rate; and it learns."""
    algorithm = METHODS[name](worker_lr=0.03, server_lr=0.02)
    whole = run(algorithm, execution="one-by-one", devices=1)
    assert_same(run(algorithm, execution="batch", devices=1), whole, 1e-4)
    run(algorithm, rounds=2, out=tmp_path / "run", execution="one-by-one", devices=1)
    resumed = run(algorithm, out=tmp_path / "run", resume=True, execution="one-by-one", devices=1)
    assert all(
        (a == b).all()
        for a, b in zip(jax.tree.leaves(whole.params), jax.tree.leaves(resumed.params), strict=True)
    )
    for cohort in (1, 6):
        few = run(algorithm, cohort=cohort, rounds=1, execution="one-by-one", devices=1)
        assert np.isfinite(few.metrics[-1]["train_loss"])
    assert run(algorithm, rounds=0, execution="one-by-one", devices=1).summary["rounds"] == 0
    adaptive_server = "ada" in name or "yogi" in name
    other = METHODS[name](worker_lr=0.05, server_lr=0.05 if adaptive_server else 1.0)
    learned = run(other, rounds=40, eval_every=40, execution="one-by-one", devices=1)
    assert learned.session.program is whole.session.program
    assert learned.metrics[-1]["test_accuracy"] > 0.6


def drifting():
    """Two kinds of workers with different curvature and different optima: least squares on scaled inputs."""
    rng = np.random.default_rng(0)
    truths = rng.normal(size=(6, 4)) * 2
    x = rng.normal(size=(6, 40, 4)) * np.linspace(0.2, 2.0, 6)[:, None, None]
    y = np.einsum("wrf,wf->wr", x, truths)
    flat_x, flat_y = x.reshape(-1, 4).astype(np.float32), y.reshape(-1).astype(np.float32)
    fed = enlist.federation(flat_x, flat_y, flat_x[:10], flat_y[:10], worker=np.repeat(np.arange(6), 40))
    h = np.mean([2 * xi.T @ xi / 40 for xi in x], axis=0)
    b = np.mean([2 * xi.T @ yi / 40 for xi, yi in zip(x, y, strict=True)], axis=0)
    return fed, np.linalg.solve(h, b)


LINEAR = Model(
    init=lambda key, x: {"w": jnp.zeros(4)},
    apply=lambda params, x: x @ params["w"],
    loss=squared_error,
    metric=negative_squared_error,
    metric_name="negative_squared_error",
)


def distance_to_optimum(algorithm, cohort):
    """After 1500 rounds of ten full gradients on `drifting`."""
    fed, best = drifting()
    result = enlist.simulate(
        algorithm,
        LINEAR,
        fed,
        cohort=cohort,
        rounds=1500,
        local=Steps(10, 0),
        eval_every=1500,
        execution="batch",
    )
    return np.linalg.norm(np.asarray(result.params["w"]) - best)


@pytest.mark.parametrize(("option", "cohort"), [("I", 3), ("II", 3), ("II", 6)])
def test_scaffold_reaches_the_optimum_where_fedavg_stalls_at_its_drift(option, cohort):
    assert distance_to_optimum(enlist.scaffold(worker_lr=0.02, variates=option), cohort) < 1e-3
    assert distance_to_optimum(enlist.fedavg(worker_lr=0.02), cohort) > 0.05


def test_scaffold_refuses_what_it_does_not_define():
    with pytest.raises(enlist.BadInput, match="with-replacement"):
        run(enlist.scaffold(), cohort=sampling.with_replacement(3))
    with pytest.raises(enlist.BadInput, match="one worker rate a round"):
        run(enlist.scaffold(worker_lr=enlist.PerStep(lambda t, k: 0.1)))
    with pytest.raises(enlist.BadInput, match="option for variates"):
        enlist.scaffold(variates="III")


def test_a_diverged_round_leaves_every_worker_state_as_it_was(tmp_path):
    with pytest.raises(enlist.Diverged) as broken:
        run(enlist.scaffold(worker_lr=1e10, server_lr=1e15), rounds=40, out=tmp_path / "run")
    good = broken.value.round - 1
    same_run = run(enlist.scaffold(worker_lr=1e10, server_lr=1e15), rounds=good, eval_every=99)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(same_run.session.state.workers))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: enlist.fedprox(mu=-1.0), "mu = -1"),
        (lambda: enlist.fedavgm(momentum=1.0), "momentum = 1"),
        (lambda: enlist.fedadam(beta2=-0.1), "beta2 = -0.1"),
        (lambda: enlist.fedyogi(tau=0.0), "tau = 0"),
    ],
)
def test_numbers_that_cannot_be_are_refused(make, says):
    with pytest.raises(enlist.BadInput, match=says):
        make()
