"""The texts of observed cells: kept as columns, or found again in the bytes of the file.

A big file's cells take more memory as texts than as numbers, so where the rows of a file are plain
lines its bytes are kept, and a block of rows is split again when it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flfl.data.csvfile import parse_texts
from flfl.data.rawfile import RawFile

Slots = NDArray[np.intp]
_SCANNED = 1 << 20


class Texts(Protocol):
    """The text of every cell, slots x sensors; what it gives for a missing cell means nothing."""

    def column(self, sensor: int, slots: Slots) -> pa.Array:
        """The texts of one sensor at some slots."""

    def take(self, slots: Slots) -> Self:
        """Other slots, as a selection of these; -1 stands for a slot without any text."""


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


class LineTexts:
    """Texts split again from the lines of a wide file, a block of slots at a time."""

    def __init__(
        self, raw: RawFile, sensors: Sequence[int], starts: NDArray[np.int64], rows: Slots
    ) -> None:
        self.raw = raw
        self.sensors = list(sensors)
        self.starts = starts
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
        lines = [self.raw.data[self.starts[row] : self.starts[row + 1]] for row in there.tolist()]
        width = len(self.raw.names)
        if not lines:
            return [pa.nulls(len(slots), pa.string())] * width
        block = parse_texts(b"".join(lines), width, self.raw.delimiter)
        if len(there) == len(rows):
            return block
        place = np.where(rows < 0, -1, np.cumsum(rows >= 0) - 1)
        return ColumnTexts(block).take(place).columns

    def take(self, slots: Slots) -> LineTexts:
        """Other slots, as a selection of these."""
        rows = np.where(slots < 0, -1, self.rows[slots])
        return LineTexts(self.raw, self.sensors, self.starts, rows)


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
    return LineTexts(raw, sensors, _without_blanks(starts, blank), np.arange(rows))


def _without_blanks(starts: NDArray[np.int64], blank: NDArray[np.intp]) -> NDArray[np.int64]:
    """Row starts where a blank line belongs to the row before it (or, the first ones, to none)."""
    return np.delete(starts, blank) if len(blank) else starts
