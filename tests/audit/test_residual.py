"""What attacks are scored against."""

import numpy as np
import pytest
from scipy.linalg import toeplitz

from audit.network import case
from flfl.audit.view import Law, law_of, read_series, residuals_of, without_itself

LAW = Law(np.array([0.9, 0.5]), np.array([1.0, 0.5]), 0.3)


def dense(law, n):
    lags = np.arange(n)
    slow = toeplitz(sum(v * a**lags for a, v in zip(law.memory, law.variance, strict=True)))
    return slow + law.white * np.eye(n)


@pytest.fixture
def series():
    rng = np.random.default_rng(1)
    e = np.linalg.cholesky(dense(LAW, 40)) @ rng.standard_normal(40)
    return e, rng.random(40) < 0.7


def test_a_series_is_read_as_well_as_it_can_be(series):
    e, seen = series
    x = e + np.random.default_rng(2).standard_normal(40)
    cov = dense(LAW, 40)
    gain = cov[:, seen] @ np.linalg.inv(cov[np.ix_(seen, seen)] + np.eye(seen.sum()))
    guess = read_series(x, np.ones(40), seen, LAW)
    np.testing.assert_allclose(guess[seen], (gain @ x[seen])[seen], atol=1e-8)


def test_leaving_one_out_is_exact(series):
    e, known = series
    guess, variance = without_itself(e, known, LAW)
    cov = dense(LAW, 40)
    for t in np.flatnonzero(known)[::5]:
        rest = known & (np.arange(40) != t)
        weights = np.linalg.solve(cov[np.ix_(rest, rest)], cov[rest, t])
        np.testing.assert_allclose(guess[t], weights @ e[rest], atol=1e-8)
        np.testing.assert_allclose(variance[t], cov[t, t] - weights @ cov[rest, t], atol=1e-8)


def test_a_law_is_found_from_a_series_with_gaps():
    rng = np.random.default_rng(0)
    u = np.zeros(5000)
    for t in range(1, 5000):
        u[t] = 0.85 * u[t - 1] + np.sqrt(1 - 0.85**2) * rng.standard_normal()
    law = law_of(u + 0.5 * rng.standard_normal(5000), rng.random(5000) < 0.6)
    assert abs(law.white - 0.25) < 0.1
    assert abs(law.simple[0] - 0.85) < 0.05
    assert abs(law.simple[1] - 1.0) < 0.15


def test_a_residual_is_what_the_other_sensors_do_not_tell():
    found = residuals_of(case())
    truth = case()
    for i in range(len(truth.ids)):
        e, y = found.residual[i, truth.known[i]], truth.clean[i, truth.known[i]]
        assert e.var() < 0.6 * y.var()
        # The slow half of it is foretold by the sensor's own other readings.
        s = found.surprise[i, truth.known[i]]
        assert 0.4 * e.var() < s.var() < e.var()
