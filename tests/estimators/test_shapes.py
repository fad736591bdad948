"""Tables of every shape run with the defaults, without a warning."""

import numpy as np
import pandas as pd
import pytest

from flfl import FLFL
from flfl.io.sensors import Sensors


def readings(m, n, missing, seed=0):
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((n, 3)).cumsum(axis=0) * 0.3
    X = 20 + q @ rng.standard_normal((3, m)) + rng.standard_normal((n, m))
    X[rng.random((n, m)) < missing] = np.nan
    return X


def places(m, seed=0):
    at = np.random.default_rng(seed).uniform(0, 100, (m, 2))
    return Sensors(tuple(str(i) for i in range(m)), at, "planar")


def fitted(X, **how):
    sites = how.pop("sites", [f"owner {i % 4}" for i in range(X.shape[1])])
    model = FLFL(effort="quick", **{"secure": False} | how).fit(X, sites=sites)
    seen = ~np.isnan(X).all(axis=0)
    for name in ("estimates_", "lower_", "upper_"):
        assert np.isfinite(getattr(model, name)[:, seen]).all(), name
    return model


@pytest.mark.parametrize(
    ("m", "n", "missing"),
    [
        (3, 50, 0.1), (3, 50, 0.0), (1, 200, 0.3), (2, 120, 0.3), (6, 14, 0.2), (4, 2, 0.0),
        (6, 450, 0.0), (60, 40, 0.1), (12, 240, 0.9),
    ],
)  # fmt: skip
def test_shapes(m, n, missing):
    model = fitted(readings(m, n, missing))
    assert model.estimates_.shape == (n, m)
    assert model.added_error_.shape == (m,)


@pytest.mark.parametrize("added", [0.0, 1.0, "2 ug/m3"])
def test_odd_sensors(added):
    """Constant ones, one without readings, one with few, whole numbers, a spike to begin with."""
    X = readings(10, 300, 0.2)
    X[:, 0] = 7.0
    X[:, 1] = np.where(np.isnan(X[:, 1]), np.nan, 0.0)
    X[:, 2] = np.nan
    X[60:, 3] = np.nan
    X[:, 4] = np.round(X[:, 4])
    X[0, 5] = 1e6
    X[:, 6] = -X[:, 6]
    model = fitted(X, added_error=added)
    assert np.isnan(model.estimates_[:, 2]).all()
    assert np.isnan(model.added_error_[2])
    if added == 1.0:
        home = np.isnan(model.added_error_)
        assert home.tolist() == [i in (0, 1, 2, 3) for i in range(10)]
        assert model.added_error_[4] >= 1  # not below the resolution
    if isinstance(added, str):
        there = np.isfinite(model.added_error_)
        assert (model.added_error_[there] >= 2).all()


def test_all_sensors_constant():
    for added in (0.0, 1.0):
        model = fitted(np.tile([1.0, 2.0, 3.0, 4.0], (150, 1)), added_error=added)
        np.testing.assert_allclose(model.estimates_, np.tile([1.0, 2.0, 3.0, 4.0], (150, 1)))


@pytest.mark.parametrize("where", ["one place", "pairs", "map"])
def test_places(where):
    X, sensors = readings(8, 150, 0.3), places(8)
    at = sensors.coordinates.copy()
    at = {"one place": np.ones_like(at), "pairs": at[[0, 0, 2, 2, 4, 4, 6, 6]], "map": at}[where]
    described = Sensors(sensors.ids, at, sensors.kind)
    model = FLFL(effort="quick", secure=False).fit(
        X, sensors=described, sites=[f"owner {i % 4}" for i in range(8)]
    )
    assert np.isfinite(model.estimates_).all()
    assert model.network_.z.any()


def test_every_sensor_its_own_owner():
    X = readings(5, 200, 0.3)
    model = fitted(X, sites=[f"owner {i}" for i in range(5)], secure=True)
    assert model.secure_
    assert np.isfinite(model.added_error_).all()


def test_added_error_is_in_the_readings_units():
    """Units of a thousand: a thousand times the added error."""
    X = readings(8, 200, 0.2)
    how = {"transformation": "none", "pilot": False}
    one, thousand = fitted(X, **how), fitted(1000 * X, **how)
    ratio = thousand.added_error_ / one.added_error_
    assert ((ratio > 840) & (ratio < 1190)).all()  # up to a rung of the ladder


def test_readings_of_any_unit_give_the_same_result():
    X = readings(8, 200, 0.3)
    truth = readings(8, 200, 0.0)
    error = [
        np.abs(fitted(unit * X, transformation="none").estimates_ / unit - truth)[
            np.isnan(X)
        ].mean()
        for unit in (1.0, 1e-12, 1e9)
    ]
    assert max(error) < 1.1 * min(error)


def test_times_give_the_same_copies_whatever_rows_come_before():
    """Copies belong to instants: a table that begins a day later has the same ones."""
    index = pd.date_range("2024-01-01", periods=400, freq="h")
    X = pd.DataFrame(readings(6, 400, 0.1), index=index)
    sites = [f"owner {i % 3}" for i in range(6)]
    model = FLFL(effort="quick", secure=False, pilot=False, transformation="none", season=0)
    kept = []
    for part in (X, X.iloc[24:]):
        model.fit(part, sites=sites)
        kept.append(model.remembered_.sites["owner 0"])
    np.testing.assert_array_equal(kept[0].instants[24:], kept[1].instants)
    if np.array_equal(np.nanmax(kept[0].sigmas, axis=1), np.nanmax(kept[1].sigmas, axis=1)):
        # The first copies are limited by others that came before; later ones are the same.
        same = kept[0].copies[:, 24:] == kept[1].copies
        assert same[np.isfinite(kept[1].copies)].mean() > 0.9
