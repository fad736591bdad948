"""The paper's smoothness: the graph of nearest neighbours in a region, and differences in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from flfl.model.basis import EARTH_RADIUS_METRES, to_metric

if TYPE_CHECKING:
    from flfl.io.columns import CoordinateKind

Array = NDArray[np.float64]
Symmetrize = Literal["none", "mean"]

CLOSEST_SHARE = 1e-3
"""Closer than this share of the median distance counts as this far: weights stay finite."""


def distances(coordinates: Array, kind: CoordinateKind) -> Array:
    """Distances (M, M) of places (M, 2): great-circle metres for latitude/longitude, or Euclidean.

    Examples
    --------
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


def neighbor_weights(
    distances: Array, n_neighbors: int, *, symmetrize: Symmetrize = "none"
) -> Array:
    """Weights ``1/d^2`` to each sensor's nearest neighbours (the paper's ``Top_k``).

    The printed graph need not be symmetric; ``symmetrize="mean"`` takes ``(W + W^T)/2``. Weights
    are divided by the region's mean degree, so that the spatial weight ``z1`` has no unit.

    Distances and weights are (C, C), of the C sensors of one region.

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
    closest = closest_distance(distances)
    far = distances.copy()
    np.fill_diagonal(far, np.inf)
    nearest = np.argsort(far, axis=1, kind="stable")[:, :top]
    rows, columns = np.repeat(np.arange(C), top), nearest.ravel()
    W[rows, columns] = 1.0 / np.maximum(distances[rows, columns], closest) ** 2
    if symmetrize == "mean":
        W = (W + W.T) / 2
    return W / W.sum(axis=1).mean()


def closest_distance(distances: Array) -> float:
    """Coincident sensors would weigh 1/0: they count as this far apart instead."""
    positive = distances[distances > 0]
    return CLOSEST_SHARE * float(np.median(positive)) if positive.size else 1.0


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
    W = neighbor_weights(distances(coordinates, kind), n_neighbors, symmetrize=symmetrize)
    return laplacian(W)


def difference(Q: Array) -> Array:
    """Return ``D^T Q`` (N-1, k), rows ``q_{j+1} - q_j``: D has -1 on the diagonal, +1 below it.

    Examples
    --------
    >>> difference(np.array([[1.0], [4.0], [2.0]])).ravel().tolist()
    [3.0, -2.0]
    """
    return np.diff(Q, axis=0)


def difference_adjoint(Z: Array) -> Array:
    """Return ``D Z`` (N, k), the adjoint of :func:`difference`.

    Examples
    --------
    >>> difference_adjoint(np.array([[3.0], [-2.0]])).ravel().tolist()
    [-3.0, 5.0, -2.0]
    """
    out = np.empty((Z.shape[0] + 1, Z.shape[1]))
    np.negative(Z[0], out=out[0])
    np.subtract(Z[:-1], Z[1:], out=out[1:-1])
    out[-1] = Z[-1]
    return out


def path_laplacian(Q: Array) -> Array:
    """Return ``D D^T Q`` (N, k): ``D D^T`` is the Laplacian of the path 1 - 2 - ... - N.

    Examples
    --------
    >>> path_laplacian(np.array([[1.0], [4.0], [2.0]])).ravel().tolist()
    [-3.0, 5.0, -2.0]
    """
    return difference_adjoint(difference(Q))
