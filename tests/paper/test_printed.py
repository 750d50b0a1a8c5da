"""The tables that a terminal shows."""

import pytest
from doctored import made

from enlist.cli import main
from enlist.studies.paper.catalogue import RECIPES
from enlist.studies.paper.setting import FULL
from enlist.studies.paper.shown.pieces import PIECES, pieces_of
from enlist.studies.paper.statistics.table2 import table2_cells


@pytest.fixture(scope="module")
def raw():
    return made(FULL)


def test_table_2_is_a_row_a_method_with_the_papers_numbers(raw):
    ((heads, rows),) = pieces_of("table2").printed(raw, FULL)
    cells = list(table2_cells(raw, FULL))
    assert len(rows) == len(cells) == 28
    by_place = {(row[0], row[1], row[2], row[3]): dict(zip(heads, row, strict=True)) for row in rows}
    found = by_place["MNIST, two digits", "10", "CNN", "FedAvg"]
    (cell,) = [c for c in cells if (c.row.partition, c.row.cohort, c.model) == ("digits:2", 10, "cnn")][1:]
    assert found["rounds [paper]"].startswith(f"{cell.median:g}")
    assert found["rounds [paper]"].endswith("[10]")
    assert found["MiB [paper]"].endswith("[44.41]")


def test_what_does_not_arrive_says_how_far_it_came():
    def astray(curve):
        own = curve.setting
        if (own.algorithm, own.model) != ("scaffold", "two_nn"):
            return curve
        return curve._replace(status="diverged", test_accuracy=0.0 * curve.test_accuracy + 0.61)

    ((_, rows),) = pieces_of("table2").printed(made(FULL, then=astray), FULL)
    said = {row[4] for row in rows if row[2:4] == ["2NN", "SCAFFOLD"]}
    assert len(said) == 4
    assert all(each.startswith("– [") and each.endswith("\n5 diverged\nbest 61.00%") for each in said)


def test_what_was_not_run_is_left_out():
    some = made(FULL, keep=lambda setting: setting.dataset == "mnist")
    ((_, rows),) = pieces_of("table2").printed(some, FULL)
    assert {row[0].split(",")[0] for row in rows} == {"MNIST"}


@pytest.mark.parametrize(
    ("name", "grids"),
    [("fig1", 0), ("unbalanced", 0), ("choices", 2), ("starts", 1), ("table1", 1), ("table3", 1)],
)
def test_every_table_has_as_many_cells_as_heads(raw, name, grids):
    found = pieces_of(name).printed(raw, FULL)
    assert len(found) == grids
    for heads, rows in found:
        assert rows
        assert {len(row) for row in rows} == {len(heads)}


def test_every_recipe_shows_something_and_nothing_is_shown_of_another():
    assert set(PIECES) <= set(RECIPES)
    assert [name for name, recipe in RECIPES.items() if recipe.panels is None] == [
        name for name in RECIPES if name in PIECES
    ]


def test_the_command_shows_its_table(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    main(["reproduce", "table1", "--out", "here"])
    shown = capsys.readouterr().out
    assert "Karimireddy" in shown
    assert "1/sqrt(mKT)" in shown
    # Of everything that there is nobody asked for a table in particular.
    main(["reproduce", "verdicts", "--out", "here"])
    assert "Karimireddy" not in capsys.readouterr().out
