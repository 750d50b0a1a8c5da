"""What is made of raw metrics: the data of figures, tables as CSV and LaTeX, the page."""

import csv
import html
import json
import math
import re

import numpy as np
import pytest
from doctored import curve_of, made
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.legend import Legend

from enlist.report.document import prose
from enlist.report.paper import bars as paper_bars
from enlist.report.paper import figures as paper_figures
from enlist.report.paper import page
from enlist.report.paper import tables as paper_tables
from enlist.report.paper.bars import Bar, draw_bars
from enlist.report.paper.figures import NOT_RUN, Column, Drawing, Trace, draw_curves
from enlist.studies.paper import raw
from enlist.studies.paper.catalogue import RECIPES
from enlist.studies.paper.claims.verdicts import verdicts
from enlist.studies.paper.raw import Raw, Sitting
from enlist.studies.paper.recipe import where
from enlist.studies.paper.recipes import starts, table2, table3
from enlist.studies.paper.setting import FULL, SMALL, Way
from enlist.studies.paper.shown import tabled, tabled_costs, tabled_own
from enlist.studies.paper.shown.drawing import drawing, setting_words, trace, warning
from enlist.studies.paper.shown.gathered import description, shown, write_all
from enlist.studies.paper.shown.gathered_costs import cost_of, costs_of, environment, wall_shares
from enlist.studies.paper.statistics import race
from enlist.theory.table1 import ROWS as THEORY


@pytest.fixture(scope="module")
def all_runs():
    return made(SMALL)


@pytest.fixture(scope="module")
def folder(all_runs, tmp_path_factory):
    """Raw metrics, and what is made of them."""
    out = tmp_path_factory.mktemp("made")
    raw.append(out / "raw", list(all_runs))
    raw.keep_seconds(out / "raw", all_runs.seconds)
    raw.append_sitting(
        out / "raw", raw.Sitting(RECIPES["fig6"].runs(SMALL)[0].group(), 1, 1.0, 60.0, "formula")
    )
    names = ("choices", "fig1", "fig5", "fig7", "table1", "table2", "table3")
    facts = write_all(out, SMALL, [RECIPES[name] for name in names])
    return out, facts


def line(figure, column, label, metric="test_accuracy"):
    (found,) = [each for each in figure.columns[column].traces[metric] if each.label == label]
    return found


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_line_is_the_mean_over_seeds_in_its_range(all_runs):
    shown_line = line(drawing(RECIPES["fig1"], all_runs, SMALL), 0, "p = 2, n = 10")
    own = [
        curve.test_accuracy
        for curve in all_runs.where(**where("two_nn", "digits:2", 10, 5))
        if (curve.setting.rounds, curve.setting.way) == (SMALL.extents["two_nn"].rounds, SMALL.ways["mnist"])
    ]
    assert len(own) == SMALL.extents["two_nn"].seeds
    np.testing.assert_allclose(shown_line.middle, 100 * np.mean(own, axis=0))
    np.testing.assert_allclose(shown_line.low, 100 * np.min(own, axis=0))
    np.testing.assert_allclose(shown_line.high, 100 * np.max(own, axis=0))


def test_runs_of_other_lengths_with_the_same_settings_are_not_drawn(all_runs):
    """The batch size's runs, and the grid's, have settings of figure 1 but fewer rounds."""
    same = all_runs.where(**where("two_nn", "digits:2", 10, 5), seed=0)
    assert len({curve.setting.rounds for curve in same}) > 1
    alone = Raw(all_runs.curves[setting] for setting in RECIPES["fig1"].runs(SMALL))
    for one, other in zip(
        drawing(RECIPES["fig1"], all_runs, SMALL).columns,
        drawing(RECIPES["fig1"], alone, SMALL).columns,
        strict=True,
    ):
        assert [each for each in one.traces["train_loss"] if each.color is not None] == other.traces[
            "train_loss"
        ]


def test_what_all_lines_have_in_common_stands_in_the_title(all_runs):
    figure = drawing(RECIPES["fig1"], all_runs, SMALL)
    assert [column.title for column in figure.columns] == [
        "(a) digits a worker",
        "(b) workers a round",
        "(c) local epochs, p = 5",
    ]
    assert line(figure, 2, "K = 5, n = 10").dashed
    assert not line(figure, 2, "K = 5, n = 100").dashed


