"""The copies a site has made: one a reading, for ever.

An append-only SQLite file, keyed by a sensor's permanent id and the UTC instant, independent of
network and run. Where it holds a copy, that one is used, whatever the owner's file says by now.
"""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flfl.errors import FLFLError
from flfl.model import Array, Index, Words
from flfl.protocol.plan import Pin

Code = Literal[
    "store missing", "store exists", "store damaged", "store older", "already copied",
    "not a block", "too early", "pinned", "alias", "renamed", "one sensor twice",
    "running mean", "instants",
]  # fmt: skip

_BLOBS = {"instants": "<i8", "copies": "<f8", "sigmas": "<f8", "tags": "<u8"}
_SCHEMA = """
create table about (name text primary key, value)

create table pin (
    sensor text primary key, transform text, step integer, origin integer, season integer,
    error real, s real, swing real, steps real, slope real
)

create table alias (new text primary key, old text not null)

create table block (
    sensor text, first integer, last integer, instants blob, copies blob, sigmas blob, tags blob,
    forecast real, variance real, primary key (sensor, first)
)

create trigger block_stays before update on block begin select raise(abort, 'append only'); end

create trigger block_kept before delete on block begin select raise(abort, 'append only'); end
"""
_LATE_SCHEMA = """
create table late (
    sensor text, arrived integer, instants blob, copies blob, sigmas blob, tags blob
)

create trigger late_stays before update on late begin select raise(abort, 'append only'); end

create trigger late_kept before delete on late begin select raise(abort, 'append only'); end
"""


_MARKER = re.compile(r"[0-9a-f]{32} \d{1,18}\s*")


class CopyError(FLFLError):
    """A copy cannot be made or found. The message is for the owner; the ``code`` says nothing of a
    reading. ``sensor`` is the one that could stay at home instead."""

    def __init__(self, code: Code, message: str, sensor: str | None = None) -> None:
        super().__init__(code, message, sensor)
        self.code: Code = code
        self.sensor = sensor

    def __str__(self) -> str:
        return str(self.args[1])


class Block(NamedTuple):
    """Copies of one sensor, made together, at increasing instants (n,): UTC seconds, copies, their
    added errors and keyed tags of the readings; forecast and variance of the reading that follows.
    """

    instants: Index
    copies: Array
    sigmas: Array
    tags: Words
    forecast: float
    variance: float


def connect(path: str | Path) -> sqlite3.Connection:
    """Open a SQLite file in which what was committed survives a crash of the machine."""
    # A file is used by one thread at a time, not always by the one that opened it.
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    # A write-ahead log that is cut short is whole up to its last whole transaction.
    database.execute("pragma journal_mode = wal")
    database.execute("pragma synchronous = full")
    return database


