"""A run is checked before anything is made, carried to the workers as it is, watched, and started again."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enlist.deploy import control, operate
from enlist.deploy import job as jobs
from enlist.deploy.app_folder import PACKAGE, make_app
from enlist.deploy.operate import Asked, Seen, in_words, kept_exchange, prepare
from enlist.deploy.place import ServerPlace
from enlist.engine.folder import RunFolder
from enlist.errors import BadInput, EnlistError
from enlist.options import unflatten
from enlist.options.deploy import DeployRunOptions

WORKERS = 5
SMALL = {"dataset": "digits", "cohort": 2, "rounds": 3, "model": "logistic"}
ALGORITHM = Path(__file__).parent.parent.parent / "examples" / "clipped.py"
MODEL = """
from enlist import models


def make():
    return models.logistic()
"""


def asked(**flat):
    return Asked.of(unflatten(DeployRunOptions, SMALL | flat))


def prepared(out, **flat):
    return prepare(asked(**flat), WORKERS, out, {})


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def own_model(folder, name="mine.py"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(MODEL)
    return f"{folder / name}:make"


@pytest.mark.parametrize(
    ("flat", "said"),
    [
        ({"workers": 7}, "workers = 7: this deployment has 5; leave it out"),
        ({"sampling": "recorded:cohorts.jsonl", "cohort": None}, "no such file"),
        ({"algorithm": "scaffold", "sampling": "with-replacement"}, "use without-replacement"),
        ({"cohort": 6}, "cohort = 6 is more than the 5 workers there are"),
        ({"model": "two_n"}, "did you mean 'two_nn'"),
        ({"algorithm": "fedavgg"}, "did you mean 'fedavg'"),
        ({"mu": 0.1}, "fedavg has no such option"),
        ({"local_steps": 1, "local_epochs": 1}, "choose one of them"),
        ({"dataset": "none.npz"}, "none.npz: no such file"),
        ({"model": "cnn"}, "cnn was given examples of shape (8, 8, 1)"),
        ({"target": 2.0}, "target = 2: an accuracy"),
        ({"grad_norm": True}, "grad-norm: the server of a deployment has no rows of the workers"),
        ({"worker_accuracy": True}, "worker-accuracy: "),
        ({"share_data": 0.1}, "share-data: the workers of a deployment hold their rows already"),
        ({"resume": "nowhere"}, "was not deployed"),
    ],
)
def test_what_cannot_run_is_refused_in_one_line_and_nothing_is_made(out, flat, said):
    with pytest.raises(BadInput) as error:
        prepared(out, **flat)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert not out.exists()


def test_workers_do_not_come_as_recorded(tmp_path, out):
    (tmp_path / "cohorts.jsonl").write_text('{"round": 0, "ids": [1]}\n')
    with pytest.raises(BadInput, match="workers cannot be made to come as recorded; simulate that"):
        prepared(out, sampling=f"recorded:{tmp_path}/cohorts.jsonl", cohort=None)


def test_own_files_must_not_be_in_each_others_way(tmp_path, out):
    with pytest.raises(BadInput, match=r"server\.py: give the file another name"):
        prepared(out, model=own_model(tmp_path, "server.py"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/mine.py").write_text(ALGORITHM.read_text())
    with pytest.raises(BadInput, match=r"mine\.py: give the file another name"):
        prepared(out, model=own_model(tmp_path), algorithm=f"{tmp_path}/other/mine.py:clipped")
    assert not out.exists()


def test_a_folder_that_holds_something_is_not_touched(out):
    out.mkdir()
    (out / "mine.txt").touch()
    with pytest.raises(BadInput, match="that folder is not empty"):
        prepared(out)
    assert [path.name for path in out.iterdir()] == ["mine.txt"]


def test_resuming(out):
    job = prepared(out, over_enlist=1.0)
    again = prepared(out, resume=str(out), over_enlist=2.0, rounds=6)
    assert (again.token, again.exchange.over_enlist) == (job.token, 2.0)
    assert again.config == {**job.config, "rounds": 6}
    assert RunFolder(out).config()["rounds"] == 6
    assert kept_exchange(out)["over_enlist"] == 2.0
    with pytest.raises(
        BadInput, match=r"worker-lr is 0\.5 now but was 0\.1; only rounds and target may change"
    ):
        prepared(out, resume=str(out), worker_lr=0.5)
    assert RunFolder(out).config()["worker_lr"] == 0.1


def test_a_simulated_run_is_not_taken_for_a_deployed_one(out):
    RunFolder(out).begin({"rounds": 3}, {"workers": WORKERS})
    with pytest.raises(BadInput, match=f"that run was not deployed; go on with: enlist run --resume {out}"):
        prepared(out, resume=str(out))
    assert kept_exchange(out) == {}


def test_two_runs_have_two_tokens(tmp_path):
    assert prepared(tmp_path / "one").token != prepared(tmp_path / "two").token


def test_the_job_reads_back_equal_with_own_files_beside_it(tmp_path, out, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "a:b"  # a colon in a folder's name must not confuse
    model = own_model(own)
    np.savez("held.npz", x=np.zeros((4, 64), np.float32), y=np.arange(4))
    (own / "clipped.py").write_text(ALGORITHM.read_text())
    flat = {"model": model, "algorithm": f"{own}/clipped.py:clipped", "dataset": "held.npz"}
    job = prepared(out, norm_bound=3.0, **flat)
    assert (job.classes, job.config["dataset"]) == (4, str(tmp_path / "held.npz"))
    assert len(job.config["model_sha256"]) == 64
    make_app(out / "app", job)
    package = out / "app" / PACKAGE
    assert jobs.read_job(package) == job
    assert {path.name for path in package.iterdir()} == {
        "__init__.py",
        "server.py",
        "worker.py",
        "mine.py",
        "clipped.py",
        "job.json",
    }
    for path in own.iterdir():
        path.unlink()
    it = jobs.problem(job, package)
    assert it.algorithm.name == "clipped"
    assert set(it.rates) == {"worker_lr", "server_lr", "bound"}
    assert it.options.settings.rounds == 3
    # The folder is made anew each time.
    (package / "old.py").touch()
    make_app(out / "app", replace(job, config=job.config | {"model": "logistic", "algorithm": "fedavg"}))
    assert not (package / "old.py").exists()
    assert not (package / "mine.py").exists()


def test_another_enlist_is_refused(out):
    make_app(out / "app", replace(prepared(out), version="0.0.1"))
    with pytest.raises(BadInput, match=r"the server runs enlist 0\.0\.1, this machine"):
        jobs.read_job(out / "app" / PACKAGE)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            {"what": "refused", "round": 2, "worker": 1, "cause": "it holds NaN"},
            "round 3: the reply of worker 1 is not used: it holds NaN",
        ),
        (
            {"what": "abandoned", "round": 0, "cause": "none came"},
            "round 1 is abandoned: none came",
        ),
        ({"what": "resumed", "round": 4}, "going on after round 4"),
        (
            {"what": "dropped", "round": 1, "late": 2, "doubled": 0, "unsolicited": 1},
            "round 2: replies dropped: 2 late, 1 unsolicited",
        ),
    ],
)
def test_events_in_words(event, words):
    assert in_words(event) == words


class Watched:
    """A run's folder as its server app would write it."""

    def __init__(self, out):
        self.job = prepared(out)
        self.out, self.said = out, []

    def status(self, t, doing="a new round", pid=None):
        facts = {"pid": os.getpid() if pid is None else pid, "round": t, "doing": doing}
        (self.out / "status.json").write_text(json.dumps(facts))

    def round(self, t):
        RunFolder(self.out).append({"round": t, "train_loss": None, "local_loss": 0.5, "test_accuracy": 0.25})
        self.status(t)

    def event(self, text):
        with (self.out / "events.jsonl").open("a") as file:
            file.write(text)


