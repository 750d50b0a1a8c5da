"""A recorded sequence of cohorts, simulated again: the same parameters to the bit, whatever drew it."""

import json
import shlex
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import make_dataset

import enlist
from enlist import Steps, models, partition, sampling
from enlist.cli import main
from enlist.engine.folder import RunFolder, read_config
from enlist.report.sweep.files import GRID_FILE

ROUNDS = 4


def run(cohort, out=None, unequal=False, **options):
    data = make_dataset(200, 6, test=20)
    fed = partition.quantity(data, 1.5, 7, 0) if unequal else partition.iid(data, 7, 0)
    arguments = {"rounds": ROUNDS, "local": Steps(2, 4), "seed": 3, "execution": "one-by-one", "devices": 1}
    algorithm = options.pop("algorithm", None) or enlist.fedavg()
    return enlist.simulate(algorithm, models.logistic(), fed, cohort=cohort, out=out, **arguments | options)


def cohorts(result):
    return [line["cohort"] for line in result.metrics]


def state(result):
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(result.session.state)]


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        (sampling.without_replacement(3), {"algorithm": enlist.scaffold()}),
        (sampling.with_replacement(4), {}),
        (sampling.at_least(1, 5), {}),
        (sampling.at_least(1, 5), {"unequal": True, "local": enlist.Epochs(1, 4)}),
    ],
    ids=["strategy-2", "strategy-1", "sizes-that-vary", "unequal-workers"],
)
def test_replayed_to_the_bit(strategy, options):
    drawn = run(strategy, **options)
    again = run(sampling.recorded(cohorts(drawn)), **options)
    assert state(again) == state(drawn)
    assert again.metrics == drawn.metrics
    assert len({len(ids) for ids in cohorts(drawn)}) > 1 or not strategy.name.startswith("at-least")


def test_resumed_in_the_middle_to_the_bit(tmp_path):
    drawn = run(sampling.without_replacement(3))
    record = sampling.recorded(cohorts(drawn))
    run(record, tmp_path / "cut", rounds=2)
    cut = run(record, tmp_path / "cut", resume=True)
    assert state(cut) == state(drawn)
    assert cut.metrics == drawn.metrics
    assert RunFolder(tmp_path / "cut").config()["sampling"] == record.name
    other = sampling.recorded([*cohorts(drawn)[:3], [0, 1, 2]])
    with pytest.raises(enlist.BadInput, match=r"sampling is 'recorded:.*' now but was 'recorded:"):
        run(other, tmp_path / "cut", resume=True)


def test_rows_that_come_from_the_host_are_those_of_the_record():
    record = sampling.recorded([[0, 4, 6], [2], [1, 5], [0, 3]])
    held, sent = (run(record, rows=place) for place in ("device", "host"))
    assert state(held) == state(sent)
    assert cohorts(sent) == [[0, 4, 6], [2], [1, 5], [0, 3]]
    assert [one.worker for one in sent.session.drawn(1)] == [2]


