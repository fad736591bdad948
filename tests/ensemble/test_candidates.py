"""Candidates: none sees the reading it estimates; spikes; the boosted one."""

from dataclasses import replace

import numpy as np
import pytest

from flfl.ensemble import boosting, personal
from flfl.ensemble import candidates as local
from flfl.ensemble.joint import Curve, Joint, fit_joint
from flfl.ensemble.personal import Fit, Shared
from flfl.model import kalman_em
from flfl.model.state_space import Dynamics


@pytest.fixture
def site():
    rng = np.random.default_rng(0)
    common = np.cumsum(rng.standard_normal(300)) * 0.3
    Y = common - common.mean() + 0.3 * rng.standard_normal((3, 300))
    return Y, rng.random(Y.shape) < 0.6, network(common - common.mean()), rng


def network(common):
    """One factor, seen with some noise: three sensors follow it."""
    seen = common + 0.2 * np.random.default_rng(9).standard_normal(len(common))
    dynamics = Dynamics(np.array([[0.99]]), np.array([[0.1]]))
    information = np.full((len(common), 1, 1), 1 / 0.04)
    return Shared(information, seen[:, None] / 0.04, dynamics, np.full(3, 0.1))


def curves(Y, J, shared):
    """The network followed and finished, for parameters that stay as they are."""
    fit = Fit(np.ones((len(Y), 1)), shared.r)
    joint = Joint((np.arange(len(Y)),), (dynamics_of(len(Y)),))
    followed, _ = personal.follow(Y, J, fit.P @ shared.posterior.mean.T, joint)
    return followed, personal.finish(Y, J, shared, fit, steps=1)[0]


def dynamics_of(m):
    return kalman_em.Dynamics(0.9 * np.eye(m), 0.1 * np.eye(m), 0.1 * np.ones(m))


def made_of(Y, J, shared, models=(None, None)):
    site, _ = fit_joint(Y, J, models[0], pull=False)
    return local.candidates(Y, J, site, curves(Y, J, shared), models[1])


def test_no_candidate_sees_its_own_reading(site):
    Y, J, shared, _ = site
    before = made_of(Y, J, shared)
    models = fit_joint(Y, J)[1], before.rest
    for i, t in np.argwhere(J)[5:-5:60]:
        changed = Y.copy()
        changed[i, t] += 1.0
        after = made_of(changed, J, shared, models)
        moved = np.abs(after.values - before.values)[:, i, t]
        for name, move in zip(local.NAMES, moved, strict=True):
            # Kriging weights come from all readings; how a pull falls off is followed so far.
            limit = {"kriged": 0.1, "shared+pchip": 0.02}.get(name, 1e-6)
            assert move < limit or name not in local.LEAVE_ONE_OUT, name


def test_candidates_are_in_the_order_of_their_names(site):
    Y, J, shared, _ = site
    made = made_of(Y, J, shared)
    curve, plain = curves(Y, J, shared)
    assert made.values.shape == (len(local.NAMES), *Y.shape)
    np.testing.assert_array_equal(made.values[local.NAMES.index("shared")], curve.loo)
    np.testing.assert_array_equal(made.values[local.NAMES.index("factors")], plain.loo)
    assert np.isfinite(made.values).all()
    assert (made.deviations > 0).all()
    errors = np.abs(made.values - Y)[:, ~J].mean(axis=1)
    assert errors[local.NAMES.index("site")] < errors[local.NAMES.index("linear")]
    assert errors[local.NAMES.index("shared")] < errors[local.NAMES.index("linear")]


def test_candidates_without_the_network_are_the_same_whatever_it_says(site):
    Y, J, shared, _ = site
    lie = replace(shared, vector=-3 * shared.vector)
    one, two = made_of(Y, J, shared), made_of(Y, J, lie)
    alone = [0, 1, 2, 3, 8]
    np.testing.assert_array_equal(one.values[alone], two.values[alone])
    assert np.abs(one.values - two.values).max(axis=(1, 2))[local.NAMES.index("shared")] > 0.1


@pytest.mark.parametrize("spoil", ["silent", "single", "constant", "lone"])
def test_odd_sensors_are_no_exception(site, spoil):
    Y, J, shared, _ = site
    if spoil == "silent":
        J[0] = False
    if spoil == "single":
        J[0] = np.arange(300) == 7
    if spoil == "constant":
        Y[0] = 0.0
    rows = slice(1) if spoil == "lone" else slice(None)
    made = made_of(Y[rows], J[rows], replace(shared, r=shared.r[rows]))
    assert np.isfinite(made.values).all()
    assert np.isfinite(made.deviations).all()
    assert np.isfinite(local.scale_features(made.deviations, made.silent, made.values)).all()


