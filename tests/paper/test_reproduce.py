"""`enlist reproduce`: one recipe really run, on little data; taken up again; and what is refused."""

import json
import shutil
from pathlib import Path

import doctored
import numpy as np
import pytest

from enlist.cli import main
from enlist.engine.together import simulate_each
from enlist.errors import BadInput
from enlist.launch.reproduce import carry_out, points_of, thinned
from enlist.problem import models
from enlist.problem.dataset import Dataset
from enlist.studies.paper import raw
from enlist.studies.paper.catalogue import RECIPES
from enlist.studies.paper.recipes import unbalanced
from enlist.studies.paper.setting import SCALES, Extent, Scale, Way

TINY = Scale(
    "small",
    {name: Extent(rounds=2, seeds=1) for name in ("logistic", "two_nn", "cnn")},
    rows=1200,
    ways={"mnist": Way(10), "cifar10": Way(10)},
    precision={"mnist": "float32", "cifar10": "float32"},
    eval_rows={"mnist": None, "cifar10": None},
    image_model="cnn",
)
FILES = {
    "verdicts.json",
    "figures/unbalanced.png",
    "environment.json",
    "reproduction.md",
    "report.html",
}


def blots(name, workers, seed):
    """Images of 28 x 28 pixels whose class is where they are bright."""
    assert name == "mnist"
    rng = np.random.default_rng(0)

    def draw(count):
        y = np.arange(count) % 10
        x = rng.random((count, 28, 28, 1)) * 0.3
        x[np.arange(count), 2 * y, 2 * y] += 0.7
        return x.astype(np.float32), y.astype(np.int32)

    return Dataset(*draw(1500), *draw(200), classes=10, name="mnist")


def shrink(patch):
    """Little data, few rounds, and two programs instead of three."""
    patch.setitem(SCALES, "small", TINY)
    patch.setattr("enlist.problem.datasets.load", blots)
    patch.setattr("enlist.studies.paper.recipes.unbalanced.EPOCHS", (1, 5))


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The command on little data, in a folder of its own."""
    shrink(monkeypatch)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of an uninterrupted reproduction."""
    out = tmp_path_factory.mktemp("paper") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        main(["reproduce", "unbalanced", "--out", str(out)])
    return out


def no_runs(*given, **named):
    pytest.fail("nothing is left to run")


def begun_only(jobs, **named):
    """Carries out the first, and is interrupted before that is written down."""
    next(simulate_each(jobs[:1], **named))
    raise KeyboardInterrupt


def same(one, other):
    """Whether two folders hold the same runs with the same metrics, to the last digit."""
    first, second = raw.read(one / "raw"), raw.read(other / "raw")
    assert first.curves.keys() == second.curves.keys()
    return all(
        np.array_equal(getattr(curve, name), getattr(second.curves[setting], name), equal_nan=True)
        for setting, curve in first.curves.items()
        for name in ("round", *raw.SERIES)
    )


def lines(folder):
    return (folder / "raw" / "mnist-two_nn.jsonl").read_text().splitlines(keepends=True)


def test_a_recipe_runs_and_leaves_everything(whole, tiny):
    wanted = unbalanced.runs(TINY)
    kept = raw.read(whole / "raw")
    assert kept.curves.keys() == set(wanted)
    assert len(wanted) == 6
    assert all(list(curve.round) == [1, 2] for curve in kept)
    assert all((whole / name).is_file() for name in FILES)
    assert not (whole / "work").exists()
    facts = json.loads((whole / "environment.json").read_text())
    assert facts["recipes"]["unbalanced"]["runs"] == len(wanted) == facts["runs"]
    (took,) = facts["recipes"]["unbalanced"]["machines"].values()
    assert took["runs"] == len(wanted)
    assert took["wall_seconds"] == pytest.approx(facts["wall_seconds"], abs=0.1)


