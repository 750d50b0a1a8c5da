"""`enlist plan` from the command line: what it leaves, what it says, what it refuses."""

import json
import re
from itertools import combinations, product

import numpy as np
import pytest
import yaml

import enlist as enlist_api
from enlist.cli import main
from enlist.cost import RoundCost
from enlist.errors import BadInput
from enlist.options.plan import counts
from enlist.problem.quadratic import quadratic
from enlist.report.plan import words as plan_words
from enlist.theory.advice import advice, answers
from enlist.theory.bounds import bound
from enlist.theory.conditions import Constants, Rates
from enlist.theory.plan import Price, Setting, around, predict, rounds_of, slowest

DIGITS = "--dataset digits --model logistic --workers 10 --local-steps 2 --batch 50"
CHEAP = "--points 2 --estimate-rounds 2 --estimate-workers 10 --iterations 8"


def enlist(words, capsys):
    """Exit code, what was printed, and what was complained about."""
    code = 0
    try:
        main(words.split())
    except SystemExit as stopped:
        code = stopped.code or 0
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    out = tmp_path_factory.mktemp("plan") / "made"
    main(
        f"plan {DIGITS} {CHEAP} --cohort 4 --cohorts 2,4,10 --steps 1,2,8 --worker-seconds 0.02 "
        f"--latency 0.1 --out {out}".split()
    )
    return out, json.loads((out / "plan.json").read_text())


def test_everything_is_left_behind_and_the_page_loads_nothing(planned):
    out, plan = planned
    assert {each.name for each in out.iterdir()} == {"config.yaml", "plan.json", "heatmap.png", "report.html"}
    page = (out / "report.html").read_text()
    assert "default-src 'none'" in page
    for line in plan["advice"]:
        assert line.split(":")[0].replace("'", "&#x27;") in page
    assert (out / "heatmap.png").read_bytes()[:4] == b"\x89PNG"


def test_page_and_map_are_made_anew_from_the_numbers(planned, capsys, tmp_path):
    out, plan = planned
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    for name in ("report.html", "heatmap.png"):
        (out / name).unlink()
    code, printed, _ = enlist(f"report {out}", capsys)
    assert (code, {path.name: path.read_bytes() for path in out.iterdir()}) == (0, before)
    assert f"enlist run --config {out / 'config.yaml'}" in printed
    code, printed, _ = enlist(f"report {out} --out {tmp_path / 'new'} --json", capsys)
    assert json.loads(printed) == plan | {"folder": str(tmp_path / "new")}
    assert (tmp_path / "new" / "report.html").read_bytes() == before["report.html"]


def digits_plan(**options):
    """What the command plans above, from Python."""
    data = enlist_api.datasets.digits()
    given = {
        "cohort": 4,
        "local": enlist_api.Steps(2, batch=50),
        "points": 2,
        "estimate_rounds": 2,
        "estimate_workers": 10,
        "iterations": 8,
        "worker_seconds": 0.02,
        "latency": 0.1,
    }
    fed = enlist_api.partition.digits(data, per_worker=2, workers=10, seed=0)
    return enlist_api.plan(enlist_api.models.logistic(), fed, **given | options)


def test_python_comes_to_the_same_plan(planned):
    _, plan = planned
    found = digits_plan(cohorts=[2, 4, 10], steps=np.array([1, 2, 8]))
    took = {"seconds": plan["estimate"]["seconds"]}
    assert found.facts | {"estimate": {**found.facts["estimate"], **took}} == plan | {"config": None}
    assert found.rounds == plan["rounds"] == plan["predicted"]["rounds"]
    assert (found.mib, found.seconds, found.goal) == (
        *(plan["predicted"][name] for name in ("mib", "seconds")),
        plan["goal"],
    )
    assert list(found.rates) == ["recommended", "server rate 1", "corollary", "given"]
    assert found.rates["given"] == (0.1, 1.0)
    assert found.conditions(0.1) == plan["given"]
    assert found.conditions(*found.rates["recommended"])["hold"]
    said = str(found)
    for line in (*found.advice, *found.warnings):
        assert line[:40] in said
    assert f"{found.rounds:,} rounds" in said
    assert f"{found.rounds:,} rounds" in repr(found)
    assert [str(each) for each in found.table().columns[0].cells][1] == "infimum"


