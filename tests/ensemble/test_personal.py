"""The personal finish against dense conditioning, and leave-one-out against leaving out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flfl.constants import LEARN_SLOTS, LEAST_RESIDUAL, PULL_REACH
from flfl.ensemble import personal
from flfl.ensemble.joint import Joint, alike, fit_joint, some_slots
from flfl.ensemble.personal import Fit, Shared
from flfl.model import kalman_em
from flfl.model.state_space import Dynamics
from gaussian import condition, draw_dynamics, path_covariance, rows_of


def draw(seed, N=22, k=2, m=3):
    """An owner of m sensors, what the network says, and a fit."""
    rng = np.random.default_rng(seed)
    dynamics, B = draw_dynamics(k, rng), rng.standard_normal((N, 3, k))
    there = rng.random(N) < 0.7
    information = np.einsum("tqa,tqb->tab", B, B) * there[:, None, None]
    vector = np.einsum("tqa,tq->ta", B, rng.standard_normal((N, 3))) * there[:, None]
    shared = Shared(information, vector, dynamics, rng.uniform(0.2, 1, m))
    Y, J = rng.standard_normal((m, N)), rng.random((m, N)) < 0.6
    return Y, J, shared, Fit(rng.standard_normal((m, k)), rng.uniform(0.1, 1, m))


def finished(Y, J, shared):
    """The owner's curves as it starts: from loadings that only the readings in use have told."""
    fit = personal.regress(Y, J, shared.posterior, shared.r)
    return personal.finish(Y, J, shared, fit)[0]


def followed(Y, J, shared):
    post = shared.posterior
    return personal.follow(Y, J, personal.regress(Y, J, post, shared.r).P @ post.mean.T)[0]


def dense(Y, J, shared, fit):
    """Curves by conditioning the whole path of the factors on everything."""
    (m, N), k = Y.shape, fit.P.shape[1]
    # The network's information as observations of q: I = U U', h = U y.
    rows, slots, values = [], [], []
    for t in range(N):
        d, U = np.linalg.eigh(shared.information[t])
        for lam, u in zip(d, U.T, strict=True):
            if lam > 1e-9:
                rows.append(np.sqrt(lam) * u)
                slots.append(t)
                values.append(u @ shared.vector[t] / np.sqrt(lam))
    i, t = np.nonzero(J)
    H = rows_of(
        np.array([*slots, *t]), np.concatenate([np.array(rows).reshape(-1, k), fit.P[i]]), N
    )
    R = np.diag(np.concatenate([np.ones(len(rows)), fit.c[i]]))
    cov = path_covariance(shared.dynamics, N)
    mean, cov = condition(cov, H, R, np.concatenate([values, Y[i, t]]))
    every = rows_of(np.tile(np.arange(N), m), np.repeat(fit.P, N, axis=0), N)
    x, v = every @ mean, np.einsum("na,ab,nb->n", every, cov, every)
    return x.reshape(m, N), v.reshape(m, N)


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_the_curve_is_conditioning_on_network_and_clean_readings(seed):
    Y, J, shared, fit = draw(seed)
    curve, _ = personal.finish(Y, J, shared, fit, steps=1)
    x, v = dense(Y, J, shared, fit)
    np.testing.assert_allclose(curve.mean, x, atol=1e-8)
    np.testing.assert_allclose(curve.loo_var[~J], v[~J], atol=1e-8)


@pytest.mark.parametrize("way", ["finish", "follow"])
@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_leave_one_out_is_leaving_one_out(way, seed):
    Y, J, shared, fit = draw(seed)
    if way == "finish":

        def made(known):
            return personal.finish(Y, known, shared, fit, steps=1)[0]
    else:
        post = shared.posterior
        said = personal.regress(Y, J, post, shared.r).P @ post.mean.T
        joint = personal.follow(Y, J, said)[1]

        def made(known):
            return personal.follow(Y, known, said, joint)[0]

    curve = made(J)
    np.testing.assert_array_equal(curve.loo[~J], curve.mean[~J])
    for i, t in np.argwhere(J)[::4]:
        left = J.copy()
        left[i, t] = False
        without = made(left)
        # The scale of a joint model's units follows the readings: rounding only.
        assert curve.loo[i, t] == pytest.approx(without.mean[i, t], abs=1e-6)
        assert curve.loo_var[i, t] == pytest.approx(without.loo_var[i, t], abs=1e-6)


