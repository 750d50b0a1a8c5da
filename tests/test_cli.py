"""The command, from what is typed to what lies in the folder."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file

from enlist.cli import main
from enlist.options import HostOptions, OutputOptions, RunOptions, flatten

EXAMPLES = Path(__file__).parent.parent / "examples"
# One shape and one device for all, so that processes and tests share what is compiled, and agree to the bit.
SMALL = (
    "run --dataset digits --model logistic --workers 20 --cohort 4 --local-epochs 1 --batch 20 --devices 1"
)
FILES = {
    "config.yaml",
    "metrics.jsonl",
    "summary.json",
    "model.safetensors",
    "checkpoints",
    "curves.png",
    "report.html",
    "partition.json",
}
KEYS = [
    "round",
    "train_loss",
    "test_loss",
    "test_accuracy",
    "delta_norm",
    "cohort",
    "uplink_bytes",
    "downlink_bytes",
    "comm_mib",
    "seconds",
    "compute_seconds",
]


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run of 7 rounds."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    main(shlex.split(f"{SMALL} --rounds 7 --eval-every 2 --target 0.3 --json --out {out}"))
    return out


def enlist(command, capsys):
    """What was printed on standard output; nothing may be on the other."""
    capsys.readouterr()
    main(shlex.split(command))
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def refused(command, capsys):
    """The exit code, and what was said."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(command))
    return stop.value.code, capsys.readouterr().err


def lines(folder):
    """The metrics; a last line that is still being written is none."""
    text = (Path(folder) / "metrics.jsonl").read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def equal(one, other):
    """To the bit: parameters and metrics."""
    return all(
        (Path(one) / name).read_bytes() == (Path(other) / name).read_bytes()
        for name in ("model.safetensors", "metrics.jsonl")
    )


# ---- what a run leaves ---------------------------------------------------------------------------------