def test_what_is_predicted_follows_from_the_constants(planned):
    _, plan = planned
    constants = Constants(*(plan["constants"][name]["value"] for name in Constants._fields))
    assert plan["goal"] == pytest.approx(0.1 * plan["estimate"]["grad_norm_sq"][0])
    setting = Setting(constants, 10, 4, 2, "without-replacement", plan["goal"])
    assert plan["predicted"]["rounds"] == rounds_of(setting, 4.0, 2.0) == plan["rounds"]
    best = plan["rates"]["recommended"]
    found = bound(
        constants,
        Rates(best["worker_lr"], best["server_lr"]),
        setting.strategy,
        local_steps=2,
        rounds=plan["rounds"],
    )
    assert found.conditions.hold
    assert found.bound == pytest.approx(best["bound"])
    assert best["bound"] <= plan["goal"]
    assert sum(plan["parts"].values()) == pytest.approx(best["bound"])
    low, high = plan["predicted"]["rounds_range"]
    assert low < plan["rounds"] <= high


def test_the_map_holds_the_plan_itself_and_counts_real_messages(planned):
    _, plan = planned
    grid = plan["map"]
    assert (grid["cohort"], grid["local_steps"]) == ([2, 4, 10], [1, 2, 8])
    rounds = np.array(grid["rounds"])
    assert rounds[1, 1] == plan["rounds"]
    assert (np.diff(rounds, axis=1) < 0).all()
    # 64 pixels, ten classes: 650 numbers of four bytes, down and up, in each round.
    np.testing.assert_allclose(grid["mib"], rounds * 2 * 650 * 4 / 2**20)
    np.testing.assert_allclose(grid["total_mib"], np.array(grid["mib"]) * [2, 4, 10])
    seconds = np.array(grid["seconds"]) / rounds
    # Two ways of latency, the bytes at 20 MiB/s, and 0.01 s a local step.
    np.testing.assert_allclose(seconds[:, 0], 0.2 + 2 * 650 * 4 / 2**20 / 20 + 0.01 * np.array([1, 2, 8]))


def test_the_config_runs_with_the_recommended_rates(planned, capsys, tmp_path):
    out, plan = planned
    config = yaml.safe_load((out / "config.yaml").read_text())
    best = plan["rates"]["recommended"]
    assert (config["worker_lr"], config["server_lr"]) == (best["worker_lr"], best["server_lr"])
    assert (config["rounds"], config["grad_norm"]) == (plan["rounds"], True)
    code, printed, _ = enlist(
        f"run --config {out / 'config.yaml'} --rounds 2 --eval-every 1 --json --out {tmp_path / 'run'}",
        capsys,
    )
    assert (code, json.loads(printed)["rounds"]) == (0, 2)


def test_broken_conditions_are_a_warning_with_the_allowed_range(capsys, tmp_path):
    code, printed, _ = enlist(
        f"plan {DIGITS} {CHEAP} --points 1 --cohort 4 --worker-lr 1 --rounds 500 --goal 0.05 --json "
        f"--out {tmp_path / 'a'}",
        capsys,
    )
    plan = json.loads(printed)
    given = plan["given"]
    assert (code, given["hold"], plan["rates"]["given"]["bound"]) == (0, False, None)
    assert plan["rates"]["given"]["rounds_to_goal"] is None
    assert any(f"worker-lr up to {given['most_worker_lr']:.4g}" in line for line in plan["warnings"])
    assert any("Lower the worker rate from 1 " in line for line in plan["advice"])
    assert (plan["rounds"], plan["goal"]) == (500, 0.05)
    assert plan["worker_seconds"]["measured"]
    assert plan["worker_seconds"]["value"] > 0


