"""A reading has one copy, for ever, at the level of a whole site; and no other reading is in it."""

from dataclasses import replace

import numpy as np
import pytest

from flfl import FLFL
from flfl.estimators.saved_model import load_model, save_model
from flfl.protocol.added_error import AddedError
from flfl.protocol.client import Refusal
from flfl.protocol.copier import Copier
from flfl.protocol.copy_store import CopyError, CopyStore
from flfl.protocol.owner import Owner
from worlds import (
    NAMES,
    PLAN,
    TARGET,
    Federation,
    copy_of,
    federation,
    owner,
    secret,
    site_of,
    table,
)

UNITS = ("none", 0)
ALL = slice(0, 240)


def copies(made, slots=ALL, wish=1.0, units=UNITS):
    return made.copy(units, slots, wish)


def in_store(t, store):
    return np.array([store.read(sensor, t.instants)[0] for sensor in t.ids])


# --- no other clean reading is in a copy


def mirrored(t, before):
    """Other readings from a slot on, with the same errors in time (a mirror image has them)."""
    raw = t.raw.copy()
    raw[:, before:] = 2 * raw[:, before : before + 1] - raw[:, before:]
    return replace(t, raw=raw)


@pytest.mark.parametrize("spike", [0.0, 1e3])
@pytest.mark.parametrize("slot", [1, 60, 200])
def test_given_the_earlier_copies_a_limited_value_depends_on_no_other_reading(slot, spike):
    mine = table(missing=0)
    mine.raw[:, slot] += spike
    first, other = owner(mine), owner(replace(mine, raw=mine.raw.copy()))
    for made in (first, other):
        copies(made, slice(0, slot))
    # Every other reading changes: those before, whose copies are made, and those to come.
    changed = mirrored(mine, slot)
    changed.raw[:, :slot] = 100 - changed.raw[:, :slot]
    second = owner(changed, other.store)
    one, two = (copies(made, slice(slot, slot + 1)) for made in (first, second))
    np.testing.assert_array_equal(one.sigma, two.sigma)
    np.testing.assert_array_equal(one.copies, two.copies)


def test_control_another_reading_at_the_slot_itself_gives_another_copy():
    mine = table(missing=0)
    changed = replace(mine, raw=mine.raw.copy())
    changed.raw[:, 60] += 0.01
    assert (copies(owner(mine)).copies[:, 60] != copies(owner(changed)).copies[:, 60]).all()


def test_a_spike_of_any_size_shows_as_a_limited_one():
    mine = table(missing=0)
    spiky = [replace(mine, raw=mine.raw.copy()) for _ in range(2)]
    for t, size in zip(spiky, (1e4, 1e9), strict=True):
        t.raw[:, 100] = size
    one, two = (copies(owner(t)).copies for t in spiky)
    np.testing.assert_array_equal(one, two)
    assert np.abs(one[:, 100] - copies(owner(mine)).copies[:, 100]).max() < 30


# --- one copy


def corrected(t):
    """The owner's file by now: another calibration, some readings withdrawn."""
    raw, known = 1.05 * t.raw + 1, t.known.copy()
    known[:, 10:20] = False
    return replace(t, raw=raw, known=known)


def renamed(t, store):
    for sensor in t.ids:
        store.alias(f"new {sensor}", sensor)
    return replace(t, ids=[f"new {sensor}" for sensor in t.ids])


@pytest.mark.parametrize("change", [corrected, renamed, None])
@pytest.mark.parametrize("wish", [0.5, 1.0, 3.0])
def test_corrections_renames_and_other_wishes_leave_the_copies(change, wish):
    store, mine = CopyStore(), table()
    first = copies(owner(mine, store))
    after = mine
    if change is not None:
        after = change(mine, store) if change is renamed else change(mine)
    again = owner(after, store, AddedError(2.0))
    out = copies(again, wish=wish)
    np.testing.assert_array_equal(out.copies, first.copies)
    np.testing.assert_array_equal(out.sigma, first.sigma)
    np.testing.assert_array_equal(out.error, first.error)


