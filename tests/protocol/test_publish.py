"""What may be published: a function of the copies, whatever the readings are."""

from dataclasses import replace

import numpy as np
import pytest

from flfl import FLFL
from flfl.constants import PUBLISHED_DIGITS
from flfl.datasets.synthetic import synthesize
from flfl.model.transforms import BACKWARD
from flfl.protocol.added_error import AddedError
from flfl.protocol.copier import Copier
from flfl.protocol.finish import published
from flfl.protocol.owner import Owner, Table


@pytest.fixture(scope="module", params=["none", "sqrt", "log1p"])
def run(request):
    table, sensors = synthesize(6, 300, rank=2, rng=np.random.default_rng(0))
    model = FLFL(effort="quick", transformation=request.param)
    model.fit(table.values, sensors=sensors, sites=["a", "a", "b", "b", "c", "c"])
    return table, model.remembered_


def shown_by(network, ids, copies):
    return published(network, network.inferred.post, ids, copies)


def test_copies_stand_where_readings_are(run):
    table, remembered = run
    for kept in remembered.sites.values():
        shown = shown_by(remembered.network, kept.ids, kept.copies)
        there = np.isfinite(kept.copies)
        exact = BACKWARD[remembered.network.transform](kept.copies)
        np.testing.assert_allclose(shown[there], exact[there], rtol=10.0 ** (1 - PUBLISHED_DIGITS))
        np.testing.assert_array_equal(there.T, table.values[list(kept.ids)].notna())
        assert np.isfinite(shown).all()


def test_a_gap_is_filled_from_the_others_copies(run):
    table, remembered = run
    network = remembered.network
    kept = remembered.sites["b"]
    shown = shown_by(network, kept.ids, kept.copies)
    clean = table.values[list(kept.ids)].to_numpy().T
    gaps = np.isnan(clean)
    # The made-up fields are smooth in time: what lies beside a gap tells what is in it.
    guess = table.values[list(kept.ids)].interpolate(limit_direction="both").to_numpy().T
    spread = np.nanstd(clean)
    assert np.abs(shown - guess)[gaps].mean() < 0.6 * spread


def test_the_order_of_the_sensors_does_not_matter(run):
    _, remembered = run
    kept = remembered.sites["c"]
    back = replace(kept, ids=kept.ids[::-1], copies=kept.copies[::-1])
    one, two = (shown_by(remembered.network, k.ids, k.copies) for k in (kept, back))
    assert one.tobytes() == two[::-1].tobytes()


def test_a_sensor_that_stayed_at_home_is_not_published(run):
    _, remembered = run
    kept = remembered.sites["a"]
    copies = kept.copies.copy()
    copies[1] = np.nan
    shown = shown_by(remembered.network, kept.ids, copies)
    assert np.isnan(shown[1]).all()
    assert np.isfinite(shown[0]).all()


def test_equal_copies_give_equal_bytes(run):
    """Two owners with other readings, but with the same copies in their stores."""
    table, remembered = run
    network, kept = remembered.network, remembered.sites["b"]
    clean = table.values[list(kept.ids)].to_numpy().T
    rng = np.random.default_rng(2)
    worlds = [clean, np.abs(clean + rng.normal(0, 3, clean.shape)), np.full_like(clean, 7.0)]
    shown = set()
    for readings in worlds:
        given = Table(
            "b", kept.ids, np.nan_to_num(readings), ~np.isnan(clean), None,
            network.positions, kept.instants, remembered.step,
        )  # fmt: skip
        owner = Owner(given, Copier(rng.bytes(32), remembered.store("b")), AddedError())
        units = network.transform, network.season
        out = owner.copy(units, slice(0, network.n_slots), network.plan.added_error)
        shown.add(shown_by(network, kept.ids, out.copies).tobytes())
    assert len(shown) == 1
