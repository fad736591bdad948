"""Plain uploads give every reading away; sums do not."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from audit.real import masked
from flfl.audit.attacks import plain_inversion as attack
from flfl.paper.estimator import PaperFLFL
from flfl.paper.objective import Weights
from flfl.paper.scaling import Scaling


def weights(model):
    return Weights(model.ridge, model.spatial_weight, model.temporal_weight)


def uploads_and_truth(X, sensors, rounds=6, **settings):
    model = PaperFLFL(rounds=rounds, **settings)
    uploads = attack.record(partial(model.fit, X, sensors=sensors), rounds)
    values = X.to_numpy().T
    return uploads, Scaling.fit(values).apply(values), weights(model)


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(0)
    X = rng.gamma(2.0, 10.0, (150, 1)) + rng.gamma(2.0, 5.0, (150, 8)).cumsum(axis=0) % 40
    X[rng.random(X.shape) < 0.4] = np.nan
    X = pd.DataFrame(X, columns=[f"s{i}" for i in range(8)])
    places = pd.DataFrame({"x": rng.random(8), "y": rng.random(8)}, index=X.columns)
    return uploads_and_truth(X, places, rank=4, n_regions=2)


def test_every_uploaded_reading_is_recovered(small):
    uploads, truth, w = small
    found = attack.score(attack.invert(uploads, w).readings, truth)
    assert found["readings"] > 0.9 * (~np.isnan(truth)).sum()
    assert found["exposed"] == 1.0
    assert found["relative_error"] < 1e-8


def test_the_regulariser_rows_are_found_without_coordinates(small):
    uploads, _, w = small
    rows = attack.invert(uploads, w).rows
    sites = [site for site, _ in uploads.turns]
    # z1 L L^T is symmetric, and lives inside a site.
    np.testing.assert_allclose(rows, rows.T, atol=1e-6)
    assert np.abs(rows[np.equal.outer(sites, sites)]).max() > 0.01


def test_a_sum_of_two_sensors_is_not_inverted(small):
    uploads, truth, w = small
    paired = replace(uploads, G=uploads.G + np.roll(uploads.G, 1, axis=1))
    found = attack.score(attack.invert(paired, w).readings, truth)
    assert found["exposed"] < 0.1


@pytest.mark.slow
def test_beijing_at_half():
    X, sensors = masked("D3_beijing_pm25", 0.5)
    uploads, truth, w = uploads_and_truth(X, sensors)
    exact = attack.score(attack.invert(uploads, w).readings, truth)
    assert exact["exposed"] >= 0.99
