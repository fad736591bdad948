"""Places on the map: distances that mean something, a flat map, and regions of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from flfl.io.columns import CoordinateKind

Array = NDArray[np.float64]

EARTH_RADIUS_METRES = 6_371_008.8


def to_metric(coordinates: Array, kind: CoordinateKind) -> Array:
    """Coordinates in a space where Euclidean distance means distance.

    Latitude and longitude become points on the globe (chords in metres), so that neither the
    date line nor the poles tear a region apart; metric coordinates stay as they are.

    Parameters
    ----------
    coordinates : (M, 2) array of latitude, longitude in degrees, or of x, y

    Returns
    -------
    (M, 3) or (M, 2) array

    Examples
    --------
    >>> to_metric(np.array([[90.0, 0.0]]), "latlon").round().tolist()
    [[0.0, 0.0, 6371009.0]]
    """
    if kind == "metric":
        return np.asarray(coordinates, dtype=float)
    lat, lon = np.radians(np.asarray(coordinates, dtype=float)).T
    return EARTH_RADIUS_METRES * np.column_stack(
        [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]
    )


def map_centre(coordinates: Array, kind: CoordinateKind) -> tuple[float, float]:
    """The middle of a map: latitude and longitude in radians; 0 and 0 for x and y.

    Examples
    --------
    >>> lat, lon = map_centre(np.array([[0.0, 179.0], [0.0, -179.0]]), "latlon")
    >>> lat, round(abs(lon), 6)
    (0.0, 3.141593)
    """
    if kind == "metric":
        return 0.0, 0.0
    lat, lon = np.radians(np.asarray(coordinates, dtype=float)).T
    # A circular mean: the middle of 179 and -179 degrees is 180, not 0.
    return float(lat.mean()), float(np.angle(np.exp(1j * lon).mean()))


def to_plane(
    coordinates: Array, kind: CoordinateKind, centre: tuple[float, float] | None = None
) -> Array:
    """Places on a flat map (M, 2): kilometres east and north of the centre, or x and y as given.

    The centre is :func:`map_centre` of these places where none was agreed on.

    Examples
    --------
    >>> to_plane(np.array([[0.0, 179.0], [0.0, -179.0]]), "latlon").round().tolist()
    [[-111.0, 0.0], [111.0, 0.0]]
    """
    if kind == "metric":
        return np.asarray(coordinates, dtype=float)
    lat, lon = np.radians(np.asarray(coordinates, dtype=float)).T
    north, middle = centre or map_centre(coordinates, kind)
    east = np.angle(np.exp(1j * (lon - middle))) * np.cos(north)
    return EARTH_RADIUS_METRES / 1000 * np.column_stack([east, lat - north])


def map_box(plane: Array) -> tuple[tuple[float, float], tuple[float, float]]:
    """Corners of the map that the owners publish.

    Examples
    --------
    >>> map_box(np.array([[0.0, 1.0], [2.0, 0.0]]))
    ((0.0, 0.0), (2.0, 1.0))
    """
    (left, low), (right, high) = plane.min(axis=0).tolist(), plane.max(axis=0).tolist()
    return (left, low), (right, high)


def find_regions(
    coordinates: Array, kind: CoordinateKind, n_regions: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Cut the map into ``n_regions`` compact regions by k-means on metric coordinates.

    Labels are numbered in the order in which the sensors first meet them. Coincident sensors
    share a region, so there are never more regions than distinct places.

    Examples
    --------
    >>> xy = np.array([[0.0, 0.0], [9.0, 9.0], [0.0, 1.0], [9.0, 8.0]])
    >>> find_regions(xy, "metric", 2, np.random.default_rng(0)).tolist()
    [0, 1, 0, 1]
    """
    # Large, and needed here only: a site never looks for regions.
    from sklearn.cluster import KMeans

    points = to_metric(coordinates, kind)
    n_regions = min(n_regions, len(np.unique(points, axis=0)))
    kmeans = KMeans(n_regions, n_init=10, random_state=int(rng.integers(2**31)))
    labels = kmeans.fit_predict(points)
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)
