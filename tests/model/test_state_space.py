"""The smoother against dense conditioning on the whole path, and what is learnt from it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flfl.constants import LARGEST_RADIUS
from flfl.model import state_space
from flfl.model.state_space import Dynamics, first_dynamics, learn, smooth, stationary
from gaussian import condition, draw_dynamics, path_covariance, rows_of


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), N=st.integers(1, 40), k=st.integers(1, 6), seen=st.floats(0, 1))
def test_smoothing_is_conditioning(seed, N, k, seen):
    rng = np.random.default_rng(seed)
    dynamics = draw_dynamics(k, rng)
    n = rng.integers(0, 4, N) * (rng.random(N) < seen)
    slots = np.repeat(np.arange(N), n)
    F, r = rng.standard_normal((n.sum(), k)), rng.uniform(0.1, 3, n.sum())
    y = rng.standard_normal(n.sum())
    information, vector = np.zeros((N, k, k)), np.zeros((N, k))
    np.add.at(information, slots, F[:, :, None] * F[:, None, :] / r[:, None, None])
    np.add.at(vector, slots, F * (y / r)[:, None])
    post = smooth(information, vector, dynamics)
    mean, cov = condition(path_covariance(dynamics, N), rows_of(slots, F, N), np.diag(r), y)
    cov = cov.reshape(N, k, N, k)
    np.testing.assert_allclose(post.mean.ravel(), mean, atol=1e-9)
    for t in range(N):
        np.testing.assert_allclose(post.cov[t], cov[t, :, t], atol=1e-9)
    second = cov + np.multiply.outer(post.mean, post.mean)
    now, then = np.arange(N - 1), np.arange(1, N)
    for moment, (s, t) in zip(post.moments, ((then, then), (then, now), (now, now)), strict=True):
        np.testing.assert_allclose(moment, second[s, :, t].sum(axis=0), atol=1e-8)


def test_pieces_of_a_long_series_are_as_good_as_the_whole(monkeypatch):
    rng = np.random.default_rng(1)
    dynamics, N = draw_dynamics(3, rng), 300
    B = rng.standard_normal((N, 2, 3)) * (rng.random(N) < 0.8)[:, None, None]
    seen = B.mT @ B, np.einsum("tqa,tq->ta", B, rng.standard_normal((N, 2)))
    whole = smooth(*seen, dynamics)
    monkeypatch.setattr(state_space, "_PIECE", 60)
    monkeypatch.setattr(state_space, "_OVERLAP", 40)
    pieces = smooth(*seen, dynamics)
    for name in ("mean", "cov"):
        np.testing.assert_allclose(getattr(pieces, name), getattr(whole, name), atol=1e-6)
    np.testing.assert_allclose(pieces.moments, whole.moments, rtol=1e-6)


def test_spreads_and_squares_are_those_of_the_posterior():
    rng = np.random.default_rng(2)
    N, k, m = 2500, 2, 3
    B, P, W = rng.standard_normal((N, k, k)), rng.standard_normal((m, k)), rng.random((m, N))
    post = smooth(B.mT @ B, rng.standard_normal((N, k)), draw_dynamics(k, rng))
    np.testing.assert_allclose(
        post.spread(P), np.einsum("ia,tab,ib->it", P, post.cov, P), atol=1e-10
    )
    second = post.cov + post.mean[:, :, None] * post.mean[:, None, :]
    np.testing.assert_allclose(post.squares(W), np.einsum("it,tab->iab", W, second), rtol=1e-9)


def test_smoothing_changes_nothing_that_it_is_given():
    rng = np.random.default_rng(0)
    known, h = np.tile(np.eye(2), (9, 1, 1)), rng.standard_normal((9, 2))
    kept = known.copy(), h.copy()
    smooth(known, h, draw_dynamics(2, rng))
    np.testing.assert_array_equal(known, kept[0])
    np.testing.assert_array_equal(h, kept[1])


@given(st.integers(0, 2**32), st.integers(1, 6))
def test_the_stationary_covariance_is_that_of_one_more_step(seed, k):
    dynamics = draw_dynamics(k, np.random.default_rng(seed))
    V = stationary(dynamics.A, dynamics.S)
    np.testing.assert_allclose(dynamics.A @ V @ dynamics.A.T + dynamics.S, V, atol=1e-8)


def test_dynamics_are_found_again():
    rng = np.random.default_rng(0)
    true, N = draw_dynamics(3, rng), 20000
    q = np.zeros((N, 3))
    root = np.linalg.cholesky(true.S)
    for t in range(1, N):
        q[t] = true.A @ q[t - 1] + root @ rng.standard_normal(3)
    certain = smooth(1e6 * np.tile(np.eye(3), (N, 1, 1)), 1e6 * q, first_dynamics(3, 1.0))
    made = learn(certain.moments, N)
    np.testing.assert_allclose(made.A, true.A, atol=0.05)
    np.testing.assert_allclose(made.S, true.S, atol=0.08)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 30))
def test_what_is_learnt_is_stable_and_has_noise(seed, k, N):
    rng = np.random.default_rng(seed)
    known = np.tile(np.eye(k), (N, 1, 1)) * rng.choice([0.0, 1.0, 1e6], N)[:, None, None]
    h = np.einsum("tab,tb->ta", known, rng.standard_normal((N, k)).cumsum(axis=0))
    made = learn(smooth(known, h, first_dynamics(k, 1.0)).moments, N)
    assert np.abs(np.linalg.eigvals(made.A)).max() < LARGEST_RADIUS + 1e-9
    assert np.linalg.eigvalsh(made.S).min() > 0
    again = smooth(known, h, made)
    assert np.isfinite(again.mean).all()


def test_first_dynamics_have_the_variance_said():
    first = first_dynamics(3, 2.5)
    np.testing.assert_allclose(stationary(first.A, first.S), 2.5 * np.eye(3), rtol=1e-6)


def test_without_observations_the_prior_is_left():
    dynamics = Dynamics(np.array([[0.5]]), np.array([[0.75]]))
    post = smooth(np.zeros((20, 1, 1)), np.zeros((20, 1)), dynamics)
    assert (post.mean == 0).all()
    np.testing.assert_allclose(post.cov, 1.0)
    assert post.cov[0, 0, 0] == pytest.approx(1.0)
