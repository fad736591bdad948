"""The columns of a sensors file: ids, coordinates, and labels such as region and site."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.cells import decimal_mark, to_numbers
from flfl.io.rawfile import RawFile
from flfl.io.table import CoordinateKind, listing

ID_NAMES = (
    "sensor_id", "sensor", "sensorid", "id", "station", "station_id", "stationid", "site_id",
    "location", "location_id", "device", "device_id", "node", "node_id", "name",
)  # fmt: skip
COORDINATES: tuple[tuple[CoordinateKind, tuple[str, ...], tuple[str, ...]], ...] = (
    ("latlon", ("latitude", "lat"), ("longitude", "lon", "lng", "long")),
    ("metric", ("x", "x_m", "easting"), ("y", "y_m", "northing")),
)
REGION_NAMES = ("region", "region_id")
SITE_NAMES = ("site", "owner", "agency", "operator")


def id_column(raw: RawFile) -> int:
    column = raw.find(ID_NAMES)
    if column is None:
        raise InputError(
            f"no column names the sensors; the columns are {listing(raw.names, 8)}",
            where=raw.where(),
            remedy="Name the column sensor_id",
        )
    return column


def _texts(raw: RawFile, column: int) -> list[str]:
    array = raw.columns[column]
    if not pa.types.is_string(array.type):
        array = pc.cast(array, pa.string())
    return [str(text or "").strip() for text in array.to_pylist()]


def rows_of(raw: RawFile, ids: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
    """The row of each sensor of the readings, and notes on rows without use."""
    column = id_column(raw)
    wanted = set(ids)
    found: dict[str, int] = {}
    ignored = []
    for row, name in enumerate(_texts(raw, column)):
        if name not in wanted:
            ignored.append(name)
        elif name in found:
            raise InputError(
                f"the sensor {name!r} has two rows",
                where=f"{raw.path}, {raw.lines([found[name], row])}",
                remedy="Remove one of them",
            )
        else:
            found[name] = row
    missing = [name for name in ids if name not in found]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(ids)} sensors of the readings have no row: {listing(missing)}",
            where=raw.where(column=raw.names[column]),
            remedy="Add a row for each, or remove the sensors from the readings",
        )
    notes: tuple[str, ...] = ()
    if ignored:
        notes = (f"Rows for sensors that have no readings are ignored: {listing(ignored)}.",)
    return [found[name] for name in ids], notes


def coordinates(
    raw: RawFile, rows: list[int], ids: Sequence[str]
) -> tuple[NDArray[np.float64] | None, CoordinateKind | None]:
    for kind, first_names, second_names in COORDINATES:
        pair = (raw.find(first_names), raw.find(second_names))
        if pair == (None, None):
            continue
        if None in pair:
            present = raw.names[next(column for column in pair if column is not None)]
            raise InputError(
                f"there is a column {present!r} but not the other coordinate",
                where=raw.where(),
                remedy=f"Add a column {(first_names, second_names)[pair.index(None)][0]!r}",
            )
        columns = [column for column in pair if column is not None]
        decimal = decimal_mark(raw, columns)
        table = np.column_stack([to_numbers(raw, column, decimal)[rows] for column in columns])
        _check_coordinates(raw, table, rows, ids, [raw.names[c] for c in columns], kind)
        return table, kind
    return None, None


def _check_coordinates(
    raw: RawFile,
    table: NDArray[np.float64],
    rows: list[int],
    ids: Sequence[str],
    names: list[str],
    kind: CoordinateKind,
) -> None:
    bounds = [(-90.0, 90.0), (-180.0, 360.0)] if kind == "latlon" else [(-np.inf, np.inf)] * 2
    for column, (low, high) in enumerate(bounds):
        values = table[:, column]
        bad = np.flatnonzero(~((values >= low) & (values <= high)))
        if len(bad) == 0:
            continue
        i = int(bad[0])
        problem = (
            f"the sensor {ids[i]!r} has no {names[column]}"
            if np.isnan(values[i])
            else f"the sensor {ids[i]!r} has {names[column]} {values[i]:g}, outside "
            f"{low:g} to {high:g}"
        )
        raise InputError(
            problem,
            where=raw.where(rows[i], names[column]),
            remedy="Correct it; degrees go in latitude and longitude, metres in x and y",
        )


def labels(
    raw: RawFile,
    rows: list[int],
    ids: Sequence[str],
    column: str | None,
    common: Sequence[str],
    option: str,
) -> tuple[str, ...] | None:
    position = raw.find(common) if column is None else raw.named(column, option)
    if position is None or raw.names[position].lower() == raw.names[id_column(raw)].lower():
        return None
    texts = _texts(raw, position)
    found = tuple(texts[row] for row in rows)
    for name, row, label in zip(ids, rows, found, strict=True):
        if not label:
            raise InputError(
                f"the sensor {name!r} has no {raw.names[position]}",
                where=raw.where(row, raw.names[position]),
                remedy="Fill the cell",
            )
    return found