def test_a_run_that_diverged_ends_there_and_is_marked():
    setting = next(iter(RECIPES["fig1"].runs(SMALL)))
    going = curve_of(setting)
    gone = curve_of(setting._replace(seed=1))._replace(status="diverged", round=np.arange(1, 4))
    series = {name: np.array([1.0, 2.0, math.nan]) for name in raw.SERIES}
    both = trace("a line", [going, gone._replace(**series)], "train_loss", 0)
    assert both.ends == [(2, 2.0)]
    assert both.middle[0] == pytest.approx((going.train_loss[0] + 1) / 2)
    # From there on those that are left.
    np.testing.assert_allclose(both.middle[2:], going.train_loss[2:])
    alone = trace("a line", [gone._replace(**series)], "train_loss", 0)
    assert math.isnan(alone.middle[2])

    figure = drawing(RECIPES["fig1"], Raw([going, gone._replace(**series)]), SMALL)
    assert line(figure, 0, "p = 1, n = 100 (1 diverged)").ends
    assert "diverged" in figure.notes


def test_missing_runs_are_said(all_runs, tmp_path):
    some = Raw(
        [
            curve
            for curve in all_runs
            if curve.setting.model == "two_nn" and curve.setting.seed == 0 and curve.setting.workers > 1
        ]
    )
    figure = drawing(RECIPES["fig2"], some, SMALL)
    assert [bool(column.traces["train_loss"]) for column in figure.columns] == [False, True, False]
    assert figure.columns[1].title == "2NN (1 of 2 seeds)"
    assert figure.columns[1].traces["train_loss"][0].label == "p = 1, n = 100"
    fewer = Raw([curve for curve in some if curve.setting.partition != "digits:2"])
    column = drawing(RECIPES["fig2"], fewer, SMALL).columns[1]
    assert column.title == "2NN"
    assert [trace.label for trace in column.traces["train_loss"]][:2] == [
        "p = 1, n = 100 (1 of 2 seeds)",
        "p = 2, n = 100 (not run yet)",
    ]
    draw_curves(figure, tmp_path / "fig2.png")
    nothing = drawing(RECIPES["fig5"], Raw([]), SMALL)
    assert not any(column.traces["test_accuracy"] for column in nothing.columns)
    draw_curves(nothing, tmp_path / "fig5.png")
    drawn, goal, notes = tabled_costs.bars(Raw([]), SMALL)
    assert {bar.seconds for bar in drawn} == {None}
    assert all("not run yet" in bar.words for bar in drawn)
    draw_bars("title", goal, drawn, tmp_path / "fig7.png", notes)
    assert all((tmp_path / f"{name}.png").stat().st_size for name in ("fig2", "fig5", "fig7"))


def test_a_small_figure_says_so_and_a_full_one_does_not(all_runs):
    assert drawing(RECIPES["fig2"], all_runs, SMALL).warning == (
        "small scale: 1,000 training and test rows, 5 to 12 rounds, 1 to 2 seeds; not the paper's size"
    )
    assert (
        "12 rounds, 1 to 2 seeds, 2NN instead of ResNet-18"
        in drawing(RECIPES["fig5"], all_runs, SMALL).warning
    )
    assert warning(FULL, RECIPES["fig5"].runs(FULL)) == ""


def test_a_warning_is_drawn_on_the_figure(tmp_path):
    flat = Trace("a line", [1, 2], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [])
    plain = Drawing("title", [Column("column", {"train_loss": [flat]}, {})], ["train_loss"], "notes")
    draw_curves(plain, tmp_path / "plain.png")
    draw_curves(plain._replace(warning="small"), tmp_path / "small.png")
    assert (tmp_path / "plain.png").read_bytes() != (tmp_path / "small.png").read_bytes()


