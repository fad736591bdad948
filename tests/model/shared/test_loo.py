"""Leave-one-out m against the numerical derivative of the coordinator's own iteration."""

from types import SimpleNamespace

import numpy as np
import pytest

from flfl.model.shared import dynamics, loo, projection, sensor_step, smoothers
from flfl.model.shared.windows import Windows

M, N, K = 24, 160, 3
SHARP = 1e9  # no clipping: it would make the derivative jump


def network(D, rate, seed=0):
    """One site with everything frozen but m."""
    rng = np.random.default_rng(seed)
    windows = Windows(np.r_[np.arange(0, N, D), N], np.full(-(-N // D), K))
    q = np.zeros((N, K))
    for t in range(1, N):
        q[t] = 0.9 * q[t - 1] + np.sqrt(0.19) * rng.standard_normal(K)
    B = projection.bumps(rng.random((M, 2)), rng.random((K - 1, 2)), 0.4)
    B = B @ projection.whitening(projection.gram(B), M)
    P = B + 0.2 * rng.standard_normal((M, K))
    J = (rng.random((M, N)) < rate).astype(float)
    r = rng.uniform(0.2, 0.6, M)
    Y = J * (P @ q.T + np.sqrt(r)[:, None] * rng.standard_normal((M, N)))
    factor = smoothers.smoother(J, 3.0, 0.1)
    u = np.ones((M, len(windows)))
    F, R = B.T @ P, (B * r[:, None]).T @ B
    return SimpleNamespace(
        windows=windows, B=B, P=P, J=J, Y=Y, u=u, factor=factor, F=F, R=R,
        A=0.9 * np.eye(K), S=0.19 * np.eye(K), gain=1.0,
        w=windows.mean(smoothers.response(factor)).mean(axis=0),
        seen=dynamics.observe(F, R, windows.released),
    )  # fmt: skip


def solve(net, m=None, silent=None, rounds=60):
    """The m at which the coordinator's rounds come to rest."""
    m = np.zeros((N, K)) if m is None else m
    weight = net.gain * np.minimum(net.w, 1.0)
    information = net.windows.per_slot(weight[:, None, None] * net.seen.CF[net.seen.kind])
    B = net.B.copy()
    if silent is not None:
        B[silent] = 0
    for _ in range(rounds):
        g = sensor_step.news_sum(net.Y, net.J, net.P, B, net.u, m, net.factor, net.windows, SHARP)
        vector = net.gain * net.windows.per_slot(net.seen.apply(net.seen.C, g))
        vector += (information @ dynamics.seen(m, net.windows)[:, :, None])[:, :, 0]
        m = dynamics.smoothed_mean(net.A, net.S, information, vector, net.windows)
    return m


def level_and_covariances(net):
    cov = dynamics.published_covariances(net.A, net.S, net.F, net.R, net.w, net.gain, net.windows)
    return net.gain * float(np.minimum(net.windows.per_slot(net.w), 1.0).mean()), cov


@pytest.mark.parametrize(("D", "rate"), [(1, 0.9), (1, 0.5), (2, 0.5), (4, 0.3)])
def test_gain_is_near_the_derivative(D, rate):
    net = network(D, rate)
    level, cov = level_and_covariances(net)
    spread = loo.own_spread(net.u, net.factor, net.windows)
    K_it = loo.own_gain(spread, net.B, net.windows, net.seen, net.A, net.S, cov, level, net.gain)
    assert K_it.shape == (M, N, K)
    m, rng, exact, ours = solve(net), np.random.default_rng(1), [], []
    for _ in range(12):
        i = int(rng.integers(M))
        t = int(rng.choice(np.flatnonzero(net.J[i])))
        net.Y[i, t] += 1.0
        exact.append(net.P[i] @ (solve(net, m) - m)[t])
        net.Y[i, t] -= 1.0
        ours.append(net.P[i] @ K_it[i, t])
    exact, ours = np.array(exact), np.array(ours)
    assert ours.sum() / exact.sum() == pytest.approx(1.0, abs=0.3)
    assert np.corrcoef(exact, ours)[0, 1] > 0.9


@pytest.mark.parametrize(("D", "rate"), [(1, 0.9), (1, 0.5), (2, 0.5)])
def test_the_pull_falls_off_as_the_derivative_does(D, rate):
    net = network(D, rate)
    level, _ = level_and_covariances(net)
    spread = loo.own_spread(net.u, net.factor, net.windows)
    fall = loo.own_fall(spread, net.P, net.B, net.windows, net.seen, net.A, net.S, level, net.gain)
    reach = loo.IMPULSE_REACH
    assert fall.shape == (M, N, 2 * reach + 1)
    m, rng = solve(net), np.random.default_rng(1)
    exact, ours = np.zeros(2 * reach + 1), np.zeros(2 * reach + 1)
    for _ in range(12):
        i = int(rng.integers(M))
        inside = np.flatnonzero(net.J[i, reach:-reach]) + reach
        t = int(rng.choice(inside))
        net.Y[i, t] += 1.0
        pull = (solve(net, m) - m)[t - reach : t + reach + 1] @ net.P[i]
        net.Y[i, t] -= 1.0
        exact += pull
        ours += fall[i, t] * pull[reach]
    # The smoother alone is wider than the rounds' fixed point: what is taken back is rather more.
    assert np.corrcoef(exact, ours)[0, 1] > 0.95
    near = slice(reach - 3, reach + 4)
    assert 1.0 < ours[near].sum() / exact[near].sum() < 1.7


@pytest.mark.parametrize(("D", "rate"), [(1, 0.5), (2, 0.5)])
def test_without_a_sensor_is_near_the_rest_without_it(D, rate):
    net = network(D, rate)
    level, _ = level_and_covariances(net)
    m = solve(net)
    E = net.J * (net.Y - net.P @ m.T)
    own = loo.without_sensor(
        E, net.J, net.P, net.B, net.u, net.factor, net.windows, net.seen, net.A, net.S, level,
        net.gain,
    )  # fmt: skip
    for i in (0, 7, 15):
        exact = (m - solve(net, m, silent=i)) @ net.P[i]
        ours = own[i] @ net.P[i]
        assert np.corrcoef(exact, ours)[0, 1] > 0.8
        assert (exact @ ours) / (exact @ exact) == pytest.approx(1.0, abs=0.35)


def test_a_silent_sensor_has_no_gain():
    net = network(1, 0.5)
    net.J[3] = 0
    net.factor = smoothers.smoother(net.J, 3.0, 0.1)
    level, cov = level_and_covariances(net)
    spread = loo.own_spread(net.u, net.factor, net.windows)
    K_it = loo.own_gain(spread, net.B, net.windows, net.seen, net.A, net.S, cov, level, net.gain)
    np.testing.assert_array_equal(K_it[3], 0)
    assert np.abs(K_it[2]).max() > 0
