"""CSV in and out. In: the dialect, the header, and every cell as text. Out: texts as lines."""

from __future__ import annotations

import csv
import io
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from flfl.errors import InputError
from flfl.io.columns import Columns, Dialect
from flfl.io.files import Writer

DELIMITERS = ",;\t|"
Row = tuple[int, list[str]]
"""The line on which a row starts, and its cells."""
Refuse = Callable[[str, str, int | None], InputError]
"""The refusal of a line: what is wrong, the remedy, and the line."""
# Lines looked at for the header; bytes parsed at a time, more than any row and few of the whole.
_LONGEST_TITLE, _BLOCK = 50, 1 << 24


def read_csv(path: Path, data: bytes) -> Columns:
    """Every cell as text; the texts are needed again when the table is written."""

    def refuse(problem: str, remedy: str, number: int | None = None) -> InputError:
        where = str(path) if number is None else f"{path}, line {number}"
        return InputError(problem, where=where, remedy=remedy)

    bare = data.removeprefix(BOM_UTF8)
    mark = "\ufeff" if len(bare) < len(data) else ""
    try:
        bare.decode("utf-8")
    except UnicodeDecodeError as error:
        number = bare.count(b"\n", 0, error.start) + 1
        raise refuse("the bytes are not UTF-8 text", "Save the file as UTF-8", number) from None
    if not bare.strip():
        raise refuse("the file is empty", "Give a file with readings")
    # A megabyte holds any header. Quoted names do not count.
    head = bare[: 1 << 20].decode("utf-8", errors="ignore").lstrip("\r\n")
    first_line = "".join(re.sub(r'"[^"]*"', "", head).splitlines()[:1])
    delimiter = max(DELIMITERS, key=first_line.count)
    names = _header(refuse, list(islice(csv_rows(bare, delimiter), _LONGEST_TITLE)))
    keys = [str(position) for position in range(len(names))]
    try:
        size, types = min(len(bare), _BLOCK), dict.fromkeys(keys, pa.string())
        columns = pa_csv.read_csv(
            pa.BufferReader(bare),
            pa_csv.ReadOptions(column_names=keys, block_size=size, use_threads=False),
            pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in bare),
            pa_csv.ConvertOptions(column_types=types, strings_can_be_null=False),
        ).columns
    except pa.ArrowInvalid as error:
        raise _ragged_row(refuse, csv_rows(bare, delimiter), len(names), str(error)) from None
    finally:
        # Arrow keeps the blocks it has used, as much again as the cells.
        pa.default_memory_pool().release_unused()
    if len(columns[0]) < 2:
        raise refuse("the file has a header but no rows", "Give a file with readings")
    line_end = re.search(r"\r\n|\n|\r", head)

    def line(row: int) -> str:
        found = next(islice(csv_rows(bare, delimiter), row + 1, None), None)
        return f"row {row + 1}" if found is None else f"line {found[0]}"

    return Columns(
        path=path,
        names=names,
        # Column by column, so that the file is never held twice; the first row is the header.
        arrays=tuple(columns.pop(0).combine_chunks().slice(1) for _ in names),
        format="csv",
        place=line,
        dialect=Dialect(delimiter, ".", line_end.group() if line_end else "\n", mark),
    )


def csv_rows(data: bytes, delimiter: str) -> Iterator[Row]:
    """Every row that is not blank, with the line it starts on; slow, for messages and the top."""
    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    reader, before = csv.reader(lines, delimiter=delimiter), 0
    try:
        for row in reader:
            if row:
                yield before + 1, row
            before = reader.line_num
    except csv.Error:
        return


def _header(refuse: Refuse, top: list[Row]) -> tuple[str, ...]:
    """Column names; refuses a comment or a title in their place."""
    if not top:
        remedy = "Look for a quotation mark that is never closed"
        raise refuse("the header cannot be read as column names", remedy, 1)
    (line, header), *below = top
    names = tuple(name.strip() for name in header)
    under = below[0][1] if below else []
    cells = [cell for _, row in below for cell in row]
    what = remedy = ""
    # ``#time,a,b`` is a header all the same.
    if names[0].startswith("#") and (
        len(names) == 1 or len(under) != len(names) or under[0].lstrip().startswith("#")
    ):
        what, remedy = "comment", "Remove the lines that start with # above the header"
    # A title is one cell, with more in a row below.
    elif len(names) == 1 and (
        len(cells) > len(below) or any(mark in cell for cell in cells for mark in DELIMITERS)
    ):
        what, remedy = "title", "Remove the lines above the header"
    if what:
        problem = f"this line is a {what}, {names[0][:40]!r}, where column names should be"
        raise refuse(problem, remedy, line)
    return names


def _ragged_row(refuse: Refuse, rows: Iterator[Row], width: int, reason: str) -> InputError:
    for line, row in rows:
        if len(row) != width:
            title = "; if lines of a title stand above the column names, remove them"
            remedy = "Give every row as many cells as the header; a missing reading is an empty "
            remedy += f"cell between its delimiters{title if len(row) > width else ''}"
            return refuse(f"this row has {len(row)} cells, the header has {width}", remedy, line)
    problem = f"the rows cannot be split into cells ({reason[:80]})"
    return refuse(problem, "Look for a quotation mark that is never closed", None)


def csv_writer(
    names: Sequence[str], blocks: Iterable[Sequence[pa.Array]], dialect: Dialect
) -> Writer:
    """Writes a header, and blocks of columns of text one below another."""

    def write(file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        text.write(dialect.byte_order_mark)
        for columns in chain([[pa.array([name]) for name in names]], blocks):
            cells = pa.chunked_array(columns)
            odd = pc.match_substring_regex(cells, f'[{dialect.delimiter}"\r\n]')
            if pc.any(odd).as_py():
                doubled = pc.replace_substring(cells, '"', '""')
                quoted = pc.binary_join_element_wise('"', doubled, '"', "")
                columns = pc.if_else(odd, quoted, cells).chunks
            lines = pc.binary_join_element_wise(*columns, dialect.delimiter)
            text.writelines(f"{line}{dialect.line_end}" for line in lines.to_pylist())
        # Leave the file open: it is not yet on the disk.
        text.detach()

    return write
