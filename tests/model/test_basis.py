"""The functions of the release (orthonormal on their grid, the same whoever joins) and regions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flfl.model.basis import find_regions, keyed_signs, smooth_basis
from flfl.model.transforms import (
    BACKWARD,
    FORWARD,
    HARMONICS,
    SLOPE,
    TRANSFORMS,
    fit_offsets,
    season_rows,
)

BOX = (0.0, 10.0), (200.0, 50.0)
LOW, HIGH = np.array(BOX)


def grid(size):
    fine = (np.arange(2 * size) + 0.5) / (2 * size)
    return LOW + (HIGH - LOW) * np.stack(np.meshgrid(fine, fine), -1).reshape(-1, 2)


@pytest.mark.parametrize("size", [1, 2, 5, 9, 20, 64])
def test_functions_are_orthonormal_on_their_grid(size):
    B = smooth_basis(grid(size), BOX, size)
    assert B.shape[1] == size
    np.testing.assert_allclose(B.T @ B / len(B), np.eye(size), atol=1e-9)
    np.testing.assert_array_equal(B[:, 0], 1.0)


def test_a_long_thin_map_gets_functions_along_it():
    along = np.column_stack([np.linspace(0.0, 1.0, 50), np.zeros(50)])
    for height in (0.0, 0.05):
        B = smooth_basis(along, ((0.0, 0.0), (1.0, height)), 8)
        assert np.linalg.matrix_rank(B) == 8


def test_no_choice_is_left_to_the_rounding_of_a_machine():
    """Places that differ in the last bit have nearly the same values: no function turns into
    another one that is as smooth."""
    places = np.random.default_rng(0).uniform(LOW, HIGH, (20, 2))
    for box in (BOX, ((0.0, 0.0), (1.0, 1.0))):
        near = smooth_basis(places * (1 + 1e-15), np.array(box) * (1 + 1e-15), 40)
        np.testing.assert_allclose(near, smooth_basis(places, box, 40), atol=1e-9)


def test_they_go_from_smooth_to_detailed():
    line = LOW + (HIGH - LOW) * np.linspace(0, 1, 400)[:, None]
    B = smooth_basis(line, BOX, 36)
    turns = (np.diff(np.sign(np.diff(B, axis=0)), axis=0) != 0).sum(axis=0)
    assert turns[:6].mean() < turns[-6:].mean()


@given(st.integers(0, 2**32))
def test_a_place_has_its_values_whoever_else_is_there(seed):
    rng = np.random.default_rng(seed)
    places = rng.uniform(LOW, HIGH, (9, 2))
    all_of_them, some = (smooth_basis(at, BOX, 8) for at in (places, places[:3]))
    np.testing.assert_allclose(all_of_them[:3], some, atol=1e-12)
    names = [f"s{i}".encode() for i in range(9)]
    np.testing.assert_array_equal(keyed_signs(names, 8)[:3], keyed_signs(names[:3], 8))


def test_a_place_outside_the_box_has_values_of_its_size():
    far = smooth_basis(np.array([[1e9, -1e9], [-1e30, 20.0]]), BOX, 12)
    assert np.isfinite(far).all()
    assert np.abs(far).max() < 1e3


def test_signs_are_balanced_and_follow_the_name():
    S = keyed_signs([f"sensor {i}".encode() for i in range(400)], 20)
    assert (S[:, 0] == 1).all()
    assert set(np.unique(S)) == {-1.0, 1.0}
    assert np.abs(S[:, 1:].mean(axis=0)).max() < 0.2
    assert keyed_signs([b"a"], 1).tolist() == [[1.0]]
    assert keyed_signs([], 4).shape == (0, 4)


# Seasons and transforms


@pytest.mark.parametrize("period", [0, 2, 7, 12, 24])
def test_a_season_repeats_and_is_found_again(period):
    t = np.arange(50.0 * max(period, 1))
    rows = season_rows(t, period)
    assert rows.shape == (1 + 2 * HARMONICS, len(t))
    if period:
        np.testing.assert_allclose(rows[:, :-period], rows[:, period:], atol=1e-9)
    true = np.random.default_rng(0).standard_normal(rows.shape[0]) * rows.any(axis=1)
    fitted = fit_offsets((true @ rows)[None], np.ones((1, len(t))), rows)[0]
    np.testing.assert_allclose(fitted @ rows, true @ rows, atol=0.5)
    assert fitted[0] == pytest.approx(true[0], abs=0.1)


def test_a_sensor_without_readings_has_no_season():
    rows = season_rows(np.arange(48.0), 24)
    np.testing.assert_allclose(fit_offsets(np.zeros((1, 48)), np.zeros((1, 48)), rows), 0.0)


@pytest.mark.parametrize("name", TRANSFORMS)
@given(x=st.floats(0.01, 1e6))
def test_transforms_come_back_and_have_their_slope(name, x):
    x = np.array([x])
    np.testing.assert_allclose(BACKWARD[name](FORWARD[name](x)), x, rtol=1e-9)
    step = 1e-4 * x
    slope = (FORWARD[name](x + step) - FORWARD[name](x - step)) / (2 * step)
    np.testing.assert_allclose(SLOPE[name](x), slope, rtol=1e-4)


# Regions


def test_regions_do_not_tear_at_the_date_line():
    points = np.array([[0.0, 179.9], [0.0, -179.9], [0.0, 10.0], [0.0, 11.0]])
    labels = find_regions(points, "latlon", 2, np.random.default_rng(0))
    assert labels.tolist() == [0, 0, 1, 1]


def test_no_more_regions_than_places():
    labels = find_regions(np.zeros((4, 2)), "metric", 3, np.random.default_rng(0))
    assert labels.tolist() == [0, 0, 0, 0]
