"""Regions, and the nearest-neighbour graph inside each: the paper's spatial smoothness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from flfl.io.table import CoordinateKind

Array = NDArray[np.float64]
Symmetrize = Literal["none", "mean", "max"]

EARTH_RADIUS_METRES = 6_371_008.8
_CLOSEST_SHARE = 1e-3
"""Closer than this share of the median distance counts as this far: weights stay finite."""


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


def distances(coordinates: Array, kind: CoordinateKind) -> Array:
    """Pairwise distances: great-circle metres for latitude/longitude, else Euclidean.

    Parameters
    ----------
    coordinates : (M, 2) array

    Returns
    -------
    (M, M) array, symmetric, zero diagonal

    Examples
    --------
    One degree along the equator is about 111 km:

    >>> d = distances(np.array([[0.0, 0.0], [0.0, 1.0]]), "latlon")
    >>> round(float(d[0, 1]))
    111195
    """
    points = to_metric(coordinates, kind)
    chord = np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=-1))
    if kind == "metric":
        return chord
    half_angle = np.clip(chord / (2 * EARTH_RADIUS_METRES), 0.0, 1.0)
    return 2 * EARTH_RADIUS_METRES * np.arcsin(half_angle)


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


def neighbor_weights(
    distances: Array, n_neighbors: int, *, symmetrize: Symmetrize = "none"
) -> Array:
    """Weights ``1/d^2`` to each sensor's nearest neighbours (the paper's ``Top_k``).

    As printed, the graph need not be symmetric: i may list i' without being listed back.
    ``symmetrize`` says what to do about it: ``"none"`` keeps the printed graph, ``"mean"`` uses
    ``(W + W^T)/2``, ``"max"`` keeps an edge that either end lists. Weights are divided by the
    region's mean degree, so that the spatial weight ``z1`` has no unit.

    Parameters
    ----------
    distances : (C, C) array for the C sensors of one region
    n_neighbors : at most this many neighbours a sensor (fewer in a small region)

    Returns
    -------
    (C, C) array, non-negative, zero diagonal

    Examples
    --------
    >>> d = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]])
    >>> W = neighbor_weights(d, 1)
    >>> (W > 0).astype(int).tolist()
    [[0, 1, 0], [1, 0, 0], [0, 1, 0]]
    """
    C = distances.shape[0]
    W = np.zeros((C, C))
    top = min(n_neighbors, C - 1)
    if top < 1:
        return W
    closest = _closest(distances)
    far = distances.copy()
    np.fill_diagonal(far, np.inf)
    nearest = np.argsort(far, axis=1, kind="stable")[:, :top]
    rows = np.repeat(np.arange(C), top)
    columns = nearest.ravel()
    W[rows, columns] = 1.0 / np.maximum(distances[rows, columns], closest) ** 2
    if symmetrize == "mean":
        W = (W + W.T) / 2
    elif symmetrize == "max":
        W = np.maximum(W, W.T)
    return W / W.sum(axis=1).mean()


def inverse_distances(
    coordinates: Array | None, kind: CoordinateKind | None, power: float, *, size: int
) -> Array:
    """Weights ``(d / d_median)^-power`` between all sensors; all 1 without coordinates.

    Returns
    -------
    (M, M) array, symmetric, zero diagonal

    Examples
    --------
    >>> inverse_distances(np.array([[0.0, 0.0], [3.0, 0.0]]), "metric", 2.0, size=2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    W = np.ones((size, size))
    if coordinates is not None and kind is not None:
        d = distances(coordinates, kind)
        closest = _closest(d)
        # In units of the median distance a high power neither overflows nor vanishes.
        W = (np.maximum(d, closest) / (closest / _CLOSEST_SHARE)) ** -power
    np.fill_diagonal(W, 0.0)
    return W


def _closest(distances: Array) -> float:
    """Coincident sensors would weigh 1/0: they count as this far apart instead."""
    positive = distances[distances > 0]
    return _CLOSEST_SHARE * float(np.median(positive)) if positive.size else 1.0


def gaussian_weights(coordinates: Array | None, n_neighbors: int, *, size: int) -> Array:
    """Weights ``exp(-d^2 / sigma^2)`` to the nearest neighbours, as time-vertex methods use them.

    ``d`` is Euclidean on the coordinates as they stand, ``sigma`` the mean distance of a sensor
    to its ``n_neighbors`` nearest and to itself (zero, as in the published graphs). An edge
    exists if either end lists the other. Without coordinates all sensors are equally near: each
    is linked to every other, and has the weight of ``n_neighbors`` neighbours at distance sigma.

    Parameters
    ----------
    coordinates : (M, 2) array, or None
    n_neighbors : at most this many are listed by a sensor
    size : M

    Returns
    -------
    (M, M) array, symmetric, non-negative, zero diagonal

    Examples
    --------
    >>> gaussian_weights(np.array([[0.0, 0.0], [3.0, 0.0], [7.0, 0.0]]), 1, size=3).round(3)
    array([[0.   , 0.039, 0.   ],
           [0.039, 0.   , 0.003],
           [0.   , 0.003, 0.   ]])
    """
    top = min(n_neighbors, size - 1)
    if coordinates is None:
        return (1 - np.eye(size)) * (top / np.e / max(size - 1, 1))
    d = distances(coordinates, "metric")
    far = d.copy()
    np.fill_diagonal(far, np.inf)
    nearest = np.argsort(far, axis=1, kind="stable")[:, :top]
    listed = np.take_along_axis(d, nearest, axis=1)
    sigma = float(listed.sum()) / (size * (top + 1))
    W = np.zeros((size, size))
    # Where all sensors stand on one spot any sigma gives the weight 1.
    np.put_along_axis(W, nearest, np.exp(-((listed / (sigma or 1.0)) ** 2)), axis=1)
    return np.maximum(W, W.T)


def laplacian(W: Array) -> Array:
    """Return ``L = diag(W 1) - W``.

    Examples
    --------
    >>> laplacian(np.array([[0.0, 2.0], [1.0, 0.0]])).tolist()
    [[2.0, -2.0], [-1.0, 1.0]]
    """
    return np.diag(W.sum(axis=1)) - W


def region_laplacian(
    coordinates: Array | None,
    kind: CoordinateKind | None,
    n_neighbors: int,
    *,
    size: int,
    symmetrize: Symmetrize = "none",
) -> Array:
    """The Laplacian of one region; all zero (no spatial term) where coordinates are unknown.

    Examples
    --------
    >>> region_laplacian(None, None, 3, size=2).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    if coordinates is None or kind is None:
        return np.zeros((size, size))
    return laplacian(
        neighbor_weights(distances(coordinates, kind), n_neighbors, symmetrize=symmetrize)
    )
