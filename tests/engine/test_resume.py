"""A run that stopped goes on as if it had not: parameters, optimizer and worker states, metrics."""

import json
import shutil
import signal
import subprocess
import sys
import threading
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import optax
import pytest
from conftest import make_dataset
from test_program import counting

import enlist
from enlist import Steps, models, partition
from enlist.engine import holding, loop, undertaking
from enlist.engine.checkpoint import Checkpoints
from enlist.engine.crew import Alone
from enlist.engine.folder import RunFolder

MOMENTUM = partial(optax.sgd, momentum=0.9)


def run(out=None, algorithm=None, **options):
    fed = options.pop("fed", None) or partition.iid(make_dataset(), 7, 0)
    arguments = {
        "cohort": 3,
        "rounds": 8,
        "local": Steps(2, 4),
        "seed": 5,
        "out": out,
        "eval_every": 2,
    } | options
    return enlist.simulate(algorithm or enlist.fedavg(server=MOMENTUM), models.logistic(), fed, **arguments)


def state(result):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(result.session.state)]


def test_with_more_rounds_than_first_asked(tmp_path):
    whole = run(tmp_path / "whole")
    run(tmp_path / "cut", rounds=4)
    cut = run(tmp_path / "cut", resume=True)
    assert all((a == b).all() for a, b in zip(state(whole), state(cut), strict=True))
    assert (tmp_path / "whole/metrics.jsonl").read_text() == (tmp_path / "cut/metrics.jsonl").read_text()
    assert RunFolder(tmp_path / "cut").config()["rounds"] == 8
    assert cut.metrics == whole.metrics


def test_worker_states_too(tmp_path):
    whole = run(algorithm=counting())
    run(tmp_path / "cut", algorithm=counting(), rounds=3)
    cut = run(tmp_path / "cut", algorithm=counting(), resume=True)
    assert all((a == b).all() for a, b in zip(state(whole), state(cut), strict=True))


def test_lines_after_the_checkpoint_are_not_doubled_and_a_torn_one_is_dropped(tmp_path):
    whole = run(tmp_path / "whole")
    run(tmp_path / "cut", rounds=4)
    metrics = tmp_path / "cut/metrics.jsonl"
    with metrics.open("a") as file:
        file.write(json.dumps(whole.metrics[2] | {"train_loss": -1.0}) + '\n{"round": 8, "tr')
    run(tmp_path / "cut", resume=True)
    assert metrics.read_text() == (tmp_path / "whole/metrics.jsonl").read_text()


def test_from_the_beginning_when_nothing_was_saved_yet(tmp_path):
    whole = run()
    run(tmp_path / "cut", rounds=4)
    for saved in (tmp_path / "cut/checkpoints").iterdir():
        for path in sorted(saved.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        saved.rmdir()
    cut = run(tmp_path / "cut", resume=True)
    assert all((a == b).all() for a, b in zip(state(whole), state(cut), strict=True))
    assert cut.metrics == whole.metrics


@pytest.mark.parametrize(("saving", "wanted"), [(0.0, [2, 4, 6, 8]), (0.17, [2, 6, 8]), (100.0, [2, 8])])
def test_what_takes_long_to_save_is_saved_rarely(saving, wanted, tmp_path, monkeypatch):
    now, kept, advance = [0.0], [], Alone.advance

    def a_second_a_round(self, rounds, evaluate):
        now[0] += rounds
        return advance(self, rounds, evaluate)

    def save(self, state, facts):
        now[0] += saving
        kept.append(int(state.t))

    monkeypatch.setattr(Alone, "advance", a_second_a_round)
    monkeypatch.setattr(Checkpoints, "save", save)
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 1.5)
    run(tmp_path / "run")
    assert sorted(set(kept)) == wanted


def test_only_the_newest_few_checkpoints_are_kept(tmp_path):
    run(tmp_path / "run", checkpoint_every=2)
    assert sorted(int(path.name) for path in (tmp_path / "run/checkpoints").iterdir()) == [6, 8]


