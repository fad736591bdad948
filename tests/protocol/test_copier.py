"""The copier: one copy a reading, in which no other clean reading has a part."""

import shutil
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from flfl.errors import InputError
from flfl.model.transforms import season_rows
from flfl.protocol import copier
from flfl.protocol.added_error import AddedError, Scale, error_in_time, ladder_up
from flfl.protocol.copier import (
    UNKNOWN,
    Copier,
    Readings,
    limit_in_order,
    running_mean,
    same_readings,
)
from flfl.protocol.copy_store import Code, CopyError, CopyStore
from flfl.protocol.plan import Pin

HOUR = 3600
SECRET = bytes(range(32))
START = 1_700_000_000 // HOUR * HOUR


def table(m=3, n=400, missing=0.2, transform="none", seed=0):
    """Correlated readings with gaps, about 50, always positive."""
    rng = np.random.default_rng(seed)
    raw = 50 + 0.3 * rng.standard_normal((m, n)).cumsum(1) + rng.standard_normal((m, n))
    known = rng.random((m, n)) > missing
    known[:, 0] = True
    instants = START + HOUR * np.arange(n)
    names = tuple(f"station-{i}" for i in range(m))
    return Readings(names, instants, raw, known, Pin(transform, HOUR))


def copied(readings, store=None, slots=slice(None), sigma=1.0, s=1.0):
    m = len(readings.ids)
    make = Copier(SECRET, CopyStore() if store is None else store).copy
    return make(readings, np.full(m, sigma), np.full(m, s), slots)


def scale(readings):
    season = season_rows(np.arange(len(readings.instants)), 0)
    return Scale.of(readings.raw, readings.known, readings.pin.transform, season)


def added(setting, s, readings, wish=0.0):
    return setting.sigma(np.asarray(s), scale(readings), readings.pin.transform, wish)


def refused(code, call, *arguments, **options):
    with pytest.raises(CopyError) as caught:
        call(*arguments, **options)
    assert caught.value.code == code
    assert code in get_args(Code)
    return str(caught.value)


def changed(readings, where, by):
    raw = readings.raw.copy()
    raw[where] += by
    return replace(readings, raw=raw)


# The limit


@pytest.mark.parametrize("slot", [1, 57, 200])
@pytest.mark.parametrize("spike", [0.0, 1000.0])
def test_a_copy_given_the_earlier_ones_depends_on_no_other_clean_reading(slot, spike):
    readings = changed(table(m=2, missing=0), np.s_[:, slot], spike)
    other = np.random.default_rng(1).uniform(-1e3, 1e3, readings.raw.shape)
    other[:, slot] = readings.raw[:, slot]
    store, again = CopyStore(), CopyStore()
    for each in (store, again):
        copied(readings, each, slice(0, slot))
    one = copied(readings, store, slice(slot, slot + 1))
    two = copied(replace(readings, raw=other), again, slice(slot, slot + 1))
    np.testing.assert_array_equal(one.values, two.values)


def test_a_spike_shows_at_no_neighbour_and_its_size_nowhere():
    readings = table(m=4, missing=0)
    here = np.s_[:, 200]
    calm, spiky = copied(readings), copied(changed(readings, here, 1000.0))
    apart = np.abs(spiky.values - calm.values)
    assert (apart[:, :200] == 0).all()
    assert (apart[:, 200] < 15).all()  # its own copy, limited
    # What follows is limited around copies, the limited one among them, and shows no more of it.
    assert (apart[:, 201:].max(1) < apart[:, 200]).all()
    assert np.median(apart[:, 201:]) == 0
    larger = copied(changed(readings, here, 1e9))
    np.testing.assert_array_equal(larger.values, spiky.values)


