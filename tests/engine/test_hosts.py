"""One run on several hosts: real processes over loopback."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from enlist.errors import BadInput
from enlist.launch import joining, local_hosts
from enlist.launch.joining import Meeting

RUN = (
    "run --dataset rows --model logistic --partition by-key --cohort 5 --local-epochs 1 --batch 8 --seed 2 "
    "--rounds 6 --eval-every 2 --execution one-by-one --eval-rows 20"
)
# Of the training rows in the folder: far more than the program itself takes.
ROWS, FEATURES, WORKERS = 3000, 300_000, 300


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a data set of 900 MB in files, mostly empty ones on disk."""
    where = tmp_path_factory.mktemp("hosts")
    (where / "rows").mkdir()
    rng = np.random.default_rng(0)
    x = np.lib.format.open_memmap(
        where / "rows" / "x_train.npy", mode="w+", dtype=np.uint8, shape=(ROWS, FEATURES)
    )
    y = rng.integers(0, 3, ROWS)
    x[:, :20] = 255 * (y[:, None] == np.arange(20) % 3)
    x.flush()
    sizes = rng.multinomial(ROWS - WORKERS, rng.dirichlet(np.ones(WORKERS))) + 1
    rest = {"y_train": y, "x_test": x[:20], "y_test": y[:20], "worker": np.repeat(np.arange(WORKERS), sizes)}
    for name, array in rest.items():
        np.save(where / "rows" / f"{name}.npy", array)
    return where


def enlist(place, words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "enlist", *words.split()],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def done(place, words):
    process = enlist(place, words)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def left(place, out):
    """The model and the metrics; a norm over all parameters may differ in its last bits between machines."""
    lines = [json.loads(line) for line in (place / out / "metrics.jsonl").read_text().splitlines()]
    return (place / out / "model.safetensors").read_bytes(), [
        line | {"delta_norm": float(np.float16(line["delta_norm"]))} for line in lines
    ]


@pytest.fixture(scope="module")
def alone(place):
    done(place, f"{RUN} --out alone")
    return left(place, "alone")


