"""Several methods to one target: medians that know of seeds which never got there, and all that shows them."""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from test_report import Loads, browser, picture  # noqa: F401

from enlist.report.comparison.bands import band, charts, figure, split
from enlist.report.comparison.outcome import Comparison, Contender, outcomes, resolution, summary
from enlist.report.comparison.page import write_page
from enlist.report.comparison.standings import (
    cost_text,
    goal_words,
    latex_text,
    notes,
    outcome_rows,
    ratio_text,
    seed_rows,
    terminal_table,
    write_csv,
    write_latex,
    write_seeds_csv,
)
from enlist.report.record import RunRecord

NASTY = "fed<b>avg</b>+mu=0.1 & 50% [red]a_b[/red] $x$ #{~^\\} </script>"
SHARED = {"dataset": "mnist", "model": "two_nn", "algorithm": "fedavg", "worker_lr": 0.1, "rounds": 10}


def make_run(
    values: Sequence[float], seed: int = 0, status: str = "done", every: int = 1, key: str = "test_accuracy"
) -> RunRecord:
    """A run with these values of its metric: 2 MiB, 1 second of computing and 2 of communicating a round."""
    lines = []
    for t, value in enumerate(values, start=1):
        cost = {"comm_mib": 2.0 * t * every, "seconds": 3.0 * t * every, "compute_seconds": 1.0 * t * every}
        sent = {"uplink_bytes": 100, "downlink_bytes": 300}
        lines.append({"round": t * every, "train_loss": 1 / t, key: value, **cost, **sent})
    ran = {"status": status, "metric": key.removeprefix("test_"), "rounds": len(values) * every}
    return RunRecord(f"seed-{seed}", {**SHARED, "seed": seed}, lines, ran)


def reaching(at: int | None, rounds: int = 10, best: float = 0.8, **given: Any) -> RunRecord:
    """A run that first reaches 90% in round `at`, or that never does and whose best is `best`."""
    values = [
        0.95 if at is not None and t >= at else best - 0.01 * (rounds - t) for t in range(1, rounds + 1)
    ]
    return make_run(values, **given)


def contender(label: str, *runs: RunRecord, **given: Any) -> Contender:
    return Contender(label, runs, {"worker_lr": 0.1, "server_lr": 1.0}, **given)


def fields(*rounds: int | None, label: str = "fedavg") -> Contender:
    """A contender whose seeds reach the target in these rounds."""
    return contender(label, *(reaching(at, seed=seed) for seed, at in enumerate(rounds)))


def median(*rounds: int | None) -> float:
    cost = outcomes(Comparison(0.9, [fields(*rounds)]))[0].cost["rounds"]
    assert cost is not None
    return cost.median


def rounds_text(*runs: RunRecord) -> str:
    comparison = Comparison(0.9, [contender("fedavg", *runs)])
    return cost_text(comparison, outcomes(comparison)[0], "rounds")


@pytest.fixture
def several() -> Comparison:
    """All kinds of outcome in one comparison."""
    diverged = [reaching(2, rounds=4, seed=1, status="diverged"), reaching(None, seed=2, best=0.7)]
    entrants = [fields(3, 5, 9), fields(4, 6, None, label=NASTY), fields(None, None, 7, label="a_b%")]
    entrants.append(contender("scaffold", reaching(8), *diverged, tried=4))
    return Comparison(0.9, entrants, "Chosen by the lowest <loss> & nothing else.")


def test_the_cost_is_that_of_the_first_evaluated_round_that_reaches_the_target() -> None:
    standing = outcomes(Comparison(0.9, [fields(3, 9, 5)]))[0]
    found = {name: tuple(cost or ()) for name, cost in standing.cost.items()}
    assert found == {
        "rounds": (5, 3, 9),
        "mib": (10, 6, 18),
        "seconds": (15, 9, 27),
        "compute_seconds": (5, 3, 9),
        "communication_seconds": (10, 6, 18),
    }
    assert (standing.reached, standing.diverged) == (3, 0)


