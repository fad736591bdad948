"""Sensors: where they stand, and to which region and owner they belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.columns import Columns, CoordinateKind, listing
from flfl.io.files import PARQUET_SUFFIXES, TEXT_SUFFIXES, suffix_of
from flfl.io.layouts import read_coordinates
from flfl.io.read import frame_columns, read_columns
from flfl.io.table import Table

EACH = "each"
"""In place of owners: every sensor is its own."""

ID_NAMES = (
    "sensor_id", "sensor", "sensorid", "id", "station", "station_id", "stationid", "site_id",
    "location", "location_id", "device", "device_id", "node", "node_id", "name",
)  # fmt: skip
REGION_NAMES = ("region", "region_id")
SITE_NAMES = ("site", "owner", "agency", "operator")


@dataclass(frozen=True, eq=False)
class Sensors:
    """What is known of the sensors, in the order of the readings.

    ``coordinates`` (sensors x 2) are latitude and longitude in degrees or x and y in metres, as
    ``kind`` says. ``sites`` are the owners of the sensors.
    """

    ids: tuple[str, ...]
    coordinates: NDArray[np.float64] | None = None
    kind: CoordinateKind | None = None
    regions: tuple[str, ...] | None = None
    sites: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of_table(cls, table: Table) -> Sensors:
        """What the file of readings itself says of its sensors: names, perhaps coordinates."""
        places, told = table.coordinates, "The coordinates are those in the file of readings."
        notes = () if places is None else (told,)
        return cls(table.sensor_ids, places, table.coordinate_kind, notes=notes)

    def subset(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Sensors:
        """The chosen sensors (a mask or positions), in their order."""
        rows = np.arange(len(self.ids))[chosen].tolist()
        places = None if self.coordinates is None else self.coordinates[rows]
        ids, regions, sites = (
            None if of is None else tuple(of[row] for row in rows)
            for of in (self.ids, self.regions, self.sites)
        )
        return replace(self, ids=ids or (), coordinates=places, regions=regions, sites=sites)

    def with_sites(self, sites: Sequence[str]) -> Sensors:
        """The same sensors, with the owner of each given; ``"each"`` is its own."""
        if isinstance(sites, str) and sites == EACH:
            return replace(self, sites=self.ids, regions=None)
        if len(sites) != len(self.ids):
            problem = f"{len(sites)} sites are given for {len(self.ids)} sensors"
            raise InputError(problem, where="sites", remedy="Give one site a sensor")
        return replace(self, sites=tuple(sites))


def read_sensors(source: str | Path | pd.DataFrame, ids: Sequence[str] | None = None) -> Sensors:
    """Read what describes the sensors, and put it in the order of the readings.

    One row a sensor: an id (``sensor_id``, ``id``, ``station``, …, or a DataFrame's index),
    ``latitude`` and ``longitude`` or ``x`` and ``y``, and perhaps ``region`` and ``site``. Each of
    ``ids`` (by default all sensors there) must have a row; others are ignored, with a note.
    """
    if isinstance(source, pd.DataFrame):
        parts = [(str(name), source.iloc[:, i]) for i, name in enumerate(source.columns)]
        if not any(name.strip().lower() in ID_NAMES for name, _ in parts):
            parts.insert(0, (ID_NAMES[0], source.index.astype(str).to_series()))
        columns = frame_columns("the sensors DataFrame", parts)
    else:
        columns = read_columns(source)
    names = _texts(columns, columns.find(ID_NAMES))
    ids = names if ids is None else ids
    rows, wanted = _rows(columns, ids), set(ids)
    coordinates, kind = read_coordinates(columns, rows, ids)
    regions = _labels(columns, rows, columns.find(REGION_NAMES))
    sites = _labels(columns, rows, columns.find(SITE_NAMES))
    ignored = [name for name in names if name not in wanted]
    told = f"Rows for sensors that have no readings are ignored: {listing(ignored)}."
    return Sensors(tuple(ids), coordinates, kind, regions, sites, (told,) if ignored else ())


def read_sites(
    spec: str | Path, ids: Sequence[str], *, sensors_path: str | Path | None = None
) -> tuple[str, ...]:
    """The owner of each sensor, from a file (sensor, site) or a column of the sensors file."""
    if Path(spec).is_file() or suffix_of(spec) in TEXT_SUFFIXES + PARQUET_SUFFIXES:
        columns = read_columns(spec)
        column = columns.find(SITE_NAMES)
        if column is None and len(columns.names) == 2:
            column = 1 - (columns.find(ID_NAMES) or 0)
    elif sensors_path is not None:
        column = (columns := read_columns(sensors_path)).named(str(spec), "sites")
    else:
        problem = f"{str(spec)!r} is not a file, and there is no sensors file to have such a column"
        remedy = "Give a CSV file with the columns sensor and site, or give the sensors file"
        raise InputError(problem, where="sites", remedy=remedy)
    sites = _labels(columns, _rows(columns, ids), column)
    if sites is None:
        problem = f"there is no column for the site; the columns are {listing(columns.names, 8)}"
        raise columns.error(problem, "Name the column site")
    return sites


def _texts(columns: Columns, column: int | None) -> list[str]:
    if column is None:
        problem = f"no column names the sensors; the columns are {listing(columns.names, 8)}"
        raise columns.error(problem, "Name the column sensor_id")
    texts = pc.cast(columns.arrays[column], pa.string()).to_pylist()
    return [str(text or "").strip() for text in texts]


def _rows(columns: Columns, ids: Sequence[str]) -> list[int]:
    """The row of each sensor of the readings."""
    column, wanted = columns.find(ID_NAMES), set(ids)
    found: dict[str, int] = {}
    for row, name in enumerate(_texts(columns, column)):
        if name in wanted and found.setdefault(name, row) != row:
            problem = f"the sensor {name!r} has two rows"
            raise columns.error(problem, "Remove one of them", found[name], row)
    if missing := [name for name in ids if name not in found]:
        problem = f"{len(missing)} of {len(ids)} sensors of the readings have no row"
        remedy = "Add a row for each, or remove the sensors from the readings"
        raise columns.error(f"{problem}: {listing(missing)}", remedy, column=column)
    return [found[name] for name in ids]


def _labels(columns: Columns, rows: list[int], column: int | None) -> tuple[str, ...] | None:
    if column is None:
        return None
    texts = _texts(columns, column)
    for row in rows:
        if not texts[row]:
            whose = _texts(columns, columns.find(ID_NAMES))[row]
            problem = f"the sensor {whose!r} has no {columns.names[column]}"
            raise columns.error(problem, "Fill the cell", row, column=column)
    return tuple(texts[row] for row in rows)
