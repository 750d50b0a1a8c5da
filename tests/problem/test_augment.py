"""Images varied at random: what can become of one, how often, and that its neighbours have no part in it."""

import jax
import numpy as np
import pytest

import enlist
from enlist import augment

# Of the images below: an eighth of 24 rows is 3, of 17 columns 2.
HEIGHT, WIDTH, UP, ASIDE = 24, 17, 3, 2
SHIFTS = [(top, left) for top in range(2 * UP + 1) for left in range(2 * ASIDE + 1)]


def shifted(image, top, left):
    wide = np.pad(image, ((UP, UP), (ASIDE, ASIDE), (0, 0)))
    return wide[top : top + image.shape[0], left : left + image.shape[1]]


def images(count):
    """The same image so many times, no two shifts or mirrorings of which are alike."""
    one = np.random.default_rng(0).normal(size=(HEIGHT, WIDTH, 2)).astype(np.float32)
    return np.broadcast_to(one, (count, *one.shape))


def fates(change, count=4000):
    """Which (top, left, mirrored) became of each; every image must be one of them."""
    x = images(count)
    known = {}
    for shift in SHIFTS:
        moved = shifted(x[0], *shift)
        known[moved.tobytes()] = (*shift, False)
        known[np.ascontiguousarray(moved[:, ::-1]).tobytes()] = (*shift, True)
    return np.array([known[image.tobytes()] for image in np.asarray(change(jax.random.key(1), x))])


def assert_even(seen, kinds):
    counts = np.bincount(seen, minlength=kinds)
    expected = len(seen) / kinds
    assert len(counts) == kinds
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


def test_a_crop_moves_each_way_equally_often_and_never_mirrors():
    top, left, mirrored = fates(augment.crop).T
    assert_even(top, 2 * UP + 1)
    assert_even(left, 2 * ASIDE + 1)
    assert abs(np.corrcoef(top, left)[0, 1]) < 0.08
    assert not mirrored.any()


def test_a_flip_mirrors_every_other_and_never_moves():
    top, left, mirrored = fates(augment.flip).T
    assert_even(mirrored, 2)
    assert (set(top), set(left)) == ({UP}, {ASIDE})


def test_both_at_once_are_independent():
    top, left, mirrored = fates(augment.crop_flip).T
    assert_even(mirrored, 2)
    assert_even(top[mirrored == 1], 2 * UP + 1)
    assert_even(left[mirrored == 0], 2 * ASIDE + 1)


@pytest.mark.parametrize("change", [augment.crop, augment.flip, augment.crop_flip])
def test_what_becomes_of_an_image_does_not_depend_on_those_beside_it(change):
    x = np.random.default_rng(0).normal(size=(6, 8, 8, 3)).astype(np.float32)
    key = jax.random.key(5)
    np.testing.assert_array_equal(change(key, x)[:2], change(key, x[:2]))


@pytest.mark.parametrize(("height", "width"), [(1, 16), (16, 3)])
def test_a_side_of_a_few_pixels_stays_where_it_is(height, width):
    x = np.random.default_rng(0).normal(size=(50, height, width, 1)).astype(np.float32)
    moved = np.asarray(augment.crop(jax.random.key(0), x))
    assert not np.array_equal(moved, x)
    long = int(height < width)
    assert all(
        any(np.array_equal(np.take(new, kept, long), np.take(old, gone, long)) for kept, gone in _shifts(16))
        for new, old in zip(moved[..., 0], x[..., 0], strict=True)
    )


def _shifts(side):
    """Which places of what was moved by up to two are which of the original."""
    for by in range(-2, 3):
        yield np.arange(max(0, -by), side - max(0, by)), np.arange(max(0, by), side - max(0, -by))


def test_images_too_small_to_be_moved_are_refused():
    with pytest.raises(enlist.BadInput, match="images of 3 x 2 pixels are too small to be moved"):
        augment.crop(jax.random.key(0), np.zeros((5, 3, 2, 1), np.float32))


def test_what_is_no_image_is_refused():
    with pytest.raises(enlist.BadInput, match=r"images \[height, width, channels\] .* not \(12,\)"):
        augment.crop(jax.random.key(0), np.zeros((3, 12), np.float32))
