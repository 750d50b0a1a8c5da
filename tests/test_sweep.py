"""`enlist sweep`: a grid of options, runs of one shape in one program, each the run that it would be alone."""

import csv
import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml

import enlist
from enlist.cli import main
from enlist.engine.folder import write_config
from enlist.engine.program import program
from enlist.engine.together import Job, simulate_each, simulate_together
from enlist.launch.grid import Grid, checked, over, read_grid, with_seeds
from enlist.launch.sweep import Workshop, complete_grid
from enlist.problem import datasets
from enlist.studies.grid import grouped, program_shape

# One device, so that processes and tests share what is compiled.
PROBLEM = (
    "--dataset digits --model logistic --workers 20 --cohort 4 --local-epochs 1 --batch 20 --devices 1 "
    "--execution batch"
)
SWEEP = f"sweep {PROBLEM} --rounds 3 --worker-lr 0.05,1e30 --partition digits:1,dirichlet:0.5 --seeds 2 --target 0.3"
FILES = {
    *("sweep.yaml", "summary.json", "sweep.csv", "sweep.tex", "cells.csv", "cells.tex"),
    *("heatmap.png", "report.html", "runs"),
}


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Two rates, one of which diverges, two partitions of other sizes, two seeds."""
    out = tmp_path_factory.mktemp("sweep") / "out"
    main([*shlex.split(SWEEP), "--out", str(out), "--json"])
    return out


@pytest.fixture
def _somewhere_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def rows(folder, name="sweep.csv"):
    with (Path(folder) / name).open() as file:
        return list(csv.DictReader(file))


def without_times(folder):
    return [{name: cell for name, cell in row.items() if name != "wall_seconds"} for row in rows(folder)]


def points(words):
    """The runs of what is typed."""
    from enlist.commands import sweep
    from enlist.options.study import SweepOptions

    given = sweep.read(SweepOptions, shlex.split(words))[0]
    seeds = given.pop("seeds", None)
    return Workshop(checked(Grid(given if seeds is None else with_seeds(given, *seeds)))).points()


def run_folder(folder, **values):
    name = ",".join(f"{key}={value}" for key, value in values.items())
    return Path(folder) / "runs" / name


# ---- what it leaves ------------------------------------------------------------------------------------


def test_it_leaves_tables_a_heat_map_a_page_and_every_run(swept):
    assert {path.name for path in swept.iterdir()} == FILES
    assert (swept / "heatmap.png").read_bytes().startswith(b"\x89PNG")
    found = rows(swept)
    assert len(found) == 8
    assert {row["run"] for row in found} == {path.name for path in (swept / "runs").iterdir()}
    first = found[0]
    assert (first["worker_lr"], first["partition"], first["seed"]) == ("0.05", "digits:1", "0")
    assert [row["status"] for row in found] == ["done"] * 4 + ["diverged"] * 4
    folder = run_folder(swept, worker_lr="0.05", partition="digits_1", seed="0")
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    assert float(first["final_accuracy"]) == last["test_accuracy"]
    assert int(first["rounds"]) == 3


def test_seeds_are_averaged_and_a_cell_that_diverged_says_so(swept):
    cells = rows(swept, "cells.csv")
    assert [(cell["worker_lr"], cell["seeds"], cell["diverged"]) for cell in cells] == [
        ("0.05", "2", "0"),
        ("0.05", "2", "0"),
        ("1e+30", "2", "2"),
        ("1e+30", "2", "2"),
    ]
    best = [float(row["best_accuracy"]) for row in rows(swept)[:2]]
    assert float(cells[0]["best_accuracy_mean"]) == pytest.approx(np.mean(best))
    assert float(cells[0]["best_accuracy_std"]) == pytest.approx(np.std(best, ddof=1))
    assert cells[2]["best_accuracy_mean"] == ""
    summary = json.loads((swept / "summary.json").read_text())
    assert (summary["done"], summary["diverged"], summary["measure"]) == (4, 4, "rounds_to_target")
    assert summary["best"]["worker_lr"] == 0.05
    assert "diverged after" in (swept / "sweep.tex").read_text()


def test_the_grid_is_kept_complete_and_repeats_the_sweep(swept, tmp_path, capsys):
    kept = yaml.safe_load((swept / "sweep.yaml").read_text())
    assert list(kept)[:3] == ["worker_lr", "partition", "seed"]
    assert (kept["worker_lr"], kept["seed"]) == ([0.05, 1e30], [0, 1])
    one = yaml.safe_load(
        (run_folder(swept, worker_lr="0.05", partition="digits_1", seed="0") / "config.yaml").read_text()
    )
    assert set(kept) == set(one)
    assert (kept["cohort"], kept["server_lr"], kept["server_optimizer"]) == (4, 1.0, "sgd")
    main(["sweep", "--grid", str(swept / "sweep.yaml"), "--out", str(tmp_path / "again"), "--json"])
    assert json.loads(capsys.readouterr().out)["folder"] == str(tmp_path / "again")
    assert without_times(tmp_path / "again") == without_times(swept)
    assert (tmp_path / "again" / "sweep.yaml").read_text() == (swept / "sweep.yaml").read_text()


@pytest.mark.parametrize("partition", ["digits_1", "dirichlet_0.5"])
def test_each_run_is_what_enlist_run_makes_of_its_configuration(partition, swept, tmp_path):
    theirs = run_folder(swept, worker_lr="0.05", partition=partition, seed="1")
    main(["run", "--config", str(theirs / "config.yaml"), "--out", str(tmp_path / "again"), "--json"])
    for name in ("metrics.jsonl", "model.safetensors", "config.yaml"):
        assert (tmp_path / "again" / name).read_bytes() == (theirs / name).read_bytes()


def test_a_neighbour_that_diverges_changes_no_bit(swept, tmp_path):
    words = SWEEP.replace("0.05,1e30", "0.05")
    main([*shlex.split(words), "--out", str(tmp_path / "out"), "--json"])
    for partition in ("digits_1", "dirichlet_0.5"):
        for seed in ("0", "1"):
            alone = run_folder(tmp_path / "out", partition=partition, seed=seed)
            beside = run_folder(swept, worker_lr="0.05", partition=partition, seed=seed)
            for name in ("metrics.jsonl", "model.safetensors"):
                assert (alone / name).read_bytes() == (beside / name).read_bytes()


def test_nor_side_by_side():
    good, other, bad = [point.task for point in points(f"{PROBLEM} --rounds 3 --worker-lr 0.05,0.1,1e30")]
    calm = simulate_together([Job(good), Job(other)], side_by_side=True)
    stormy = simulate_together([Job(good), Job(bad)], side_by_side=True)
    assert [run.summary["status"] for run in stormy] == ["done", "diverged"]
    assert stormy[0].metrics == calm[0].metrics


def test_side_by_side_it_leaves_the_same_runs(swept, tmp_path, monkeypatch):
    monkeypatch.setattr("enlist.studies.grid.simulate_each", partial(simulate_each, side_by_side=True))
    monkeypatch.setattr("enlist.engine.together._at_once", lambda jobs: 5)
    main([*shlex.split(SWEEP), "--out", str(tmp_path / "out"), "--json"])
    for ours, theirs in zip(rows(tmp_path / "out"), rows(swept), strict=True):
        assert (ours["run"], ours["status"], ours["rounds"]) == (
            theirs["run"],
            theirs["status"],
            theirs["rounds"],
        )
        if ours["status"] == "done":
            assert float(ours["train_loss"]) == pytest.approx(float(theirs["train_loss"]), rel=1e-4)
            assert float(ours["best_accuracy"]) == pytest.approx(float(theirs["best_accuracy"]), abs=0.01)


def test_report_draws_a_sweep_again(swept, tmp_path, capsys):
    main(["report", str(swept), "--out", str(tmp_path / "again"), "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert facts | {"folder": None} == json.loads((swept / "summary.json").read_text()) | {"folder": None}
    assert {path.name for path in (tmp_path / "again").iterdir()} == FILES - {"runs", "sweep.yaml"}
    for name in ("sweep.csv", "cells.csv", "sweep.tex", "heatmap.png"):
        assert (tmp_path / "again" / name).read_bytes() == (swept / name).read_bytes()
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    shutil.copy(swept / "sweep.yaml", unfinished)
    for words, says in (
        ([str(unfinished)], "holds a sweep that is not finished"),
        ([str(swept), str(swept)], "a sweep has a page of its own"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["report", *words])
        assert stop.value.code == 2
        assert says in capsys.readouterr().err


def test_one_axis_is_drawn_as_a_line_and_said_on_the_terminal(tmp_path, capsys):
    words = f"sweep {PROBLEM} --partition digits:1 --rounds 1 --worker-lr 0.05,0.1 --tensorboard"
    main([*shlex.split(words), "--out", str(tmp_path / "out")])
    said = capsys.readouterr()
    assert list((run_folder(tmp_path / "out", worker_lr="0.05") / "tensorboard").glob("events*"))
    assert (tmp_path / "out" / "line.png").read_bytes().startswith(b"\x89PNG")
    assert "worker_lr" in said.out
    assert str(tmp_path / "out" / "report.html") in said.out
    assert said.err == ""


# ---- one program for a shape ---------------------------------------------------------------------------


def test_what_is_data_shares_a_program_and_what_shapes_it_does_not():
    tasks = [
        point.task
        for point in points(
            f"{PROBLEM} --worker-lr 0.1,0.2 --partition digits:2,quantity:1 --seed 0,1 --bandwidth 1,2"
        )
    ]
    (group,) = grouped(tasks)
    assert len(group.places) == 16
    assert group.room.capacity == max(int(task.federation.sizes.max()) for task in tasks)
    for words, groups in (
        ("--local-epochs 1,2", 2),
        ("--cohort 4,5", 2),
        ("--precision float32,bf16", 2),
        ("--algorithm fedavg,scaffold", 2),
        ("--worker-lr 0.1,1 --compress topk:0.1,sign", 2),
        ("--algorithm fedprox --mu 0.1,1", 1),
        ("--model two_nn,two_nn+start=uniform", 1),
        ("--model two_nn,two_nn+hidden=100", 2),
        # Of another length they cannot advance together, but share the program.
        ("--rounds 1,2", 2),
    ):
        tasks = [point.task for point in points(f"{PROBLEM} {words}")]
        assert len(grouped(tasks)) == groups, words
    assert len({program_shape(task) for task in tasks}) == 1


def test_a_gradient_over_all_rows_keeps_its_room():
    tasks = [
        point.task
        for point in points(f"{PROBLEM} --batch 0 --partition digits:2,quantity:1 --worker-lr 0.1,1")
    ]
    assert [len(group.places) for group in grouped(tasks)] == [2, 2]


def test_a_group_is_compiled_once():
    tasks = [
        point.task
        for point in points(
            f"{PROBLEM} --rounds 2 --worker-lr 0.07,0.09 --partition iid,dirichlet:0.3 --seeds 2"
        )
    ]
    (group,) = grouped(tasks)
    plans = {run.session.plan for run in simulate_each([Job(task) for task in tasks], room=group.room)}
    assert len(plans) == 1
    assert program(plans.pop()).block._cache_size() == 1


def test_data_are_loaded_once_and_dealt_once(monkeypatch):
    loaded, load = [], datasets.load
    monkeypatch.setattr(datasets, "load", lambda name, **given: loaded.append(name) or load(name, **given))
    made = points(f"{PROBLEM} --worker-lr 0.1,0.2 --partition iid,digits:2 --seeds 2")
    assert loaded == ["digits"]
    assert len({id(point.task.federation) for point in made}) == 4
    assert len({id(point.task.federation.data) for point in made}) == 1
    assert len({id(point.task.model) for point in made}) == 1


# ---- the grid ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_somewhere_else")
def test_a_grid_from_a_file_with_what_is_typed_over_it():
    Path("grid.yaml").write_text("worker_lr: [0.1, 1e-3]\nlocal_epochs: 3\nrounds: 5\nseeds: 2\nseed: 7\n")
    grid = read_grid(Path("grid.yaml"))
    assert grid.axes == {"worker_lr": [0.1, 1e-3], "seed": [7, 8]}
    assert grid.settings == {"local_epochs": 3, "rounds": 5}
    typed = over(grid, Grid({"local_steps": [4], "worker_lr": [1.0], "server_lr": [1.0, 2.0]}))
    assert typed.axes == {"seed": [7, 8], "server_lr": [1.0, 2.0]}
    assert typed.settings == {"worker_lr": 1.0, "rounds": 5, "local_steps": 4}


@pytest.mark.usefixtures("_somewhere_else")
def test_combinations_told_one_by_one_are_crossed_with_the_axes():
    Path("grid.yaml").write_text(
        "runs:\n- {algorithm: fedavg}\n- {algorithm: fedprox, mu: 0.1}\n- {algorithm: fedprox, mu: 1}\n"
        "worker_lr: 0.2\nseed: [0, 1]\n"
    )
    grid = checked(read_grid(Path("grid.yaml")))
    found = grid.combinations()
    assert len(found) == 6
    assert found[0] == {"algorithm": "fedavg", "mu": None, "seed": 0}
    assert found[-1] == {"algorithm": "fedprox", "mu": 1.0, "seed": 1}
    assert grid.options(found[-1]) == {"worker_lr": 0.2, **found[-1]}
    # One option typed over them all leaves what the others tell apart.
    assert len(checked(over(grid, Grid({"mu": [0.5], "algorithm": ["fedprox"]}))).combinations()) == 2


@pytest.mark.usefixtures("_somewhere_else")
def test_a_sweep_around_a_run(swept, capsys):
    config = run_folder(swept, worker_lr="0.05", partition="digits_1", seed="0") / "config.yaml"
    main(["sweep", "--config", str(config), "--server-lr", "1,2", "--rounds", "1", "--out", "new", "--json"])
    assert json.loads(capsys.readouterr().out)["axes"] == {"server_lr": [1.0, 2.0]}
    assert yaml.safe_load(Path("new/sweep.yaml").read_text())["partition"] == "digits:1"


def test_options_whose_values_hold_commas_are_typed_once_for_each():
    made = points(
        f"{PROBLEM} --local-schedule 1:2 --local-schedule 1:2,2:3 --worker-lr 1 --worker-lr 0.1,0.2"
    )
    assert [point.values for point in made] == [
        {"local_schedule": schedule, "worker_lr": rate}
        for schedule in ("1:2", "1:2,2:3")
        for rate in (0.1, 0.2)
    ]
    assert [task.work.later for _, task, _ in made[1:3]] == [((1, 2),), ((1, 2), (2, 3))]


@pytest.mark.usefixtures("_somewhere_else")
def test_a_file_that_changed_is_noticed():
    rng = np.random.default_rng(0)
    arrays = {"x_train": rng.normal(size=(40, 3)), "y_train": np.arange(40) % 4}
    arrays |= {"x_test": rng.normal(size=(8, 3)), "y_test": np.arange(8) % 4}
    np.savez("one.npz", **arrays)
    np.savez("two.npz", **arrays)
    grid = Grid({"dataset": ["one.npz", "two.npz"], "model": ["logistic"], "workers": [4], "cohort": [2]})
    kept = complete_grid(grid, Workshop(grid).points())
    assert set(kept["files"]) == {"one.npz", "two.npz"}
    write_config(Path("sweep.yaml"), kept)
    again = read_grid(Path("sweep.yaml"))
    assert complete_grid(again, Workshop(again).points()) == kept
    np.savez("two.npz", **(arrays | {"x_test": np.zeros((8, 3))}))
    with pytest.raises(enlist.BadInput, match=r"dataset=two.npz: two.npz is not the file it was"):
        Workshop(again).points()
    # Another file in its place is none that has changed.
    assert len(Workshop(over(again, Grid({"dataset": ["one.npz"], "seed": [0, 1]}))).points()) == 2


# ---- stopping and going on -----------------------------------------------------------------------------


def begin(out, rounds, *more):
    words = f"sweep {PROBLEM} --partition digits:1 --rounds {rounds} --checkpoint-every 20"
    words += " --worker-lr 0.05,0.1 --server-lr 1,2"
    return [*shlex.split(words), "--out", str(out), "--json", *more]


def test_killed_at_any_moment_it_goes_on_as_if_it_had_not_been(tmp_path, capsys):
    cut, rounds = tmp_path / "cut", 100
    second = run_folder(cut, worker_lr="0.05", server_lr="2")
    process = subprocess.Popen(
        [sys.executable, "-m", "enlist", *begin(cut, rounds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while process.poll() is None and not (
        (second / "metrics.jsonl").exists() and (second / "metrics.jsonl").read_bytes().count(b"\n") > 20
    ):
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (cut / "summary.json").exists()
    first = run_folder(cut, worker_lr="0.05", server_lr="1") / "summary.json"
    before = first.stat().st_mtime_ns
    # A kill may also come while a run's folder is being made.
    torn = run_folder(cut, worker_lr="0.1", server_lr="2")
    shutil.rmtree(torn, ignore_errors=True)
    torn.mkdir()
    (torn / "metrics.jsonl").touch()
    (torn / "partition.json").write_text("{}")
    main(["sweep", "--resume", str(cut), "--json"])
    assert json.loads(capsys.readouterr().out)["done"] == 4
    assert first.stat().st_mtime_ns == before
    main(begin(tmp_path / "uncut", rounds))
    assert without_times(cut) == without_times(tmp_path / "uncut")
    for folder in (cut / "runs").iterdir():
        for name in ("metrics.jsonl", "model.safetensors", "config.yaml"):
            assert (folder / name).read_bytes() == (tmp_path / "uncut/runs" / folder.name / name).read_bytes()


def test_ctrl_c_says_how_to_go_on(tmp_path):
    cut = tmp_path / "cut"
    process = subprocess.Popen(
        [sys.executable, "-m", "enlist", *begin(cut, 1_000_000)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    first = run_folder(cut, worker_lr="0.05", server_lr="1") / "metrics.jsonl"
    while process.poll() is None and not (first.exists() and first.read_bytes().count(b"\n") > 5):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert err == f"enlist: interrupted; go on with: enlist sweep --resume {cut}\n"


def test_going_on_with_what_is_done_changes_nothing(swept, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(swept, copy)
    main(["sweep", "--resume", str(copy), "--json"])
    assert (copy / "sweep.csv").read_text() == (swept / "sweep.csv").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            "--resume {0} --rounds 5",
            "resume and rounds are both given: a resumed sweep goes on as it was begun",
        ),
        ("--resume {0} --out new", "resume and out are both given"),
        ("--resume nowhere", "resume nowhere: there is no sweep in that folder (it has no sweep.yaml)"),
        (
            "--grid {0}/sweep.yaml --out {0}",
            "that folder is not empty; name a new one, or go on with --resume",
        ),
    ],
)
def test_what_cannot_be_gone_on_with_is_refused(words, says, swept, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["sweep", *shlex.split(words.format(swept))])
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert said.count("\n") == 1
    assert says in said


# ---- from Python ---------------------------------------------------------------------------------------


def sweep(out, **more):
    data = enlist.datasets.digits()
    options = {
        "model": enlist.models.logistic(),
        "worker_lr": [0.05, 0.1],
        "how": ["digits:1", "dirichlet:0.5"],
        "seed": [0, 1],
        "rounds": 2,
        "devices": 1,
        "execution": "batch",
    }
    return enlist.sweep(
        enlist.fedavg,
        federation=lambda how, seed: enlist.partition.parse(how)(data, 20, seed),
        out=out,
        **{"cohort": 4, "local": enlist.Epochs(1, 20)} | options | more,
    )


def test_from_python_functions_take_the_options_that_they_name(tmp_path):
    made = sweep(tmp_path / "out")
    assert len(made.rows) == 8
    assert made.axes == {"worker_lr": [0.05, 0.1], "how": ["digits:1", "dirichlet:0.5"], "seed": [0, 1]}
    best = max(made.cells, key=lambda cell: cell.spread("best_accuracy").mean)
    assert made.best().values == best.values
    assert (tmp_path / "out" / "heatmap.png").exists()
    again = sweep(tmp_path / "out", resume=True)
    assert again.rows == made.rows
    with pytest.raises(enlist.BadInput, match="not empty"):
        sweep(tmp_path / "out")
    with pytest.raises(enlist.BadInput, match="not the grid that it was begun with"):
        sweep(tmp_path / "out", resume=True, rounds=3)


def test_from_python_another_model_is_not_taken_for_that_of_runs_that_are_there(tmp_path):
    data = enlist.datasets.digits()
    fed = enlist.partition.iid(data, workers=10, seed=0)

    def sweep(model, federation=fed, **more):
        work = {"cohort": 3, "local": enlist.Epochs(1, 50), "rounds": 1}
        axes = {"worker_lr": [0.1, 0.2]}
        return enlist.sweep(enlist.fedavg, model, federation, out=tmp_path / "out", **work, **axes, **more)

    model = enlist.models.two_nn(hidden=5)
    made = sweep(model)
    shutil.rmtree(tmp_path / "out" / "runs" / "worker_lr=0.2")
    for other in (
        enlist.models.two_nn(hidden=5, start="uniform"),
        enlist.as_model(model, augment=enlist.augment.crop),
    ):
        with pytest.raises(enlist.BadInput, match="the algorithm or the model computes something else now"):
            sweep(other, resume=True)
    with pytest.raises(enlist.BadInput, match="its rows, or who holds them, are others"):
        sweep(model, enlist.partition.iid(data, workers=10, seed=1), resume=True)
    assert [row["train_loss"] for row in sweep(model, resume=True).rows] == [
        row["train_loss"] for row in made.rows
    ]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"worker_lr": 0.1, "how": "iid", "seed": 0}, "nothing differs; give a list of values"),
        ({"worker_lr": [0.1, 0.1]}, "worker_lr: 0.1 is there twice"),
        (
            {"model": [enlist.models.two_nn(), enlist.models.two_nn(start="uniform")]},
            "model: two_nn is there twice; enlist.as_model",
        ),
        ({"how": ["iid", "digits:11"]}, "how=digits:11, seed=0: "),
        ({"local": [enlist.Epochs(1, 20), 3]}, "local = 3: give Epochs"),
    ],
)
def test_from_python_what_does_not_fit_is_named(more, says, tmp_path):
    with pytest.raises(enlist.BadInput, match=says.replace("(", r"\(")):
        sweep(tmp_path / "out", **more)
    assert not (tmp_path / "out").exists()


def test_from_python_an_option_that_nobody_takes_is_refused(tmp_path):
    with pytest.raises(TypeError, match="no argument 'q'"):
        sweep(tmp_path / "out", q=3)
