"""What a site does for its own sensors, against plain formulas."""

import numpy as np
import pytest

from flfl.model.shared import sensor_step, smoothers
from flfl.model.shared.dynamics import Covariances
from flfl.model.shared.windows import Windows


def no_covariance(N, k):
    return Covariances(np.zeros((1, k, k)), np.zeros((1, k, k)), np.ones((N, 1)))


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    m, P = rng.standard_normal((600, 3)), rng.standard_normal((5, 3))
    J = (rng.random((5, 600)) < 0.6).astype(float)
    r = np.full(5, 0.04)
    return rng, m, P, J, J * (P @ m.T + 0.2 * rng.standard_normal((5, 600))), r


def fit(Y, J, m, dof, steps=8):
    P, r = np.zeros((len(Y), m.shape[1])), np.ones(len(Y))
    for _ in range(steps):
        P, r, _ = sensor_step.sensor_step(Y, J, P, r, m, no_covariance(*m.shape), dof=dof)
    return P, r


def test_known_loadings_and_noise_are_recovered(data):
    _, m, P, J, Y, r = data
    got, noise = fit(Y, J, m, dof=1e9)
    np.testing.assert_allclose(got, P, atol=0.05)
    np.testing.assert_allclose(noise, r, rtol=0.2)


def test_one_per_cent_of_spikes_does_little_harm(data):
    rng, m, P, J, Y, _ = data
    spiked = Y + J * (rng.random(Y.shape) < 0.01) * 30.0
    robust, plain = (np.abs(fit(spiked, J, m, dof)[0] - P).max() for dof in (4.0, 1e9))
    assert robust < 0.06
    assert plain > 5 * robust


def test_loadings_equal_the_formula(data):
    rng, m, _, J, Y, r = data
    table, weights = np.array([np.eye(3), 0.2 * np.eye(3)]), rng.random((600, 2))
    cov = Covariances(table, table, weights)
    W = J * rng.random(J.shape)
    got, _ = sensor_step.fit_loadings(Y, W, m, cov, r, ridge=2.0)
    V = cov.full()
    for i in range(5):
        gram = np.einsum("t,tab->ab", W[i], m[:, :, None] * m[:, None] + V) + 2.0 * r[i] * np.eye(3)
        np.testing.assert_allclose(got[i], np.linalg.solve(gram, m.T @ (W[i] * Y[i])), rtol=1e-6)


def test_what_is_unknown_does_not_count(data):
    _, m, P, J, Y, r = data
    junk = np.where(J > 0, Y, 1e6)
    for one, two in zip(
        *(sensor_step.sensor_step(X, J, P, r, m, no_covariance(600, 3)) for X in (Y, junk)),
        strict=True,
    ):
        np.testing.assert_array_equal(one, two)


def test_predictive_step_regresses_on_each_sensors_own_curve(data):
    rng, m, P, J, Y, r = data
    Z = m[None] + 0.0 * rng.standard_normal((5, 1, 1))
    got, noise = sensor_step.predictive_step(Y, J, P, r, Z, ridge=0.0, dof=1e9)
    for i in range(5):
        o = J[i] > 0
        expected, *_ = np.linalg.lstsq(m[o], Y[i, o], rcond=None)
        np.testing.assert_allclose(got[i], expected, rtol=1e-6)
        assert noise[i] == pytest.approx(np.mean((Y[i, o] - m[o] @ expected) ** 2), rel=1e-6)


def test_news_of_sites_add_up_and_nothing_else_is_released(data):
    rng, m, P, J, Y, _ = data
    windows = Windows(np.array([0, 200, 201, 600]), np.array([2, 0, 1]))
    B, u = rng.standard_normal((5, 3)), rng.random((5, 3))

    def news(s):
        factor = smoothers.smoother(J[s], 2.0, 0.2)
        return sensor_step.news_sum(Y[s], J[s], P[s], B[s], u[s], m, factor, windows, 3.0)

    whole = news(slice(None))
    np.testing.assert_allclose(news(slice(2)) + news(slice(2, 5)), whole, atol=1e-12)
    np.testing.assert_array_equal(whole != 0, [[1, 1, 0], [0, 0, 0], [1, 0, 0]])


def test_neighbour_guess_is_interpolation_without_the_reading():
    rng = np.random.default_rng(1)
    J = (rng.random((3, 40)) < 0.5).astype(float)
    J[2] = 0
    E = J * rng.standard_normal(J.shape)
    guess = sensor_step.neighbour_guess(E, J)
    for i in range(3):
        t = np.flatnonzero(J[i])
        for n in range(1, len(t) - 1):
            others = np.delete(t, n)
            assert guess[i, t[n]] == pytest.approx(np.interp(t[n], others, E[i, others]))


def test_others_guess_leaves_the_sensor_out_but_for_one_slope(data):
    _, _, _, J, Y, _ = data
    factor = smoothers.smoother(J, 3.0, 0.1)
    before = sensor_step.others_guess(Y, J, factor)
    changed = Y.copy()
    changed[0] += 5 * J[0] * np.sin(np.arange(600))
    after = sensor_step.others_guess(changed, J, factor)
    ratio = after[0] / before[0]
    np.testing.assert_allclose(ratio, ratio[0])
    assert not np.allclose(after[1], before[1])


def test_first_noise_is_what_the_others_leave():
    rng = np.random.default_rng(2)
    common = np.cumsum(rng.standard_normal(500))
    Y = common - common.mean() + np.array([[0.1], [0.1], [2.0]]) * rng.standard_normal((3, 500))
    J = np.ones_like(Y)
    r = sensor_step.first_noise(Y, J, smoothers.smoother(J, 3.0, 0.1))
    assert r[2] > 2 * max(r[0], r[1])
    Y[2, 7] = 1e4
    spiked = sensor_step.interpolation_variance(Y, J)
    assert spiked[2] < 0.2 * np.mean((Y[2] - sensor_step.neighbour_guess(Y, J)[2]) ** 2)
