"""Laws of the guard: leverage is a budget, and the caps hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flfl.model.shared import guard

seeds = st.integers(0, 10_000)


def network(seed, M=30, k=6):
    """A projection with an odd sensor, and noises over two decades."""
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((M, k))
    B[0] *= 8
    return B, 10 ** rng.uniform(-1, 1, M), rng


@given(seeds, st.integers(1, 8))
def test_leverages_add_up_to_the_rank(seed, k):
    B, r, _ = network(seed, k=k)
    h = guard.leverage(B, r, guard.noise_sum(B, r))
    assert h.sum() == pytest.approx(k, rel=1e-5)
    assert ((h >= 0) & (h <= 1 + 1e-9)).all()


@given(seeds)
def test_leverage_is_the_r2_of_the_best_linear_read_out(seed):
    B, r, _ = network(seed, M=12, k=4)
    # g = sum_i b_i e_i with independent e_i of variance r_i: R^2 of e_i given g
    cov_g = (B * r[:, None]).T @ B
    cross = r[:, None] * B
    R2 = np.einsum("ia,ab,ib->i", cross, np.linalg.inv(cov_g), cross) / r
    np.testing.assert_allclose(guard.leverage(B, r, cov_g), R2, rtol=1e-5)


@given(seeds, st.sampled_from([0.3, 0.5, 0.8]))
def test_rescaling_brings_every_leverage_under_the_cap(seed, cap):
    B, r, _ = network(seed)
    a, h = np.ones(len(B)), np.ones(len(B))
    for _ in range(30):
        h = guard.leverage(B * a[:, None], r, guard.noise_sum(B * a[:, None], r))
        if (h <= cap).all():
            break
        a = guard.rescale(a, h, 0.8 * cap)  # aim below the cap: it is neared from above
    assert (h <= cap).all()
    assert ((a > 0) & (a <= 1)).all()


@given(seeds)
def test_the_order_of_the_sensors_does_not_matter(seed):
    B, r, rng = network(seed)
    order = rng.permutation(len(B))
    h = guard.leverage(B, r, guard.noise_sum(B, r))
    moved = guard.leverage(B[order], r[order], guard.noise_sum(B[order], r[order]))
    np.testing.assert_allclose(moved, h[order], rtol=1e-6)


@given(seeds)
def test_no_change_of_basis_changes_leverage(seed):
    B, r, rng = network(seed)
    T = rng.standard_normal((6, 6)) + 3 * np.eye(6)
    h = guard.leverage(B, r, guard.noise_sum(B, r))
    turned = guard.leverage(B @ T, r, guard.noise_sum(B @ T, r))
    np.testing.assert_allclose(turned, h, rtol=1e-3, atol=1e-6)


@given(seeds)
def test_localising_turns_and_never_lowers_its_criterion(seed):
    X = np.linalg.qr(np.random.default_rng(seed).standard_normal((20, 4)))[0]
    turn = guard.localise(X)
    np.testing.assert_allclose(turn @ turn.T, np.eye(4), atol=1e-9)
    assert ((X @ turn) ** 4).sum() >= (X**4).sum() - 1e-12


def test_whitener_whitens():
    B, r, _ = network(0)
    R = guard.noise_sum(B, r)
    np.testing.assert_allclose(guard.whitener(R) @ R @ guard.whitener(R), np.eye(6), atol=1e-9)


@given(seeds)
def test_leverages_of_a_window_add_up_to_the_rank(seed):
    rng = np.random.default_rng(seed)
    local, strength = rng.standard_normal((9, 3)), rng.random((9, 5))
    h = guard.window_leverage(local, strength, guard.window_energy(local, strength))
    np.testing.assert_allclose(h.sum(axis=0), 3)


@given(seeds)
def test_window_energies_of_sites_add_up(seed):
    rng = np.random.default_rng(seed)
    local, strength = rng.standard_normal((9, 3)), rng.random((9, 5))
    parts = [guard.window_energy(local[s], strength[s]) for s in (slice(4), slice(4, 9))]
    np.testing.assert_allclose(sum(parts), guard.window_energy(local, strength))


def test_clipping_follows_the_unit_and_spares_a_silent_sensor():
    rng = np.random.default_rng(0)
    E, known = rng.standard_normal((3, 200)), np.ones((3, 200))
    E[0, 5], known[2] = 90.0, 0
    clipped = guard.clip_news(E, known, 3.0)
    assert 2 < clipped[0, 5] < 4
    np.testing.assert_array_equal(clipped[2], E[2])
    np.testing.assert_allclose(guard.clip_news(7 * E, known, 3.0), 7 * clipped)
    calm = np.abs(E) < 1.5
    np.testing.assert_array_equal(clipped[calm], E[calm])
