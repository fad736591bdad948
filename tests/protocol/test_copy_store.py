"""The copy store: one copy for ever, through kills, cut files, lost files and new names."""

import shutil
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flfl.errors import InputError
from flfl.protocol.copy_store import Block, CopyError, CopyStore
from flfl.protocol.plan import Pin

HOUR = 3600


def block(slots, seed=0, sigma=0.5):
    slots = np.asarray(slots, np.int64)
    rng = np.random.default_rng([seed, *np.abs(slots)])
    tags = rng.integers(1, 2**63, len(slots), np.uint64)
    sigmas = np.full(len(slots), sigma)
    return Block(HOUR * slots, rng.standard_normal(len(slots)), sigmas, tags, 1.5, 0.25)


def files(folder):
    return folder / "copies.db", folder / "copies.id"


def refused(code, call, *arguments, **options):
    with pytest.raises(CopyError) as caught:
        call(*arguments, **options)
    assert caught.value.code == code
    return str(caught.value)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sets(st.integers(-30, 30))), max_size=12))
def test_any_appends_read_back_as_from_a_dictionary(appends):
    store, model = CopyStore(), {}
    everywhere = HOUR * np.arange(-31, 32)
    for n, (sensor, slots) in enumerate(appends):
        added = block(sorted(slots), n, sigma=n + 1.0)
        keys = [(sensor, t) for t in added.instants.tolist()]
        if not keys:
            refused("not a block", store.append, sensor, added)
        elif any(s == sensor and t >= keys[0][1] for s, t in model):
            refused("already copied", store.append, sensor, added)
        else:
            store.append(sensor, added)
            model.update(zip(keys, zip(added.copies, added.sigmas, strict=True), strict=True))
    for sensor in "ab":
        copies, sigmas = store.read(sensor, everywhere)
        nothing = (np.nan, np.nan)
        expected = np.array([model.get((sensor, t), nothing) for t in everywhere.tolist()])
        np.testing.assert_array_equal(copies, expected[:, 0])
        np.testing.assert_array_equal(sigmas, expected[:, 1])
        own = sorted(t for s, t in model if s == sensor)
        last = store.last(sensor)
        assert (last and last[0]) == (own[-1] if own else None)


def test_what_is_no_block_is_refused():
    good = block([1, 2])
    bad = [
        Block(good.instants[::-1], good.copies, good.sigmas, good.tags, 0.0, 0.0),
        Block(good.instants, good.copies[:1], good.sigmas, good.tags, 0.0, 0.0),
        Block(good.instants, good.copies * np.nan, good.sigmas, good.tags, 0.0, 0.0),
        Block(good.instants, good.copies, -good.sigmas, good.tags, 0.0, 0.0),
        Block(good.instants, good.copies, good.sigmas, good.tags, np.nan, 0.0),
    ]
    store = CopyStore()
    for each in bad:
        refused("not a block", store.append, "a", each)
    assert store.sensors == []


def test_blocks_are_plain_arrays_that_nobody_changes(tmp_path):
    store, added = CopyStore.create(*files(tmp_path)), block([1, 2])
    store.append("a", added)
    store.close()
    db = sqlite3.connect(files(tmp_path)[0])
    ((copies, tags),) = db.execute("select copies, tags from block").fetchall()
    assert copies == added.copies.astype("<f8").tobytes()
    assert tags == added.tags.astype("<u8").tobytes()
    for statement in ("update block set forecast = 0", "delete from block"):
        with pytest.raises(sqlite3.Error, match="append only"):
            db.execute(statement)
    db.close()


def test_a_transaction_that_fails_leaves_nothing():
    store = CopyStore()

    def fail():
        with store.transaction():
            store.pin("a", Pin("none", HOUR))
            store.append("a", block([1]))
            store.append("a", block([1, 2]))

    refused("already copied", fail)
    assert store.sensors == []
    assert store.held("a")[0] is None


KILLED = """
import sys, signal, numpy as np
from flfl.protocol.copy_store import Block, CopyStore
store, n = CopyStore.open(*sys.argv[1:]), 100_000
zero = np.zeros(n)
for k in range(3):
    with store.transaction():
        for sensor in "ab":
            instants = np.arange(k * n, (k + 1) * n)
            store.append(sensor, Block(instants, zero + k, zero, instants.astype("u8"), 0.0, 0.0))
        print(k, flush=True)
        if k == 2:
            signal.pause()
"""


