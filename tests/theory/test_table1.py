"""Table 1: rows by hand, and every complexity against its own rate."""

import jax.numpy as jnp
import numpy as np
import pytest

from enlist.theory.corollaries import iid_order, order, partial_order
from enlist.theory.table1 import ROWS, Setting

ALL = Setting(workers=100, cohort=None, local_steps=4, rounds=10_000, epsilon=0.1)
SOME = ALL._replace(cohort=25)
LABELS = [f"{row.data} {row.name}" for row in ROWS]


def by_name(data, name):
    return next(row for row in ROWS if (row.data, row.name) == (data, name))


def test_there_are_eleven_rows_as_in_the_paper():
    assert [row.data for row in ROWS] == ["iid"] * 5 + ["non-iid"] * 6
    assert [row.citation for row in ROWS] == [
        "stich2018local",
        "yu2019parallel",
        "wang2018cooperative",
        "stich2019error",
        "this paper",
        "khaled2019first",
        "yu2019linear",
        "li2019convergence",
        "karimireddy2019scaffold",
        "karimireddy2019scaffold",
        "this paper",
    ]
    assert [row.partial is not None for row in ROWS] == [False] * 4 + [True] + [False] * 2 + [True] * 4


@pytest.mark.parametrize("row", ROWS, ids=LABELS)
@pytest.mark.parametrize("setting", [ALL, SOME], ids=["all", "some"])
def test_each_term_needs_the_rounds_at_which_it_is_epsilon(row, setting):
    rounds = row.complexity_terms(setting)
    assert len(rounds) == len(row.rate_terms(setting))
    for i, needed in enumerate(rounds):
        np.testing.assert_allclose(row.rate_terms(setting._replace(rounds=needed))[i], setting.epsilon)


# m = 100, K = 4, T = 10^4, epsilon = 0.1: sqrt(mKT) = 2000, sqrt(mT) = 1000.
BY_HAND = [
    ("iid", "Stich1", 400 / 1e4 + 1 / 2000, 4000 + 100 / 400),
    ("iid", "Yu1", 400 / 1e4 + 1 / 2000, 4000 + 100 / 400),
    ("iid", "Wang", 100 / 1e4 + 1 / 2000, 1000 + 100 / 400),
    ("iid", "Stich2", 100 / 1e4 + 1 / 2000, 1000 + 100 / 400),
    ("iid", "This paper", 1 / 4e4 + 1 / 2000, 2.5 + 0.25),
    ("non-iid", "Khaled", 0.01 + 0.001, 1000 + 1),
    ("non-iid", "Yu2", 0.0025 + 1 / 2000, 250 + 0.25),
    ("non-iid", "Li", 4e-4, 40),
    ("non-iid", "Karimireddy (FedAvg)", 1e4 ** (-2 / 3) + 1 / 2000, 10**1.5 + 0.25),
    ("non-iid", "Karimireddy (SCAFFOLD)", 1e-4 + 1 / 2000, 10 + 0.25),
    ("non-iid", "This paper", 1e-4 + 1 / 2000, 10 + 0.25),
]


@pytest.mark.parametrize(("data", "name", "rate", "complexity"), BY_HAND)
def test_all_workers_by_hand(data, name, rate, complexity):
    row = by_name(data, name)
    np.testing.assert_allclose(row.rate(ALL), rate)
    np.testing.assert_allclose(row.complexity(ALL), complexity)


def test_some_workers_by_hand():
    # M^2 = 1 + 4 * 25 * 3/4 = 76; SK = 100, so that sqrt(SKT) = 1000.
    fedavg = by_name("non-iid", "Karimireddy (FedAvg)")
    np.testing.assert_allclose(fedavg.rate(SOME), 1e4 ** (-2 / 3) + 76**0.5 / 1000)
    np.testing.assert_allclose(fedavg.complexity(SOME), 10**1.5 + 76)
    ours = by_name("non-iid", "This paper")
    np.testing.assert_allclose(ours.rate(SOME), 1e-4 + 2 / 500)
    np.testing.assert_allclose(ours.complexity(SOME), 10 + 16)
    # An analysis that needs all workers is given all.
    assert by_name("iid", "Wang").rate(SOME) == by_name("iid", "Wang").rate(ALL)


def test_the_papers_rows_are_its_corollaries():
    work = {"local_steps": 4, "rounds": 10_000}
    ours, same = by_name("non-iid", "This paper"), by_name("iid", "This paper")
    np.testing.assert_allclose(ours.rate(ALL), order(workers=100, **work).total)
    np.testing.assert_allclose(ours.rate(SOME), partial_order(cohort=25, **work).total)
    np.testing.assert_allclose(same.rate(ALL), iid_order(cohort=100, **work).total)
    np.testing.assert_allclose(same.rate(SOME), iid_order(cohort=25, **work).total)


@pytest.mark.parametrize("row", ROWS, ids=LABELS)
def test_the_text_of_a_formula_is_what_it_computes(row):
    values = {"m": 100.0, "n": 25.0, "S": 25.0, "K": 4.0, "T": 1e4, "eps": 0.1, "M": 76**0.5}
    for formula, value in (
        (row.orders(SOME).rate, row.rate(SOME)),
        (row.orders(SOME).complexity, row.complexity(SOME)),
    ):
        text = formula.text.replace("^", "**").replace("eps", "e")
        text = text.replace("sqrt", "q")
        spelled = "".join(
            f"{a}*" if a in "mnSKTM" and b in "mnSKTe" else a
            for a, b in zip(text.replace(" e", "*e"), text.replace(" e", "*e")[1:] + " ", strict=True)
        )
        names = {**values, "e": 0.1, "q": np.sqrt}
        np.testing.assert_allclose(eval(spelled, {}, names), value, err_msg=spelled)


@pytest.mark.parametrize("row", ROWS, ids=LABELS)
def test_arrays_in_arrays_out(row):
    T = np.array([10.0, 1e3, 1e5])
    found = row.rate(SOME._replace(rounds=T))
    np.testing.assert_allclose(found, [row.rate(SOME._replace(rounds=each)) for each in T])
    assert np.all(np.diff(found) < 0)
    np.testing.assert_allclose(row.rate(SOME._replace(rounds=jnp.asarray(T))), found, rtol=1e-5)
