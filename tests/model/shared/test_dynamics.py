"""The coordinator's smoother against dense solves of the same Gaussian model."""

import numpy as np
import pytest

from flfl.model.shared import dynamics
from flfl.model.shared.windows import Windows


def model(rng, k):
    """A stable A and a positive S."""
    A = 0.7 * np.eye(k) + 0.1 * rng.standard_normal((k, k))
    B = rng.standard_normal((k, k))
    return A, B @ B.T / k + 0.2 * np.eye(k)


def prior_covariance(A, S, N):
    """Cov(q_s, q_t) = A^(s-t) Pi of the whole path (N k, N k), with nothing banded about it."""
    k = len(A)
    cov = np.empty((N, k, N, k))
    for t in range(N):
        block = dynamics.stationary(A, S)
        for s in range(t, N):
            cov[s, :, t], cov[t, :, s] = block, block.T
            block = A @ block
    return cov.reshape(N * k, N * k)


def dense_precision(A, S, information, windows):
    """Prior precision plus what each window says: its mean, with D times a slot's information."""
    N, k = information.shape[:2]
    precision = np.linalg.inv(prior_covariance(A, S, N)).reshape(N, k, N, k)
    for start, end in zip(windows.edges[:-1], windows.edges[1:], strict=True):
        D = end - start
        for s in range(start, end):
            for t in range(start, end):
                if D <= dynamics.REACH:
                    precision[s, :, t] += information[s] / D
                elif s == t:
                    precision[s, :, t] += information[s]
    return precision.reshape(N * k, N * k)


CUTS = {
    "slots": [1] * 14,
    "pairs": [2] * 7,
    "uneven": [1, 3, 2, 4, 1, 1, 2],
    "one long window": [2, 8, 1, 3],
}


@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("k", [1, 3])
def test_mean_equals_a_dense_solve(name, k):
    rng = np.random.default_rng(k)
    windows = Windows(np.cumsum([0, *CUTS[name]]), np.full(len(CUTS[name]), k))
    A, S = model(rng, k)
    C = rng.standard_normal((k, k))
    weight = rng.random(len(windows)) * (rng.random(len(windows)) < 0.7)  # some say nothing
    information = windows.per_slot(weight[:, None, None] * (C @ C.T))
    vector = rng.standard_normal((14, k))
    expected = np.linalg.solve(dense_precision(A, S, information, windows), vector.ravel())
    got = dynamics.smoothed_mean(A, S, information, vector, windows)
    np.testing.assert_allclose(got.ravel(), expected, rtol=1e-9, atol=1e-9)


def test_without_information_nothing_moves():
    A, S = model(np.random.default_rng(0), 2)
    one = Windows(np.arange(6), np.full(5, 2))
    nothing = dynamics.smoothed_mean(A, S, np.zeros((5, 2, 2)), np.zeros((5, 2)), one)
    np.testing.assert_array_equal(nothing, 0)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_covariances_equal_the_dense_inverse_in_the_middle(share):
    rng, k, N = np.random.default_rng(1), 3, 41
    A, S = model(rng, k)
    C = rng.standard_normal((k, k))
    slots = Windows(np.arange(N + 1), np.full(N, k))
    information = np.repeat((share * C @ C.T)[None], N, axis=0)
    dense = np.linalg.inv(dense_precision(A, S, information, slots)).reshape(N, k, N, k)
    cov = dynamics.covariances(A, S, C @ C.T, np.full(N, share))
    np.testing.assert_allclose(cov.full()[20], dense[20, :, 20], atol=1e-6)
    lag = np.tensordot(cov.weights[20], cov.lag, 1)
    np.testing.assert_allclose(lag, dense[21, :, 20], atol=1e-6)
    V, G = dynamics.posterior_gain(A, S, C @ C.T, share)
    np.testing.assert_allclose(np.linalg.matrix_power(G, 3) @ V, dense[20, :, 23], atol=1e-6)
    P = rng.standard_normal((4, k))
    quadratic = np.einsum("ia,ab,ib->i", P, dense[20, :, 20], P)
    np.testing.assert_allclose(cov.quadratic(P)[:, 20], quadratic, atol=1e-5)


