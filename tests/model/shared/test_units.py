"""There and back between readings and model units."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flfl.model.shared.units import BACKWARD, FORWARD, Units, periodic_mean, to_units

t = np.arange(240.0)


def readings(seed=0):
    rng = np.random.default_rng(seed)
    raw = 9 + 3 * np.cos(2 * np.pi * t / 24) + rng.random((3, 240)) + np.array([[0], [2], [5.0]])
    return raw, (rng.random(raw.shape) < 0.7).astype(float)


@pytest.mark.parametrize("transform", FORWARD)
@pytest.mark.parametrize("period", [0, 24])
def test_round_trip(transform, period):
    raw, J = readings()
    Y, units = to_units(raw, J, transform, period, t)
    known = J > 0
    np.testing.assert_allclose(units.back(Y)[known], raw[known])  # no spikes here
    units = Units(transform, units.centre, units.season, scale=2.5)
    X = units.forward(raw, known)
    np.testing.assert_array_equal(X[~known], 0)
    np.testing.assert_allclose(units.back(X)[known], raw[known])
    rows, slots = np.nonzero(known)
    np.testing.assert_allclose(units.back_at(X[known], rows, slots), raw[known])


@given(st.sampled_from(sorted(FORWARD)), st.floats(0, 1e4))
def test_transforms_are_inverse_and_monotone(transform, x):
    forward, backward = FORWARD[transform], BACKWARD[transform]
    pair = forward(np.array([x, x + 1]))
    assert pair[0] < pair[1]
    np.testing.assert_allclose(backward(pair), [x, x + 1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("transform", ["sqrt", "log1p"])
def test_estimates_below_zero_come_back_as_zero(transform):
    assert BACKWARD[transform](np.array([-3.0])) == 0


def test_units_are_centred_and_free_of_season():
    raw, J = readings()
    Y, _ = to_units(raw, J, "none", 24, t)
    np.testing.assert_allclose(Y.sum(axis=1), 0, atol=1e-9)
    assert np.abs(periodic_mean(Y, J, 24, t)).max() < 0.1
    assert Y.std() < 0.5 * raw.std()


def test_a_spike_is_reined_in_and_its_neighbours_are_not():
    raw, J = readings()
    spiked = raw.copy()
    spiked[0, 7], J[0, 7] = 1e5, 1
    calm, _ = to_units(raw, J, "none", 24, t)
    Y, units = to_units(spiked, J, "none", 24, t)
    assert Y[0, 7] < 20
    others = np.arange(240) != 7
    assert np.abs(Y - calm)[:, others].max() < 0.5
    assert units.forward(spiked, J > 0)[0, 7] > 9e4  # heads keep the true reading


def test_silent_and_constant_sensors_are_no_exception():
    raw, J = readings()
    J[0], raw[1] = 0, 4.0
    Y, units = to_units(raw, J, "sqrt", 24, t)
    assert np.isfinite(Y).all()
    np.testing.assert_array_equal(Y[0], 0)
    np.testing.assert_allclose(units.back(np.zeros_like(Y))[1], 4.0)


@pytest.mark.parametrize("period", [2, 12, 24])
def test_season_follows_elapsed_time_not_the_slot_number(period):
    season = np.cos(2 * np.pi * t / period)
    keep = np.sort(np.random.default_rng(0).choice(240, 200, replace=False))  # absent rows
    got = periodic_mean(season[None, keep], np.ones((1, 200)), period, t[keep])
    np.testing.assert_allclose(got[0], season[keep], atol=0.05)