def test_control_a_limit_around_clean_neighbours_shows_the_spike_at_its_neighbours():
    readings = table(m=4, missing=0)

    def naive(raw):
        middle = (raw[:, :-2] + raw[:, 2:]) / 2
        limited = raw.copy()
        limited[:, 1:-1] = np.clip(raw[:, 1:-1], middle - 3, middle + 3)
        return limited

    spiky = changed(readings, np.s_[:, 200], 1000.0)
    apart = np.abs(naive(spiky.raw) - naive(readings.raw))
    assert (apart[:, [199, 201]] > 400).all()


def slow_reference(z, new, noise, sigma, s, instants, step):
    """The rule for one sensor, read from the page."""
    copies, f, P, at = np.full(len(z), np.nan), None, None, None
    for t in np.flatnonzero(new):
        value = z[t]
        if f is not None:
            P = P + 2 * s**2 * (instants[t] - at) / step
            width = 3 * (P + s**2) ** 0.5
            value = min(max(value, f - width), f + width)
        c = value + sigma * noise[t]
        c = round(c * 64 / sigma) * sigma / 64 if sigma else c
        if f is None:
            f, P = c, sigma**2
        elif P + sigma**2 > 0:
            K = P / (P + sigma**2)
            f, P = f + K * (c - f), (1 - K) * P
        copies[t], at = c, instants[t]
    return copies


def test_limits_are_those_of_the_slow_reference():
    rng = np.random.default_rng(0)
    m, n = 6, 300
    Z = 3 * rng.standard_t(2, (m, n)).cumsum(1) + 50 * (rng.random((m, n)) < 0.05)
    new = rng.random((m, n)) < np.array([1, 0.9, 0.5, 0.1, 1, 0])[:, None]
    noise, instants = rng.standard_normal((m, n)), np.cumsum(rng.integers(1, 4, n)) * HOUR
    sigma, s = np.array([1, 0.5, 0, 2, 0, 1.0]), np.array([1, 2, 1, 0.5, 0, 1.0])
    start = np.zeros(m, int), np.zeros(m), np.full(m, UNKNOWN)
    fast, _, _ = limit_in_order(Z, new, noise, sigma, s, instants, HOUR, start)
    slow = [
        slow_reference(*row, instants, HOUR) for row in zip(Z, new, noise, sigma, s, strict=True)
    ]
    np.testing.assert_allclose(fast, slow, atol=1e-9)
    limited = np.abs(fast - Z - sigma[:, None] * noise)[new] > 0.1
    assert limited.mean() > 0.05  # limits were at work


def test_without_added_error_the_limit_still_holds():
    readings = changed(table(missing=0), np.s_[:, 200], 1000.0)
    copies = copied(readings, sigma=0.0)
    calm = np.arange(400) < 200
    inside = np.abs(np.diff(readings.raw[:, :200])).max(1) < 3 * np.sqrt(3)
    assert inside.any()
    np.testing.assert_array_equal(copies.values[inside][:, calm], readings.raw[inside][:, calm])
    expected = copies.values[:, 199] + 3 * np.sqrt(2 + 1)
    np.testing.assert_allclose(copies.values[:, 200], expected)


def test_late_readings_are_not_copied():
    readings, store = table(m=2, missing=0), CopyStore()
    held = readings.known.copy()
    held[:, 98:101] = False
    held[1, 350:] = False
    first = copied(replace(readings, known=held), store)
    late = copied(readings, store)
    np.testing.assert_array_equal(late.values[held], first.values[held])
    assert not late.known[:, 98:101].any()
    # Each sensor has its own last copy, and goes on from it as if nothing had been late.
    assert late.known[1, 350:].all()
    on_time = held | (np.arange(400) >= 350)
    np.testing.assert_array_equal(copied(replace(readings, known=on_time)).values, late.values)


def test_moved_time_stamps_give_no_second_copies_but_after_the_last():
    readings, store = table(m=1, missing=0), CopyStore()
    copied(readings, store)
    moved = replace(readings, instants=readings.instants + HOUR)
    before = len(store.read("station-0", moved.instants)[0])
    copies = copied(moved, store)
    assert np.isfinite(copies.values).sum() == before
    np.testing.assert_array_equal(copies.values[:, :-1], copied(readings).values[:, 1:])