class CopyStore:
    """The copies of one site, in an existing file or in memory.

    A (sensor, instant) has one copy, which is never changed nor taken back; an append is on the
    disk as a whole, or not at all. The marker counts what was written: an older state of the store
    is not opened with it.

    Examples
    --------
    >>> store = CopyStore()
    >>> store.pin("a", Pin("sqrt", 3600))
    >>> arrays = np.array([0, 3600]), np.array([2.0, 2.5]), np.array([0.5, 0.5])
    >>> store.append("a", Block(*arrays, np.array([7, 8], np.uint64), 2.3, 0.2))
    >>> store.read("a", np.array([3600, 7200]))
    (array([2.5, nan]), array([0.5, nan]))
    >>> store.last("a")
    (3600, 2.3, 0.2)
    """

    def __init__(self, path: str | Path = ":memory:") -> None:
        self.path = str(path)
        self._marker: Path | None = None
        if self.path != ":memory:":
            if not Path(path).is_file():
                raise _lost("store missing", path)
            os.chmod(path, 0o600)
        try:
            self._db = connect(self.path)
        except sqlite3.Error as error:
            raise _damaged(self.path, error) from None
        if not self._run("select 1 from sqlite_master"):
            with self.transaction():
                self._create(_SCHEMA)
                self._put("id", secrets.token_hex(16))
        if not self._run("select 1 from sqlite_master where name = 'late'"):
            with self.transaction():
                self._create(_LATE_SCHEMA)
        self.id = str(self._get("id"))

    @classmethod
    def create(
        cls, path: str | Path, marker: str | Path, start_after: int | None = None
    ) -> CopyStore:
        """A new store, and its marker, a small file to keep beside the site's secret. A marker that
        is there says that copies were made: another store may begin only after ``start_after``, the
        last instant that was ever released."""
        path, marker = Path(path), Path(marker)
        if marker.exists() and start_after is None:
            raise _lost("store missing", path)
        made = path.exists()
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        store = cls(path)
        # An empty store without its marker is what a kill in the middle of this leaves.
        if (marker.exists() and made) or store.sensors:
            store.close()
            text = "there is a copy store already; open it, or move it away"
            raise CopyError("store exists", f"{path}: {text}")
        if start_after is not None:
            with store.transaction():
                store._put("start", max(int(start_after), store.start))
        store._marker = marker
        store._mark()
        return store

    @classmethod
    def open(cls, path: str | Path, marker: str | Path) -> CopyStore:
        """The store that its marker names: a lost store never gives second copies silently."""
        if not Path(marker).is_file() or not Path(path).is_file():
            raise _lost("store missing", path)
        store = cls(path)
        name, _, written = Path(marker).read_bytes().decode(errors="replace").partition(" ")
        if not _MARKER.fullmatch(f"{name} {written}"):
            # Garbage names no store, and says of none that it is missing.
            Path(marker).replace(f"{marker}.damaged")
            store._marker = Path(marker)
            store._mark()
            return store
        if store.id != name or store.written < int(written):
            store.close()
            raise _lost("store missing" if store.id != name else "store older", path)
        store._marker = Path(marker)
        return store

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside is there afterwards, or nothing of it."""
        if self._db.in_transaction:
            yield
            return
        self._run("begin immediate")
        before = self._db.total_changes
        try:
            yield
            changed = self._db.total_changes > before
            if changed:
                self._put("written", self.written + 1)
            self._run("commit")
        finally:
            if self._db.in_transaction:
                self._db.rollback()
        # A kill before this leaves a store that is ahead of its marker, which is none the worse.
        if changed:
            self._mark()

    @property
    def written(self) -> int:
        """How often something was written."""
        return int(self._get("written") or 0)

    def _mark(self) -> None:
        """Write the marker, whole or not at all, readable by its owner only."""
        if self._marker is None:
            return
        part = self._marker.with_name(self._marker.name + ".part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(f"{self.id} {self.written}")
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._marker)

    @property
    def start(self) -> int:
        """No reading at or before this instant is copied anew."""
        start = self._get("start")
        return int(start) if start is not None else int(np.iinfo(np.int64).min)

    @property
    def sensors(self) -> list[str]:
        """Permanent ids of the sensors that have copies."""
        query = "select sensor from block union select sensor from late order by 1"
        return [row[0] for row in self._run(query)]

    def permanent(self, sensor: str) -> str:
        """The id that a sensor's copies are kept under."""
        rows = self._run("select old from alias where new = ?", sensor)
        return str(rows[0][0]) if rows else sensor

    def alias(self, new: str, old: str) -> None:
        """From now on ``new`` reads and writes as ``old``. A sensor that is an alias of itself is
        an instrument of its own, however much it reads like another one."""
        old = self.permanent(old)
        with self.transaction():
            other = self._run("select old from alias where new = ?", new)
            if other == [(old,)]:
                return
            if other:
                raise CopyError("alias", f"{new} is an alias of {other[0][0]} already")
            if new != old and new in self.sensors:
                raise CopyError("alias", f"{new} has copies of its own; leave it out from now on")
            if new != old and old not in self.sensors:
                raise CopyError("alias", f"{old} has no copies; check the name")
            self._run("insert into alias values (?, ?)", new, old)

    def is_own(self, sensor: str) -> bool:
        """Whether the owner said that this is an instrument of its own."""
        return bool(self._run("select 1 from alias where new = ? and old = new", sensor))

    def pin(self, sensor: str, pin: Pin, numbers: ArrayLike = (np.nan,) * 5) -> None:
        """Hold a sensor to one way of copying, and to five numbers that come from its readings:
        the error in time that is published of it, and its scale (s, swing, steps, slope)."""
        with self.transaction():
            held, _ = self.held(sensor)
            if held is None:
                way = pin.transform, int(pin.step_seconds), int(pin.origin_seconds), int(pin.season)
                row = (self.permanent(sensor), *way, *np.asarray(numbers, float).tolist())
                self._run("insert into pin values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *row)
            elif held != pin:
                raise CopyError(
                    "pinned",
                    f"{sensor} was copied with {held}, and {pin} would give second copies of its "
                    "readings; join with a plan that has the former",
                )

    def held(self, sensor: str) -> tuple[Pin | None, Array]:
        """How a sensor is copied, and the five numbers that it is held to; None and NaN before its
        first copy."""
        rows = self._run("select * from pin where sensor = ?", self.permanent(sensor))
        _, *row = rows[0] if rows else [None] * 10
        return Pin(*row[:4]) if rows else None, np.array(row[4:], float)

    @property
    def vote(self) -> tuple[str, int, bool] | None:
        """This site's vote, one for ever: transform, season, whether it has negative readings."""
        kept = self._get("vote")
        if kept is None:
            return None
        transform, season, negative = str(kept).split()
        return transform, int(season), bool(int(negative))

    def cast(self, transform: str, season: int, negative: bool) -> None:
        """Keep the vote; a second one would tell more about the readings."""
        with self.transaction():
            if self.vote is None:
                self._put("vote", f"{transform} {season} {int(negative)}")

    def bounds(self, sensors: Sequence[str]) -> Array:
        """What a public model leaves open of each sensor, as it was kept last (m,); NaN: never."""
        kept = [self._get(f"left open {self.permanent(sensor)}") for sensor in sensors]
        return np.array([np.nan if bound is None else bound for bound in kept], float)

    def bind(self, sensors: Sequence[str], bounds: Array) -> None:
        """Keep it; infinity where nothing can be said."""
        with self.transaction():
            for sensor, bound in zip(sensors, bounds.tolist(), strict=True):
                if np.isfinite(bound):
                    self._put(f"left open {self.permanent(sensor)}", float(bound))

    def append(self, sensor: str, block: Block) -> None:
        """Add copies after the last one of a sensor."""
        sensor, arrays = self.permanent(sensor), self._checked(sensor, block)
        with self.transaction():
            end, blobs = self.last(sensor), [array.tobytes() for array in arrays]
            first, last = int(arrays[0][0]), int(arrays[0][-1])
            if end is not None and first <= end[0]:
                text = "a reading has one copy, for ever, and none that comes after later ones"
                raise CopyError("already copied", f"{sensor}: {text}")
            if self._run("select 1 from late where sensor = ? limit 1", sensor):
                self._check_new(sensor, arrays[0])
            row = (sensor, first, last, *blobs, float(block.forecast), float(block.variance))
            self._run("insert into block values (?, ?, ?, ?, ?, ?, ?, ?, ?)", *row)

    def append_late(self, sensor: str, block: Block, arrived: int) -> None:
        """Add copies of readings that came late, when slots up to ``arrived`` were released."""
        sensor, arrays = self.permanent(sensor), self._checked(sensor, block)
        with self.transaction():
            self._check_new(sensor, arrays[0])
            row = (sensor, int(arrived), *(array.tobytes() for array in arrays))
            self._run("insert into late values (?, ?, ?, ?, ?, ?)", *row)

    def _checked(self, sensor: str, block: Block) -> list[NDArray]:
        instants, *rest = arrays = [
            np.asarray(array).astype(kind)
            for array, kind in zip(block[:4], _BLOBS.values(), strict=True)
        ]
        if (
            not len(instants)
            or any(array.shape != (len(instants),) for array in rest)
            or not (np.diff(instants) > 0).all()
            or not np.isfinite([block.copies, block.sigmas]).all()
            or np.min(block.sigmas) < 0
            or not np.isfinite([block.forecast, block.variance]).all()
        ):
            raise CopyError("not a block", f"{sensor}: not equally many finite copies in order")
        if instants[0] <= self.start:
            raise CopyError("too early", f"{sensor}: this store begins after {self.start}")
        return arrays

    def _check_new(self, sensor: str, instants: Index) -> None:
        if np.isin(instants, self._load(sensor)[0]).any():
            raise CopyError("already copied", f"{sensor}: a reading has one copy, for ever")

    def read(self, sensor: str, instants: Index) -> tuple[Array, Array]:
        """Copies and their added errors (n,) at increasing instants, NaN where there is none."""
        stored, copies, sigmas, _ = self._load(sensor)
        _, mine, theirs = np.intersect1d(instants, stored, assume_unique=True, return_indices=True)
        out = np.full((2, len(instants)), np.nan)
        out[:, mine] = copies[theirs], sigmas[theirs]
        return out[0], out[1]

    def arrivals(self, sensor: str, instants: Index) -> Index:
        """When readings at increasing instants (n,) were copied: in order, or late."""
        out = np.array(instants, np.int64)
        query = "select arrived, instants from late where sensor = ?"
        for arrived, blob in self._run(query, self.permanent(sensor)):
            out[np.isin(instants, np.frombuffer(blob, "<i8"))] = arrived
        return out

    def last(self, sensor: str) -> tuple[int, float, float] | None:
        """Instant of a sensor's last copy, but for late ones, and the forecast and its variance
        after it."""
        query = "select last, forecast, variance from block where sensor = ? order by last desc"
        rows = self._run(query + " limit 1", self.permanent(sensor))
        return rows[0] if rows else None

    def tags(self, instants: Index) -> tuple[Index, dict[str, Words]]:
        """Some instants with all that have a copy (n,), and the tags of each stored sensor there,
        0 where there is none."""
        stored = {sensor: self._load(sensor) for sensor in self.sensors}
        grid = np.unique(np.concatenate([instants, *(own[0] for own in stored.values())]))
        tags = {sensor: np.zeros(len(grid), np.uint64) for sensor in stored}
        for sensor, own in stored.items():
            tags[sensor][np.searchsorted(grid, own[0])] = own[3]
        return grid, tags

    def _load(self, sensor: str) -> list[NDArray]:
        """Instants, copies, sigmas and tags of a sensor, in order of time (n,)."""
        what, own = ", ".join(_BLOBS), self.permanent(sensor)
        rows = self._run(f"select {what} from block where sensor = ? order by first", own)
        late = self._run(f"select {what} from late where sensor = ?", own)
        blobs = list(zip(*rows, *late, strict=True)) or [()] * 4
        kinds = zip(blobs, _BLOBS.values(), strict=True)
        arrays = [np.frombuffer(b"".join(blob), kind) for blob, kind in kinds]
        if late:
            order = np.argsort(arrays[0])
            arrays = [array[order] for array in arrays]
        return arrays

    def _create(self, schema: str) -> None:
        for statement in schema.strip().split("\n\n"):
            self._run(statement)

    def _get(self, name: str) -> Any:
        rows = self._run("select value from about where name = ?", name)
        return rows[0][0] if rows else None

    def _put(self, name: str, value: str | float) -> None:
        self._run("insert or replace into about values (?, ?)", name, value)

    def _run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise _damaged(self.path, error) from None


def _lost(code: Code, path: str | Path) -> CopyError:
    how = "is older than its marker" if code == "store older" else "or its marker is missing"
    return CopyError(
        code,
        f"the copy store {path} of this site {how}; restore the newest ones from a backup, or move "
        "them away and join as new from the next unreleased slot with CopyStore.create(path, "
        "marker, start_after=INSTANT), the last instant that was released",
    )


def _damaged(path: str, error: sqlite3.Error) -> CopyError:
    return CopyError(
        "store damaged",
        f"the copy store {path} cannot be used ({error}); close whatever else has it open, make "
        "room on the disk, or restore it from a backup",
    )
