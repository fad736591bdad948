"""What every reader of a format gives: named columns of text or of typed values.

A format is one function from a path and its bytes to `Columns` (see `flfl.io.read.read_columns`).
All that follows is the same for every format: which column is what, numbers, times, the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flfl.errors import InputError

CoordinateKind = Literal["latlon", "metric"]
FileFormat = Literal["csv", "parquet", "netcdf"]


@dataclass(frozen=True)
class Dialect:
    """How a text file is written: delimiter, decimal mark, line end, and what precedes it all."""

    delimiter: str = ","
    decimal: str = "."
    line_end: str = "\n"
    byte_order_mark: str = ""


PLAIN = Dialect()


@dataclass(frozen=True, eq=False)
class Columns:
    """Named columns of a file or a DataFrame.

    Attributes
    ----------
    path : Path
        Where they came from; for a DataFrame what it is called in messages.
    names, arrays : tuple
        The arrays hold texts (``string``) as the file has them, or typed values.
    format : {"csv", "parquet", "netcdf"}
    place : callable
        Names a row the way a person looks for it: ``line 7``, ``row 6``.
    time_first, wide_only : bool
        The format itself says that the first column is the time, that the others are sensors.
    dialect : Dialect
        Of a text file.
    form : object
        What the format needs to write such a file again: a Parquet schema, a NetCDF skeleton.
    units, coordinates, kind
        Of each column its unit, and of the sensors where they stand, where the format tells.
    notes : tuple of str
        What was understood, in plain sentences.
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

    def pick(self, rows: NDArray[np.intp]) -> Columns:
        """These rows alone; messages still name the rows of the file."""
        taken = tuple(array.take(pa.array(rows)) for array in self.arrays)
        return replace(self, arrays=taken, place=lambda row: self.place(int(rows[row])))

    def find(self, common: Sequence[str]) -> int | None:
        """The column that bears the first of these common names that is there, in any case."""
        lowered = [name.lower() for name in self.names]
        return next((lowered.index(name) for name in common if name in lowered), None)

    def named(self, name: str, option: str) -> int:
        """The column of exactly this name; ``option`` is the argument that asks for it."""
        if name not in self.names:
            raise self.error(
                f"there is no column {name!r}; the columns are {listing(self.names, 8)}",
                f"Give {option} one of these names",
            )
        return self.names.index(name)

    def where(self, row: int | None = None, column: int | None = None) -> str:
        """Name a place in the file."""
        at = "" if row is None else f", {self.place(row)}"
        named = column is not None and self.names[column]
        return f"{self.path}{at}" + (f", column {named!r}" if named else "")

    def error(
        self, problem: str, remedy: str, row: int | None = None, column: int | None = None
    ) -> InputError:
        """The refusal of a place in the file, for the caller to raise."""
        return InputError(problem, where=self.where(row, column), remedy=remedy)

    def error_at(self, problem: str, remedy: str, rows: Sequence[int]) -> InputError:
        """The refusal of several rows: ``lines 3 and 7``."""
        words = [self.place(row).split() for row in rows]
        at = f"{words[0][0]}s {' and '.join(word[1] for word in words)}"
        return InputError(problem, where=f"{self.path}, {at}", remedy=remedy)


def as_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array, and one type for texts."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.cast(pa.string()) if pa.types.is_large_string(array.type) else array


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
