"""`enlist speedup`: T is found where it is known, the slope is -1 where it must be, and no speedup is called that."""

import contextlib
import io
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.image import imread

import enlist as enlist_api
from enlist.cli import main
from enlist.launch.speedup import launch_speedup
from enlist.options import unflatten
from enlist.options.speedup import SpeedupOptions
from enlist.report.speedup import page as speedup_page
from enlist.report.speedup import words as speedup_words
from enlist.report.speedup.picture import picture
from enlist.studies import speedup as study
from enlist.studies.rounds_needed import Needed, Search, never_rising, smallest
from enlist.studies.slopes import drawn, least_values, slope
from enlist.studies.speedup import Case, Effort, Found, Goal, facts_of, rounds_of
from enlist.theory.conditions import Constants

SEEDS, GOAL = 16, 0.006
QUIET = Constants(1.0, 1.0, 0.0, 0.1)
DRIFTING = Constants(1.0, 0.1, 5.0, 0.1)


def exact_rounds(n, goal):
    """H = I, noise 1, K = 1: a round's step s = sqrt(n/T) leaves s / (n (2 - s)) of E||grad f||^2."""
    return (1 + n * goal) ** 2 / (4 * n * goal**2)


@pytest.mark.parametrize("at_once", [2, 3, 5])
@pytest.mark.parametrize("guess", [1, 40, 5000])
@pytest.mark.parametrize("goal", [0.5, 0.11, 0.02])
def test_search_finds_the_smallest_of_a_known_function(goal, guess, at_once):
    def value(rounds):
        assert len(rounds) == at_once
        return [1 / math.sqrt(each) + 1 / each for each in rounds]

    expected = next(each for each in range(1, 10**5) if value([each] * at_once)[0] <= goal)
    assert smallest(value, goal, Search(1, 10**5, at_once, 0.0), guess) == Needed(expected, False)


def test_search_says_where_it_ends():
    def value(rounds):
        return [100 / each for each in rounds]

    assert smallest(value, 1.0, Search(200, 1000), 400) == Needed(200, True)
    assert smallest(value, 1.0, Search(10, 90), 20) == Needed(None, False)
    # What diverges below some T is only not there yet.
    assert smallest(
        lambda rounds: [math.inf if each < 50 else 10 / each for each in rounds],
        1.0,
        Search(1, 1000, 4, 0.0),
        9,
    ) == Needed(50, False)


def test_search_is_not_misled_by_noise():
    rng = np.random.default_rng(0)
    found = [
        smallest(
            lambda rounds: [10 / math.sqrt(each) * rng.lognormal(0, 0.05) for each in rounds],
            0.5,
            Search(10, 10**5),
            100,
        ).rounds
        for _ in range(40)
    ]
    assert np.exp(np.mean(np.log(found))) == pytest.approx(400, rel=0.1)


def test_nearest_sequence_that_never_rises():
    values = np.random.default_rng(0).normal(size=30)
    found = never_rising(values)
    assert np.all(np.diff(found) <= 0)
    assert found.mean() == pytest.approx(values.mean())
    assert np.array_equal(never_rising(found), found)


def test_slope_and_interval_of_a_power_law():
    x, rng = [1, 2, 4, 8], np.random.default_rng(0)
    rounds = [800 / each for each in x]
    sure = slope(x, rounds, np.tile(rounds, (50, 1)), 16)
    assert sure == pytest.approx((-1, -1, -1))
    noisy = slope(x, rounds, np.array(rounds) * rng.lognormal(0, 0.1, size=(400, 4)), 16)
    # The error of a slope through points that are ln 2 apart: 0.1 / (ln 2 sqrt(5)).
    error = 0.1 / (math.log(2) * math.sqrt(5)) * math.sqrt(8 / 7)
    assert noisy.high - noisy.value == pytest.approx(2.145 * error, rel=0.1)
    assert noisy.holds(-1)
    assert not noisy.holds(-0.5)


