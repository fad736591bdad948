"""The rows of a file as they came, where readings of several became one slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.io.columns import Columns

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Original:
    """A file as it came (``raw``) and the cells in it that hold no reading.

    The n-th of these is in ``row[n]`` and ``column[n]`` of the file; ``slot[n]`` and ``sensor[n]``
    of the table are its. ``homes`` are the columns in which each sensor's readings are.
    """

    raw: Columns
    homes: tuple[int, ...]
    row: Rows
    column: Rows
    slot: Rows
    sensor: Rows

    @classmethod
    def of(
        cls, columns: Columns, which: Sequence[int], values: Array, slot: Rows, sensor: Rows
    ) -> Original | None:
        """The file behind ``columns``, whose columns ``which`` hold ``values`` (columns x rows).

        ``slot`` is that of each row, ``sensor`` that of each value, by row or by column of
        ``values``. None where the file was not kept, or where its rows are other things.
        """
        if columns.raw is None or columns.rows is None:
            return None
        homes = np.array([columns.homes[i] for i in which], dtype=np.intp)
        column, row = np.nonzero(np.isnan(values))
        return cls(
            columns.raw,
            tuple(np.resize(homes, int(sensor.max()) + 1).tolist()),
            columns.rows[row],
            homes[column],
            slot[row],
            np.broadcast_to(sensor, values.shape)[column, row],
        )

    def texts(self, sensor: int) -> pa.Array:
        """The numbers in a sensor's column, as they are written."""
        cells = _text(self.raw.arrays[self.homes[sensor]])
        return cells.filter(pc.match_substring_regex(cells, r"^\s*[+-]?[\d.,]+([eE][+-]?\d+)?\s*$"))

    def filled(self, texts: NDArray[np.object_], values: Array) -> list[pa.Array]:
        """The columns of the file, with what was recovered in the cells that held no reading.

        ``texts`` are those of all n cells; without any, numbers are put in. Where nothing was
        recovered, a cell stays as it came.
        """
        arrays = list(self.raw.arrays)
        found = ~np.isnan(values)
        for column in np.unique(self.column[found]):
            at = np.flatnonzero(found & (self.column == column))
            array, mask = arrays[column], np.zeros(len(arrays[column]), dtype=bool)
            mask[self.row[at]] = True
            if len(texts):
                put = pa.array(texts[at], pa.string())
                array = _text(array)
            else:
                array, put = pc.cast(array, pa.float64()), pa.array(values[at])
            arrays[column] = pc.replace_with_mask(array, pa.array(mask), put)
        return arrays


def _text(array: pa.Array) -> pa.Array:
    return pc.fill_null(pc.cast(array, pa.string()), "")
