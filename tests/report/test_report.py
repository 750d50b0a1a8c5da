"""The report room: a run's folder read back, its picture, its page (also in a real browser), its table."""

import io
import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from enlist.errors import BadInput
from enlist.report.figures import MOST_POINTS, charts, curves, participation_chart, wants_log
from enlist.report.page import write_page
from enlist.report.record import RunRecord, labels, load, outcome, plain, short
from enlist.report.tables import print_outcome, sentence, summary_table

NASTY = "a <b>bold</b> & 'odd' [red]name[/red] $x$ </script>"


def make_run(folder: Path, rounds: int = 20, metric: str = "accuracy", **options: Any) -> Path:
    """A folder as the engine leaves it, of a run that nears 95% and passes 90% on the way."""
    folder.mkdir(parents=True)
    config = {"dataset": "mnist", "partition": "digits:2", "workers": 12, "model": "two_nn", "cohort": 3}
    config |= {
        "algorithm": "fedavg",
        "worker_lr": 0.1,
        "server_lr": 1.0,
        "local_epochs": 5,
        "local_steps": None,
    }
    config |= {"batch": 10, "rounds": rounds, "seed": 0, "target": 0.9, **options}
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    lines = []
    for t in range(1, rounds + 1):
        line = {"round": t, "train_loss": 2.3 * math.exp(-0.3 * t), "test_loss": 2.4 * math.exp(-0.2 * t)}
        line |= {f"test_{metric}": 0.95 - 0.85 * math.exp(-0.3 * t), "delta_norm": 1 / t}
        line |= {"cohort": [t % 12, (t + 5) % 12, 0], "uplink_bytes": 400, "downlink_bytes": 400}  # type: ignore[dict-item]
        lines.append({**line, "comm_mib": t * 1.5, "seconds": t * 0.1})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary = {"rounds": rounds, "final": lines[-1], "best": lines[-1], "metric": metric, "status": "done"}
    summary |= {"target": {"value": 0.9, "rounds": 10}, "wall_seconds": 2.5, "rounds_per_second": 8.0}
    summary |= {
        "parameters": 199210,
        "versions": {"enlist": "0.1.0", "jax": "0.10.2"},
        "device": "cpu (2 cores)",
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    counts = [[271 if c in (w % 10, (w + 1) % 10) else 0 for c in range(10)] for w in range(12)]
    held = {"workers": 12, "rows": 6504, "left_over": 80, "sizes": {"min": 542, "median": 542, "max": 542}}
    held |= {"worker_sizes": [542] * 12} | ({"class_counts": counts} if metric == "accuracy" else {})
    (folder / "partition.json").write_text(json.dumps(held))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> RunRecord:
    return load(make_run(tmp_path / "one"))


def with_metrics(run: RunRecord, **values: Any) -> RunRecord:
    return replace(run, summary={}, metrics=[{**line, **values} for line in run.metrics])


def test_load_gives_back_what_the_run_left(run: RunRecord) -> None:
    assert run.name == "one"
    assert run.metric_key == "test_accuracy"
    assert run.series("round")[1] == list(range(1, 21))
    assert run.partition is not None
    assert run.partition["rows"] == 6504
    end = outcome(run)
    assert (end.status, end.rounds, end.target, end.target_rounds) == ("done", 20, 0.9, 10)


def test_an_unfinished_run_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "killed")
    text = (folder / "metrics.jsonl").read_text()
    (folder / "metrics.jsonl").write_text(text[:-25])
    (folder / "summary.json").write_text('{"rounds": 2')
    (folder / "partition.json").unlink()
    run = load(folder)
    assert len(run.metrics) == 19
    assert (run.summary, run.partition) == ({}, None)
    end = outcome(run)
    assert (end.status, end.rounds, end.best_round, end.target_rounds) == ("unfinished", 19, 19, 10)