def test_seeds_are_drawn_again_from_their_own_half():
    draws = drawn(6, 100)
    assert set(draws[:, ::2].ravel()) == {0, 2, 4}
    assert set(draws[:, 1::2].ravel()) == {1, 3, 5}


def test_the_least_of_noisy_means_is_not_too_low():
    seen = np.random.default_rng(0).exponential(size=(200, 20, 30))
    assert least_values(seen).mean() == pytest.approx(1, abs=0.05)
    seen[0] = np.inf
    assert least_values(seen)[0] == np.inf


@pytest.fixture(scope="module")
def linear():
    given = {"sampling": "full", "cohorts": "1,3,9", "heterogeneity": 0.0, "goal": GOAL, "seeds": SEEDS}
    return launch_speedup(unflatten(SpeedupOptions, given))


def test_slope_is_minus_one_where_noise_dominates(linear):
    found = linear["slope"]
    assert found["low"] <= -1 <= found["high"] < -0.5
    for point in linear["points"]:
        expected = exact_rounds(point["cohort"], GOAL)
        assert point["rounds"] == pytest.approx(expected, rel=0.35)
        assert point["rounds_over_kn"] > 50
        assert speedup_words.largest_term(point)[0] == "local_noise"
        assert point["worker_lr"] == pytest.approx(1 / math.sqrt(point["rounds"]))
    said = speedup_words.verdict(linear)
    assert said["kind"] == "linear"
    assert said["linear_up_to"] == 9
    assert said["verdict"][0].startswith("Linear within the interval up to n = 9")


def doctored(rounds_of, constants=QUIET, axis="cohort", sampling="full", values=(1, 2, 4, 8, 16, 32)):
    """A study whose rounds are those given: runs of T rounds see goal sqrt(rounds / T), with a little noise."""
    rng, goal = np.random.default_rng(0), Goal("gradient", 0.01)
    cases, found = [], []
    for each in values:
        n, steps = (each, 1) if axis == "cohort" else (4, each)
        workers = n if sampling == "full" else 64
        federation = SimpleNamespace(workers=workers)
        cases.append(Case(None, federation, 1.0, constants, sampling, n, steps, 1))
        rounds = rounds_of(each)
        tried = [round(rounds * factor) for factor in (0.5, 0.9, 1, 1.1, 2)]
        noise = rng.lognormal(0, 0.02, size=(len(tried), 8, 1))
        seen = {t: goal.value * math.sqrt(rounds / t) * noise[i] for i, t in enumerate(tried)}
        found.append(Found(Needed(rounds, False), seen))
    return facts_of(cases, axis, goal, Effort(8, 10**6), found)


def test_rounds_that_do_not_depend_on_n_are_no_speedup():
    facts = doctored(lambda n: 5000)
    said = speedup_words.verdict(facts)
    assert said["kind"] == "no speedup"
    assert said["linear_up_to"] is None
    assert said["verdict"][0].startswith("No speedup")
    assert "which falls with n" in said["verdict"][1]


def test_more_rounds_with_more_workers_is_said():
    assert speedup_words.verdict(doctored(lambda n: 5000 * n))["kind"] == "slowdown"


def test_saturation_is_found_with_its_cause():
    facts = doctored(lambda n: round(max(32000 / n, 8000)), DRIFTING)
    said = speedup_words.verdict(facts)
    assert said["kind"] == "less than linear"
    assert said["linear_up_to"] == 4
    assert said["verdict"][0].startswith("Linear within the interval up to n = 4, saturating beyond")
    assert "Because the workers' drift by their data, 15 sigma_G^2/T dominates there" in said["verdict"][1]
    assert "at n = 8, T = 8000" in said["verdict"][1]


