"""Eight devices, cohorts that do not divide among them: the same bits as one device. In a process of its own."""

import os
import subprocess
import sys

from conftest import QUICK_TO_COMPILE

PROGRAM = """
import jax
jax.config.update("jax_num_cpu_devices", 8)
import numpy as np
import enlist
from enlist import Epochs, sampling

assert jax.local_device_count() == 8
fed = enlist.partition.quantity(enlist.datasets.digits(), power=1.1, workers=23, seed=1)

def left(algorithm, cohort, rows, devices, execution):
    run = enlist.simulate(
        algorithm, enlist.models.logistic(), fed, cohort=cohort, rounds=3, eval_every=3, local=Epochs(1, 16),
        rows=rows, devices=devices, execution=execution, eval_rows=200,
    )
    assert run.session.plan.devices == devices
    return run

for algorithm, cohort in [
    (enlist.fedavg(), 5), (enlist.fedavg(), sampling.at_least(9)), (enlist.scaffold(), sampling.full()),
]:
    one = left(algorithm, cohort, "device", 1, "one-by-one")
    for rows, execution in [("device", "one-by-one"), ("host", "one-by-one")]:
        eight = left(algorithm, cohort, rows, 8, execution)
        for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(eight.params), strict=True):
            np.testing.assert_array_equal(a, b)
        a, b = one.metrics[-1], eight.metrics[-1]
        assert {k: a[k] for k in a if k != "delta_norm"} == {k: b[k] for k in b if k != "delta_norm"}
    print(algorithm.name, cohort if isinstance(cohort, int) else cohort.name, "equal", flush=True)
"""


def test_eight_devices_do_not_change_a_bit():
    environment = os.environ | {"XLA_FLAGS": QUICK_TO_COMPILE}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("equal") == 3
