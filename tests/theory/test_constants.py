"""Constants that are known in closed form are found; bounds, intervals and memory are what they are said to be."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import enlist
from enlist.engine import platform
from enlist.engine.simulate import make_task
from enlist.errors import BadInput
from enlist.problem.federation import federation
from enlist.problem.models import Model
from enlist.theory import noise
from enlist.theory.constants import estimate
from enlist.theory.curvature import lanczos
from enlist.theory.passes import passes, shape_for
from enlist.theory.sample import draw

DIMENSION = 12
EXACT = {"iterations": 12, "tolerance": 1e-6}


@cache
def quadratic(spectrum: tuple[float, ...]) -> Model:
    """A row (a, s) has the loss s/2 (x - a)^T H (x - a), where H has that spectrum in a turned basis."""
    matrix = hessian_of(spectrum)

    def loss(off, y):
        return 0.5 * y * jnp.sum((off @ jnp.asarray(matrix, jnp.float32)) * off, axis=1)

    def init(key, x):
        return {"x": jnp.ones(x.shape[1])}

    return Model(
        init, lambda params, a: params["x"][None] - a, loss, lambda out, y: -loss(out, y), "minus loss"
    )


def hessian_of(spectrum):
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(len(spectrum), len(spectrum))))
    return turn @ np.diag(spectrum) @ turn.T


CONVEX = (*np.linspace(0.1, 2, DIMENSION - 1).tolist(), 5.0)
SADDLE = (*np.linspace(-1, 2, DIMENSION - 1).tolist(), -5.0)


def holders(sizes, seed=0):
    rng = np.random.default_rng(seed)
    worker = np.repeat(np.arange(len(sizes)), sizes)
    centres = rng.normal(size=(len(sizes), DIMENSION))
    a = (centres[worker] + rng.normal(size=(len(worker), DIMENSION))).astype(np.float32)
    s = rng.uniform(0.5, 1.5, len(worker)).astype(np.float32)
    return federation(a, s, a[:2], s[:2], worker)


def task_of(model, fed, local, worker_lr=0.01, **settings):
    return make_task(enlist.fedavg(worker_lr=worker_lr), model, fed, 2, local, settings)


def truth(fed, spectrum, x):
    """L_i, the variance of a row's gradient, and ||grad F_i - grad f||^2, for every worker; L of f."""
    matrix = hessian_of(spectrum)
    a, s = fed.data.x_train.astype(np.float64), fed.data.y_train.astype(np.float64)
    rows = [fed.train.rows(i) for i in range(fed.workers)]
    gradients = [s[r, None] * ((x - a[r]) @ matrix) for r in rows]
    means = np.array([g.mean(axis=0) for g in gradients])
    largest = np.abs(spectrum).max()
    scale = np.array([s[r].mean() for r in rows])
    variances = np.array([((g - g.mean(axis=0)) ** 2).sum(axis=1).mean() for g in gradients])
    return largest * scale, variances, ((means - means.mean(axis=0)) ** 2).sum(axis=1), largest * scale.mean()


def share_of(local, size):
    """The variance of a step's gradient over that of one row's, from the definition of each step's batch."""
    if local.batch == 0:
        return 0.0
    if isinstance(local, enlist.Steps):
        return 1 / local.batch
    batches = [min(local.batch, size - start) for start in range(0, size, local.batch)]
    return np.mean([(size - b) / (b * (size - 1)) for b in batches])


@pytest.mark.parametrize("spectrum", [CONVEX, SADDLE], ids=["convex", "saddle"])
def test_quadratics_are_measured_exactly(spectrum):
    fed = holders([3, 20, 11, 7, 16])
    found = estimate(task_of(quadratic(spectrum), fed, enlist.Steps(2, 5)), points=1, **EXACT)
    curvature, variances, distances, of_f = truth(fed, spectrum, np.ones(DIMENSION))
    point = found.points[0]
    assert point.smoothness.value == pytest.approx(curvature.max(), rel=1e-4)
    assert point.worst_worker == curvature.argmax()
    assert point.smoothness_of_f.value == pytest.approx(of_f, rel=1e-4)
    assert point.sigma_local.value == pytest.approx(np.sqrt(variances.mean() / 5), rel=1e-4)
    assert point.sigma_local_worst.value == pytest.approx(np.sqrt(variances.max() / 5), rel=1e-4)
    assert point.sigma_global.value == pytest.approx(np.sqrt(distances.mean()), rel=1e-4)
    assert point.sigma_global_worst.value == pytest.approx(np.sqrt(distances.max()), rel=1e-4)
    for each in (point.sigma_local, point.sigma_global, point.sigma_global_worst):
        assert each.low == pytest.approx(each.value)
        assert each.high == pytest.approx(each.value)
        assert not each.lower_bound


@pytest.mark.parametrize(
    "local",
    [work(1, batch) for work in (enlist.Steps, enlist.Epochs) for batch in (1, 5, 0)]
    + [enlist.Epochs(2, 100)],
    ids=str,
)
def test_the_batch_in_use_counts(local):
    sizes = np.array([3, 20, 11, 7, 16])
    assert noise.batch_share(local, sizes) == pytest.approx([share_of(local, int(size)) for size in sizes])