def test_falling_below_the_target_again_takes_nothing_back() -> None:
    standing = outcomes(Comparison(0.9, [contender("one", make_run([0.5, 0.9, 0.6, 0.95]))]))[0]
    assert standing.cost["rounds"] == (2, 2, 2)
    assert standing.final == (0.95, 0.95, 0.95)


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ((5,), 5),
        ((None,), math.inf),
        ((3, 5, None), 5),
        ((3, None, None), math.inf),
        ((3, 5), 4),
        ((3, None), math.inf),
        ((3, 5, 9, None), 7),
        ((3, 5, None, None), math.inf),
    ],
)
def test_a_seed_that_did_not_reach_the_target_counts_as_infinitely_slow(
    rounds: tuple[int | None, ...], expected: float
) -> None:
    assert median(*rounds) == expected


def test_a_cell_tells_the_range_and_what_is_not_known_of_it() -> None:
    assert rounds_text(reaching(5)) == "5"
    assert rounds_text(reaching(3), reaching(5), reaching(9)) == "5 (3–9)"
    assert rounds_text(reaching(3), reaching(5), reaching(None, rounds=200)) == "5 (3–>200)"
    # Of a seed that ran for less than the slowest took, no more is known than the latter.
    assert rounds_text(reaching(3), reaching(9), reaching(None, rounds=4)) == "9 (3–>9)"
    assert rounds_text(reaching(3), reaching(5), reaching(None, rounds=4, status="diverged")) == "5 (3–∞)"
    best = [reaching(3), reaching(None, best=0.7), reaching(None, best=0.85)]
    assert rounds_text(*best) == "not reached (best 85.00%)"


def test_a_seed_that_reached_the_target_and_diverged_later_did_reach_it() -> None:
    gone = reaching(2, rounds=4, seed=1, status="diverged")
    comparison = Comparison(0.9, [contender("fedavg", reaching(3), gone, reaching(5))])
    standing = outcomes(comparison)[0]
    assert (standing.reached, standing.diverged) == (3, 1)
    assert [seed.status for seed in standing.seeds] == ["reached", "reached, then diverged", "reached"]
    assert standing.cost["rounds"] == (3, 2, 5)
    assert standing.best == 0.95
    assert standing.final == (0.95, -math.inf, 0.95)
    assert outcome_rows(comparison)[1][0][1] == "3 of 3\n1 diverged"
    assert any("reached, then diverged\nended after 4 rounds" in row for row in seed_rows(comparison)[1])


def test_ratios_are_to_the_first_and_only_between_numbers(several: Comparison) -> None:
    standings = outcomes(several)
    assert [standing.ratio["rounds"] for standing in standings] == [1, 6 / 5, None, 8 / 5]
    assert [ratio_text(standing, "mib") for standing in standings] == ["1.00×", "1.20×", "", "1.60×"]
    backwards = Comparison(0.9, [several.contenders[2], several.contenders[0]])
    assert [standing.ratio["rounds"] for standing in outcomes(backwards)] == [None, None]


def test_the_split_adds_up_to_the_median_seconds() -> None:
    slow = [{**line, "seconds": 9.0 * line["round"]} for line in reaching(3).metrics]
    odd = fields(3, 5, 9)
    even = contender("even", replace(reaching(3), metrics=slow), reaching(5), reaching(8), reaching(None))
    for standing, expected in zip(outcomes(Comparison(0.9, [odd, even])), [(5, 10), (5.5, 20)], strict=True):
        assert standing.split == expected
        assert standing.cost["seconds"] is not None
        assert sum(standing.split) == standing.cost["seconds"].median


def test_a_cost_that_was_not_recorded_is_no_number() -> None:
    bare = replace(reaching(3), metrics=[{"round": 3, "test_accuracy": 0.95}])
    comparison = Comparison(0.9, [contender("bare", bare)])
    standing = outcomes(comparison)[0]
    assert (standing.cost["seconds"], standing.split) == (None, None)
    assert cost_text(comparison, standing, "seconds") == "–"
    assert summary(comparison)["contenders"][0]["seconds"] is None


def test_a_loss_is_reached_from_above() -> None:
    runs = [make_run([0.9, 0.5, 0.2], key="test_loss"), make_run([0.9, 0.8, 0.7], key="test_loss")]
    comparison = Comparison(0.5, [contender("loss", run) for run in runs])
    assert [standing.reached for standing in outcomes(comparison)] == [1, 0]
    assert [standing.best for standing in outcomes(comparison)] == [0.2, 0.7]
    assert goal_words(comparison) == "test loss 0.5"


