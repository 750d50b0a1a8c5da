"""Problems with known constants: what they say of themselves is what the engine's own functions find."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from enlist.algorithms.work import Steps
from enlist.errors import BadInput
from enlist.participation import sampling
from enlist.problem.objective import initial, objective
from enlist.problem.quadratic import nonconvex, quadratic
from enlist.studies.ensemble import prepared, squared_gradients

SPECTRUM = (2.0, 1.0, 0.3)
PROBLEMS = {
    "quadratic": lambda **given: quadratic(SPECTRUM, 6, rows=4, **given),
    "nonconvex": lambda **given: nonconvex(3, 6, rows=4, **given),
}


def gradients(problem, *points):
    """Of every row at each of these points: [point, worker, row, d]; without the first axis for one point."""
    goal = objective(problem.model, "highest")
    data = problem.federation.data
    one = lambda x, row, y: goal.loss_and_grad({"x": x}, row[None], y[None], jnp.ones(1))[1]["x"]
    every = jax.jit(jax.vmap(jax.vmap(one, (None, 0, 0)), (0, None, None)))
    x = jnp.asarray(np.stack(points), jnp.float32)
    found = np.asarray(every(x, jnp.asarray(data.x_train), jnp.asarray(data.y_train)), np.float64)
    found = found.reshape(len(points), problem.federation.workers, -1, x.shape[1])
    return found if len(points) > 1 else found[0]


def loss(problem, x):
    """f(x)."""
    goal = objective(problem.model, "highest")
    data = problem.federation.data
    rows = len(data.x_train)
    weights = jnp.full(rows, 1 / rows)
    return float(goal.loss({"x": x}, jnp.asarray(data.x_train), jnp.asarray(data.y_train), weights))


@pytest.fixture(params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param](noise=0.7, heterogeneity=1.3)


@pytest.mark.parametrize("at", [0.0, 1.7])
def test_noise_of_a_row_is_sigma_local_at_every_point_and_worker(problem, at):
    g = gradients(problem, jnp.full(3, at))
    noise = np.mean(np.sum((g - g.mean(axis=1, keepdims=True)) ** 2, axis=2), axis=1)
    np.testing.assert_allclose(noise.max(), problem.noise**2, rtol=1e-5)
    np.testing.assert_allclose(noise, problem.noise**2, rtol=1e-4)
    assert problem.noise == pytest.approx(0.7, rel=1e-5)
    assert problem.sigma_local(4) == problem.noise / 2
    assert problem.sigma_local(0) == 0


def test_noise_of_every_worker_adds_up_to_nothing():
    rows = quadratic(SPECTRUM, 6, rows=4).federation.data.x_train.reshape(6, 4, 3)
    # Every row is its worker's centre plus or minus something, exactly as float32 has it.
    np.testing.assert_array_equal(rows[:, 0] + rows[:, 2], rows[:, 1] + rows[:, 3])


def test_no_worker_is_further_from_f_than_sigma_global(problem):
    points = np.random.default_rng(0).uniform(-4, 4, size=(300, 3))
    mine = gradients(problem, *points).mean(axis=2)
    farthest = np.linalg.norm(mine - mine.mean(axis=1, keepdims=True), axis=-1).max()
    assert farthest <= problem.sigma_global * (1 + 1e-4)
    assert farthest >= 0.9 * problem.sigma_global


def test_sigma_global_of_the_nonconvex_sum_is_attained():
    problem = nonconvex(3, 6, heterogeneity=1.3)
    waves = problem.federation.data.x_train[0]
    phase = np.arctan2(waves[3:6], waves[:3])
    mine = gradients(problem, jnp.asarray(np.pi / 2 - phase, jnp.float32)).mean(axis=1)
    assert np.linalg.norm(mine[0] - mine.mean(axis=0)) == pytest.approx(problem.sigma_global, rel=1e-5)


def test_smoothness_is_the_largest_curvature_of_any_worker(problem):
    goal = objective(problem.model, "highest")
    data, m = problem.federation.data, problem.federation.workers
    rows = jnp.asarray(data.x_train).reshape(m, 4, -1)
    y = jnp.zeros(4)
    mine = lambda x, own: goal.loss({"x": x}, own, y, jnp.full(4, 0.25))
    hessians = jax.vmap(jax.hessian(mine), (None, 0))
    points = np.concatenate([np.zeros((1, 3)), np.random.default_rng(1).uniform(-3, 3, size=(100, 3))])
    found = np.asarray(
        jax.jit(jax.vmap(hessians, (0, None)))(jnp.asarray(points, jnp.float32), rows), np.float64
    )
    largest = np.abs(np.linalg.eigvalsh(found)).max()
    # At x = 0 it is attained.
    assert largest == pytest.approx(problem.smoothness, rel=1e-5)


def test_gap_and_least_value(problem):
    start = initial(problem.model, jax.random.key(0), jnp.asarray(problem.federation.data.x_train[:1]))["x"]
    assert loss(problem, start) - problem.least == pytest.approx(problem.gap, rel=1e-4)
    least = problem.federation.data.x_train.mean(axis=0) if problem.model.name == "quadratic" else np.zeros(3)
    assert loss(problem, jnp.asarray(least)) == pytest.approx(problem.least, abs=1e-5)
    assert np.linalg.norm(gradients(problem, jnp.asarray(least)).mean(axis=(0, 1))) < 1e-5


def test_quadratic_gradient_in_closed_form():
    problem = quadratic((2.0, 2.0), 3, rows=2)
    rows = problem.federation.data.x_train.reshape(3, 2, 2)
    x = np.array([0.3, -1.0], np.float32)
    np.testing.assert_allclose(gradients(problem, jnp.asarray(x)), 2 * (x - rows), rtol=1e-5, atol=1e-6)


def test_nonconvex_sum_without_workers_differences_is_the_base():
    problem = nonconvex(2, 4, noise=0.0, heterogeneity=0.8, height=0.5)
    x = np.array([0.4, -1.5])
    f = gradients(problem, jnp.asarray(x, jnp.float32)).mean(axis=(0, 1))
    np.testing.assert_allclose(f, 0.5 * 2 * x / (1 + x**2) ** 2, rtol=1e-5)


def test_a_concave_problem_has_no_least_value():
    problem = quadratic((-1.0, 0.5), 2)
    assert problem.least == -math.inf
    assert problem.gap == math.inf
    assert problem.smoothness == pytest.approx(1)


def test_the_engine_looks_at_the_exact_gradient_and_takes_the_exact_step():
    """K = 1, everybody, full participation, no noise: plain gradient descent on f."""
    problem = quadratic((1.0, 1.0), 4, rows=2, noise=0.0, distance=2.0)
    session = prepared(problem, sampling.full(), Steps(1, 1))
    found = squared_gradients(session, np.array([0.1, 0.2]), np.array([1.0, 2.0]), seeds=2, rounds=4)
    assert found.shape == (2, 2, 4)
    for rate, by_seed in zip((0.1, 0.4), found, strict=True):
        expected = 4.0 * (1 - rate) ** (2 * np.arange(4))
        np.testing.assert_allclose(by_seed, np.stack([expected] * 2), rtol=1e-4)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: quadratic((), 2), "spectrum"),
        (lambda: quadratic((0.0,), 2), "not all of them 0"),
        (lambda: quadratic((1.0,), 0), "workers = 0"),
        (lambda: quadratic((1.0,), 1), "heterogeneity = 1"),
        (lambda: quadratic((1.0,), 2, rows=3), "even number"),
        (lambda: quadratic((1.0,), 2, noise=-1), "noise = -1"),
        (lambda: nonconvex(0, 2), "at least 1 dimension"),
        (lambda: nonconvex(2, 2, height=0), "height = 0"),
    ],
)
def test_what_cannot_be_is_refused(make, said):
    with pytest.raises(BadInput, match=said):
        make()