def test_a_batch_of_a_shuffled_pass_varies_as_said():
    """Batches as the engine deals them: their gradients' variance is the rows' times the share."""
    rows = np.random.default_rng(0).normal(size=11)
    work = enlist.Epochs(1, 4)
    tables = jax.vmap(lambda key: work.table(key, 11, 11, 11))(jax.random.split(jax.random.key(0), 4000))
    batches = [rows[np.asarray(tables)[:, 0, start : min(start + 4, 11)]].mean(axis=1) for start in (0, 4, 8)]
    seen = np.mean([np.mean((batch - rows.mean()) ** 2) for batch in batches])
    assert seen == pytest.approx(rows.var() * noise.batch_share(work, np.array([11]))[0], rel=0.05)


def test_epochs_and_full_gradients_reach_the_estimate():
    fed = holders([3, 20, 11, 7, 16])
    _, variances, _, _ = truth(fed, CONVEX, np.ones(DIMENSION))
    for local in (enlist.Epochs(1, 4), enlist.Steps(1, 0)):
        point = estimate(task_of(quadratic(CONVEX), fed, local), points=1, **EXACT).points[0]
        squares = variances * [share_of(local, int(size)) for size in fed.sizes]
        assert point.sigma_local.value == pytest.approx(np.sqrt(squares.mean()), rel=1e-4)
        assert point.sigma_local_worst.value == pytest.approx(np.sqrt(squares.max()), rel=1e-4)


def test_intervals_of_a_sample_cover_the_truth_mostly():
    fed = holders([16] * 40)
    task = task_of(quadratic(CONVEX), fed, enlist.Steps(1, 2))
    _, variances, distances, _ = truth(fed, CONVEX, np.ones(DIMENSION))
    local, between = np.sqrt(variances.mean() / 2), np.sqrt(distances.mean())
    points = [
        estimate(task, points=1, workers=15, rows=8, seed=seed, **EXACT).points[0] for seed in range(20)
    ]
    assert sum(p.sigma_local.low <= local <= p.sigma_local.high for p in points) >= 16
    assert sum(p.sigma_global.low <= between <= p.sigma_global.high for p in points) >= 16
    # Right on average too: what sampling adds to a distance is taken off.
    assert np.mean([p.sigma_local.value**2 for p in points]) == pytest.approx(local**2, rel=0.1)
    assert np.mean([p.sigma_global.value**2 for p in points]) == pytest.approx(between**2, rel=0.1)
    assert all(p.sigma_local_worst.lower_bound and p.smoothness.lower_bound for p in points)


def test_a_gradient_of_f_from_drawn_rows_is_put_right():
    fed = holders([30] * 8)
    task = task_of(quadratic(CONVEX), fed, enlist.Steps(1, 2))
    exact = truth(fed, CONVEX, np.ones(DIMENSION))[2].mean()
    points = [estimate(task, points=1, rows=30, most_rows=10, seed=s, **EXACT).points[0] for s in range(20)]
    assert np.mean([p.sigma_global.value**2 for p in points]) == pytest.approx(exact, rel=0.1)


@cache
def digits_task():
    """Handwritten digits, two classes a worker, logistic regression."""
    fed = enlist.partition.digits(enlist.datasets.digits(), per_worker=2, workers=10, seed=0)
    return task_of(enlist.models.logistic(), fed, enlist.Steps(2, 20), worker_lr=0.1)


def test_logistic_curvature_equals_the_dense_hessians():
    task = digits_task()
    data, held = task.federation.data, task.federation.train
    x = data.x_train.reshape(len(data.x_train), -1).astype(np.float64)

    def largest(rows):
        """At 0 all classes are as probable as each other: the Hessian is (I/10 - 1/100) times that of (x, 1)."""
        wide = np.hstack([x[rows], np.ones((len(rows), 1))])
        return 0.1 * np.linalg.eigvalsh(wide.T @ wide / len(rows))[-1]

    by_worker = [largest(held.rows(i)) for i in range(10)]
    fine = estimate(task, points=1, tolerance=1e-3).points[0]
    assert fine.smoothness.value == pytest.approx(max(by_worker), rel=1e-3)
    assert fine.worst_worker == int(np.argmax(by_worker))
    assert fine.smoothness.low <= max(by_worker) * (1 + 1e-5) <= fine.smoothness.high * (1 + 2e-5)
    assert fine.smoothness_of_f.value == pytest.approx(largest(held.order), rel=1e-3)


def test_constants_of_digits_are_stable_across_repeats():
    """Other seeds draw other first directions, and, where not all is looked at, other workers and rows."""
    task = digits_task()
    all_of_it = [estimate(task, points=2, rounds=8, seed=seed) for seed in range(4)]
    some = [estimate(task, points=2, rounds=8, workers=8, rows=70, seed=seed) for seed in range(4)]
    truth = np.array(estimate(task, points=2, rounds=8, tolerance=1e-4).constants)
    for found in all_of_it:
        assert np.array(found.constants) == pytest.approx(truth, rel=2e-3)
        assert not found.peak("smoothness").value.lower_bound
    for found in some:
        assert np.array(found.constants) == pytest.approx(truth, rel=0.15)
        assert found.peak("smoothness").value.lower_bound
    spread = np.std([found.constants for found in some], axis=0) / truth
    assert np.all(spread < 0.1)


