"""`enlist study bound`: the bound holds where it must, and the study can tell where it does not."""

import json

import numpy as np
import pytest

from enlist.cli import main
from enlist.report.bound import page as bound_page
from enlist.studies import bound_holds as study
from enlist.studies.bound_holds import Grid, Setting, Variant, judged, least_mean
from enlist.studies.cross_term import STATED, expected_factor
from enlist.theory import bounds

TINY = Grid(
    settings=(
        Setting("full", 10, 2),
        Setting("with-replacement", 2, 2),
        Setting("without-replacement", 5, 2),
    ),
    variants=(Variant(4.0, 0.2),),
    drifts=(0.05, 0.999),
    steps=(0.5, 0.9),
    cross_steps=(1, 8),
)
SEEDS, ROUNDS = 32, 20


def doctored(constants, rates, strategy, **rest):
    """A bound that promises too much."""
    found = bounds.bound(constants, rates, strategy, **rest)
    return found._replace(bound=0.2 * found.bound)


@pytest.fixture(scope="module")
def facts():
    return study.bound_holds(TINY, SEEDS, ROUNDS)


def test_the_bound_holds_inside_the_conditions(facts):
    assert len(facts["cases"]) == 2 * 3 * 4
    for case in facts["cases"]:
        assert case["inside"]
        assert case["verdict"] in ("holds", "within"), case
        assert case["ratio"] > 1
        assert case["bound"] == pytest.approx(case["vanishing"] + case["phi"])
    assert {case["sampling"] for case in facts["cases"]} == {
        "full",
        "with-replacement",
        "without-replacement",
    }


@pytest.fixture
def crossed(facts, monkeypatch):
    """The dropped term has nothing to do with the grid: it need not be measured again."""
    monkeypatch.setattr(study, "cross_terms", lambda *given: facts["cross_term"]["cases"])


def test_a_bound_that_promises_too_much_is_found_out(facts, crossed):
    only = TINY._replace(settings=TINY.settings[:1])
    found = study.bound_holds(only, SEEDS, ROUNDS, bound=doctored)
    broken = [case for case in found["cases"] if case["verdict"] == "broken"]
    assert broken
    assert found["tight"]["verdict"] == "broken"
    # The same runs: only the bound differs.
    same = [case["measured"] for case in facts["cases"] if case["sampling"] == "full"]
    assert [case["measured"] for case in found["cases"]] == same
    assert "is broken in" in bound_page.verdict(found)[0]


def test_it_is_met_where_it_is_tight_and_broken_outside(facts):
    tight, outside = facts["tight"], facts["outside"]
    assert tight["inside"]
    assert tight["verdict"] != "broken"
    assert 0.9 < tight["ratio"] < 1.2
    assert not outside["inside"]
    assert outside["verdict"] == "broken"
    assert outside["g_l"] == pytest.approx(1.5)
    assert 0.4 < outside["ratio"] < 0.7


def test_dropped_term_is_as_in_closed_form_and_below_the_stated_factor(facts):
    for case in facts["cross_term"]["cases"]:
        assert case["high"] < STATED
        assert case["kept_over_k_sigma_squared"] == pytest.approx(1, abs=0.15)
        if case["local_steps"] == 1:
            assert case["factor"] == pytest.approx(1, abs=1e-6)
        if case["expected"] is not None:
            assert case["low"] - 1e-6 <= case["expected"] <= case["high"] + 1e-6
    by_name = {
        case["problem"]: case["factor"] for case in facts["cross_term"]["cases"] if case["local_steps"] == 8
    }
    convex, nonconvex, concave = by_name.values()
    assert convex < 0.93
    assert 1.005 < nonconvex < concave
    assert concave > 1.07


def test_no_factor_exceeds_that_of_infinitely_many_steps():
    factors = [expected_factor(-1 / 8, steps) for steps in (1, 2, 4, 64, 4096)]
    assert factors[0] == pytest.approx(1)
    assert factors == sorted(factors)
    assert factors[-1] < 2 * (np.expm1(1 / 8) * 8 - 1) + 1


def test_least_of_noisy_means_is_not_too_low():
    """All rounds alike: the least mean of many rounds is far below the truth, what is measured is not."""
    rng = np.random.default_rng(0)
    found = [least_mean(rng.exponential(size=(40, 100))) for _ in range(50)]
    assert np.mean([value for value, _ in found]) == pytest.approx(1, abs=0.06)
    assert np.mean([error for _, error in found]) == pytest.approx(1 / np.sqrt(40), rel=0.1)


@pytest.mark.parametrize(("bound", "verdict"), [(2.0, "holds"), (1.0, "within"), (0.5, "broken")])
def test_verdicts(bound, verdict):
    squares = np.random.default_rng(0).normal(1.0, 0.5, size=(400, 3))
    assert judged(squares, bound)["verdict"] == verdict


def test_a_run_that_diverges_breaks_the_bound():
    with np.errstate(invalid="ignore"):
        assert judged(np.full((8, 2), np.inf), 1e9)["verdict"] == "broken"


def test_command_leaves_numbers_picture_and_page(tmp_path, monkeypatch, capsys, crossed):
    monkeypatch.setitem(study.SCALES, "small", TINY)
    out = tmp_path / "out"
    main(["study", "bound", "--seeds", str(SEEDS), "--rounds", str(ROUNDS), "--out", str(out), "--json"])
    printed = json.loads(capsys.readouterr().out)
    kept = json.loads((out / "bound.json").read_text())
    assert printed == kept | {"folder": str(out)}
    assert kept["command"] == f"enlist study bound --seeds {SEEDS} --rounds {ROUNDS} --scale small"
    assert kept["verdict"][0].startswith("No violation in 24 cases")
    assert set(kept["looseness"]) == {"full", "with-replacement", "without-replacement"}
    assert (out / "bound.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "report.html").read_text()
    assert kept["verdict"][0].rstrip(".") in page
    assert "src=" not in page.split("<script")[0]
    (out / "report.html").unlink()
    main(["report", str(out), "--json"])
    assert json.loads(capsys.readouterr().out) == printed
    assert (out / "report.html").read_text() == page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seeds", "2"], "seeds = 2: must be 4 or more"),
        (["--rounds", "1"], "rounds = 1: must be 2 or more"),
        (["--scale", "huge"], "huge"),
        (["again"], "again"),
    ],
)
def test_bad_input_is_one_line(words, said, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["study", "bound", *words, "--out", str(tmp_path / "out")])
    complaint = capsys.readouterr().err
    assert stopped.value.code == 2
    assert said in complaint
    assert complaint.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_a_study_is_not_overwritten(tmp_path, capsys):
    (tmp_path / "kept.txt").write_text("mine")
    with pytest.raises(SystemExit) as stopped:
        main(["study", "bound", "--out", str(tmp_path)])
    assert stopped.value.code == 2