def test_going_on_runs_nothing_again_and_prints_the_same_as_json(whole, tiny, monkeypatch, capsys):
    monkeypatch.setattr("enlist.launch.reproduce.simulate_each", no_runs)
    before = lines(whole)
    main(["reproduce", "unbalanced", "--out", str(whole), "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert lines(whole) == before
    assert set(facts["files"]) == FILES
    assert [each["number"] for each in facts["verdicts"]] == list(range(1, 14))
    assert facts["verdicts"][11]["verdict"] != "not run"
    assert facts["runs"] == len(before)
    assert facts["device_seconds"] > 0


def test_the_command_says_that_it_is_small_and_what_it_found(whole, tiny, monkeypatch, capsys):
    monkeypatch.setattr("enlist.launch.reproduce.simulate_each", no_runs)
    main(["reproduce", "unbalanced", "--out", str(whole)])
    said = capsys.readouterr().out
    assert said.splitlines()[0].startswith("small scale")
    assert "--scale full" in said.splitlines()[0]
    assert all(str(whole / name) in said for name in FILES)
    # The recipe bears on claim 12 alone.
    assert "unequal" in said
    assert "SCAFFOLD" not in said


def test_what_a_kill_left_is_run_again_and_equals_an_uninterrupted_run(whole, tiny, tmp_path):
    torn = tmp_path / "torn"
    (torn / "raw").mkdir(parents=True)
    shutil.copy(whole / "reproduce.yaml", torn)
    kept = lines(whole)
    half = len(kept) // 2
    (torn / "raw" / "mnist-two_nn.jsonl").write_text("".join(kept[:half]) + kept[half][:200])
    main(["reproduce", "unbalanced", "--out", str(torn), "--json"])
    assert same(whole, torn)
    # The line that was cut off stays behind, and hurts nobody.
    assert lines(torn)[:half] == kept[:half]
    assert len(lines(torn)) == len(kept) + 1


def test_what_one_recipe_left_half_way_survives_another(whole, tiny, monkeypatch, tmp_path):
    first, *_, last = unbalanced.runs(TINY)
    recipe, other = (unbalanced.RECIPE._replace(runs=lambda scale, one=one: [one]) for one in (first, last))
    with monkeypatch.context() as patch:
        patch.setattr("enlist.launch.reproduce.simulate_each", begun_only)
        with pytest.raises(KeyboardInterrupt):
            carry_out([recipe], TINY, tmp_path, live=False)
    (begun,) = (tmp_path / "work").iterdir()
    left = (begun / "metrics.jsonl").read_text()
    carry_out([other], TINY, tmp_path, live=False)
    assert (begun / "metrics.jsonl").read_text() == left
    assert list((tmp_path / "work").iterdir()) == [begun]
    carry_out([recipe], TINY, tmp_path, live=False)
    assert not (tmp_path / "work").exists()


def test_what_was_begun_before_images_could_be_varied_is_gone_on_with(tiny, monkeypatch, tmp_path):
    """Folders of runs that are not finished, lines of finished ones, and measured seconds are as they were then."""
    monkeypatch.setattr("enlist.launch.reproduce.simulate_each", begun_only)
    # Only SCAFFOLD has variates.
    setting = unbalanced.runs(TINY)[0]._replace(algorithm="scaffold")
    others = {"augment": "crop", "pixels": "standard", "start": "uniform", "variates": "I"}
    assert [getattr(setting, name) for name in others] == [None] * 4
    as_then = [value for name, value in setting._asdict().items() if name not in others]
    before = "-".join(map(str, as_then)).replace(":", "_")
    for words, one in (
        ("", setting),
        *((f"-{each}", setting._replace(**{n: each})) for n, each in others.items()),
    ):
        out = tmp_path / f"out{words}"
        recipe = unbalanced.RECIPE._replace(runs=lambda scale, one=one: [one])
        with pytest.raises(KeyboardInterrupt):
            carry_out([recipe], TINY, out, live=False)
        assert [path.name for path in (out / "work").iterdir()] == [f"{before}{words}"]

    kept = tmp_path / "out" / "raw"
    rows = [{"of": [*raw.seconds_key(setting)[:-1]], "seconds": 1.5}]
    (kept / raw.SECONDS_FILE).write_text(json.dumps(rows))
    assert raw.read(kept).seconds == {raw.seconds_key(setting): 1.5}
    line = json.loads(raw.line_of(doctored.curve_of(setting)))
    for name in others:
        del line["setting"][name]
    assert raw.curve_of(json.dumps(line)).setting == setting


def test_pixels_and_first_weights_are_asked_for_as_a_person_would():
    way = Way(10, pixels="standard", start="uniform")
    (setting,) = TINY._replace(ways={"mnist": way}).settings(
        "mnist", "two_nn", seeds=1, partition="digits:2", cohort=10, local_epochs=1, rounds=1
    )
    assert setting.way == way
    asked = []

    def load(name, workers, seed):
        asked.append(name)
        return blots("mnist", workers, seed)

    (point,) = points_of([setting], load)
    assert point.task.model is models.two_nn(start="uniform")
    assert asked == ["mnist:standard"]


def test_runs_of_other_recipes_are_not_made(whole, tmp_path):
    found = carry_out(
        [unbalanced.RECIPE._replace(runs=lambda scale: [])], TINY, tmp_path, live=False, load=no_runs
    )
    assert len(found) == 0


def test_verdicts_make_everything_again_from_raw_metrics(whole, tiny, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("enlist.launch.reproduce.simulate_each", no_runs)
    shutil.copytree(whole / "raw", tmp_path / "results/paper/raw")
    shutil.copy(whole / "reproduce.yaml", tmp_path / "results/paper")
    main(["reproduce", "verdicts", "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert facts["folder"] == "results/paper"
    for name in FILES - {"report.html", "figures/unbalanced.png"}:
        assert (tmp_path / "results/paper" / name).read_text() == (whole / name).read_text()
    main(["reproduce", "verdicts"])
    assert "SCAFFOLD" in capsys.readouterr().out


def test_table1_takes_no_runs_and_is_remembered(tiny, capsys, tmp_path):
    main(["reproduce", "table1", "--out", "here", "--json"])
    assert json.loads(capsys.readouterr().out)["recipes"] == ["table1"]
    main(["reproduce", "verdicts", "--out", "here", "--json"])
    assert json.loads(capsys.readouterr().out)["recipes"] == ["table1"]
    assert (tmp_path / "here/tables/table1.csv").is_file()


def test_a_new_folder_is_dated(tiny, capsys, tmp_path):
    main(["reproduce", "table1", "--json"])
    folder = json.loads(capsys.readouterr().out)["folder"]
    assert folder.startswith("runs/")
    assert folder.endswith("-reproduce")


def test_an_interruption_says_how_to_go_on(tiny, monkeypatch, capsys, tmp_path):
    def interrupted(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("enlist.launch.reproduce.simulate_each", interrupted)
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "unbalanced", "--out", "a b"])
    assert stop.value.code == 130
    said = capsys.readouterr().err
    assert said == (
        "enlist: interrupted; go on with: enlist reproduce unbalanced --scale small --out 'a b'\n"
    )
    assert (tmp_path / "a b/reproduce.yaml").is_file()


def test_what_interrupted_sittings_took_is_counted(tiny, monkeypatch, tmp_path):
    def interrupted(jobs, **named):
        next(simulate_each(jobs[:1], **named))
        summary = jobs[0].out / "summary.json"
        summary.write_text(json.dumps(json.loads(summary.read_text()) | {"device_seconds": 100.0}))
        raise KeyboardInterrupt

    recipe = unbalanced.RECIPE._replace(runs=lambda scale: unbalanced.runs(scale)[:2])
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr("enlist.launch.reproduce.simulate_each", interrupted)
            with pytest.raises(KeyboardInterrupt):
                carry_out([recipe], TINY, tmp_path, live=False)
    kept = carry_out([recipe], TINY, tmp_path, live=False)
    assert sorted(curve.device_seconds >= 200 for curve in kept) == [False, True]
    took = [sitting.device_seconds for sitting in raw.sittings(tmp_path / "raw")]
    assert took[:2] == [100, 100]
    assert sum(took[2:]) < 100


def refused(words, capsys):
    """The one line, and nothing else."""
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", *words])
    said = capsys.readouterr()
    assert stop.value.code == 2
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


def test_another_scale_is_refused(whole, tiny, capsys):
    before = sorted(whole.rglob("*"))
    said = refused(["fig1", "--scale", "full", "--out", str(whole)], capsys)
    assert f"scale = full: {whole} holds a reproduction at small scale; give --scale small" in said
    said = refused(["verdicts", "--scale", "full", "--out", str(whole)], capsys)
    assert "holds a reproduction at small scale" in said
    assert sorted(whole.rglob("*")) == before


def test_a_damaged_plan_or_run_is_refused(whole, tiny, capsys, tmp_path):
    shutil.copytree(whole / "raw", tmp_path / "odd/raw")
    (tmp_path / "odd/reproduce.yaml").write_text("scale: huge\n")
    assert "odd/reproduce.yaml: damaged" in refused(["verdicts", "--out", "odd"], capsys)
    (tmp_path / "odd/reproduce.yaml").write_text("scale: small\n")
    path = tmp_path / "odd/raw/mnist-two_nn.jsonl"
    path.write_text('{"setting": 3}\n' + path.read_text())
    assert "line 1 is damaged" in refused(["verdicts", "--out", "odd"], capsys)
    assert "line 1 is damaged" in refused(["unbalanced", "--out", "odd"], capsys)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("test_accuracy", [0.1]),
        ("test_accuracy", [10.0, 75.0]),
        ("device_seconds", "x"),
        ("device_seconds", -1),
        ("device", None),
        ("status", "perhaps"),
        ("setting", {"seed": 1}),
    ],
)
def test_a_line_that_is_no_run_is_refused(whole, tmp_path, name, value):
    shutil.copytree(whole / "raw", tmp_path / "raw")
    path = tmp_path / "raw/mnist-two_nn.jsonl"
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([*others, json.dumps(json.loads(first) | {name: value})]) + "\n")
    with pytest.raises(BadInput, match=rf"mnist-two_nn.jsonl: line {len(others) + 1} is damaged; remove it"):
        raw.read(tmp_path / "raw")


def test_what_is_no_text_or_no_setting_is_refused(whole, tmp_path):
    shutil.copytree(whole / "raw", tmp_path / "raw")
    path = tmp_path / "raw/mnist-two_nn.jsonl"
    whole_lines = path.read_bytes()
    path.write_bytes(whole_lines.replace(b'"two_nn"', b'"two\xff_nn"', 1))
    with pytest.raises(BadInput, match="line 1 is damaged"):
        raw.read(tmp_path / "raw")
    path.write_bytes(whole_lines.replace(b'"seed": 0', b'"seed": [0]', 1))
    with pytest.raises(BadInput, match="line 1 is damaged"):
        raw.read(tmp_path / "raw")
    for line in (
        '{"what": 3}',
        "blah}",
        '{"what": "a", "runs": 1, "device_seconds": "a", "wall_seconds": 1, "device": ""}',
    ):
        (tmp_path / "raw/sittings.jsonl").write_text(f"{line}\n")
        with pytest.raises(BadInput, match=r"sittings.jsonl: line 1 is damaged"):
            raw.sittings(tmp_path / "raw")


def test_blanks_at_the_ends_of_lines_change_nothing(whole, tmp_path):
    shutil.copytree(whole / "raw", tmp_path / "raw")
    path = tmp_path / "raw/mnist-two_nn.jsonl"
    path.write_text(path.read_text().replace("\n", " \r\n"))
    assert same(whole, tmp_path)


def test_runs_of_another_scale_are_left_out_and_that_is_said(whole, tiny, tmp_path, capsys):
    shutil.copytree(whole, tmp_path / "mixed")
    runs = list(raw.read(whole / "raw"))
    foreign = [run._replace(setting=run.setting._replace(rounds=100)) for run in runs[:2]]
    raw.append(tmp_path / "mixed/raw", foreign)
    main(["reproduce", "verdicts", "--out", "mixed"])
    assert "left out: 2 runs in raw/ that no recipe has at small scale" in capsys.readouterr().out
    facts = json.loads(Path("mixed/environment.json").read_text())
    assert (facts["runs"], facts["left_out"]) == (len(runs), 2)
    assert "2 runs in raw/ that no recipe has" in Path("mixed/reproduction.md").read_text()


def test_without_data_there_is_one_line_and_no_folder(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "ENLIST_CACHE": str(tmp_path / "no"),
        "ENLIST_DATA": "",
        "ENLIST_OFFLINE": "1",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "fig1", "--out", "new", "--json"])
    said = capsys.readouterr()
    assert stop.value.code == 1
    assert said.out == ""
    assert said.err.startswith("enlist: cannot obtain mnist")
    assert said.err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def uneven(name, workers, seed):
    """Labels as unequal as those of MNIST are; what is on the images does not matter."""
    rng = np.random.default_rng(1)
    shape = (28, 28, 1) if name == "mnist" else (32, 32, 3)

    def draw(count):
        share = rng.uniform(0.8, 1.2, 10)
        return np.zeros((count, *shape), np.uint8), rng.choice(10, count, p=share / share.sum()).astype(
            np.int32
        )

    return Dataset(*draw(6000), *draw(1500), classes=10, name=name)


@pytest.mark.parametrize("name", RECIPES)
def test_there_are_rows_enough_for_every_recipe_at_small_scale(name):
    small = SCALES["small"]
    settings = [setting for setting in RECIPES[name].runs(small) if setting.seed == 0]
    points = points_of(settings, thinned(uneven, small.rows)) if settings else []
    for setting, point in zip(settings, points, strict=True):
        data = point.task.federation.data
        assert np.bincount(data.y_train).tolist() == [small.rows // 10] * 10
        assert point.task.federation.workers == setting.workers
        assert point.task.settings.rounds == setting.rounds


def test_a_single_run_that_is_missing_is_made():
    (setting,) = [each for each in RECIPES["unbalanced"].runs(TINY) if each.seed == 0][:1]
    (point,) = points_of([setting], thinned(blots, TINY.rows))
    assert point.task.settings.seed == setting.seed
    assert point.task.federation.partition == setting.partition
    assert point.task.work.epochs == setting.local_epochs
