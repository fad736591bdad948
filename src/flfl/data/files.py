"""Files in: bytes on disk to named columns of text (CSV) or of typed values (Parquet)."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from flfl.data.table import FileFormat, listing
from flfl.errors import InputError, explained

TEXT_SUFFIXES = (".csv", ".txt", ".tsv", ".csv.gz", ".txt.gz", ".tsv.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")
DELIMITERS = ",;\t|"
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(eq=False)
class RawFile:
    """Named columns of a file, and the way back to its lines for messages."""

    path: Path
    format: FileFormat
    names: list[str]
    columns: list[pa.Array]
    delimiter: str = ","
    line_end: str = "\n"
    data: bytes = field(default=b"", repr=False)
    indexed: bool = False
    """The first column was stored as an index, so it is meant as the time."""

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


def suffix_of(path: Path) -> str:
    """The suffix that tells the format, with ``.gz`` kept together with the one before it.

    Examples
    --------
    >>> suffix_of(Path("a.b.CSV.gz"))
    '.csv.gz'
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:]) if suffixes[-1:] == [".gz"] else "".join(suffixes[-1:])


def load_file(path: str | Path) -> RawFile:
    """Read a CSV or Parquet file into named columns."""
    path = Path(path)
    suffix = suffix_of(path)
    if suffix not in TEXT_SUFFIXES + PARQUET_SUFFIXES:
        raise InputError(
            f"the suffix {suffix!r} is not one that can be read" if suffix else "it has no suffix",
            where=str(path),
            remedy=f"Give a file that ends in {', '.join(TEXT_SUFFIXES + PARQUET_SUFFIXES)}",
        )
    data = _read_bytes(path)
    if not data:
        raise InputError("the file is empty", where=str(path), remedy="Give a file with readings")
    if suffix in PARQUET_SUFFIXES:
        return _load_parquet(path, data)
    return _load_csv(path, _unzip(path, data))


def _read_bytes(path: Path) -> bytes:
    if path.is_dir():
        raise InputError("this is a directory", where=str(path), remedy="Give one file in it")
    if not path.exists():
        raise InputError(
            "there is no such file", where=str(path), remedy="Check the name and the directory"
        )
    with explained(
        "the file cannot be opened", where=str(path), remedy="Check that you may read it"
    ):
        return path.read_bytes()


def _unzip(path: Path, data: bytes) -> bytes:
    # Archives exist where a gzip file carries a plain .csv name, so the content decides.
    if not data.startswith(GZIP_MAGIC):
        if path.suffix.lower() == ".gz":
            raise InputError(
                "the name ends in .gz but the content is not gzip",
                where=str(path),
                remedy="Rename the file without .gz, or compress it with gzip",
            )
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        raise InputError(
            "the gzip data is damaged or cut short",
            where=str(path),
            remedy="Download or compress the file again",
        ) from None


def _load_csv(path: Path, data: bytes) -> RawFile:
    data = data.removeprefix(b"\xef\xbb\xbf")
    _check_utf8(path, data)
    if not data.strip():
        raise InputError("the file is empty", where=str(path), remedy="Give a file with readings")
    delimiter = _delimiter(data)
    names, body_start = _header(path, data, delimiter)
    line_end = "\r\n" if data[:body_start].endswith(b"\r\n") else "\n"
    raw = RawFile(path, "csv", names, [], delimiter, line_end, data)
    _refuse_comment(raw)
    raw.columns = _text_columns(raw, memoryview(data)[body_start:])
    if raw.rows == 0:
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
        for line in _lines(data):
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


def _lines(data: bytes) -> Iterator[str]:
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")


def _text_columns(raw: RawFile, body: memoryview) -> list[pa.Array]:
    """Parse the rows, every cell as text: the text is needed again when the table is written."""
    if not bytes(body[:4096]).strip() and not bytes(body).strip():
        return [pa.array([], pa.string()) for _ in raw.names]
    keys = [str(position) for position in range(len(raw.names))]
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(pa.py_buffer(body)),
            read_options=pa_csv.ReadOptions(
                column_names=keys, block_size=min(max(len(body), 1), 1 << 26)
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=raw.delimiter, newlines_in_values=b'"' in raw.data
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(keys, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        raise _ragged_row(raw, str(error)) from None
    return [_one_array(column) for column in table.columns]


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _ragged_row(raw: RawFile, reason: str) -> InputError:
    width = len(raw.names)
    for line, row in csv_rows(raw.data, raw.delimiter):
        if len(row) != width:
            return InputError(
                f"this row has {len(row)} cells, the header has {width}",
                where=f"{raw.path}, line {line}",
                remedy="Give every row as many cells as the header; a missing reading is an empty "
                "cell between its delimiters",
            )
    return InputError(
        f"the rows cannot be split into cells ({reason[:80]})",
        where=str(raw.path),
        remedy="Look for a quotation mark that is never closed",
    )


def csv_rows(data: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Every row that is not blank, with the number of the line it starts on; header first.

    Slow and careful: used to name a line in a message, never to read a good file.
    """
    reader = csv.reader(_lines(data), delimiter=delimiter)
    before = 0
    try:
        for row in reader:
            if row:
                yield before + 1, row
            before = reader.line_num
    except csv.Error:
        return


def _load_parquet(path: Path, data: bytes) -> RawFile:
    try:
        table = pa_parquet.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"this is not a readable Parquet file ({str(error).splitlines()[0][:80]})",
            where=str(path),
            remedy="Write the file again",
        ) from None
    names = list(table.column_names)
    index = [name for name in _pandas_index(table) if name in names]
    order = index + [name for name in names if name not in index]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InputError(
            f"column names appear more than once: {listing(twice)}",
            where=str(path),
            remedy="Give every column its own name",
        )
    columns = [_one_array(table.column(name)) for name in order]
    shown = ["" if name.startswith("__index_level_") else name.strip() for name in order]
    raw = RawFile(path, "parquet", shown, columns, indexed=bool(index))
    if not columns or raw.rows == 0:
        raise InputError("the file has no rows", where=str(path), remedy="Give readings")
    return raw


def _pandas_index(table: pa.Table) -> list[str]:
    """Names of the columns that pandas stored as an index: they come last but mean the time."""
    metadata = (table.schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in metadata if isinstance(name, str)]
