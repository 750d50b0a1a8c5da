"""The comparison with the peers, on peers that are made up: who cheats is found out, and the tables say what was."""

import json
import sys
import textwrap
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import jax
import numpy as np
import pytest

HERE = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "peers"
sys.path.insert(0, str(HERE))
checks, compare, lineup, measure, networks, process, report, serve, workloads = (
    import_module(name)
    for name in (
        "checks",
        "compare",
        "lineup",
        "measure",
        "networks",
        "process",
        "report",
        "serve",
        "workloads",
    )
)

# A peer that trains nothing: its model stays the common first one, and it says what its arguments tell it to.
PRETENDER = """
    import sys, time
    from dataclasses import replace
    import networks, serve, workloads

    workloads.MODELS["two_nn"] = replace(workloads.MODELS["two_nn"], workers=4, rows=60, judged=100)
    share, spoilt, slow = float(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])

    class Pretender:
        def advance(self, rounds):
            self.rounds = rounds
            time.sleep(rounds * slow * (3 if setup.threads == 1 else 1))

        def done(self):
            work = setup.work
            return serve.Work(int(self.rounds * work.steps * share), self.rounds * work.examples)

        def params(self):
            return {name: value * spoilt for name, value in networks.start("two_nn").items()}

    line = serve.Line()
    print("libraries print what they like")
    setup = line.setup()
    serve.serve(line, setup, Pretender(), ["numpy"])
"""
PLAN = measure.Plan(repeats=2, rounds=2, seconds=0.01)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(workloads.MODELS["two_nn"], workers=4, rows=60, judged=100)
    monkeypatch.setitem(workloads.MODELS, "two_nn", small)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "pretender.py"
    path.write_text(textwrap.dedent(PRETENDER))
    return path


def starter(program: Path, behaviour: dict[str, tuple[float, float, float]]) -> measure.Start:
    def start(name: str, way: lineup.Way) -> process.Peer:
        command = [sys.executable, str(program), *map(str, behaviour[name])]
        return process.Peer(name, command, {"PYTHONPATH": str(HERE)}, program.with_suffix(f".{name}"), 60)

    return start


def measured(program: Path, **behaviour: tuple[float, float, float]) -> list[dict]:
    ways = {name: [lineup.Way(1, 1), lineup.Way(1, 2)] for name in behaviour}
    return measure.measure("two_nn:2", ways, starter(program, behaviour), "cpu", PLAN)


def test_peers_are_asked_in_turns_each_in_its_quicker_way(program: Path) -> None:
    rows = measured(program, honest=(1, 1, 0.05), other=(1, 1, 0.04))
    assert [row["peer"] for row in rows] == ["honest", "other"]
    for row in rows:
        assert (row["steps"], row["examples"], row["rounds"]) == (10, 600, 2)
        assert len(row["wall"]) == len(row["cpu"]) == PLAN.repeats
        assert row["way"] == "1 x 2"
        assert set(row["tried"]) == {"1 x 1", "1 x 2"}
        assert row["versions"] == {"numpy": np.__version__}
    assert rows[0]["loss"] == rows[1]["loss"]


def test_a_peer_that_does_fewer_steps_is_refused(program: Path) -> None:
    with pytest.raises(
        checks.UnequalWork, match="lazy did 18 steps in 2 rounds, but the workload has 10 a round"
    ):
        measured(program, honest=(1, 1, 0), lazy=(0.9, 1, 0))


def test_a_peer_that_learns_less_than_it_says_is_refused(program: Path) -> None:
    with pytest.raises(
        checks.UnequalWork, match=r"idle has a training loss of .* it does not do the same work"
    ):
        measured(program, honest=(1, 1, 0), other=(1, 1, 0), idle=(1, 2, 0))


def test_losses_that_are_not_numbers_are_refused() -> None:
    checks.check_losses({"a": 0.40, "b": 0.38, "c": 0.45}, 2)
    with pytest.raises(checks.UnequalWork, match="c has a training loss of nan"):
        checks.check_losses({"a": 0.40, "b": 0.38, "d": 0.39, "c": float("nan")}, 2)


def test_the_last_words_of_a_peer_that_dies_are_shown(tmp_path: Path) -> None:
    peer = process.Peer("mortal", [sys.executable, "-c", "input(); sys"], {}, tmp_path / "log", 60)
    with pytest.raises(process.PeerFailed, match=r"mortal ended .*\n(.*\n)*NameError: name 'sys'"):
        peer.ask("setup {}")
    peer.close()


