"""The benchmark of deployed rounds, its parts that need no process: what is run, counted, divided and written."""

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from enlist.errors import BadInput, EnlistError

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "benchmarks"))
deploy, cpu, processes, share, tables = (
    import_module(name)
    for name in ("deploy", "deploy_cpu", "deploy_processes", "deploy_share", "deploy_tables")
)
Case, Mark, Process = deploy.Case, processes.Mark, cpu.Process


def test_large_messages_go_to_the_fewest_workers_alone():
    plan = deploy.cases("10,3", "two_nn,resnet18")
    assert plan == {3: [Case(3, "two_nn"), Case(3, "resnet18")], 10: [Case(10, "two_nn")]}
    assert list(plan) == [3, 10]
    assert deploy.cases("3,10", "resnet18") == {3: [Case(3, "resnet18")]}


@pytest.mark.parametrize(
    ("workers", "models", "words"),
    [("3,x", "two_nn", "3,10"), ("0", "two_nn", "1 or more"), ("3", "vgg", "resnet18")],
)
def test_bad_words_are_refused(workers, models, words):
    with pytest.raises(BadInput, match=words):
        deploy.cases(workers, models)


@pytest.mark.parametrize(
    ("rounds", "slow", "turns"), [(5, False, [3, 2]), (5, True, [2, 1]), (1, False, [1, 1])]
)
def test_rounds_are_shared_among_the_turns(rounds, slow, turns):
    assert deploy.shares(rounds, slow) == turns


def test_many_workers_and_large_models_are_slow():
    assert [Case(3, "two_nn").slow, Case(10, "two_nn").slow, Case(3, "resnet18").slow] == [False, True, True]


def test_the_engine_carries_nothing_or_as_much_as_the_large_model():
    sizes = [400, 80]
    assert deploy.engines(Case(3, "two_nn"), sizes, True) == {"Flower alone": []}
    assert deploy.engines(Case(3, "resnet18"), sizes, False) == {"Flower alone": [480]}
    both = {"Flower alone": [480], "Flower alone, 2 arrays": sizes}
    assert deploy.engines(Case(3, "resnet18"), sizes, True) == both


def test_sizes_of_a_models_arrays(tmp_path):
    save_file({"a": np.zeros((2, 3), np.float32), "b": np.zeros(5, np.float32)}, tmp_path / "model")
    assert sorted(deploy.array_sizes(tmp_path / "model")) == [20, 24]


def test_the_command_does_not_say_where_the_numbers_went():
    words = ["--workers", "3", "--json", "x.json", "--rounds", "2"]
    assert deploy.typed(words) == "python benchmarks/deploy.py --workers 3 --rounds 2"
    assert deploy.typed(["--json=x", "--same-arrays"]) == "python benchmarks/deploy.py --same-arrays"


def test_cpu_seconds_of_a_process_with_an_odd_name():
    before = "0 " * 9
    assert cpu.parse(f"7 (a) S 9 (b) S 3 {before}100 20 300 4 0 0") == (3, pytest.approx(424 * cpu.TICK))


def test_cpu_seconds_go_to_what_a_process_is_for():
    found = {
        1: Process(0, 100.0, "init"),
        2: Process(1, 1.0, "python -m enlist.deploy.all_up DIR"),
        3: Process(2, 2.0, "python -m enlist deploy server DIR"),
        4: Process(3, 4.0, "python -m enlist.deploy.gate --port 1"),
        5: Process(3, 8.0, "python flower-superexec"),
        6: Process(5, 16.0, ""),
        7: Process(2, 32.0, "python flower-supernode"),
        # A worker has one of these too: that it is a worker's decides.
        8: Process(7, 64.0, "python flower-superexec"),
        9: Process(1, 128.0, "python -m enlist deploy run DIR"),
    }
    spent = cpu.by_purpose(found, [2, 9, 77])
    assert spent == {
        "link": 4.0,
        "server app": 24.0,
        "workers": 96.0,
        "deploy run": 128.0,
        "supervision": 3.0,
    }


def test_only_whole_lines_of_rounds_are_read(tmp_path):
    path = tmp_path / "rounds.jsonl"
    assert processes.read_lines(path) == []
    path.write_text('{"pid": 1}\n{"round": 0, "seconds": 2.0}\n{"round": 1, "sec')
    assert processes.read_lines(path) == [{"round": 0, "seconds": 2.0}]


def test_following_ends_with_the_last_round_or_with_the_complaint(tmp_path):
    path = tmp_path / "rounds.jsonl"
    path.write_text('{"seconds": 2.0}\n{"seconds": 3.0}\n')
    marks = processes.follow(path, 2, lambda: None, lambda: {"link": 1.0})
    assert [mark.line["seconds"] for mark in marks] == [2.0, 3.0]
    with pytest.raises(EnlistError, match="gone"):
        processes.follow(path, 3, lambda: "it is gone", dict)


def marks_of(*rounds):
    """Marks from (seconds, at, CPU seconds)."""
    return [
        Mark({"seconds": s, "slowest": 0.5}, at, {"link": spent, "workers": 0.0}) for s, at, spent in rounds
    ]


def test_the_first_round_stands_apart():
    run = tables.of_marks(marks_of((9.0, 10.0, 100.0), (2.0, 13.0, 105.0), (4.0, 18.0, 108.0)))
    assert (run.first, run.seconds, run.whole) == (9.0, [2.0, 4.0], [3.0, 5.0])
    assert [each["link"] for each in run.spent] == [5.0, 3.0]


def test_ratios_are_to_messages_of_the_same_size_and_to_empty_ones():
    def line(who, nbytes, seconds):
        run = tables.Run(9.0, [seconds], [seconds], [0.1], [{"link": 2 * seconds}])
        return tables.row(3, who, nbytes, [run, run])

    rows = [
        line("enlist, two_nn", 8, 3.0),
        line(tables.BARE, 0, 2.0),
        line("enlist, resnet18", 400, 12.0),
        line(tables.BARE, 400, 10.0),
        line(f"{tables.BARE}, 7 arrays", 400, 11.0),
    ]
    told = tables.compared(rows)
    assert [each["of_flower"] for each in told] == [1.5, None, 1.2, None, 1.1]
    assert [each["of_empty"] for each in told] == [1.5, 1.0, 6.0, 5.0, 5.5]
    assert told[0]["cpu_of_flower"] == 1.5
    facts = {
        "rows": told,
        "idle_cpu_seconds_a_second": {3: 0.4},
        "worker_process_seconds": {"two_nn": {"computing": {"wall": 1.0, "cpu": 2.0}}},
        "start_seconds": [
            {"cache": "empty", "workers": 3, "first_round": 9.0, "of_it_round": 4.0, "end": 10.0}
        ],
        "machine": {"device": "a machine"},
        "measured_in_seconds": 60.0,
    }
    said = tables.report(json.loads(json.dumps(facts)))
    assert "| 3 | enlist, resnet18 | 0.0 | 12.00 (12.0–12.0) | 1.20 | 6.00 | 24.0 | 1.20 | 0.10 |" in said
    assert "| computing | 1.00 (2.00) |" in said


def test_the_first_run_is_program_and_computing():
    steps = {"imports": (1.0, 1.0), share.BOTH: (0.5, 0.75), share.AGAIN: (0.25, 0.25)}
    parts = share.split(steps)
    assert parts == {"imports": (1.0, 1.0), share.PROGRAM: (0.25, 0.5), share.AGAIN: (0.25, 0.25)}
    assert share.medians([parts, parts])["imports"] == {"wall": 1.0, "cpu": 1.0}
