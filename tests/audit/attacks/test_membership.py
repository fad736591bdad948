"""Factors remember whom they were learned from, the more the more of them there are."""

import numpy as np
import pytest

from audit.real import masked
from flfl.audit.attacks import membership as attack
from flfl.estimators.dynamic import FLFL


def network(M=20, N=400, seed=0):
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((2, N)).cumsum(axis=1) / 8
    return rng.standard_normal((M, 2)) @ common + rng.standard_normal((M, N))


def factors(members, rank):
    """Leading principal components of the members' series: (N, rank)."""
    _, size, rows = np.linalg.svd(
        members - members.mean(axis=1, keepdims=True), full_matrices=False
    )
    return (size[:rank, None] * rows[:rank]).T


def test_as_many_factors_as_members_remember_them():
    Y = network()
    found = attack.score(Y[:10], Y[10:], factors(Y[:10], 10))
    assert found["level"] == 1.0
    assert found["changes"] == 1.0


def test_factors_of_other_sensors_tell_nothing():
    Y = network(M=180)
    found = attack.score(Y[:60], Y[60:120], factors(Y[120:], 4))
    # Three standard errors of an AUC from 60 against 60.
    assert abs(found["level"] - 0.5) < 0.16
    assert abs(found["changes"] - 0.5) < 0.16


def test_fewer_factors_remember_less_but_changes_still_show():
    Y = network(M=120)
    few, many = (attack.score(Y[:60], Y[60:], factors(Y[:60], k)) for k in (2, 30))
    assert few["level"] < 0.7 < many["level"]
    assert 0.7 < few["changes"] < many["changes"]


def test_gaps_in_the_candidate_are_allowed():
    Y = network()
    m = factors(Y[:10], 10)
    Y[:, ::3] = np.nan
    assert attack.score(Y[:10], Y[10:], m)["level"] > 0.95


@pytest.mark.slow
def test_beijing_at_half_each_sensor_once_in_and_once_out():
    X, sensors = masked("D3_beijing_pm25", 0.5)
    Y, inside = X.to_numpy().T, np.arange(X.shape[1]) % 2 == 0

    def pooled(**settings):
        runs = []
        for chosen in (inside, ~inside):
            model = FLFL(effort="quick", **settings)
            model.fit(X.loc[:, chosen], sensors=sensors.subset(chosen))
            roots = np.sqrt(np.maximum(Y, 0))
            runs.append((roots[chosen], roots[~chosen], model.remembered_.published.state.m))
        return attack.pooled_score(runs)

    trusted, guarded = pooled(max_exposure=1, rank=16), pooled()
    assert trusted["changes"] > 0.9
    assert guarded["changes"] < trusted["changes"]
