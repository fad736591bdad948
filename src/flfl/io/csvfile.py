"""CSV in: the dialect, the header, and the cells as text or, where they all are, as numbers."""

from __future__ import annotations

import csv
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.marks import MISSING_MARKS
from flfl.io.rawfile import RawFile, csv_rows, one_array, text_lines

DELIMITERS = ",;\t|"
# Lines above the header that a search for it passes over.
_LONGEST_TITLE = 50
# What is parsed at a time: longer than any row, and little beside the matrix.
_BLOCK = 1 << 20
_TITLE_HINT = "; if lines of a title stand above the column names, remove them"
_MARKS = [spelt for mark in MISSING_MARKS for spelt in {mark, mark.upper(), mark.title()}] + ["NaN"]


def load_csv(path: Path, data: bytes) -> RawFile:
    bare = data.removeprefix(BOM_UTF8)
    mark, data = data[: len(data) - len(bare)].decode("utf-8"), bare
    _check_utf8(path, data)
    if not data.strip():
        raise InputError("the file is empty", where=str(path), remedy="Give a file with readings")
    delimiter = _delimiter(data)
    names, body_start = _header(path, data, delimiter)
    line_end = next(filter(data[:body_start].decode().endswith, ("\r\n", "\n", "\r")), "\n")
    raw = RawFile(path, "csv", names, lambda: _text_columns(raw), delimiter, line_end, data)
    raw.mark, raw.body = mark, body_start
    _refuse_comment(raw)
    if not data[body_start : body_start + 4096].strip() and not data[body_start:].strip():
        raise InputError(
            "the file has a header but no rows", where=str(path), remedy="Give a file with readings"
        )
    return raw


def _delimiter(data: bytes) -> str:
    """The delimiter that the header holds most often; quoted names do not count."""
    # A megabyte holds any header.
    head = data[: 1 << 20].decode("utf-8", errors="ignore").lstrip("\r\n")
    first_line = re.sub(r'"[^"]*"', "", head).splitlines()[:1]
    return max(DELIMITERS, key="".join(first_line).count)


def _refuse_comment(raw: RawFile) -> None:
    """Refuse a remark above the header; ``#time,a,b`` is a header all the same."""
    if not raw.names[0].startswith("#"):
        return
    (line, header), *rest = islice(csv_rows(raw.data, raw.delimiter), 2)
    below = rest[0][1] if rest else []
    if len(header) == 1 or len(below) != len(header) or below[0].lstrip().startswith("#"):
        raise InputError(
            f"this line is a comment, {raw.names[0][:40]!r}, where column names should be",
            where=f"{raw.path}, line {line}",
            remedy="Remove the lines that start with # above the header",
        )


def refuse_title(raw: RawFile) -> None:
    """Refuse a title above the header: one cell, and more in a row below."""
    rows = list(islice(csv_rows(raw.data, raw.delimiter), _LONGEST_TITLE))
    below = rows[1:]
    cells = [cell for _, row in below for cell in row]
    if len(cells) > len(below) or any(mark in cell for cell in cells for mark in DELIMITERS):
        raise InputError(
            f"this line is a title, {raw.names[0][:40]!r}, where column names should be",
            where=f"{raw.path}, line {rows[0][0]}",
            remedy="Remove the lines above the header",
        )


def _check_utf8(path: Path, data: bytes) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            "the bytes are not UTF-8 text",
            where=f"{path}, line {line}",
            remedy="Save the file as UTF-8",
        ) from None


def _header(path: Path, data: bytes, delimiter: str) -> tuple[list[str], int]:
    """Column names, and the byte at which the rows begin."""
    taken = 0

    def counted() -> Iterator[str]:
        nonlocal taken
        for line in text_lines(data):
            taken += len(line.encode("utf-8"))
            yield line

    try:
        names = next(row for row in csv.reader(counted(), delimiter=delimiter) if row)
    except csv.Error:
        raise InputError(
            "the header cannot be read as column names",
            where=f"{path}, line 1",
            remedy="Look for a quotation mark that is never closed",
        ) from None
    return [name.strip() for name in names], taken


def _text_columns(raw: RawFile) -> list[pa.Array]:
    """Every cell as text: the text is needed again when the table is written."""
    try:
        return parse_texts(raw.data[raw.body :], len(raw.names), raw.delimiter)
    except pa.ArrowInvalid as error:
        raise _ragged_row(raw, str(error)) from None


def parse_texts(rows: bytes, width: int, delimiter: str) -> list[pa.Array]:
    """Rows of so many cells as columns of text."""
    keys = [str(position) for position in range(width)]
    table = pa_csv.read_csv(
        pa.BufferReader(pa.py_buffer(rows)),
        read_options=pa_csv.ReadOptions(column_names=keys, block_size=min(len(rows), 1 << 26)),
        parse_options=_parse_options(rows, delimiter),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(keys, pa.string()), strings_can_be_null=False
        ),
    )
    return [one_array(column) for column in table.columns]


def _parse_options(rows: bytes, delimiter: str) -> pa_csv.ParseOptions:
    return pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in rows)


def parse_numbers(raw: RawFile, time: int) -> tuple[pa.Array, NDArray[np.float64]] | None:
    """The time column as text and the others as sensors x rows, without text in between.

    A fifth of the memory and of the time of the way through text. None when any cell is not a
    plain number or a usual mark for a missing one: then a closer look is needed.
    """
    keys = [str(position) for position in range(len(raw.names))]
    kinds = dict.fromkeys(keys, pa.float64()) | {str(time): pa.string()}
    feeds, returns, both = (raw.data.count(end, raw.body) for end in (b"\n", b"\r", b"\r\n"))
    most = feeds + returns - both + 1
    try:
        batches = pa_csv.open_csv(
            pa.BufferReader(pa.py_buffer(memoryview(raw.data)[raw.body :])),
            read_options=pa_csv.ReadOptions(
                column_names=keys, block_size=_BLOCK, use_threads=False
            ),
            parse_options=_parse_options(raw.data, raw.delimiter),
            convert_options=pa_csv.ConvertOptions(
                column_types=kinds, strings_can_be_null=False, null_values=_MARKS
            ),
        )
        times, matrix, filled = [], np.empty((len(keys) - 1, most)), 0
        for batch in batches:
            columns = batch.columns
            times.append(columns.pop(time))
            for row, column in zip(matrix, columns, strict=True):
                row[filled : filled + len(batch)] = column.to_numpy(zero_copy_only=False)
            filled += len(batch)
    except pa.ArrowInvalid:
        return None
    finally:
        # Arrow keeps the blocks it has used, as much again as the matrix.
        pa.default_memory_pool().release_unused()
    return pa.concat_arrays(times), matrix[:, :filled]


def _ragged_row(raw: RawFile, reason: str) -> InputError:
    width = len(raw.names)
    for line, row in csv_rows(raw.data, raw.delimiter):
        if len(row) != width:
            return InputError(
                f"this row has {len(row)} cells, the header has {width}",
                where=f"{raw.path}, line {line}",
                remedy="Give every row as many cells as the header; a missing reading is an empty "
                "cell between its delimiters" + (_TITLE_HINT if len(row) > width else ""),
            )
    return InputError(
        f"the rows cannot be split into cells ({reason[:80]})",
        where=str(raw.path),
        remedy="Look for a quotation mark that is never closed",
    )
