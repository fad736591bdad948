"""The public state: what anybody holds of a network, how it grows, and its flat form."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flfl.errors import InputError
from flfl.model import loadings
from flfl.model.transforms import season_rows
from flfl.protocol import network as net
from flfl.protocol.network import OFFSETS, Facts
from flfl.protocol.owner import digests
from flfl.protocol.plan import Plan
from flfl.protocol.schema import (
    facts_from_wire,
    facts_to_wire,
    network_from_arrays,
    network_to_arrays,
)
from worlds import BOX, NAMES, PLAN, TARGET, Federation, federation, owner, table

PLAIN = replace(PLAN, pilot=0.0)


def facts(names, L, seed=0, missing=0.2, shift=0.0):
    """Made-up facts of some sensors."""
    m, rng = len(names), np.random.default_rng(seed)
    sensors = digests(names)
    places = np.random.default_rng([s % 2**32 for s in sensors[:, 0].tolist()] or [0])
    return Facts(
        sensors, places.uniform(0, 10, (m, 2)), np.full(m, 1.0), np.full(m, 1.0), np.full(m, 4.0),
        shift * rng.standard_normal((m, OFFSETS)), rng.random((m, L)) >= missing,
    )  # fmt: skip


def sites(L, seed=0, **how):
    return {
        "a": facts(["a0", "a1", "a2"], L, seed, **how),
        "b": facts(["b0", "b1"], L, seed + 1, **how),
        "c": facts(["c0", "c1"], L, seed + 2, **how),
    }


def founded(L=80, plan=PLAIN, **how):
    return net.found(plan, sites(L, **how), ("none", 0), np.arange(300.0))


def with_z(network, seed=0):
    sums = np.random.default_rng(seed).standard_normal(network.numbers[network.last].sum())
    return net.with_release(network, sums, network.names)


def same(one, other):
    mine, theirs = network_to_arrays(one), network_to_arrays(other)
    return all(np.array_equal(mine[name], theirs[name]) for name in mine)


# --- flat arrays


def test_a_network_comes_back_from_its_arrays():
    network = federation(n=440).carry().network
    arrays = network_to_arrays(network)
    back = network_from_arrays(arrays, network.plan)
    assert same(back, network)
    assert back.digest == network.digest
    assert back.names == network.names
    np.testing.assert_array_equal(back.known, network.known)
    np.testing.assert_array_equal(back.z, network.z)
    np.testing.assert_array_equal(back.phi, network.phi)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_damaged_arrays_are_refused_or_make_a_sound_network(seed):
    rng, network = np.random.default_rng(seed), NETWORK
    arrays = {name: array.copy() for name, array in network_to_arrays(network).items()}
    name = str(rng.choice(sorted(arrays)))
    array = arrays[name]
    way = rng.integers(4)
    if way == 0 and array.ndim:
        arrays[name] = array[: rng.integers(max(len(array), 1))]
    elif way == 1:
        arrays[name] = np.append(array, array.ravel()[:1])
    elif way == 2:
        del arrays[name]
    elif array.size:
        wrong = [1e300, -1e40, 0.0, np.nan] if array.dtype.kind == "f" else [-1, 2**62, 65]
        array.flat[rng.integers(array.size)] = rng.choice(wrong)
    try:
        back = network_from_arrays(arrays, network.plan)
    except InputError as error:
        assert "damaged" in str(error)  # noqa: PT017
        return
    post = with_z(net.extend(back, sites(10, 5))).inferred.post
    assert np.isfinite(post.mean).all()


def test_facts_come_back_from_the_wire():
    made = facts(["x", "y"], 100, shift=1.0)
    back = facts_from_wire(facts_to_wire(made), 100)
    for name, value in vars(made).items():
        np.testing.assert_array_equal(getattr(back, name), value)


# --- who takes part


def test_newcomers_come_last_and_leavers_stay_in_the_past():
    first = with_z(founded())
    then = sites(40, 7)
    del then["a"]
    then["b"] = facts(["b9", "b0", "b1"], 40, 3)  # a new sensor, named first
    then["d"] = facts(["d0"], 40, 4)
    grown = net.extend(first, then)
    assert grown.names == ("b", "c", "d")
    assert grown.n_slots == 120
    np.testing.assert_array_equal(grown.sensors[:7], first.sensors)
    assert (grown.site[:3] == -1).all()
    np.testing.assert_array_equal(grown.rows("b"), [7, 3, 4])
    np.testing.assert_array_equal(grown.known[grown.rows("b"), 80:], then["b"].known)
    assert not grown.known[7:, :80].any()
    assert not grown.known[:3, 80:].any()
    assert grown.P.shape == (9, first.P.shape[1])
    np.testing.assert_array_equal(grown.P[:7], first.P)
    # More sensors allow for more numbers a slot; none were released before.
    np.testing.assert_array_equal(grown.z[:80], np.pad(first.z, ((0, 0), (0, 1))))


def test_the_basis_of_those_who_were_there_does_not_change_when_others_join():
    first = with_z(founded())
    crowd = facts([f"x{i}" for i in range(30)], 40)
    crowd = {"x": replace(crowd, places=np.full((30, 2), 5.0), error=np.full(30, 9.0))}
    grown = net.extend(first, sites(40, 7) | crowd)
    np.testing.assert_array_equal(grown.phi[:7, :3], first.phi)
    # Nor where there was no map to begin with.
    one_place = {k: replace(f, places=np.zeros_like(f.places)) for k, f in sites(80).items()}
    blind = net.found(PLAIN, one_place, ("none", 0), np.arange(300.0))
    signs = net.extend(blind, sites(40, 7) | {"x": facts([f"x{i}" for i in range(30)], 40)})
    np.testing.assert_array_equal(signs.phi[:7, :3], blind.phi)
    # What a sensor weighs in sums that were made stays, too.
    np.testing.assert_array_equal(grown.weights[:7], first.weights)
    assert set(np.unique(signs.phi)) <= {-1.0, 1.0}
    back = network_from_arrays(network_to_arrays(with_z(blind)), PLAIN)
    np.testing.assert_array_equal(back.phi, blind.phi)


def test_an_owner_that_adds_a_sensor_before_the_others_gets_its_own_numbers():
    """Rows are matched by name, whatever the order of the owner's table."""
    tables = {name: table(name, n=200) for name in NAMES}
    run = Federation(tables, PLAIN, secure=False).carry()
    longer = {name: table(name, n=300) for name in NAMES}
    t = longer[TARGET]
    more = table("z", m=1, n=300)
    longer[TARGET] = replace(
        t, ids=["z0", *t.ids], raw=np.vstack([more.raw, t.raw]),
        known=np.vstack([more.known, t.known]), places=np.vstack([more.places, t.places]),
    )  # fmt: skip
    night = Federation(longer, PLAIN, secure=False, stores=run.stores, earlier=run.network)
    network = night.carry().network
    np.testing.assert_array_equal(network.rows(TARGET), [8, 2, 3])
    part = own_part(night, TARGET, network)
    others = sum(own_part(night, name, network) for name in NAMES if name != TARGET)
    np.testing.assert_allclose((part + others)[200:], network.z[200:], atol=1e-8)