# The noise


def test_copies_are_readings_with_the_added_error_said_and_no_other():
    readings = table(m=5, n=4000)
    copies = copied(readings, sigma=0.5, s=8.0)  # limits so wide that none is at work
    n = ((copies.values - readings.raw) / 0.5)[copies.known]
    np.testing.assert_array_equal(copies.known, readings.known)
    assert stats.kstest(n, "norm").pvalue > 0.001
    assert stats.kstest(1.05 * n, "norm").pvalue < 0.001
    grains = copies.values[copies.known] * 64 / 0.5
    np.testing.assert_allclose(grains, np.round(grains), atol=1e-6)
    assert (copies.sigma == np.where(copies.known, 0.5, 0)).all()


def noise_of(readings, sigma, factor=1.0):
    copies = copied(replace(readings, raw=factor * readings.raw), sigma=sigma, s=64.0)
    return ((copies.values - factor * readings.raw) / sigma)[copies.known]


def test_two_copies_of_one_reading_at_two_scales_do_not_cancel():
    readings = table(m=1, n=4000)
    half, whole = noise_of(readings, 0.5), noise_of(readings, 1.0)
    assert abs(np.corrcoef(half, whole)[0, 1]) < 0.06
    assert abs(np.corrcoef(whole, noise_of(readings, 1.0, factor=1.05))[0, 1]) < 0.06
    # The control: the same copy again is the same.
    np.testing.assert_array_equal(whole, noise_of(readings, 1.0))


def test_two_transforms_of_one_reading_have_independent_noise():
    plain, root = table(m=1, n=4000), table(m=1, n=4000, transform="sqrt")
    a = copied(plain, s=64.0).values - plain.raw
    b = copied(root, s=64.0).values - np.sqrt(root.raw)
    both = np.isfinite(a + b)
    assert abs(np.corrcoef(a[both], b[both])[0, 1]) < 0.06


def spike_from_two_copies():
    """What a limited copy and one without limit tell of a spike: its error, (30,).

    So it is after a store was restored from an old backup, and readings came in another order.
    """
    readings, store = changed(table(m=30, missing=0), np.s_[:, 200], 1000.0), CopyStore()
    copied(readings, store, slice(0, 200))
    last = [store.last(sensor) for sensor in readings.ids]
    edge = np.array([value + 3 * np.sqrt(variance + 2 + 1) for _, value, variance in last])
    limited = copied(readings, store, slice(200, 201)).values[:, 200]
    free = copied(readings, slots=slice(200, 201)).values[:, 200]  # a first copy has no limit
    return np.abs(edge + free - limited - readings.raw[:, 200])


def test_a_second_copy_under_another_limit_does_not_show_the_reading():
    assert np.median(spike_from_two_copies()) > 0.5


def test_control_one_noise_under_two_limits_shows_the_reading(monkeypatch):
    same = partial(limit_in_order, redraw=None)
    monkeypatch.setattr(copier, "limit_in_order", lambda *args, redraw: same(*args))
    assert spike_from_two_copies().max() < 1 / 32


# One copy, for ever


def test_a_copy_never_changes_whatever_the_table_says_later():
    readings, store = table(), CopyStore()
    first = copied(readings, store, slice(0, 300))
    made = first.known
    assert not made[:, 300:].any()
    gain = replace(readings, raw=1.05 * readings.raw)
    withdrawn = replace(readings, known=readings.known & (np.arange(400) > 150))
    infinite = replace(readings, raw=np.where(readings.known, np.inf, 0.0))
    for later in (readings, gain, withdrawn, infinite):
        again = copied(later, store, slice(0, 300), sigma=2.0, s=4.0)
        np.testing.assert_array_equal(again.values[made], first.values[made])
        np.testing.assert_array_equal(again.sigma[made], first.sigma[made])


