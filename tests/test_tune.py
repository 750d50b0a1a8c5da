"""`enlist tune`: candidates are halved, survivors go on from where they are, the winner's configuration is ready."""

import itertools
import json
import shlex
from functools import lru_cache, partial
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import yaml

import enlist
from enlist.cli import main
from enlist.engine.together import simulate_each
from enlist.options.tune import rates
from enlist.problem.models import Model
from enlist.report.record import RunRecord
from enlist.report.sweep.outcome import Measure
from enlist.report.tune.files import write_all
from enlist.report.tune.outcome import Cost, Entry, Rung, Tuned, ranked
from enlist.studies import climb
from enlist.studies.halving import lengths, sizes

# One device, so that processes and tests share what is compiled.
PROBLEM = "--dataset digits --model logistic --workers 20 --cohort 4 --batch 20 --devices 1 --execution batch"
TUNE = f"tune {PROBLEM} --rounds 5 --worker-lr 0.05,0.5,1e30 --server-lr 1 --local-steps 1,4 --eval-every 2"
SMALL = f"tune {PROBLEM} --rounds 5 --worker-lr 0.01:1:4 --server-lr 1 --local-steps 1 --eta 2 --seeds 1"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """Six candidates, a third of which diverge, of two amounts of work, two seeds."""
    out = tmp_path_factory.mktemp("tune") / "out"
    main([*shlex.split(TUNE), "--first-rounds", "1", "--out", str(out), "--json"])
    return out


def facts(folder):
    return json.loads((Path(folder) / "tune.json").read_text())


def run_folder(folder, values, seed):
    name = ",".join(f"{key}={value:g}" for key, value in {**values, "seed": seed}.items())
    return Path(folder) / "runs" / name


def refused(words, capsys):
    """The one line that it says; the exit code must be that of bad input."""
    with pytest.raises(SystemExit) as stopped:
        main(shlex.split(words))
    assert stopped.value.code == 2
    said = capsys.readouterr().err.strip()
    assert "\n" not in said
    return said


# ---- the rungs -----------------------------------------------------------------------------------------


def test_one_in_eta_goes_on_and_the_last_rung_has_full_length():
    assert sizes(70, 3) == [70, 23, 7, 2, 1]
    assert sizes(8, 2) == [8, 4, 2, 1]
    assert sizes(2, 5) == [2, 1]
    for first, last in ((1, 100), (3, 100), (1, 4), (90, 100)):
        found = lengths(4, first, last)
        assert (found[0], found[-1]) == (first, last)
        assert all(a < b for a, b in itertools.pairwise(found))


def test_each_rung_keeps_its_share_and_marks_those_that_diverged(tuned):
    rungs = facts(tuned)["rungs"]
    assert [rung["rounds"] for rung in rungs] == lengths(3, 1, 5)
    assert [len(rung["entries"]) for rung in rungs] == [6, 2, 1]
    assert [rung["kept"] for rung in rungs] == [2, 1, 1]
    first = rungs[0]["entries"]
    assert [each["diverged"] for each in first] == [0] * 4 + [2] * 2
    assert all((each["worker_lr"] == 1e30) == (each["score"] is None) for each in first)
    assert [each["score"] for each in first[:4]] == sorted(each["score"] for each in first[:4])
    assert [each["kept"] for each in first] == [True] * 2 + [False] * 4
    again = [{"worker_lr": each["worker_lr"], "local_steps": each["local_steps"]} for each in first[:2]]
    assert all(
        {"worker_lr": each["worker_lr"], "local_steps": each["local_steps"]} in again
        for each in rungs[1]["entries"]
    )
    assert facts(tuned)["diverged"] == 2


def test_ties_go_to_the_candidate_given_first_and_a_missing_seed_behind_all_others():
    falls = Measure("train_loss", "", "", True)
    entries = [
        Entry(0, [None, 1.0], 0.9, 0),
        Entry(1, [2.0, 2.0], 0.5, 0),
        Entry(2, [2.0, 2.0], 0.5, 0),
        Entry(3, [2.0, 2.0], 0.6, 0),
        Entry(4, [1.0, None], None, 1),
    ]
    assert [each.candidate for each in ranked(entries, falls, False)] == [3, 1, 2, 0, 4]


# ---- what it leaves ------------------------------------------------------------------------------------


