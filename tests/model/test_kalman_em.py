"""Full-rank Kalman-EM against the joint Gaussian of the whole path."""

from itertools import pairwise

import numpy as np
import pytest

from flfl.ensemble.joint import fit_joint
from flfl.model import kalman_em as ke
from flfl.model.state_space import stationary


def prior(dyn, N):
    """Covariance of the whole path (N M, N M), slot by slot."""
    M = len(dyn.A)
    cov = np.empty((N, M, N, M))
    for t in range(N):
        block = stationary(dyn.A, dyn.S)
        for s in range(t, N):
            cov[s, :, t], cov[t, :, s] = block, block.T
            block = dyn.A @ block
    return cov.reshape(N * M, N * M)


def dense(Y, J, dyn):
    """Mean (M, N) and covariance of the path given the known entries, and their likelihood."""
    M, N = Y.shape
    cov, o, y = prior(dyn, N), J.T.ravel(), Y.T.ravel()
    C = cov[np.ix_(o, o)] + np.diag(np.tile(dyn.r, N)[o])
    K = np.linalg.solve(C, cov[o]).T
    likelihood = -0.5 * (y[o] @ np.linalg.solve(C, y[o]) + np.linalg.slogdet(C)[1])
    return (K @ y[o]).reshape(N, M).T, (cov - K @ cov[o]).reshape(N, M, N, M), likelihood


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    M, N = 4, 60
    B = rng.standard_normal((M, M))
    A = 0.6 * np.eye(M) + 0.1 * rng.standard_normal((M, M))
    dyn = ke.Dynamics(A, B @ B.T + 0.1 * np.eye(M), rng.random(M) + 0.1)
    J = rng.random((M, N)) < 0.4
    J[:, 20:24] = False  # nobody observes anything
    return rng.standard_normal((M, N)), J, dyn


@pytest.mark.parametrize(("chunk", "overlap", "tolerance"), [(1000, 0, 1e-10), (7, 40, 1e-4)])
def test_smoother_equals_dense_conditioning(case, chunk, overlap, tolerance):
    Y, J, dyn = case
    mean, cov, _ = dense(Y, J, dyn)
    post = ke.smooth(Y, J, dyn, chunk=chunk, overlap=overlap)
    np.testing.assert_allclose(post.mean, mean, atol=tolerance)
    variance = np.array([np.diag(cov[t, :, t]) for t in range(60)]).T
    np.testing.assert_allclose(post.var, variance, atol=tolerance)
    later = np.array([np.diag(cov[t, :, t + 1]) for t in range(59)]).T
    np.testing.assert_allclose(post.cross[:, :-1], later, atol=tolerance)
    assert (post.cross[:, -1] == 0).all()
    for got, a, b in ((post.S11, 1, 1), (post.S10, 1, 0), (post.S00, 0, 0)):
        moment = mean[:, a : 59 + a] @ mean[:, b : 59 + b].T
        moment += sum(cov[t + a, :, t + b] for t in range(59))
        np.testing.assert_allclose(got, moment, atol=50 * tolerance)


@pytest.mark.parametrize("N", [2, 3, 59, 60, 61])
def test_chunks_equal_one_piece(case, N):
    Y, J, dyn = case
    Y, J = np.tile(Y, 2)[:, :N], np.tile(J, 2)[:, :N]
    whole = ke.smooth(Y, J, dyn, chunk=1000)
    parts = ke.smooth(Y, J, dyn, chunk=13, overlap=40)
    for name in ("mean", "var", "cross", "S11", "S10", "S00"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), atol=1e-8)


def test_memory_bound_changes_nothing(case, monkeypatch):
    Y, J, dyn = case
    once = ke.smooth(Y, J, dyn, chunk=10, overlap=8)
    monkeypatch.setattr(ke, "_ROOM", 1)  # one chunk at a time
    for name in ("mean", "var", "cross", "S11", "S10", "S00"):
        again = getattr(ke.smooth(Y, J, dyn, chunk=10, overlap=8), name)
        np.testing.assert_allclose(again, getattr(once, name), rtol=1e-10, atol=1e-12)


def test_values_at_unknown_entries_are_ignored(case):
    Y, J, dyn = case
    junk = ke.smooth(np.where(J, Y, np.nan), J, dyn)
    np.testing.assert_array_equal(junk.mean, ke.smooth(Y, J, dyn).mean)


def test_leave_one_out_equals_refit(case):
    Y, J, dyn = case
    mean, var = ke.leave_one_out(ke.smooth(Y, J, dyn), Y, J, dyn.r)
    for i, t in np.argwhere(J)[::7]:
        without = J.copy()
        without[i, t] = False
        post = ke.smooth(Y, without, dyn)
        assert mean[i, t] == pytest.approx(post.mean[i, t])
        assert var[i, t] == pytest.approx(post.var[i, t])


