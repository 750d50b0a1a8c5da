"""A grid of runs: means over seeds that know of runs which diverged, and all that shows them."""

import csv
import io
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from test_report import Loads, browser, picture  # noqa: F401

from enlist.report.heatmap import MOST_PANELS, cell_words, write_picture
from enlist.report.record import RunRecord
from enlist.report.sweep.files import left, load, write_all
from enlist.report.sweep.outcome import Sweep, Swept, axes_of, folder_names, label
from enlist.report.sweep.page import map_chart, write_page
from enlist.report.sweep.tables import cell_remark, edges, spread_text, terminal_table

NASTY = "<b>a</b> & 50% [red]b_c[/red] $x$ </script>"


def make_run(
    name: str, values: Mapping[str, Any], ends: Sequence[float] | None, target: float | None
) -> RunRecord:
    """A run with this test accuracy in its rounds; None for one that diverged after two."""
    seen = [0.2, 0.3] if ends is None else ends
    lines = [
        {
            "round": t,
            "train_loss": 1 / t,
            "test_loss": 2 / t,
            "test_accuracy": value,
            "comm_mib": 2.0 * t,
            "seconds": t,
        }
        for t, value in enumerate(seen, start=1)
    ]
    best = max(lines, key=lambda line: line["test_accuracy"])
    reached = next((line for line in lines if target and line["test_accuracy"] >= target), {})
    goal = {"value": target, "rounds": reached.get("round"), "comm_mib": reached.get("comm_mib")}
    summary = {
        "status": "diverged" if ends is None else "done",
        "rounds": len(lines),
        "metric": "accuracy",
        "final": lines[-1],
        "best": {"test_accuracy": best["test_accuracy"], "round": best["round"]},
        "target": goal | {"seconds": reached.get("seconds")} if target else None,
        "wall_seconds": 1.5,
    }
    config = {"dataset": "mnist", "model": "two_nn", "algorithm": "fedavg", "target": target} | dict(values)
    return RunRecord(name, config, lines, summary)


def make(
    axes: Mapping[str, Sequence[Any]],
    accuracy: Callable[..., Sequence[float] | None],
    target: float | None = None,
) -> Sweep:
    """The product of the axes; `accuracy(**values)` says what each run saw."""
    every = [dict(zip(axes, each, strict=True)) for each in itertools.product(*axes.values())]
    runs = [
        Swept(values, make_run(name, values, accuracy(**values), target))
        for values, name in zip(every, folder_names(every), strict=True)
    ]
    return Sweep(axes_of(every), runs)


def rising(worker_lr: float = 0.1, seed: int = 0, **rest: Any) -> list[float] | None:
    """Better with larger rates and later seeds, until it diverges: with a rate of 1 one seed does, with 10 all do."""
    if worker_lr > 1 or (worker_lr == 1 and seed == 1):
        return None
    return [0.1, 0.5 + 0.3 * worker_lr + 0.01 * seed, 0.4]


@pytest.fixture
def several() -> Sweep:
    axes = {
        "worker_lr": [0.01, 0.1, 1.0, 10.0],
        "partition": ["digits:1", NASTY],
        "cohort": [5, 10],
        "seed": [0, 1, 2],
    }
    return make(axes, rising, target=0.53)


def test_a_cell_is_the_mean_over_the_seeds_that_have_a_value(several: Sweep) -> None:
    assert (len(several.rows), len(several.cells), several.seeds) == (48, 16, 3)
    first = several.cells[4].spread("best_accuracy")
    assert several.cells[4].values == {"worker_lr": 0.1, "partition": "digits:1", "cohort": 5}
    assert first is not None
    assert first.mean == pytest.approx(0.54)
    assert first.deviation == pytest.approx(0.01)
    partly, gone = several.cells[8], several.cells[12]
    found = partly.spread("best_accuracy")
    assert found is not None
    assert (found.known, partly.diverged) == (2, 1)
    assert found.mean == pytest.approx(0.81)
    assert (gone.spread("best_accuracy"), gone.diverged) == (None, 3)


def test_what_is_written_about_a_cell_says_who_is_missing(several: Sweep) -> None:
    rounds, *_, best, final, loss = several.measures
    assert [each.key for each in (rounds, best, final, loss)] == [
        "rounds_to_target",
        "best_accuracy",
        "final_accuracy",
        "train_loss",
    ]
    low, well, partly, gone = (several.cells[place] for place in (0, 4, 8, 12))
    # 0.503, 0.513 and 0.523 against a target of 0.53.
    assert cell_words(low, rounds) == ("–", "not reached")
    assert cell_remark(low, rounds) == "3 of 3 did not reach it"
    assert cell_words(well, best) == ("54.0", "± 1.0")
    assert spread_text(well, best) == "54.00 ± 1.00%"
    assert cell_words(partly, best) == ("81.0", "1 of 3 diverged")
    assert cell_words(gone, best) == ("×", "diverged")
    assert cell_remark(gone, rounds) == "3 of 3 diverged"
    alone = make({"worker_lr": [0.1, 10.0]}, rising)
    assert cell_words(alone.cells[1], alone.measures[0]) == ("×", "after 2")
    assert cell_remark(alone.cells[1], alone.measures[0]) == "diverged after 2 rounds"