def test_spikes_are_lone_and_episodes_are_not():
    rng = np.random.default_rng(1)
    Y, known = rng.standard_normal((2, 400)), rng.random((2, 400)) < 0.8
    known[:, 95:215] = True
    Y[0, 100] = 60.0
    Y[1, 200:206] = 60.0  # lasts: its neighbours vouch for it
    found = local.spikes(Y, known, np.zeros_like(Y))
    assert np.argwhere(found).tolist()[0] == [0, 100]
    assert not found[1, 201:205].any()
    assert not (found & ~known).any()


def test_a_quiet_sensor_has_no_spikes():
    assert not local.spikes(np.zeros((1, 50)), np.ones((1, 50), bool), np.zeros((1, 50))).any()


def outstanding(glitches):
    """A calm series with three peaks that have feet, and some glitches that have none."""
    rng = np.random.default_rng(3)
    Y = 0.1 * rng.standard_normal((1, 600))
    peaks = [50, 150, 250]
    for t in peaks:
        Y[0, t - 1 : t + 2] += (2.0, 5.0, 1.0)
    Y[0, glitches] += 5.0
    found = local.spikes(Y, np.ones_like(Y, bool), np.zeros_like(Y))
    return peaks, set(np.nonzero(found)[1].tolist())


def test_a_peak_with_feet_is_no_spike():
    _, found = outstanding([300, 400, 500])
    assert found == {300, 400, 500}


def test_where_nearly_all_are_glitches_no_reading_is_vouched_for():
    glitches = list(range(300, 590, 10))
    peaks, found = outstanding(glitches)
    assert found >= {*peaks, *glitches}


def test_what_a_reading_does_to_the_curve_beside_it_is_taken_back(site):
    Y, J, shared, _ = site
    J[0, 139:142] = True
    seen = []
    for value in (0.0, 1.0):
        Y[0, 140] = value
        curve, plain = curves(Y, J, shared)
        both = curve, Curve(curve.mean, curve.loo, curve.loo_var, 0 * curve.fall)
        for one in both:
            made = local.candidates(Y, J, fit_joint(Y, J, JOINT)[0], (one, plain), JOINT)
            seen.append([*made.near_residual.value[:, :, 0, 140].ravel(), *made.slopes[:, 0, 140]])
    told, untold = (np.abs(np.subtract(seen[n + 2], seen[n])).max() for n in (0, 1))
    # Without knowing how the pull falls off, trees would read the reading from its neighbours.
    assert told < 0.03 < 0.05 < untold


JOINT = Joint((np.arange(3),), (dynamics_of(3),))


def boost(site, rng, Y=None):
    truth, J, shared, _ = site
    Y = truth if Y is None else Y
    held = J & (np.random.default_rng(5).random(J.shape) < 0.1)
    fit = made_of(Y, J & ~held, shared)
    final = made_of(Y, J, shared, (None, fit.rest))
    bases = (fit.values[0] + 1.0, final.values[0] + 1.0)  # a bias to be learned
    masks = (J & ~held, held, ~J)
    phase = np.arange(300) % 24
    trees = boosting.train(fit, bases[0], Y, masks[0], phase, rng)
    made = zip((fit, final), bases, masks[1:], strict=True)
    return bases, masks, [trees.corrected(*one) for one in made]


def test_boosting_corrects_its_base_and_nothing_else(site):
    Y = site[0]
    bases, (_, held, gaps), out = boost(site, np.random.default_rng(0))
    for base, got, at in zip(bases, out, (held, gaps), strict=True):
        np.testing.assert_array_equal(got[~at], base[~at])
        assert np.abs(got - Y)[at].mean() < 0.4 * np.abs(base - Y)[at].mean()


def test_boosting_learns_nothing_from_what_is_held_out(site):
    Y, J, *_ = site
    held = J & (np.random.default_rng(5).random(J.shape) < 0.1)
    _, _, (one, _) = boost(site, np.random.default_rng(0))
    _, _, (two, _) = boost(site, np.random.default_rng(0), np.where(held, 1e3, Y))
    np.testing.assert_array_equal(one[held], two[held])


def test_a_neighbour_that_never_exists_does_not_break_the_trees(site):
    """One reading for each sensor: none has a neighbour."""
    Y, J, shared, _ = site
    J[:] = np.arange(300) == 7
    made = made_of(Y, J, shared)
    base, rng = made.values[0], np.random.default_rng(0)
    trees = boosting.train(made, base, Y, J, np.zeros(300, int), rng)
    assert np.isfinite(trees.corrected(made, base, ~J)).all()


def test_features_are_relative_to_the_base(site):
    """Only the base itself changes when everything is higher."""
    Y, J, shared, _ = site
    made, at = made_of(Y, J, shared), (np.array([0, 1]), np.array([30, 90]))
    near = replace(made.near, value=made.near.value + 3.0)
    higher = replace(made, values=made.values + 3.0, near=near)
    base, phase = made.values[0], np.zeros(300, int)
    tables = [boosting.features(c, b, phase, at) for c, b in ((made, base), (higher, base + 3.0))]
    differ = (np.abs(np.nan_to_num(tables[0] - tables[1])) > 1e-4).any(axis=0)
    assert differ.sum() == 1