@pytest.mark.parametrize("name", ["fig1", "fig2", "fig5", "fig7"])
def test_title_warning_names_and_notes_are_within_the_figure(all_runs, name, monkeypatch):
    drawn = []
    for module in (paper_figures, paper_bars):
        monkeypatch.setattr(module, "save", lambda figure, path: drawn.append(figure))
    if name == "fig7":
        bars, goal, notes = tabled_costs.bars(all_runs, SMALL)
        draw_bars(name, goal, bars, "", notes, warning(SMALL, RECIPES[name].runs(SMALL)))
    else:
        draw_curves(drawing(RECIPES[name], all_runs, SMALL), "")
    (figure,) = drawn
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    words = [text for text in figure.texts if text.get_text().strip()]
    assert sum("small scale" in text.get_text() for text in words) == 1
    names = [text for legend in figure.findobj(Legend) for text in legend.get_texts()]
    assert names
    for text in [*words, *names]:
        box = text.get_window_extent(canvas.get_renderer())
        assert 0 <= box.x0 <= box.x1 <= figure.bbox.width, text.get_text()
        assert 0 <= box.y0 <= box.y1 <= figure.bbox.height, text.get_text()


@pytest.mark.parametrize("name", ["fig1", "fig6", "unbalanced"])
def test_a_columns_title_ends_before_the_next_begins(name, monkeypatch):
    drawn = []
    monkeypatch.setattr(paper_figures, "save", lambda figure, path: drawn.append(figure))
    # All that a title can be told to say: seeds are missing, and those that there are diverged.
    poor = made(
        SMALL,
        keep=lambda setting: setting.seed == 0,
        then=lambda curve: curve._replace(status="diverged"),
    )
    draw_curves(drawing(RECIPES[name], poor, SMALL), "")
    (figure,) = drawn
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    heads = [axes for axes in figure.axes if not axes.axison]
    ends = [*(axes.get_window_extent().x0 for axes in heads[1:]), figure.bbox.width]
    for axes, end in zip(heads, ends, strict=True):
        (title,) = axes.texts
        assert "diverged" in title.get_text()
        box = title.get_window_extent(canvas.get_renderer())
        assert box.x1 <= end
        lines = [legend.get_window_extent().y1 for legend in axes.findobj(Legend)]
        assert lines
        assert max(lines) <= box.y0


def test_the_ceiling_and_the_best_rates_stand_beside_the_papers_setting(all_runs):
    column = drawing(RECIPES["fig2"], all_runs, SMALL).columns[1]
    alone = all_runs.where(model="two_nn", workers=1)
    best = max(float(curve.test_accuracy.max()) for curve in alone)
    assert column.levels["test_accuracy"] == [
        (pytest.approx(100 * best), f"trained in one place: {100 * best:.1f}% at best")
    ]
    # Another pair of rates is made the best where it is hardest.
    hardest = {"model": "two_nn", "partition": "digits:1", "cohort": 10, "local_epochs": 5, "rounds": 5}

    def better(curve):
        if not curve.setting.matches(hardest | {"worker_lr": 0.01, "server_lr": 10.0}):
            return curve
        return curve._replace(train_loss=0 * curve.train_loss)

    column = drawing(RECIPES["fig2"], made(SMALL, then=better), SMALL).columns[1]
    (grey,) = [each for each in column.traces["train_loss"] if each.color is None]
    assert grey.label == "p = 1, n = 10 at table 3's best rates (0.01 and 10)"
    assert grey.middle == [0.0] * 5


def test_table1_has_all_analyses_and_formulas(folder):
    out, _ = folder
    rows = rows_of(out / "tables/table1.csv")
    assert [row["analysis"] for row in rows] == [row.name for row in THEORY]
    assert rows[-1]["rate_partial"] == "1/T + sqrt(K)/sqrt(nT)"
    latex = (out / "tables/table1.tex").read_text()
    assert r"$1/T + \sqrt{K}/\sqrt{nT}$" in latex
    assert r"1/\epsilon^{3/2} + M^2/(SK \epsilon^2)" in latex
    assert latex.count(r"\\" + "\n") == len(THEORY) + 1