def test_stretches_and_extended_tables_give_the_copies_of_one_go():
    readings = table(n=600)
    whole, store = copied(readings), CopyStore()
    for stop in (1, 2, 150, 151, 400, 600):
        part = replace(
            readings,
            instants=readings.instants[:stop],
            raw=readings.raw[:, :stop],
            known=readings.known[:, :stop],
        )
        last = copied(part, store)
    np.testing.assert_array_equal(last.values, whole.values)
    # A table that has moved on: only its last stretch is left of it.
    moved = CopyStore()
    copied(readings, moved, slice(0, 300))
    rest = replace(
        readings,
        instants=readings.instants[300:],
        raw=readings.raw[:, 300:],
        known=readings.known[:, 300:],
    )
    np.testing.assert_array_equal(copied(rest, moved).values, whole.values[:, 300:])


def test_sensors_and_their_order_do_not_matter():
    readings = table()
    whole = copied(readings).values
    order = [2, 0]
    some = replace(
        readings,
        ids=tuple(readings.ids[i] for i in order),
        raw=readings.raw[order],
        known=readings.known[order],
    )
    np.testing.assert_array_equal(copied(some).values, whole[order])


def test_an_older_backup_is_not_gone_on_from(tmp_path):
    readings = table()
    path, marker = tmp_path / "copies.db", tmp_path / "copies.id"
    store = CopyStore.create(path, marker)
    copied(readings, store, slice(0, 200))
    store.close()
    shutil.copy(path, tmp_path / "backup")
    store = CopyStore.open(path, marker)
    copied(readings, store)
    store.close()
    newest = path.read_bytes()
    shutil.copy(tmp_path / "backup", path)
    message = refused("store older", CopyStore.open, path, marker)
    assert "start_after" in message
    path.write_bytes(newest)
    CopyStore.open(path, marker).close()
    # The remedy that the message names.
    path.unlink()
    store = CopyStore.create(path, marker, start_after=int(readings.instants[-1]))
    assert not copied(readings, store).known.any()
    store.close()


def test_a_store_made_anew_copies_nothing_that_was_released(tmp_path):
    readings = table(missing=0)
    released = int(readings.instants[250])
    store = CopyStore.create(tmp_path / "db", tmp_path / "id", start_after=released)
    known = copied(readings, store).known
    assert not known[:, :251].any()
    assert known[:, 251:].all()
    store.close()


# What is refused


def test_a_renamed_sensor_is_refused_until_it_is_an_alias():
    readings, store = table(), CopyStore()
    first = copied(readings, store, slice(0, 300))
    renamed = replace(readings, ids=("new-name", *readings.ids[1:]))
    message = refused("renamed", copied, renamed, store)
    assert "alias('new-name', 'station-0')" in message
    store.alias("new-name", "station-0")
    after = copied(renamed, store)
    np.testing.assert_array_equal(after.values[:, :300], first.values[:, :300])
    np.testing.assert_array_equal(after.values, copied(readings).values)
    both = replace(
        readings,
        ids=("new-name", *readings.ids),
        raw=readings.raw[[0, 0, 1, 2]],
        known=readings.known[[0, 0, 1, 2]],
    )
    refused("one sensor twice", copied, both, store)


def test_one_sensor_under_two_names_in_one_table_is_refused_unless_they_are_two():
    readings, store = table(m=2), CopyStore()
    twins = replace(readings, raw=readings.raw[[0, 0]], known=readings.known[[1, 1]])
    refused("renamed", copied, twins, store)
    assert store.sensors == []
    store.alias("station-1", "station-1")
    copied(twins, store)
    assert store.sensors == ["station-0", "station-1"]
    again = replace(readings, ids=("station-0", "station-0"))
    refused("one sensor twice", copied, again)