def test_the_best_has_all_its_seeds_and_then_the_best_mean(several: Sweep) -> None:
    # Larger rates are better, but of those above 0.1 a seed diverged.
    assert several.best().values["worker_lr"] == 0.1
    by_accuracy = [cell.values["worker_lr"] for cell in several.ranked(several.measures[3])]
    assert by_accuracy == [0.1] * 4 + [0.01] * 4 + [1.0] * 4 + [10.0] * 4
    assert edges(several) == []
    ends = make({"worker_lr": [0.01, 0.1], "server_lr": [1.0]}, rising)
    assert "beyond: worker_lr 0.1." in edges(ends)[0]


def test_a_run_that_reached_the_target_and_diverged_later_did_reach_it() -> None:
    run = make_run("one", {"worker_lr": 1.0}, None, 0.25)
    sweep = Sweep({"worker_lr": [1.0]}, [Swept({"worker_lr": 1.0}, run)])
    found = sweep.cells[0].spread("rounds_to_target")
    assert found is not None
    assert (found.mean, sweep.cells[0].spread("best_accuracy"), sweep.cells[0].diverged) == (2.0, None, 1)


def test_names_of_folders_are_safe_and_distinct() -> None:
    assert folder_names([{"dataset": "a/b:c"}, {"dataset": "a_b_c"}, {"dataset": "A_b_c"}]) == [
        "dataset=a_b_c",
        "dataset=a_b_c~2",
        "dataset=A_b_c~3",
    ]
    long = folder_names([{"model": "m" * 300}, {"model": "m" * 301}])
    assert len(set(long)) == 2
    assert max(map(len, long)) < 255
    assert label({"server_lr": None, "grad_norm": True, "worker_lr": 1e-5}) == (
        "server_lr=none, grad_norm=true, worker_lr=1e-05"
    )


def test_only_what_differs_is_an_axis() -> None:
    told = [
        {"algorithm": "fedavg", "mu": None, "rounds": 3},
        {"algorithm": "fedprox", "mu": 1.0, "rounds": 3},
    ]
    assert axes_of(told) == {"algorithm": ["fedavg", "fedprox"], "mu": [None, 1.0]}