def test_table2_has_every_row_with_the_papers_numbers_beside_ours(folder, all_runs):
    out, _ = folder
    rows = rows_of(out / "tables/table2.csv")
    assert len(rows) == 2 * len(table2.ROWS) == 28
    printed = [getattr(row, method) for row in table2.ROWS for method in table2.METHODS]
    assert [float(row["paper_seconds"]) for row in rows] == [each[2] for each in printed]
    (own,) = [
        row
        for row in rows
        if (row["partition"], row["cohort"], row["model"], row["method"])
        == ("digits:2", "10", "two_nn", "fedavg")
    ]
    curves = [
        curve
        for curve in all_runs.where(**where("two_nn", "digits:2", 10, 5))
        if (curve.setting.rounds, curve.setting.way) == (SMALL.extents["two_nn"].rounds, SMALL.ways["mnist"])
    ]
    reached = [curve.rounds_to(0.95) for curve in curves]
    assert (own["seeds"], own["reached"]) == ("2", "2")
    assert float(own["rounds_median"]) == np.median(reached)
    assert float(own["mib"]) == pytest.approx(np.median(reached) * 2 * 4 * 199_210 / 2**20, rel=1e-3)
    latex = (out / "tables/table2.tex").read_text()
    assert "{[}9548.07{]}" in latex
    assert latex.count(r"\\" + "\n") == 15
    table = tabled_costs.table2_of(all_runs, SMALL)
    assert table.rows[-1][4].endswith("paper 8,866.06")
    assert "small scale" in table.caption.lower()
    assert table.rows[5][3] == "not at small scale\npaper 1"
    assert tabled_costs.table2_of(Raw([]), SMALL).rows[0][3] == "not run yet\npaper 3"
    assert tabled_costs.table2_of(Raw([]), FULL).rows[5][3] == "not run yet\npaper 1"
    assert all(f"{heading} rounds" in table.heads for heading in ("SCAFFOLD", "FedAvg"))


def test_table2_marks_what_cannot_be_reached():
    def capped(curve):
        if curve.setting.model != "logistic":
            return curve
        return curve._replace(test_accuracy=np.minimum(curve.test_accuracy, 0.92))

    small = tabled_costs.table2_of(made(SMALL, then=capped), SMALL)
    assert "not reached" in small.rows[0][3]
    table = tabled_costs.table2_of(made(FULL, then=capped), FULL)
    assert "cannot be reached" in table.rows[0][3]
    assert table.rows[0][-1] == "92.00%"
    assert table.records[0]["verdict"] == "cannot be reached"
    assert table.latex is not None
    assert table.latex[0][3] == "-- {[}3{]}"


def test_table3_is_complete_and_marks_what_diverged(folder, all_runs):
    out, _ = folder
    rows, wanted = rows_of(out / "tables/table3.csv"), set(table3.runs(SMALL))
    assert len(rows) == len(wanted)
    gone = [row for row in rows if row["status"] == "diverged"]
    assert gone
    assert {(row["server_lr"], row["worker_lr"]) for row in gone} == {("10.0", "0.1")}
    assert {row["last_tenth_test_accuracy"] for row in gone} == {""}
    table = tabled.table3_of(all_runs, SMALL)
    assert len(table.rows) == 2 * 4
    of = len(wanted) // 2
    assert (
        f"Diverged (no longer finite): 0 of {of} at server rate 1, {len(gone)} of {of} at server rate 10."
        in table.caption
    )
    heads, counts = tabled.divergence_rows(all_runs, SMALL)
    assert counts[0][heads.index("η = 10, η_L = 0.1")] == "8 of 8"
    assert counts[0][heads.index("η = 1, η_L = 0.1")] == "0 of 8"


def test_first_weights_are_compared_in_table_2s_rows():
    own, shared = starts.runs(FULL), set(table2.runs(FULL))
    assert len(own) == len(set(own)) == 2 * 2 * 2 * 2 * (5 + 3)
    assert [setting in shared for setting in own] == [True] * 64 + [False] * 64
    assert {each.way for each in own if each not in shared} == {Way(10, start="uniform")}
    # Whatever is usual, the other is compared with it.
    scale = FULL._replace(ways=FULL.ways | {"mnist": Way(20, pixels="standard", start="uniform")})
    assert starts.otherwise(scale).ways["mnist"] == Way(20, pixels="standard")
    assert starts.otherwise(starts.otherwise(scale)).ways == scale.ways