# --- the release


def own_part(run, name, network):
    """A site's part of the release with its centre and season as they are now."""
    client, N = run.client(name), network.n_slots
    rows, season = network.rows(name), season_rows(network.positions, network.season)
    C = (client.outgoing.copies[:, :N] - client.state.offsets @ season[:, :N]) / network.scale
    C = np.where(network.known[rows], np.nan_to_num(C), 0.0)
    return loadings.released(C, network.weights[rows], network.phi[rows], network.numbers)


@pytest.mark.parametrize("units", [("none", 0), ("sqrt", 24)])
def test_a_pilot_s_release_is_moved_to_the_centre_and_season_of_all_copies(units):
    plan = Plan(transform=units[0], season=units[1], rank=4, rounds=2, box=BOX)
    run = federation(n=440, plan=plan).carry()
    network = run.network
    assert len(network.stops) == 2
    expected = sum(own_part(run, name, network) for name in NAMES)
    np.testing.assert_allclose(network.z, expected, atol=1e-7)  # sums are in fixed point


def test_two_stretches_moved_are_one_stretch_with_the_last_offsets():
    rng, network = np.random.default_rng(0), founded()
    rows = season_rows(network.positions, 0)[:, :80]
    copies = 5 + rng.standard_normal((7, 80))
    before, after = rng.standard_normal((2, 7, OFFSETS))

    def release(offsets):
        C = np.where(network.known, (copies - offsets @ rows) / network.scale, 0.0)
        return loadings.released(C, network.weights, network.phi, network.numbers)

    there = np.arange(network.z.shape[1]) < network.numbers[:, None]
    sums = release(before)[there]
    first = net.with_release(network, sums, network.names)
    moved = sites(40, 7)
    edges = {"a": slice(0, 3), "b": slice(3, 5), "c": slice(5, 7)}
    for name, own in edges.items():
        moved[name] = replace(moved[name], shift=(after - before)[own])
    np.testing.assert_allclose(net.extend(first, moved).z[:80], release(after), atol=1e-9)


