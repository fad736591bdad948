"""Parquet out: the types, the zone and the metadata of the source, where it had them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray

from flfl.io.atomic import Writer
from flfl.io.table import Source, Table

Columns = dict[str, pa.Array]


def wide_writer(
    table: Table, filled: NDArray[np.float64], time_name: str, rows: NDArray[np.intp]
) -> Writer:
    """A column for the time and one a sensor, with the rows in this order."""
    columns: Columns = {time_name: _times(table).take(pa.array(rows))}
    for name, numbers in zip(table.sensor_ids, filled[rows].T, strict=True):
        columns[name] = pa.array(numbers, from_pandas=True)
    return parquet_writer(like_source(columns, table.source))


def long_writer(
    table: Table,
    filled: NDArray[np.float64],
    names: Mapping[str, str],
    extra: Mapping[str, NDArray[Any]],
    by_sensor: bool,
) -> Writer:
    """One row a cell; ``names`` tells each column's name and what it holds (see `long_names`)."""
    order: Literal["F", "C"] = "F" if by_sensor else "C"
    slot, sensor = (
        pa.array(axis.ravel(order=order)) for axis in np.indices(filled.shape, dtype=np.int32)
    )
    source = table.source
    held = {
        "time": lambda: _times(table).take(slot),
        "sensor": lambda: pa.array(table.sensor_ids, pa.string()).take(sensor),
        "value": lambda: pa.array(filled.ravel(order=order), from_pandas=True),
    }
    columns: Columns = {}
    for name, what in names.items():
        if what in held:
            columns[name] = held[what]()
        elif source is not None and what == "by sensor":
            columns[name] = source.carried_by_sensor[name].take(sensor)
        elif source is not None:
            columns[name] = source.carried_by_slot[name].take(slot)
    for name, cells in extra.items():
        columns[name] = pa.array(cells.ravel(order=order), from_pandas=True)
    return parquet_writer(pa.table(columns) if extra else like_source(columns, source))


def like_source(columns: Columns, source: Source | None) -> pa.Table:
    """The columns with the source's types, order and metadata.

    Whole-number columns stay so: what was recovered in them is rounded, as their sensors round. A
    column whose type cannot hold what was recovered becomes a plain one.
    """
    schema = None if source is None else source.schema
    if schema is None:
        return pa.table(columns)
    names = [name for name in schema.names if name in columns]
    names += [name for name in columns if name not in names]
    wanted = {field.name: field.type for field in schema}
    cast = {name: _cast(columns[name], wanted.get(name)) for name in names}
    return pa.table(cast).replace_schema_metadata(schema.metadata)


def _times(table: Table) -> pa.Array:
    source = table.source
    if source is not None and source.schema is not None:
        place = source.schema.get_field_index(source.time_column)
        if place >= 0 and _is_text(source.schema.field(place).type):
            return pa.array(source.time_texts, pa.string())
    return pa.array(table.values.index)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _cast(column: pa.Array, wanted: pa.DataType | None) -> pa.Array:
    """The column in another type, or as it is where a number of it would come out as another.

    Examples
    --------
    >>> _cast(pa.array([1.4, 2.0]), pa.int8()).to_pylist()
    [1, 2]
    >>> _cast(pa.array([300.0, 2.0]), pa.int8()).to_pylist()
    [300.0, 2.0]
    """
    if wanted is None or column.type == wanted:
        return column
    if pa.types.is_integer(wanted) and pa.types.is_floating(column.type):
        column = pc.round(column)
    try:
        return column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # What was recovered may lie outside what the sensor's own type can hold; and a type may
        # be one that nothing is cast to, such as categories, which the metadata then restore.
        return column


def parquet_writer(content: pa.Table) -> Writer:
    """Writes a table."""
    return lambda file: pa_parquet.write_table(content, file, compression="zstd")
