"""What goes wrong on real machines, done for real: `make test-deploy`. Each ends in time, nothing lost."""

import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest
from live import WORKERS, Live, cohorts, status, summary, until

pytestmark = pytest.mark.slow
OPTIONS = {
    "dataset": "digits",
    "partition": "dirichlet:1",
    "workers": WORKERS,
    "model": "logistic",
    "local_epochs": 1,
    "batch": 20,
    "rounds": 4,
    "cohort": 2,
}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    deployed = Live(tmp_path_factory.mktemp("faults"))
    deployed.start_server()
    for worker in range(WORKERS - 1):
        deployed.start_worker(worker)
    yield deployed
    deployed.stop_all()
    assert not deployed.left()


def words(**options):
    return [f"--{name.replace('_', '-')}={value}" for name, value in {**OPTIONS, **options}.items()]


def events(out, what):
    path = out / "events.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if line["what"] == what]


def test_a_worker_that_joins_late_is_enlisted_from_then_on(live, tmp_path):
    out = tmp_path / "deployed"
    with live.running(out, *words(rounds=8, cohort=3, over_enlist=1.34, join_seconds=5)) as process:
        until(lambda: status(out)["round"] >= 1)
        live.start_worker(3)
        said, complained = process.communicate(timeout=300)
    assert process.returncode == 0, said + complained
    used = cohorts(out)
    assert 3 not in used[0]
    assert any(3 in ids for ids in used)


def test_a_worker_that_sleeps_past_the_deadline_is_late_and_not_asked_meanwhile(live, tmp_path):
    """It is stopped while it works, and goes on three rounds later."""
    out = tmp_path / "deployed"
    with live.running(out, *words(rounds=8, cohort=2, over_enlist=2.0, deadline=30)) as process:
        pid = until(lambda: live.app_of(1))
        os.kill(pid, signal.SIGSTOP)
        stopped_in = status(out)["round"]
        until(lambda: status(out)["round"] >= stopped_in + 3)
        os.kill(pid, signal.SIGCONT)
        said, complained = process.communicate(timeout=300)
    assert process.returncode == 0, said + complained
    used = cohorts(out)
    assert not any(1 in ids for ids in used[stopped_in : stopped_in + 3])
    assert sum(event["late"] for event in events(out, "dropped")) >= 1


def test_a_reply_that_is_not_finite_is_refused_by_worker_and_cause(live, tmp_path):
    live.stop("worker 2")
    held = dict(np.load(live.data[2]))
    wild = live.folder / "wild.npz"
    np.savez(wild, x_train=held["x_train"] * np.float32(1e30), y_train=held["y_train"])
    live.start_worker(2, wild)
    out = tmp_path / "deployed"
    try:
        done = live.run(out, *words(sampling="without-replacement", cohort=3, over_enlist=1.34))
    finally:
        live.stop("worker 2")
        live.start_worker(2)
    assert done.returncode == 0, done.stdout + done.stderr
    refused = events(out, "refused")
    assert refused
    assert {event["worker"] for event in refused} == {2}
    assert "not finite" in refused[0]["cause"]
    assert "the reply of worker 2 is not used" in done.stdout
    assert not any(2 in ids for ids in cohorts(out))


def test_fewer_than_n_alive_stops_with_what_there_is_and_says_why(live, tmp_path):
    out = tmp_path / "deployed"
    with live.running(
        out, *words(rounds=50, cohort=3, over_enlist=1.0, join_seconds=3, patience=2, deadline=40)
    ) as process:
        until(lambda: status(out)["round"] >= 1)
        for worker in (0, 1):
            live.stop(f"worker {worker}")
        began = time.monotonic()
        said, complained = process.communicate(timeout=200)
    assert process.returncode == 1, said + complained
    assert "abandoned 2 times in a row" in complained
    # Two attempts of at most 43 s each, and the time to end.
    assert time.monotonic() - began < 150
    found = summary(out)
    assert found["status"] == "abandoned"
    assert found["rounds"] == len(cohorts(out)) >= 1
    assert (out / "model.safetensors").exists()
    for worker in (0, 1):
        live.start_worker(worker)
    again = live.run(out, "--resume", str(out), "--rounds", str(found["rounds"] + 1))
    assert again.returncode == 0, again.stdout + again.stderr
    assert summary(out)["rounds"] == found["rounds"] + 1


def test_a_full_disk_ends_the_run_with_one_line_and_loses_no_round(live, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a small disk can only be made by root")
    out = disk / "deployed"
    try:
        done = live.run(out, *words(model="two_nn", rounds=6, over_enlist=1.0))
        assert done.returncode == 1, done.stdout + done.stderr
        assert "space" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        kept = max(int(path.name) for path in (out / "checkpoints").iterdir() if path.name.isdigit())
        subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
        again = live.run(out, "--resume", str(out))
        assert again.returncode == 0, again.stdout + again.stderr
        assert f"going on after round {kept}" in again.stdout
        assert len(cohorts(out)) == 6
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
