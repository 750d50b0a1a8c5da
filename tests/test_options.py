"""No option is dead: each, changed, changes what a run gives or leaves. And options survive being written."""

import json
import os
import shlex
from pathlib import Path
from typing import get_type_hints

import jax
import numpy as np
import pytest

from enlist.cli import COMMANDS, main
from enlist.errors import BadInput
from enlist.launch.run import launch
from enlist.options import HostOptions, OutputOptions, RunOptions, Settings, flatten, unflatten
from enlist.options.study import SweepOptions
from enlist.words import kept, kept_several, kinds, typed, typed_several

BASE = "--dataset digits --model logistic --workers 20 --cohort 4 --local-epochs 1 --batch 20 --rounds 2 --devices 1"


def params(run):
    return [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(run.params)]


def column(name):
    return lambda run: [line.get(name) for line in run.metrics]


def fact(name):
    return lambda run: run.summary[name]


def checkpoints(run):
    return sorted(path.name for path in (run.folder / "checkpoints").iterdir() if path.name.isdigit())


def source(run):
    return type(run.session.read.source)


# option: what is typed besides BASE, what else both runs have, and where the difference is seen.
CHANGES = {
    "dataset": ("--dataset synthetic:1,1", "--partition iid --rounds 0", fact("parameters")),
    "partition": ("--partition iid", "", params),
    "workers": ("--workers 40", "", params),
    "model": ("--model two_nn", "", fact("parameters")),
    "augment": ("--augment crop", "", params),
    "share_data": ("--share-data 0.1", "", fact("setup_bytes")),
    "share_portion": ("--share-portion 0.5", "--share-data 0.1", fact("setup_bytes")),
    "cohort": ("--cohort 5", "", column("cohort")),
    "sampling": ("--sampling with-replacement", "", column("cohort")),
    "cohort_most": ("--cohort-most 5", "--sampling at-least", column("cohort")),
    "worker_lr": ("--worker-lr 0.2", "", params),
    "server_lr": ("--server-lr 0.5", "", params),
    "worker_decay": ("--worker-decay 1", "", params),
    "worker_optimizer": ("--worker-optimizer adam", "", params),
    "server_optimizer": ("--server-optimizer adam", "", params),
    "weighting": ("--weighting examples", "--partition quantity:1", params),
    "mu": ("--mu 1", "--algorithm fedprox", params),
    "variates": ("--variates I", "--algorithm scaffold", params),
    "momentum": ("--momentum 0.5", "--algorithm fedavgm", params),
    "buffers": ("--buffers average", "--algorithm slowmo --worker-optimizer adam", column("uplink_bytes")),
    "alpha": ("--alpha 1", "--algorithm feddyn", params),
    "beta1": ("--beta1 0.5", "--algorithm fedadam", params),
    "beta2": ("--beta2 0.5", "--algorithm fedyogi", params),
    "tau": ("--tau 0.1", "--algorithm fedadagrad", params),
    "mixing": ("--mixing ring", "--algorithm cooperative", params),
    "elasticity": ("--elasticity 0.2", "--algorithm elastic", params),
    # At that price, or with that little, the third round trains no more.
    "step_seconds": ("--step-seconds 1", "--algorithm adaptive --rounds 3 --budget 4.5", params),
    "round_seconds": ("--round-seconds 1.5", "--algorithm adaptive --rounds 3 --budget 4.5", params),
    "budget": ("--budget 0.5", "--algorithm adaptive --rounds 3", params),
    "phi": ("--phi 0.00001", "--algorithm adaptive --rounds 4", params),
    "algorithm": ("--algorithm scaffold", "", column("uplink_bytes")),
    "compress": ("--compress topk:0.1", "", column("uplink_bytes")),
    "compress_down": ("--compress-down sign", "", column("downlink_bytes")),
    "error_feedback": ("--error-feedback off", "--compress topk:0.1", params),
    "local_epochs": ("--local-epochs 2", "", params),
    "local_steps": ("--local-epochs none --local-steps 5", "", params),
    "local_schedule": ("--local-schedule 1:2", "", params),
    "batch": ("--batch 10", "", params),
    "rounds": ("--rounds 3", "", fact("rounds")),
    "seed": ("--seed 1", "", params),
    "eval_every": ("--eval-every 2", "", column("round")),
    "target": ("--target 0.1", "", fact("target")),
    "precision": ("--precision bf16", "", params),
    "execution": ("--execution one-by-one", "--execution batch", fact("execution")),
    "devices": ("--devices 2", "", fact("devices")),
    "grad_norm": ("--grad-norm", "", column("grad_norm_sq")),
    "worker_accuracy": ("--worker-accuracy", "", column("worker_accuracy")),
    "bandwidth": ("--bandwidth 1", "", column("seconds")),
    "uplink": ("--uplink 1", "", column("seconds")),
    "downlink": ("--downlink 1", "", column("seconds")),
    "latency": ("--latency 1", "", column("seconds")),
    "worker_seconds": ("--worker-seconds 1", "", column("compute_seconds")),
    "profile": ("--profile lognormal:1", "", column("seconds")),
    "rows": ("--rows host", "--rows device", source),
    "eval_rows": ("--eval-rows 100", "", column("train_loss")),
    "checkpoint_every": ("--checkpoint-every 1", "", checkpoints),
}
ELSEWHERE = {
    "deterministic",
    *OutputOptions.__dataclass_fields__,
    *HostOptions.__dataclass_fields__,
}


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """Runs by what was typed, each made once."""
    made = {}

    def run(words):
        if words not in made:
            options = unflatten(RunOptions, typed(RunOptions, shlex.split(f"{BASE} {words}"))[0])
            made[words] = launch(options, tmp_path_factory.mktemp("run") / "out", live=False)
        return made[words]

    return run


