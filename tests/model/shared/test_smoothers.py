"""The sensors' own smoothers against dense Gaussian conditioning."""

import numpy as np
import pytest

from flfl.model.shared import smoothers

LENGTH, NU = 2.5, 0.3


def dense(J, length, nu):
    """``K_{.o} (K_oo + nu I)^-1`` of one sensor, embedded in (N, N)."""
    t = np.arange(len(J))
    K = np.exp(-np.abs(t[:, None] - t) / length)
    o = np.flatnonzero(J)
    S = np.zeros((len(J), len(J)))
    S[:, o] = np.linalg.solve(K[np.ix_(o, o)] + nu * np.eye(len(o)), K[o]).T
    return S


@pytest.fixture
def masks():
    J = (np.random.default_rng(0).random((4, 30)) < 0.4).astype(float)
    J[1], J[2] = 0, 1  # a silent sensor and a complete one
    return J


def test_smoother_equals_dense_conditioning(masks):
    X = np.random.default_rng(1).standard_normal(masks.shape)
    got = smoothers.smooth(smoothers.smoother(masks, LENGTH, NU), X)
    for i, J in enumerate(masks):
        np.testing.assert_allclose(got[i], dense(J, LENGTH, NU) @ X[i], atol=1e-10)


def test_values_at_unknown_slots_are_ignored(masks):
    X = np.random.default_rng(1).standard_normal(masks.shape)
    factor = smoothers.smoother(masks, LENGTH, NU)
    np.testing.assert_array_equal(
        smoothers.smooth(factor, X), smoothers.smooth(factor, np.where(masks > 0, X, 1e9))
    )


def test_response_lies_between_zero_and_one(masks):
    response = smoothers.response(smoothers.smoother(masks, LENGTH, NU))
    assert (response >= 0).all()
    assert (response <= 1).all()
    np.testing.assert_array_equal(response[1], 0)


def test_impulse_columns_equal_the_dense_columns(masks):
    reach = 12
    columns = smoothers.impulse_columns(smoothers.smoother(masks, LENGTH, NU), reach)
    for i, J in enumerate(masks):
        S = np.pad(dense(J, LENGTH, NU), ((reach, reach), (0, 0)))
        for t in range(30):
            np.testing.assert_allclose(columns[i, t], S[t : t + 2 * reach + 1, t], atol=0.003)


def test_likelihood_equals_the_dense_one(masks):
    masks[1, 3:5] = 1
    X = np.random.default_rng(2).standard_normal(masks.shape)
    likelihood, variance = smoothers.log_likelihood(X, masks, LENGTH, NU)
    t = np.arange(30)
    K = np.exp(-np.abs(t[:, None] - t) / LENGTH)
    for i, J in enumerate(masks > 0):
        C = K[np.ix_(J, J)] + NU * np.eye(J.sum())
        n, x = J.sum(), X[i, J]
        s2 = x @ np.linalg.solve(C, x) / n
        expected = -0.5 * n * (np.log(s2) + 1) - 0.5 * np.linalg.slogdet(C)[1]
        assert likelihood[i] == pytest.approx(expected)
        assert variance[i] == pytest.approx(s2)


def test_a_single_slot_is_no_exception():
    factor = smoothers.smoother(np.ones((2, 1)), 1.0, 0.25)
    np.testing.assert_allclose(smoothers.smooth(factor, np.ones((2, 1))), 0.8)
