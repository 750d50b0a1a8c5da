"""A person's own .npz: good files become what was meant, every bad one is refused by name in one line."""

import io
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enlist.errors import BadInput
from enlist.problem.dataset import Dataset
from enlist.problem.npz import from_npz

GOOD: dict[str, np.ndarray] = {
    "x_train": np.arange(12.0).reshape(6, 2),
    "y_train": np.array([0, 1, 2, 0, 1, 2]),
    "x_test": np.ones((2, 2)),
    "y_test": np.array([0, 2]),
}


def npz_bytes(**arrays: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def put(folder: Path, content: bytes) -> None:
    (folder / "mine.npz").write_bytes(content)


def read(tmp_path: Path, **arrays: np.ndarray) -> Dataset:
    put(tmp_path, npz_bytes(**GOOD | arrays))
    return from_npz(tmp_path / "mine.npz")


def test_npz_of_labels(tmp_path: Path) -> None:
    made = read(tmp_path, worker=np.array([5, 5, 7, 7, 9, 9], np.uint8), worker_test=np.array([5, 9]))
    assert (made.x_train.dtype, made.y_train.dtype, made.classes, made.name) == (
        np.float32,
        np.int32,
        3,
        "mine",
    )
    np.testing.assert_array_equal(made.worker, [5, 5, 7, 7, 9, 9])
    np.testing.assert_array_equal(made.worker_test, [5, 9])
    np.testing.assert_array_equal(made.x_train, GOOD["x_train"])


def test_npz_bytes_are_pixels(tmp_path: Path) -> None:
    made = read(tmp_path, x_train=np.full((6, 2), 255, np.uint8), x_test=np.full((2, 2), 51, np.uint8))
    assert made.x_train.dtype == np.float32
    np.testing.assert_array_equal(made.x_train, 1.0)
    np.testing.assert_allclose(made.x_test, 0.2, rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_npz_of_targets_is_a_regression(shape: tuple[int, ...], tmp_path: Path) -> None:
    made = read(tmp_path, y_train=np.ones((6, *shape)), y_test=np.zeros((2, *shape)))
    assert made.classes is None
    assert made.y_train.dtype == np.float32
    assert made.y_train.shape == (6, *shape)


BAD: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "objects": ({"x_train": np.array([{}, {}])}, "Python objects"),
    "text": ({"y_test": np.array(["a", "b"])}, "real numbers"),
    "complex": ({"x_test": np.ones((2, 2)) * 1j}, "real numbers"),
    "nan": ({"x_train": np.full((6, 2), np.nan)}, "x_train holds NaN"),
    "infinite": ({"x_test": np.full((2, 2), np.inf)}, "x_test holds NaN"),
    "too large": ({"x_test": np.full((2, 2), 1e300)}, "too large for float32"),
    "flat x": ({"x_train": np.ones(6)}, "x_train has shape (6,)"),
    "no features": ({"x_train": np.ones((6, 0)), "x_test": np.ones((2, 0))}, "features"),
    "scalar": ({"x_train": np.float64(3)}, "x_train has shape ()"),
    "column of labels": ({"y_train": np.zeros((6, 1), int)}, "flatten"),
    "scalar y": ({"y_train": np.array(3)}, "y_train has shape ()"),
    "cube of targets": ({"y_train": np.ones((6, 1, 1)), "y_test": np.ones(2)}, "y_train has shape"),
    "unlike targets": ({"y_train": np.ones((6, 2)), "y_test": np.ones((2, 3))}, "must agree"),
    "nan targets": ({"y_train": np.full(6, np.nan), "y_test": np.ones(2)}, "y_train holds NaN"),
    "labels and targets": ({"y_test": np.ones(2)}, "y_train is int64 but y_test is float64"),
    "lengths": ({"y_train": np.array([0, 1])}, "x_train has 6 rows but y_train has 2"),
    "unlike examples": ({"x_test": np.ones((2, 3))}, "x_test"),
    "empty": ({"x_test": np.ones((0, 2)), "y_test": np.zeros(0, int)}, "x_test is empty"),
    "negative label": ({"y_train": np.array([0, 1, -1, 0, 1, 2])}, "labels go from -1"),
    "labels from one": ({"y_train": np.arange(1, 7), "y_test": np.array([1, 2])}, "labels go from 1 to 6"),
    "huge label": ({"y_test": np.array([0, 2**40])}, "labels go from 0"),
    "worker length": ({"worker": np.zeros(5, int)}, "worker has 5 entries for 6 rows"),
    "worker floats": ({"worker": np.zeros(6)}, "worker is float64"),
    "worker_test rank": ({"worker_test": np.zeros((2, 1), int)}, "worker_test is int64 of shape (2, 1)"),
}


@pytest.mark.parametrize("case", BAD)
def test_npz_refuses_naming_the_file(case: str, tmp_path: Path) -> None:
    arrays, says = BAD[case]
    with pytest.raises(BadInput) as caught:
        read(tmp_path, **arrays)
    assert str(tmp_path / "mine.npz") in str(caught.value)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not a readable .npz"),
        (b"rubbish", "not a readable .npz"),
        (pickle.dumps({"x_train": 1}), "not a readable .npz"),
        (npz_bytes(**GOOD)[:300], "not a readable .npz"),
        (npz_bytes(**GOOD).replace(GOOD["x_train"].tobytes(), bytes(96)), "x_train cannot be read"),
        (npz_bytes(x_train=np.ones((2, 2))), "y_train, x_test, y_test missing"),
        (npz_bytes(), "holds nothing"),
    ],
)
def test_damaged_npz_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    put(tmp_path, content)
    with pytest.raises(BadInput) as caught:
        from_npz(tmp_path / "mine.npz")
    assert says in str(caught.value)
    assert "mine.npz" in str(caught.value)


def test_a_single_array_or_a_folder_is_not_an_npz(tmp_path: Path) -> None:
    with (tmp_path / "one.npz").open("wb") as out:
        np.save(out, np.ones(3))
    with pytest.raises(BadInput, match="a single array"):
        from_npz(tmp_path / "one.npz")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(BadInput, match="no such file"):
        from_npz(tmp_path / "folder.npz")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_an_npz_with_flipped_bytes_is_read_or_refused_never_worse(data: st.DataObject) -> None:
    content = bytearray(npz_bytes(**GOOD))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with tempfile.TemporaryDirectory() as folder:
        put(Path(folder), bytes(content))
        read, refusal = None, "mine.npz"
        try:
            read = from_npz(Path(folder) / "mine.npz")
        except BadInput as refused:
            refusal = str(refused)
    assert "mine.npz" in refusal
    if read is not None:
        assert np.isfinite(read.x_train).all()
        assert np.isfinite(read.x_test).all()
        assert read.classes is None or 0 <= read.y_train.min() <= read.y_train.max() < read.classes
