"""Where sensors stand: columns of coordinates, and those that were swapped."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flfl.io.cells import decimal_mark, to_numbers
from flfl.io.columns import Columns, CoordinateKind, listing

Array = NDArray[np.float64]

COORDINATES: tuple[tuple[CoordinateKind, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "latlon",
        ("latitude", "lat", "latitude deg", "site latitude", "breite", "breitengrad",
         "geographische breite", "geogr breite", "latitud", "y wgs84"),
        ("longitude", "lon", "lng", "long", "longitude deg", "site longitude", "länge", "laenge",
         "längengrad", "laengengrad", "geographische länge", "geogr länge", "longitud", "x wgs84"),
    ),
    (
        "metric",
        ("x", "x_m", "easting", "rechtswert", "ostwert", "coord_x", "utm_x"),
        ("y", "y_m", "northing", "hochwert", "nordwert", "coord_y", "utm_y"),
    ),
)  # fmt: skip


def read_places(
    columns: Columns, rows: list[int], ids: Sequence[str]
) -> tuple[Array | None, CoordinateKind | None, list[str]]:
    """Where the sensors ``ids`` stand, each described in one of the ``rows``; NaN: nowhere.

    Latitude and longitude that were swapped are put right, with a note: all of them where some
    latitude is beyond 90 degrees, single ones where that brings them to the others.
    """
    for kind, *names in COORDINATES:
        found = [columns.find(words) for words in names]
        pair = [column for column in found if column is not None]
        if not pair:
            continue
        if len(pair) == 1:
            problem = f"there is a column {columns.names[pair[0]]!r} but not the other coordinate"
            raise columns.error(problem, f"Add a column {names[found.index(None)][0]!r}")
        decimal = decimal_mark(columns, pair)
        table = np.column_stack([to_numbers(columns, column, decimal)[rows] for column in pair])
        table, notes = _unswapped(table, ids) if kind == "latlon" else (table, [])
        bounds = ((-90.0, 90.0), (-180.0, 360.0)) if kind == "latlon" else ((-np.inf, np.inf),) * 2
        for values, column, (low, high) in zip(table.T, pair, bounds, strict=True):
            bad = np.flatnonzero((values < low) | (values > high) | np.isinf(values))
            if len(bad):
                i, name = int(bad[0]), columns.names[column]
                wrong = f"{name} {values[i]:g}, outside {low:g} to {high:g}"
                remedy = "Correct it; degrees go in latitude and longitude, metres in x and y"
                problem = f"the sensor {ids[i]!r} has {wrong}"
                raise columns.error(problem, remedy, rows[i], column=column)
        table[np.isnan(table).any(axis=1)] = np.nan
        return table, kind, notes
    return None, None, []


def _unswapped(places: Array, ids: Sequence[str]) -> tuple[Array, list[str]]:
    """Latitudes and longitudes in their columns, and a note on those that were not."""
    known = np.isfinite(places).all(axis=1)
    some = places[known]
    if len(some) and (np.abs(some[:, 0]) > 90).all() and (np.abs(some[:, 1]) <= 90).all():
        told = "Latitude and longitude are swapped throughout; they were put right."
        return places[:, ::-1].copy(), [told]
    if len(some) < 3:
        return places, []
    centre = np.median(some, axis=0)
    as_given, other = (np.hypot(*(turned - centre).T) for turned in (places, places[:, ::-1]))
    spread = max(float(np.nanmedian(as_given)), 0.5)
    swapped = np.flatnonzero(known & (as_given > 10 * spread) & (other < 5 * spread)).tolist()
    if not swapped:
        return places, []
    fixed = places.copy()
    fixed[swapped] = places[swapped][:, ::-1]
    told = f"Latitude and longitude of {listing(ids[i] for i in swapped)} were swapped and are put "
    return fixed, [f"{told}right: so they are near the others."]