def test_what_first_weights_do_is_shown_and_said():
    def then(curve):
        setting = curve.setting
        if setting.matches({"algorithm": "scaffold", "model": "cnn", "cohort": 10}) and setting.start is None:
            return curve._replace(status="diverged", test_accuracy=0 * curve.test_accuracy)
        return curve

    raw = made(FULL, then=then)
    heads, rows = tabled_own.start_rows(raw, FULL)
    assert len(rows) == 8
    cells = [dict(zip(heads, row, strict=True)) for row in rows]
    for row in cells:
        gone = (row["model"], row["n"]) == ("CNN", "10")
        assert (row["SCAFFOLD, He's"] == "–\n0 of 3 seeds\n3 diverged\nbest 0.0%") == gone
        assert re.match(r"\d+", row["SCAFFOLD, PyTorch's"])
        assert re.match(r"\d+", row["FedAvg, He's"])
    assert heads.count("paper") == 2
    said = verdicts(raw, FULL)[9].statistic
    assert "He's 8 of 8, SCAFFOLD diverging in 6 of 32 runs; PyTorch's" in said
    assert "SCAFFOLD diverging in 0 of 32 runs." in said
    # Until they are run nothing is said of them, and the table says so.
    before = made(FULL, then=then, keep=lambda setting: setting.start is None)
    assert "first weights" not in verdicts(before, FULL)[9].statistic
    _, rows = tabled_own.start_rows(before, FULL)
    assert {(row[4], row[7]) for row in rows} == {(NOT_RUN, NOT_RUN)}


def test_varied_images_are_said_where_they_are_used():
    scale = FULL._replace(ways=FULL.ways | {"cifar10": Way(20, "crop-flip")})
    assert setting_words(RECIPES["fig5"].runs(scale)).startswith("Batch 20, images varied (crop-flip); seeds")
    assert "varied" not in setting_words(RECIPES["fig1"].runs(scale))
    for setting in RECIPES["fig6"].runs(scale):
        assert setting.options()["augment"] == "crop-flip"
        assert "batch=20 crop-flip" in setting.group()
    ceilings = [each for each in table2.ceilings(scale) if each.dataset == "cifar10"]
    assert {each.way for each in ceilings} == {Way(50, "crop-flip")}
    table = tabled_costs.table2_of(Raw([]), scale)
    assert table.caption.endswith(
        "MNIST: batches of 10; CIFAR-10: batches of 20, images varied (crop-flip) (in one place batches of 50, "
        "images varied (crop-flip))."
    )
    ways = {(record["dataset"], record["batch"], record["augment"]) for record in table.records}
    assert ways == {("mnist", 10, ""), ("cifar10", 20, "crop-flip")}
    _, _, notes = tabled_costs.bars(Raw([]), scale)
    assert "Batch 20, images varied (crop-flip); seeds: ResNet-18 2." in notes


def test_the_best_worker_rate_stands_beside_ten_workers_on_images(all_runs):
    (even, skewed) = drawing(RECIPES["fig5"], all_runs, SMALL).columns
    for column in (even, skewed):
        best = column.traces["test_accuracy"][-1]
        # By the formula, the higher the rate the lower the loss.
        assert best.label == "n = 10, K = 5 at worker rate 0.3, the best of 3"
        assert best.color is None
    lacking = made(SMALL, keep=lambda setting: setting.worker_lr != 0.03)
    as_papers = made(
        SMALL, as_if=lambda setting: setting._replace(worker_lr=0.01 if setting.worker_lr != 0.1 else 0.1)
    )
    for runs in (lacking, as_papers):
        for column in drawing(RECIPES["fig5"], runs, SMALL).columns:
            assert not any("the best of" in trace.label for trace in column.traces["test_accuracy"])


def test_the_page_is_complete_in_itself(folder):
    out, facts = folder
    page = (out / "report.html").read_text()
    body = page[: page.index('<script type="application/json"')]
    assert body.count("data:image/png;base64,") == 3
    assert not re.findall(r'(?:src|href)="(?!data:|#)', body)
    for each in facts["verdicts"]:
        assert f'id="claim-{each["number"]}"' in body
        assert all(html.escape(each[part]) in body for part in ("claim", "verdict", "statistic", "rule"))
    assert "small scale: 1,000 training and test rows" in body
    for title in (
        "Figure 1. 2NN on MNIST",
        "Table 1. ",
        "Table 2. ",
        "Table 3. ",
        "Batches, varied images, pixels and first weights",
    ):
        assert title in body


