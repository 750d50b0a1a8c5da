"""A run whose server saw no training row: its page, picture and tables tell the loss of the local steps."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from test_report import NASTY, make_run, picture

from enlist.engine.progress import metric_words
from enlist.report import deployment, figures, tables
from enlist.report.page import write_page
from enlist.report.record import RunRecord, load, outcome

REFUSED = [
    {"round": 3, "worker": 7, "cause": "w is not finite"},
    {"round": 4, "worker": 2, "cause": "w has shape (3,), not (4,)"},
    {"round": 9, "worker": 7, "cause": "w is not finite"},
]
FACTS = {"abandoned": 1, "late": 4, "refused": REFUSED, "enlisted": 80, "used": 57, "seconds_a_round": 1.25}


def make_deployed(folder: Path, facts: Any = FACTS) -> Path:
    """What a simulated run left, turned into what a deployed one leaves."""
    make_run(folder)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    known = [{**line, "local_loss": 1.1 * line["train_loss"], "train_loss": None} for line in lines]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in known))
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps({**summary, "final": known[-1], "deployment": facts}))
    return folder


@pytest.fixture
def deployed(tmp_path: Path) -> RunRecord:
    return load(make_deployed(tmp_path / "deployed"))


@pytest.fixture
def simulated(tmp_path: Path) -> RunRecord:
    return load(make_run(tmp_path / "simulated"))


def page(runs: list[RunRecord], tmp_path: Path) -> str:
    write_page(runs, tmp_path / "report.html")
    return (tmp_path / "report.html").read_text().replace("<script>", "\0").split("\0")[0]


def printed(*shown: Any) -> str:
    console = Console(file=io.StringIO(), width=80, record=True)
    for each in shown:
        console.print(each)
    return console.export_text()


def test_which_loss_is_known(deployed: RunRecord, simulated: RunRecord) -> None:
    assert (deployed.loss_key, simulated.loss_key) == ("local_loss", "train_loss")
    assert (deployed.is_deployed, simulated.is_deployed) == (True, False)
    assert outcome(deployed).local_loss == pytest.approx(1.1 * outcome(simulated).train_loss)
    # One that has not ended yet, and a simulated one all of whose losses are lost.
    assert replace(deployed, summary={}).is_deployed
    lost = replace(simulated, summary={}, metrics=[{"round": 1, "train_loss": None}])
    assert (lost.loss_key, lost.is_deployed) == ("train_loss", False)


def test_the_charts_draw_the_loss_that_there_is(deployed: RunRecord, simulated: RunRecord) -> None:
    def drawn(*runs: RunRecord) -> dict[str, list[int]]:
        return {
            chart["id"]: [line["run"] for line in chart["lines"]] for chart in figures.charts(runs)["curves"]
        }

    assert "train_loss" not in drawn(deployed)
    assert drawn(deployed)["local_loss"] == [0]
    assert "local_loss" not in drawn(simulated)
    both = drawn(simulated, deployed)
    assert (both["train_loss"], both["local_loss"], both["test_loss"]) == ([0], [1], [0, 1])
    words = [figures.charts(runs)["seconds"] for runs in ([deployed], [simulated], [deployed, simulated])]
    assert words == ["real seconds", "simulated seconds", "simulated or real seconds"]


def test_the_picture_is_drawn_and_names_the_loss(
    deployed: RunRecord, simulated: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    dress = figures.dress
    monkeypatch.setattr(
        figures, "dress", lambda axes, x, y, **rest: (said.append(y), dress(axes, x, y, **rest))[1]
    )
    for runs in ([deployed], [simulated, deployed]):
        figures.curves(runs, tmp_path / "curves.png")
        assert 0.005 < (picture(tmp_path / "curves.png") < 128).mean() < 0.2
    assert said[::2] == ["mean loss of the local steps", "training loss f(x), or of the local steps"]


def test_the_page_tells_the_loss_and_what_became_of_the_replies(deployed: RunRecord, tmp_path: Path) -> None:
    text = page([deployed], tmp_path)
    for expected in (
        "final local loss",
        "mean of the local steps; test loss",
        "mean loss of the local steps",
        "real seconds so far",
        "<h2>Deployment</h2>",
        "<dt>rounds abandoned</dt><dd>1</dd>",
        "<dt>replies too late</dt><dd>4</dd>",
        "<dt>replies refused</dt><dd>3</dd>",
        "<dt>seconds a round</dt><dd>1.25</dd>",
        "give all workers&#x27; rows by --dataset",
        "<tr><th>7</th><td>w is not finite</td><td>2</td><td>3, 9</td></tr>",
        "<tr><th>2</th><td>w has shape (3,), not (4,)</td><td>1</td><td>4</td></tr>",
        "enlist run --config config.yaml --sampling recorded:cohorts.jsonl",
    ):
        assert expected in text
    assert "training loss" not in text
    # What is not known is not told of.
    assert "sent twice" not in text
    more = replace(
        deployed, summary={**deployed.summary, "deployment": {**FACTS, "doubled": 2, "sittings": 3}}
    )
    assert "<dt>replies sent twice</dt><dd>2</dd>" in page([more], tmp_path)


def test_a_page_compares_a_simulated_with_a_deployed_run(
    deployed: RunRecord, simulated: RunRecord, tmp_path: Path
) -> None:
    text = page([simulated, deployed], tmp_path)
    ours = outcome(deployed).local_loss
    assert f"{ours:.4g} (local)" in text
    assert "<th></th><th>deployed</th></tr></thead><tbody><tr><th>rounds abandoned</th><td>1</td>" in text
    assert "<th>deployed</th><td>7</td><td>w is not finite</td>" in text
    assert "simulated or real seconds so far" in text
    assert "Deployment" not in page([simulated], tmp_path)


def test_the_tables_fit_and_say_the_same(deployed: RunRecord, simulated: RunRecord) -> None:
    alone = printed(tables.summary_table([deployed]), *deployment.deployment_tables([deployed]))
    for expected in ("local loss", "rounds abandoned", "w is not finite", "3, 9"):
        assert expected in alone
    assert "train loss" not in alone
    for runs in ([simulated, deployed], [simulated, deployed, simulated, simulated, deployed]):
        both = printed(tables.summary_table(runs), *deployment.deployment_tables(runs))
        assert "…" not in both
        assert "rounds/s" in both
        assert f"{outcome(deployed).local_loss:.4g}{' (local)' if len(runs) < 4 else '*'}" in both
        assert ("* mean loss of the local steps" in both) == (len(runs) > 3)
    assert deployment.deployment_tables([simulated]) == []
    console = Console(file=io.StringIO(), width=80, record=True)
    tables.print_outcome(deployed, console)
    assert "replies too late" in console.export_text()


@pytest.mark.parametrize(
    ("facts", "count"),
    [
        ({"refused": [], "refusals": 1234}, "1,234"),
        ({"refused": None, "abandoned": "x", "seconds_a_round": []}, "0"),
        ({"refused": [3, {"worker": None}, {"cause": NASTY, "worker": 1, "round": 2}]}, "2"),
        ({"refused": [{"worker": 1, "round": t, "cause": "late"} for t in range(50)]}, "50 or more"),
    ],
)
def test_odd_facts_cost_nobody_the_page(tmp_path: Path, facts: dict[str, Any], count: str) -> None:
    run = load(make_deployed(tmp_path / "odd", facts))
    text = page([run], tmp_path)
    assert f"<dt>replies refused</dt><dd>{count}</dd>" in text
    assert "<b>bold</b>" not in text
    assert "50" not in count or "0, 1, 2, 3, 4, 5, 6, 7, ..." in text
    printed(*deployment.deployment_tables([run]))


def test_a_run_that_is_not_of_machines_has_no_such_section(deployed: RunRecord, tmp_path: Path) -> None:
    assert "Deployment" not in page([replace(deployed, summary={"deployment": "damaged"})], tmp_path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (None, ""),
        ({"train_loss": 0.5, "test_loss": 1.0, "test_accuracy": 0.25}, "loss 0.5000  accuracy 25.00%"),
        ({"train_loss": None, "local_loss": 0.75, "test_r2": 0.5}, "local loss 0.7500  r2 0.5"),
        ({"train_loss": None, "test_accuracy": None}, ""),
    ],
)
def test_progress_tells_the_loss_that_there_is(line: dict[str, Any] | None, words: str) -> None:
    assert metric_words(line) == words


def test_the_report_command_shows_it(deployed: RunRecord, capsys: pytest.CaptureFixture[str]) -> None:
    from enlist.cli import main

    assert deployed.folder is not None
    main(["report", str(deployed.folder)])
    said = capsys.readouterr().out
    assert "rounds abandoned" in said
    assert (deployed.folder / "report.html").is_file()
