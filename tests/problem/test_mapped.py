"""A folder of .npy files: mapped as they lie, checked in one line each."""

import numpy as np
import pytest

import enlist
from enlist.errors import BadInput
from enlist.problem import mapped
from enlist.problem.gather import gathered
from enlist.problem.mapped import from_folder

RNG = np.random.default_rng(0)


def arrays(**changed):
    y = RNG.integers(0, 3, 40)
    plain = {
        "x_train": RNG.integers(0, 256, (40, 5), dtype=np.uint8),
        "y_train": y,
        "x_test": RNG.integers(0, 256, (8, 5), dtype=np.uint8),
        "y_test": y[:8],
        "worker": np.repeat([3, 5, 9], [10, 25, 5]),
    }
    return {name: array for name, array in (plain | changed).items() if array is not None}


def folder(path, **changed):
    for name, array in arrays(**changed).items():
        np.save(path / f"{name}.npy", array)
    return path


def test_rows_stay_on_disk_as_they_are(tmp_path):
    data = from_folder(folder(tmp_path))
    assert isinstance(data.x_train, np.memmap)
    assert data.x_train.dtype == np.uint8
    assert (data.classes, data.name) == (3, tmp_path.name)
    assert enlist.partition.by_key(data).sizes.tolist() == [10, 25, 5]


def test_the_same_numbers_as_from_a_file_of_all_arrays(tmp_path):
    """Pixels are scaled where a model sees them: to the last bit or the one beside it."""
    given = arrays()
    np.savez(tmp_path / "rows.npz", **given)
    (tmp_path / "rows").mkdir()
    for name, array in given.items():
        np.save(tmp_path / "rows" / f"{name}.npy", array)
    runs = [
        enlist.simulate(
            enlist.fedavg(),
            enlist.models.logistic(classes=3),
            enlist.partition.by_key(enlist.datasets.load(str(tmp_path / name))),
            cohort=2,
            rounds=3,
            local=enlist.Epochs(1, 5),
            devices=1,
        )
        for name in ("rows.npz", "rows")
    ]
    for a, b in zip(*(run.params.values() for run in runs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_what_changes_in_the_files_changes_their_name(tmp_path):
    before = mapped.digest(folder(tmp_path))
    assert before == mapped.digest(tmp_path)
    x = np.load(tmp_path / "x_train.npy")
    x[17, 2] ^= 1
    np.save(tmp_path / "x_train.npy", x)
    assert mapped.digest(tmp_path) != before


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"y_test": None}, "y_test.npy missing; x_train.npy, y_train.npy, x_test.npy, y_test.npy are needed"),
        ({"x_train": RNG.random((40, 5))}, "float64: rows are used as they lie on disk"),
        ({"x_train": np.full((40, 5), np.nan, np.float32)}, "x_train holds NaN"),
        ({"x_train": np.zeros(40, np.uint8)}, "at least one axis of features"),
        ({"x_train": np.zeros((40, 5), np.float32, order="F")}, "Fortran order"),
        ({"x_train": np.zeros((39, 5), np.uint8)}, "x_train has 39 rows but y_train has 40"),
        ({"y_train": np.arange(-1, 39)}, "number the classes 0, 1, 2"),
        ({"worker": np.zeros(40)}, "one integer for each row"),
        ({"x_test": np.array([["a", "b"]] * 8)}, "must hold real numbers"),
        ({"x_test": np.zeros((8, 5), np.float32)}, "x_train is uint8 but x_test is float32"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(tmp_path, changed, said):
    with pytest.raises(BadInput, match=said) as refused:
        from_folder(folder(tmp_path, **changed))
    assert "\n" not in str(refused.value)


def test_a_file_that_is_no_array_is_refused(tmp_path):
    folder(tmp_path)
    (tmp_path / "x_train.npy").write_bytes(b"nothing")
    with pytest.raises(BadInput, match="not a readable"):
        from_folder(tmp_path)


@pytest.mark.parametrize("rows", [[], [7], [3, 3, 1, 39]])
def test_gathering_takes_the_rows_in_their_order(tmp_path, rows, monkeypatch):
    monkeypatch.setattr("enlist.problem.gather.PIECE_BYTES", 8)
    x = from_folder(folder(tmp_path)).x_train
    made = gathered(x, np.array(rows, np.int64), capacity=6)
    assert made.shape == (6, 5)
    assert made.ctypes.data % 64 == 0
    np.testing.assert_array_equal(made[: len(rows)], np.asarray(x)[np.array(rows, int)])