def test_rates_that_keep_the_conditions_may_still_never_reach_the_goal(planned, capsys):
    out, plan = planned
    rate = plan["given"]["most_worker_lr"] / 2
    code, printed, _ = enlist(
        f"plan --config {out / 'config.yaml'} {CHEAP} --points 1 --worker-lr {rate} --server-lr 1 --json "
        f"--out {out.parent / 'again'}",
        capsys,
    )
    again = json.loads(printed)
    assert (code, again["given"]["hold"], again["rounds"]) == (0, True, plan["rounds"])
    assert again["rates"]["given"]["rounds_to_goal"] is None
    assert any("never comes to" in line for line in again["warnings"])
    code, _, complaint = enlist(f"plan {DIGITS} --out {out}", capsys)
    assert (code, "not empty; name a new one" in complaint) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--goal 0", "goal = 0: must be above 0"),
        ("--goal -1", "goal = -1: must be above 0"),
        ("--goal 1e-30", "goal = 1e-30: too small for the rounds to it to be computed"),
        ("--cohort 11", "11"),
        ("--cohorts 5,11", "cohorts = 11: there are 10 workers; choose 1 to 10"),
        ("--cohorts 5,x", "cohorts = 5,x: type whole numbers with commas"),
        ("--cohorts 0,5", "cohorts = 0,5: 0 must be 1 or more"),
        ("--steps 5,5", "steps = 5,5: 5 is there twice"),
        ("--algorithm scaffold", "the theorems are about fedavg alone"),
        ("--algorithm fedavgg", "did you mean 'fedavg'"),
        ("--worker-optimizer adam", "worker-optimizer = adam: the theorems know"),
        ("--weighting examples", "weighting = examples: the theorems know"),
        ("--compress topk:0.1", "compress = topk:0.1: the theorems know"),
        ("--local-schedule 5:3", "local-schedule = 5:3: the theorems know"),
        ("--sampling at-least", "a plan is for full, with-replacement, without-replacement"),
        ("--sampling full --cohorts 5", "with --sampling full all 10 workers take part"),
        ("--points 0", "points = 0: must be 1 or more"),
        ("somewhere", "belongs to no option"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(words, said, capsys, tmp_path):
    code, printed, complaint = enlist(f"plan {DIGITS} {words} --out {tmp_path / 'none'}", capsys)
    assert (code, printed) == (2, "")
    assert said in complaint
    assert complaint.count("\n") == 1
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("cohort", [1, 2, 4, 5])
def test_the_slowest_of_a_cohort_is_its_mean_over_all_cohorts(cohort):
    seconds = np.array([3.0, 1.0, 7.0, 2.0, 2.0])
    without = np.mean([max(each) for each in combinations(seconds, cohort)])
    assert slowest(seconds, cohort, repeats=False) == pytest.approx(without)
    replaced = np.mean([max(each) for each in product(seconds, repeat=cohort)])
    assert slowest(seconds, cohort, repeats=True) == pytest.approx(replaced)


PRICE = Price(RoundCost(2**20, 2**20), np.full(20, 0.1), np.full(20, 0.05))


def setting(sigma_local, sigma_global, cohort=5, sampling="without-replacement", goal=0.01):
    return Setting(Constants(1.0, sigma_local, sigma_global, 2.0), 20, cohort, 4, sampling, goal)


@pytest.mark.parametrize("case", [setting(3.0, 0.1), setting(0.1, 2.0), setting(0.01, 0.0, 20, goal=1.0)])
def test_answers_are_the_derivatives_of_the_rounds(case):
    from enlist.theory.rates import rounds_near_best

    def rounds(steps):
        return rounds_near_best(case.constants, case.strategy, case.goal, local_steps=steps)

    slope = np.log(rounds(4 * 1.0001) / rounds(4 / 1.0001)) / (2 * np.log(1.0001))
    due = answers(case)
    assert due["noise"] == pytest.approx(-slope, abs=1e-4)
    assert sum(due.values()) == pytest.approx(1)


def test_advice_says_what_dominates():
    noisy, uneven, easy = (
        " ".join(advice(each, PRICE))
        for each in (setting(3.0, 0.0), setting(0.1, 2.0), setting(0.001, 0.0, 20, "full", 1.0))
    )
    assert "More local steps save rounds" in noisy
    assert "larger --batch" in noisy
    assert "More local steps do not help" in uneven
    assert "sampling of cohorts dominates" in uneven
    assert "Raise n: 10 workers a round instead of 5" in uneven
    assert "All workers take part already" in easy
    assert "at its limit" in easy
    for each in (noisy, uneven, easy):
        assert "worst-case" in each


def test_axes_of_the_map():
    assert around(10, 100) == [1, 2, 5, 10, 20, 50, 100]
    assert around(3, 4) == [1, 2, 3, 4]
    assert around(60) == [1, 10, 20, 50, 60, 100, 200, 500]
    assert counts("steps", None) == []


# ---- from Python, on a problem of one's own ------------------------------------------------------------


@pytest.fixture(scope="module")
def known():
    return quadratic([0.5, 1.0, 2.0], 6, rows=8, noise=0.5, heterogeneity=1.0, distance=3.0)


def plan_of(known, **options):
    cheap = {"points": 2, "estimate_rounds": 10, "worker_seconds": 0.01, "goal": 0.1}
    where = {"execution": "batch", "devices": 1}
    given = {"cohort": 3, "local": enlist_api.Steps(2, 4), "worker_lr": 0.1, **cheap, **where} | options
    return enlist_api.plan(known.model, known.federation, **given)


def test_constants_of_a_known_problem_are_its_own(known, tmp_path):
    said = []
    found = plan_of(known, out=tmp_path / "out", say=said.append)
    assert found.constants.smoothness == pytest.approx(known.smoothness, rel=1e-3)
    assert found.constants.sigma_local == pytest.approx(known.sigma_local(4), rel=1e-3)
    setting = Setting(found.constants, 6, 3, 2.0, "without-replacement", 0.1)
    assert found.rounds == rounds_of(setting, 3.0, 2.0)
    assert len(said) == 2
    assert not any("learn" in line for line in found.warnings)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"plan.json", "heatmap.png", "report.html"}
    assert "enlist run --config" not in (tmp_path / "out" / "report.html").read_text()
    with pytest.raises(BadInput, match="not empty; name a new one"):
        plan_of(known, out=tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"worker_lr": 1e-4}, "hardly learned: .* raise --worker-lr or --estimate-rounds"),
        ({"worker_lr": 100.0}, "not those of a run that learns; lower --worker-lr"),
        ({"estimate_rounds": 0}, "of the initial model alone.*--estimate-rounds above 0"),
        (
            {"points": 1, "cohort": enlist_api.sampling.full(), "execution": "batch"},
            "of the initial model alone.*give --points 2",
        ),
    ],
)
def test_a_short_run_that_hardly_learned_is_a_warning(change, said):
    found = digits_plan(**change)
    assert any(re.search(said, line) for line in found.warnings)
    assert found.setting.cohort == (4 if "cohort" not in change else 10)


