"""`enlist deploy local`: the whole of it by one command, and nothing left of it afterwards."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from live import PATIENCE, processes_of, status, until

COMMAND = [sys.executable, "-m", "enlist", "deploy", "local", "--dataset", "digits", "--model", "logistic"]


def test_one_command_deploys_runs_and_leaves_nothing_behind(tmp_path):
    out = tmp_path / "out"
    words = ["--workers", "2", "--cohort", "2", "--rounds", "2", "--local-epochs", "1", "--json"]
    done = subprocess.run(
        [*COMMAND, *words, "--out", str(out)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["status"] == "done"
    assert told["rounds"] == 2
    assert {path.name for path in out.iterdir()} >= {
        "config.yaml",
        "metrics.jsonl",
        "summary.json",
        "model.safetensors",
        "checkpoints",
        "curves.png",
        "report.html",
        "cohorts.jsonl",
    }
    # With its keys.
    assert not (out / "deployment").exists()
    assert not processes_of(out)


@pytest.mark.slow
def test_interrupted_it_ends_everything_and_can_go_on(tmp_path):
    """SCAFFOLD, whose workers' states must outlive the interruption."""
    out, whole = tmp_path / "out", tmp_path / "whole"
    words = [
        "--workers",
        "3",
        "--cohort",
        "2",
        "--rounds",
        "4",
        "--algorithm",
        "scaffold",
        "--over-enlist",
        "1",
    ]
    process = subprocess.Popen(
        [*COMMAND, *words, "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until(lambda: status(out)["round"] >= 2)
    process.send_signal(signal.SIGINT)
    _, complained = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, complained
    assert f"enlist deploy local --resume {out}" in complained
    until(lambda: not processes_of(out), 15)
    taken_over = tmp_path / "taken-over"
    shutil.copytree(out, taken_over)
    again = subprocess.run(
        [*COMMAND[:5], "--resume", str(out)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert again.returncode == 0, again.stdout + again.stderr
    simulated = [
        sys.executable,
        "-m",
        "enlist",
        "run",
        "--config",
        str(out / "config.yaml"),
        "--out",
        str(whole),
    ]
    subprocess.run(simulated, check=True, capture_output=True)
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    # The simulator goes on too, with what the workers kept.
    by_simulator = [sys.executable, "-m", "enlist", "run", "--resume", str(taken_over)]
    subprocess.run(by_simulator, check=True, capture_output=True)
    assert (taken_over / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_killed_it_takes_everything_with_it(tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen([*COMMAND, "--workers", "2", "--cohort", "2", "--out", str(out)])
    until(lambda: status(out)["round"] >= 1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(1)
    until(lambda: not processes_of(out), 30)
    assert Path(out / "config.yaml").exists()
