"""Several runs in one program: each is the run that it would be alone."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from conftest import make_dataset

import enlist
from enlist import Epochs, models, partition, sampling
from enlist.engine.session import links_of
from enlist.engine.task import Task, room_for
from enlist.engine.timing import worker_seconds
from enlist.engine.together import Job, simulate_together
from enlist.options import Settings
from enlist.studies.grid import grouped

MODEL = models.logistic()
DATA = make_dataset()


def task(seed, algorithm=None, how="dirichlet:0.5", **settings):
    fed = partition.parse(how)(DATA, 8, seed)
    options = Settings(**{"rounds": 6, "eval_every": 2, "seed": seed, "devices": 1} | settings)
    return Task(
        algorithm or enlist.fedavg(worker_lr=0.05),
        MODEL,
        fed,
        sampling.without_replacement(3),
        Epochs(2, 8),
        options,
        links_of(options, fed.workers),
    )


def alone(one):
    return enlist.simulate(
        one.algorithm,
        one.model,
        one.federation,
        cohort=3,
        local=one.work,
        rounds=one.settings.rounds,
        eval_every=one.settings.eval_every,
        seed=one.settings.seed,
        devices=1,
        execution="batch",
    )


def leaves(run):
    return jax.tree.leaves(run.params)


@pytest.mark.parametrize("side_by_side", [True, False])
@pytest.mark.parametrize("method", [enlist.fedavg, enlist.scaffold])
def test_each_run_is_the_one_it_would_be_alone(side_by_side, method):
    # Seeds of unequal partitions and rates of their own, in one program.
    tasks = [
        task(seed, method(worker_lr=rate), execution="batch")
        for seed, rate in ((0, 0.05), (1, 0.02), (2, 0.1))
    ]
    together = simulate_together([Job(each) for each in tasks], side_by_side=side_by_side)
    for run, each in zip(together, tasks, strict=True):
        single = alone(each)
        assert [line["cohort"] for line in run.metrics] == [line["cohort"] for line in single.metrics]
        for a, b in zip(leaves(run), leaves(single), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
        for ours, theirs in zip(run.metrics, single.metrics, strict=True):
            assert ours["train_loss"] == pytest.approx(theirs["train_loss"], rel=1e-5)
            assert ours["test_accuracy"] == pytest.approx(theirs["test_accuracy"], abs=1e-6)
    if not side_by_side:
        assert len({id(run.session.program) for run in together}) == 1


@pytest.mark.parametrize("side_by_side", [True, False])
def test_runs_that_start_or_see_pixels_differently_share_a_program(side_by_side):
    """Models of one kind, and data of one shape; other sizes are other programs."""
    standard = replace(DATA, x_train=2 * DATA.x_train - 1, x_test=2 * DATA.x_test - 1)
    wide, narrow = (
        [models.two_nn(10, hidden=hidden, start=start) for start in ("he", "uniform")] for hidden in (6, 4)
    )
    tasks = [
        task(0, execution="batch")._replace(
            model=model, federation=partition.parse("dirichlet:0.5")(data, 8, 0)
        )
        for model, data in zip(
            [*wide, *wide, *narrow], [DATA, DATA, standard, standard, DATA, DATA], strict=True
        )
    ]
    assert [[*group.places] for group in grouped(tasks)] == [[0, 1, 2, 3], [4, 5]]
    together = simulate_together([Job(each) for each in tasks], side_by_side=side_by_side)
    assert len({id(run.session.program) for run in together}) == 1
    losses = set()
    for run, each in zip(together, tasks, strict=True):
        for a, b in zip(leaves(run), leaves(alone(each)), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
        losses.add(run.metrics[-1]["train_loss"])
    assert len(losses) == len(tasks)


def test_one_that_diverges_is_frozen_and_the_others_go_on(tmp_path):
    tasks = [
        task(0, enlist.fedavg(worker_lr=rate, server_lr=eta)) for rate, eta in ((0.05, 1.0), (1e20, 1e20))
    ]
    jobs = [Job(each, tmp_path / str(i)) for i, each in enumerate(tasks)]
    good, bad = simulate_together(jobs, side_by_side=True)
    assert (good.summary["status"], good.summary["rounds"]) == ("done", 6)
    assert bad.summary["status"] == "diverged"
    assert all(np.isfinite(leaf).all() for leaf in leaves(bad))
    for a, b in zip(leaves(good), leaves(alone(tasks[0])), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_taken_up_again_also_where_a_kill_left_them_apart(tmp_path):
    def jobs(rounds):
        return [
            Job(task(s, enlist.scaffold(worker_lr=0.05), rounds=rounds), tmp_path / str(s)) for s in (0, 1)
        ]

    simulate_together(jobs(4)[:1], side_by_side=True)
    simulate_together(jobs(2)[1:], side_by_side=True)
    resumed = simulate_together(jobs(6), side_by_side=True)
    for run, seed in zip(resumed, (0, 1), strict=True):
        assert [line["round"] for line in run.metrics] == [2, 4, 6]
        whole = alone(task(seed, enlist.scaffold(worker_lr=0.05)))
        for a, b in zip(leaves(run), leaves(whole), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_examples_are_held_once():
    tasks = [task(seed) for seed in (0, 1, 2)]
    jobs = [Job(each) for each in tasks]
    runs = simulate_together(jobs, side_by_side=True)
    assert len({id(run.session.read.source.held.x) for run in runs}) == 1
    # Nor are the states of runs that are over.
    assert not any(jax.tree.leaves((run.session.state.server, run.session.state.workers)) for run in runs)


def test_a_worker_is_timed_by_its_steps():
    one, other = worker_seconds([task(0), task(0, enlist.scaffold(worker_lr=0.05))])
    assert 0 < one < 5
    assert 0 < other < 5
    room = room_for([each.federation for each in (task(0), task(1))])
    assert room.rows is None
    assert room.capacity >= max(task(0).federation.sizes)
