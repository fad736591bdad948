"""``idw``: weights by distance, deviations rather than levels."""

import numpy as np
import pandas as pd
import pytest

from flfl_bench.baselines.idw import IDW
from flfl_bench.maths.graphs import inverse_distances


def test_the_formula_by_hand():
    places = pd.DataFrame({"x": [0.0, 1.0, 3.0], "y": 0.0}, index=["a", "b", "c"])
    X = pd.DataFrame({"a": [1.0, 3.0, np.nan], "b": [10.0, 14.0, 18.0], "c": [5.0, 5.0, 11.0]})
    # Means 2, 14, 7; deviations 4 and 4 at distances 1 and 3, then -4 and -2.
    estimates = IDW(power=2).fit(X, sensors=places).estimates_[:, 0]
    assert estimates[2] == pytest.approx(2 + (4 / 1 + 4 / 9) / (1 + 1 / 9))
    assert estimates[0] == pytest.approx(2 + (-4 / 1 - 2 / 9) / (1 + 1 / 9))


def test_nobody_observed_leaves_the_own_mean():
    X = np.array([[1.0, 5.0], [np.nan, np.nan], [3.0, 9.0]])
    np.testing.assert_allclose(IDW().fit(X).estimates_[1], [2.0, 7.0])


def test_without_places_all_others_weigh_the_same():
    X = np.array([[0.0, 0.0, 0.0], [np.nan, 2.0, 6.0], [0.0, -2.0, -6.0]])
    assert IDW(power=4).fit(X).estimates_[1, 0] == pytest.approx(4.0)


@pytest.mark.parametrize("power", [0.0, 2.0, 50.0])
def test_sensors_on_one_spot_have_finite_weights(power):
    places = np.array([[0.0, 0.0], [0.0, 0.0], [5.0, 5.0]])
    W = inverse_distances(places, "metric", power, size=3)
    assert np.isfinite(W).all()
    assert W[0, 1] >= W[0, 2] > 0
