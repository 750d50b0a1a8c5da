"""An algorithm in a person's own file: run, compared, kept by its hash, refused in one line where it cannot be."""

import hashlib
import json
import shlex
from pathlib import Path

import pytest
import yaml

from enlist import own_file
from enlist.cli import main

EXAMPLE = Path(__file__).parent.parent / "examples" / "clipped.py"
PROBLEM = "--dataset digits --model logistic --workers 20 --cohort 4 --local-epochs 1 --batch 20 --rounds 3"


def enlist(words):
    main(shlex.split(words))


def metrics(folder):
    return [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]


def test_it_runs_is_compared_and_repeats_only_as_the_file_that_it_was(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    own = Path("own.py")
    own.write_text(EXAMPLE.read_text().replace("bound: float = 1.0", "bound: float = 0.01"))
    enlist(f"run {PROBLEM} --algorithm own.py:clipped --out run --json")
    # Uniform means of updates no longer than 0.01 are no longer either.
    assert all(0.001 < line["delta_norm"] <= 0.0101 for line in metrics("run"))
    config = yaml.safe_load(Path("run/config.yaml").read_text())
    assert (config["algorithm"], config["worker_lr"], config["server_lr"]) == ("own.py:clipped", 0.1, 1.0)
    enlist("run --config run/config.yaml --out again --json")
    assert Path("run/metrics.jsonl").read_text() == Path("again/metrics.jsonl").read_text()
    enlist(f"compare {PROBLEM} --algorithms fedavg,own.py:clipped --seeds 1 --target 0.1 --out both --json")
    assert metrics("both/runs/own.py_clipped/seed-0")[-1]["delta_norm"] <= 0.0101
    own.write_text(own.read_text() + "\n# another\n")
    capsys.readouterr()
    for again in ("run --config run/config.yaml --out new", "compare --resume both"):
        with pytest.raises(SystemExit) as stop:
            enlist(again)
        assert stop.value.code == 2
        assert "is not the file it was" in capsys.readouterr().err


def test_parameters_follow_the_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(EXAMPLE.read_text())
    enlist(f"run {PROBLEM} --algorithm own.py:clipped+bound=0.01 --out run --json")
    assert all(0.001 < line["delta_norm"] <= 0.0101 for line in metrics("run"))
    config = yaml.safe_load(Path("run/config.yaml").read_text())
    assert config["algorithm"] == "own.py:clipped+bound=0.01"
    assert config["algorithm_sha256"] == hashlib.sha256(EXAMPLE.read_bytes()).hexdigest()
    both = "own.py:clipped+bound=0.01,own.py:clipped+bound=0.02"
    enlist(f"sweep {PROBLEM} --algorithm {both} --out swept --json")
    assert [metrics(folder) for folder in Path("swept/runs").glob("*bound=0.01")] == [metrics("run")]
    (other,) = Path("swept/runs").glob("*bound=0.02")
    assert 0.011 < max(line["delta_norm"] for line in metrics(other)) <= 0.0201
    several = "own.py:clipped+bound=0.01+local-steps=2,own.py:clipped+worker-lr=0.05+bound=0.02"
    problem = PROBLEM.replace("--local-epochs 1", "")
    enlist(f"compare {problem} --algorithms {several} --seeds 1 --target 0.1 --out both --json")
    kept = {
        config["algorithm"]: (config["local_steps"], config["worker_lr"])
        for config in (
            yaml.safe_load(path.read_text()) for path in Path("both/runs").glob("*/seed-0/config.yaml")
        )
    }
    assert kept == {"own.py:clipped+bound=0.01": (2, 0.1), "own.py:clipped+bound=0.02": (None, 0.05)}


def test_a_copy_is_named_with_the_same_parameters():
    for text in ("./a/own.py:make", "./a/own.py:make+rate=1e-3+shape=2:3", "C:/a/own.py:make+path=x/y"):
        copied = own_file.moved(text, "model", Path("/there"))
        assert copied.startswith("/there/own.py:make")
        assert own_file.named(copied, "model")[1:] == own_file.named(text, "model")[1:]
    assert own_file.moved("two_nn", "model", Path("/there")) == "two_nn"


@pytest.mark.parametrize(
    ("source", "name", "says"),
    [
        (None, "own.py:make", "algorithm file own.py cannot be read: No such file or directory"),
        ("", "own.py", "names a file but no function: type own.py:FUNCTION"),
        (
            "x = 1",
            "own.py:make",
            "has no function 'make': give FILE.py:FUNCTION with one that returns an algorithm",
        ),
        ("1/0", "own.py:make", "own.py cannot be loaded: ZeroDivisionError: division by zero"),
        (
            "def make(): return 3",
            "own.py:make --worker-lr 0.1",
            "own.py:make: its function must take worker_lr",
        ),
        ("def make(worker_lr): return 3", "own.py:make", "must return an enlist.Algorithm, not int"),
        ("def make(worker_lr): raise ValueError('no')", "own.py:make", "own.py:make failed: ValueError: no"),
        (
            EXAMPLE.read_text(),
            "own.py:clipped+bond=2",
            "unknown parameter of own.py:clipped 'bond': did you mean 'bound'? Known: bound",
        ),
        (
            EXAMPLE.read_text(),
            "own.py:clipped+worker_lr=2",
            "own.py:clipped+worker_lr=2: worker_lr is set by --worker-lr; leave it out here",
        ),
        (None, "fedprox+mu=0.1", "algorithm fedprox+mu=0.1: type --algorithm fedprox --mu=0.1"),
        (EXAMPLE.read_text(), "own.py:clipped+bound=1+bound=2", "bound is there twice"),
        (EXAMPLE.read_text(), "own.py:clipped+bound=x", "bound = 'x': a rate must be a number"),
        ("import sys; sys.exit(3)", "own.py:make", "the file ended the program (sys.exit(3))"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(source, name, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if source is not None:
        Path("own.py").write_text(source)
    with pytest.raises(SystemExit) as stop:
        enlist(f"run {PROBLEM} --out new --algorithm {name}")
    said = capsys.readouterr().err
    assert (stop.value.code, said.count("\n")) == (2, 1)
    assert says in said
    assert not Path("new").exists()
