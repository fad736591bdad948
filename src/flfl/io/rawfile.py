"""A file as named columns, and the way back to its lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.table import FileFormat, NetcdfForm, listing


@dataclass(eq=False)
class RawFile:
    """Named columns of a file, and the way back to its lines for messages."""

    path: Path
    format: FileFormat
    names: list[str]
    load: Callable[[], list[pa.Array]] = field(repr=False)
    """Gives the columns when they are first asked for: a big file of numbers never needs them as
    text."""
    delimiter: str = ","
    line_end: str = "\n"
    data: bytes = field(default=b"", repr=False)
    indexed: bool = False
    """The first column was stored as an index, so it is meant as the time."""
    missing_words: tuple[str, ...] = ()
    """Further words, in lower case, that stand for a missing reading."""
    mark: str = ""
    """The byte order mark, where the text begins with one."""
    body: int = 0
    """The byte of ``data`` at which the rows begin."""
    stamp: tuple[int, int] | None = None
    """Size and time of change, where ``data`` is what the file holds byte for byte."""
    schema: pa.Schema | None = None
    """Of a Parquet file, as stored."""
    netcdf: NetcdfForm | None = None
    picked: NDArray[np.intp] | None = None
    """The rows of the file that ``columns`` holds, when it does not hold all."""

    @cached_property
    def columns(self) -> list[pa.Array]:
        """One array a column."""
        return self.load()

    def pick(self, rows: NDArray[np.intp]) -> None:
        """Keep these rows alone."""
        self.columns = [column.take(pa.array(rows)) for column in self.columns]
        self.picked = rows

    @property
    def rows(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def find(self, common: Sequence[str]) -> int | None:
        """The column that bears the first of these common names that is there, in any case."""
        lowered = [name.lower() for name in self.names]
        return next((lowered.index(name) for name in common if name in lowered), None)

    def named(self, name: str, option: str) -> int:
        """The column of exactly this name; ``option`` is the argument that asks for it."""
        if name not in self.names:
            raise InputError(
                f"there is no column {name!r}; the columns are {listing(self.names, 8)}",
                where=self.where(),
                remedy=f"Give {option} one of these names",
            )
        return self.names.index(name)

    def where(self, row: int | None = None, column: str | None = None) -> str:
        """Name a place in the file the way a person would look for it."""
        place = str(self.path)
        if row is not None:
            place += f", {self.line(row)}"
        if column is not None:
            place += f", column {column!r}"
        return place

    def line(self, row: int) -> str:
        """``line 7`` for a data row of a CSV file, ``row 6`` for Parquet."""
        if self.picked is not None:
            row = int(self.picked[row])
        if self.format == "csv":
            for number, (line, _) in enumerate(csv_rows(self.data, self.delimiter), start=-1):
                if number == row:
                    return f"line {line}"
        return f"row {row + 1}"

    def lines(self, rows: list[int]) -> str:
        """Name several rows: ``lines 3 and 7``."""
        words = [self.line(row) for row in rows]
        kind = words[0].split()[0]
        return f"{kind}s " + " and ".join(word.split()[1] for word in words)


def stamp_of(path: Path) -> tuple[int, int]:
    """What changes when a file does: its size, and when it was last written."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def csv_rows(data: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Every row that is not blank, with the number of the line it starts on; header first.

    Slow and careful: used to name a line in a message, never to read a good file.
    """
    reader = csv.reader(text_lines(data), delimiter=delimiter)
    before = 0
    try:
        for row in reader:
            if row:
                yield before + 1, row
            before = reader.line_num
    except csv.Error:
        return


def text_lines(data: bytes) -> Iterator[str]:
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")


def one_array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined
