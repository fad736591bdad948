"""Energies that single sensors own tell when they observed; energies that all share do not."""

import numpy as np
import pytest

from audit.real import masked
from audit.watched import Watched
from flfl.audit.attacks import who_observed as attack


def windows(squares, seed=0, T=600, rate=0.5):
    rng = np.random.default_rng(seed)
    observed = rng.random((len(squares), T)) < rate
    strength = np.where(observed, 0.9, 0.1) + 0.05 * rng.standard_normal(observed.shape)
    return strength.T**2 @ squares, observed.sum(axis=0).astype(float), observed


def test_one_component_a_sensor_gives_the_gaps_away():
    squares = np.eye(6) + 0.05
    energy, counts, observed = windows(squares)
    found = attack.score(energy, squares, counts, observed)
    assert found["auc"].min() > 0.95
    assert (found["accuracy"] > found["base_rate"] + 0.3).all()
    assert found["counts"].max() < 0.8


def test_one_component_for_all_tells_no_more_than_counts():
    squares = np.ones((20, 1))
    energy, counts, observed = windows(squares)
    found = attack.score(energy, squares, counts, observed)
    assert np.median(found["auc"]) < 0.65
    assert np.median(found["auc"]) < np.median(found["counts"]) + 0.02


def test_auc_counts_ties_as_half():
    labels = np.array([True, False, True, False])
    assert attack.auc(np.ones(4), labels) == 0.5


@pytest.mark.slow
def test_beijing_at_half():
    X, sensors = masked("D3_beijing_pm25", 0.5)
    model = Watched(effort="quick").fit(X, sensors=sensors)
    energy = next(replies.total["energy"] for ask, replies in model.seen_ if ask.kind == "local")
    J, edges = model.stack("J"), model.windows_.edges
    observed = np.add.reduceat(J, edges[:-1], axis=1) > 0
    counts = np.add.reduceat(J.sum(axis=0), edges[:-1])
    found = attack.score(energy, model.stack("_turned") ** 2, counts, observed)
    # The energies do say who observed (that is why gaps count as public), though not surely.
    assert 0.5 < np.median(found["auc"]) < 0.95
    assert np.median(found["auc"]) > np.median(found["counts"])
