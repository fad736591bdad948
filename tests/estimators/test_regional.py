"""Regions with shared edges: the same copies everywhere, and one result."""

import numpy as np
import pytest

from flfl import FLFL, RegionalFLFL
from flfl.datasets.masks import hide
from flfl.datasets.synthetic import synthesize
from flfl.errors import InputError
from flfl.estimators.regional import cut, with_edge

QUICK = {"effort": "quick", "secure": False}


@pytest.fixture(scope="module")
def network():
    rng = np.random.default_rng(4)
    table, sensors = synthesize(24, 240, missing=0.1, rng=rng)
    known = table.values.notna().to_numpy().T
    kept = hide(known, 0.8, "block", rng, block_length=12)
    owners = [f"owner {n % 6}" for n in range(24)]
    return table.values, kept, known & ~kept, sensors.with_sites(owners)


@pytest.fixture(scope="module")
def regional(network):
    X, kept, _, sensors = network
    model = RegionalFLFL(**QUICK, region_size=12, edge=0.3)
    return model.fit(X.where(kept.T), sensors=sensors)


def test_regions_are_small_whole_and_overlap_at_their_edges():
    plane = np.random.default_rng(0).random((333, 2))
    regions = cut(plane, 50)
    np.testing.assert_array_equal(np.sort(np.concatenate(regions)), np.arange(333))
    assert max(map(len, regions)) <= 50
    for rows in regions:
        wide = with_edge(plane, rows, 0.2)
        assert set(rows) < set(wide)
        assert len(wide) == len(rows) + np.ceil(0.2 * len(rows))
        added, rest = np.setdiff1d(wide, rows), np.setdiff1d(np.arange(333), wide)
        low, high = plane[rows].min(axis=0), plane[rows].max(axis=0)
        away = np.linalg.norm(np.maximum(np.maximum(low - plane, plane - high), 0), axis=1)
        assert away[added].max() <= away[rest].min()


def test_an_owners_store_gives_a_second_network_the_copies_of_the_first(network):
    X, kept, _, sensors = network
    Y = X.where(kept.T).to_numpy().T
    stores, told = {}, []
    for rows in (np.arange(15), np.arange(9, 24)):
        part = RegionalFLFL(**QUICK, transformation="none", season=0)
        part._fit(X.iloc[:, rows], sensors.subset(rows), None, None, lambda *a: a[0])
        part._estimate(Y[rows], np.arange(240.0), sensors.subset(rows), finish=False, stores=stores)
        told.append({
            name: dict(zip(kept_.ids, kept_.copies, strict=True))
            for name, kept_ in part.remembered_.sites.items()
        })  # fmt: skip
    common = [
        (told[0][owner][i], told[1][owner][i])
        for owner in told[0]
        for i in set(told[0][owner]) & set(told[1][owner])
    ]
    assert len(common) == 6
    for one, other in common:
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_regions_do_nearly_as_well_as_one_network(network, regional):
    X, kept, hidden, sensors = network
    assert len(regional.networks_) == 2
    assert regional.added_error_.shape == (24,)
    whole = FLFL(**QUICK).fit(X.where(kept.T), sensors=sensors)
    truth = X.to_numpy()
    errors = [np.abs(model.estimates_ - truth)[hidden.T].mean() for model in (whole, regional)]
    linear = X.where(kept.T).interpolate(limit_direction="both").to_numpy()
    assert errors[1] < 1.15 * errors[0]
    assert errors[1] < 0.6 * np.abs(linear - truth)[hidden.T].mean()
    assert np.isfinite(regional.estimates_).all()
    assert (regional.lower_ <= regional.upper_).all()


def test_a_small_network_is_one_region(network):
    X, kept, _, sensors = network
    one, other = (
        model.fit(X.where(kept.T), sensors=sensors, finish=False)
        for model in (RegionalFLFL(**QUICK), FLFL(**QUICK))
    )
    np.testing.assert_array_equal(one.networks_[0].z, other.network_.z)


def test_regions_have_no_warm_start(network):
    X, _, _, sensors = network
    small = FLFL(**QUICK).fit(X.iloc[:100], sensors=sensors, finish=False)
    with pytest.raises(InputError, match="earlier run"):
        RegionalFLFL(region_size=12).fit(X, sensors=sensors, warm_start=small.remembered_)