def test_a_smoothness_that_was_not_found_closely_is_a_warning():
    assert any("raise --iterations" in line for line in digits_plan(iterations=1).warnings)


def test_rates_for_other_rounds_than_the_goal_needs_are_said_to_be(planned):
    _, plan = planned
    heads, _ = plan_words.rate_rows(plan)
    assert heads[4] == "rounds to the goal"
    assert "those above" not in plan_words.predicted_words(plan)
    other = plan | {"rounds": 10}
    assert plan_words.rate_rows(other)[0][4] == "rounds to the goal, with rates for those"
    assert plan_words.predicted_words(other).endswith("those above are for 10.")


def test_a_short_run_that_learned_is_none():
    found = digits_plan(estimate_rounds=20)
    first, last = found.facts["estimate"]["loss"]
    assert last < 0.95 * first
    assert not any("learn" in line for line in found.warnings)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"goal": 0}, "goal = 0: must be above 0"),
        ({"goal": "low"}, "goal = 'low': must be a number"),
        ({"cohorts": [2, 7]}, "cohorts = 7: there are 6 workers"),
        ({"cohorts": [2, 2.5]}, "cohorts = 2,2.5: type whole numbers"),
        ({"steps": [0]}, "steps = 0: 0 must be 1 or more"),
        ({"points": 1.5}, "points = 1.5: must be a whole number"),
        ({"estimate_workers": 0}, "estimate-workers = 0: must be 1 or more"),
        ({"worker_lr": lambda t: 0.1}, "worker-lr = .* must be a number"),
        ({"worker_lr": -1}, "worker-lr = -1: a learning rate must be above 0"),
        ({"rounds": -1}, "rounds = -1: must be 0 or more"),
        ({"cohort": enlist_api.sampling.at_least(2)}, "a plan is for full, with-replacement"),
        ({"cohort": 9}, "9"),
        ({"local": 5}, "local = 5: give Epochs"),
        ({"local": enlist_api.Steps(1, later=((2, 3),))}, "the same local steps in every round"),
    ],
)
def test_what_python_gets_wrong_is_said(known, options, said):
    with pytest.raises(BadInput, match=said):
        plan_of(known, **options)
    with pytest.raises(TypeError, match="no argument 'cohrt'"):
        plan_of(known, cohrt=3)


def test_one_cell_is_the_whole_map_where_nothing_varies():
    found = predict(setting(1.0, 1.0), PRICE, [5], [4])
    assert found.seconds[0, 0] == pytest.approx(found.rounds[0, 0] * (0.1 + 4 * 0.05))
    assert found.mib[0, 0] == 2 * found.rounds[0, 0]
