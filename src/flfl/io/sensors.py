"""Sensors: where they stand, and to which region and owner they belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.files import PARQUET_SUFFIXES, TEXT_SUFFIXES, load_file, suffix_of
from flfl.io.frames import raw_frame
from flfl.io.rawfile import RawFile
from flfl.io.sensor_columns import (
    ID_NAMES,
    REGION_NAMES,
    SITE_NAMES,
    coordinates,
    id_column,
    labels,
    rows_of,
)
from flfl.io.table import CoordinateKind, Table, listing

EACH = "each"
"""In place of owners: every sensor is its own."""


@dataclass(frozen=True, eq=False)
class Sensors:
    """What is known of the sensors, in the order of the readings.

    Attributes
    ----------
    ids : tuple of str
    coordinates : float array, sensors x 2, or None
        Latitude and longitude in degrees, or x and y in metres.
    kind : {"latlon", "metric"} or None
    regions, sites : tuple of str or None
        The region and the owner of each sensor.
    notes : tuple of str
        What was understood, in plain sentences.
    """

    ids: tuple[str, ...]
    coordinates: NDArray[np.float64] | None = None
    kind: CoordinateKind | None = None
    regions: tuple[str, ...] | None = None
    sites: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def bare(cls, ids: Sequence[str]) -> Sensors:
        """Sensors of which only the names are known."""
        return cls(ids=tuple(ids))

    @classmethod
    def of_table(cls, table: Table) -> Sensors:
        """What the file of readings itself says of its sensors: names, perhaps coordinates."""
        found = table.coordinates is not None
        return cls(
            ids=table.sensor_ids,
            coordinates=table.coordinates,
            kind=table.coordinate_kind,
            notes=("The coordinates are those in the file of readings.",) if found else (),
        )

    def subset(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Sensors:
        """The chosen sensors (a mask or positions), in their order."""
        rows = np.arange(len(self.ids))[chosen].tolist()

        def pick(labels: tuple[str, ...] | None) -> tuple[str, ...] | None:
            return None if labels is None else tuple(labels[row] for row in rows)

        return replace(
            self,
            ids=tuple(self.ids[row] for row in rows),
            coordinates=None if self.coordinates is None else self.coordinates[rows],
            regions=pick(self.regions),
            sites=pick(self.sites),
        )

    def with_sites(self, sites: Sequence[str]) -> Sensors:
        """The same sensors, with the owner of each given; ``"each"`` is its own."""
        if isinstance(sites, str) and sites == EACH:
            return replace(self, sites=self.ids, regions=None)
        if len(sites) != len(self.ids):
            raise InputError(
                f"{len(sites)} sites are given for {len(self.ids)} sensors",
                where="sites",
                remedy="Give one site a sensor",
            )
        return replace(self, sites=tuple(sites))


def read_sensors(
    path: str | Path,
    ids: Sequence[str],
    *,
    site_column: str | None = None,
    region_column: str | None = None,
) -> Sensors:
    """Read the file that describes the sensors, and put it in the order of the readings.

    Parameters
    ----------
    path : str or Path
        CSV or Parquet, one row a sensor: an id column (``sensor_id``, ``id``, ``station``, …),
        ``latitude`` and ``longitude`` or ``x`` and ``y``, and perhaps ``region`` and ``site``.
    ids : sequence of str
        The sensors of the readings. Each must have a row; other rows are ignored, with a note.
    site_column, region_column : str, optional
        Their names, when they are not ``site``, ``owner`` or ``agency``, and ``region``.
    """
    return _describe(load_file(path), ids, site_column, region_column)


def sensors_from_frame(
    frame: pd.DataFrame,
    ids: Sequence[str],
    *,
    site_column: str | None = None,
    region_column: str | None = None,
) -> Sensors:
    """Take a DataFrame with one row a sensor; the ids are in a column or in the index."""
    columns: list[tuple[str, Any]] = [
        (str(name), frame.iloc[:, i]) for i, name in enumerate(frame.columns)
    ]
    if not any(name.strip().lower() in ID_NAMES for name, _ in columns):
        columns.insert(0, (ID_NAMES[0], frame.index.astype(str).to_series()))
    raw = raw_frame("the sensors DataFrame", columns)
    return _describe(raw, ids, site_column, region_column)


def _describe(
    raw: RawFile, ids: Sequence[str], site_column: str | None, region_column: str | None
) -> Sensors:
    rows, notes = rows_of(raw, ids)
    table, kind = coordinates(raw, rows, ids)
    return Sensors(
        ids=tuple(ids),
        coordinates=table,
        kind=kind,
        regions=labels(raw, rows, ids, region_column, REGION_NAMES, "region_column"),
        sites=labels(raw, rows, ids, site_column, SITE_NAMES, "site_column"),
        notes=notes,
    )


def read_sites(
    spec: str | Path, ids: Sequence[str], *, sensors_path: str | Path | None = None
) -> tuple[str, ...]:
    """The owner of each sensor, from a file (sensor, site) or a column of the sensors file.

    Parameters
    ----------
    spec : str or Path
        The name of a file, or else of a column of ``sensors_path``.
    ids : sequence of str
        The sensors of the readings.
    sensors_path : str or Path, optional
        The file that describes the sensors.
    """
    if Path(spec).is_file() or suffix_of(Path(spec)) in TEXT_SUFFIXES + PARQUET_SUFFIXES:
        raw, column = load_file(spec), None
        if raw.find(SITE_NAMES) is None and len(raw.names) == 2:
            column = raw.names[1 - id_column(raw)]
    elif sensors_path is not None:
        raw, column = load_file(sensors_path), str(spec)
    else:
        raise InputError(
            f"{str(spec)!r} is not a file, and there is no sensors file to have such a column",
            where="sites",
            remedy="Give a CSV file with the columns sensor and site, or give the sensors file",
        )
    rows, _ = rows_of(raw, ids)
    sites = labels(raw, rows, ids, column, SITE_NAMES, "sites")
    if sites is None:
        raise InputError(
            f"there is no column for the site; the columns are {listing(raw.names, 8)}",
            where=raw.where(),
            remedy="Name the column site",
        )
    return sites