def test_columns_that_name_a_row_stand_left_and_numbers_right():
    assert page._leading_words([["MNIST", "10", "CNN", "3"], ["MNIST", "100", "LR", "5"]]) == 3
    assert (
        page._leading_words([["MNIST", "batches of 10", "6 of 8"], ["MNIST", "batches of 20", NOT_RUN]]) == 2
    )
    assert page._leading_words([["90%", "0.86", "0.72 nearest"], ["95%", NOT_RUN, "1.2"]]) == 1
    assert page._leading_words([["0 to 1", "He's", "12 of 12"]]) == 2


def test_commands_are_set_as_code():
    assert (
        prose("1 < 2: `enlist run`, `a & b`") == "1 &lt; 2: <code>enlist run</code>, <code>a &amp; b</code>"
    )


def test_the_markdown_says_the_same_and_its_links_are_there(folder):
    out, facts = folder
    said = (out / "reproduction.md").read_text()
    links = re.findall(r"!\[[^]]*\]\(([^)]*)\)", said)
    assert links == ["figures/fig1.png", "figures/fig5.png", "figures/fig7.png"]
    assert all((out / link).is_file() for link in links)
    assert all(each["statistic"] in said for each in facts["verdicts"])
    assert set(facts["files"]) <= {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}


def test_wall_time_is_shared_as_device_time_is(all_runs):
    one, other, third = [curve for curve in all_runs if curve.setting.model == "two_nn"][:3]
    what = one.setting.group()
    other, third = (
        each._replace(setting=one.setting._replace(seed=7 + i)) for i, each in enumerate((other, third))
    )
    runs = [one._replace(device_seconds=1.0), other._replace(device_seconds=3.0)]
    sittings = [Sitting(what, 1, 1.0, 10.0, one.device), Sitting(what, 1, 3.0, 30.0, one.device)]
    assert list(wall_shares(Raw(runs), sittings).values()) == [10.0, 30.0]
    # A slower machine's time is that of its own runs.
    runs[1] = runs[1]._replace(device="there")
    elsewhere = [sittings[0], sittings[1]._replace(device="there", wall_seconds=200.0)]
    assert list(wall_shares(Raw(runs), elsewhere).values()) == [10.0, 200.0]
    unknown = [each._replace(device_seconds=0.0) for each in (one, other, third)]
    assert [*wall_shares(Raw(unknown), sittings[:1]).values()] == pytest.approx([10 / 3] * 3)


def test_the_environment_counts_every_run_once(folder, all_runs):
    out, facts = folder
    environment = json.loads((out / "environment.json").read_text())
    assert environment["runs"] == len(all_runs) == facts["runs"]
    assert environment["device_seconds"] == len(all_runs)
    took = {"runs": len(all_runs), "device_seconds": len(all_runs), "wall_seconds": 60}
    assert environment["machines"] == {"formula": took}
    own = len(set(RECIPES["fig1"].runs(SMALL)))
    assert environment["recipes"]["fig1"] == {
        "runs": own,
        "wanted": own,
        "diverged": 0,
        "machines": {"formula": {"runs": own, "device_seconds": own, "wall_seconds": None}},
    }
    assert environment["wall_seconds"] == 60
    assert environment["recipes"]["table1"] == {"runs": 0, "wanted": 0, "diverged": 0, "machines": {}}


def test_what_recipes_took_is_told_machine_by_machine():
    settings = list(dict.fromkeys(RECIPES["fig5"].runs(SMALL)))
    runs = [curve_of(setting)._replace(device_seconds=60.0) for setting in settings]
    runs[0] = runs[0]._replace(device="a slow one", device_seconds=600.0)
    took = [Sitting(settings[0].group(), 1, 1.0, 1200.0, "a slow one")]
    cost = cost_of(RECIPES["fig5"], Raw(runs), took, SMALL)
    others = len(settings) - 1
    assert cost.words() == (
        f"{others + 1} runs: 10.0 device minutes on a slow one, 20.0 of wall time with compiling; "
        f"{others}.0 device minutes on formula."
    )
    table = costs_of(environment(Raw(runs), took, [RECIPES["fig5"]], SMALL))[1]
    first, second = table[:2]
    assert first == ["fig5", f"{others + 1}", "0", "a slow one", "1", "10.0", "20.0"]
    assert second == ["", "", "", "formula", f"{others}", f"{others}.0", "–"]
    assert [row[3:] for row in table[2:]] == [first[3:], second[3:]]


