"""A peer in the region reads its neighbour's recovered series: ``p_j . Q``.

Adversary: a sensor of the same region in the paper's method, honest but curious. The algorithm
itself hands it the neighbours' latent vectors (the spatial term needs them) and Q (everyone's
download).

Assumes: nothing more. The neighbour's mean and scale stay unknown, so the series is read in the
neighbour's standardised units.

Scored: relative error against the neighbour's readings, beside guessing zero (its mean, error 1)
and beside the peer's own series as a guess (neighbours resemble each other anyway). This is why a
region must lie inside one trust boundary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def read_neighbours(P: Array, Q: Array) -> Array:
    """``P Q^T`` (C, N): the series of all sensors whose latent vectors a peer was shown.

    Parameters
    ----------
    P : (C, k) latent vectors of the region; Q : (N, k)

    Examples
    --------
    >>> read_neighbours(np.array([[2.0]]), np.array([[1.0], [3.0]])).tolist()
    [[2.0, 6.0]]
    """
    return P @ Q.T


def relative_error(estimate: Array, truth: Array) -> Array:
    """``|y_hat - y| / |y|`` of each sensor over its known readings (C,); NaN = unknown.

    Examples
    --------
    >>> relative_error(np.array([[3.0, 9.0]]), np.array([[3.0, np.nan]])).tolist()
    [0.0]
    """
    known = ~np.isnan(truth)
    miss = np.where(known, estimate - np.where(known, truth, 0.0), 0.0)
    size = np.linalg.norm(np.where(known, truth, 0.0), axis=1)
    return np.asarray(np.linalg.norm(miss, axis=1) / np.maximum(size, 1e-300))


def score(P: Array, Q: Array, truth: Array, peer: int) -> dict[str, Array]:
    """Relative errors for the neighbours of ``peer`` (C - 1,), by three ways of guessing.

    Parameters
    ----------
    truth : (C, N) standardised readings, NaN = unknown
    """
    others = np.arange(len(truth)) != peer
    series = read_neighbours(P, Q)
    own = np.broadcast_to(series[peer], series.shape)
    return {
        "read": relative_error(series, truth)[others],
        "own_series": relative_error(own, truth)[others],
        "mean": relative_error(np.zeros_like(series), truth)[others],
    }
