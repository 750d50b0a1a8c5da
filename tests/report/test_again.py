"""`enlist report` of plans, tunes and studies: what cannot be shown is one line, and nothing is touched."""

import json
from pathlib import Path

import pytest

from enlist.cli import main

PLAN = {"map": {}, "rates": {}, "constants": {}, "advice": []}
TUNE = {"winner": {}, "rungs": [], "axes": {}, "cost": {}, "curves": []}
SPEEDUP = {"axis": "cohort", "points": [{}], "slope": None, "goal": {}}
BOUND = {"cases": [{}], "tight": {}, "outside": {}, "cross_term": {}}
SWEPT = {"axes": {}, "runs": []}


def put(folder: Path, files: dict[str, object]) -> None:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that it says; the exit code must be that of bad input."""
    with pytest.raises(SystemExit) as stopped:
        main(["report", *words])
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    return printed.err


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"plan.json": '{"map": '}, "plan.json' is damaged: it is not the JSON of a plan"),
        ({"plan.json": "[]"}, "plan.json' is damaged: it is not the JSON of a plan"),
        ({"plan.json": {"map": {}}}, "plan.json' is damaged: it is not the JSON of a plan (no 'rates')"),
        ({"plan.json": PLAN}, "plan.json' is damaged: no page can be made of it (KeyError: 'problem')"),
        ({"plan.json": PLAN, "metrics.jsonl": ""}, "holds a plan and a run; name a folder that holds one"),
        ({"plan.json": PLAN, "bound.json": BOUND}, "holds a plan and a bound study; name a folder"),
        ({"sweep.yaml": "", "summary.json": SWEPT, "plan.json": PLAN}, "holds a sweep and a plan; name"),
        ({"tune.yaml": "by: rounds"}, "holds a tune that is not finished: go on with enlist tune --resume"),
        (
            {"tune.yaml": "by: rounds", "tune.json": "{"},
            "tune.json' is damaged: it is not the JSON of a tune",
        ),
        ({"tune.yaml": "by: rounds", "tune.json": TUNE}, "tune.json', or tune.yaml beside it, is damaged"),
        ({"tune.json": TUNE}, "tune.json', or tune.yaml beside it, is damaged"),
        ({"tune.yaml": "{", "tune.json": TUNE | {"curves": ["a"]}}, "tune.yaml beside it, is damaged"),
        ({"speedup.yaml": "seeds: 4"}, "not finished: go on with enlist speedup --resume"),
        (
            {"speedup.yaml": "", "summary.json": "{"},
            "summary.json' is damaged: it is not the JSON of a speedup",
        ),
        (
            {"summary.json": SPEEDUP},
            "summary.json' is damaged: no page can be made of it (KeyError: 'first')",
        ),
        ({"bound.json": BOUND}, "bound.json' is damaged: no page can be made of it (KeyError"),
        ({"bound.json": {"given": {}, "bound": 1}}, "is what enlist bound leaves, which has no page"),
        ({"bound.json": {"study": "bound"}}, "is not the JSON of enlist study bound (no 'cases')"),
    ],
)
def test_what_is_damaged_unfinished_or_mixed_is_one_line(
    files: dict[str, object], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "left"
    put(folder, files)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert said in refused([str(folder)], capsys)
    assert said in refused([str(folder), "--out", str(tmp_path / "new")], capsys)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert not (tmp_path / "new").exists()


def test_each_has_a_page_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "plan", {"plan.json": PLAN})
    put(tmp_path / "run", {"metrics.jsonl": "", "config.yaml": "rounds: 1"})
    said = refused([str(tmp_path / "run"), str(tmp_path / "plan")], capsys)
    assert "a plan has a page of its own; name its folder alone" in said
