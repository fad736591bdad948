"""The map: places on it, regions of it, and the functions by which copies of a slot are added up.

The functions are fixed when a network is founded: cosines over the published box, from smooth to
detailed. They do not change when sensors join.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from flfl.model import Array, Index

if TYPE_CHECKING:
    from flfl.io.columns import CoordinateKind

Box = tuple[tuple[float, float], tuple[float, float]]

EARTH_RADIUS_METRES = 6_371_008.8


def smooth_basis(places: Array, box: Box, size: int) -> Array:
    """The first ``size`` products of cosines over a box at some places (M, 2): (M, size).

    ``f_ab = c_ab cos(pi a x) cos(pi b y)``, x and y from 0 to 1 across the box, ordered by
    ``(a / width)^2 + (b / height)^2``: a constant first, then from smooth to detailed, as fine from
    east to west as from north to south. They are of mean square one and orthogonal over the box.
    Every site computes them for itself, so they are given by a formula: an orthogonalisation leaves
    the choice between equally smooth functions to the rounding of each machine.

    Examples
    --------
    >>> smooth_basis(np.array([[0.0, 0.5]]), ((0.0, 0.0), (1.0, 1.0)), 4).round(2)
    array([[1.  , 0.  , 1.41, 0.  ]])
    """
    low, high = np.array(box, dtype=float)
    extent = np.maximum(high - low, 1e-9)
    x, y = np.clip((places - low) / extent, -0.25, 1.25).T
    a, b = np.indices((size, size)).reshape(2, -1)
    detail = np.square(np.stack([a, b]) / (extent / extent.max())[:, None]).sum(axis=0)
    a, b = (order[np.lexsort((a, detail))[:size]] for order in (a, b))
    level = np.sqrt((1.0 + (a > 0)) * (1.0 + (b > 0)))
    return level * np.cos(np.pi * np.outer(x, a)) * np.cos(np.pi * np.outer(y, b))


def keyed_signs(names: Sequence[bytes], size: int) -> Array:
    """Without a map: a constant, then random signs that follow from each sensor's name (M, size).

    Examples
    --------
    >>> keyed_signs([b"a", b"b"], 3)[:, 0].tolist()
    [1.0, 1.0]
    """
    rows = np.ones((len(names), size))
    for i, name in enumerate(names):
        text = hashlib.shake_128(name).digest(-(-max(size - 1, 1) // 8))
        bits = np.unpackbits(np.frombuffer(text, np.uint8))[: size - 1]
        rows[i, 1:] = 2.0 * bits - 1.0
    return rows


def to_metric(coordinates: Array, kind: CoordinateKind) -> Array:
    """Coordinates in a space where Euclidean distance means distance.

    Latitude and longitude become points on the globe (chords in metres), so that neither the
    date line nor the poles tear a region apart; metric coordinates stay as they are.

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
    """The middle of a map: latitude and longitude in radians; 0 and 0 for x and y."""
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


def map_box(plane: Array) -> Box:
    """Corners of the map that the owners publish."""
    (left, low), (right, high) = plane.min(axis=0).tolist(), plane.max(axis=0).tolist()
    return (left, low), (right, high)


def find_regions(
    coordinates: Array, kind: CoordinateKind, n_regions: int, rng: np.random.Generator
) -> Index:
    """Cut the map into ``n_regions`` compact regions by k-means on metric coordinates.

    Labels are numbered in the order in which the sensors first meet them. Coincident sensors
    share a region, so there are never more regions than distinct places.

    Examples
    --------
    >>> xy = np.array([[0.0, 0.0], [9.0, 9.0], [0.0, 1.0], [9.0, 8.0]])
    >>> find_regions(xy, "metric", 2, np.random.default_rng(0)).tolist()
    [0, 1, 0, 1]
    """
    points, seed = to_metric(coordinates, kind), int(rng.integers(2**31))
    n_regions = min(n_regions, len(np.unique(points, axis=0)))
    if n_regions == 1:
        return np.zeros(len(points), np.int64)
    # Large, and needed here only: a site never looks for regions.
    from sklearn.cluster import KMeans

    kmeans = KMeans(n_regions, n_init=10, random_state=seed)
    labels = kmeans.fit_predict(points)
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)
