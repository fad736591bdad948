"""Laws of stacking: weights on the simplex, shrinkage, resolution."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from flfl.constants import SNAP_WIDTHS
from flfl.ensemble import stacking
from flfl.ensemble.candidates import NAMES

seeds = st.integers(0, 10_000)


def resolution(values):
    return stacking.resolutions(values[None], np.ones((1, len(values)), bool))[0]


def problem(seed, C=5):
    rng = np.random.default_rng(seed)
    errors = rng.standard_normal((C, 40)) * rng.uniform(0.5, 2, (C, 1)) + rng.standard_normal(40)
    prior = rng.dirichlet(np.ones(C))
    return errors @ errors.T, prior


@given(seeds, st.floats(0, 1e4))
def test_weights_lie_on_the_simplex(seed, strength):
    w = stacking.simplex_weights(*problem(seed), strength)
    assert (w >= 0).all()
    assert w.sum() == pytest.approx(1)


@given(st.integers(0, 30), st.sampled_from([1.0, 50.0]))
def test_weights_minimise(seed, strength):
    G, prior = problem(seed)

    def cost(w):
        return w @ G @ w + strength * ((w - prior) ** 2).sum()

    best = minimize(
        cost, prior, method="SLSQP", bounds=[(0, 1)] * 5,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
    )  # fmt: skip
    assert cost(stacking.simplex_weights(G, prior, strength)) <= best.fun * (1 + 1e-6)


@given(seeds)
def test_a_strong_pull_gives_the_prior(seed):
    G, prior = problem(seed)
    np.testing.assert_allclose(stacking.simplex_weights(G, prior, 1e12), prior, atol=1e-6)


def test_stacked_problems_do_not_touch_each_other():
    cases = [problem(seed) for seed in range(6)]
    G, prior = (np.stack(x) for x in zip(*cases, strict=True))
    together = stacking.simplex_weights(G, prior, np.arange(6.0))
    for n, (g, p) in enumerate(cases):
        np.testing.assert_allclose(together[n], stacking.simplex_weights(g, p, float(n)), atol=1e-9)


def test_a_clearly_better_candidate_gets_the_weight():
    rng = np.random.default_rng(0)
    e = rng.standard_normal((3, 5000)) * np.array([[1.0], [0.1], [2.0]])
    G = stacking.error_sums(e, np.ones(5000), np.arange(5000) % 2, 2)
    even = np.full((2, 3), 1 / 3)
    W = stacking.stacked_weights(G, even, float(np.trace(G.sum(0))) / 3 / 5000, np.ones(2))
    assert (W[:, 1] > 0.9).all()


def test_a_bin_without_entries_takes_the_common_weights():
    rng = np.random.default_rng(0)
    e = rng.standard_normal((2, 3000)) * np.array([[1.0], [0.3]])
    G = stacking.error_sums(e, np.ones(3000), np.zeros(3000, int), 3)
    W = stacking.stacked_weights(G, np.full((3, 2), 0.5), 0.5, np.ones(3))
    np.testing.assert_allclose(W[1], W[2])
    np.testing.assert_allclose(W[1], W[0], atol=0.1)


def test_error_sums_add_up_over_sites():
    rng = np.random.default_rng(1)
    e, w, b = rng.standard_normal((3, 100)), rng.random(100), rng.integers(0, 4, 100)
    parts = [stacking.error_sums(e[:, s], w[s], b[s], 4) for s in (slice(30), slice(30, 100))]
    np.testing.assert_allclose(sum(parts), stacking.error_sums(e, w, b, 4))


def test_a_sensor_deviates_only_when_its_own_errors_say_so():
    rng = np.random.default_rng(2)
    sensor = np.repeat([0, 1, 2], [2000, 2000, 3])
    good = np.where(sensor == 1, 1, 0)  # sensor 1 is better served by the other candidate
    good[-3:] = 1  # so seems sensor 2, but by three readings only
    e = rng.standard_normal((2, len(sensor)))
    e[good, np.arange(len(sensor))] *= 0.1
    network = np.array([[0.5, 0.5]])
    W = stacking.local_weights(
        e, np.ones(len(sensor)), (sensor, np.zeros(len(sensor), int)), 3, network, np.array([0.5])
    )[:, 0]
    assert W[0, 0] > 0.8
    assert W[1, 1] > 0.8
    assert abs(W[2, 0] - 0.5) < 0.1
    np.testing.assert_allclose(W.sum(axis=1), 1)


@given(seeds, st.sampled_from([0.01, 0.1, 1.0, 5.0]))
def test_resolution_is_found(seed, step):
    rng = np.random.default_rng(seed)
    values = step * rng.integers(1, 500, 200) + 0.0
    values[0] = step  # so that no coarser step fits all
    values[1:8] = step * (2 * rng.integers(1, 9, 7) + 1)
    found = resolution(values)
    assert found >= step - 1e-12
    assert np.mean(np.abs(values / found - np.round(values / found)) < 1e-4) >= 0.98


def test_snapping_moves_by_at_most_its_width():
    x = np.linspace(-3, 3, 301)
    for width in SNAP_WIDTHS:
        moved = stacking.snap(x, 1.0, width)
        assert np.abs(moved - x).max() <= width + 1e-12
    np.testing.assert_array_equal(stacking.snap(x, 0.0, 0.5), x)
    np.testing.assert_array_equal(stacking.snap(x, 1.0, 0.5), np.round(x))


def test_width_is_chosen_by_absolute_error_without_hurting_squares():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 30, 4000) * 1.0
    near = truth + 0.1 * rng.standard_normal(4000)
    assert stacking.choose_width(near, 1.0, truth) >= 0.4
    far = truth + 3 * rng.standard_normal(4000)
    assert stacking.choose_width(far, 0.0, truth) == 0


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=9))
def test_every_group_of_bins_has_entries_enough(entries):
    groups = stacking.group_bins(np.array(entries, float))
    steps = np.diff(groups)
    assert groups[0] == 0
    assert ((steps == 0) | (steps == 1)).all()
    sizes = np.bincount(groups, weights=entries)
    assert (sizes >= 60).all() or len(sizes) == 1


def test_many_entries_keep_all_bins_apart():
    assert stacking.group_bins(np.full(9, 1000.0)).tolist() == list(range(9))


def test_default_weights_lie_on_the_simplex_and_go_from_near_to_far():
    W = stacking.default_weights(NAMES)
    np.testing.assert_allclose(W.sum(axis=1), 1)
    assert (W > 0).all()
    network = [n for n in range(len(NAMES)) if n not in (0, 1, 2, 3, 8)]
    assert W[-1, network].sum() > W[0, network].sum()


def test_a_few_spikes_do_not_change_the_resolution():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(500)
    assert resolution(values) == 0
    values[7] = 1e9
    assert resolution(values) == 0
    whole = rng.integers(0, 90, 500).astype(float)
    whole[7] = 1e9
    assert resolution(whole) == 1
