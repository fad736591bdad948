"""Plain uploads give every reading away; sums do not."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from audit.real import masked
from flfl.audit.attacks import plain_inversion as attack
from flfl.paper.estimator import PaperFLFL
from flfl.paper.scaling import Scaling


def uploads_and_truth(X, sensors, rounds=6, **settings):
    model = PaperFLFL(rule="paper", rounds=rounds, **settings)
    uploads = attack.Recorder(rounds)
    model.fit(X, sensors=sensors, witness=uploads)
    values = X.to_numpy().T
    return uploads, Scaling.fit(values).apply(values), model.setting_.weights


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
    found = attack.score(attack.invert(uploads, w), truth)
    assert found["readings"] > 0.9 * (~np.isnan(truth)).sum()
    assert found["exposed"] == 1.0
    assert found["relative_error"] < 1e-8


def test_a_sum_of_two_sensors_is_not_inverted(small):
    uploads, truth, w = small
    turns = list(uploads.uploads)
    paired = {
        turn: [
            (eta, Q, G + other)
            for (eta, Q, G), (_, _, other) in zip(
                uploads.uploads[turn], uploads.uploads[turns[i - 1]], strict=True
            )
        ]
        for i, turn in enumerate(turns)
    }
    paired = replace(uploads, uploads=paired)
    found = attack.score(attack.invert(paired, w), truth)
    assert found["exposed"] < 0.1


@pytest.mark.slow
def test_beijing_at_half():
    X, sensors = masked("D3_beijing_pm25", 0.5)
    uploads, truth, w = uploads_and_truth(X, sensors)
    exact = attack.score(attack.invert(uploads, w), truth)
    assert exact["exposed"] >= 0.99
