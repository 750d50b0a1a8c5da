"""Every verdict comes out as the metrics have it: true where they are, and the other way where they are changed."""

import itertools
import json
import math
from collections import Counter
from fractions import Fraction

import doctored
import numpy as np
import pytest

from enlist.studies.paper.claims import digits, verdicts
from enlist.studies.paper.claims.verdicts import CLAIMS, FAILS, HOLDS, IN_PART, NOT_RUN
from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipes.unbalanced import DEALT
from enlist.studies.paper.setting import FULL, SMALL
from enlist.studies.paper.statistics import digits_seen

ABOUT_RUNS = range(1, 13)
EQUAL = "digits:2"
MIRRORED = {"digits:1": "digits:10", "digits:2": "digits:5", "digits:5": "digits:2", "digits:10": "digits:1"}


def judged(number, raw, scale=FULL):
    verdict = CLAIMS[number - 1](raw, scale)
    assert verdict.number == number
    return verdict


def swapped(field, one, other, **only):
    """Settings whose metrics are exchanged: those with one value get those of the other."""

    def as_if(setting):
        if not setting.matches(only):
            return setting
        return setting._replace(
            **{field: {one: other, other: one}.get(getattr(setting, field), getattr(setting, field))}
        )

    return as_if


def instead(field, one, other, **only):
    """Settings with one value have the metrics of the other."""

    def as_if(setting):
        return setting._replace(**{field: other}) if setting.matches({field: one, **only}) else setting

    return as_if


def mirrored(setting):
    return setting._replace(partition=MIRRORED.get(setting.partition, setting.partition))


def never(**only):
    """Runs that learn nothing."""

    def then(curve):
        if not curve.setting.matches(only):
            return curve
        return curve._replace(
            train_loss=np.full_like(curve.train_loss, math.log(10)),
            test_accuracy=np.full_like(curve.test_accuracy, 0.1),
        )

    return then


def worse(**only):
    """Runs with a third of the accuracy."""

    def then(curve):
        if not curve.setting.matches(only):
            return curve
        return curve._replace(test_accuracy=curve.test_accuracy / 3)

    return then


def more_bytes(**only):
    def then(curve):
        return curve._replace(uplink_bytes=curve.uplink_bytes + 4) if curve.setting.matches(only) else curve

    return then


def slow_fedavg(setting):
    """FedAvg as if with one digit a worker on MNIST, and the methods exchanged on CIFAR-10."""
    if setting.dataset == "cifar10":
        return swapped("algorithm", "fedavg", "scaffold")(setting)
    return setting._replace(partition="digits:1") if setting.algorithm == "fedavg" else setting


def balanced(setting):
    """Unequal workers as if they were equal."""
    return setting._replace(partition=EQUAL) if setting.partition in DEALT else setting


OPPOSITE = {
    1: {"then": never(dataset="mnist")},
    2: {"as_if": instead("partition", "digits:5", "digits:1")},
    3: {"as_if": mirrored},
    4: {"as_if": swapped("cohort", 10, 100)},
    5: {"as_if": swapped("cohort", 10, 100)},
    6: {"as_if": swapped("local_epochs", 1, 10)},
    7: {"as_if": swapped("model", "logistic", "cnn", dataset="mnist")},
    8: {"as_if": swapped("cohort", 10, 100, dataset="cifar10")},
    9: {"as_if": swapped("local_epochs", 1, 10, dataset="cifar10")},
    10: {"as_if": slow_fedavg},
    11: {"then": more_bytes(algorithm="scaffold")},
    12: {"as_if": balanced},
}
HALFWAY = {
    1: {"then": never(partition="digits:1", cohort=10)},
    2: {"as_if": instead("partition", "digits:5", "digits:1", cohort=10)},
    3: {"as_if": swapped("partition", "digits:5", "digits:10")},
    4: {"as_if": swapped("cohort", 10, 100, model="logistic")},
    5: {"as_if": mirrored},
    6: {"then": worse(dataset="mnist", local_epochs=1)},
    7: {"as_if": swapped("model", "two_nn", "cnn", dataset="mnist")},
    8: {"as_if": instead("partition", "shards:2", "iid")},
    9: {"then": worse(dataset="cifar10", local_epochs=1)},
    10: {"as_if": swapped("algorithm", "fedavg", "scaffold", dataset="cifar10")},
    11: {"then": more_bytes(algorithm="scaffold", model="logistic")},
    12: {"as_if": instead("partition", "quantity:1.5", "digits:2")},
}
NEEDED = {
    **{number: "fig2" for number in (1, 2, 3, 4, 5, 7)},
    6: "fig3",
    8: "fig5",
    9: "fig6",
    10: "table2",
    11: "table2",
    12: "unbalanced",
}


@pytest.fixture(scope="module")
def as_claimed():
    return doctored.made(FULL)


@pytest.mark.parametrize("number", ABOUT_RUNS)
def test_a_claim_holds_where_the_metrics_are_as_claimed(number, as_claimed):
    verdict = judged(number, as_claimed)
    assert verdict.verdict == HOLDS, verdict.statistic
    assert verdict.rule.endswith(".")
    assert verdict.statistic.endswith(".")