def test_a_renamed_sensor_that_is_not_said_to_be_one_stays_at_home():
    store, mine = CopyStore(), table()
    copies(owner(mine, store))
    stranger = replace(mine, ids=["stranger", mine.ids[1]])
    out = copies(owner(stranger, store))
    assert out.error[0] == 0
    assert not np.isfinite(out.copies[0]).any()
    assert np.isfinite(out.copies[1]).any()


def test_a_restored_store_has_them_and_a_lost_one_says_so(tmp_path):
    path, marker = tmp_path / "copies.sqlite", tmp_path / "marker"
    mine, store = table(), CopyStore.create(path, marker)
    first = copies(owner(mine, store))
    store.close()
    backup = path.read_bytes()
    path.unlink()
    with pytest.raises(CopyError, match="missing"):
        CopyStore.open(path, marker)
    path.write_bytes(backup)
    again = copies(owner(corrected(mine), CopyStore.open(path, marker)))
    np.testing.assert_array_equal(again.copies, first.copies)


def test_a_site_that_begins_anew_copies_only_what_was_never_released(tmp_path):
    mine = table()
    last = int(mine.instants[119])
    store = CopyStore.create(tmp_path / "new.sqlite", tmp_path / "marker", start_after=last)
    out = copies(owner(mine, store))
    assert not np.isfinite(out.copies[:, :120]).any()
    np.testing.assert_array_equal(np.isfinite(out.copies[:, 120:]), mine.known[:, 120:])


@pytest.mark.parametrize(
    "plan",
    [
        replace(PLAN, share=1.0, rank=2, rounds=1),
        replace(PLAN, added_error=0.0),
        replace(PLAN, added_error=5.0),
        replace(PLAN, pilot=0.0),
        replace(PLAN, transform=None, season=None),
    ],
)
def test_changed_plans_and_reruns_are_made_from_the_same_copies(plan):
    tables = {name: table(name, n=440) for name in NAMES}
    run = Federation(tables, secure=False).carry()
    before = in_store(tables[TARGET], run.stores[TARGET])
    again = Federation(tables, plan, secure=False, stores=run.stores).carry()
    np.testing.assert_array_equal(in_store(tables[TARGET], run.stores[TARGET]), before)
    np.testing.assert_array_equal(again.client().outgoing.copies, before)
    # What is published of their noise is what they have, not what this plan would give them.
    stored = run.stores[TARGET].read("b0", tables[TARGET].instants)[1]
    published = again.network.sigma2[again.network.rows(TARGET)[0]]
    where = published > 0
    total = published[where].sum() * again.network.scale**2
    assert total == pytest.approx((stored[np.isfinite(stored)] ** 2).sum())


def test_thirty_nights_change_no_copy():
    run = federation(n=200, secure=False).carry()
    kept = in_store(table(n=200), run.stores[TARGET])
    network = run.network
    for night in range(1, 31):
        tables = {name: table(name, n=200 + 4 * night) for name in NAMES}
        later = Federation(tables, secure=False, stores=run.stores, earlier=network).carry()
        network = later.network
    assert network.n_slots == 320
    now = in_store(tables[TARGET], run.stores[TARGET])
    np.testing.assert_array_equal(now[:, :200], kept)
    np.testing.assert_array_equal(np.isfinite(now), tables[TARGET].known)
    assert not np.array_equal(run.network.P, network.P)  # the fit went on


# --- what comes from clean readings is taken once


def window(t, start, stop):
    part = slice(start, stop)
    return replace(
        t, raw=t.raw[:, part], known=t.known[:, part], positions=t.positions[part],
        instants=t.instants[part],
    )  # fmt: skip


@pytest.mark.parametrize("added", [AddedError(), AddedError(units=3.0)])
@pytest.mark.parametrize("transform", ["none", "sqrt"])
def test_later_windows_and_readings_tell_nothing_of_the_scale(added, transform):
    mine, store = table(n=400, missing=0), CopyStore()
    mine.raw[:] = np.abs(mine.raw) + 10
    copies(owner(window(mine, 0, 120), store, added), slice(0, 10), units=(transform, 0))
    loud = replace(mine, raw=np.round(9 * mine.raw))  # louder, higher and coarser
    units, seen = (transform, 0), []
    for start, stop in ((0, 400), (10, 110), (100, 400), (1, 60)):
        later = copy_of(store, mine)
        out = copies(owner(window(loud, start, stop), later, added), slice(0, 399), 1.0, units)
        seen.append(np.unique(out.sigma[out.sigma > 0]))
    first = {float(store.read(sensor, mine.instants[:1])[1][0]) for sensor in mine.ids}
    assert all(sorted(first) == sigma.tolist() for sigma in seen)


