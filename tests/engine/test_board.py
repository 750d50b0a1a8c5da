"""How far many runs are, and how long the rest takes."""

import pytest

from enlist.engine.board import Tally, board, duration


def test_the_time_left_is_that_of_the_pace_so_far():
    now = [0.0]
    tally = Tally(100.0, 4, clock=lambda: now[0])
    assert tally.seconds_left() is None
    # What was done in an earlier sitting says nothing of the pace.
    tally.take_over(20.0, 1)
    assert tally.seconds_left() is None
    now[0] = 8.0
    tally.work(40.0)
    assert tally.seconds_left() == pytest.approx(8.0)
    tally.take_over(40.0)
    assert tally.seconds_left() == 0.0


def test_runs_that_advance_together_count_together():
    tally = Tally(6 * 10 * 2.0, 6)
    with board(tally, live=False) as shown:
        with shown.shown("four", 2.0)(10, 4) as screen:
            screen.start(5, None)
            assert tally.done == 4 * 5 * 2
            screen.update(6, None)
            assert tally.done == 4 * 6 * 2
            assert tally.finished == 0
        # Two of them diverged at round 6: their rounds are not waited for.
        assert (tally.done, tally.finished) == (4 * 10 * 2, 4)
        with shown.shown("two", 2.0)(10, 2) as screen:
            screen.start(0, None)
            # One that a kill left behind catches up first; nothing is counted twice.
            screen.update(3, None)
            screen.start(3, None)
            screen.update(10, None)
    assert (tally.done, tally.finished) == (tally.amount, 6)
    assert tally.seconds_left() == 0.0


def test_it_is_drawn_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    with board(Tally(20.0, 2), live=True) as shown, shown.shown("group [b]1[/b]", 1.0)(10) as screen:
        screen.start(0, None)
        screen.update(10, {"round": 10, "train_loss": 0.5, "test_accuracy": 0.9})
    said = capsys.readouterr()
    assert said.out == ""
    for expected in ("1 of 2 runs", "group [b]1[/b]", "round 10/10", "loss 0.5000  accuracy 90.00%", "left"):
        assert expected in said.err


def test_durations_in_words():
    assert [duration(seconds) for seconds in (0.2, 59.6, 3599.0, 3600.0, 172_799.0, 172_800.0)] == [
        "0:00",
        "1:00",
        "59:59",
        "1 h 00 min",
        "47 h 59 min",
        "2 d 00 h",
    ]