def test_it_leaves_a_page_a_map_the_plan_and_a_configuration(tuned):
    names = {"tune.yaml", "config.yaml", "tune.json", "report.html", "heatmap.png", "rungs", "runs"}
    assert {path.name for path in tuned.iterdir()} == names
    assert (tuned / "heatmap.png").read_bytes().startswith(b"\x89PNG")
    page = (tuned / "report.html").read_text()
    assert "2 of 2 diverged" in page
    assert "enlist run --config config.yaml" in page
    config = yaml.safe_load((tuned / "config.yaml").read_text())
    told = facts(tuned)
    assert {**config, **told["winner"]} == config == told["config"]
    assert (config["seed"], config["rounds"], config["eval_every"]) == (0, 5, 2)
    assert told["seeds"] == [1, 2]


def test_page_and_map_are_made_anew_from_what_it_left(tuned, tmp_path, capsys):
    left = ("report.html", "heatmap.png", "tune.json")
    before = [(tuned / name).read_bytes() for name in left]
    for name in left[:2]:
        (tuned / name).unlink()
    main(["report", str(tuned), "--out", str(tmp_path / "new")])
    assert "enlist run --config" not in capsys.readouterr().out
    main(["report", str(tuned)])
    assert f"enlist run --config {tuned / 'config.yaml'}" in capsys.readouterr().out
    for folder in (tuned, tmp_path / "new"):
        assert [(folder / name).read_bytes() for name in left] == before


def test_it_says_what_it_cost(tuned):
    cost = facts(tuned)["cost"]
    ended = [json.loads(path.read_text())["rounds"] for path in tuned.glob("runs/*/summary.json")]
    assert (cost["runs"], cost["rounds"]) == (12, sum(ended))
    assert 0 < cost["device_seconds"] < cost["wall_seconds"]
    assert cost["full_runs"] == pytest.approx(cost["device_seconds"] / cost["full_run_seconds"])


def test_the_winner_run_in_stretches_is_what_enlist_run_makes_of_its_configuration(tuned, tmp_path):
    winner = facts(tuned)["winner"]
    again = tmp_path / "again"
    main(["run", "--config", str(tuned / "config.yaml"), "--seed", "1", "--out", str(again), "--json"])
    theirs = run_folder(tuned, winner, 1)
    for name in ("metrics.jsonl", "model.safetensors"):
        assert (again / name).read_bytes() == (theirs / name).read_bytes()
    lines = map(json.loads, (again / "metrics.jsonl").read_text().splitlines())
    assert [line["round"] for line in lines] == [2, 4, 5]


def test_the_plan_repeats_the_tune_and_options_beside_it_win(tuned, tmp_path):
    out = tmp_path / "again"
    words = f"tune --config {tuned / 'tune.yaml'} --seeds 1 --eta 6 --by test_metric --out {out} --json"
    main(shlex.split(words))
    assert facts(out)["axes"] == facts(tuned)["axes"]
    assert [len(rung["entries"]) for rung in facts(out)["rungs"]] == [6, 1]
    assert (facts(out)["seeds"], facts(out)["measure"]) == ([1], "test_accuracy")
    # On the first rung, scores are what was seen of the runs after it.
    entry = facts(out)["rungs"][0]["entries"][3]
    values = {name: entry[name] for name in facts(out)["axes"]}
    name = ",".join(f"{name}={value:g}" for name, value in values.items())
    line = json.loads((out / "runs" / name / "metrics.jsonl").read_text().splitlines()[-1])
    assert entry["score"] == line["test_accuracy"]


def test_of_a_runs_configuration_everything_but_the_rates_is_taken(tuned):
    from enlist.launch.tune import _filled, asked_for

    filled = _filled(asked_for({"server_lr": ["0.5"]}, tuned / "config.yaml").grid, "train_loss")
    assert len(filled.values["worker_lr"]) == 7
    assert (filled.values["server_lr"], filled.values["local_steps"]) == (
        [0.5],
        [facts(tuned)["winner"]["local_steps"]],
    )
    assert (filled.settings["workers"], filled.settings["rounds"]) == (20, 5)


def test_left_to_itself_it_tries_seventy_candidates_and_the_rates_that_a_method_has():
    from enlist.launch.grid import Grid
    from enlist.launch.tune import _filled

    plain = _filled(Grid({}), "train_loss")
    assert [len(values) for values in plain.axes.values()] == [7, 5, 2]
    assert (plain.settings["rounds"], plain.settings["eval_every"]) == (100, 2)
    assert _filled(Grid({}), "rounds").settings["eval_every"] == 1
    assert _filled(Grid({"algorithm": ["fedadam"]}), "train_loss").axes["server_lr"][2] == 0.01
    assert "server_lr" not in _filled(Grid({"algorithm": ["feddyn"]}), "train_loss").values


