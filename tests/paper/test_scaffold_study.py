"""SCAFFOLD's option and batches: the runs, the rule, what is shown."""

import numpy as np
import pytest
from doctored import curve_of, made

from enlist.report.paper.figures import NOT_RUN
from enlist.studies.paper import raw
from enlist.studies.paper.claims.verdicts import verdicts
from enlist.studies.paper.recipes import choices, scaffold, table2
from enlist.studies.paper.setting import FULL, SMALL, Setting
from enlist.studies.paper.shown.pieces import pieces_of
from enlist.studies.paper.shown.tabled_own import option_words, scaffold_rows


def failing(*options):
    """All runs come to 97% in round 5, but those of these options, which come to nothing."""

    def then(curve):
        own = curve.setting
        lost = own.algorithm == "scaffold" and (own.variates or "II") in options
        return curve._replace(test_accuracy=np.where((curve.round < 5) | lost, 0.11, 0.97))

    return then


def test_what_table_2_and_choices_have_is_not_run_again():
    own = set(scaffold.runs(FULL))
    assert len(own) == len(scaffold.runs(FULL)) == 60
    assert len(own & set(table2.runs(FULL))) == 4 * 3 * 2
    # FedAvg with the CNN at three other batches.
    assert len(own & set(choices.runs(FULL)) - set(table2.runs(FULL))) == 2 * 3
    assert {each.variates for each in own if each.algorithm == "fedavg"} == {None}


def test_an_option_is_one_of_the_run():
    (first, *_) = [each for each in scaffold.runs(FULL) if each.variates == "I"]
    assert first.options()["variates"] == "I"
    assert " scaffold I n=10" in first.group()
    assert first.group() != first._replace(variates=None).group()


@pytest.mark.parametrize(
    ("lost", "chosen"), [(("I",), "II"), (("II",), "I"), ((), "II"), (("I", "II"), "II")]
)
def test_the_option_that_arrives_more_often_is_chosen_and_the_usual_where_both_do_alike(lost, chosen):
    raw = made(FULL, then=failing(*lost))
    assert scaffold.chosen(raw, FULL) == chosen
    said = option_words(raw, FULL)
    assert f"II comes to the target in {0 if 'II' in lost else 12} of 12 runs" in said
    assert f"option I in {0 if 'I' in lost else 12} of 12" in said
    assert said.endswith("as in all other runs of SCAFFOLD here." if chosen == "II" else "here have II.")


def test_nothing_is_chosen_before_all_runs_of_both_are_there():
    some = made(FULL, keep=lambda setting: setting.variates is None or setting.seed < 2)
    assert scaffold.chosen(some, FULL) is None
    assert option_words(some, FULL).startswith("Not all runs")
    assert "whatever comes out" in option_words(made(SMALL), SMALL)


def test_each_row_of_table_2_is_a_column_with_the_papers_rounds_below():
    heads, rows = scaffold_rows(made(FULL, then=failing("I")), FULL)
    assert heads[2:] == ["2NN, i.i.d.", "2NN, two digits", "CNN, i.i.d.", "CNN, two digits"]
    assert rows[-2:] == [
        ["paper, SCAFFOLD", "–", "3", "14", "3", "14"],
        ["paper, FedAvg", "–", "3", "14", "3", "10"],
    ]
    by_method = {tuple(row[:2]): row[2:] for row in rows}
    assert set(by_method["SCAFFOLD, I", "10"]) == {"–\n0 of 3 seeds\nbest 11.0%"}
    assert by_method["SCAFFOLD, II", "10"] == by_method["FedAvg", "50"] == ["5"] * 4
    assert len(by_method) == len(rows) == 3 + 2 * 3 + 2
    assert pieces_of("scaffold").printed(made(SMALL), SMALL)[0][0][2:] == heads[2:4]


def test_what_other_batches_would_have_said_stands_beside_the_claim_on_table_2():
    said = verdicts(made(FULL, then=failing("I")), FULL)[9].statistic
    assert "in use): 10: 4 of 4, 20: 4 of 4, 50: 4 of 4, 100: 4 of 4." in said

    def slow(curve):
        """FedAvg takes three times as long with batches of 20, nobody arrives with those of 50."""
        own = curve.setting
        wanted = 15 if (own.batch, own.algorithm) == (20, "fedavg") else 1000 if own.batch == 50 else 5
        return curve._replace(test_accuracy=np.where(curve.round < wanted, 0.11, 0.97))

    said = verdicts(made(FULL, then=slow), FULL)[9].statistic
    # Where neither arrives nothing is said.
    assert "in use): 10: 4 of 4, 20: 0 of 4, 100: 4 of 4." in said
    shared = set(table2.runs(FULL))
    before = verdicts(made(FULL, keep=lambda setting: setting in shared), FULL)[9].statistic
    assert "by batch" not in before


def test_what_is_not_run_is_said():
    _, rows = scaffold_rows(made(FULL, keep=lambda setting: setting.variates is None), FULL)
    assert {row[0] for row in rows if NOT_RUN in row} == {"SCAFFOLD, I"}


def test_of_a_longer_run_only_the_rounds_that_count_are_looked_at():
    setting = Setting("mnist", "cnn", "digits:2", 10, 5, 100, 0, 10, algorithm="scaffold")
    whole = curve_of(setting)._replace(status="diverged", test_accuracy=np.linspace(0, 0.99, 100))
    cut = whole.within(40)
    assert cut.status == "done"
    assert len(cut.round) == len(cut.train_loss) == len(cut.test_accuracy) == 40
    assert whole.rounds_to(0.9) is not None
    assert cut.rounds_to(0.9) is None
    # The round after the last one that is there is where it diverged.
    assert whole.within(100).status == "done"
    in_41 = whole._replace(**{name: getattr(whole, name)[:40] for name in ("round", *raw.SERIES)})
    assert (in_41.within(40).status, in_41.within(41).status) == ("done", "diverged")
    short = whole._replace(
        round=np.arange(1, 4), **{name: np.ones(3) for name in ("train_loss", "test_loss", "test_accuracy")}
    )
    assert short.within(40) is short
