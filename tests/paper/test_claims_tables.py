"""The cells of table 2, the best rates of table 3, and the numbers that verdicts are made of."""

import math

import doctored
import numpy as np
import pytest

from enlist.studies.paper.catalogue import every
from enlist.studies.paper.claims.scaffold import fewer_rounds
from enlist.studies.paper.raw import Raw
from enlist.studies.paper.recipes import table2
from enlist.studies.paper.setting import FULL, SMALL
from enlist.studies.paper.shown import tabled
from enlist.studies.paper.statistics import seeds
from enlist.studies.paper.statistics.table2 import table2_cells
from enlist.studies.paper.statistics.table3 import best_rates, diverged_by_server_rate


def reaching(rounds, target):
    """Runs that come to a target in so many rounds; None: never."""

    def then(curve):
        if curve.setting.workers == 1:
            return curve
        late = curve.round >= (math.inf if rounds is None else rounds)
        return curve._replace(test_accuracy=np.where(late, target, 0.2))

    return then


def cells_of(raw, scale=FULL, **wanted):
    return [
        cell
        for cell in table2_cells(raw, scale)
        if all(getattr(cell.row, name, getattr(cell, name, None)) == value for name, value in wanted.items())
    ]


def test_the_table_has_every_row_by_both_methods():
    cells = table2_cells(Raw([]), FULL)
    assert [(cell.row, cell.method) for cell in cells] == [
        (row, method) for row in table2.ROWS for method in table2.METHODS
    ]
    assert {cell.verdict for cell in cells} == {"not run"}


@pytest.mark.parametrize(
    ("model", "dataset", "rounds", "mib"),
    [
        ("cnn", "mnist", 3, 13.32),
        ("two_nn", "mnist", 3, 4.56),
        ("resnet18", "cifar10", 44, 3751.03),
    ],
)
def test_traffic_is_counted_as_the_paper_counts_it(model, dataset, rounds, mib):
    raw = doctored.made(FULL, then=reaching(rounds, 0.96))
    for method, wanted in (("fedavg", mib), ("scaffold", 2 * mib)):
        for cell in cells_of(raw, model=model, dataset=dataset, method=method):
            assert cell.median == rounds
            assert cell.cost.mib == pytest.approx(wanted, abs=0.012)
            assert cell.cost.sending == pytest.approx(cell.cost.mib / 20)
            assert cell.cost.seconds == pytest.approx(cell.cost.sending + cell.cost.computing)
            assert cell.cost.computing == pytest.approx(rounds * (1.05 if method == "scaffold" else 1.0))


@pytest.mark.parametrize(
    ("rounds", "verdict"),
    [(14, "reached"), (28, "reached"), (29, "slower"), (7, "reached"), (6, "faster"), (None, "not reached")],
)
def test_a_cell_says_how_near_it_is_to_the_paper(rounds, verdict):
    raw = doctored.made(FULL, then=reaching(rounds, 0.96))
    (cell,) = cells_of(raw, model="two_nn", partition="digits:2", cohort=10, method="fedavg")
    assert cell.paper[0] == 14
    assert cell.verdict == verdict


def test_a_target_above_the_ceiling_cannot_be_reached():
    def then(curve):
        low = np.minimum(curve.test_accuracy, 0.93)
        return curve._replace(test_accuracy=low) if curve.setting.model == "logistic" else curve

    raw = doctored.made(FULL, then=then)
    cells = cells_of(raw, model="logistic")
    assert {cell.verdict for cell in cells} == {"cannot be reached"}
    assert {cell.ceiling for cell in cells} == {0.93}
    assert all(cell.median is None and cell.cost is None and cell.reached == 0 for cell in cells)
    assert "LR cannot reach 95%" in fewer_rounds(raw, FULL).statistic
    unknown = doctored.made(FULL, then=then, keep=lambda setting: setting.workers > 1)
    assert {cell.verdict for cell in cells_of(unknown, model="logistic")} == {"not reached"}