def test_an_interrupt_saves_and_is_taken_up(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "BLOCK_SECONDS", 0.0)
    whole = run(tmp_path / "whole")
    append = RunFolder.append

    def interrupt(self, line):
        append(self, line)
        if line["round"] == 4:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(RunFolder, "append", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut")
    monkeypatch.setattr(RunFolder, "append", append)
    assert json.loads((tmp_path / "cut/summary.json").read_text())["status"] == "interrupted"
    cut = run(tmp_path / "cut", resume=True)
    assert all((a == b).all() for a, b in zip(state(whole), state(cut), strict=True))
    assert (tmp_path / "whole/metrics.jsonl").read_text() == (tmp_path / "cut/metrics.jsonl").read_text()


def test_a_run_in_another_thread_leaves_signals_alone():
    before = signal.getsignal(signal.SIGINT)
    results = []
    thread = threading.Thread(target=lambda: results.append(run(rounds=2)))
    thread.start()
    thread.join()
    assert results[0].summary["status"] == "done"
    assert signal.getsignal(signal.SIGINT) is before


def test_a_changed_option_is_refused_by_name(tmp_path):
    run(tmp_path / "run", rounds=2)
    with pytest.raises(enlist.BadInput, match="seed is 6 now but was 5"):
        run(tmp_path / "run", seed=6, resume=True)
    with pytest.raises(enlist.BadInput, match="2 rounds are done already"):
        run(tmp_path / "run", rounds=1, resume=True)


@pytest.mark.parametrize(
    ("algorithm", "says"),
    [
        (None, "its rows, or who holds them, are others; give the same one"),
        (
            enlist.scaffold,
            "the states that scaffold kept with the workers belong to rows that they no longer hold",
        ),
    ],
)
def test_other_rows_under_the_same_names_are_refused(tmp_path, algorithm, says):
    algorithm = algorithm and algorithm()
    run(tmp_path / "run", algorithm, rounds=2)
    for fed in (partition.iid(make_dataset(), 7, 1), partition.iid(make_dataset(seed=1), 7, 0)):
        with pytest.raises(enlist.BadInput, match=says):
            run(tmp_path / "run", algorithm, resume=True, fed=fed)
    assert len(run(tmp_path / "run", algorithm, resume=True).metrics) == 4


def test_a_run_from_before_fingerprints_is_taken_up(tmp_path):
    run(tmp_path / "run", rounds=2)
    kept = tmp_path / "run/partition.json"
    facts = json.loads(kept.read_text())
    del facts["fingerprint"]
    kept.write_text(json.dumps(facts))
    assert run(tmp_path / "run", resume=True).summary["rounds"] == 8


def test_a_broken_checkpoint_is_named(tmp_path):
    run(tmp_path / "run", rounds=2)
    for path in (tmp_path / "run/checkpoints/2").rglob("*"):
        if path.is_file():
            path.write_bytes(b"not a checkpoint")
    with pytest.raises(enlist.BadInput, match="checkpoints/2"):
        run(tmp_path / "run", resume=True)


def test_a_folder_in_use_is_not_overwritten(tmp_path):
    run(tmp_path / "run", rounds=2)
    with pytest.raises(enlist.BadInput, match="not empty"):
        run(tmp_path / "run", rounds=2)


def test_a_diverged_run_says_when_and_why_and_keeps_the_last_good_state(tmp_path):
    with pytest.raises(
        enlist.Diverged, match=r"diverged in round \d+.*K L eta_L = .*lower worker-lr"
    ) as broken:
        run(tmp_path / "run", enlist.fedavg(worker_lr=1e12, server_lr=1e12), rounds=50, local=Steps(20, 4))
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["status"] == "diverged"
    assert summary["rounds"] == broken.value.round - 1
    kept = Checkpoints(tmp_path / "run/checkpoints")
    assert kept.latest() == broken.value.round - 1
    kept.close()


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(rounds=2)
    assert list(tmp_path.iterdir()) == []


def test_zero_rounds_keep_the_initial_model(tmp_path):
    from safetensors.numpy import load_file

    result = run(tmp_path / "run", rounds=0)
    kept = load_file(tmp_path / "run/model.safetensors")
    assert {name: array.shape for name, array in kept.items()} == {"w": (10, 12), "b": (10,)}
    assert (kept["w"] == np.asarray(result.params["w"])).all()
    assert result.metrics == []
    assert result.summary["final"]["train_loss"] == pytest.approx(np.log(10), rel=1e-4)


def test_a_model_that_begins_with_no_number_is_said_to(tmp_path):
    def model():
        return (lambda key: {"w": jax.numpy.ones((12, 10))}), (
            lambda params, x: x @ params["w"] * jax.numpy.nan
        )

    with pytest.raises(enlist.Diverged, match="the loss of the model it begins with is not finite"):
        enlist.simulate(
            enlist.fedavg(),
            model(),
            partition.iid(make_dataset(), 7, 0),
            cohort=3,
            rounds=2,
            local=Steps(2, 4),
        )


@pytest.mark.parametrize(
    "other",
    [
        enlist.fedavg(server=partial(optax.sgd, momentum=0.8)),
        enlist.fedavg(server=MOMENTUM, weighting="examples"),
        enlist.fedavg(server=MOMENTUM, worker=optax.adam),
    ],
)
def test_an_algorithm_that_computes_something_else_is_refused(tmp_path, other):
    run(tmp_path / "cut", rounds=2)
    with pytest.raises(enlist.BadInput, match="computes something else now"):
        run(tmp_path / "cut", other, resume=True)
    before = RunFolder(tmp_path / "cut").config()
    # Under another jax, or on another kind of machine, nothing can be said of it.
    RunFolder(tmp_path / "cut").rewrite_config(before | {"program": "jax 0.0 cpu:0"})
    for saved in (tmp_path / "cut/checkpoints").iterdir():
        shutil.rmtree(saved)
    assert len(run(tmp_path / "cut", other, resume=True).metrics) == 4


def test_metrics_that_were_taken_away_are_missed(tmp_path):
    run(tmp_path / "cut", rounds=6)
    metrics = tmp_path / "cut/metrics.jsonl"
    first, *others = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(others))
    with pytest.raises(enlist.BadInput, match=r"metrics\.jsonl lacks round 2"):
        run(tmp_path / "cut", resume=True)
    assert metrics.read_text() == "".join(others)
    metrics.write_text(first + "".join(others))
    assert len(run(tmp_path / "cut", resume=True).metrics) == 4