def test_of_a_round_written_twice_the_later_line_counts(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "resumed")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"round": 20, "train_loss": 7.0}\n')
    assert load(folder).series("train_loss")[1][-1] == 7.0
    assert len(load(folder).metrics) == 20


def test_what_is_no_run_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nowhere"):
        load(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="empty' is not the folder of a run"):
        load(tmp_path / "empty")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("metrics.jsonl", '{"round": 1}\nrubbish\n{"round": 2}\n'),
        ("metrics.jsonl", '{"no_round": 1}\n{"round": 2}\n'),
        ("summary.json", '{"rounds": }'),
        ("summary.json", "[1, 2]"),
        ("config.yaml", "a: [1\nb: }"),
        ("config.yaml", "- 1\n- 2\n"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, file: str, content: str) -> None:
    folder = make_run(tmp_path / "bad")
    (folder / file).write_text(content)
    with pytest.raises(BadInput, match=file):
        load(folder)


def test_runs_named_by_date_are_told_apart_by_their_options(run: RunRecord) -> None:
    dated = [
        replace(run, name=f"2026-10-0{i}", config={**run.config, "worker_lr": lr})
        for i, lr in ((1, 0.1), (2, 1))
    ]
    assert labels(dated) == ["worker_lr 0.1", "worker_lr 1"]
    assert labels([run, run]) == ["one", "one (2)"]
    assert "worker rate" not in sentence(dated)
    assert sentence([run]).startswith(
        "two_nn on mnist, trained by fedavg, 2 classes a worker, 3 of 12 workers"
    )


def test_options_are_written_exactly_and_measurements_to_four_digits() -> None:
    assert [plain(v) for v in (1.0, 0.0123456789, 3e-05, None, 0)] == ["1", "0.0123456789", "3e-05", "–", "0"]
    assert [short(v) for v in (0.123456, 15200.5, math.nan)] == ["0.1235", "15,200", "–"]


def picture(path: Path) -> Any:
    numpy, image = pytest.importorskip("numpy"), pytest.importorskip("PIL.Image")
    return numpy.asarray(image.open(path).convert("L"))