def test_a_run_leaves_its_files(whole):
    assert {path.name for path in whole.iterdir()} == FILES
    assert (whole / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "<html" in (whole / "report.html").read_text()[:500].lower()
    assert set(load_file(whole / "model.safetensors")) == {"w", "b"}


def test_metrics_are_the_documented_ones_at_the_rounds_asked_for(whole):
    assert [line["round"] for line in lines(whole)] == [2, 4, 6, 7]
    for line in lines(whole):
        assert list(line) == KEYS
        assert len(line["cohort"]) == 4
        assert line["uplink_bytes"] == line["downlink_bytes"] == 4 * 650
        assert line["comm_mib"] == pytest.approx(line["round"] * 2 * 2600 / 2**20)
        assert line["seconds"] == pytest.approx(line["comm_mib"] / 20)


def test_the_config_is_complete_and_resolved(whole):
    config = yaml.safe_load((whole / "config.yaml").read_text())
    elsewhere = {*OutputOptions.__dataclass_fields__, *HostOptions.__dataclass_fields__}
    assert set(config) == set(flatten(RunOptions())) - elsewhere
    assert config["partition"] == "digits:2"
    assert config["execution"] != "auto"


def test_the_summary_says_how_it_ended(whole):
    summary = json.loads((whole / "summary.json").read_text())
    assert summary["status"] == "done"
    assert summary["rounds"] == 7
    assert summary["final"]["test_accuracy"] == lines(whole)[-1]["test_accuracy"]
    reached = next(line for line in lines(whole) if line["test_accuracy"] >= 0.3)
    assert summary["target"]["rounds"] == reached["round"]
    assert {"versions", "device", "seed", "wall_seconds"} <= set(summary)


def test_json_is_all_that_is_printed(whole, capsys):
    said = json.loads(enlist(f"{SMALL} --rounds 1 --out one --json", capsys))
    assert said == json.loads(Path("one/summary.json").read_text()) | {"folder": "one"}


def test_json_is_all_that_is_printed_even_where_a_model_chats(capsys):
    Path("chatty.py").write_text(
        "import jax.numpy as jnp\nprint('hello')\n"
        "def make():\n    return (lambda key: {'w': jnp.zeros((64, 10))}), "
        "(lambda p, x: x.reshape(len(x), -1) @ p['w'])\n"
    )
    capsys.readouterr()
    main(shlex.split(f"{SMALL} --model chatty.py:make --rounds 0 --json"))
    said = capsys.readouterr()
    assert json.loads(said.out)["rounds"] == 0
    assert said.err == "hello\n"


def test_without_out_folders_are_dated_and_never_shared(capsys):
    said = [enlist(f"{SMALL} --rounds 0", capsys) for _ in range(2)]
    made = sorted(Path("runs").iterdir())
    assert len(made) == 2
    assert all(re.fullmatch(r"\d{8}-\d{6}-\d{3}-fedavg-logistic-digits(-2)?", path.name) for path in made)
    assert all(any(str(path / "report.html") in text for text in said) for path in made)


def test_zero_rounds_leave_the_initial_parameters(capsys):
    import jax

    from enlist import datasets, models
    from enlist.algorithms.keys import init_key

    enlist(f"{SMALL} --model two_nn --rounds 0 --seed 3 --out zero", capsys)
    first = models.two_nn().init(init_key(jax.random.key(3)), datasets.digits().x_train[:1])
    kept = load_file("zero/model.safetensors")
    assert kept.keys() == {f"{layer}/{part}" for layer in first for part in first[layer]}
    assert all((kept[f"{layer}/w"] == first[layer]["w"]).all() for layer in first)
    assert lines("zero") == []
    assert {path.name for path in Path("zero").iterdir()} == FILES


# ---- again, and on -------------------------------------------------------------------------------------


def test_a_config_repeats_its_run_to_the_bit(whole, capsys):
    enlist(f"run --config {whole}/config.yaml --out again", capsys)
    assert equal(whole, "again")
    assert (whole / "config.yaml").read_text() == Path("again/config.yaml").read_text()


def test_what_is_typed_beside_a_config_wins(whole, capsys):
    enlist(f"run --config {whole}/config.yaml --rounds 1 --local-steps 2 --target none --out new", capsys)
    config = yaml.safe_load(Path("new/config.yaml").read_text())
    assert (config["rounds"], config["local_steps"], config["local_epochs"]) == (1, 2, None)
    assert config["target"] is None
    assert config["batch"] == 20


def test_a_flag_of_a_config_can_be_taken_back(whole, capsys):
    text = (whole / "config.yaml").read_text().replace("grad_norm: false", "grad_norm: true")
    Path("config.yaml").write_text(text)
    enlist("run --config config.yaml --no-grad-norm --rounds 1 --out new", capsys)
    assert "grad_norm_sq" not in lines("new")[0]


def test_resuming_with_more_rounds_equals_a_longer_run(whole, capsys):
    enlist(f"{SMALL} --rounds 3 --eval-every 2 --out cut", capsys)
    enlist("run --resume cut --rounds 7", capsys)
    assert (whole / "model.safetensors").read_bytes() == Path("cut/model.safetensors").read_bytes()
    assert lines(whole) == lines("cut")


def test_resuming_what_is_done_changes_nothing(whole, capsys):
    before = {path: path.read_bytes() for path in whole.iterdir() if path.suffix in (".jsonl", ".yaml")}
    model = load_file(whole / "model.safetensors")
    enlist(f"run --resume {whole}", capsys)
    assert all(path.read_bytes() == text for path, text in before.items())
    after = load_file(whole / "model.safetensors")
    assert all((after[name] == model[name]).all() for name in model)


def begin(options):
    """Starts a long run in a process of its own and returns when a few rounds are logged."""
    process = subprocess.Popen(
        [sys.executable, "-m", "enlist", *shlex.split(f"{SMALL} --rounds 1000000 --out cut {options}")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = Path("cut/metrics.jsonl")
    while process.poll() is None and not (metrics.exists() and metrics.read_bytes().count(b"\n") > 5):
        time.sleep(0.02)
    return process


@pytest.mark.parametrize("options", ["--checkpoint-every 1", "--checkpoint-every 4"])
def test_killed_at_any_moment_it_goes_on_as_if_it_had_not_been(options, capsys):
    process = begin(options)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not Path("cut/summary.json").exists()
    enlist(f"run --resume cut --rounds {lines('cut')[-1]['round'] + 5}", capsys)
    rounds = lines("cut")[-1]["round"]
    enlist(f"{SMALL} --rounds {rounds} {options} --out uncut", capsys)
    assert [line["round"] for line in lines("cut")] == list(range(1, rounds + 1))
    assert equal("cut", "uncut")


def test_ctrl_c_saves_and_says_how_to_go_on(capsys):
    process = begin("--json")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert err == "enlist: interrupted; go on with: enlist run --resume cut\n"
    assert json.loads(out)["status"] == "interrupted"
    done = lines("cut")[-1]["round"]
    assert Path(f"cut/checkpoints/{done}").is_dir()
    assert {path.name for path in Path("cut").iterdir()} == FILES
    enlist(f"run --resume cut --rounds {done + 5}", capsys)
    enlist(f"{SMALL} --rounds {done + 5} --out uncut", capsys)
    assert equal("cut", "uncut")


def test_ctrl_c_before_anything_was_written_leaves_nothing(monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("enlist.launch.run.deal", interrupted)
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(f"{SMALL} --out new"))
    assert stop.value.code == 130
    assert capsys.readouterr().err == "enlist: interrupted\n"
    assert not Path("new").exists()


def test_ctrl_c_while_it_compiles_can_be_resumed_too(monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("enlist.engine.session.Session.advance", interrupted)
        with pytest.raises(SystemExit) as stop:
            main(shlex.split(f"{SMALL} --rounds 2 --out cut"))
    assert stop.value.code == 130
    assert capsys.readouterr().err == "enlist: interrupted; go on with: enlist run --resume cut\n"
    enlist("run --resume cut", capsys)
    enlist(f"{SMALL} --rounds 2 --out uncut", capsys)
    assert equal("cut", "uncut")


@pytest.mark.parametrize(
    ("terminal", "option", "live"), [(True, "", True), (True, "--json", False), (False, "", False)]
)
def test_progress_is_drawn_on_a_terminal_only(terminal, option, live, whole, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    monkeypatch.setattr("enlist.launch.run.launch", lambda *given, live, hashes: asked.append(live))
    main(shlex.split(f"run --resume {whole} {option}"))
    assert asked == [live]


# ---- one's own data and models -------------------------------------------------------------------------


def write_numbers(path="rows.npz"):
    rng = np.random.default_rng(0)
    x, x_test = rng.normal(size=(60, 3)), rng.normal(size=(20, 3))
    slope = np.array([1.0, -2.0, 0.5])
    np.savez(
        path,
        x_train=x,
        y_train=x @ slope,
        x_test=x_test,
        y_test=x_test @ slope,
        worker=np.arange(60) % 5 * 10,
    )


REGRESSION = f"run --dataset rows.npz --model {EXAMPLES}/regression.py:factory --batch 4 --devices 1"


def test_a_regression_on_rows_that_name_their_holders(capsys):
    write_numbers()
    enlist(f"{REGRESSION} --rounds 4 --target -0.01 --out new", capsys)
    config = yaml.safe_load(Path("new/config.yaml").read_text())
    # Fewer workers than the usual cohort of ten: then all of them.
    assert (config["partition"], config["workers"], config["cohort"]) == ("by-key", 5, 5)
    assert len(config["dataset_sha256"]) == len(config["model_sha256"]) == 64
    assert lines("new")[-1]["test_negative_squared_error"] > -1e-3
    summary = json.loads(Path("new/summary.json").read_text())
    assert summary["target"]["rounds"] is not None


def test_a_config_that_was_edited_is_not_taken_for_that_of_the_run(whole, capsys):
    shutil.copytree(whole, "edited")
    config = Path("edited/config.yaml")
    config.write_text(config.read_text().replace("worker_lr: 0.1", "worker_lr: 0.3"))
    code, said = refused("run --resume edited --rounds 50", capsys)
    assert (code, said.count("\n")) == (2, 1)
    assert "worker-lr is 0.3 now but was 0.1" in said


def test_any_number_of_workers_gets_its_rows(capsys):
    for workers, partition in ((4, "shards:2"), (20, "digits:2")):
        out = f"by{workers}"
        enlist(
            f"run --dataset digits --model logistic --workers {workers} --cohort 2 --rounds 0 --out {out}",
            capsys,
        )
        assert yaml.safe_load(Path(out, "config.yaml").read_text())["partition"] == partition


def test_a_run_begun_from_python_goes_on_there(capsys):
    import enlist as api
    from enlist import datasets, models, partition

    api.simulate(
        api.fedavg(), models.logistic(), partition.iid(datasets.digits(), 4, 0), cohort=2, rounds=0, out="py"
    )
    for words in ("run --resume py", "run --config py/config.yaml"):
        code, said = refused(words, capsys)
        assert (code, said.count("\n")) == (2, 1)
        assert "begun from Python" in said


def test_another_file_beside_a_config_is_not_taken_for_a_changed_one(capsys):
    write_numbers()
    write_numbers("other.npz")
    enlist(f"{REGRESSION} --rounds 0 --out one", capsys)
    enlist("run --config one/config.yaml --dataset other.npz --out two", capsys)
    assert yaml.safe_load(Path("two/config.yaml").read_text())["dataset"] == "other.npz"


def test_a_diverging_run_stops_says_why_and_keeps_the_last_good_state(capsys):
    write_numbers()
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(f"{REGRESSION} --worker-lr 1e6 --rounds 50 --eval-every 50 --out new"))
    said = capsys.readouterr()
    assert stop.value.code == 1
    found = re.fullmatch(
        r"enlist: diverged in round (\d+): .*K L eta_L = \S+ .*lower worker-lr.*\n", said.err
    )
    assert found
    summary = json.loads(Path("new/summary.json").read_text())
    assert summary["status"] == "diverged"
    assert summary["rounds"] == int(found[1]) - 1
    assert Path(f"new/checkpoints/{summary['rounds']}").is_dir()
    assert {path.name for path in Path("new").iterdir()} == FILES
    assert all(np.isfinite(array).all() for array in load_file("new/model.safetensors").values())


@pytest.mark.parametrize("name", ["plain_functions", "linen_model", "nnx_model", "equinox_model"])
def test_a_model_of_ones_own(name, capsys):
    said = enlist(f"{SMALL} --model {EXAMPLES}/{name}.py:factory --rounds 1 --json --out new", capsys)
    assert json.loads(said)["status"] == "done"
    assert len(yaml.safe_load(Path("new/config.yaml").read_text())["model_sha256"]) == 64


# ---- the other commands --------------------------------------------------------------------------------


def test_report_of_one_run_is_put_beside_it(whole, capsys):
    (whole / "report.html").unlink()
    said = enlist(f"report {whole}", capsys)
    assert str(whole / "report.html") in said
    assert {path.name for path in whole.iterdir()} == FILES


def test_report_of_two_runs_compares_them(whole, capsys):
    enlist(f"{SMALL} --rounds 2 --worker-lr 0.5 --out other", capsys)
    said = json.loads(enlist(f"report {whole} other --out both --json", capsys))
    assert said == {"page": "both/report.html", "picture": "both/curves.png"}
    page = Path("both/report.html").read_text()
    assert "whole" in page
    assert "other" in page
    enlist(f"report {whole} other", capsys)
    assert [path.name for path in Path("runs").glob("*-report/*.html")] == ["report.html"]


def test_data_lists_and_locates(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("ENLIST_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ENLIST_DATA", raising=False)
    for name in ("mnist", "fashion", "cifar10", "digits", "synthetic"):
        assert name in enlist("data list", capsys)
    rows = json.loads(enlist("data list --json", capsys))
    assert {row["name"]: row["train"] for row in rows}["mnist"] == 60_000
    assert enlist("data where digits", capsys) == "digits: bundled\n"
    assert enlist("data fetch digits", capsys) == "digits: bundled\n"
    assert enlist("data where mnist", capsys) == "mnist: not here yet; type: enlist data fetch mnist\n"
    assert json.loads(enlist("data where mnist --json", capsys)) == {"name": "mnist", "where": None}
    (tmp_path / "cache/data").mkdir(parents=True)
    (tmp_path / "cache/data/mnist.npz").touch()
    assert enlist("data where mnist", capsys) == f"{tmp_path}/cache/data/mnist.npz\n"
    assert f"mnist {tmp_path}/cache/data/mnist.npz\n" in enlist("data list", capsys)


def test_version(capsys):
    assert re.fullmatch(r"enlist \d+\.\d+\.\d+\n", enlist("--version", capsys))


@pytest.mark.parametrize(
    "call", ["", "import enlist.cli; enlist.cli._command(['--help'])", "enlist.cli.main(['run', '--help'])"]
)
def test_neither_import_nor_help_loads_jax(call):
    code = f"""
import contextlib, sys, enlist, enlist.cli
with contextlib.suppress(SystemExit):
    {call or "pass"}
heavy = {{"jax", "optax", "sklearn", "matplotlib", "plotly", "orbax"}} & set(sys.modules)
sys.exit(f"loaded: {{heavy}}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