def test_tables_read_back(several: Sweep, tmp_path: Path) -> None:
    facts = write_all(several, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*left(several).values(), "summary.json"}
    with (tmp_path / "sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 48
    assert rows[-1]["partition"] == NASTY
    assert (rows[-1]["status"], rows[-1]["final_accuracy"], rows[-1]["rounds"]) == ("diverged", "", "2")
    assert (rows[12]["rounds_to_target"], rows[12]["mib_to_target"]) == ("2", "4.0")
    with (tmp_path / "cells.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert (cells[4]["best_accuracy_seeds"], cells[8]["diverged"]) == ("3", "1")
    assert json.loads((tmp_path / "summary.json").read_text()) == json.loads(json.dumps(facts))
    assert facts["best"]["worker_lr"] == 0.1
    assert load(tmp_path) is None


@pytest.mark.parametrize("name", ["sweep.tex", "cells.tex"])
def test_latex_is_a_whole_table_with_everything_escaped(name: str, several: Sweep, tmp_path: Path) -> None:
    write_all(several, tmp_path)
    text = (tmp_path / name).read_text()
    layout = re.search(r"\\begin{tabular}{(l+r+)}", text)
    assert layout is not None
    head, body = text.split("\\toprule")[1].split("\\bottomrule")[0].split("\\midrule")
    rows = [row for row in (head + body).split("\\\\\n") if row.strip()]
    assert len(rows) == 1 + (48 if name == "sweep.tex" else 16)
    for row in rows:
        assert len(re.findall(r"(?<!\\)&", row)) + 1 == len(layout.group(1))
    assert r"$\eta_L$" in text
    assert text.isascii()


def test_the_table_fits_80_columns(several: Sweep) -> None:
    console = Console(file=io.StringIO(), width=80, record=True)
    console.print(terminal_table(several))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    joined = " ".join(text.split())
    assert "By rounds to 53% test accuracy, the best first" in joined
    assert "Mean ± standard deviation over 3 seeds." in joined
    assert "16 diverged" in joined
    assert "4 more combinations are in the tables" in joined


def test_the_picture_is_drawn_and_always_alike(several: Sweep, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        write_picture(several, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    flat = make({"worker_lr": [0.01, 0.1, 1.0], "cohort": [5, 10]}, rising)
    write_picture(flat, tmp_path / "flat.png")
    # A panel for each partition.
    assert picture(tmp_path / "a.png").shape[1] > picture(tmp_path / "flat.png").shape[1]


@pytest.mark.parametrize(
    "axes",
    [
        {"worker_lr": [0.01, 0.1, 1.0, 10.0], "seed": [0, 1]},
        {"partition": ["iid", NASTY]},
        {"seed": [0, 1, 2]},
        {"worker_lr": [10.0, 100.0]},
        {"worker_lr": [10.0, 100.0], "cohort": [1, 2]},
        {"worker_lr": [0.01 * t for t in range(1, 41)], "cohort": list(range(12))},
        {"worker_lr": [0.1, 1.0], "cohort": [1, 2], "batch": list(range(MOST_PANELS + 2))},
        {"grad_norm": [True, False], "server_lr": [None, 1.0]},
    ],
    ids=["line", "words", "seeds", "nothing-left", "no-value", "large", "panels", "none"],
)
def test_grids_of_all_kinds_are_drawn(axes: dict[str, Any], tmp_path: Path) -> None:
    sweep = make(axes, rising)
    write_picture(sweep, tmp_path / "sweep.png")
    pixels = picture(tmp_path / "sweep.png")
    assert max(pixels.shape) < 5000
    assert (pixels < 200).mean() > 0.002
    write_page(sweep, tmp_path / "report.html")
    json.dumps(map_chart(sweep), allow_nan=False)


def test_combinations_that_were_not_asked_for_stay_empty(tmp_path: Path) -> None:
    told = [{"worker_lr": 0.01, "cohort": 5}, {"worker_lr": 0.1, "cohort": 10}]
    runs = [
        Swept(values, make_run(name, values, rising(**values), None))
        for values, name in zip(told, folder_names(told), strict=True)
    ]
    sweep = Sweep(axes_of(told), runs)
    write_all(sweep, tmp_path)
    assert [cell["at"] for cell in map_chart(sweep)["cells"]] == [[0, 0], [1, 1]]


def test_the_page_loads_nothing_and_escapes_every_text(several: Sweep, tmp_path: Path) -> None:
    write_page(several, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    found = Loads()
    found.feed(text)
    assert found.addresses == []
    assert found.tags.count("script") == 3
    assert not {"b", "img", "link", "iframe", "red"} & set(found.tags)
    for expected in ("&lt;b&gt;a&lt;/b&gt; &amp; 50%", "enlist sweep --grid sweep.yaml", "16 diverged"):
        assert expected in text


def test_the_page_works_in_a_browser(
    browser: Any,  # noqa: F811
    several: Sweep,
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
    page.wait_for_selector("#map .main-svg")
    shown = page.locator("#map").text_content()
    assert "worker_lr" in shown
    assert NASTY in shown
    assert "diverged" in shown
    # Rates across, partitions down: the map is cut at a cohort.
    assert page.locator('[data-at="2:0"]').is_visible()
    assert not page.locator('[data-at="0:0"]').is_visible()
    page.click('[data-across="1"]')
    assert page.locator('[data-down="0"]').get_attribute("aria-pressed") == "true"
    page.click('[data-down="2"]')
    assert not page.locator('[data-at="2:0"]').is_visible()
    page.click('[data-measure="3"]')
    for place, expected in (("0:0", "51.3"), ("0:1", "54.0"), ("0:3", "×")):
        page.click(f'[data-at="{place}"]')
        page.wait_for_function(f'document.getElementById("map").textContent.includes("{expected}")')
        assert page.locator(f'[data-at="{place}"]').get_attribute("aria-pressed") == "true"

    table = page.locator(".sortable").nth(1)
    column = table.locator("thead th").all_text_contents().index("best accuracy") + 1
    cells = f"tbody tr > :nth-child({column})"
    for order in ("ascending", "descending"):
        table.locator(f"thead th:nth-child({column})").click()
        assert table.locator(f"thead th:nth-child({column})").get_attribute("aria-sort") == order
        values = [float(cell.rstrip("%")) for cell in table.locator(cells).all_text_contents()]
        assert values == sorted(values, reverse=order == "descending")
    final = column + 1
    table.locator(f"thead th:nth-child({final})").click()
    # What has no value stays below.
    assert table.locator(f"tbody tr > :nth-child({final})").all_text_contents()[-1] == "–"
    page.click("[data-x=seconds]")
    assert "seconds" in page.locator("#metric .xtitle").text_content()
    assert asked == [(tmp_path / "report.html").as_uri()]
    assert said == []
    page.close()
