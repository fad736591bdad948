"""``fedice``: regressions on the slots around a gap, averaged over the clients."""

import numpy as np

from flfl_bench.baselines.fedice import FedICE, _features, _ridges


def test_a_client_finds_the_coefficients_that_made_its_series():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2, 500))
    features = _features(Z, [-1, 1])
    y = 0.3 * features[0] + 0.6 * features[1] - 0.1
    known = rng.random(Z.shape) < 0.5
    found = _ridges(features, y, known, 1e-9)
    np.testing.assert_allclose(found, [[0.3, 0.6, -0.1]] * 2, atol=1e-6)


def test_at_the_ends_the_last_slot_is_repeated():
    before, after, one = _features(np.array([[1.0, 2.0, 3.0]]), [-1, 1])
    assert before.tolist() == [[1.0, 1.0, 2.0]]
    assert after.tolist() == [[2.0, 3.0, 3.0]]
    assert one.tolist() == [[1.0, 1.0, 1.0]]


def test_coefficients_are_weighted_by_readings_and_alone_they_travel():
    t = np.arange(400.0)
    X = np.column_stack([np.sin(t / 7), np.sin(t / 3)])
    X[50:, 1] = np.nan
    model = FedICE(reach=1, rounds=3).fit(X)
    # Two lags and a constant; up with the number of readings.
    assert model.traffic_.bytes_down == 3 * 2 * 4 * 3
    assert model.traffic_.bytes_up == 3 * 2 * 4 * 4
    alone = FedICE(reach=1, rounds=3).fit(X[:, :1])
    shift = np.abs(model.estimates_[:, 0] - alone.estimates_[:, 0]).max()
    assert 0 < shift < 0.2


def test_estimates_stay_within_what_the_sensor_has_read():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 3))
    X[rng.random(X.shape) < 0.6] = np.nan
    estimates = FedICE(reach=4, rounds=50).fit(X).estimates_
    assert (estimates <= np.nanmax(X, axis=0)).all()
    assert (estimates >= np.nanmin(X, axis=0)).all()