def _made(candidates, ends=(1, 4)):
    """A tune of which all but the first two candidates are out after the first rung; the last one diverged."""
    first = [Entry(i, [1.0 + i], None, 0, i < 2) for i in range(len(candidates) - 1)]
    first.append(Entry(len(candidates) - 1, [None], None, 1))
    cost = Cost(len(candidates), 9, 2.0, 1.0, 0.5, "somehow", 1.5)
    rungs = [Rung(ends[0], first, 0.5, 1.0, 9), Rung(ends[1], first[:2], 0.5, 1.0, 9)]
    run = RunRecord("one", {}, [{"round": 1, "train_loss": 1.0}], {"status": "done"})
    return Tuned(candidates, [1], Measure("train_loss", "loss", "loss", True), 2, rungs, cost, [run])


@pytest.mark.parametrize(
    "candidates",
    [
        [{"worker_lr": rate} for rate in (0.1, 0.2, 0.3)],
        [{"worker_lr": rate, "local": f"Epochs({k})"} for rate in (0.1, 0.2) for k in range(3)],
        [{"worker_lr": i / 100, "server_lr": j / 10} for i in range(60) for j in range(2)],
    ],
    ids=["one axis", "without a server rate", "many"],
)
def test_whatever_the_axes_there_are_a_picture_and_a_page(candidates, tmp_path):
    told = write_all(_made(candidates), tmp_path)
    assert told["winner"] == candidates[0]
    assert [len(rung["entries"]) for rung in told["rungs"]] == [len(candidates), 2]
    assert (tmp_path / "heatmap.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "report.html").read_text()
    assert page.count('"name": "worker_lr=') == len(candidates)
    assert "winner" in page


# ---- interrupted ---------------------------------------------------------------------------------------


def test_an_interrupted_tune_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    main([*shlex.split(SMALL), "--out", str(whole), "--json"])
    told = []

    def cut_short(jobs, **kwargs):
        for run in simulate_each(jobs, **kwargs):
            told.append((run.folder.name, run.summary["rounds"]))
            yield run
            if len(told) == 5:
                raise KeyboardInterrupt

    monkeypatch.setattr(climb, "simulate_each", cut_short)
    with pytest.raises(SystemExit) as stopped:
        main([*shlex.split(SMALL), "--out", str(cut)])
    assert stopped.value.code == 130
    assert f"enlist tune --resume {cut}" in capsys.readouterr().err
    assert [path.name for path in (cut / "rungs").iterdir()] == ["1.json"]
    first = (cut / "rungs" / "1.json").read_text()
    main(["tune", "--resume", str(cut), "--json"])
    # Four runs of the first rung, two of the second, one of the last: none of them twice.
    assert len(told) == len({*told}) == 7
    assert (cut / "rungs" / "1.json").read_text() == first
    assert facts(cut)["winner"] == facts(whole)["winner"]
    scores = lambda folder: [[each["score"] for each in rung["entries"]] for rung in facts(folder)["rungs"]]
    assert scores(cut) == scores(whole)
    assert (cut / "config.yaml").read_bytes() == (whole / "config.yaml").read_bytes()
    said = refused(f"tune --resume {cut} --eta 4", capsys)
    assert "resume and eta are both given" in said


# ---- a problem whose best rate is known ----------------------------------------------------------------


@lru_cache(maxsize=1)
def _spring():
    """(w - 3)^2 / 2, the same for all workers: the product of the rates should be 1, and above 2 the loss grows."""
    y = np.full(8, 3.0, np.float32)
    x = np.zeros((8, 1), np.float32)
    fed = enlist.federation(x, y, x, y, worker=np.arange(8) % 4)
    model = Model(
        init=lambda key, x: {"w": jnp.zeros(1)},
        apply=lambda params, x: jnp.broadcast_to(params["w"], (x.shape[0],)),
        loss=lambda out, y: (out - y) ** 2 / 2,
        metric=lambda out, y: -jnp.abs(out - y),
        metric_name="closeness",
        name="spring",
    )
    return model, fed


def _tune_spring(out, **options):
    model, fed = _spring()
    given = {"worker_lr": [0.25, 1.0], "server_lr": [0.5, 1.0, 5.0], "local": enlist.Steps(1, 0)}
    return enlist.tune(
        enlist.fedavg, model, fed, out=out, cohort=2, rounds=8, **given | {"seeds": 1, "devices": 1} | options
    )


@pytest.mark.parametrize(
    "by", [{}, {"by": "test_metric"}, {"by": "rounds", "target": -0.01}], ids=["loss", "metric", "rounds"]
)
def test_it_finds_the_best_rates(by, tmp_path):
    found = _tune_spring(tmp_path / "out", **by)
    assert found.winner == {"worker_lr": 1.0, "server_lr": 1.0, "local": "Steps(steps=1, batch=0, later=())"}
    assert [len(rung.entries) for rung in found.rungs] == [6, 2, 1]
    assert found.config is None
    assert found.edges == ["worker_lr"]
    page = (tmp_path / "out" / "report.html").read_bytes()
    main(["report", str(tmp_path / "out")])
    assert (tmp_path / "out" / "report.html").read_bytes() == page
    if by.get("by") == "rounds":
        assert found.best.scores == [1]
        # Who has not reached the target is judged by how near it is: a quarter at five times is beyond, and back.
        second = found.candidates[found.rungs[0].entries[1].candidate]
        assert second["worker_lr"] * second["server_lr"] == 1.25


def test_side_by_side_it_comes_to_the_same(tmp_path, monkeypatch):
    few = {"server_lr": [1.0, 5.0], "eta": 2, "first_rounds": 1}
    alone = _tune_spring(tmp_path / "alone", **few)
    monkeypatch.setattr(climb, "simulate_each", partial(simulate_each, side_by_side=True))
    monkeypatch.setattr("enlist.studies.rungs.one_by_one", lambda task: False)
    beside = _tune_spring(tmp_path / "beside", **few)
    assert beside.winner == alone.winner
    assert beside.cost.rounds == alone.cost.rounds == 4 + 2 * 2 + 5
    assert "alone" in beside.cost.measured
    for one, other in zip(beside.rungs, alone.rungs, strict=True):
        assert [each.candidate for each in one.entries] == [each.candidate for each in other.entries]
        assert one.advanced == other.advanced


def test_where_all_diverge_it_says_so(tmp_path):
    with pytest.raises(
        enlist.EnlistError, match="every candidate diverged within 1 round; lower --worker-lr"
    ):
        _tune_spring(tmp_path / "out", worker_lr=[1e30, 1e31], server_lr=[1e30], first_rounds=1)


# ---- bad input -----------------------------------------------------------------------------------------


def test_a_range_is_evenly_spaced_on_a_log_scale():
    assert rates("worker-lr", "0.001:10:5") == [0.001, 0.01, 0.1, 1.0, 10.0]
    assert rates("worker-lr", "0.3,0.1") == [0.3, 0.1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--worker-lr 1:0.1:3", "from a lower to a higher rate"),
        ("--worker-lr 0.1:1", "typed as LOW:HIGH:COUNT"),
        ("--worker-lr 0.1:x:3", "typed as LOW:HIGH:COUNT"),
        ("--worker-lr 0.1:1:1", "must have 2 to 1000 values"),
        ("--worker-lr 0:1:3", "must be above 0"),
        ("--server-lr 1,1", "1 is there twice"),
        ("--worker-lr 1:1.0001:900", "too close together"),
        ("--worker-lr 0.1 --server-lr 1 --local-epochs 5", "one candidate leaves nothing to choose"),
        ("--local-epochs 1,5 --local-steps 3", "both given: choose one"),
        ("--local-epochs 1,x", "must be a whole number"),
        ("--target 0.9", "add --by rounds"),
        ("--by rounds", "--target 0.9"),
        ("--by loss", "unknown by 'loss'"),
        ("--eta 1", "give 2 or more"),
        ("--seeds 0", "seeds = 0"),
        ("--first-rounds 0", "first-rounds = 0"),
        ("--rounds 3", "5 rungs from 1 round on need at least 5"),
        ("--first-rounds 99", "need at least 103"),
        ("--seed 1,2", "seed = 1,2: must be a whole number"),
        ("--algorithm feddyn --server-lr 1,2", "feddyn has no such option"),
        ("--algorithm fedag", "did you mean 'fedavg'"),
        ("--worker-lr 0.001:1:999 --seeds 9", "more than 10,000 runs"),
        ("--resume nowhere", "there is no tune in that folder"),
        ("here", "belongs to no option"),
    ],
)
def test_bad_input_is_one_line(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said in refused(f"tune {words}", capsys)
    assert not [*tmp_path.iterdir()]
