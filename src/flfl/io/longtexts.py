"""The text of a long table, one row a cell, made piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.io.celltexts import CellTexts
from flfl.io.table import Table

Extra = dict[str, NDArray[Any]]
"""Further columns by name, time x sensor: words or numbers."""

# Cells turned to text at a time: enough to be quick, little enough to stay small in memory.
_PIECE_CELLS = 1 << 18


def row_pieces(rows: NDArray[np.intp], sensors: int) -> list[NDArray[np.intp]]:
    """The rows in pieces of a size that suits the memory."""
    return np.array_split(rows, -(-len(rows) * sensors // _PIECE_CELLS))


class LongTexts:
    """Columns of text, piece by piece: one sensor after another, or one slot after another."""

    def __init__(
        self,
        table: Table,
        times: Sequence[str],
        texts: CellTexts,
        names: Mapping[str, str],
        extra: Extra,
    ) -> None:
        self.texts, self.names, self.extra = texts, names, extra
        self.times, self.ids = list(times), list(table.sensor_ids)
        source = table.source
        self.of_sensor = {} if source is None else _as_texts(source.carried_by_sensor)
        self.of_slot = {} if source is None else _as_texts(source.carried_by_slot)

    def by_sensor(self) -> Iterator[list[list[str]]]:
        """All slots of a sensor, then the next one."""
        every = np.arange(len(self.times))
        for i, name in enumerate(self.ids):
            columns: list[list[str]] = []
            for column, what in self.names.items():
                if what == "value":
                    columns.append(self.texts.cells(i, every))
                elif what in ("time", "by slot"):
                    columns.append(self._of_slots(column, what))
                else:
                    one = name if what == "sensor" else self.of_sensor[column][i]
                    columns.append([one] * len(every))
            yield columns + [_words(self.texts, c[:, i], i) for c in self.extra.values()]

    def by_slot(self) -> Iterator[list[list[str]]]:
        """All sensors at a slot, then the next one."""
        sensors = range(len(self.ids))
        for piece in row_pieces(np.arange(len(self.times)), len(self.ids)):
            columns: list[list[str]] = []
            for column, what in self.names.items():
                if what == "value":
                    columns.append(_interleave([self.texts.cells(i, piece) for i in sensors]))
                elif what in ("time", "by slot"):
                    cells = self._of_slots(column, what)
                    columns.append([cells[slot] for slot in piece for _ in sensors])
                else:
                    one = self.ids if what == "sensor" else self.of_sensor[column]
                    columns.append(one * len(piece))
            for more in self.extra.values():
                words = [_words(self.texts, more[piece, i], i) for i in sensors]
                columns.append(_interleave(words))
            yield columns

    def _of_slots(self, column: str, what: str) -> list[str]:
        return self.times if what == "time" else self.of_slot[column]


def _as_texts(carried: Mapping[str, pa.Array]) -> dict[str, list[str]]:
    return {
        name: pc.fill_null(cells.cast(pa.string()), "").to_pylist()
        for name, cells in carried.items()
    }


def _interleave(columns: list[list[str]]) -> list[str]:
    return [text for row in zip(*columns, strict=True) for text in row]


def _words(texts: CellTexts, column: NDArray[Any], sensor: int) -> list[str]:
    if column.dtype == object:
        words: list[str] = column.tolist()
        return words
    return texts.numbers(column, sensor)