@pytest.mark.parametrize("n", [1, 2, 7, 23, 40])
def test_inverse_equals_lapack(n):
    B = np.random.default_rng(n).standard_normal((5, n, n))
    X = B @ B.swapaxes(1, 2) + np.eye(n)
    np.testing.assert_allclose(ke.inverse_spd(X), np.linalg.inv(X), atol=1e-9)


def test_every_em_step_raises_the_likelihood(case):
    Y, J, _ = case
    dyn = ke.initial_dynamics(Y, J)
    likelihoods = [dense(Y, J, dyn)[2]]
    for _ in range(5):
        dyn = ke.maximise(ke.smooth(Y, J, dyn), Y, J)
        likelihoods.append(dense(Y, J, dyn)[2])
    assert all(later > earlier for earlier, later in pairwise(likelihoods))


def test_em_finds_the_dynamics_that_made_the_series():
    rng = np.random.default_rng(1)
    A = np.array([[0.8, 0.1], [-0.2, 0.7]])
    X = np.zeros((2, 4000))
    for t in range(1, 4000):
        X[:, t] = A @ X[:, t - 1] + rng.standard_normal(2)
    Y = X + 0.5 * rng.standard_normal(X.shape)
    dyn, _ = ke.fit_kalman_em(Y, rng.random(X.shape) < 0.7, iterations=60)
    np.testing.assert_allclose(dyn.A, A, atol=0.06)
    np.testing.assert_allclose(dyn.S, np.eye(2), atol=0.2)
    np.testing.assert_allclose(dyn.r, 0.25, atol=0.1)


def test_long_steps_arrive_where_plain_ones_do():
    rng = np.random.default_rng(2)
    common = np.cumsum(rng.standard_normal(400)) * 0.2
    Y = common + 0.3 * rng.standard_normal((3, 400))
    J = rng.random(Y.shape) < 0.6
    plain = dense(Y[:, :80], J[:, :80], ke.fit_kalman_em(Y, J, iterations=12)[0])[2]
    long = dense(Y[:, :80], J[:, :80], ke.fit_kalman_em(Y, J, iterations=6, factor=2.5)[0])[2]
    assert long == pytest.approx(plain, abs=2.0)


def test_parameters_stay_stable_and_positive():
    t = np.arange(200)
    Y = np.stack([1.02**t, 1.02**t + np.sin(t), np.zeros(200)])  # explosive, alike, constant
    dyn, post = ke.fit_kalman_em(Y, np.ones(Y.shape, bool))
    assert np.abs(np.linalg.eigvals(dyn.A)).max() < 1
    assert np.linalg.eigvalsh(dyn.S)[0] > 0
    assert (dyn.r > 0).all()
    assert (post.var > 0).all()
    assert np.isfinite(post.mean).all()


def test_a_series_needs_two_slots():
    with pytest.raises(ValueError, match="two slots"):
        ke.fit_kalman_em(np.ones((1, 1)), np.ones((1, 1), bool))


def test_the_site_model_does_not_depend_on_the_unit(case):
    Y, J, _ = case
    (one, model), (ten, tenfold) = (fit_joint(unit * Y, J) for unit in (1, 10))
    np.testing.assert_allclose(ten.loo, 10 * one.loo, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ten.loo_var, 100 * one.loo_var, rtol=1e-6)
    expected = model.dynamics[0].in_units(10)
    np.testing.assert_allclose(tenfold.dynamics[0].S, expected.S, rtol=1e-6)


def test_learned_dynamics_can_be_used_again(case):
    Y, J, _ = case
    first, model = fit_joint(Y, J)
    again, same = fit_joint(Y, J, model)
    np.testing.assert_allclose(again.loo, first.loo, atol=1e-9)
    np.testing.assert_allclose(same.dynamics[0].A, model.dynamics[0].A)


def test_sensors_of_a_site_help_each_other():
    rng = np.random.default_rng(3)
    R = rng.standard_normal((1, 500)) + 0.1 * rng.standard_normal((4, 500))
    J = rng.random(R.shape) < 0.7
    together = np.abs(fit_joint(R, J)[0].loo - R)[J].mean()
    alone = np.abs(fit_joint(R[:1], J[:1])[0].loo - R[:1])[J[:1]].mean()
    assert together < 0.4 * alone


def test_a_hundred_sensors_that_are_alike_are_no_exception():
    rng = np.random.default_rng(4)
    Y = rng.standard_normal((110, 3)) @ np.cumsum(rng.standard_normal((3, 400)), axis=1)
    Y = Y / Y.std() + 0.05 * rng.standard_normal(Y.shape)
    _, post = ke.fit_kalman_em(Y, rng.random(Y.shape) < 0.8, iterations=5)
    assert np.isfinite(post.mean).all()
    assert np.abs(post.mean - Y).mean() < 0.1
