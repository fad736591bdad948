"""Graphs of the baselines: weights that fall with the distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flfl.io.columns import CoordinateKind
from flfl.paper.graph import CLOSEST_SHARE, closest_distance, distances

Array = NDArray[np.float64]


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
        closest = closest_distance(d)
        # In units of the median distance a high power neither overflows nor vanishes.
        W = (np.maximum(d, closest) / (closest / CLOSEST_SHARE)) ** -power
    np.fill_diagonal(W, 0.0)
    return W


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
