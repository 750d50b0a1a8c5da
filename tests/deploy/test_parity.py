"""A deployed run gives the simulator's bits: every method, every way of drawing and computing."""

from pathlib import Path

import numpy as np
import pytest
from stub import carry_out, cohorts, deployment, model, same, simulated

EPOCHS = {"local_steps": None, "local_epochs": 1}
ADAM = {"worker_optimizer": "adam", "worker_lr": 0.01}
# Ways of drawing, computing and shortening are spread over the methods, so that few programs are compiled.
RUNS = {
    "fedavg, with-replacement, varied images": {
        "sampling": "with-replacement",
        "cohort": 4,
        "augment": "crop-flip",
    },
    "scaffold, at-least, two_nn": {
        "algorithm": "scaffold",
        "sampling": "at-least",
        "model": "two_nn",
        "rounds": 4,
    },
    "fedadam, topk, batch 0": {"algorithm": "fedadam", "compress": "topk:0.1", "batch": 0, "rounds": 4},
    "mime, with-replacement": {"algorithm": "mime", "sampling": "with-replacement", "cohort": 3},
    "feddyn, full, qsgd both ways": {
        "algorithm": "feddyn",
        "sampling": "full",
        "cohort": None,
        "compress": "qsgd:4",
        "compress_down": "qsgd:8",
    },
    "slowmo, maintain, schedule": {
        "algorithm": "slowmo",
        "buffers": "maintain",
        "local_schedule": "1:3",
        **ADAM,
    },
    "fednova, examples, unequal sizes": {
        "algorithm": "fednova",
        "weighting": "examples",
        "partition": "dirichlet:0.5",
        "workers": 2,
        "worker_decay": 2.0,
        **EPOCHS,
    },
    "cooperative": {"algorithm": "cooperative", "mixing": "ring", "cohort": 3},
}
# Every one costs seconds of compiling: those that are much like others above are for `make test-deploy`.
MORE_RUNS = {
    "slowmo, average": {"algorithm": "slowmo", "buffers": "average", **ADAM},
    "elastic": {"algorithm": "elastic"},
    "adaptive": {"algorithm": "adaptive"},
    "loadaboost": {"algorithm": "loadaboost", "cohort": 3},
    "fedprox, bf16": {"algorithm": "fedprox", "precision": "bf16"},
}


def check(tmp_path, **asked):
    grid, job, _ = deployment(tmp_path, **asked)
    assert carry_out(grid, job)["status"] == "done"
    run = simulated(tmp_path / "simulated", **asked)
    assert same(model(Path(job.out)), model(tmp_path / "simulated"))
    assert cohorts(job) == [line["cohort"] for line in run.metrics]
    return grid, job


@pytest.mark.parametrize("asked", RUNS.values(), ids=RUNS)
def test_equal_to_the_bit(tmp_path, asked):
    check(tmp_path, **asked)


@pytest.mark.slow
@pytest.mark.parametrize("asked", MORE_RUNS.values(), ids=MORE_RUNS)
def test_of_the_others_as_well(tmp_path, asked):
    check(tmp_path, **asked)


def test_the_convolutional_network_too(tmp_path):
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(12, 16, 16, 1)).astype(np.float32), np.arange(12) % 10
    rows = {
        f"{name}_{part}": each for part in ("train", "test") for name, each in (("x", images), ("y", labels))
    }
    np.savez(tmp_path / "images.npz", **rows)
    own = {"dataset": str(tmp_path / "images.npz"), "partition": "iid", "workers": 2}
    check(tmp_path, model="cnn", rounds=1, cohort=1, batch=3, local_steps=1, **own)