def test_evaluating_seldom_is_said() -> None:
    rare = contender("rare", make_run([0.5, 0.95], every=5))
    assert resolution(rare.runs) == 5
    assert "Evaluated every 5 rounds" in " ".join(notes(Comparison(0.9, [rare])))
    assert "Evaluated" not in " ".join(notes(Comparison(0.9, [fields(3)])))


def test_the_summary_is_json_without_infinities(several: Comparison) -> None:
    facts = json.loads(json.dumps(summary(several), allow_nan=False))
    assert (facts["target"], facts["metric"], facts["evaluated_every"]) == (0.9, "accuracy", 1)
    first, partly, hardly, unstable = facts["contenders"]
    assert first["label"] == "fedavg"
    assert (first["seeds"], first["reached"], first["tried"]) == (3, 3, 1)
    assert first["rounds"] == {"median": 5, "min": 3, "max": 9}
    assert first["communication_seconds"] == {"median": 10, "min": 6, "max": 18}
    assert first["rates"] == {"worker_lr": 0.1, "server_lr": 1.0}
    assert (first["uplink_bytes"], first["downlink_bytes"]) == (100, 300)
    assert partly["mib"] == {"median": 12, "min": 8, "max": None}
    assert hardly["rounds"] == {"median": None, "min": 7, "max": None}
    assert hardly["best"] == 0.8
    assert unstable["final"] == {"median": 0.7, "min": None, "max": 0.95}
    assert (unstable["reached"], unstable["diverged"], unstable["tried"]) == (2, 1, 4)
    assert [run["rounds"] for run in unstable["runs"]] == [8, 2, None]


def test_nobody_who_reached_the_target_is_an_outcome_too(tmp_path: Path) -> None:
    lost = RunRecord(
        "lost", {**SHARED, "seed": 0}, [], {"status": "diverged", "metric": "accuracy", "rounds": 6}
    )
    nobody = [fields(None, None), contender("lost", lost), contender("nan", make_run([math.nan, 0.5]))]
    comparison = Comparison(0.9, nobody)
    assert [facts["rounds"] for facts in summary(comparison)["contenders"]] == [None] * 3
    assert [row[2].split("\n")[0] for row in outcome_rows(comparison)[1]] == [
        "not reached (best 80.00%)",
        "not reached (best none)",
        "not reached (best 50.00%)",
    ]
    json.dumps(summary(comparison), allow_nan=False)
    for write, name in everything():
        write(comparison, tmp_path / name)
        write(Comparison(0.9, nobody[1:2]), tmp_path / name)


def everything() -> list[tuple[Callable[..., None], str]]:
    files = [(write_csv, "compare.csv"), (write_seeds_csv, "seeds.csv"), (write_latex, "compare.tex")]
    return [*files, (figure, "curves.png"), (split, "split.png"), (write_page, "report.html")]


