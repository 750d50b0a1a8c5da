"""What the page about scaling rests on: fits find what is there, bytes are the program's, folders are whole."""

from pathlib import Path

import numpy as np
import pytest

import enlist

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_a_fit_finds_the_exponent_where_the_constant_part_no_longer_dominates():
    from growth import fit

    values = 2.0 ** np.arange(12)
    found = fit(values, 40 + 2 * values)
    assert found["constant_ms"] == pytest.approx(40)
    assert found["ms_each"] == pytest.approx(2)
    assert found["fitted_from"] == 128
    assert 0.9 < found["exponent"] < 1
    assert fit(values, 3 * values**1.5)["exponent"] == pytest.approx(1.5)


def test_an_interval_holds_what_is_true_and_shrinks_with_the_noise():
    from growth import fit

    rng, values = np.random.default_rng(0), 2.0 ** np.arange(8)
    loud, quiet = (fit(values, values * np.exp(rng.normal(0, size, 8))) for size in (0.2, 0.01))
    for found in (loud, quiet):
        assert found["interval"][0] < 1 < found["interval"][1]
    assert np.ptp(loud["interval"]) > 3 * np.ptp(quiet["interval"])


def test_what_hardly_grows_is_fitted_over_all_values():
    from growth import fit

    found = fit([1e2, 1e3, 1e4, 1e5], [30.0, 31.0, 30.0, 31.0])
    assert (found["fitted_from"], found["fitted_to"]) == (1e2, 1e5)
    assert abs(found["exponent"]) < 0.02


@pytest.mark.parametrize("rows", ["device", "host"])
def test_the_bytes_of_a_round_are_those_of_the_compiled_program(rows):
    from collectives import Layout, compiled, counted, received
    from growth import Point, session_at

    session = session_at(Point(cohort=37, steps=1, workers=80, hidden=3, devices=3), rows)
    plan = session.plan
    size = enlist.models.count(session.params())
    layout = Layout(37, size, 3, plan.lanes * plan.turns)
    assert layout.groups > 1
    assert size % 3
    assert counted(compiled(session), 3) == pytest.approx(received(layout))


def test_a_folder_is_made_once_and_holds_the_federation(tmp_path):
    from scale import sizes_of, write

    place = write(tmp_path, 50)
    made = (place / "x_train.npy").stat().st_mtime_ns
    assert write(tmp_path, 50) == place
    assert (place / "x_train.npy").stat().st_mtime_ns == made
    (place / "complete.json").unlink()
    write(tmp_path, 50)
    assert (place / "x_train.npy").stat().st_mtime_ns > made
    fed = enlist.partition.by_key(enlist.datasets.from_folder(place))
    np.testing.assert_array_equal(fed.sizes, sizes_of(50))


def test_sizes_are_unequal_and_as_said():
    from scale import sizes_of

    sizes = sizes_of(20_000)
    assert (sizes.min(), sizes.max()) == (4, 64)
    assert 15 < sizes.mean() < 17
