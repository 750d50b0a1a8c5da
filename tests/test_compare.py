"""`enlist compare`: several methods to one target, each tuned alike, over seeds."""

import csv
import json
import shlex
import shutil
from pathlib import Path

import pytest

import enlist
from enlist.cli import main
from enlist.launch.compare import read_methods
from enlist.options import unflatten
from enlist.options.study import CompareOptions
from enlist.report.comparison.files import folder_name
from enlist.studies.contest import score

PROBLEM = "--dataset digits --model logistic --workers 20 --cohort 4 --local-epochs 1 --batch 20"
COMPARE = (
    f"compare {PROBLEM} --algorithms fedavg,scaffold+server-lr=1,fedavg+compress=topk:0.1 --seeds 2 --rounds 12 "
    "--worker-lr 0.001,0.1 --server-lr 1,1e-3 --tune-rounds 4 --target 0.5 --worker-seconds 0.25"
)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    place = tmp_path_factory.mktemp("compare")
    main([*shlex.split(COMPARE), "--out", str(place / "out"), "--json"])
    return place / "out"


def labels(text, **options):
    return {
        each.label: each for each in read_methods(unflatten(CompareOptions, {"algorithms": text} | options))
    }


def test_it_leaves_tables_pictures_page_and_every_run(compared):
    left = {path.name for path in compared.iterdir()}
    assert left == {
        *("config.yaml", "summary.json", "compare.csv", "seeds.csv", "compare.tex"),
        *("curves.png", "split.png", "report.html", "runs", "tuning"),
    }
    facts = json.loads((compared / "summary.json").read_text())
    assert [each["label"] for each in facts["contenders"]] == [
        "fedavg",
        "scaffold+server-lr=1",
        "fedavg+compress=topk:0.1",
    ]
    for each in facts["contenders"]:
        # Of these candidates only the largest rates learn anything in so few rounds.
        assert each["rates"] == {"worker_lr": 0.1, "server_lr": 1.0}
        assert (each["seeds"], each["reached"]) == (2, 2)
        assert each["rounds"]["min"] <= each["rounds"]["median"] <= each["rounds"]["max"]
        assert each["compute_seconds"]["min"] == pytest.approx(0.25 * each["rounds"]["min"])
    fedavg, scaffold, sparse = facts["contenders"]
    assert (fedavg["tried"], scaffold["tried"]) == (4, 2)
    assert scaffold["uplink_bytes"] == 2 * fedavg["uplink_bytes"] > 10 * sparse["uplink_bytes"] > 0
    with (compared / "seeds.csv").open() as file:
        assert [row["seed"] for row in csv.DictReader(file)] == ["0", "1"] * 3


def test_each_run_is_what_enlist_run_makes_of_its_configuration(compared, tmp_path):
    theirs = compared / "runs" / "fedavg" / "seed-1"
    main(["run", "--config", str(theirs / "config.yaml"), "--out", str(tmp_path / "again"), "--json"])
    assert (tmp_path / "again" / "metrics.jsonl").read_text() == (theirs / "metrics.jsonl").read_text()


def test_rates_are_chosen_on_a_seed_of_their_own_by_the_lowest_training_loss(compared):
    tuning = json.loads((compared / "tuning" / "fedavg.json").read_text())
    best = tuning["loss"].index(min(tuning["loss"]))
    assert len(tuning["rates"]) == len(tuning["loss"]) == 4
    assert tuning["rates"][best] == {"worker_lr": 0.1, "server_lr": 1.0}
    said = json.loads((compared / "summary.json").read_text())["tuning"]
    assert "after 4 rounds on a seed (2) that is not among those reported" in said
    lines = [{"train_loss": loss} for loss in (9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 1.0, 2.0)]
    assert score(lines) == 1.5
    assert score(lines, "diverged") == score([]) == score([{"train_loss": float("nan")}]) == float("inf")


def test_it_goes_on_where_it_was_stopped(compared, tmp_path, capsys):
    cut = tmp_path / "cut"
    shutil.copytree(compared, cut)
    for gone in ("runs/scaffold+server-lr=1", "tuning/fedavg+compress=topk_0.1.json"):
        path = cut / gone
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    unfinished = cut / "runs" / "fedavg" / "seed-0"
    (unfinished / "summary.json").unlink()
    untouched = (cut / "runs" / "fedavg" / "seed-1" / "summary.json").stat().st_mtime_ns
    main(["compare", "--resume", str(cut), "--json"])
    assert json.loads(capsys.readouterr().out)["folder"] == str(cut)
    assert (cut / "compare.csv").read_text() == (compared / "compare.csv").read_text()
    assert (cut / "runs" / "fedavg" / "seed-1" / "summary.json").stat().st_mtime_ns == untouched
    with pytest.raises(SystemExit) as stop:
        main(["compare", "--resume", str(cut), "--rounds", "13"])
    assert stop.value.code == 2
    assert "the options are not those it was begun with" in capsys.readouterr().err