def test_recipes_are_shown_that_were_asked_for_or_are_complete(all_runs):
    own = Raw(all_runs.curves[setting] for setting in RECIPES["fig5"].runs(SMALL))
    assert [recipe.name for recipe in shown(own, SMALL, ["table1"])] == ["fig5", "table1"]
    assert [recipe.name for recipe in shown(all_runs, SMALL, [])][:2] == ["choices", "fig1"]


def test_every_claim_belongs_to_a_recipe_and_every_recipe_describes_itself():
    judged = verdicts(Raw([]), SMALL)
    assert [each.number for each in judged if any(map(each.bears_on, RECIPES))] == [*range(1, 14)]
    drawn = {name for name, recipe in RECIPES.items() if recipe.panels or name == "fig7"}
    assert not [name for name in drawn if not any(each.bears_on(name) for each in judged)]
    for recipe in RECIPES.values():
        assert len(description(recipe)[0]) > 20


def test_what_was_found_at_full_scale_is_said_to_be_that(folder):
    """A page of other runs must not seem to have found it."""
    said = (folder[0] / "reproduction.md").read_text()
    assert "Found:" not in said
    assert said.count("Found at full scale, by the runs that enlist keeps in results/paper:") == 6


def test_a_cell_with_a_bar_or_an_underscore_breaks_no_table():
    table = paper_tables.Table("t", "50% of a_b", ["x|y", "n"], [["a|b_c", "1\nremark"]], 1, [{"x": "a,b"}])
    assert paper_tables.markdown(table.heads, table.rows).splitlines()[2] == r"| a\|b_c | 1 (remark) |"
    assert paper_tables.latex_cell("a_b & 5%\nremark") == r"a\_b \& 5\% (remark)"


def test_bars_go_to_what_both_come_to_where_the_target_is_missed(all_runs):
    half = lambda curve: curve._replace(test_accuracy=0.5 * curve.test_accuracy)
    slow = made(SMALL, then=half)
    drawn, goal, notes = tabled_costs.bars(slow, SMALL)
    assert goal == "what is said beside each bar"
    assert tabled_costs.bars(all_runs, SMALL)[1] == "75% test accuracy on CIFAR-10"
    assert "99% of the best accuracy that every run comes to" in notes
    for bar, row in zip(drawn[::2], [row for row in table2.ROWS if row.dataset == "cifar10"], strict=True):
        found = race.raced(slow, SMALL, row)
        assert found.level < 0.5
        assert bar.seconds[0] == pytest.approx(1.05 * found.scaffold)
        assert f"in {found.scaffold:g} rounds to {100 * found.level:.1f}%\n75% not reached, best" in bar.words
    nothing = made(SMALL, then=lambda curve: curve._replace(test_accuracy=0 * curve.test_accuracy + 0.1))
    guessed, *_ = tabled_costs.bars(nothing, SMALL)
    assert {bar.seconds for bar in guessed} == {None}
    assert all(bar.words.startswith("not reached, best 10.0%") for bar in guessed)
    unmeasured = Raw(slow, {})
    assert all("computing was not measured" in bar.words for bar in tabled_costs.bars(unmeasured, SMALL)[0])
    one = made(SMALL, then=half, keep=lambda setting: setting.algorithm == "fedavg")
    bars, *_ = tabled_costs.bars(one, SMALL)
    assert {bar.seconds for bar in bars} == {None}
    assert {bar.words.split(",")[0].split(" (")[0] for bar in bars} == {"not run yet", "not reached"}


def test_bars_to_the_target_have_the_papers_beside_them(all_runs):
    reached = [bar for bar in tabled_costs.bars(all_runs, SMALL)[0] if isinstance(bar, Bar) and bar.seconds]
    assert reached
    assert all("(paper" in bar.words for bar in reached)
