"""What is typed wrong is answered in one line with exit code 2; help comes without Flower."""

import shlex
import subprocess
import sys

import numpy as np
import pytest

from enlist.cli import main
from enlist.deploy import environment, place
from enlist.errors import BadInput
from enlist.options import flatten
from enlist.options.deploy import DeployRunOptions, ExchangeOptions, LocalOptions
from enlist.words import kept


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def made(tmp_path):
    np.savez(tmp_path / "rows.npz", x_train=np.ones((4, 2), np.float32), y_train=np.arange(4))
    np.savez(tmp_path / "other.npz", pictures=np.ones((4, 2)))
    (tmp_path / "text.npz").write_text("no rows")
    return place.init(tmp_path / "d", "localhost", 8443, 3)


def complaint(command, capsys):
    """The one line with which a command is refused."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(shlex.split(command))
    said = capsys.readouterr()
    assert end.value.code == 2
    assert said.out == ""
    assert said.err.startswith("enlist: ")
    assert said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("deploy", ["init, server, worker, run, local"]),
        ("deploy inti", ["'inti'", "'init'", "server, worker"]),
        ("deply", ["'deply'", "'deploy'"]),
        ("deploy --workers 3", ["'--workers'"]),
        ("deploy init", ["enlist deploy init DIR"]),
        ("deploy init a b", ["'b'"]),
        ("deploy init d", ["d:", "not empty"]),
        ("deploy init e --port 0", ["port = 0"]),
        ("deploy init e --port many", ["port = many", "a whole number"]),
        ("deploy init e --workers 0", ["workers = 0"]),
        ("deploy init e --host 'a b'", ["host = a b"]),
        ("deploy init rows.npz", ["a file"]),
        ("deploy init rows.npz/e", ["cannot be made a folder"]),
        ("deploy init e --hots a", ["--hots", "--host"]),
        ("deploy server", ["no deploy.yaml", "enlist deploy init"]),
        ("deploy server nowhere", ["nowhere"]),
        ("deploy server d d", ["'d'"]),
        ("deploy server d --port 1", ["--port"]),
        ("deploy worker d --data rows.npz", ["--id"]),
        ("deploy worker d --id 1", ["--data"]),
        ("deploy worker d --id one --data rows.npz", ["id = one"]),
        ("deploy worker d --id 3 --data rows.npz", ["id = 3", "0 ... 2"]),
        ("deploy worker d/workers/0 --id 1 --data rows.npz", ["worker 0, not of worker 1"]),
        ("deploy worker nowhere --id 1 --data rows.npz", ["nowhere"]),
        ("deploy worker d --id 1 --data nothing.npz", ["nothing.npz"]),
        ("deploy worker d --id 1 --data other.npz", ["other.npz", "x_train"]),
        ("deploy worker d --id 1 --data text.npz", ["text.npz"]),
        ("deploy run d --deadlin 3", ["--deadlin", "--deadline"]),
        ("deploy run d --deadline 0", ["deadline = 0"]),
        ("deploy run d e", ["'e'"]),
        ("deploy run d --hosts local:2", ["--hosts"]),
        ("deploy run d --config nothing.yaml", ["nothing.yaml"]),
        ("deploy local d", ["'d'"]),
        ("deploy local --take some", ["'some'", "first, all"]),
    ],
)
def test_bad_input_is_one_line(made, command, words, capsys):
    said = complaint(command, capsys)
    assert all(word in said for word in words), said
    assert not (made.root.parent / "e").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("over_enlist", 0.99),
        ("over_enlist", 101.0),
        ("over_enlist", float("nan")),
        ("deadline", -1.0),
        ("norm_bound", 0.0),
        ("patience", 0),
        ("join_seconds", -1.0),
        ("take", "last"),
    ],
)
def test_an_exchange_out_of_bounds(name, value):
    with pytest.raises(BadInput, match=name.replace("_", "-")):
        ExchangeOptions(**{name: value})


def test_init_says_what_to_type(capsys):
    main(["deploy", "init", "my place", "--workers", "2", "--host", "server.example.org"])
    said = capsys.readouterr().out
    assert "enlist deploy server 'my place'" in said
    assert "enlist deploy worker 'my place'/workers/1 --id 1 --data ROWS.npz" in said
    assert "enlist deploy run 'my place'" in said
    assert "server.example.org:8443" in said


@pytest.mark.parametrize("command", ["init", "server d", "worker d --id 0 --data rows.npz", "run d", "local"])
@pytest.mark.parametrize("found", [None, "1.40.2", "1.410.0", "2.0.0"])
def test_without_the_right_flower_every_command_says_how_to_get_it(made, command, found, monkeypatch, capsys):
    def version(name):
        if found is None:
            raise environment.PackageNotFoundError
        return found

    monkeypatch.setattr(environment, "version", version)
    command = "init e" if command == "init" else command
    said = complaint(f"deploy {command}", capsys)
    assert "pip install 'enlist[deploy]'" in said
    assert (found or "not installed") in said


def test_help_lists_every_command_and_shows_its_options(capsys):
    main(["--help"])
    every = capsys.readouterr().out
    main(["deploy", "--help"])
    of_deploy = capsys.readouterr().out
    for name in ("init", "server", "worker", "run", "local"):
        assert f"enlist deploy {name} " in every
        assert f"enlist deploy {name} " in of_deploy
        with pytest.raises(SystemExit) as end:
            main(["deploy", name, "--help"])
        assert end.value.code == 0
        shown = capsys.readouterr().out
        assert f"usage: enlist deploy {name}" in shown
        assert ("--over-enlist" in shown) is (name in ("run", "local"))
        assert ("DIR" in shown.splitlines()[0]) is (name != "local")


def test_help_needs_neither_flower_nor_jax():
    program = (
        "import sys; from enlist.cli import main; main(['deploy', '--help']);"
        "sys.exit(str({'flwr', 'jax', 'cryptography'} & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.strip() == ""


def test_a_configuration_holds_the_exchange_and_not_where_things_are_put():
    for options in (DeployRunOptions(), LocalOptions()):
        flat = flatten(options)
        assert kept({"over_enlist": 1.0, "take": "all"}, type(options)) == {"over_enlist": 1.0, "take": "all"}
        for name in {"out", "keep"} & set(flat):
            with pytest.raises(BadInput, match=name):
                kept({name: "there"}, type(options))
