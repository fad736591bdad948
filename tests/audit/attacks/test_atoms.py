"""Securely summed per-slot sums still give the readings away, unless everyone is in them."""

import numpy as np
import pytest

from audit.real import masked
from flfl.audit.attacks import atoms as attack
from flfl.data.scaling import Scaling


def network(rate, seed=0, M=9, N=400):
    rng = np.random.default_rng(seed)
    common = rng.gamma(1.0, 1.0, N).cumsum() % 7
    Y = common + rng.gamma(1.0, 1.0, (M, N))
    Y[rng.random(Y.shape) > rate] = np.nan
    return Scaling.fit(Y).apply(Y), rng


@pytest.mark.parametrize(("rank", "rate"), [(4, 0.1), (6, 0.2)])
def test_sparse_slots_give_every_reading_away(rank, rate):
    Z, rng = network(rate)
    H, h = attack.naive_run(Z, ~np.isnan(Z), rank, 5, rng)
    _, series = attack.decode(H, h)
    found = attack.score(series, Z)
    assert found["atoms"] == len(Z)
    assert found["exposed"] > 0.95


def test_sums_over_everyone_give_nothing():
    Z, rng = network(1.0)
    H, h = attack.naive_run(Z, ~np.isnan(Z), 6, 3, rng)
    atoms, series = attack.decode(H, h)
    assert len(atoms) == 0
    assert attack.score(series, Z)["exposed"] == 0.0


def test_crowded_slots_are_decoded_into_members_by_whole_numbers():
    rng = np.random.default_rng(3)
    atoms = rng.standard_normal((5, 3))
    inside = rng.random((40, 5)) < 0.7
    H = np.einsum("tn,nk,nl->tkl", inside.astype(float), atoms, atoms)
    np.testing.assert_array_equal(attack.members(H, atoms), inside)


@pytest.mark.slow
def test_beijing_at_a_tenth():
    X, _ = masked("D3_beijing_pm25", 0.1)
    values = X.to_numpy().T
    Z = Scaling.fit(values).apply(values)
    H, h = attack.naive_run(Z, ~np.isnan(Z), 10, 8, np.random.default_rng(0))
    _, series = attack.decode(H, h)
    assert attack.score(series, Z)["exposed"] >= 0.95