@pytest.mark.parametrize("size", [7, 19, 30])
def test_a_renaming_is_seen_in_a_table_that_comes_in_small_pieces(size):
    readings, store = table(m=1, missing=0), CopyStore()
    copied(readings, store)
    made = 0
    for start in range(0, 400 - size, size):
        part = slice(start, start + size)
        piece = Readings(
            ("new-name",), readings.instants[part], readings.raw[:, part], readings.known[:, part],
            readings.pin,
        )  # fmt: skip
        with suppress(CopyError):
            made += copied(piece, store).known.sum()
    refused("renamed", copied, piece, store)
    assert made < 20 * size / (size - 1)  # the first of a piece has nothing before it


def test_stuck_sensors_and_zeros_are_not_one_sensor():
    readings = table(m=3, missing=0)
    raw = np.zeros_like(readings.raw)
    raw[2, ::40] = readings.raw[2, ::40]
    copies = copied(replace(readings, raw=raw))
    assert copies.known.all()


def test_equal_readings_show_in_their_tags():
    tags = np.arange(1, 41, dtype=np.uint64)
    most, few = tags.copy(), tags.copy()
    most[:7] += np.uint64(1000)  # 33 of 40
    few[:8] += np.uint64(1000)  # 32 of 40: not more than 80 %
    assert same_readings(tags, {"few": few}) is None
    assert same_readings(tags, {"few": few, "most": most}) == "most"
    short = np.where(np.arange(40) < 19, tags, np.uint64(0))
    assert same_readings(short, {"a": tags}) is None
    assert same_readings(tags, {"a": short}) is None


@pytest.mark.parametrize("pin", [Pin("sqrt", HOUR), Pin("none", 2 * HOUR), Pin("none", HOUR, 1800)])
def test_another_plan_is_refused(pin):
    readings, store = table(), CopyStore()
    first = copied(readings, store, slice(0, 300))
    refused("pinned", copied, replace(readings, pin=pin), store)
    after = copied(readings, store, slice(0, 300))
    np.testing.assert_array_equal(after.values, first.values)


@pytest.mark.parametrize("w", [2, 3, 8, 24, 48])
@pytest.mark.parametrize("memory", [0.0, 0.95, 1.0])
def test_running_means_are_recognised_and_the_readings_themselves_are_not(w, memory):
    rng = np.random.default_rng(w)
    x = rng.standard_normal(3000)
    for t in range(1, 3000):
        x[t] += memory * x[t - 1]
    y = np.convolve(x, np.ones(w) / w, "valid")
    y[rng.random(len(y)) < 0.05] = np.nan
    assert running_mean(y) == w
    assert running_mean(x) == 0
    assert running_mean(y[::w]) == 0  # one value in w: the remedy


def test_daily_cycles_spikes_steps_and_constants_are_no_running_means():
    rng = np.random.default_rng(0)
    t = np.arange(3000)
    noise = rng.standard_normal(3000)
    event = noise.copy()
    event[1000:1005] += 1e4
    cases = [
        100 * np.sin(2 * np.pi * t / 24) + noise,
        100 * np.maximum(np.sin(2 * np.pi * t / 24), 0) ** 2 + 0.1 * noise,
        event,
        np.round(noise),
        np.zeros(3000),
        np.full(3000, np.nan),
        noise[:50],
    ]
    assert [running_mean(case) for case in cases] == [0] * len(cases)


def test_a_table_of_running_means_is_refused_with_a_remedy():
    readings, store = table(m=2, n=1000, missing=0), CopyStore()
    raw = readings.raw.copy()
    raw[1, 7:] = np.convolve(raw[1], np.ones(8) / 8, "valid")
    means = replace(readings, raw=raw)
    assert "one value in 8" in refused("running mean", copied, means, store)
    assert store.sensors == []
    kept = means.known.copy()
    kept[1] = np.arange(1000) % 8 == 7
    assert copied(replace(means, known=kept), store).known[1].sum() == 125


