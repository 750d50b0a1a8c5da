"""A deployed run from its folder to its outcome: killed at any moment it goes on to the same bits."""

import errno
import json
import resource
from pathlib import Path

import pytest
from stub import (
    SMALL,
    Killed,
    carry_out,
    cohorts,
    deployment,
    events,
    lines,
    model,
    resumed,
    same,
    simulated,
    summary,
)

from enlist.commands.shared import read_options
from enlist.deploy.ledger import Ledger
from enlist.engine.checkpoint import Checkpoints
from enlist.engine.folder import RunFolder
from enlist.errors import BadInput
from enlist.options import RunOptions
from enlist.report.record import load, outcome

METHODS = {"fedavg": {}, "scaffold": {"algorithm": "scaffold"}}
ROUNDS = 4
# What is called at the moments at which a kill is tried, in round 1: at the sending, in the middle of the collecting,
# before the cohort is noted, before the metrics, before the checkpoint, and after it.
MOMENTS = ["push", "pull", "used", "append", "save", "saved"]


def killing(monkeypatch, grid, moment, kill):
    """Arranges that `kill` is called at the moment."""
    if moment in ("push", "pull"):
        asked = []

        def watch(what):
            asked.append(what)
            if what == moment and asked.count("push") == 2:
                kill()

        grid.watch = watch
        return
    owner = {"used": Ledger, "append": RunFolder, "save": Checkpoints, "saved": Checkpoints}[moment]
    name = moment.removesuffix("d") if moment == "saved" else moment
    inner, calls = getattr(owner, name), []

    def instead(self, *given, **named):
        calls.append(given)
        if len(calls) == 2 and moment != "saved":
            kill()
        inner(self, *given, **named)
        if len(calls) == 2 and moment == "saved":
            kill()

    monkeypatch.setattr(owner, name, instead)