def test_csv_reads_back(several: Comparison, tmp_path: Path) -> None:
    write_csv(several, tmp_path / "compare.csv")
    write_seeds_csv(several, tmp_path / "seeds.csv")
    with (tmp_path / "compare.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == several.labels
    assert (rows[0]["rounds_median"], rows[0]["rounds_max"], rows[0]["worker_lr"]) == ("5", "9", "0.1")
    assert (rows[1]["mib_max"], rows[2]["rounds_median"], rows[2]["rounds_min"]) == ("", "", "7")
    assert float(rows[1]["seconds_ratio"]) == 1.2
    with (tmp_path / "seeds.csv").open(newline="") as file:
        seeds = list(csv.DictReader(file))
    assert len(seeds) == 12
    assert (seeds[4]["label"], seeds[4]["seed"], seeds[4]["rounds"]) == (NASTY, "1", "6")
    assert [row["status"] for row in seeds[-3:]] == ["reached", "reached, then diverged", "not reached"]
    assert not any(word in str(rows + seeds) for word in ("nan", "inf'"))


def test_latex_is_a_whole_table_with_everything_escaped(several: Comparison, tmp_path: Path) -> None:
    write_latex(several, tmp_path / "compare.tex")
    text = (tmp_path / "compare.tex").read_text()
    for name in ("table", "tabular"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") == 1
    layout = re.search(r"\\begin{tabular}{(l+r+)}", text)
    assert layout is not None
    head, body = text.split("\\toprule")[1].split("\\bottomrule")[0].split("\\midrule")
    rows = [row for row in (head + body).split("\\\\\n") if row.strip()]
    assert len(rows) == 5
    for row in rows:
        spanned = 2 * row.count(r"\multicolumn{3}")
        assert len(re.findall(r"(?<!\\)&", row)) + 1 + spanned == len(layout.group(1))
    assert "4 of" not in text
    assert r"not reached (best 80.00\%)" in text
    assert r"6 (4--$>$10)" in text
    assert latex_text("a_b%") in text
    assert latex_text("[x] & 50% #1 {~^} a_b \\ $ *") == (
        r"{[}x{]} \& 50\% \#1 \{\textasciitilde{}\textasciicircum{}\} a\_b \textbackslash{} \$ {*}"
    )
    assert text.isascii()


@pytest.mark.parametrize("count", range(1, 11))
def test_the_table_fits_80_columns(several: Comparison, count: int) -> None:
    long = contender("fedavg+compress=topk:0.01", reaching(1234, rounds=1500), reaching(None, rounds=1500))
    slow = contender("fedavgm+momentum=0.95", *(reaching(1000 + t, rounds=1500, seed=t) for t in range(3)))
    entrants = [*several.contenders, slow, long, *(fields(t, t, label=f"method-{t}") for t in range(1, 5))]
    console = Console(file=io.StringIO(), width=80, record=True)
    console.print(terminal_table(Comparison(0.9, entrants[:count])))
    text = console.export_text()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert "worker 0.1, server 1" in text
    assert "90% test accuracy" in " ".join(text.split())
    if count >= 5:
        joined = "".join(text.split())
        for expected in ("[red]a_b", "4–>10", "1diverged", "1,001", "best80.00%", "(of4)"):
            assert expected in joined


def test_the_band_counts_a_seed_that_has_ended_by_how_it_ended() -> None:
    going, other = [0.1, 0.2, 0.3, 0.4], [0.2, 0.3, 0.4, 0.5]
    runs = [make_run(going), make_run(other, seed=1), make_run([0.3, 0.6], seed=2, status="diverged")]
    drawn = band(outcomes(Comparison(0.9, [contender("diverged", *runs)]))[0], "test_accuracy")
    assert drawn.middle == [0.2, 0.3, 0.3, 0.4]
    assert (drawn.low, drawn.high) == ([0.1, 0.2, 0.3, 0.4], [0.3, 0.6, 0.4, 0.5])
    assert drawn.ends == [("2", 1, 0.6)]
    assert drawn.x["comm_mib"] == [2, 4, 6, 8]

    stopped = [make_run([0.1, 0.9]), make_run([0.1, 0.2, 0.9]), make_run([0.1, 0.2, 0.3, 0.4])]
    drawn = band(outcomes(Comparison(0.9, [contender("stopped", *stopped)]))[0], "test_accuracy")
    assert drawn.middle[:3] == [0.1, 0.2, 0.9]
    assert math.isnan(drawn.middle[3])
    assert drawn.high[3] == 0.4


def test_curves_never_step_back_when_a_slow_seed_ends() -> None:
    slow = make_run([0.1, 0.2], seed=1, status="diverged")
    slow = replace(slow, metrics=[{**line, "seconds": 90.0} for line in slow.metrics])
    drawn = band(outcomes(Comparison(0.9, [contender("one", reaching(5), slow)]))[0], "test_accuracy")
    assert drawn.x["seconds"] == sorted(drawn.x["seconds"])


def test_the_charts_hold_a_band_a_median_and_a_cross(several: Comparison) -> None:
    data = json.loads(json.dumps(charts(several), allow_nan=False))
    lines = [line for line in data["curves"][0]["lines"] if line["run"] == 3]
    assert [line.get("symbol") for line in lines] == [None, None, None, "x"]
    assert [bool(line.get("quiet")) for line in lines] == [True, True, False, False]
    assert data["figures"][0]["bars"][0]["parts"] == [5, 10]
    assert data["figures"][0]["bars"][2] == {
        "run": 2,
        "parts": [None, None],
        "text": "not reached (best 80.00%)",
    }
    assert data["log_x"] == []
    frugal = [{**line, "comm_mib": line["comm_mib"] / 100} for line in reaching(5).metrics]
    apart = Comparison(0.9, [fields(5), contender("frugal", replace(reaching(5), metrics=frugal))])
    assert charts(apart)["log_x"] == ["comm_mib"]


@pytest.mark.parametrize("draw", [figure, split])
def test_the_pictures_are_drawn_and_always_alike(
    several: Comparison, tmp_path: Path, draw: Callable[..., None]
) -> None:
    for name in ("a.png", "b.png"):
        draw(several, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    pixels = picture(tmp_path / "a.png")
    assert pixels.shape[1] == (1920 if draw is figure else 1480)
    assert 0.005 < (pixels < 200).mean() < 0.4
    many = Comparison(0.9, [fields(t % 7, label=f"method number {t}") for t in range(1, 11)])
    draw(many, tmp_path / "many.png")
    assert picture(tmp_path / "many.png").shape[0] > pixels.shape[0]


def test_the_page_loads_nothing_and_escapes_every_text(several: Comparison, tmp_path: Path) -> None:
    odd = replace(several.contenders[1].runs[0], config={**SHARED, "seed": 0, "model": "<i>net</i>"})
    shown = replace(several, contenders=[replace(several.contenders[1], runs=[odd]), *several.contenders])
    write_page(shown, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    found = Loads()
    found.feed(text)
    assert found.addresses == []
    assert found.tags.count("script") == 3
    # The legend draws its lines with <i>; a name has none.
    assert not {"b", "img", "link", "iframe", "loss", "red"} & set(found.tags)
    assert found.tags.count("i") == 5
    for expected in (
        "Comparison to 90% test accuracy",
        "&lt;b&gt;avg",
        "lowest &lt;loss&gt; &amp;",
        "&lt;i&gt;net",
    ):
        assert expected in text
    assert "@import" not in text.split("</style>")[0]


def test_the_page_says_how_to_repeat_every_run(several: Comparison, tmp_path: Path) -> None:
    inside = replace(reaching(3), folder=tmp_path / "runs" / "a b")
    outside = replace(reaching(3), folder=Path("/elsewhere/run"))
    shown = Comparison(0.9, [contender("fedavg", inside, outside, reaching(3, seed=7))])
    write_page(shown, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    for place in ("&#x27;runs/a b/config.yaml&#x27;", "/elsewhere/run/config.yaml", "seed-7/config.yaml"):
        assert f"enlist run --config {place}" in text
    assert "They were given." in text


def test_the_page_works_in_a_browser(
    browser: Any,  # noqa: F811
    several: Comparison,
    tmp_path: Path,
) -> None:
    write_page(several, tmp_path / "report.html")
    page = browser.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.emulate_media(color_scheme="light")
    page.goto((tmp_path / "report.html").as_uri())
    page.wait_for_selector("#split .main-svg")
    # Of each contender two edges and a median; one has a seed that diverged.
    assert page.locator("#metric .scatterlayer .trace").count() == 13
    assert page.locator("#split .barlayer .point").count() >= 4
    assert "not reached (best 80.00%)" in page.locator("#split").text_content()
    page.locator("#metric").hover(position={"x": 260, "y": 130})
    page.wait_for_selector("#metric .hoverlayer text")
    told = " ".join(page.locator("#metric .hoverlayer text").all_text_contents())
    assert NASTY in told
    assert "–" in told
    page.click("[data-x=seconds]")
    assert "seconds" in page.locator("#metric .xtitle").text_content()
    ink = 'getComputedStyle(document.querySelector("#split .ytick text")).fill'
    light = page.evaluate(ink)
    page.emulate_media(color_scheme="dark")
    page.click('[data-run="0"]')
    assert page.evaluate(ink) != light
    assert page.locator("#metric .scatterlayer .trace").count() == 10
    assert asked == [(tmp_path / "report.html").as_uri()]
    assert said == []
    page.close()