def test_who_drops_in_the_release_is_not_in_it():
    network = founded(missing=0.0)
    sums = 1.0 + np.arange(network.numbers.sum())
    left = net.with_release(network, sums, ("a", "b"))
    assert not left.known[left.rows("c")].any()
    np.testing.assert_array_equal(left.known[:5], network.known[:5])
    assert (left.numbers <= network.numbers).all()
    assert left.numbers.sum() > 0  # two sites are all that are left: both are in every slot
    whole = net.with_release(network, sums, network.names)
    used = np.arange(whole.z.shape[1]) < left.numbers[:, None]
    np.testing.assert_array_equal(left.z, np.where(used, whole.z, 0.0))


def test_sums_travel_in_a_row_slot_by_slot():
    network = founded()
    sums = 1.0 + np.arange(network.numbers.sum())
    made = net.with_release(network, sums, network.names)
    edges = np.concatenate([[0], np.cumsum(network.numbers)])
    for t, n in enumerate(network.numbers):
        np.testing.assert_array_equal(made.z[t, :n], sums[edges[t] : edges[t + 1]])
        assert not made.z[t, n:].any()


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32), share=st.floats(0.01, 1.0), n_sites=st.integers(1, 6),
    missing=st.floats(0.0, 1.0),
)  # fmt: skip
def test_numbers_a_slot(seed, share, n_sites, missing):
    """Never more than half unless the share is larger, the share on average. Nothing where one
    site alone has readings, and where two have some, the limit counts the smaller one's: each could
    take its own away."""
    rng = np.random.default_rng(seed)
    site = rng.integers(0, n_sites, 12)
    known = rng.random((12, 200)) >= missing
    numbers, n = net.numbers_of(known, site, share, 4), known.sum(axis=0)
    counts = np.array([known[site == i].sum(axis=0) for i in np.unique(site)])
    present = (counts > 0).sum(axis=0)
    most = 2 if share <= 0.5 else 1
    assert (numbers <= n // most).all()
    assert (numbers <= 4).all()
    assert (numbers[present < 2] == 0).all()
    smaller = np.where(counts > 0, counts, 99).min(axis=0)
    assert (numbers <= smaller // most)[present == 2].all()
    assert (numbers.cumsum() <= share * n.cumsum() + 1e-6).all()


def test_the_share_is_met_on_average():
    known = np.random.default_rng(0).random((30, 2000)) < 0.6
    for share in (0.05, 0.2, 0.45, 0.9, 1.0):
        numbers = net.numbers_of(known, np.arange(30) % 5, share, 64)
        assert numbers.sum() == pytest.approx(share * known.sum(), rel=0.01)


# --- the posterior


def test_everybody_computes_the_same_posterior_from_the_arrays():
    network = federation(n=200).carry().network
    back = network_from_arrays(network_to_arrays(network), network.plan)
    one, other = network.inferred.post, back.inferred.post
    np.testing.assert_array_equal(one.mean, other.mean)


def test_another_scale_is_another_posterior():
    network = federation(n=200, secure=False).carry().network
    louder = replace(network, scale=network.scale / 3)
    one, other = network.inferred.post, louder.inferred.post
    assert np.abs(one.mean - other.mean).max() > 1e-3


def test_a_slot_whose_sums_do_not_fit_is_seen():
    network = federation(n=300).carry().network
    ratio, middle = network.quality
    assert 0.3 < middle < 2
    z = network.z.copy()
    z[50] *= -20
    spoilt = replace(network, z=z)
    worse, _ = spoilt.quality
    assert worse[50] > 10 * ratio.max()


NETWORK = federation(n=150, secure=False).carry().network


def test_the_owner_s_sensors_are_known_by_digest_alone():
    out = owner(table()).public
    assert out.sensors.shape == (2, 4)
    assert not np.array_equal(out.sensors[0], out.sensors[1])
