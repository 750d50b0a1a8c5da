"""A deployed run gives the simulator's bits: every method, every way of drawing and computing."""

from pathlib import Path

import pytest
from stub import carry_out, cohorts, deployment, model, same, simulated

# Each as small as it can be; ways of drawing and computing are spread over the methods.
RUNS = {
    "fedavg": {},
    "two_nn, adam, epochs": {"model": "two_nn", "worker_optimizer": "adam", "worker_lr": 0.01, "local_steps": None, "local_epochs": 1, "batch": 60},
    "cnn": {"model": "cnn", "rounds": 1, "local_steps": 1, "cohort": 1},
    "with-replacement, schedule": {"sampling": "with-replacement", "cohort": 4, "local_schedule": "1:3"},
    "fedprox, decay, bf16": {"algorithm": "fedprox", "worker_decay": 2.0, "precision": "bf16"},
    "scaffold, at-least": {"algorithm": "scaffold", "sampling": "at-least", "rounds": 4},
    "scaffold I, full": {"algorithm": "scaffold", "variates": "I", "sampling": "full", "cohort": None},
    "fedadam, batch 0": {"algorithm": "fedadam", "batch": 0},
    "mime, with-replacement": {"algorithm": "mime", "sampling": "with-replacement", "cohort": 3},
    "feddyn": {"algorithm": "feddyn"},
    "slowmo, maintain": {"algorithm": "slowmo", "buffers": "maintain", "worker_optimizer": "adam", "worker_lr": 0.01},
    "slowmo, average": {"algorithm": "slowmo", "buffers": "average", "worker_optimizer": "adam", "worker_lr": 0.01},
    "fednova, examples": {"algorithm": "fednova", "weighting": "examples", "partition": "dirichlet:0.5", "local_steps": None, "local_epochs": 1, "cohort": 4},
    "cooperative": {"algorithm": "cooperative", "mixing": "ring", "cohort": 3},
    "elastic": {"algorithm": "elastic"},
    "adaptive": {"algorithm": "adaptive"},
    "loadaboost": {"algorithm": "loadaboost", "partition": "dirichlet:0.5", "cohort": 3},
    "topk": {"compress": "topk:0.1", "rounds": 4},
    "qsgd both ways": {"compress": "qsgd:4", "compress_down": "qsgd:8"},
}


@pytest.mark.parametrize("asked", RUNS.values(), ids=RUNS)
def test_equal_to_the_bit(tmp_path, asked):
    grid, job, _ = deployment(tmp_path, **asked)
    assert carry_out(grid, job)["status"] == "done"
    run = simulated(tmp_path / "simulated", **asked)
    assert same(model(Path(job.out)), model(tmp_path / "simulated"))
    assert cohorts(job) == [line["cohort"] for line in run.metrics]