def test_report_draws_a_comparison_again(compared, tmp_path, capsys):
    main(["report", str(compared), "--out", str(tmp_path / "again"), "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert facts | {"folder": None} == json.loads((compared / "summary.json").read_text()) | {"folder": None}
    for name in ("compare.csv", "seeds.csv", "compare.tex"):
        assert (tmp_path / "again" / name).read_text() == (compared / name).read_text()
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    shutil.copy(compared / "config.yaml", unfinished)
    for words, says in (
        ([str(unfinished)], "holds a comparison that is not finished"),
        ([str(compared), str(compared)], "a comparison has a page of its own"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["report", *words])
        assert stop.value.code == 2
        assert says in capsys.readouterr().err


def test_methods_are_read_with_options_of_their_own():
    read = labels("fedprox+mu=1, fedavgm,fedadam+beta1=0.5+server_lr=0.1", momentum=0.5, worker_lr="0.1,1")
    assert [(rule.worker_lr, rule.server_lr) for rule, _ in read["fedprox+mu=1"].candidates] == [
        (0.1, None),
        (1.0, None),
    ]
    assert read["fedprox+mu=1"].candidates[0][1].mu == 1
    assert read["fedavgm"].candidates[0][1].momentum == 0.5
    assert read["fedprox+mu=1"].candidates[0][1].momentum is None
    rule, method = read["fedadam+beta1=0.5+server_lr=0.1"].candidates[0]
    assert (rule.algorithm, rule.server_lr, method.beta1) == ("fedadam", 0.1, 0.5)
    assert len(labels("cooperative", server_lr="0.1,1")["cooperative"].candidates) == 1
    assert folder_name("a/b c+mu=0.1") == "a_b_c+mu=0.1"


def test_from_python_with_an_algorithm_of_ones_own(tmp_path):
    def idea(**rates):
        return enlist.fedprox(mu=0.5, **rates)._replace(name="idea")

    comparison = enlist.compare(
        {"fedavg": enlist.fedavg(), "idea": [idea(worker_lr=rate) for rate in (1e-4, 0.1)]},
        enlist.models.logistic(),
        lambda seed: enlist.partition.digits(enlist.datasets.digits(), per_worker=2, workers=20, seed=seed),
        target=0.5,
        out=tmp_path / "out",
        seeds=2,
        rounds=8,
        cohort=4,
        local=enlist.Epochs(1, 20),
    )
    fedavg, own = comparison.contenders
    assert (own.label, own.rates, own.tried) == ("idea", {"worker_lr": 0.1, "server_lr": 1.0}, 2)
    assert "idea worker-lr 0.1" in comparison.tuning
    # A worker's computing was measured, and each seed has a partition of its own.
    assert all(run.metrics[-1]["compute_seconds"] > 0 for run in comparison.runs)
    assert fedavg.runs[0].partition != fedavg.runs[1].partition
    assert (tmp_path / "out" / "report.html").exists()
    with pytest.raises(enlist.BadInput, match="not empty"):
        enlist.compare({"a": enlist.fedavg()}, None, None, target=0.5, out=tmp_path / "out")


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        ("--algorithms fedavg", "compare: say what is to be reached, for instance --target 0.9"),
        ("--target 1.5", "target = 1.5: give a share between 0 and 1"),
        ("--target 0", "target = 0: give a share between 0 and 1"),
        ("--target 1", "target = 1: give a share between 0 and 1"),
        ("--target 0.9 --algorithms fedavg,scafold", "unknown algorithm 'scafold': did you mean 'scaffold'?"),
        ("--target 0.9 --algorithms fedavg,fedavg", "'fedavg' is there twice"),
        ("--target 0.9 --algorithms fedavg,", "unknown algorithm ''"),
        ("--target 0.9 --algorithms fedavg+mu=1", "mu = 1.0: fedavg has no such option"),
        ("--target 0.9 --algorithms fedavg+rounds=1", "rounds is the same for all methods of a comparison"),
        ("--target 0.9 --algorithms fedavg+muu=1", "unknown option --muu: did you mean --mu?"),
        ("--target 0.9 --mu 1", "mu = 1.0: no method of fedavg, scaffold has such an option"),
        ("--target 0.9 --algorithms fedavg+compress=topk:9999999", "topk:9999999"),
        ("--target 0.9 --worker-lr 0.1,abc", "worker-lr = 0.1,abc: must be a number, or several"),
        ("--target 0.9 --worker-lr 0.1,-1", "worker-lr = -1: a learning rate must be above 0"),
        ("--target 0.9 --server-lr 1,1", "server-lr = 1,1: 1 is there twice"),
        ("--target 0.9 --seeds 0", "seeds = 0: must be 1 or more"),
        ("--target 0.9 --tune-rounds 0", "tune-rounds = 0: must be 1 or more"),
        ("--target 0.9 --rounds 0", "rounds = 0: a comparison needs at least 1"),
        ("--target 0.9 there", "'there' belongs to no option"),
        ("--target 0.9 --tensorboard", "unknown option --tensorboard"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(rest, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(
            shlex.split(f"compare --dataset digits --model logistic --workers 20 --rounds 2 {rest} --out new")
        )
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert said.count("\n") == 1
    assert says in said
    assert not Path("new").exists()
