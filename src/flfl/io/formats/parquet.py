"""Parquet in and out: the types, the zone and the metadata of the source stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet

from flfl.errors import InputError
from flfl.io.columns import Columns, as_array, listing
from flfl.io.files import Writer


def read_parquet(path: Path, data: bytes) -> Columns:
    """Typed columns; what pandas stored as an index comes first, for it is meant as the time."""
    try:
        table = pa_parquet.read_table(pa.BufferReader(data))
        names = list(table.column_names)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = f"this is not a readable Parquet file ({str(error).splitlines()[0][:80]})"
        raise InputError(problem, where=str(path), remedy="Write the file again") from None
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        problem = f"column names appear more than once: {listing(sorted(twice))}"
        raise InputError(problem, where=str(path), remedy="Give every column its own name")
    if not names or table.num_rows == 0:
        raise InputError("the file has no rows", where=str(path), remedy="Give readings")
    stored = (table.schema.pandas_metadata or {}).get("index_columns", [])
    index = [name for name in stored if isinstance(name, str) and name in names]
    order = index + [name for name in names if name not in index]
    metadata = [table.schema.field(name).metadata or {} for name in order]
    return Columns(
        path=path,
        names=tuple("" if n.startswith("__index_level_") else n.strip() for n in order),
        arrays=tuple(as_array(table.column(name)) for name in order),
        format="parquet",
        time_first=bool(index),
        form=table.schema,
        units=tuple(one.get(b"units", b"").decode("utf-8", "replace") for one in metadata),
    )


def parquet_writer(
    names: Sequence[str], columns: Sequence[pa.Array], schema: pa.Schema | None = None
) -> Writer:
    """Writes columns, with the types, the order and the metadata of ``schema`` where it has them.

    Recovered values of whole-number columns are rounded, as their sensors round.
    """
    content = pa.table(dict(zip(names, columns, strict=True)))
    if schema is not None:
        order = [name for name in schema.names if name in names]
        order += [name for name in names if name not in order]
        types = dict(zip(schema.names, schema.types, strict=True))
        content = pa.table({n: _cast(content.column(n), types.get(n)) for n in order})
        content = content.replace_schema_metadata(schema.metadata)
    return lambda file: pa_parquet.write_table(content, file, compression="zstd")


def _cast(column: pa.ChunkedArray, wanted: pa.DataType | None) -> pa.ChunkedArray:
    """The column in another type, or as it is where a number of it would come out as another."""
    if wanted is None or column.type == wanted:
        return column
    if pa.types.is_integer(wanted) and pa.types.is_floating(column.type):
        column = pc.round(column)
    try:
        return column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Out of the type's range, or categories, which the metadata restore.
        return column
