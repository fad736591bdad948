"""Files in: bytes on disk to named columns of text (CSV) or of typed values (Parquet)."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from flfl.errors import InputError, explained
from flfl.io.csvfile import load_csv
from flfl.io.rawfile import RawFile, one_array, stamp_of
from flfl.io.table import listing
from flfl.io.xarrays import NETCDF_SUFFIXES

TEXT_SUFFIXES = (".csv", ".txt", ".tsv", ".csv.gz", ".txt.gz", ".tsv.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")
READ_SUFFIXES = TEXT_SUFFIXES + PARQUET_SUFFIXES + NETCDF_SUFFIXES
GZIP_MAGIC = b"\x1f\x8b"


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
            remedy=f"Give a file that ends in {', '.join(READ_SUFFIXES)}",
        )
    stamp, data = read_bytes(path)
    if suffix in PARQUET_SUFFIXES:
        return _load_parquet(path, data)
    raw = load_csv(path, _unzip(path, data))
    raw.stamp = stamp if len(raw.data) == len(data) else None
    return raw


def read_bytes(path: Path) -> tuple[tuple[int, int], bytes]:
    """What a file holds, and the stamp it had when it was opened."""
    if path.is_dir():
        raise InputError("this is a directory", where=str(path), remedy="Give one file in it")
    if not path.exists():
        raise InputError(
            "there is no such file", where=str(path), remedy="Check the name and the directory"
        )
    with explained(
        "the file cannot be opened", where=str(path), remedy="Check that you may read it"
    ):
        stamp, data = stamp_of(path), path.read_bytes()
    if not data:
        raise InputError("the file is empty", where=str(path), remedy="Give a file with readings")
    return stamp, data


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


def _load_parquet(path: Path, data: bytes) -> RawFile:
    try:
        table = pa_parquet.read_table(pa.BufferReader(data))
        names = list(table.column_names)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"this is not a readable Parquet file ({str(error).splitlines()[0][:80]})",
            where=str(path),
            remedy="Write the file again",
        ) from None
    index = [name for name in _pandas_index(table) if name in names]
    order = index + [name for name in names if name not in index]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InputError(
            f"column names appear more than once: {listing(twice)}",
            where=str(path),
            remedy="Give every column its own name",
        )
    columns = [one_array(table.column(name)) for name in order]
    shown = ["" if name.startswith("__index_level_") else name.strip() for name in order]
    if not columns or table.num_rows == 0:
        raise InputError("the file has no rows", where=str(path), remedy="Give readings")
    return RawFile(
        path, "parquet", shown, lambda: columns, indexed=bool(index), schema=table.schema
    )


def _pandas_index(table: pa.Table) -> list[str]:
    """Names of the columns that pandas stored as an index: they come last but mean the time."""
    metadata = (table.schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in metadata if isinstance(name, str)]