def test_up_to_a_hundred_workers_are_all_looked_at():
    fed = holders([2] * 100)
    s = fed.data.y_train
    for odd in (3, 50, 99):
        s[:] = 1
        s[fed.train.rows(odd)] = 4
        point = estimate(task_of(quadratic(CONVEX), fed, enlist.Steps(1, 2)), points=1, **EXACT).points[0]
        assert (point.worst_worker, point.smoothness.lower_bound) == (odd, False)
        assert point.smoothness.value == pytest.approx(4 * max(CONVEX), rel=1e-4)


def test_the_largest_along_a_run_is_what_the_theory_gets():
    told = []
    found = estimate(digits_task(), points=3, rounds=6, say=told.append)
    assert [point.round for point in found.points] == [0, 3, 6]
    assert len(told) == 3
    run = enlist.simulate(
        enlist.fedavg(worker_lr=0.1),
        enlist.models.logistic(),
        digits_task().federation,
        cohort=2,
        local=enlist.Steps(2, 20),
        rounds=6,
        eval_every=3,
        grad_norm=True,
    )
    assert [point.loss for point in found.points[1:]] == pytest.approx(
        [line["train_loss"] for line in run.metrics], rel=1e-5
    )
    assert [point.grad_norm_sq for point in found.points[1:]] == pytest.approx(
        [line["grad_norm_sq"] for line in run.metrics], rel=1e-4
    )
    for name in ("smoothness", "sigma_local", "sigma_global"):
        values = [getattr(point, name).value for point in found.points]
        assert getattr(found.constants, name) == found.peak(name).value.value == max(values)
        assert found.peak(name).round == found.points[int(np.argmax(values))].round
    assert found.worst.sigma_global == max(point.sigma_global_worst.value for point in found.points)
    losses = [point.loss for point in found.points]
    assert found.gap_seen == pytest.approx(losses[0] - min(losses))
    assert found.constants.gap == found.gap_bound == losses[0]
    assert found.cost.gradients > 0


def test_a_run_that_diverges_ends_with_its_last_good_point():
    fed = holders([5, 5])
    found = estimate(task_of(quadratic(CONVEX), fed, enlist.Steps(9, 0), worker_lr=1e9), rounds=8, **EXACT)
    assert found.diverged
    assert [point.round for point in found.points] == [0]
    assert found.gap_bound is None
    assert found.constants.gap == found.gap_seen == 0


def test_lanczos_ends_at_once_where_every_direction_is_alike():
    start = jax.random.normal(jax.random.key(0), (9,))
    same = lanczos(lambda v: -3 * v, start, 8, 1e-4)
    assert (float(same.value), int(same.steps)) == (pytest.approx(-3), 1)
    none = lanczos(jnp.zeros_like, start, 8, 1e-4)
    assert (float(none.value), float(none.residual)) == (0, 0)


def test_memory_grows_with_a_block_not_with_the_rows():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2000, 1000)).astype(np.float32), np.arange(2000) % 100
    fed = federation(x, y, x[:2], y[:2], np.arange(2000) % 4)
    task = task_of(enlist.models.logistic(100), fed, enlist.Steps(1, 10))
    mesh = platform.mesh(1)
    shape = shape_for(task, 10, mesh)
    sample = draw(fed, 4, 2000, 2000, 1, 0)
    params = jax.eval_shape(task.model.init, jax.random.key(0), x[:1])
    flat = jax.ShapeDtypeStruct((100_100,), jnp.float32)
    key = jax.random.key(0)
    traced = [
        jax.make_jaxpr(passes(shape).curvature)(params, sample.few, key, 0.1),
        jax.make_jaxpr(passes(shape).whole)(params, sample.whole, flat),
        jax.make_jaxpr(passes(shape).workers)(params, sample.by_worker, flat, key, 0.1),
    ]
    largest = max(size for each in traced for size in sizes_made(each.jaxpr))
    assert 10 * 100_100 <= largest <= 16 * 100_100  # Lanczos' vectors, or a block of rows' own gradients


def sizes_made(jaxpr):
    for eqn in jaxpr.eqns:
        yield from (v.aval.size for v in eqn.outvars if hasattr(v.aval, "size"))
        for value in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda v: hasattr(v, "jaxpr")):
            if inner := getattr(value, "jaxpr", value if hasattr(value, "eqns") else None):
                yield from sizes_made(inner)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rows": 1}, "rows = 1: must be 2 or more"),
        ({"points": 0}, "points = 0: must be 1 or more"),
        ({"workers": 2.5}, "workers = 2.5: must be a whole number"),
        ({"tolerance": float("nan")}, "tolerance = nan: must be a finite number"),
    ],
)
def test_what_cannot_be_is_refused(given, said):
    with pytest.raises(BadInput, match=said):
        estimate(digits_task(), **given)