@pytest.mark.parametrize("way", [finished, followed])
def test_readings_that_are_not_used_change_nothing(way):
    Y, J, shared, _ = draw(0)
    wild = np.where(J, Y, 1e9)
    for one, other in zip(
        vars(way(Y, J, shared)).values(), vars(way(wild, J, shared)).values(), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_the_pull_falls_off_as_the_curve_says():
    """One reading is moved: its neighbours' curve moves by the share that is told."""
    Y, J, _, _ = draw(3, N=40, k=1, m=1)
    J[0, 20] = True
    one = kalman_em.Dynamics(np.array([[0.8]]), np.array([[0.5]]), np.array([0.3]))
    joint = Joint((np.array([0]),), (one,))
    before, _ = fit_joint(Y, J, joint)
    moved = Y.copy()
    moved[0, 20] += 1.0
    after, _ = fit_joint(moved, J, joint)
    change = (after.mean - before.mean)[0]
    around = np.arange(-PULL_REACH, PULL_REACH + 1)
    np.testing.assert_allclose(change[20 + around] / change[20], before.fall[0, 20], atol=1e-5)


@pytest.mark.parametrize("way", [finished, followed])
def test_fitting_helps(way):
    rng = np.random.default_rng(1)
    N, m = 400, 3
    q = np.zeros(N)
    for t in range(1, N):
        q[t] = 0.95 * q[t - 1] + 0.3 * rng.standard_normal()
    truth = np.array([1.5, -1.0, 0.5])[:, None] * q + 0.1 * rng.standard_normal((m, N))
    information = np.full((N, 1, 1), 4.0)
    vector = 4.0 * (q + 0.5 * rng.standard_normal(N))[:, None]
    dynamics = Dynamics(np.array([[0.95]]), np.array([[0.09]]))
    shared = Shared(information, vector, dynamics, np.full(m, 0.5))
    J = rng.random((m, N)) < 0.5
    fit = personal.regress(truth, J, shared.posterior, shared.r)
    told = np.abs(fit.P @ shared.posterior.mean.T - truth)[~J].mean()
    error = np.abs(way(truth, J, shared).mean - truth)[~J].mean()
    assert error < 0.9 * told
    assert error < 0.3


@pytest.mark.parametrize("way", [finished, followed])
@pytest.mark.parametrize("spoil", ["nothing known", "one reading", "constant", "two slots"])
def test_odd_owners_are_no_exception(way, spoil):
    Y, J, shared, _ = draw(5, N=2 if spoil == "two slots" else 22)
    if spoil == "nothing known":
        J[:] = False
    if spoil == "one reading":
        J[0] = np.arange(22) == 7
    if spoil == "constant":
        Y[:] = 0.0
    curve = way(Y, J, shared)
    assert all(np.isfinite(array).all() for array in vars(curve).values())
    assert (curve.loo_var >= 0).all()


def test_loadings_on_factors_that_the_network_knows_are_found():
    q, J, shared, fit = draw(6, N=400, m=2)
    sure = replace(shared, information=np.tile(1e8 * np.eye(2), (400, 1, 1)), vector=1e8 * q.T)
    Y = fit.P @ q
    found = personal.regress(Y, J, sure.posterior, sure.r)
    np.testing.assert_allclose(found.P, fit.P, atol=1e-3)
    power = np.where(J, Y**2, 0.0).sum(axis=1) / J.sum(axis=1)
    assert (found.c < 1.5 * LEAST_RESIDUAL * power).all()


def test_the_network_tells_all_or_nothing_or_less_from_slot_to_slot():
    """Of what is forgotten by ``a`` in a slot, ``a ** 2d`` is told d slots after the last word."""
    memory = Dynamics(np.array([[0.8]]), np.array([[0.36]]))
    information = np.zeros((40, 1, 1))
    P = np.array([[0.3], [-5.0]])

    def told():
        post = personal.smooth(information, np.zeros((40, 1)), memory)
        return personal.told(P, post, memory)

    np.testing.assert_allclose(told(), 0.0, atol=1e-9)
    information[:10] = 1e9
    np.testing.assert_allclose(told()[:, :10], 1.0, atol=1e-8)
    np.testing.assert_allclose(told()[:, 9:], [0.64 ** np.arange(31.0)] * 2, atol=1e-8)


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_what_is_told_is_the_share_of_the_variance_that_is_gone(seed):
    """Against dense conditioning: whatever the unit, and never less by knowing more."""
    Y, J, shared, fit = draw(seed)
    share = personal.told(fit.P, shared.posterior, shared.dynamics)
    nothing = np.zeros(J.shape, bool)
    left = dense(Y, nothing, shared, fit)[1]
    unknown = path_covariance(shared.dynamics, 1)
    whole = np.einsum("ia,ab,ib->i", fit.P, unknown, fit.P)[:, None]
    np.testing.assert_allclose(share, 1 - left / whole, atol=1e-6)
    again = personal.told(7 * fit.P, shared.posterior, shared.dynamics)
    np.testing.assert_allclose(again, share, atol=1e-9)
    more = replace(shared, information=shared.information + np.eye(2))
    assert (personal.told(fit.P, more.posterior, shared.dynamics) > share).all()


def test_a_long_table_is_learned_from_slots_of_all_its_time():
    N = 10 * LEARN_SLOTS
    slots = some_slots(N, LEARN_SLOTS)
    assert len(slots) == len(set(slots.tolist())) <= LEARN_SLOTS
    assert np.histogram(slots, 8, (0, N))[0].min() > 0
    np.testing.assert_array_equal(some_slots(7, LEARN_SLOTS), np.arange(7))


def test_groups_are_small_whole_and_of_sensors_that_are_alike():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, 60)
    Z = rng.standard_normal((4, 300))[kind] + 0.5 * rng.standard_normal((60, 300))
    groups = alike(Z, rng.random(Z.shape) < 0.7, 16)
    np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(60))
    assert max(map(len, groups)) <= 16
    same = [np.bincount(kind[rows]).max() / len(rows) for rows in groups]
    assert np.mean(same) > 0.6  # a quarter by chance


@pytest.mark.parametrize("shape", [(115, 72), (40, 30), (90, 12)])
def test_more_sensors_than_slots_are_no_exception(shape):
    rng = np.random.default_rng(2)
    Y = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    J = rng.random(shape) < 0.8
    curve, joint = fit_joint(Y, J)
    assert all(np.isfinite(array).all() for array in vars(curve).values())
    again, _ = fit_joint(Y, J, joint)
    np.testing.assert_allclose(again.mean, curve.mean, atol=1e-8)