def test_too_few_rounds_are_said_also_where_only_the_smoothness_is_known(tmp_path):
    facts = doctored(lambda n: round(max(320 / n, 80)), None)
    said = speedup_words.verdict(facts)["verdict"]
    assert said[1].startswith("Which term of the bound dominates is not known")
    assert said[2].startswith("T is only 10 Kn there (n = 8, K = 1)")
    picture(facts, tmp_path / "rounds.png")
    picture(doctored(lambda n: 5000), tmp_path / "both.png")
    narrow, wide = (imread(tmp_path / name).shape[1] for name in ("rounds.png", "both.png"))
    assert narrow < 0.7 * wide


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [
        (-1.1, -0.9, "linear"),
        (-1.6, -0.4, "undecided"),
        (-0.9, -0.2, "less than linear"),
        (-0.9, 0.1, "no speedup"),
        (0.2, 0.4, "slowdown"),
        (-1.5, -1.1, "steeper than linear"),
    ],
)
def test_what_an_interval_says(low, high, kind):
    assert speedup_words.kind({"value": (low + high) / 2, "low": low, "high": high}) == kind


@pytest.mark.parametrize(
    ("sampling", "power", "kind", "said"),
    [
        ("full", -1, "local steps help", "Seen is what its own rate says"),
        ("with-replacement", 1, "local steps hurt", "Seen is what its own rate says"),
        ("with-replacement", -1, "local steps help", "below that, which an upper bound allows"),
        ("full", 0, "no difference", "above that"),
    ],
)
def test_local_steps_beside_what_both_rates_say(sampling, power, kind, said):
    facts = doctored(
        lambda k: round(20000 * k**power), axis="local_steps", sampling=sampling, values=(1, 2, 4, 8)
    )
    found = speedup_words.verdict(facts)
    assert found["kind"] == kind
    assert said in found["verdict"][1]


