"""The paper's method as an estimator: what it chooses, what it refuses, what it tells."""

import numpy as np
import pytest

from flfl import PaperFLFL
from flfl.errors import InputError

M, N = 6, 90


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    t = np.arange(N) / 8
    courses = np.stack([np.sin(t), np.cos(t), np.sin(t / 3)])
    X = (courses.T @ rng.standard_normal((3, M))) * 5 + 20 + 0.3 * rng.standard_normal((N, M))
    gaps = rng.random(X.shape) < 0.3
    return X, gaps


def fitted(table, **settings):
    X, gaps = table
    settings = {"rounds": 100} | settings
    return PaperFLFL(**settings).fit(np.where(gaps, np.nan, X))


def error(table, model):
    X, gaps = table
    return float(np.abs(model.estimates_ - X)[gaps].mean())


@pytest.mark.parametrize(
    ("given", "where", "why"),
    [
        ({"rule": "paper", "schedule": "synchronous"}, "schedule", "no derivative"),
        ({"learning_rate": 0.1}, "learning_rate", "follows from the curvature"),
        ({"rule": "paper", "momentum": 0.5}, "momentum", "no move of all"),
        ({"schedule": "prompt", "momentum": 0.0}, "momentum", "no move of all"),
        ({"momentum": 1.0}, "momentum", "less than 1"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(table, given, where, why):
    with pytest.raises(InputError, match=why) as refused:
        fitted(table, **given)
    assert refused.value.where.endswith(where)
    assert refused.value.remedy


def test_by_default_it_chooses_among_seven_and_says_so(table):
    model = fitted(table)
    assert "of 7" in model.traffic_.notes[0]
    assert model.traffic_.messages_down["start"] == 8 * len(set(model.partition_.sites))
    assert model.n_rounds_ == model.traffic_.rounds <= 100
    assert model.traffic_.bytes_up > 8 * N * model.setting_.rank * model.n_rounds_
    assert error(table, model) < 0.7 * error(table, fitted(table, rule="paper"))


def test_what_is_given_is_not_chosen(table):
    model = fitted(table, rank=M, spatial_weight=0.0)
    assert (model.setting_.rank, model.setting_.weights.spatial) == (M, 0.0)
    one = fitted(table, rank=2, ridge=0.1, spatial_weight=0.2, temporal_weight=0.3)
    assert one.traffic_.exchanges == fitted(table, rule="paper").traffic_.exchanges
    assert one.traffic_.messages_down["start"] == len(set(one.partition_.sites))


def test_the_printed_loop_lets_one_sensor_move_at_a_time(table):
    model = fitted(table, rule="paper", rounds=20)
    assert model.traffic_.messages_up["turn"] == M * model.n_rounds_
    assert "gradient" not in model.traffic_.messages_up
    # Each upload shows a number for every slot and factor.
    assert model.traffic_.numbers == M * model.n_rounds_ * N * model.setting_.rank


@pytest.mark.parametrize("shape", [(2, 1), (14, 3), (40, 1), (5, 8)])
def test_any_shape(shape):
    X = np.random.default_rng(1).random(shape)
    X[0, 0] = np.nan
    model = PaperFLFL(rounds=50).fit(X)
    assert np.isfinite(model.estimates_).all()


def test_nothing_varies():
    X = np.full((30, 4), 3.0)
    X[5:9, 2] = np.nan
    np.testing.assert_allclose(PaperFLFL(rounds=50).fit(X).estimates_, 3.0)