def test_a_window_s_pilot_and_settings_are_all_that_changes_the_noise():
    mine, store = table(n=400, missing=0), CopyStore()
    first = copies(owner(mine, store), slice(0, 100)).sigma[:, 0]
    bound = copies_with(owner(mine, copy_of(store, mine)), 0.01 * first)
    np.testing.assert_allclose(bound, 0.5 * first)  # a pilot, to a half at the most
    louder = copies(owner(mine, copy_of(store, mine), AddedError(4.0)), slice(100, 400))
    np.testing.assert_allclose(louder.sigma[:, 200], 4 * first)
    units = copies(owner(mine, copy_of(store, mine), AddedError(units=64.0)), slice(100, 400))
    np.testing.assert_allclose(units.sigma[:, 200], 64.0)


def copies_with(made, bound):
    return made.copy(UNITS, slice(100, 400), 1.0, bound).sigma[:, 200]


def test_a_saved_model_holds_its_sensors_to_their_scale(tmp_path):
    mine = table(n=300)
    model = FLFL(effort="quick", rounds=1).fit(np.where(mine.known, mine.raw, np.nan).T)
    save_model(tmp_path / "model", model.remembered_)
    again = load_model(tmp_path / "model")
    assert len(again.sites) > 1
    for site, kept in again.sites.items():
        numbers = [again.store(site).held(sensor)[1] for sensor in kept.ids]
        np.testing.assert_array_equal(numbers, model.remembered_.sites[site].held)
        assert np.isfinite(numbers).all()


def test_a_table_with_a_sensor_under_both_its_names_leaves_the_second_at_home():
    mine, store = table(missing=0), CopyStore()
    first = copies(owner(window(mine, 0, 150), store), slice(0, 150))
    store.alias("new", mine.ids[0])
    both = replace(
        mine, ids=[*mine.ids, "new"], raw=mine.raw[[0, 1, 0]], known=mine.known[[0, 1, 0]]
    )
    out = copies(owner(both, store))
    np.testing.assert_array_equal(out.copies[:2, :150], first.copies)
    assert np.isfinite(out.copies[:2]).all()
    assert not np.isfinite(out.copies[2]).any()
    assert (out.error > 0).tolist() == [True, True, False]


# --- no second copies by the back door


@pytest.mark.parametrize(
    ("units", "step"), [(("sqrt", 0), 3600), (("none", 24), 3600), (("none", 0), 7200)]
)
def test_another_transform_season_or_step_is_refused(units, step):
    store, mine = CopyStore(), table()
    copies(owner(mine, store))
    if step == 7200:
        mine = replace(
            mine, raw=mine.raw[:, ::2], known=mine.known[:, ::2], positions=mine.positions[::2],
            instants=mine.instants[::2], step=step,
        )  # fmt: skip
    plan = replace(PLAN, transform=units[0], season=units[1])
    client = site_of(owner(mine, store), plan).program
    question = {"units": np.array(0), "start": np.array(0), "stop": np.array(100)}
    with pytest.raises(Refusal, match="cannot be copied"):
        client.answer("publish", question)


def test_a_second_network_gets_the_same_copies():
    mine, store = table(), CopyStore()
    first = copies(owner(mine, store))
    elsewhere = Owner(mine, Copier(secret("another"), store), AddedError(0.0))
    np.testing.assert_array_equal(copies(elsewhere, wish=0.0).copies, first.copies)


def test_without_its_store_the_same_reading_still_gives_the_same_copy():
    """The noise is a function of the reading: a run that was forgotten cannot be averaged with."""
    one, two = (copies(owner(table())) for _ in range(2))
    np.testing.assert_array_equal(one.copies, two.copies)
