"""A worker's own rows and the server's: read from a file, checked as they enter."""

import numpy as np
import pytest

from enlist.deploy.holdout import as_dataset, read_holdout
from enlist.deploy.rows import read_rows
from enlist.errors import BadInput
from enlist.problem import datasets

X = np.arange(12, dtype=np.float64).reshape(4, 3)
Y = np.array([3, 5, 5, 3])


def saved(tmp_path, **arrays):
    np.savez(tmp_path / "rows.npz", **arrays)
    return tmp_path / "rows.npz"


@pytest.mark.parametrize("names", [("x_train", "y_train"), ("x", "y")])
def test_a_worker_may_hold_few_of_the_classes(tmp_path, names):
    rows = read_rows(saved(tmp_path, **dict(zip(names, (X, Y), strict=True))))
    assert (rows.x.dtype, rows.y.dtype, rows.classes) == (np.float32, np.int32, 6)
    assert np.array_equal(rows.x, X)
    assert np.array_equal(rows.y, Y)


def test_numbers_to_predict_and_pixels(tmp_path):
    rows = read_rows(saved(tmp_path, x=np.full((2, 2), 255, np.uint8), y=np.array([0.5, -1.5])))
    assert (rows.classes, rows.y.dtype) == (None, np.float32)
    assert (rows.x == 1).all()


def test_training_rows_go_before_others_and_names_are_not_mixed(tmp_path):
    rows = read_rows(saved(tmp_path, x_train=X, y_train=Y, x=X[:1], y=Y[:1], x_test=X, y_test=Y))
    assert len(rows.x) == 4
    with pytest.raises(BadInput, match="holds x_train, y of what is needed: x_train and y_train or x and y"):
        read_rows(saved(tmp_path, x_train=X, y=Y))


@pytest.mark.parametrize(
    ("arrays", "cause"),
    [
        ({"x": X, "y": Y[:2]}, "x has 4 rows and y 2"),
        ({"x": X[:0], "y": Y[:0]}, "x has 0 rows"),
        ({"x": X, "y": -Y}, "labels go from -5"),
        ({"x": X * np.nan, "y": Y}, "holds NaN"),
        ({"x": X[:, 0], "y": Y}, "at least one axis of features"),
        ({"x": X, "y": Y.astype(object)}, "not a readable .npz"),
        ({"x": X, "y": np.array(3)}, "y is int64 of shape (), not rows"),
        ({"x": X, "y": Y.astype(str)}, "y is <U21 of shape (4,), not rows of numbers"),
        ({"x": X + 0j, "y": Y}, "x is complex128"),
    ],
)
def test_wrong_rows_are_refused_in_one_line(tmp_path, arrays, cause):
    path = saved(tmp_path, **arrays)
    with pytest.raises(BadInput) as said:
        read_rows(path)
    assert str(path) in str(said.value)
    assert cause in str(said.value)
    assert "\n" not in str(said.value)


def test_what_is_no_such_file_is_refused_in_one_line(tmp_path):
    with pytest.raises(
        BadInput, match=r"no such file; give a \.npz that holds x_train and y_train or x and y"
    ):
        read_rows(tmp_path / "none.npz")
    whole = saved(tmp_path, x=X, y=Y).read_bytes()
    for damaged in (b"", b"no archive", whole[:100], whole[:-40]):
        (tmp_path / "rows.npz").write_bytes(damaged)
        with pytest.raises(BadInput, match=r"not a readable \.npz"):
            read_rows(tmp_path / "rows.npz")
    with (tmp_path / "rows.npz").open("wb") as file:
        np.save(file, X)
    with pytest.raises(BadInput, match=r"not a readable \.npz"):
        read_rows(tmp_path / "rows.npz")


def test_the_server_needs_test_rows_alone(tmp_path):
    path = saved(tmp_path, x_test=X, y_test=Y)
    rows = read_holdout(str(path), 5, 0)
    assert np.array_equal(rows.x, X)
    assert read_holdout(str(saved(tmp_path, x=X[:2], y=Y[:2])), 5, 0).x.shape == (2, 3)
    with pytest.raises(BadInput, match="holds nothing of what is needed: x_test and y_test or x and y"):
        read_holdout(str(saved(tmp_path, x_train=X, y_train=Y)), 5, 0)
    data = as_dataset(rows, "mine")
    assert (data.name, data.classes, data.x_train.shape) == ("mine", 6, (4, 3))


def test_a_data_set_by_its_name_gives_its_test_rows():
    data = datasets.load("digits", workers=5, seed=0)
    rows = read_holdout("digits", 5, 0)
    assert np.array_equal(rows.x, data.x_test)
    assert np.array_equal(rows.y, data.y_test)
    assert rows.classes == 10