def test_half_of_the_seeds_make_a_median():
    def then(curve):
        return reaching(10, 0.8)(curve) if curve.setting.seed == 0 else reaching(None, 0.8)(curve)

    raw = doctored.made(FULL, then=then)
    (images,) = cells_of(raw, dataset="cifar10", partition="iid", method="fedavg")
    assert (images.rounds, images.reached, images.median) == ((10, None), 1, 10)
    (digits,) = cells_of(raw, model="two_nn", partition="digits:10", cohort=10, method="fedavg")
    assert (digits.reached, digits.median) == (0, None)


def test_small_scale_learns_images_with_its_own_model():
    (cell,) = cells_of(doctored.made(SMALL), SMALL, dataset="cifar10", partition="iid", method="fedavg")
    assert (cell.row.model, cell.model) == ("resnet18", "two_nn")
    assert len(cell.rounds) == 2


def test_the_best_rates_have_the_lowest_loss_of_the_grid():
    raw = doctored.made(FULL)
    best = best_rates(raw, FULL)
    assert len(best) == 3 * 4 * 3 * 3
    # By the formula a worker rate of 0.01 with a server rate of 10 is the fastest that does not diverge.
    assert {(each.setting.worker_lr, each.setting.server_lr) for each in best} == {(0.01, 10.0)}
    for each in best:
        assert each.loss == seeds.ending(raw.curves[each.setting], "train_loss")
        assert each.loss <= each.paper_loss
        assert (each.tried, each.diverged, each.is_papers) == (6, 1, False)
    assert diverged_by_server_rate(raw, FULL) == {1.0: (0, 324), 10.0: (108, 324)}
    assert diverged_by_server_rate(raw, FULL, "cnn") == {1.0: (0, 108), 10.0: (36, 108)}


def test_the_best_rates_may_be_the_papers():
    def others_slow(setting):
        papers = (setting.worker_lr, setting.server_lr) == (0.1, 1)
        return setting if papers or setting.workers == 1 else setting._replace(worker_lr=0.001, server_lr=1.0)

    best = best_rates(doctored.made(FULL, as_if=others_slow), FULL)
    assert len(best) == 3 * 4 * 3 * 3
    assert all(each.is_papers and each.loss == each.paper_loss for each in best)


def test_of_rates_that_were_not_all_run_none_is_best():
    raw = doctored.made(FULL, keep=lambda setting: setting.server_lr == 1 or setting.cohort != 10)
    assert {each.setting.cohort for each in best_rates(raw, FULL)} == {50, 100}
    table = tabled.table3_of(raw, FULL)
    assert {cell for row in table.rows if row[1] == "10" for cell in row[3:]} == {"3 of 6 pairs of rates run"}
    assert best_rates(Raw([]), FULL) == []


def test_rounds_that_a_diverged_run_lacks_count_as_guessing():
    setting = next(s for s in every(FULL) if s.server_lr == 10 and s.worker_lr == 0.1)
    curve = doctored.curve_of(setting)
    values = seeds.over_rounds(curve, "test_accuracy")
    assert len(values) == setting.rounds
    np.testing.assert_array_equal(values[:2], curve.test_accuracy)
    assert (values[2:] == 0.1).all()
    assert seeds.ending(curve, "train_loss") == pytest.approx(math.log(10))


def test_a_difference_is_clear_beyond_the_bound_of_students_t():
    # The 95% point of Student's t with 4 degrees of freedom is 2.1318.
    values = {seed: value for seed, value in enumerate([1.0, 2.0, 3.0, 4.0, 5.0])}
    found = seeds.difference(values)
    assert found.mean == 3
    assert found.bound == pytest.approx(2.1318 * math.sqrt(2.5 / 5), rel=1e-4)
    assert found.sign == 1
    assert seeds.difference({seed: value - 2.9 for seed, value in values.items()}).sign == 0
    assert seeds.difference({seed: -value for seed, value in values.items()}).sign == -1
    assert seeds.difference({0: 0.029}).sign == 0
    assert seeds.difference({0: 0.031}).sign == 1
    assert seeds.difference({}) is None
