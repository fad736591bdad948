"""Interpolations of one sensor against scipy and dense kriging."""

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator

from flfl.ensemble import interpolators as alone


@pytest.fixture
def series():
    rng = np.random.default_rng(1)
    Y, J = rng.standard_normal((6, 80)), rng.random((6, 80)) < 0.5
    J[3] = False  # silent
    J[4] = False
    J[4, 30] = True  # a single reading
    J[5] = True  # complete
    return Y, J


def test_neighbours_by_brute_force(series):
    Y, J = series
    near = alone.neighbours(Y, J, depth=3)
    for i in range(6):
        for t in range(80):
            before = [s for s in range(t - 1, -1, -1) if J[i, s]][:3]
            after = [s for s in range(t + 1, 80) if J[i, s]][:3]
            for side, found in ((0, before), (1, after)):
                for d in range(3):
                    value, distance = near.value[side, d, i, t], near.distance[side, d, i, t]
                    if d < len(found):
                        assert (value, distance) == (Y[i, found[d]], abs(t - found[d]))
                    else:
                        assert (value, distance) == (0, np.inf)


def test_linear_equals_numpy_at_the_gaps_and_without_the_reading_elsewhere(series):
    Y, J = series
    got = alone.interpolate_linear(alone.neighbours(Y, J))
    for i in (0, 1, 2, 5):
        for t in range(80):
            o = np.flatnonzero(J[i] & (np.arange(80) != t))
            assert got[i, t] == pytest.approx(np.interp(t, o, Y[i, o]))
    np.testing.assert_array_equal(got[3], 0)


def test_pchip_equals_scipy(series):
    Y, J = series
    got = alone.interpolate_pchip(alone.neighbours(Y, J))
    for i in (0, 1, 2, 5):
        for t in range(80):
            o = np.flatnonzero(J[i] & (np.arange(80) != t))
            if o[1] < t < o[-2]:
                assert got[i, t] == pytest.approx(PchipInterpolator(o, Y[i, o])(t))


def test_the_last_value_fades_beyond_the_ends():
    J = np.zeros((1, 50), bool)
    J[0, :3] = True
    near = alone.neighbours(np.ones((1, 50)), J)
    for interpolate in (alone.interpolate_linear, alone.interpolate_pchip):
        np.testing.assert_allclose(interpolate(near, decay=24.0)[0, 26], np.exp(-1))
        np.testing.assert_allclose(interpolate(near)[0, 26], 1)


def test_krige_equals_dense_kriging(series):
    Y, J = series
    table, variance = np.exp(-np.arange(301) / np.arange(2, 8)[:, None]), np.arange(1.0, 7)
    table[:, -1] = 0
    mean, var = alone.krige(alone.neighbours(Y, J), table, variance, nugget=0.1)
    for i in range(6):
        for t in range(80):
            o = np.flatnonzero(J[i] & (np.arange(80) != t))
            o = np.r_[o[o < t][-2:], o[o > t][:2]].astype(int)  # two on each side
            C = table[i, np.abs(o[:, None] - o)] + 0.1 * np.eye(len(o))
            c = table[i, np.abs(o - t)]
            w = np.linalg.solve(C, c)
            assert mean[i, t] == pytest.approx(w @ Y[i, o])
            assert var[i, t] == pytest.approx(variance[i] * (1 - w @ c))


def test_readings_beyond_the_reach_say_nothing():
    J = np.zeros((1, 700), bool)
    J[0, :2] = True
    mean, var = alone.krige(alone.neighbours(np.ones((1, 700)), J), *_smooth_kernel())
    assert mean[0, 2] > 0.5
    np.testing.assert_array_equal(mean[0, 400:], 0)
    np.testing.assert_array_equal(var[0, 400:], 1)


def _smooth_kernel():
    table = np.exp(-np.arange(301.0) / 20)[None]
    table[:, -1] = 0
    return table, np.ones(1)


def test_kernel_is_positive_definite_whatever_the_data():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        Y, J = rng.standard_normal((3, 100)) ** 3, rng.random((3, 100)) < 0.2
        table, _ = alone.fit_kernel(Y, J)
        distance = np.abs(np.arange(60)[:, None] - np.arange(60))
        for row in table:
            C = np.where(distance == 0, 1.0, row[distance])
            assert np.linalg.eigvalsh(C)[0] > -1e-9


def test_kernel_finds_the_memory_of_a_series():
    rng, a = np.random.default_rng(0), np.exp(-1 / 8)
    Y = np.zeros((1, 20_000))
    for t in range(1, Y.shape[1]):
        Y[0, t] = a * Y[0, t - 1] + np.sqrt(1 - a * a) * rng.standard_normal()
    table, _ = alone.fit_kernel(Y, rng.random(Y.shape) < 0.7)
    np.testing.assert_allclose(table[0, 1:20], a ** np.arange(1, 20), atol=0.07)
