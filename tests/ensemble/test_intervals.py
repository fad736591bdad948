"""Coverage of the intervals on data that was not used to calibrate them."""

import numpy as np
import pytest

from flfl.ensemble import intervals

SIZE = 4


def calibrate(features, error, bins, size, level=0.9, worth=None):
    worth = np.ones(len(error)) if worth is None else worth
    return intervals.calibrate(features, error, bins, size, level=level, worth=worth)


def draw(rng, n, noise):
    """Features, errors whose spread follows the first feature, and bins."""
    features = np.stack([rng.uniform(0.2, 3, n), rng.uniform(0, 1, n), np.ones(n)])
    bins = rng.integers(0, SIZE, n)
    return features, features[0] * (1 + bins) * noise(n), bins


def coverage(noise, level=0.9, seed=0):
    rng = np.random.default_rng(seed)
    calibration = calibrate(*draw(rng, 4000, lambda n: noise(rng, n)), SIZE, level=level)
    features, error, bins = draw(rng, 20_000, lambda n: noise(rng, n))
    low, high = intervals.interval(np.zeros(20_000), features, bins, calibration)
    return low, high, error, bins


@pytest.mark.parametrize(
    "noise",
    [
        lambda rng, n: rng.standard_normal(n),
        lambda rng, n: rng.standard_t(3, n),
        lambda rng, n: rng.exponential(1, n) - np.log(2),
    ],
    ids=["normal", "heavy tails", "skewed"],
)
def test_nine_of_ten_are_covered_in_every_bin(noise):
    low, high, error, bins = coverage(noise)
    inside = (low <= error) & (error <= high)
    assert 0.87 < inside.mean() < 0.93
    for b in range(SIZE):
        assert 0.86 < inside[bins == b].mean() < 0.94


def test_skewed_errors_get_skewed_intervals():
    low, high, error, _ = coverage(lambda rng, n: rng.exponential(1, n) - np.log(2))
    assert high.mean() > 2 * -low.mean()
    for miss in (error < low, error > high):
        assert 0.035 < miss.mean() < 0.065


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_other_levels(level):
    low, high, error, _ = coverage(lambda rng, n: rng.standard_normal(n), level)
    assert np.mean((low <= error) & (error <= high)) == pytest.approx(level, abs=0.03)


def test_wide_where_uncertain_and_around_the_estimate():
    c = intervals.Calibration(np.array([1.0]), np.array([0.2]), np.array([0.5]))
    low, high = intervals.interval(np.zeros(2), np.array([[1.0, 3.0]]), np.zeros(2, int), c)
    np.testing.assert_allclose(low, 0)  # a biased quantile does not push the estimate out
    np.testing.assert_allclose(high, [0.5, 1.5])


def test_a_bin_with_few_entries_borrows_from_the_next():
    rng = np.random.default_rng(0)
    e = np.r_[rng.standard_normal(1000), 50.0]
    bins = np.r_[np.zeros(1000, int), 1]
    c = calibrate(np.ones((1, 1001)), e, bins, 3)
    np.testing.assert_allclose(c.upper[1:], c.upper[0], rtol=0.05)


def test_nothing_held_out_gives_wide_finite_intervals():
    c = calibrate(np.ones((2, 0)), np.zeros(0), np.zeros(0, int), 3)
    low, high = intervals.interval(np.zeros(1), np.ones((2, 1)), np.array([2]), c)
    assert (low[0], high[0]) == (-3, 3)


def test_scale_coefficients_are_not_negative():
    rng = np.random.default_rng(1)
    F = rng.uniform(0, 1, (4, 300))
    found = calibrate(F, rng.standard_normal(300), np.zeros(300, int), 1)
    assert (found.coefficients >= 0).all()


def test_errors_that_come_in_runs_are_worth_less():
    """Coverage over many draws of 12 runs of 16 equal errors: too low if they count as 192."""
    rng = np.random.default_rng(0)
    inside = {1.0: [], 0.25: []}
    for _ in range(100):
        e = np.repeat(rng.standard_normal(12), 16)
        for worth, seen in inside.items():
            near, weight = np.zeros(192, int), np.full(192, worth)
            c = calibrate(np.ones((1, 192)), e, near, 1, worth=weight)
            new = rng.standard_normal(2000) / c.coefficients[0]
            seen.append(np.mean((c.lower[0] <= new) & (new <= c.upper[0])))
    told, untold = np.mean(inside[0.25]), np.mean(inside[1.0])
    assert untold < told
    assert abs(told - 0.9) < abs(untold - 0.9)


@pytest.mark.parametrize("n", [2, 5, 12])
def test_a_handful_of_errors_does_not_make_narrow_intervals(n):
    """A quantile that far out is not among them; all of one sign they would say nothing of half."""
    inside = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        error, more = rng.standard_normal(n), rng.standard_normal(50)
        c = calibrate(np.ones((1, n)), error, np.zeros(n, int), 1)
        low, high = intervals.interval(np.zeros(1), np.ones((1, 1)), np.zeros(1, int), c)
        inside.append(((low < more) & (more < high)).mean())
    assert np.mean(inside) > 0.88