def test_refusals_show_no_reading():
    readings = replace(table(n=1000, missing=0), raw=np.full((3, 1000), 123.25))
    raw = readings.raw + np.cumsum(np.random.default_rng(0).standard_normal((3, 1000)), 1)
    store = CopyStore()
    copied(replace(readings, raw=raw), store)
    means = raw.copy()
    means[0] = np.convolve(np.r_[raw[0], np.zeros(4)], np.ones(5) / 5, "valid")
    more = replace(readings, ids=("x", "y", "z"))
    for other, code in [(raw, "renamed"), (means, "running mean")]:
        with pytest.raises(CopyError) as caught:
            copied(replace(more, raw=other), store)
        assert caught.value.code == code
        shown = str(caught.value) + repr(caught.value) + repr(more)
        assert not any(f"{value:.3f}" in shown or str(value) in shown for value in raw.ravel())


def test_tables_that_make_no_sense_are_refused():
    readings = table()
    refused("instants", replace, readings, instants=readings.instants[::-1])
    refused("instants", replace, readings, instants=np.repeat(readings.instants[::2], 2))
    for wrong in ({"pin": Pin("cube", HOUR)}, {"known": readings.known[:2]}):
        with pytest.raises(InputError):
            replace(readings, **wrong)


# How much is added


def test_error_in_time_is_that_of_a_plain_loop():
    readings = table(m=4, missing=0.4)
    s = error_in_time(readings.raw, readings.known)
    for x, k, found in zip(readings.raw, readings.known, s, strict=True):
        at = np.flatnonzero(k)
        errors = [
            x[b] - np.interp(b, [a, c], [x[a], x[c]])
            for a, b, c in zip(at, at[1:], at[2:], strict=False)
        ]
        most = 4 * 1.4826 * np.median(np.abs(errors))
        assert found == pytest.approx(np.sqrt(np.mean(np.clip(errors, -most, most) ** 2)))


def test_a_few_spikes_do_not_make_a_sensor_loud_and_rare_values_do_not_make_it_silent():
    readings = table(m=1, missing=0, n=2000)
    calm = error_in_time(readings.raw, readings.known)
    spiky = changed(readings, np.s_[:, 100::400], 1e4)
    assert error_in_time(spiky.raw, spiky.known) < 1.2 * calm
    rain = np.where(np.arange(2000) % 10, 0.0, readings.raw)
    assert error_in_time(rain, readings.known) > 1


@given(st.floats(1e-200, 1e200))
def test_the_ladder_goes_up_by_at_most_a_rung_and_rests_there(x):
    up = float(ladder_up(np.array([x]))[0])
    assert x <= up < x * 2**0.25 * (1 + 1e-15)
    assert ladder_up(np.array([up]))[0] == up
    assert 4 * np.log2(up) == pytest.approx(round(4 * np.log2(up)), abs=1e-9)


def test_every_exact_power_stays():
    powers = np.arange(-100, 100)
    rungs = [np.ldexp(2.0 ** (k / 4), powers) for k in range(4)]
    for rung, above in zip(rungs, [*rungs[1:], 2 * rungs[0]], strict=True):
        np.testing.assert_array_equal(ladder_up(rung), rung)
        np.testing.assert_array_equal(ladder_up(np.nextafter(rung, 0)), rung)
        np.testing.assert_array_equal(ladder_up(np.nextafter(rung, np.inf)), above)
    np.testing.assert_array_equal(ladder_up(np.array([0.0, np.nan])), [0.0, np.nan])


def test_added_error_follows_the_sensor_the_resolution_and_the_units():
    readings, s = table(m=2), np.array([0.9, 0.1])
    np.testing.assert_allclose(added(AddedError(), s, readings), [1, 2**-3.25])
    np.testing.assert_allclose(added(AddedError(0.5), s, readings), [0.5, 2**-4.25])
    np.testing.assert_allclose(added(AddedError(1.3), s, readings), [2**0.25, 2**-2.75])
    np.testing.assert_allclose(added(AddedError(units=3.0), s, readings), 2**1.75)
    whole = replace(readings, raw=np.round(readings.raw))
    np.testing.assert_allclose(added(AddedError(), s, whole), [1, 1])
    np.testing.assert_allclose(added(AddedError(units=0.1), s, whole), [1, 1])
    np.testing.assert_allclose(added(AddedError(0.0), s, whole), [0, 0])  # a trusted coordinator
    rooted = replace(readings, pin=Pin("sqrt", HOUR))
    slope = 0.5 / np.sqrt(
        [np.median(y[k]) for y, k in zip(readings.raw, readings.known, strict=True)]
    )
    np.testing.assert_allclose(
        added(AddedError(units=3.0), s, rooted), ladder_up(3 * ladder_up(slope))
    )
    dry = replace(rooted, raw=np.where(np.arange(400) % 3, 0.0, rooted.raw))
    assert (added(AddedError(units=4.0), s, dry) == 1).all()  # near 0 a root has no slope


