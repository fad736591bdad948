"""What every reader of a format gives, a function of a path and its bytes: named columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.errors import InputError

CoordinateKind = Literal["latlon", "metric"]
FileFormat = Literal["csv", "sheet", "parquet", "netcdf"]
TEXTUAL: tuple[FileFormat, ...] = ("csv", "sheet")
"""Formats whose cells are texts."""


# Names that columns go by, as `key` has them; the first one present is taken.
SENSOR_NAMES = (
    "sensor", "sensor id", "sensorid", "station", "station id", "stationid", "site id",
    "location id", "locationid", "location", "device", "device id", "node", "node id",
    "sensor index", "sensor number", "station code", "stationscode", "station name", "site name",
    "messstation", "messstelle", "stationsname", "stations id", "capteur", "code station",
    "estacion", "estación", "codigo estacion", "codi eoi", "punto muestreo", "code site",
    "nom site", "nom station", "idsensore", "stazione", "fullaqscode", "siteid", "sitename",
    "site code", "site no", "sensors id", "idema", "indicativo", "site", "monitor",
)  # fmt: skip
VALUE_NAMES = (
    "value", "values", "reading", "readings", "measurement", "measurements", "concentration",
    "wert", "messwert", "valeur", "valor", "valore", "raw concentration",
)  # fmt: skip
UNIT_NAMES = (
    "unit", "units", "unit of measure", "einheit", "unité", "unite", "unité de mesure", "unidad",
    "unidades", "unitats",
)  # fmt: skip
PARAMETER_NAMES = (
    "parameter", "parameter name", "pollutant", "species", "variable", "schadstoff", "komponente",
    "polluant", "nom poll", "nom polluant", "contaminant", "contaminante", "inquinante", "magnitud",
)  # fmt: skip


@dataclass(frozen=True)
class Dialect:
    """How a text file is written: delimiter, decimal mark, line end, mark at its start, encoding,
    and the texts above and below the table."""

    delimiter: str = ","
    decimal: str = "."
    line_end: str = "\n"
    byte_order_mark: str = ""
    encoding: str = "utf-8"
    above: str = ""
    below: str = ""


PLAIN = Dialect()
Split = Callable[[int, int], Sequence[pa.Array]]
"""The texts of some rows of a file (the first, and the one after the last), column by column."""


@dataclass(frozen=True, eq=False)
class Written:
    """The cells of a table as its file writes them: the columns ``which`` of what ``split`` gives.

    A big file is split again when it is written: its strings are larger than its numbers.
    """

    split: Split
    which: Sequence[int]
    slots: int

    @classmethod
    def of(cls, arrays: Sequence[pa.Array]) -> Written:
        """Texts that are there, one array for each sensor."""
        split: Split = lambda first, last: [one[first:last] for one in arrays]  # noqa: E731
        return cls(split, range(len(arrays)), len(arrays[0]))

    def rows(self, first: int, last: int) -> list[pa.Array]:
        """Those of some slots, sensor by sensor."""
        found = self.split(first, last)
        return [found[i] for i in self.which]

    def columns(self) -> list[pa.Array]:
        """Those of all slots."""
        return self.rows(0, self.slots)


@dataclass(frozen=True, eq=False)
class Columns:
    """Named columns of a file or a DataFrame.

    ``arrays`` hold texts (``string``) as the file has them, or typed values. ``place`` names a row
    for people: ``line 7``. ``time_first``: the format says that the first column is the time.
    ``wide_only``: all others are sensors. ``form`` is what it takes to write such a file again.
    ``raw`` are the columns as they came, where they are kept; ``homes`` and ``rows`` say which of
    its columns (-1: none) and rows these are. ``numbers`` are the readings (columns x rows) of a
    text file whose arrays, but for the first, already hold them; ``split`` gives its texts.
    """

    path: Path
    names: tuple[str, ...]
    arrays: tuple[pa.Array, ...]
    format: FileFormat
    place: Callable[[int], str] = lambda row: f"row {row + 1}"
    time_first: bool = False
    wide_only: bool = False
    dialect: Dialect = PLAIN
    form: Any = None
    units: tuple[str, ...] | None = None
    coordinates: NDArray[np.float64] | None = None
    kind: CoordinateKind | None = None
    notes: tuple[str, ...] = ()
    raw: Columns | None = None
    homes: tuple[int, ...] = ()
    rows: NDArray[np.intp] | None = None
    numbers: NDArray[np.float64] | None = None
    split: Split | None = None

    def as_text(self) -> Columns:
        """The same with the texts of all cells, where these were numbers already."""
        if self.split is None:
            return self
        texts = tuple(pc.fill_null(one, "") for one in self.split(0, len(self.arrays[0])))
        return replace(self, arrays=texts, numbers=None, split=None)

    def kept(self) -> Columns:
        """The same, with what they are now kept beside what will be made of them."""
        rows = np.arange(len(self.arrays[0]))
        return replace(self, raw=self, homes=tuple(range(len(self.names))), rows=rows)

    def pick(self, rows: NDArray[np.intp]) -> Columns:
        """These rows alone; messages still name the rows of the file."""
        taken = tuple(array.take(pa.array(rows)) for array in self.arrays)
        left = None if self.rows is None else self.rows[rows]
        return replace(self, arrays=taken, rows=left, place=lambda row: self.place(int(rows[row])))

    def find(self, common: Sequence[str]) -> int | None:
        """The column that bears the first of these common names that is there (:func:`key`)."""
        return next((self._keys[name] for name in map(key, common) if name in self._keys), None)

    @cached_property
    def _keys(self) -> dict[str, int]:
        """The first column of each name."""
        return {key(name): i for i, name in reversed(list(enumerate(self.names)))}

    def named(self, name: str, option: str) -> int:
        """The column of exactly this name; ``option`` is the argument that asks for it."""
        if name not in self.names:
            problem = f"there is no column {name!r}; the columns are {listing(self.names, 8)}"
            raise self.error(problem, f"Give {option} one of these names")
        return self.names.index(name)

    def error(self, problem: str, remedy: str, *rows: int, column: int | None = None) -> InputError:
        """The refusal of a place in the file (``lines 3 and 7``), for the caller to raise."""
        where, words = str(self.path), [self.place(row).split() for row in rows]
        if words:
            where += f", {words[0][0]}{'s' * (len(words) > 1)} {' and '.join(w[1] for w in words)}"
        if column is not None and self.names[column]:
            where += f", column {self.names[column]!r}"
        return InputError(problem, where=where, remedy=remedy)


def as_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array, and one type for texts."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.cast(pa.string()) if pa.types.is_large_string(array.type) else array


@cache
def key(name: str) -> str:
    """A name without what people write differently: case, signs between words, a unit behind it.

    Examples
    --------
    >>> [key(name) for name in ("Station_ID", "Date/Time (UTC)", "(UTC)", "A-1")]
    ['station id', 'date time', '(utc)', 'a 1']
    """
    lowered = re.sub(r"[\s_./\-]+", " ", name.lower()).strip()
    return re.sub(r"(?<=\S) ?[\[(][^\[\]()]*[\])]$", "", lowered)


def listing(names: Iterable[object], limit: int = 5) -> str:
    """Join names for a sentence, and count what does not fit.

    Examples
    --------
    >>> listing(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    words = [str(name) for name in names]
    shown = ", ".join(words[:limit])
    return shown if len(words) <= limit else f"{shown} and {len(words) - limit} more"


def drop(columns: Columns, gone: Sequence[int], *notes: str) -> Columns:
    """The columns without some, and notes on that."""
    kept = [i for i in range(len(columns.names)) if i not in set(gone)]
    units = None if columns.units is None else tuple(columns.units[i] for i in kept)
    # Titles with cells of their own, over columns that are no more, would be taken for names.
    mark, above = columns.dialect.delimiter, columns.dialect.above.splitlines(keepends=True)
    titles = "".join(line for line in above if mark not in line)
    return replace(
        columns,
        names=tuple(columns.names[i] for i in kept),
        arrays=tuple(columns.arrays[i] for i in kept),
        units=units,
        homes=tuple(columns.homes[i] for i in kept) if columns.homes else (),
        notes=(*columns.notes, *notes),
        dialect=replace(columns.dialect, above=titles),
    )
