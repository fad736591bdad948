"""Weights by direction: what the coordinator believes the sums see, against what they do see."""

import numpy as np
import pytest

from flfl.model.shared import directions, guard, projection
from flfl.model.shared.windows import Windows


def network(rank=9, n_sensors=40, seed=0):
    """Sensors on a square with loadings that are smooth on the map, and the published map."""
    rng = np.random.default_rng(seed)
    places = rng.random((n_sensors, 2))
    knots = projection.knots_on_box(np.zeros(2), np.ones(2), rank - 1)
    width = projection.bump_width(knots)
    B = projection.bumps(places, knots, width)
    W = projection.whitening(projection.gram(B), n_sensors)
    r = rng.uniform(0.5, 2.0, n_sensors)
    B = B @ W
    axes = np.linspace(0.0, 1.0, 15)
    grid = np.stack(np.meshgrid(axes, axes), axis=-1).reshape(-1, 2)
    rows = projection.bumps(grid, knots, width) @ W
    R = guard.noise_sum(B, r)
    root = guard.whitener(R)
    turn = root @ guard.localise(rows @ root)
    P = B + 0.1 * rng.standard_normal(B.shape)
    return places, B, P, r, R, turn, rows @ turn


def sight(strength, B, r, turn, rows, windows):
    """As a run makes it: sites send two sums, the coordinator does the rest."""
    shares = directions.axis_shares(np.sqrt(r)[:, None] * (B @ turn))
    along = (strength.T @ shares) / shares.sum(axis=0)
    return directions.look(windows, strength.mean(axis=0), along, turn, rows)


def test_stand_ins_look_like_the_sensors():
    _, _, _, _, _, _, rows = network()
    points, mass = directions.stand_ins(rows)
    assert (mass > 0).all()
    np.testing.assert_allclose((points * mass[:, None]).T @ points, np.eye(9), atol=0.02)


def test_sensors_that_all_speak_alike_need_no_directions():
    _, B, P, r, R, turn, rows = network()
    windows = Windows(np.arange(4), np.array([9, 5, 2]))
    strength = np.repeat([[1.0, 0.6, 0.3]], len(B), axis=0)
    g = np.random.default_rng(1).standard_normal((3, 9)) * (np.arange(9) < [[9], [5], [2]])
    F = B.T @ P
    even = directions.Sight(windows, strength[0]).pull(F, R, g)
    found = sight(strength, B, r, turn, rows, windows).pull(F, R, g)
    for one, other in zip(found, even, strict=True):
        np.testing.assert_allclose(one, other, atol=0.05 * np.abs(other).max())


@pytest.mark.parametrize("released", [9, 6])
def test_a_dark_region_is_seen_to_be_dark(released):
    """The believed F_tau is nearer to the true one than w_tau F, and far nearer to no information
    in the direction that only the dark region would show."""
    places, B, P, r, R, turn, rows = network()
    dark = (places < 0.45).all(axis=1)
    strength = np.where(dark, 0.0, 0.95)[:, None]
    windows = Windows(np.array([0, 1]), np.array([released]))
    F, g = B.T @ P, np.zeros((1, 9))
    F_tau = (B * strength).T @ P
    R_tau = guard.noise_sum(B, r * strength[:, 0])
    n = released
    true = F_tau[:n].T @ np.linalg.solve(R_tau[:n, :n] + 1e-9 * np.eye(n), F_tau[:n])
    even, _ = directions.Sight(windows, strength.mean(axis=0)).pull(F, R, g)
    found, _ = sight(strength, B, r, turn, rows, windows).pull(F, R, g)
    assert np.linalg.norm(found[0] - true) < 0.6 * np.linalg.norm(even[0] - true)
    assert np.linalg.eigvalsh(found[0])[0] > -1e-9 * np.linalg.norm(found[0])
    weakest = np.linalg.eigh(F_tau.T @ np.linalg.solve(R_tau + 1e-6 * np.eye(9), F_tau))[1][:, 0]
    if released == 9:
        assert weakest @ found[0] @ weakest < 0.5 * (weakest @ even[0] @ weakest)


def test_strengths_explain_the_shares_and_stay_within_bounds():
    _, B, _, r, _, turn, rows = network()
    rng = np.random.default_rng(2)
    strength = (rng.random((len(B), 30)) < 0.7).astype(float)
    shares = directions.axis_shares(np.sqrt(r)[:, None] * (B @ turn))
    along = (strength.T @ shares) / shares.sum(axis=0)
    points, mass = directions.stand_ins(rows)
    s = directions.strengths(points, mass, strength.mean(axis=0), along)
    assert s.min() >= 0
    assert s.max() <= 1
    voice = directions.axis_shares(points) * (mass * (points**2).sum(axis=1))[:, None]
    np.testing.assert_allclose(s @ (voice / voice.sum(axis=0)), along, atol=0.05)


def test_a_window_where_nobody_speaks_says_nothing():
    _, B, P, r, R, turn, rows = network()
    windows = Windows(np.arange(3), np.array([9, 0]))
    strength = np.repeat([[1.0, 0.0]], len(B), axis=0)
    seen = sight(strength, B, r, turn, rows, windows)
    information, vector = seen.pull(B.T @ P, R, np.zeros((2, 9)))
    assert np.isfinite(information).all()
    np.testing.assert_array_equal(information[1], 0)
    np.testing.assert_array_equal(vector[1], 0)


def test_sensors_in_one_place_leave_directions_that_nobody_carries():
    _, B, P, r, _, turn, rows = network()
    B = np.repeat(B[:1], len(B), axis=0)
    windows = Windows(np.arange(3), np.array([9, 4]))
    seen = sight(np.full((len(B), 2), 0.7), B, r, turn, rows, windows)
    information, vector = seen.pull(B.T @ P, guard.noise_sum(B, r), np.ones((2, 9)))
    assert np.isfinite(information).all()
    assert np.isfinite(vector).all()
