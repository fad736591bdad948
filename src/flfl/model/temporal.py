"""Time: straight lines between readings, and first differences: ``D``, never formed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def interpolate(Y: Array, positions: Array) -> Array:
    """Straight lines between each sensor's own readings, flat beyond the first and the last.

    Parameters
    ----------
    Y : (M, N) readings, NaN = missing; no row is all NaN
    positions : (N,) elapsed time of the slots, increasing

    Returns
    -------
    (M, N) array without NaN

    Examples
    --------
    >>> interpolate(np.array([[np.nan, 1.0, np.nan, 3.0]]), np.arange(4.0)).tolist()
    [[1.0, 1.0, 2.0, 3.0]]
    """
    out = np.empty_like(Y)
    for i, y in enumerate(Y):
        known = ~np.isnan(y)
        out[i] = np.interp(positions, positions[known], y[known])
    return out


def difference(Q: Array) -> Array:
    """Return ``D^T Q``: the change from each slot to the next.

    ``D`` is N x (N-1) with -1 on the diagonal and +1 below it, so row j of the result is
    ``q_{j+1} - q_j``.

    Parameters
    ----------
    Q : (N, k) array

    Returns
    -------
    (N-1, k) array

    Examples
    --------
    >>> difference(np.array([[1.0], [4.0], [2.0]])).ravel().tolist()
    [3.0, -2.0]
    """
    return np.diff(Q, axis=0)


def difference_adjoint(Z: Array) -> Array:
    """Return ``D Z``, the adjoint of :func:`difference`.

    Parameters
    ----------
    Z : (N-1, k) array

    Returns
    -------
    (N, k) array

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
    """Return ``D D^T Q``: ``D D^T`` is the Laplacian of the path 1 - 2 - ... - N.

    Parameters
    ----------
    Q : (N, k) array

    Returns
    -------
    (N, k) array

    Examples
    --------
    >>> path_laplacian(np.array([[1.0], [4.0], [2.0]])).ravel().tolist()
    [-3.0, 5.0, -2.0]
    """
    return difference_adjoint(difference(Q))