def test_children_count_as_the_peers_own_cpu_time() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True); input()"
    keep = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    with process.subprocess.Popen(
        [sys.executable, "-c", keep, burn], stdin=process.subprocess.PIPE, stdout=process.subprocess.PIPE
    ) as parent:
        parent.stdout.readline()
        assert serve.tree_cpu_seconds(parent.pid) > 0.25
        parent.communicate(b"\n")


@pytest.fixture
def two_entries(program: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A line-up of two pretenders, started as compare.py starts peers; the second is what the test writes."""
    one_way = lambda cores: [lineup.Way(1, cores)]
    for name in ("enlist", "rival"):
        path = program.with_name(f"{name}.py")
        path.write_text("import sys; sys.argv[1:] = ['1', '1', '0.001']\n" + program.read_text())
        entry = lineup.Entry(name, str(path), "none.txt", one_way, jax=False)
        monkeypatch.setitem(lineup.PEERS, name, entry)
    return program.with_name("rival.py")


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str) -> int:
    given = ["--no-install", "--peers", "enlist,rival", "--repeats", "3", "--rounds", "1"]
    given += [
        "--workloads",
        "two_nn:2",
        "--environments",
        str(folder / "e"),
        "--out",
        str(folder / "peers.md"),
    ]
    monkeypatch.setattr(sys, "argv", ["compare.py", *given, *words])
    return compare.main()


def test_the_command_writes_a_page_and_its_numbers(
    two_entries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, tmp_path) == 0
    (numbers,) = tmp_path.glob("peers-*.json")
    result = json.loads(numbers.read_text())["workloads"]["two_nn:2"]
    assert str(tmp_path) not in result["command"]
    table = report.table(result["rows"])
    assert table in (tmp_path / "peers.md").read_text()
    assert table in capsys.readouterr().out
    assert (tmp_path / "e" / ".gitignore").read_text() == "*\n"
    (tmp_path / "peers.md").unlink()
    assert run(monkeypatch, tmp_path, "--report") == 0
    assert table in (tmp_path / "peers.md").read_text()


def test_the_command_fails_on_unequal_work(
    two_entries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two_entries.write_text(two_entries.read_text().replace("['1',", "['0.5',"))
    assert run(monkeypatch, tmp_path) == 1
    assert "compare: rival did 10 steps" in capsys.readouterr().err
    assert not (tmp_path / "peers.md").exists()


@pytest.mark.parametrize(
    "words", [["--workloads", "cnn"], ["--peers", "nobody"], ["--repeats", "0"], ["--pfl-rounds", "3"]]
)
def test_unknown_names_are_refused(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, tmp_path, *words)
    assert stopped.value.code == 2


def test_ratios_are_medians_over_the_turns() -> None:
    ours = {"peer": "enlist", "wall": [1.0, 2.0, 4.0], "cpu": [1.0, 1.0, 1.0]}
    theirs = {"peer": "pfl", "wall": [3.0, 4.0, 20.0], "cpu": [5.0, 0.5, 2.0]}
    assert report.ratio(theirs, ours, "wall") == 3.0
    assert report.ratio(theirs, ours, "cpu") == 2.0
    common = {"steps": 10, "examples": 600, "loss": 0.5, "way": "1 x 2", "versions": {"pfl": "0.6.0"}}
    row = report.table([ours | common, theirs | common]).splitlines()[-1]
    assert row.startswith(
        "| pfl | 4.000 (3.000–20.000) | 2.000 (0.500–5.000) | 3.00 | 2.00 | 10 | 600 | 0.5000 |"
    )


def test_a_shortened_run_is_extrapolated_and_says_so() -> None:
    short = {"peer": "pfl", "rounds": 100, "total_seconds": 30.0, "start_seconds": 10.0}
    assert report.projected(short) == 10 + 20 * 15
    assert "100 rounds, extrapolated linearly" in report.end_to_end([short])


@pytest.mark.parametrize("name", ["two_nn", "cnn", "pfl_cnn"])
def test_the_judge_computes_what_enlist_computes(name: str) -> None:
    from enlist import models
    from enlist.problem.models import count

    model = import_module("models").pfl_cnn() if name == "pfl_cnn" else getattr(models, name)()
    side = (32, 32, 3) if name == "pfl_cnn" else (28, 28, 1)
    x = np.random.default_rng(0).standard_normal((2, *side), dtype=np.float32)
    params = networks.start(name)
    nested: dict = {}
    for weight, value in params.items():
        layer, leaf = weight.split(".")
        nested.setdefault(layer, {})[leaf] = jax.numpy.asarray(value)
    fresh = jax.eval_shape(model.init, jax.random.key(0), x)
    assert count(fresh) == sum(value.size for value in params.values())
    np.testing.assert_allclose(model.apply(nested, x), networks.logits(name, params, x), rtol=1e-4, atol=1e-4)