@pytest.mark.parametrize(
    ("record", "options", "says"),
    [
        ([[0], [1]], {"rounds": 3}, "rounds = 3: the record of cohorts ends after 2; choose 0 to 2"),
        ([[0], [7]], {"rounds": 2}, "round 1 names worker 7, but workers are 0 to 6 here"),
        ([[0, 0]], {"rounds": 1, "algorithm": enlist.scaffold()}, "scaffold keeps a state for each worker"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_made(tmp_path, record, options, says):
    with pytest.raises(enlist.BadInput, match=says):
        run(sampling.recorded(record), tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


TYPED = "--dataset digits --model logistic --workers 10 --local-epochs 1 --batch 40 --devices 1 --execution chunk:1"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run with cohorts of 3, and their record."""
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        main(shlex.split(f"run {TYPED} --cohort 3 --rounds 3 --out drawn --json"))
    lines = [json.loads(line) for line in (folder / "drawn/metrics.jsonl").read_text().splitlines()]
    record = [{"round": line["round"] - 1, "ids": line["cohort"], "late": 0} for line in lines]
    write(folder / "cohorts.jsonl", record)
    write(folder / "large.jsonl", [{"round": t, "ids": [0, 1, 2, 3 + t]} for t in range(3)])
    return folder


def write(path, entries):
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def refused(words, capsys):
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(words))
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_beside_a_configuration_the_record_is_replayed(place, monkeypatch, tmp_path):
    monkeypatch.chdir(place)
    out = tmp_path / "again"
    main(shlex.split(f"run --config drawn/config.yaml --sampling recorded:cohorts.jsonl --out {out} --json"))
    assert (out / "model.safetensors").read_bytes() == Path("drawn/model.safetensors").read_bytes()
    config = RunFolder(out).config()
    assert (config["sampling"], config["cohort"]) == ("recorded:cohorts.jsonl", 3)
    assert len(config["sampling_sha256"]) == 64
    # A record of larger cohorts than the configuration's, and then the configuration that this leaves.
    main(
        shlex.split(
            f"run --config drawn/config.yaml --sampling recorded:large.jsonl --out {tmp_path}/large --json"
        )
    )
    main(shlex.split(f"run --config {tmp_path}/large/config.yaml --out {tmp_path}/repeated --json"))
    assert RunFolder(tmp_path / "repeated").config()["cohort"] == 4
    large, repeated = (tmp_path / name / "model.safetensors" for name in ("large", "repeated"))
    assert large.read_bytes() == repeated.read_bytes() != (out / "model.safetensors").read_bytes()


def test_resumed_with_its_own_record_only(place, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(place)
    own, out = tmp_path / "own.jsonl", tmp_path / "cut"
    own.write_text(Path("cohorts.jsonl").read_text())
    main(shlex.split(f"run {TYPED} --sampling recorded:{own} --rounds 1 --out {out} --json"))
    said = refused(f"run --resume {out} --sampling recorded:large.jsonl --rounds 3", capsys)
    assert "cohort is 4 now but was 3" in said
    said = refused(f"run --resume {out} --sampling recorded:cohorts.jsonl --rounds 3", capsys)
    assert f"sampling is 'recorded:cohorts.jsonl' now but was 'recorded:{own}'" in said
    assert "rounds = 4: the record of cohorts ends after 3" in refused(
        f"run --resume {out} --rounds 4", capsys
    )
    own.write_text(Path("large.jsonl").read_text())
    assert "is not the file it was" in refused(f"run --resume {out} --rounds 3", capsys)
    own.write_text(Path("cohorts.jsonl").read_text())
    main(shlex.split(f"run --resume {out} --rounds 3 --json"))
    assert (out / "model.safetensors").read_bytes() == Path("drawn/model.safetensors").read_bytes()


def test_swept_and_compared(place, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(place)
    Path("grid.yaml").write_text(
        "dataset: digits\nmodel: logistic\nworkers: 10\ncohort: 7\nlocal_epochs: 1\n"
    )
    words = f"sweep --grid grid.yaml --sampling recorded:cohorts.jsonl --out {tmp_path}/sweep"
    assert "rounds=4: rounds = 4: the record of cohorts ends" in refused(f"{words} --rounds 3,4", capsys)
    main(shlex.split(f"{words} --rounds 2,3 --devices 1 --batch 40 --execution one-by-one"))
    left = tmp_path / "sweep/runs/rounds=3"
    assert (left / "model.safetensors").read_bytes() == Path("drawn/model.safetensors").read_bytes()
    assert "recorded:cohorts.jsonl" in read_config(tmp_path / "sweep" / GRID_FILE)["files"]
    compare = f"compare {TYPED} --sampling recorded:cohorts.jsonl --algorithms fedavg,scaffold --target 0.9"
    main(shlex.split(f"{compare} --rounds 3 --seeds 1 --out {tmp_path}/compared"))
    assert (tmp_path / "compared/compare.csv").exists()