@pytest.fixture
def watched(out):
    return Watched(out)


def test_rounds_and_events_are_shown_once_each(watched):
    watched.event('{"what": "resumed", "round": 0}\n')
    seen = Seen(watched.out, watched.job, watched.said.append)
    seen.look()
    assert watched.said == []
    watched.status(0, "waiting for workers: 1 of 5 are there")
    seen.look()
    seen.look()
    watched.round(1)
    seen.look()
    seen.look()
    watched.event('{"what": "abandoned", "round": 1, "cause": "so"}\n{"what": "aban')
    seen.look()
    seen.look()
    watched.event('doned", "round": 1, "cause": "again"}\nno line at all\n')
    watched.round(2)
    seen.look()
    seen.look()
    assert watched.said == [
        "waiting for workers: 1 of 5 are there",
        "round 1/3  local loss 0.5000  accuracy 25.00%",
        "round 2 is abandoned: so",
        "round 2 is abandoned: again",
        "round 2/3  local loss 0.5000  accuracy 25.00%",
    ]
    assert seen.t == 2


@pytest.fixture
def run(watched, monkeypatch):
    """`run_deployed` where Flower does what a list of functions says, one for each start."""
    monkeypatch.setattr(operate, "LOOK_SECONDS", 0.001)
    stopped = []
    monkeypatch.setattr(control, "stop", lambda place, run_id: stopped.append(run_id))
    monkeypatch.setattr(control, "status", lambda place, run_id: "finished:failed")

    def started(*starts):
        left = list(enumerate(starts, start=1))

        def submit(place, app):
            assert (app / PACKAGE / "job.json").exists()
            assert not (watched.out / "ended.json").exists()
            run_id, act = left.pop(0)
            act()
            return run_id

        monkeypatch.setattr(control, "submit", submit)
        place = ServerPlace(watched.out, "localhost", 1, WORKERS)
        return operate.run_deployed(place, watched.job, watched.said.append), stopped

    return started


def dead():
    """The id of a process that is no more."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    return gone.pid


def test_how_it_ended_is_returned(watched, run):
    def act():
        watched.round(3)
        (watched.out / "ended.json").write_text('{"status": "done"}')

    assert run(act) == ({"status": "done"}, [])
    assert watched.said == ["round 3/3  local loss 0.5000  accuracy 25.00%"]


def test_a_server_app_that_died_is_started_again(watched, run):
    def end():
        watched.round(3)
        (watched.out / "ended.json").write_text('{"status": "done"}')

    ended, stopped = run(lambda: (watched.round(1), watched.status(1, pid=dead())), end)
    assert (ended, stopped) == ({"status": "done"}, [1])
    assert "the server app is gone; it is started again and goes on after round 1" in watched.said


def test_one_that_dies_and_dies_is_given_up(watched, run):
    with pytest.raises(EnlistError, match=r"ended 3 times in round 1 without saying why: see .*exec"):
        run(*[lambda: watched.status(0, pid=dead())] * 3)


def test_one_that_never_starts_is_given_up(watched, run, monkeypatch):
    monkeypatch.setattr(operate, "START_SECONDS", 0.01)
    with pytest.raises(EnlistError, match=r"did not start within 0\.01 s \(Flower says finished:failed\)"):
        run(lambda: None)
