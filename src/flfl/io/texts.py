"""The texts of observed cells: kept as columns, or found again in the lines of the file.

A big file's cells take more memory as texts than as numbers. So where the rows of a file are plain
lines, a block of them is split again when it is written; and of a big file not even the bytes are
kept, they are read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flfl.errors import InputError, explained
from flfl.io.csvfile import parse_texts
from flfl.io.rawfile import RawFile, stamp_of

Slots = NDArray[np.intp]
_SCANNED = 1 << 20
# Bytes of a file that are kept rather than read again.
_KEPT = 1 << 24


class Texts(Protocol):
    """The text of every cell, slots x sensors; what it gives for a missing cell means nothing."""

    def column(self, sensor: int, slots: Slots) -> pa.Array:
        """The texts of one sensor at some slots."""

    def take(self, slots: Slots) -> Self:
        """Other slots, as a selection of these; -1 stands for a slot without any text."""

    def slim(self) -> None:
        """Let go of what can be read again."""


class ColumnTexts:
    """Texts kept as one array a sensor."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self.columns = list(columns)

    def column(self, sensor: int, slots: Slots) -> pa.Array:
        """The texts of one sensor at some slots."""
        return self.columns[sensor].take(pa.array(slots))

    def take(self, slots: Slots) -> ColumnTexts:
        """Other slots, as a selection of these."""
        chosen = pa.array(slots, mask=slots < 0)
        return ColumnTexts([column.take(chosen) for column in self.columns])

    def slim(self) -> None:
        """Nothing: the columns are all there is."""


@dataclass(frozen=True, eq=False)
class Lines:
    """The lines of a file that are rows: row ``i`` is the bytes from ``starts[i]`` on."""

    raw: RawFile
    starts: NDArray[np.int64]

    def join(self, rows: Slots) -> bytes:
        """Some rows, one after another; read again when the bytes were not kept."""
        spans = [(int(self.starts[row]), int(self.starts[row + 1])) for row in rows]
        if self.raw.data:
            return b"".join(self.raw.data[start:stop] for start, stop in spans)
        path, remedy = self.raw.path, "Leave the file as it is until the run has ended"
        with explained("the file cannot be read again", where=str(path), remedy=remedy):
            if stamp_of(path) != self.raw.stamp:
                problem = "the file has changed since it was read"
                raise InputError(problem, where=str(path), remedy=remedy)
            with path.open("rb") as file:
                return b"".join(_read(file, start, stop - start) for start, stop in spans)


def _read(file: BinaryIO, start: int, size: int) -> bytes:
    file.seek(start)
    return file.read(size)


class LineTexts:
    """Texts split again from the lines of a wide file, a block of slots at a time."""

    def __init__(self, lines: Lines, sensors: Sequence[int], rows: Slots) -> None:
        self.lines = lines
        self.sensors = list(sensors)
        self.rows = rows
        self._slots = np.empty(0, dtype=np.intp)
        self._block: list[pa.Array] = []

    def column(self, sensor: int, slots: Slots) -> pa.Array:
        """The texts of one sensor at some slots; quick when all sensors are asked for in turn."""
        if not np.array_equal(slots, self._slots):
            self._slots, self._block = slots, self._split(slots)
        return self._block[self.sensors[sensor]]

    def _split(self, slots: Slots) -> list[pa.Array]:
        rows = self.rows[slots]
        there = rows[rows >= 0]
        raw = self.lines.raw
        if len(there) == 0:
            return [pa.nulls(len(slots), pa.string())] * len(raw.names)
        block = parse_texts(self.lines.join(there), len(raw.names), raw.delimiter)
        if len(there) == len(rows):
            return block
        place = np.where(rows < 0, -1, np.cumsum(rows >= 0) - 1)
        return ColumnTexts(block).take(place).columns

    def take(self, slots: Slots) -> LineTexts:
        """Other slots, as a selection of these."""
        rows = np.where(slots < 0, -1, self.rows[slots])
        return LineTexts(self.lines, self.sensors, rows)

    def slim(self) -> None:
        """Let go of the bytes of a big plain file; no message will name its lines any more."""
        raw = self.lines.raw
        if raw.stamp is not None and len(raw.data) > _KEPT:
            raw.data = b""


def line_texts(raw: RawFile, sensors: Sequence[int], rows: int) -> LineTexts | None:
    """Texts by line, where every line that is not blank is a row; else None."""
    if b'"' in raw.data or raw.data.count(b"\r", raw.body) != raw.data.count(b"\r\n", raw.body):
        return None
    data = np.frombuffer(raw.data, dtype=np.uint8)
    ends = [
        np.flatnonzero(data[start : start + _SCANNED] == ord("\n")) + start + 1
        for start in range(raw.body, len(data), _SCANNED)
    ]
    starts = np.unique(np.concatenate([[raw.body], *ends, [len(data)]]))
    # A blank line holds its end alone, one byte or two, and no row is as short as that.
    blank = np.flatnonzero(np.diff(starts) <= 2)
    blank = blank[[not raw.data[starts[i] : starts[i + 1]].strip(b"\r\n") for i in blank]]
    if len(starts) - 1 - len(blank) != rows:
        return None
    # The last row may lack its end: joined with others it would run into the next.
    if not raw.data.endswith(b"\n"):
        return None
    return LineTexts(Lines(raw, _without_blanks(starts, blank)), sensors, np.arange(rows))


def _without_blanks(starts: NDArray[np.int64], blank: NDArray[np.intp]) -> NDArray[np.int64]:
    """Row starts where a blank line belongs to the row before it (or, the first ones, to none)."""
    return np.delete(starts, blank) if len(blank) else starts
