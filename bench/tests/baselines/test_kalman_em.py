"""The central Kalman-EM baseline."""

import numpy as np
import pandas as pd
import pytest

from flfl.datasets.catalogue import load_dataset
from flfl.errors import InputError
from flfl.estimators.interpolation import Interpolation as Linear
from flfl.evaluation import training_mask
from flfl_bench.baselines.kalman_em import KalmanEM


def correlated(seed=0, slots=400, sensors=6):
    """Readings (slots, sensors) that share most of their movement."""
    rng = np.random.default_rng(seed)
    walk = np.zeros((sensors + 2, slots))
    for t in range(1, slots):
        walk[:, t] = 0.9 * walk[:, t - 1] + 0.4 * rng.standard_normal(sensors + 2)
    mixed = rng.uniform(0.5, 1.5, (sensors, 2)) @ walk[:2] + 0.2 * walk[2:]
    return 20 + mixed.T, rng


def hidden(X, rng, rate=0.6):
    return np.where(rng.random(X.shape) < rate, np.nan, X)


def error(method, seen, X):
    gaps = np.isnan(np.asarray(seen))
    return np.abs(np.asarray(method.fit_transform(seen)) - X)[gaps].mean()


@pytest.mark.parametrize("pattern", ["scattered", "blocks"])
def test_beats_interpolation_where_sensors_are_alike(pattern):
    X, rng = correlated()
    seen = hidden(X, rng)
    if pattern == "blocks":
        seen = np.where(np.repeat(rng.random((20, 6)) < 0.4, 20, axis=0), np.nan, X)
    assert error(KalmanEM(), seen, X) < 0.7 * error(Linear(), seen, X)


def test_slots_that_nobody_observed_are_filled():
    X, rng = correlated()
    seen = hidden(X, rng)
    seen[100:110] = np.nan
    seen[[0, -1]] = np.nan
    model = KalmanEM().fit(seen)
    assert np.isfinite(model.estimates_).all()
    assert (model.lower_ <= model.estimates_).all()
    assert (model.estimates_ <= model.upper_).all()
    width = model.upper_ - model.lower_
    assert width[105].mean() > 1.3 * width[50:90].mean()


def test_is_deterministic_and_keeps_what_is_known():
    X, rng = correlated(slots=120)
    seen = hidden(X, rng)
    one, two = (KalmanEM().fit_transform(seen) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    known = ~np.isnan(seen)
    np.testing.assert_array_equal(one[known], X[known])


def test_intervals_cover():
    X, rng = correlated(slots=1500)
    X += 0.4 * rng.standard_normal(X.shape)
    seen = hidden(X, rng, 0.4)
    model, gaps = KalmanEM().fit(seen), np.isnan(seen)
    inside = (model.lower_ <= X) & (model.upper_ >= X)
    assert 0.86 < inside[gaps].mean() < 0.95


def test_a_season_is_found_and_used():
    X, rng = correlated(slots=960)
    X += np.tile(3 * rng.random((24, 6)), (40, 1))  # a day of its own for each sensor
    seen = pd.DataFrame(hidden(X, rng), index=pd.date_range("2020-01-01", periods=960, freq="h"))
    seen.columns = [f"s{n}" for n in range(6)]
    assert error(KalmanEM(), seen, X) < 0.7 * error(KalmanEM(season=0), seen, X)


def test_skewed_readings_are_transformed_and_never_negative():
    X, rng = correlated()
    X = np.maximum(X - 18, 0) ** 2
    seen = hidden(X, rng)
    model = KalmanEM().fit(seen)
    assert (model.lower_ >= 0).all()
    assert error(KalmanEM(), seen, X) < error(KalmanEM(transformation="none"), seen, X)


def test_odd_tables():
    constant = np.full((20, 3), 7.0)
    constant[3, 1] = np.nan
    np.testing.assert_allclose(KalmanEM().fit_transform(constant), 7.0)
    empty = np.column_stack([np.arange(20.0), np.full(20, np.nan)])
    model = KalmanEM().fit(empty)
    assert np.isnan(model.estimates_[:, 1]).all()
    assert np.isnan(model.lower_[:, 1]).all()
    assert np.isfinite(model.upper_[:, 0]).all()


@pytest.mark.parametrize("wrong", [{"iterations": 0}, {"transformation": "cube"}, {"season": -1}])
def test_parameters_are_checked(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        KalmanEM(**wrong).fit(np.arange(20.0).reshape(10, 2))


@pytest.mark.slow
def test_reaches_the_published_bar_on_sea_surface_temperature():
    try:
        table, sensors = load_dataset("D2_sst_70x1733")
    except InputError:
        pytest.skip("the data set is not here")
    known = training_mask(table, sensors, 0.5, "random", 0).T
    model = KalmanEM().fit(table.values.where(known), sensors=sensors)
    gaps = table.known & ~known
    mae = np.abs(model.estimates_ - table.values.to_numpy())[gaps].mean()
    assert mae < 1.05 * 0.108