@pytest.mark.parametrize("number", ABOUT_RUNS)
def test_a_claim_does_not_hold_where_the_metrics_are_opposite(number):
    verdict = judged(number, doctored.made(FULL, **OPPOSITE[number]))
    assert verdict.verdict == FAILS, verdict.statistic


@pytest.mark.parametrize("number", ABOUT_RUNS)
def test_a_claim_holds_in_part_where_some_metrics_are_opposite(number):
    verdict = judged(number, doctored.made(FULL, **HALFWAY[number]))
    assert verdict.verdict == IN_PART, verdict.statistic


def test_claim_2_says_what_other_levels_would_have_said():
    """It is judged at one, chosen by us."""
    near, far = (
        judged(2, doctored.made(FULL, **changed)).numbers["other_levels"] for changed in ({}, OPPOSITE[2])
    )
    assert near.keys() == far.keys() == {"0.9", "0.97", "0.99"}
    # Eighteen comparisons, of which the noise of seeds may blur one or two.
    for levels, so, against in ((near, 16, 0), (far, 0, 16)):
        clear, opposite = (sum(counts) for counts in zip(*levels.values(), strict=True))
        assert clear in range(so, so + 3)
        assert opposite in range(against, against + 3)


@pytest.mark.parametrize("number", ABOUT_RUNS)
def test_a_claim_without_runs_is_not_judged_and_names_the_recipe(number):
    verdict = judged(number, Raw([]))
    assert verdict.verdict == NOT_RUN
    assert f"enlist reproduce {NEEDED[number]}" in verdict.statistic


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6, 10, 11])
def test_what_was_run_is_judged_and_what_was_not_is_named(number):
    some = doctored.made(FULL, keep=lambda setting: setting.model != "cnn")
    verdict = judged(number, some)
    assert verdict.verdict == IN_PART, verdict.statistic
    assert "Judged without" in verdict.statistic
    assert "CNN" in verdict.statistic.split("Judged without")[1]
    assert any("CNN" in cell for cell in verdict.numbers["not_run"])


@pytest.mark.parametrize(("changed", "so_far"), [({}, "in 2 of 2."), (OPPOSITE[7], "in 0 of 2, clearly opp")])
def test_less_than_half_gets_no_verdict_but_says_what_it_shows_so_far(changed, so_far):
    """Without the CNN claim 7 has two of its six comparisons."""
    some = doctored.made(FULL, keep=lambda setting: setting.model != "cnn", **changed)
    verdict = judged(7, some)
    assert verdict.verdict == NOT_RUN
    assert "Only 2 of 6 comparisons run, less than half" in verdict.statistic
    assert f"clearly so {so_far}" in verdict.statistic


def test_how_many_runs_diverged_is_said():
    def then(curve):
        setting = curve.setting
        return (
            curve._replace(status="diverged")
            if setting.matches({"dataset": "cifar10", "cohort": 100})
            else curve
        )

    said = verdicts.verdicts(doctored.made(FULL, then=then), FULL)
    assert said[7].statistic.endswith("Of the 8 runs of fig5 at the paper's rates, 2 diverged.")
    assert "Of the" not in said[0].statistic


def test_runs_of_another_scale_do_not_count(as_claimed):
    assert [judged(number, as_claimed, SMALL).verdict for number in ABOUT_RUNS] == [NOT_RUN] * 12


def test_differences_as_large_as_the_noise_of_seeds_are_not_clear():
    """All degrees alike but for luck: some comparisons look clear, as one in ten will, and most do not."""
    degrees = list(MIRRORED)

    def lucky(curve):
        if curve.setting.partition not in degrees:
            return curve
        luck = np.random.default_rng([curve.setting.seed, degrees.index(curve.setting.partition)])
        better = 0.05 * luck.standard_normal()
        return curve._replace(
            train_loss=curve.train_loss - better, test_accuracy=curve.test_accuracy + better
        )

    def alike(setting):
        return setting._replace(partition=EQUAL) if setting.partition in degrees else setting

    verdict = judged(3, doctored.made(FULL, as_if=alike, then=lucky))
    assert verdict.verdict == FAILS
    ((_, part),) = verdict.numbers["parts"].items()
    assert sum(cell["sign"] == 0 for cell in part["cells"].values()) > 0.6 * part["comparisons"]


def test_local_steps_are_told_apart_by_the_digits_a_worker_holds():
    hurt = swapped("local_epochs", 1, 10, partition="digits:1")
    verdict = judged(6, doctored.made(FULL, as_if=hurt))
    assert verdict.verdict == HOLDS
    assert "better than one: clearly so in 12 of 12." in verdict.statistic
    assert "More local epochs at p = 1: better in 0 of 12, worse in 12." in verdict.statistic


def test_a_diverged_run_has_not_converged():
    def then(curve):
        return curve._replace(status="diverged") if curve.setting.model == "two_nn" else curve

    verdict = judged(1, doctored.made(FULL, then=then))
    assert verdict.verdict == IN_PART
    cells = verdict.numbers["parts"]["All seeds of a setting converge"]["cells"]
    assert {cell.split(",")[0] for cell, facts in cells.items() if facts["sign"] == -1} == {"2NN"}
    assert "and 2 more" in verdict.statistic