def test_no_option_is_forgotten():
    assert set(CHANGES) | ELSEWHERE == set(flatten(RunOptions()))


@pytest.mark.parametrize("name", CHANGES)
def test_every_option_does_something(name, launched):
    change, common, look = CHANGES[name]
    assert look(launched(common)) != look(launched(f"{common} {change}"))


def test_deterministic_asks_xla_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
    options = unflatten(RunOptions, typed(RunOptions, shlex.split(f"{BASE} --rounds 0 --deterministic"))[0])
    launch(options, tmp_path / "out", live=False)
    assert "--xla_gpu_deterministic_ops=true" in os.environ["XLA_FLAGS"]


def test_jax_is_set_up_before_a_model_file_can_start_it(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr("enlist.launch.run.platform.prepare", lambda *given: calls.append("prepare"))
    monkeypatch.setattr("enlist.launch.run.adapters.spec_hash", lambda spec: calls.append("model"))
    monkeypatch.setattr("enlist.launch.run.deal", lambda *given: pytest.fail("far enough"))
    with pytest.raises(pytest.fail.Exception):
        launch(RunOptions(), tmp_path / "out", live=False)
    assert calls[:2] == ["prepare", "model"]


def test_the_algorithm_is_looked_up(tmp_path):
    with pytest.raises(BadInput, match="unknown algorithm 'fedsgd'"):
        launch(unflatten(RunOptions, {"algorithm": "fedsgd"}), tmp_path / "out", live=False)


def test_output_options(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(f"run {BASE} --rounds 1")
    main([*words, "--out", "one", "--json", "--tensorboard"])
    assert json.loads(capsys.readouterr().out)["rounds"] == 1
    assert list(Path("one/tensorboard").glob("events*"))
    main(["run", "--config", "one/config.yaml", "--out", "two"])
    assert "folder" in capsys.readouterr().out
    main(["run", "--resume", "two", "--rounds", "2", "--json"])
    assert json.loads(capsys.readouterr().out)["rounds"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_flatten_and_unflatten_are_inverse():
    options = unflatten(RunOptions, {"rounds": 3, "worker_lr": 0.5, "out": "there", "target": 0.9})
    assert (options.settings.rounds, options.rule.worker_lr, options.output.out) == (3, 0.5, "there")
    assert unflatten(RunOptions, flatten(options)) == options
    assert flatten(unflatten(RunOptions, {})) == flatten(RunOptions())


def test_names_are_unique_over_the_groups():
    groups = [getattr(RunOptions(), name) for name in RunOptions.__dataclass_fields__]
    names = [name for group in groups for name in flatten(group)]
    assert len(names) == len(set(names)) == len(kinds(RunOptions))


def test_a_sweep_takes_every_option_of_a_run():
    where = set(get_type_hints(RunOptions)) - set(get_type_hints(SweepOptions))
    elsewhere = {name for part in where for name in kinds(get_type_hints(RunOptions)[part])}
    assert set(kinds(RunOptions)) - elsewhere <= set(kinds(SweepOptions))
    assert not elsewhere & set(flatten(Settings()))


def test_several_values_are_typed_with_commas():
    given, loose = typed_several(
        SweepOptions,
        shlex.split(
            "--worker-lr 1e-3,.1 --json --seed=3 --target none,0.5 --dataset a,b --dataset c x --seed 1,2"
        ),
        single=["json"],
        whole=["dataset"],
    )
    assert given == {
        "worker_lr": [1e-3, 0.1],
        "json": [True],
        "seed": [1, 2],
        "target": [None, 0.5],
        "dataset": ["a,b", "c"],
    }
    assert loose == ["x"]


def test_several_values_are_written_as_a_list():
    assert kept_several({"worker_lr": ["1e-3", 1], "partition": "iid", "grad_norm": [True, False]}) == {
        "worker_lr": [1e-3, 1.0],
        "partition": ["iid"],
        "grad_norm": [True, False],
    }


def test_ways_to_type_an_option():
    given, loose = typed(
        RunOptions, ["--worker-lr=-1e-3", "--server_lr", "-2", "a", "--json", "--no-grad-norm"]
    )
    assert given == {"worker_lr": -1e-3, "server_lr": -2.0, "json": True, "grad_norm": False}
    assert loose == ["a"]
    assert typed(RunOptions, ["--target", "None", "--out=--x"])[0] == {"target": None, "out": "--x"}
    assert typed(RunOptions, ["--rounds", "3", "--rounds", "4"])[0] == {"rounds": 4}


def test_a_file_may_write_numbers_as_yaml_reads_them():
    assert kept({"worker_lr": "1e-3", "rounds": 3, "target": None, "server_lr": 1, "grad_norm": True}) == {
        "worker_lr": 1e-3,
        "rounds": 3,
        "target": None,
        "server_lr": 1.0,
        "grad_norm": True,
    }


def test_settings_are_checked_from_python_too():
    with pytest.raises(BadInput, match=r"rounds = -1: must be 0 or more"):
        Settings(rounds=-1)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_every_option(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    said = capsys.readouterr().out
    if command == "run":
        for name in flatten(RunOptions()):
            assert f"--{name.replace('_', '-')}" in said


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_usage_names_the_commands(words, capsys):
    main(words)
    said = capsys.readouterr().out
    assert all(f"enlist {command}" in said for command in COMMANDS)