@pytest.mark.parametrize("hosts", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_hosts_do_not_change_a_bit(place, alone, hosts):
    facts = json.loads(done(place, f"{RUN} --hosts local:{hosts} --out on{hosts} --json"))
    assert facts["rounds"] == 6
    assert facts["supply"]["rows"] == "host"
    assert left(place, f"on{hosts}") == alone


def test_each_host_holds_only_what_it_runs(place, alone):
    """The peak of each process stays far below the data, which both read from the same files."""
    both = enlist(place, f"{RUN} --hosts local:2 --out held")
    peaks = _peak_of_children(both)
    assert both.returncode == 0
    assert len(peaks) == 2
    data = ROWS * FEATURES / 2**20
    sent = json.loads((place / "held" / "summary.json").read_text())["supply"]["delivered_mib"]
    assert sent < data / 4, "a host is sent the rows of its own part of the cohorts, and of the next"
    # The program itself takes a good part of this, as much as it does without any data.
    assert max(peaks) < 0.8 * data, peaks


def _peak_of_children(parent):
    seen = {}
    while parent.poll() is None:
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        for pid in children.read_text().split() if children.exists() else []:
            seen[pid] = max(seen.get(pid, 0.0), _high(pid))
        time.sleep(0.02)
    return list(seen.values())


def _high(pid):
    """The most memory that a process has held, in MiB."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"VmHWM:\s+(\d+)", text)
    return int(found[1]) / 1024 if found else 0.0


@pytest.mark.parametrize(
    "lost", [pytest.param(0, id="lead"), pytest.param(1, id="other", marks=pytest.mark.slow)]
)
def test_a_lost_host_ends_the_run_and_it_goes_on_elsewhere(place, lost):
    longer = RUN.replace("--rounds 6", "--rounds 4000") + " --checkpoint-every 2"
    out = f"lost{lost}"
    process = enlist(place, f"{longer} --hosts local:2 --out {out}")
    metrics = place / out / "metrics.jsonl"
    _wait_until(lambda: metrics.exists() and len(metrics.read_text().splitlines()) >= 3, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    victim = next(pid for pid in children if f"JAX_PROCESS_ID={lost}" in _environment(pid))
    os.kill(int(victim), signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert f"host {lost} of 2 was lost (killed by SIGKILL); go on with: enlist run --resume {out}" in err
    assert "Traceback" not in err
    rounds = max(int(each.name) for each in (place / out / "checkpoints").iterdir() if each.name.isdigit())
    assert rounds >= 2
    # On one host, to a round that both have in common with a run that was left alone.
    goal = rounds + 4
    done(place, f"run --resume {out} --rounds {goal}")
    done(place, f"{RUN.replace('--rounds 6', f'--rounds {goal}')} --checkpoint-every 2 --out whole{lost}")
    assert left(place, out) == left(place, f"whole{lost}")


def _environment(pid):
    return Path(f"/proc/{pid}/environ").read_text().split("\0")


def _wait_until(true, process):
    for _ in range(2000):
        if true():
            return
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    raise AssertionError("it took too long")


def test_a_run_goes_on_with_more_hosts(place, alone):
    done(place, f"{RUN.replace('--rounds 6', '--rounds 2')} --out grows")
    done(place, "run --resume grows --rounds 6 --hosts local:2")
    assert left(place, "grows") == alone


def test_bad_input_is_one_line_from_all_hosts_together(place):
    process = enlist(place, f"{RUN} --cohort 999 --hosts local:2 --out never")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert err.count("enlist:") == 1
    assert "cohort = 999" in err
    (place / "used").mkdir()
    (place / "used" / "something").touch()
    process = enlist(place, f"{RUN} --hosts local:2 --out used")
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err.count("enlist:")) == (2, 1)


# ---- how they find each other ---------------------------------------------------------------------------


def test_hosts_are_named_alike_on_each(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "beta")
    monkeypatch.setattr("socket.getfqdn", lambda: "beta.example")
    assert joining.meeting("alpha,beta", None) == Meeting("alpha:9911", 2, 1)
    assert joining.meeting("beta.example:7000,alpha", None) == Meeting("beta.example:7000", 2, 0)
    assert joining.meeting("10.0.0.1,10.0.0.2", 1) == Meeting("10.0.0.1:9911", 2, 1)
    for hosts, host_id, said in [
        ("alpha,gamma", None, "this machine is called beta"),
        ("alpha,beta", 2, "choose 0 to 1"),
        ("alpha", None, "names with commas"),
        ("alpha:x,beta", None, "is no port"),
        (None, 1, "belongs to --hosts"),
    ]:
        with pytest.raises(BadInput, match=said):
            joining.meeting(hosts, host_id)


def test_a_cluster_says_who_one_is(monkeypatch):
    for name in [key for key in os.environ if key.startswith(("SLURM", "OMPI", "JAX_", "KUBERNETES"))]:
        monkeypatch.delenv(name)
    assert joining.meeting(None, None) is None
    with pytest.raises(BadInput, match="neither SLURM nor mpirun nor Kubernetes"):
        joining.meeting("auto", None)
    monkeypatch.setenv("SLURM_NTASKS", "1")
    monkeypatch.setenv("SLURM_PROCID", "0")
    assert joining.meeting(None, None) is None
    monkeypatch.setenv("SLURM_NTASKS", "4")
    assert joining.meeting(None, None) == Meeting()
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", "pod-0.jobs:9911")
    monkeypatch.setenv("JAX_NUM_PROCESSES", "8")
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "3")
    assert joining.meeting(None, None) == Meeting("pod-0.jobs:9911", 8, 3)
    monkeypatch.setenv("JAX_NUM_PROCESSES", "many")
    with pytest.raises(BadInput, match="JAX_NUM_PROCESSES is 'many'"):
        joining.meeting(None, None)


def test_what_runs_on_one_host_is_not_begun_on_several(monkeypatch):
    joining.refuse_several("sweep")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    with pytest.raises(BadInput, match="sweep: it runs on one host"):
        joining.refuse_several("sweep")


def test_the_number_of_local_processes():
    assert local_hosts.number("local:3") == 3
    assert local_hosts.number("alpha,beta") is None
    for wrong in ("local:0", "local:x", "local:99"):
        with pytest.raises(BadInput, match="local:N takes N from 1 to 64"):
            local_hosts.number(wrong)