def test_local_steps_that_hurt_equal_workers_too_leave_the_guess_in_part():
    verdict = judged(12, doctored.made(FULL, as_if=instead("partition", "digits:2", "quantity:1.5")))
    assert verdict.verdict == IN_PART, verdict.statistic


def test_methods_that_miss_the_target_are_compared_below_it():
    def then(curve):
        return curve._replace(test_accuracy=curve.test_accuracy * 0.7) if curve.setting.workers > 1 else curve

    verdict = judged(10, doctored.made(FULL, then=then))
    assert verdict.verdict == HOLDS, verdict.statistic
    cells = verdict.numbers["parts"]["MNIST, FedAvg needs similar or fewer rounds"]["cells"]
    assert all(cell["level"] < 0.7 for cell in cells.values())


def test_seconds_that_were_not_measured_are_said_to_be_missing(as_claimed):
    verdict = judged(10, Raw(as_claimed))
    assert verdict.verdict == IN_PART
    assert "measured seconds" in verdict.statistic


@pytest.mark.parametrize(("gone", "sign"), [("scaffold", 1), ("fedavg", -1)])
def test_a_method_that_diverges_loses_the_race(gone, sign):
    def then(curve):
        if not curve.setting.matches({"algorithm": gone, "model": "cnn", "dataset": "mnist"}):
            return curve
        early = {
            name: getattr(curve, name)[:3] for name in ("round", "train_loss", "test_loss", "test_accuracy")
        }
        return curve._replace(status="diverged", **early)

    part = next(iter(judged(10, doctored.made(FULL, then=then)).numbers["parts"].values()))
    assert [each["sign"] for cell, each in part["cells"].items() if cell.startswith("CNN")] == [sign] * 4


def test_where_seeds_disagree_scaffold_is_not_clearly_faster():
    def then(curve):
        setting = curve.setting
        if setting.matches(
            {"dataset": "cifar10", "partition": "shards:2", "algorithm": "scaffold", "seed": 1}
        ):
            return doctored.curve_of(setting._replace(algorithm="fedavg"))._replace(setting=setting)
        return curve

    verdict = judged(10, doctored.made(FULL, then=then))
    assert "SCAFFOLD needs fewer rounds: clearly so in 0 of 1." in verdict.statistic
    assert verdict.verdict == IN_PART


@pytest.mark.parametrize("scale", [FULL, SMALL], ids=lambda scale: scale.name)
def test_all_verdicts_are_plain_data(scale):
    every = verdicts.verdicts(doctored.made(scale), scale)
    assert [each.number for each in every] == list(range(1, 14))
    for each in every:
        json.dumps(each._asdict(), allow_nan=False)


@pytest.mark.parametrize(("digits", "holders", "cohort"), [(3, 2, 3), (4, 2, 5), (3, 3, 2)])
def test_the_distribution_of_digits_is_that_of_all_cohorts(digits, holders, cohort):
    held = [digit for digit in range(digits) for _ in range(holders)]
    seen = Counter(len(set(each)) for each in itertools.combinations(held, cohort))
    assert digits_seen.exactly(digits, holders, cohort) == {
        k: Fraction(seen[k], seen.total()) for k in sorted(seen)
    }


def test_the_sampler_sees_as_many_digits_as_it_should():
    exact = digits_seen.exactly(10, 10, 10)
    drawn = digits_seen.measured(1, 100, 10)
    apart = sum(abs(float(exact.get(k, 0)) - drawn.get(k, 0.0)) for k in range(11)) / 2
    assert apart < 0.02
    assert sum(exact.values()) == 1
    assert sum(k * chance for k, chance in exact.items()) == 10 * (
        1 - Fraction(math.comb(90, 10), math.comb(100, 10))
    )


@pytest.mark.parametrize(("cohort", "expected"), [(5, HOLDS), (10, IN_PART), (60, FAILS)])
def test_the_claim_about_digits_follows_from_their_distribution(cohort, expected):
    exact = digits_seen.exactly(10, 10, cohort)
    drawn = {k: float(chance) for k, chance in exact.items()}
    assert digits.judged_by(exact, drawn, drawn).verdict == expected


def test_how_much_harder_skewed_images_are_than_the_table_has_it_is_said():
    def then(curve):
        own = curve.setting
        if (own.dataset, own.cohort, own.workers) != ("cifar10", 10, 100):
            return curve
        pace = 400 if own.partition == "shards:2" else 40 + 10 * own.seed
        return curve._replace(test_accuracy=np.minimum(curve.round / pace, 1.0))

    # Two shards come to 61 / 400 in 61 rounds; i.i.d. data, by 1 / 40 or 1 / 50 a round, in 7 or 8.
    said = judged(8, doctored.made(FULL, then=then)).statistic
    assert "here i.i.d. data come in 7 to 8 (2 seeds) to the best of two shards' first 61." in said
    assert "Table 2 has" not in judged(8, doctored.made(SMALL), SMALL).statistic