def test_a_kill_in_the_middle_of_an_append_leaves_nothing_of_it(tmp_path):
    store, marker = files(tmp_path)
    CopyStore.create(store, marker).close()
    arguments = [sys.executable, "-c", KILLED, str(store), str(marker)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as child:
        assert [child.stdout.readline().strip() for _ in range(3)] == ["0", "1", "2"]
        child.kill()
        assert child.wait() == -signal.SIGKILL
    # Parts of the third append had reached the disk: there was something to leave out.
    log = store.with_name("copies.db-wal").read_bytes()
    assert any(np.arange(k, k + 40).tobytes() in log for k in range(200_000, 300_000, 5000))
    opened = CopyStore.open(store, marker)
    for sensor in "ab":
        copies, _ = opened.read(sensor, np.arange(300_000))
        np.testing.assert_array_equal(copies, np.repeat([0.0, 1.0, np.nan], 100_000))
    opened.append("a", Block(np.array([200_000]), *np.zeros((2, 1)), np.ones(1, "u8"), 0.0, 0.0))
    opened.close()


def test_a_log_cut_short_holds_whole_appends_only(tmp_path):
    store, marker = files(tmp_path)
    made = CopyStore.create(store, marker)
    made.append("a", block(range(100)))
    made.close()
    made = CopyStore.open(store, marker)
    made.append("a", block(range(100, 3000)))
    log = store.with_name("copies.db-wal").read_bytes()
    assert len(log) > 2900 * 32
    for n, cut in enumerate([0, 31, 5000, len(log) // 2, len(log) - 1, len(log)]):
        copy = tmp_path / str(n)
        copy.mkdir()
        shutil.copy(store, copy)
        (copy / "copies.db-wal").write_bytes(log[:cut])
        if cut < len(log):
            refused("store older", CopyStore.open, copy / "copies.db", marker)
        opened = CopyStore(copy / "copies.db")
        found = np.isfinite(opened.read("a", HOUR * np.arange(3000))[0])
        assert found.sum() == (3000 if cut == len(log) else 100)
        opened.close()
    made.close()


def test_files_are_their_owner_s_only(tmp_path):
    store = CopyStore.create(*files(tmp_path))
    store.append("a", block([1]))
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes["copies.db-wal"] == 0o600
    assert set(modes.values()) == {0o600}
    store.close()
    path, marker = files(tmp_path)
    path.chmod(0o644)  # as a backup program may leave it
    CopyStore.open(path, marker).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_lost_store_never_gives_second_copies_silently(tmp_path):
    store, marker = files(tmp_path)
    refused("store missing", CopyStore.open, store, marker)
    CopyStore.create(store, marker).close()
    refused("store missing", CopyStore.create, store, marker)
    backup = store.read_bytes()
    store.unlink()
    message = refused("store missing", CopyStore.open, store, marker)
    assert "restore" in message
    assert "start_after" in message
    refused("store missing", CopyStore.create, store, marker)
    refused("store missing", CopyStore, store)
    assert not store.exists()
    store.write_bytes(b"")  # a file of that name is not that store
    refused("store missing", CopyStore.open, store, marker)
    store.write_bytes(b"something else" * 100)
    refused("store damaged", CopyStore.open, store, marker)
    store.write_bytes(backup)
    CopyStore.open(store, marker).close()


def test_another_store_s_marker_is_no_key(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        CopyStore.create(*files(tmp_path / name)).close()
    store, marker = files(tmp_path / "a")[0], files(tmp_path / "b")[1]
    refused("store missing", CopyStore.open, store, marker)


def test_joining_as_new_begins_after_what_was_released(tmp_path):
    store, marker = files(tmp_path)
    CopyStore.create(store, marker).close()
    store.unlink()
    anew = CopyStore.create(store, marker, start_after=10 * HOUR)
    refused("too early", anew.append, "a", block([10, 11]))
    anew.append("a", block([11]))
    anew.close()
    opened = CopyStore.open(store, marker)
    assert opened.start == 10 * HOUR
    refused("too early", opened.append, "a", block([9]))
    opened.close()
    refused("store exists", CopyStore.create, store, marker, start_after=20 * HOUR)


def test_a_creation_cut_short_is_finished_and_a_store_with_copies_is_not_taken(tmp_path):
    store, marker = files(tmp_path)
    CopyStore.create(store, marker).close()
    marker.unlink()
    again = CopyStore.create(store, marker)
    again.append("a", block([1]))
    again.close()
    marker.unlink()
    refused("store exists", CopyStore.create, store, marker)
    refused("store missing", CopyStore.open, store, marker)


def test_a_sensor_is_pinned_once():
    store = CopyStore()
    assert store.held("a")[0] is None
    store.pin("a", Pin("sqrt", HOUR))
    store.pin("a", Pin("sqrt", HOUR, origin_seconds=24 * HOUR))  # the same grid
    for other in (Pin("none", HOUR), Pin("sqrt", 2 * HOUR), Pin("sqrt", HOUR, 1800)):
        assert "second copies" in refused("pinned", store.pin, "a", other)
    assert store.held("a")[0] == Pin("sqrt", HOUR)
    with pytest.raises(InputError):
        Pin("none", 0)


def test_numbers_from_readings_are_held_from_the_first_time_on():
    store, pin = CopyStore(), Pin("none", HOUR)
    assert np.isnan(store.held("a")[1]).all()
    store.pin("a", pin, [1.0, 2.0, np.nan, 0.0, np.inf])
    store.pin("a", pin, np.full(5, 7.0))
    np.testing.assert_array_equal(store.held("a")[1], [1.0, 2.0, np.nan, 0.0, np.inf])


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.cast("none", 0, negative=False),
        lambda store: store.append("a", block([3])),
        lambda store: store.alias("new", "a"),
    ],
)
def test_an_older_state_of_a_store_is_not_opened(tmp_path, write):
    path, marker = files(tmp_path)
    store = CopyStore.create(path, marker)
    store.append("a", block([1]))
    store.close()
    older, text = path.read_bytes(), marker.read_text()
    store = CopyStore.open(path, marker)
    write(store)
    store.close()
    newer = path.read_bytes()
    path.write_bytes(older)
    refused("store older", CopyStore.open, path, marker)
    path.write_bytes(newer)
    marker.write_text(text)  # a kill after the store's write and before the marker's
    store = CopyStore.open(path, marker)
    store.append("a", block([5]))
    store.close()
    path.write_bytes(newer)
    refused("store older", CopyStore.open, path, marker)


def test_an_alias_reads_and_writes_as_the_sensor_it_names():
    store = CopyStore()
    store.pin("old", Pin("none", HOUR))
    store.append("old", block([1, 2]))
    store.alias("new", "old")
    store.alias("new", "old")
    store.alias("newer", "new")
    assert store.permanent("newer") == "old"
    refused("already copied", store.append, "newer", block([2, 3]))
    store.append("newer", block([3]))
    assert store.sensors == ["old"]
    assert store.held("newer")[0] == Pin("none", HOUR)
    np.testing.assert_array_equal(
        store.read("new", HOUR * np.arange(5)), store.read("old", HOUR * np.arange(5))
    )


def test_aliases_that_would_join_or_lose_copies_are_refused():
    store = CopyStore()
    for sensor in ("a", "b"):
        store.append(sensor, block([1]))
    assert "copies of its own" in refused("alias", store.alias, "b", "a")
    assert "check the name" in refused("alias", store.alias, "c", "typo")
    store.alias("c", "a")
    refused("alias", store.alias, "c", "b")
    store.alias("b", "b")
    assert store.is_own("b")
    assert not store.is_own("c")


def test_stored_tags_are_found_at_their_instants():
    store, added = CopyStore(), block([1, 3])
    assert store.tags(HOUR * np.arange(2))[1] == {}
    store.append("a", added)
    instants, tags = store.tags(HOUR * np.arange(3))
    assert instants.tolist() == [0, HOUR, 2 * HOUR, 3 * HOUR]
    assert tags["a"].dtype == np.uint64
    assert tags["a"].tolist() == [0, added.tags[0], 0, added.tags[1]]