def test_points_without_a_searched_T_are_left_out_and_named(tmp_path):
    facts = doctored(lambda n: 8000 // n)
    early = facts["points"][-1] | {"at_least": True, "low": None, "high": None}
    never = facts["points"][0] | {"rounds": None, "low": None, "high": None, "terms": None, "bound": None}
    facts |= {"points": [never, *facts["points"][1:-1], early], "left_out": [1, 32]}
    facts |= {"problem": "doctored", "batch": 1, "local_steps": 1, "smoothness": 1.0}
    told = speedup_page.write_all(facts, tmp_path)
    assert told["verdict"][-2] == "Left out, goal not reached within --most-rounds: n = 1."
    assert told["verdict"][-1].endswith("n = 32.")
    assert "not reached" in (tmp_path / "report.html").read_text()


def test_a_goal_that_nobody_reaches_is_said(tmp_path):
    facts = doctored(lambda n: 8000 // n)
    points = [
        point | {"rounds": None, "low": None, "high": None, "terms": None, "bound": None}
        for point in facts["points"]
    ]
    facts |= {"points": points, "left_out": [point["cohort"] for point in points], "slope": None}
    facts |= {"problem": "doctored", "batch": 1, "local_steps": 1, "smoothness": 1.0}
    told = speedup_page.write_all(facts, tmp_path)
    assert "goal not reached within --most-rounds" in told["verdict"][-1]
    assert (tmp_path / "speedup.png").stat().st_size > 0


SMALL = [
    "--sampling",
    "full",
    "--local-steps",
    "1,2",
    "--cohorts",
    "2",
    "--goal",
    "0.02",
    "--seeds",
    "4",
    "--looks",
    "8",
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What a small study leaves, and what it prints."""
    out, printed = tmp_path_factory.mktemp("speedup") / "out", io.StringIO()
    with contextlib.redirect_stdout(printed):
        main(["speedup", *SMALL, "--out", str(out), "--json"])
    return out, json.loads(printed.getvalue())


def test_command_leaves_numbers_picture_and_page(whole, capsys):
    out, printed = whole
    kept = json.loads((out / "summary.json").read_text())
    assert printed == kept | {"folder": str(out)}
    assert [point["local_steps"] for point in kept["points"]] == [1, 2]
    assert kept["command"].startswith("enlist speedup ")
    assert "--local-steps 1,2" in kept["command"]
    assert (out / "speedup.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "report.html").read_text()
    assert "Do local steps help?" in page
    (out / "report.html").unlink()
    main(["report", str(out), "--json"])
    assert json.loads(capsys.readouterr().out) == printed
    assert (out / "report.html").read_text() == page


# ---- interrupted ---------------------------------------------------------------------------------------


def stopped_at(case, monkeypatch):
    """Lets searches be made until that one, counted from 1, at which somebody types Ctrl-C."""
    made = []

    def search(*given):
        if len(made) + 1 == case:
            raise KeyboardInterrupt
        made.append(given[0].local_steps)
        return rounds_of(*given)

    monkeypatch.setattr(study, "rounds_of", search)
    return made


def test_an_interrupted_study_goes_on_where_it_was(whole, tmp_path, monkeypatch, capsys):
    cut = tmp_path / "cut"
    stopped_at(2, monkeypatch)
    with pytest.raises(SystemExit) as stopped:
        main(["speedup", *SMALL, "--out", str(cut)])
    assert stopped.value.code == 130
    assert f"enlist speedup --resume {cut}" in capsys.readouterr().err
    assert sorted(path.name for path in (cut / "searches").iterdir()) == ["1.json"]
    assert not (cut / "summary.json").exists()
    made = stopped_at(None, monkeypatch)
    main(["speedup", "--resume", str(cut), "--json"])
    assert made == [2]
    assert (cut / "summary.json").read_bytes() == (whole[0] / "summary.json").read_bytes()
    for number in (1, 2):
        name = f"searches/{number}.json"
        assert (cut / name).read_bytes() == (whole[0] / name).read_bytes()
    assert "that folder is not empty" in refused(["speedup", *SMALL, "--out", str(cut)], capsys)
    assert "resume and goal are both given" in refused(
        ["speedup", "--resume", str(cut), "--goal", "1"], capsys
    )
    # Searches of another study, or what is left of one, are not taken for this one's.
    kept = (cut / "searches" / "2.json").read_text()
    (cut / "searches" / "2.json").write_text((cut / "searches" / "1.json").read_text())
    assert "2.json: not a search of this study" in refused(["speedup", "--resume", str(cut)], capsys)
    (cut / "searches" / "2.json").write_text(kept[:-40])
    assert "2.json: damaged; remove it" in refused(["speedup", "--resume", str(cut)], capsys)
    (cut / "searches" / "2.json").write_text(kept)
    plan = cut / "speedup.yaml"
    plan.write_text(plan.read_text().replace("goal: 0.02", "goal: 0.03"))
    assert "1.json: not a search of this study" in refused(["speedup", "--resume", str(cut)], capsys)
    plan.write_text("goals: 3")
    assert "did you mean goal?" in refused(["speedup", "--resume", str(cut)], capsys)


def test_constants_are_measured_once_and_files_must_be_what_they_were(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)).astype(np.float32), np.arange(40) % 2
    rows = {"x_train": x, "y_train": y, "x_test": x[:8], "y_test": y[:8]}
    np.savez(tmp_path / "own.npz", **rows)
    measured, out = [], tmp_path / "out"

    def estimate(task, **given):
        measured.append(task.federation.workers)
        return SimpleNamespace(constants=Constants(2.0 + len(measured), 1.0, 1.0, 0.7))

    def searched(case, goal, effort, guess):
        assert case.smoothness == 3.0
        seen = {t: goal.least * np.full((4, 8), 150 / case.cohort / t) for t in (64, 100, 200)}
        seen[64][1, 3] = np.inf
        return Found(Needed(150 // case.cohort, False), seen)

    monkeypatch.setattr("enlist.launch.speedup.estimate", estimate)
    monkeypatch.setattr(study, "rounds_of", searched)
    words = f"--dataset {tmp_path / 'own.npz'} --partition iid --workers 8 --measure loss --goal 0.3 --cohorts 1,2"
    main(["speedup", *words.split(), "--seeds", "4", "--looks", "8", "--out", str(out)])
    facts = (out / "summary.json").read_bytes()
    (out / "searches" / "2.json").unlink()
    main(["speedup", "--resume", str(out)])
    assert measured == [8]
    assert (out / "summary.json").read_bytes() == facts
    np.savez(tmp_path / "own.npz", **rows | {"y_train": 1 - y})
    capsys.readouterr()
    assert "is not the file it was" in refused(["speedup", "--resume", str(out)], capsys)


def test_the_gradient_is_looked_at_only_where_it_is_the_goal():
    """The accuracy of a model that predicts nothing yet, and of one that has learned."""
    fed = enlist_api.partition.iid(enlist_api.datasets.digits(), 10, 0)
    case = Case(enlist_api.models.logistic(), fed, 4.0, None, "with-replacement", 2, 2, 10)
    session = study._session(case, "accuracy")
    assert not session.plan.passes.gradient
    assert study._session(case, "gradient").plan.passes.gradient
    errors = study.look(session, case, [200], "accuracy", 2, 2)
    assert errors.shape == (1, 2, 2)
    assert (errors[..., 0] > 0.8).all()
    assert (errors[..., 1] < 0.3).all()


def refused(words, capsys):
    """The one line that it says; the exit code must be that of bad input."""
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    return complaint


def test_only_a_study_can_be_gone_on_with(tmp_path, capsys):
    assert "there is no speedup study in that folder" in refused(
        ["speedup", "--resume", str(tmp_path)], capsys
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--problem", "cubic"], "unknown problem 'cubic'"),
        (["--problem", "quadratic", "--dataset", "mnist"], "leave one out"),
        (["--dataset", "digits"], "goal: on a data set it must be given"),
        (["--dataset", "digits", "--noise", "1"], "belongs to a known problem"),
        (["--partition", "iid"], "belongs to a data set"),
        (["--cohorts", "1,2,x"], "type whole numbers"),
        (["--cohorts", "4"], "at least two n"),
        (["--cohorts", "1,2", "--local-steps", "1,2"], "give the other one value"),
        (["--cohorts", "1,2,128"], "128 is more than the 64 workers"),
        (["--sampling", "full", "--workers", "9"], "m is n"),
        (["--sampling", "full", "--cohorts", "1,2"], "begin at 2"),
        (["--sampling", "at-least"], "unknown sampling"),
        (["--goal", "-1"], "goal = -1: must be above 0"),
        (["--measure", "accuracy", "--goal", "1.5"], "an accuracy is below 1"),
        (["--measure", "loss"], "on a known problem the goal is about the gradient"),
        (["--seeds", "5"], "even number"),
        (["--seeds", "2"], "seeds = 2: must be 4 or more"),
        (["--cohorts", "1,2", "--local-steps", "100", "--most-rounds", "64"], "raise it, or lower n or K"),
        (["again"], "again"),
        (["--resume", "nowhere"], "resume and out are both given"),
    ],
)
def test_bad_input_is_one_line(words, said, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["speedup", *words, "--out", str(tmp_path / "out")])
    complaint = capsys.readouterr().err
    assert stopped.value.code == 2
    assert said in complaint
    assert complaint.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_model_that_varies_its_rows_is_refused_before_anything_is_kept(tmp_path, capsys):
    own = tmp_path / "own.py"
    own.write_text(
        "import enlist\ndef moved(): return enlist.as_model(enlist.models.logistic(), augment=enlist.augment.crop)\n"
    )
    typed = (
        f"speedup --dataset digits --workers 20 --cohorts 1,2 --model {own}:moved --measure loss --goal 1.5"
    )
    with pytest.raises(SystemExit) as left:
        main([*typed.split(), "--out", str(tmp_path / "out")])
    assert left.value.code == 2
    assert "give --smoothness, or a model that varies nothing" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