def test_more_information_means_less_variance():
    A, S = model(np.random.default_rng(2), 3)
    share = np.repeat([0.0, 0.2, 0.6, 1.0], 20)
    cov = dynamics.covariances(A, S, np.eye(3), share)
    np.testing.assert_allclose(cov.weights.sum(axis=1), 1)
    traces = np.trace(cov.full(), axis1=1, axis2=2)[[10, 30, 50, 70]]
    assert (np.diff(traces) < 0).all()


@pytest.mark.parametrize("growth", [0.5, 1.0, 1.08])
def test_learned_dynamics_are_stable_and_positive(growth):
    rng = np.random.default_rng(3)
    m = np.zeros((80, 3))
    for t in range(1, 80):
        m[t] = growth * m[t - 1] + rng.standard_normal(3)
    table = 0.1 * np.eye(3)[None]
    A, S = dynamics.learn(m, dynamics.Covariances(table, 0.5 * table, np.ones((80, 1))))
    assert np.abs(np.linalg.eigvals(A)).max() <= dynamics.RADIUS + 1e-12
    np.testing.assert_allclose(S, S.T, rtol=1e-12)
    assert np.linalg.eigvalsh(S)[0] > 0


def test_learning_finds_the_dynamics_that_made_the_series():
    rng = np.random.default_rng(4)
    A, S = model(rng, 2)
    root, m = np.linalg.cholesky(S), np.zeros((20_000, 2))
    for t in range(1, len(m)):
        m[t] = A @ m[t - 1] + root @ rng.standard_normal(2)
    nothing = dynamics.Covariances(*np.zeros((2, 1, 2, 2)), np.ones((len(m), 1)))
    learned_A, learned_S = dynamics.learn(m, nothing)
    np.testing.assert_allclose(learned_A, A, atol=0.03)
    np.testing.assert_allclose(learned_S, S, atol=0.03)


def test_observation_uses_the_released_components_only():
    rng = np.random.default_rng(5)
    F = rng.standard_normal((3, 3))
    R = F @ F.T + np.eye(3)
    seen = dynamics.observe(F, R, np.array([3, 1, 3, 0]))
    assert seen.kind.tolist() == [2, 1, 2, 0]
    np.testing.assert_allclose(seen.CF[2], F.T @ np.linalg.solve(R, F), rtol=1e-6)
    np.testing.assert_allclose(seen.CF[1], np.outer(F[0], F[0]) / R[0, 0], rtol=1e-6)
    np.testing.assert_array_equal(seen.CF[0], 0)
    g = rng.standard_normal((4, 3))
    g[1, 1:] = 77.0  # not released, so it must not count
    np.testing.assert_allclose(seen.apply(seen.C, g)[1], F[0] * g[1, 0] / R[0, 0], rtol=1e-6)
    windows = Windows(np.array([0, 1, 4, 5, 6]), np.array([3, 1, 3, 0]))
    mean = (2 * seen.CF[2] + 3 * seen.CF[1]) / 6
    np.testing.assert_allclose(seen.average(seen.CF, windows), mean, rtol=1e-9)


def test_everyone_computes_the_same_covariances():
    rng = np.random.default_rng(6)
    A, S = model(rng, 2)
    F = rng.standard_normal((2, 2))
    windows = Windows(np.array([0, 2, 5]), np.array([2, 1]))
    arguments = (A, S, F, F @ F.T + np.eye(2), np.array([0.4, 1.7]), 1.2, windows)
    one, two = (dynamics.published_covariances(*arguments) for _ in range(2))
    np.testing.assert_array_equal(one.full(), two.full())


@pytest.mark.parametrize("name", CUTS)
def test_the_sums_see_what_their_information_acts_on(name):
    rng, k = np.random.default_rng(7), 2
    windows = Windows(np.cumsum([0, *CUTS[name]]), np.full(len(CUTS[name]), k))
    A, S = model(rng, k)
    information = windows.per_slot(rng.random(len(windows))[:, None, None] * np.eye(k))
    m = rng.standard_normal((14, k))
    added = dense_precision(A, S, information, windows) - dense_precision(
        A, S, np.zeros_like(information), windows
    )
    acted = (information @ dynamics.seen(m, windows)[:, :, None])[:, :, 0]
    np.testing.assert_allclose((added @ m.ravel()).reshape(m.shape), acted, atol=1e-9)
