"""At home: what the owner's own part of a release is, and what held-out readings may know."""

import numpy as np
import pytest

from flfl import FLFL
from flfl.datasets.synthetic import synthesize
from flfl.protocol.finish import Effort, finish_at_home, own_part
from flfl.protocol.owner import Table

SITES = ["a", "a", "b", "b", "c", "c"]


@pytest.fixture(scope="module")
def fitted():
    table, sensors = synthesize(6, 300, missing=0.2, rng=np.random.default_rng(3))
    model = FLFL(effort="quick", pilot=False).fit(table.values, sensors=sensors, sites=SITES)
    return table, model


def _table(table, model, name):
    at = model.partition_.members[name]
    raw = table.values.to_numpy(dtype=float).T[at]
    kept = model.remembered_.sites[name]
    places = model.network_.places[model.network_.rows(name)]
    return Table(
        name, kept.ids, raw, np.isfinite(raw), places, np.arange(300.0), kept.instants, 3600
    )


def test_a_site_that_was_away_takes_its_own_part_off_the_sums(fitted):
    # With its store it comes to what it would have got in the run; without, its copies stay in.
    _, model = fitted
    network, own = model.network_, _table(*fitted, "b")
    effort, units = Effort(boost=False), network.plan.units()
    part = own_part(own, network, model.remembered_.store("b"))
    assert part is not None
    away = finish_at_home(own, effort, units, network, part)
    np.testing.assert_array_equal(part.rows, network.rows("b"))
    blind = finish_at_home(own, effort, units, network)
    assert not np.array_equal(away.estimate, blind.estimate)


def test_own_part_is_none_for_sensors_that_are_not_in_the_release(fitted):
    _, model = fitted
    other = _table(*fitted, "b")
    stranger = Table(
        "x", ["new-1", "new-2"], other.raw, other.known, None, other.positions, other.instants
    )
    assert own_part(stranger, model.network_, model.remembered_.store("b")) is None


def test_the_held_out_readings_do_not_reach_what_they_are_judged_by():
    # Poison: other values in the held-out entries leave every estimate of them as it was.
    rng = np.random.default_rng(0)
    t = np.arange(480.0)
    raw = 10 + np.cos(2 * np.pi * t / 24) + 0.3 * rng.standard_normal((2, 480))
    known = rng.random(raw.shape) < 0.3
    instants = 3600 * np.arange(480)
    table = Table("a", ["p", "q"], raw, known, None, t, instants)
    effort, units = Effort(boost=False, period=24), [("none", 24)]
    first = finish_at_home(table, effort, units)
    held = np.isfinite(first.holdout)
    assert held.any()
    assert (held <= known).all()
    rows, slots = np.nonzero(held)
    moved = raw.copy()
    moved[rows[0], slots[0]] += 0.7
    second = finish_at_home(Table("a", ["p", "q"], moved, known, None, t, instants), effort, units)
    same = held.copy()
    same[rows[0], slots[0]] = False
    # Weights follow all held-out readings a little; the candidates themselves do not.
    assert np.abs(first.holdout - second.holdout)[same].max() < 0.1
