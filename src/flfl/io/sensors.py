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
from flfl.io.places import read_places
from flfl.io.read import frame_columns, read_columns
from flfl.io.table import Table

EACH = "each"
"""In place of owners: every sensor is its own."""

ID_NAMES = (
    "sensor_id", "sensor", "sensorid", "id", "station", "station_id", "stationid", "site_id",
    "location", "location_id", "device", "device_id", "node", "node_id", "sensor_index",
    "station_code", "stationscode", "station code", "stationskürzel", "kennung", "messstation",
    "messstelle", "code", "code_station", "capteur", "codigo", "código", "estacion", "estación",
    "site id", "site_name", "station_name", "stationsname", "nom", "nombre", "bezeichnung", "name",
)  # fmt: skip
REGION_NAMES = ("region", "region_id", "gebiet", "région", "región")
SITE_NAMES = (
    "site", "owner", "agency", "operator", "betreiber", "eigentümer", "netz", "messnetz", "network",
    "propriétaire", "exploitant", "propietario", "organismo", "owner_name",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Sensors:
    """What is known of the sensors, in the order of the readings.

    ``coordinates`` (sensors x 2) are latitude and longitude in degrees or x and y in metres, as
    ``kind`` says. ``sites`` are the owners of the sensors. ``unplaced`` are those without a place,
    which stand in the middle of the others.
    """

    ids: tuple[str, ...]
    coordinates: NDArray[np.float64] | None = None
    kind: CoordinateKind | None = None
    regions: tuple[str, ...] | None = None
    sites: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()

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
    ``latitude`` and ``longitude`` or ``x`` and ``y``, and perhaps ``region`` and ``site``, also in
    German, French or Spanish. Rows of no sensor in ``ids`` (by default all sensors there) are
    ignored; a sensor without a row has no place and is its own owner. Notes say so.
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
    found, notes = _matched(columns, names, ids)
    there = [name for name in ids if name in found]
    rows = [found[name] for name in there]
    regions = _labels(columns, rows, columns.find(REGION_NAMES))
    sites = _labels(columns, rows, columns.find(SITE_NAMES))
    places, kind, unplaced, more = _places(columns, rows, there, ids)
    used = set(rows)
    ignored = [name for row, name in enumerate(names) if row not in used]
    told = f"Rows for sensors that have no readings are ignored: {listing(ignored)}."
    notes += [*more, *([told] if ignored else [])]
    every = [
        None if of is None else tuple(dict(zip(there, of, strict=True)).get(n, n) for n in ids)
        for of in (regions, sites)
    ]
    return Sensors(tuple(ids), places, kind, every[0], every[1], tuple(notes), unplaced)


def _matched(
    columns: Columns, names: Sequence[str], ids: Sequence[str]
) -> tuple[dict[str, int], list[str]]:
    """The row of each sensor that has one; ids that differ in case or blanks are the same."""
    wanted, found, notes = set(ids), dict[str, int](), list[str]()
    for row, name in enumerate(names):
        if name in wanted and found.setdefault(name, row) != row:
            problem = f"the sensor {name!r} has two rows"
            raise columns.error(problem, "Remove one of them", found[name], row)
    loose = dict[str, int]()
    for row, name in enumerate(names):
        loose.setdefault(_folded(name), row)
    near = [i for i in ids if i not in found and _folded(i) in loose]
    found |= {name: loose[_folded(name)] for name in near}
    if near:
        pairs = [f"{names[found[name]]!r} is {name!r}" for name in near]
        notes.append(f"Ids that differ in case or blanks were matched: {listing(pairs, 3)}.")
    if not found:
        problem = f"none of the {len(ids)} sensors of the readings has a row: {listing(ids, 3)}"
        remedy = "Give the ids of the readings in the column of the sensors"
        raise columns.error(problem, remedy, column=columns.find(ID_NAMES))
    if lost := [name for name in ids if name not in found]:
        notes.append(f"{len(lost)} of {len(ids)} sensors have no row: {listing(lost)}.")
    return found, notes


def _folded(name: str) -> str:
    return "".join(name.casefold().split())


def _places(
    columns: Columns, rows: list[int], there: list[str], ids: Sequence[str]
) -> tuple[NDArray[np.float64] | None, CoordinateKind | None, tuple[str, ...], list[str]]:
    """Where sensors stand; those of which that is not known stand in the middle of the others."""
    known, kind, notes = read_places(columns, rows, there)
    if known is None or not np.isfinite(known).all(axis=1).any():
        return None, None, (), notes
    places = np.full((len(ids), 2), np.nan)
    at = {name: row for row, name in enumerate(ids)}
    places[[at[name] for name in there]] = known
    lost = np.isnan(places).any(axis=1)
    if lost.any():
        places[lost] = np.nanmedian(places[~lost], axis=0)
        unknown = [name for name, gone in zip(ids, lost, strict=True) if gone]
        told = f"{len(unknown)} sensors have no place and stand in the middle of the others: "
        notes.append(f"{told}{listing(unknown)}.")
        return places, kind, tuple(unknown), notes
    return places, kind, (), notes


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
    found, _ = _matched(columns, _texts(columns, columns.find(ID_NAMES)), ids)
    if lost := [name for name in ids if name not in found]:
        problem = f"{len(lost)} of {len(ids)} sensors of the readings have no row"
        raise columns.error(f"{problem}: {listing(lost)}", "Add a row for each")
    sites = _labels(columns, [found[name] for name in ids], column)
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
