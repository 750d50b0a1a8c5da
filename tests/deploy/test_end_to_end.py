"""Four real workers with TLS and keys: the simulator's bits, and no process or call where none belongs."""

import os
import signal
from pathlib import Path

import pytest
from live import PATIENCE, WORKERS, Live, cohorts, status, summary, until

from enlist.launch.run import launch
from enlist.options import RunOptions, unflatten

# Small steps keep the tests short; who answers first is chance, so nobody is asked in reserve.
PROBLEM = {"dataset": "digits", "partition": "dirichlet:1", "workers": WORKERS, "model": "two_nn"}
METHOD = {"local_epochs": 1, "batch": 20, "rounds": 3, "cohort": 2}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    deployed = Live(tmp_path_factory.mktemp("live"))
    deployed.start_server()
    for worker in range(WORKERS):
        deployed.start_worker(worker)
    yield deployed
    deployed.stop_all()
    assert not deployed.left()


def words(**options):
    return [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]


def deploy(live, out, **options):
    return live.run(
        out, *words(**{**PROBLEM, **METHOD, "over_enlist": 1.0, "join_seconds": PATIENCE, **options})
    )


def simulated(out, **options):
    launch(unflatten(RunOptions, {**PROBLEM, **METHOD, **options}), out, live=False)
    return (out / "model.safetensors").read_bytes()


def model(out: Path) -> bytes:
    return (out / "model.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"algorithm": "fedavg"}, id="fedavg"),
        pytest.param({"algorithm": "scaffold"}, id="scaffold"),
        pytest.param({"algorithm": "fedavg", "sampling": "with-replacement", "cohort": 3}, id="strategy-1"),
    ],
)
def test_deployed_and_simulated_are_equal_to_the_bit(live, tmp_path, options):
    done = deploy(live, tmp_path / "deployed", **options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert model(tmp_path / "deployed") == simulated(tmp_path / "simulated", **options)
    assert "round 3/3" in done.stdout


def test_a_killed_server_app_and_a_killed_link_change_no_bit(live, tmp_path):
    """One after the other in one run: the run goes on by itself each time, workers' states included."""
    out, scaffold = tmp_path / "deployed", {"algorithm": "scaffold"}
    options = {**PROBLEM, **METHOD, **scaffold, "over_enlist": 1.0, "join_seconds": PATIENCE}
    with live.running(out, *words(**options)) as process:
        until(lambda: status(out)["round"] >= 1)
        os.kill(status(out)["pid"], signal.SIGKILL)
        until(lambda: status(out)["round"] >= 2)
        os.kill(live.link(), signal.SIGKILL)
        said, complained = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said + complained
    assert "started again" in said
    assert "round 3/3" in said
    assert model(out) == simulated(tmp_path / "simulated", **scaffold)
    assert summary(out)["deployment"]["sittings"] == 2


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_a_round_is_done_without(live, tmp_path):
    out = tmp_path / "deployed"
    options = {**PROBLEM, **METHOD, "rounds": 3, "cohort": 2, "over_enlist": 2.0}
    with live.running(out, *words(**options)) as process:
        until(lambda: live.app_of(1))
        os.kill(live.node_of(1), signal.SIGKILL)
        said, complained = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said + complained
    replayed = simulated(
        tmp_path / "simulated", rounds=3, cohort=None, sampling=f"recorded:{out}/cohorts.jsonl"
    )
    assert model(out) == replayed
    assert len(cohorts(out)) == 3


def test_nobody_outside_was_looked_up_or_called(live):
    """After all of the above: every process of the deployment wrote down whom it asked for."""
    calls = [line.split(" ", 1) for line in live.calls.read_text().splitlines()]
    assert {host for _, host in calls} <= {"localhost", "127.0.0.1", "::1", "None", "0.0.0.0", ""}
    assert any(kind == "connect" for kind, _ in calls)