def test_sensors_of_which_nothing_is_known_stay_at_home():
    readings, store = table(m=3), CopyStore()
    s = np.array([1.0, np.nan, 0.0])
    for setting in (AddedError(), AddedError(0.5)):
        np.testing.assert_array_equal(np.isnan(added(setting, s, readings)), [False, True, True])
    assert np.isnan(added(AddedError(0.0), s, readings)).tolist() == [False, True, False]
    assert (added(AddedError(units=2.0), s, readings) == 2).all()
    copies = Copier(SECRET, store).copy(readings, added(AddedError(), s, readings), s)
    assert copies.known.any(1).tolist() == [True, False, False]
    assert np.isnan(copies.error).tolist() == [False, True, True]
    assert store.sensors == ["station-0"]
    assert store.held("station-1")[0] is None
    later = Copier(SECRET, store).copy(readings, added(AddedError(units=2.0), s, readings), s)
    assert later.known.any(1).all()
    assert later.error.tolist() == [1.0, 2.0, 2.0]


def test_nobody_lowers_an_owner_s_setting():
    readings, s = table(m=2), np.array([0.5, 4.0])
    own, multiple = AddedError(units=2.0), AddedError(1.0)
    np.testing.assert_allclose(added(own, s, readings, wish=1.0), [2, 4])
    np.testing.assert_allclose(added(own, s, readings, wish=0.0), [2, 2])
    np.testing.assert_allclose(added(multiple, s, readings, wish=4.0), [2, 16])
    np.testing.assert_allclose(added(multiple, s, readings, wish=0.5), [0.5, 4])
    np.testing.assert_allclose(added(AddedError(0.0), s, readings, wish=1.0), [0.5, 4])
    unknown = np.array([np.nan, 4.0])
    np.testing.assert_allclose(added(own, unknown, readings, wish=1.0), [2, 4])
    assert np.isnan(added(multiple, unknown, readings, wish=1.0)[0])


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("1", AddedError(1.0)),
        (" 0.5 ", AddedError(0.5)),
        ("0", AddedError(0.0)),
        ("2 ug/m3", AddedError(units=2.0)),
        ("1.5e-1K", AddedError(units=0.15)),
        ("2 °C", AddedError(units=2.0)),
    ],
)
def test_settings_as_people_write_them(text, setting):
    assert AddedError.parse(text) == setting


@pytest.mark.parametrize("text", ["", "much", "-1", "nan", "inf", "0 ug/m3", "1.2.3"])
def test_settings_that_make_no_sense(text):
    with pytest.raises(InputError, match="no added error"):
        AddedError.parse(text)


def test_a_table_without_sensors_or_slots_is_copied_too():
    readings = table()
    nobody = replace(readings, ids=(), raw=readings.raw[:0], known=readings.known[:0])
    assert copied(nobody).values.shape == (0, 400)
    assert error_in_time(nobody.raw, nobody.known).shape == (0,)
    never = replace(
        readings,
        instants=readings.instants[:0],
        raw=readings.raw[:, :0],
        known=readings.known[:, :0],
    )
    assert copied(never).values.shape == (3, 0)
    unknown = replace(readings, known=np.zeros_like(readings.known))
    assert not copied(unknown).known.any()