def test_a_run_that_another_process_is_at_is_left_alone(tmp_path):
    run(tmp_path / "cut", rounds=2)
    assert not (tmp_path / "cut" / holding.LOCK).exists()
    program = (
        "import sys, enlist.engine.holding as h, pathlib; h.hold(pathlib.Path(sys.argv[1])); print(); input()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "cut")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    other.stdout.readline()
    before = (tmp_path / "cut/metrics.jsonl").read_text()
    with pytest.raises(enlist.BadInput, match=rf"another process \({other.pid}\) is at this run"):
        run(tmp_path / "cut", resume=True)
    assert (tmp_path / "cut/metrics.jsonl").read_text() == before
    # Nobody need tidy up after a kill.
    other.kill()
    other.wait()
    assert len(run(tmp_path / "cut", resume=True).metrics) == 4
    assert not (tmp_path / "cut" / holding.LOCK).exists()


def test_the_time_of_all_sittings_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(
        undertaking, "time", SimpleNamespace(perf_counter=map(float, range(0, 10**6, 100)).__next__)
    )
    first = run(tmp_path / "cut", rounds=4).summary["wall_seconds"]
    second = run(tmp_path / "cut", resume=True).summary
    alone = run(rounds=4).summary["wall_seconds"]
    assert second["wall_seconds"] > first > 0
    assert second["wall_seconds"] >= first - 100 + alone