@pytest.mark.parametrize("points", [0, 1, 20])
def test_the_picture_is_drawn_for_any_number_of_points(run: RunRecord, tmp_path: Path, points: int) -> None:
    curves([replace(run, metrics=run.metrics[:points], summary={})], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    pixels = picture(tmp_path / "curves.png")
    assert pixels.shape == (660, 1480)
    assert 0.005 < (pixels < 128).mean() < 0.2
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_picture_bears_nan_odd_names_and_many_runs(run: RunRecord, tmp_path: Path) -> None:
    lost = with_metrics(run, train_loss=math.nan, test_accuracy=None)
    curves([lost], tmp_path / "nan.png")
    odd = [replace(run, name=name) for name in (NASTY, "_hidden", "$unclosed", *map(str, range(12)))]
    curves([*odd, lost], tmp_path / "many.png")
    assert picture(tmp_path / "many.png").shape[0] > picture(tmp_path / "nan.png").shape[0]


def test_the_same_run_gives_the_same_picture(run: RunRecord, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        curves([run], tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_the_axis_is_logarithmic_only_where_the_range_warrants_it() -> None:
    assert wants_log([2.3, math.nan, 0.01])
    assert not wants_log([2.3, 1.1])
    assert not wants_log([0.0, 100.0])
    assert not wants_log([])


class Loads(HTMLParser):
    """Collects every address the page would load, and all its text."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]


def test_the_page_loads_nothing_and_escapes_names(run: RunRecord, tmp_path: Path) -> None:
    odd = replace(run, name=NASTY, config={**run.config, "model": "<i>net</i>"})
    for runs in ([odd], [odd, run, with_metrics(run, train_loss=math.nan)]):
        write_page(runs, tmp_path / "report.html")
        text = (tmp_path / "report.html").read_text()
        found = Loads()
        found.feed(text)
        assert found.addresses == []
        assert found.tags.count("script") == 3
        assert not {"b", "img", "link", "iframe"} & set(found.tags)
        assert "&lt;b&gt;bold" in text
        assert "@import" not in text.split("</style>")[0]


def test_the_page_stands_with_whatever_is_missing(run: RunRecord, tmp_path: Path) -> None:
    write_page([RunRecord("bare", {}, [], {})], tmp_path / "bare.html")
    assert "No evaluated round yet" in (tmp_path / "bare.html").read_text()
    regression = load(make_run(tmp_path / "regression", metric="r2"))
    write_page([regression, replace(run, partition=None)], tmp_path / "mixed.html")
    assert '"kind": "heat"' not in (tmp_path / "mixed.html").read_text()


def test_the_charts_keep_the_last_round_of_a_long_run(run: RunRecord) -> None:
    long = replace(run, metrics=[{"round": t, "train_loss": 1.0} for t in range(1, 3 * MOST_POINTS)])
    drawn = charts([long])["x"][0]["round"]
    assert len(drawn) <= MOST_POINTS
    assert drawn[-1] == 3 * MOST_POINTS - 1


def test_participation_counts_rounds_not_draws(run: RunRecord) -> None:
    twice = replace(run, metrics=[{"round": 1, "cohort": [4, 4, 2]}, {"round": 2, "cohort": [4]}])
    chart = participation_chart([twice])
    assert chart is not None
    assert chart["bars"][0]["y"] == [0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright (pip install playwright)")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium found (apt-get install chromium)")
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    quiet += ["--disable-background-networking", "--disable-component-update"]
    with api.sync_playwright() as driver:
        profile = str(tmp_path_factory.mktemp("profile"))
        context = driver.chromium.launch_persistent_context(
            profile, executable_path=found, headless=True, args=quiet
        )
        yield context
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_works_in_a_browser(browser: Any, run: RunRecord, tmp_path: Path, scheme: str) -> None:
    other = replace(run, name=NASTY)
    write_page([run, other], tmp_path / "report.html")
    page = browser.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.emulate_media(color_scheme=scheme)
    page.goto((tmp_path / "report.html").as_uri())
    page.wait_for_selector("#participation .main-svg")
    assert page.locator("#metric .scatterlayer .trace").count() == 2
    assert page.locator("#classes-0 .heatmaplayer image, #classes-0 .heatmaplayer .hm").count() >= 1

    page.locator("#metric").hover(position={"x": 260, "y": 130})
    page.wait_for_selector("#metric .hoverlayer text")
    told = " ".join(page.locator("#metric .hoverlayer text").all_text_contents())
    assert "round" in told
    assert "%" in told
    assert NASTY in told
    # plotly's bar would by default offer to send the chart to a server.
    assert page.locator("[data-attr=sendChartToCloud], [data-title*=Share], [aria-label*=Share]").count() == 0

    page.click("[data-x=comm_mib]")
    assert "MiB" in page.locator("#metric .xtitle").text_content()
    page.click('[data-run="0"]')
    assert page.locator("#metric .scatterlayer .trace").count() == 1
    assert asked == [(tmp_path / "report.html").as_uri()]
    assert said == []
    page.close()


def test_the_table_tells_the_outcome_within_80_columns(run: RunRecord) -> None:
    for runs in ([run], [run] * 3, [run] * 5, [replace(run, name=NASTY), with_metrics(run)]):
        console = Console(file=io.StringIO(), width=80, record=True)
        console.print(summary_table(runs))
        text = console.export_text()
        assert "…" not in text
        for expected in ("94.79%", "10", "2.5", "one" if runs[0] is run else "[red]"):
            assert expected in text


def test_the_outcome_says_where_the_files_lie(run: RunRecord, tmp_path: Path) -> None:
    assert run.folder is not None
    curves([run], run.folder / "curves.png")
    console = Console(file=io.StringIO(), width=20, record=True)
    print_outcome(run, console)
    text = console.export_text()
    assert str(run.folder / "curves.png") in text
    assert "report.html" not in text