def die():
    raise Killed


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Uninterrupted runs."""
    made = {}

    def get(name):
        if name not in made:
            grid, made[name], _ = deployment(tmp_path_factory.mktemp(name), rounds=ROUNDS, **METHODS[name])
            assert carry_out(grid, made[name])["status"] == "done"
        return made[name]

    return get


def check_equal(job, other):
    assert same(model(Path(job.out)), model(Path(other.out)))
    assert cohorts(job) == cohorts(other)
    untimed = [{k: v for k, v in line.items() if "seconds" not in k} for line in lines(job, "metrics.jsonl")]
    assert untimed == [
        {k: v for k, v in line.items() if "seconds" not in k} for line in lines(other, "metrics.jsonl")
    ]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("method", METHODS)
def test_killed_and_started_again(tmp_path, monkeypatch, whole, method, moment):
    grid, job, _ = deployment(tmp_path, rounds=ROUNDS, **METHODS[method])
    with monkeypatch.context() as patched:
        killing(patched, grid, moment, die)
        with pytest.raises(Killed):
            carry_out(grid, job)
    assert not (Path(job.out) / "ended.json").exists()
    # The workers' disks are as they were left; the grid knows nothing of before.
    again, job, _ = deployment(tmp_path, rounds=ROUNDS, **METHODS[method])
    assert carry_out(again, job)["status"] == "done"
    done = 2 if moment == "saved" else 1
    assert [order["t"] for order in again.orders()] == [t for t in range(done, ROUNDS) for _ in range(2)]
    check_equal(job, whole(method))
    (event,) = events(job, "resumed")
    assert event["round"] == done
    assert summary(job)["deployment"]["sittings"] == 2


def test_killed_before_anything_was_kept(tmp_path, monkeypatch, whole):
    grid, job, _ = deployment(tmp_path, rounds=ROUNDS)

    def stop(self, state):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoints, "save", stop)
        with pytest.raises(Killed):
            carry_out(grid, job)
    assert len(lines(job, "cohorts.jsonl")) == len(lines(job, "metrics.jsonl")) == 1
    assert carry_out(grid, job)["status"] == "done"
    check_equal(job, whole("fedavg"))


@pytest.mark.parametrize("method", METHODS)
def test_a_full_disk_is_told_and_with_room_it_goes_on(tmp_path, monkeypatch, whole, method):
    grid, job, _ = deployment(tmp_path, rounds=ROUNDS, **METHODS[method])

    def full():
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        killing(patched, grid, "save", full)
        ended = carry_out(grid, job)
    assert (ended["status"], ended["reason"], ended["exit"]) == (
        "failed",
        "the disk: No space left on device",
        1,
    )
    assert [int(path.name) for path in (Path(job.out) / "checkpoints").iterdir()] == [1]
    assert carry_out(grid, job)["status"] == "done"
    check_equal(job, whole(method))


@pytest.mark.parametrize("most", [300, 1500])
def test_a_disk_that_really_takes_no_more(tmp_path, monkeypatch, whole, most):
    """What Orbax and what lies beneath it make of that are errors of other kinds."""
    grid, job, _ = deployment(tmp_path, rounds=ROUNDS)
    save, soft = Checkpoints.save, resource.getrlimit(resource.RLIMIT_FSIZE)

    def limited(self, state):
        if int(state.t) == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, soft[1]))
        try:
            save(self, state)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, soft)

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoints, "save", limited)
        ended = carry_out(grid, job)
    assert ended["status"] == "failed"
    assert ended["reason"].endswith(": File too large")
    assert "\n" not in ended["reason"]
    assert carry_out(grid, job)["status"] == "done"
    check_equal(job, whole("fedavg"))


def test_lines_that_were_cut_short_are_none(tmp_path, whole):
    grid, job, _ = deployment(tmp_path, rounds=2)
    assert carry_out(grid, job)["status"] == "done"
    for name in ("cohorts.jsonl", "metrics.jsonl", "events.jsonl"):
        with (Path(job.out) / name).open("a") as file:
            file.write('{"what": "refused", "round": 2, "wor')
    again, job, _ = deployment(tmp_path, rounds=ROUNDS)
    assert carry_out(again, job)["status"] == "done"
    told = (Path(job.out) / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["what"] for line in told if line.endswith("}")] == ["resumed"]
    assert summary(job)["deployment"]["refusals"] == 0
    (Path(job.out) / "events.jsonl").unlink()
    check_equal(job, whole("fedavg"))


def test_without_the_record_workers_states_are_not_guessed(tmp_path):
    grid, job, _ = deployment(tmp_path, rounds=1, **METHODS["scaffold"])
    assert carry_out(grid, job)["status"] == "done"
    (Path(job.out) / "cohorts.jsonl").unlink()
    again, job, _ = deployment(tmp_path, rounds=2, **METHODS["scaffold"])
    ended = carry_out(again, job)
    assert (ended["status"], ended["exit"]) == ("failed", 2)
    assert "cohorts.jsonl: not every round up to 1 is there" in ended["reason"]
    assert again.sent == []


def test_a_worker_whose_disk_was_lost_says_so(tmp_path):
    grid, job, _ = deployment(tmp_path, {"over_enlist": 2.5}, rounds=1, **METHODS["scaffold"])
    assert carry_out(grid, job)["status"] == "done"
    for path in (tmp_path / "workers/0/state/t0").iterdir():
        path.unlink()
    again, job, _ = deployment(tmp_path, {"over_enlist": 2.5}, rounds=2, **METHODS["scaffold"])
    assert carry_out(again, job)["status"] == "done"
    (event,) = events(job, "refused")
    assert event["worker"] == 0
    assert event["cause"].startswith("the state of round 0 is not on this worker's disk (kept: none)")


def test_only_rounds_that_are_to_be_evaluated_are(tmp_path):
    grid, job, _ = deployment(tmp_path, rounds=3, eval_every=2)
    carry_out(grid, job)
    assert [line["round"] for line in lines(job, "metrics.jsonl")] == [2, 3]
    again, job, _ = deployment(tmp_path, rounds=5, eval_every=2)
    carry_out(again, job)
    assert [line["round"] for line in lines(job, "metrics.jsonl")] == [2, 4, 5]


# What only a simulation has: who runs side by side, how rows get to the devices; and what only a deployed run has.
SIMULATED_ALONE = {"compile_seconds", "device_seconds", "devices", "supply"}
DEPLOYED_ALONE = {"deployment"}


def test_the_folder_is_that_of_a_run(tmp_path, whole):
    job = whole("fedavg")
    run = simulated(tmp_path / "simulated", rounds=ROUNDS, target=0.5)
    grid, aimed, _ = deployment(tmp_path, rounds=ROUNDS, target=0.5)
    carry_out(grid, aimed)
    assert set(summary(aimed)) - DEPLOYED_ALONE == set(run.summary) - SIMULATED_ALONE
    # The seconds of computing are the workers' and cannot be told from those of sending.
    apart = {"compute_seconds", "communication_seconds"}
    assert set(summary(aimed)["target"]) == set(run.summary["target"]) - apart
    assert [set(line) - {"local_loss"} for line in lines(job, "metrics.jsonl")] == [
        set(line) for line in run.metrics
    ]
    assert set(summary(job)["final"]) - {"local_loss"} == set(run.summary["final"])
    for line, other in zip(lines(job, "metrics.jsonl"), run.metrics, strict=True):
        for name in ("round", "test_loss", "test_accuracy", "delta_norm", "cohort", "uplink_bytes"):
            assert line[name] == pytest.approx(other[name], rel=1e-6)
        assert line["train_loss"] is None
        assert line["local_loss"] > 0
    record = load(job.out)
    assert record.is_deployed
    assert outcome(record).rounds == ROUNDS
    assert outcome(record).final == pytest.approx(run.metrics[-1]["test_accuracy"])
    options, hashes = read_options(RunOptions, {"config": str(Path(job.out) / "config.yaml")})
    assert (options.settings.rounds, options.problem.workers, hashes) == (ROUNDS, SMALL["workers"], {})
    assert set(RunFolder(Path(job.out)).config()) == set(run.config)


def test_the_simulator_goes_on_with_a_deployed_run(tmp_path):
    grid, job, _ = deployment(tmp_path, rounds=3)
    carry_out(grid, job)
    resumed(Path(job.out), rounds=6)
    run = simulated(tmp_path / "simulated", rounds=6)
    assert same(model(Path(job.out)), model(tmp_path / "simulated"))
    assert [line["round"] for line in lines(job, "metrics.jsonl")] == [1, 2, 3, 4, 5, 6]
    assert [line["cohort"] for line in lines(job, "metrics.jsonl")] == [
        line["cohort"] for line in run.metrics
    ]


def test_not_where_workers_keep_states_on_their_own_disks(tmp_path):
    grid, job, _ = deployment(tmp_path, rounds=1, **METHODS["scaffold"])
    carry_out(grid, job)
    before = model(Path(job.out))
    with pytest.raises(BadInput) as said:
        resumed(Path(job.out), rounds=2)
    assert str(said.value) == (
        f"resume {job.out}: that run was deployed, and what scaffold keeps from round to round is on its workers' "
        f"disks, not here; go on with: enlist deploy run DIR --resume {job.out}"
    )
    assert same(model(Path(job.out)), before)


def test_bad_input_is_told_with_its_exit_code(tmp_path):
    grid, job, _ = deployment(tmp_path)
    told = json.loads((grid.folder / "job.json").read_text())
    told["config"]["dataset"] = str(tmp_path / "none.npz")
    (grid.folder / "job.json").write_text(json.dumps(told))
    ended = carry_out(grid, job)
    assert (ended["status"], ended["exit"]) == ("failed", 2)
    assert "none.npz: no such file" in ended["reason"]
    status = json.loads((Path(job.out) / "status.json").read_text())
    assert status["round"] == 0
