"""The personal finish against dense conditioning, and leave-one-out against leaving out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flfl.constants import PULL_REACH
from flfl.ensemble import personal
from flfl.ensemble.personal import Fit, Shared
from flfl.model.state_space import Dynamics
from gaussian import condition, draw_dynamics, path_covariance, rows_of


def draw(seed, N=22, k=2, m=3, own_states=True):
    """An owner of m sensors, what the network says, and a fit."""
    rng = np.random.default_rng(seed)
    dynamics, B = draw_dynamics(k, rng), rng.standard_normal((N, 3, k))
    there = rng.random(N) < 0.7
    information = np.einsum("tqa,tqb->tab", B, B) * there[:, None, None]
    vector = np.einsum("tqa,tq->ta", B, rng.standard_normal((N, 3))) * there[:, None]
    P, r = rng.standard_normal((m, k)), rng.uniform(0.2, 1, m)
    shared = Shared(information, vector, dynamics, P, r)
    Y, J = rng.standard_normal((m, N)), rng.random((m, N)) < 0.6
    _, fit = personal.finish(Y, J, shared, own_states, steps=1)
    if own_states:
        C = rng.standard_normal((m, m))
        c, a = rng.uniform(0.1, 1, m), rng.uniform(0, 0.9, m)
        fit = Fit(fit.L, c, a, C @ C.T / m + 0.1 * np.eye(m))
    return Y, J, shared, fit


def dense(Y, J, shared, fit):
    """Curves by conditioning the whole path of factors and own states on everything."""
    (m, N), n = Y.shape, len(fit.a)
    k = fit.L.shape[1] - n
    A, S = np.zeros((k + n, k + n)), np.zeros((k + n, k + n))
    A[:k, :k], A[k:, k:] = shared.dynamics.A, np.diag(fit.a)
    S[:k, :k], S[k:, k:] = shared.dynamics.S, fit.S
    # The network's information as observations of q: I = U U', h = U y.
    rows, slots, values = [], [], []
    for t in range(N):
        d, U = np.linalg.eigh(shared.information[t])
        for lam, u in zip(d, U.T, strict=True):
            if lam > 1e-9:
                rows.append(np.concatenate([np.sqrt(lam) * u, np.zeros(n)]))
                slots.append(t)
                values.append(u @ shared.vector[t] / np.sqrt(lam))
    L = fit.L
    i, t = np.nonzero(J)
    H = rows_of(
        np.array([*slots, *t]), np.concatenate([np.array(rows).reshape(-1, k + n), L[i]]), N
    )
    R = np.diag(np.concatenate([np.ones(len(rows)), fit.c[i]]))
    cov = path_covariance(Dynamics(A, S), N)
    mean, cov = condition(cov, H, R, np.concatenate([values, Y[i, t]]))
    every = rows_of(np.tile(np.arange(N), m), np.repeat(L, N, axis=0), N)
    x, v = every @ mean, np.einsum("na,ab,nb->n", every, cov, every)
    return x.reshape(m, N), v.reshape(m, N)


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.booleans())
def test_the_curve_is_conditioning_on_network_and_clean_readings(seed, own_states):
    Y, J, shared, fit = draw(seed, own_states=own_states)
    curve, _ = personal.finish(Y, J, shared, fit, steps=1)
    x, v = dense(Y, J, shared, fit)
    np.testing.assert_allclose(curve.mean, x, atol=1e-8)
    np.testing.assert_allclose(curve.loo_var[~J], v[~J], atol=1e-8)


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.booleans())
def test_leave_one_out_is_leaving_one_out(seed, own_states):
    Y, J, shared, fit = draw(seed, own_states=own_states)
    curve, _ = personal.finish(Y, J, shared, fit, steps=1)
    np.testing.assert_array_equal(curve.loo[~J], curve.mean[~J])
    for i, t in np.argwhere(J)[::4]:
        left = J.copy()
        left[i, t] = False
        without, _ = personal.finish(Y, left, shared, fit, steps=1)
        assert curve.loo[i, t] == pytest.approx(without.mean[i, t], abs=1e-8)
        assert curve.loo_var[i, t] == pytest.approx(without.loo_var[i, t], abs=1e-8)


def test_readings_that_are_not_used_change_nothing():
    Y, J, shared, fit = draw(0)
    wild = np.where(J, Y, 1e9)
    for one, other in zip(
        vars(personal.finish(Y, J, shared, fit)[0]).values(),
        vars(personal.finish(wild, J, shared, fit)[0]).values(),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_the_pull_falls_off_as_the_curve_says():
    """One reading is moved: its neighbours' curve moves by the share that is told."""
    Y, J, shared, fit = draw(3, N=40, k=1, m=1)
    fit = Fit(np.array([[0.0, 1.0]]), fit.c, fit.a, fit.S)  # one state: chaining is exact
    J[0, 20] = True
    before, _ = personal.finish(Y, J, shared, fit, steps=1)
    moved = Y.copy()
    moved[0, 20] += 1.0
    after, _ = personal.finish(moved, J, shared, fit, steps=1)
    change = (after.mean - before.mean)[0]
    around = np.arange(-PULL_REACH, PULL_REACH + 1)
    np.testing.assert_allclose(change[20 + around] / change[20], before.fall[0, 20], atol=1e-5)


@pytest.mark.parametrize("own_states", [True, False])
def test_fitting_helps(own_states):
    rng = np.random.default_rng(1)
    N, m = 400, 3
    q = np.zeros(N)
    for t in range(1, N):
        q[t] = 0.95 * q[t - 1] + 0.3 * rng.standard_normal()
    truth = np.array([1.5, -1.0, 0.5])[:, None] * q + 0.1 * rng.standard_normal((m, N))
    information = np.full((N, 1, 1), 4.0)
    vector = 4.0 * (q + 0.5 * rng.standard_normal(N))[:, None]
    dynamics = Dynamics(np.array([[0.95]]), np.array([[0.09]]))
    shared = Shared(information, vector, dynamics, np.full((m, 1), 0.2), np.full(m, 0.5))
    J = rng.random((m, N)) < 0.5
    errors = [
        np.abs(personal.finish(truth, J, shared, own_states, steps)[0].mean - truth)[~J].mean()
        for steps in (1, 4)
    ]
    assert errors[1] < 0.9 * errors[0]
    assert errors[1] < 0.3


@pytest.mark.parametrize("spoil", ["nothing known", "one reading", "constant", "one slot"])
def test_odd_owners_are_no_exception(spoil):
    Y, J, shared, _ = draw(5, N=1 if spoil == "one slot" else 22)
    if spoil == "nothing known":
        J[:] = False
    if spoil == "one reading":
        J[0] = np.arange(22) == 7
    if spoil == "constant":
        Y[:] = 0.0
    for own_states in (True, False):
        curve, fit = personal.finish(Y, J, shared, own_states)
        assert all(np.isfinite(array).all() for array in vars(curve).values())
        assert all(np.isfinite(array).all() for array in vars(fit).values())
        assert (curve.loo_var >= 0).all()
