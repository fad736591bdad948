"""The exposure guard: leverage of each sensor, of each sensor in each window, and their caps.

Sites hold ``B``, ``r``, ``a`` and ``u``; the coordinator only ever sees the k x k sum
``R = sum_i r_i a_i^2 b_i b_i^T`` and the window sums ``d`` (n_windows, k).
All of it happens before the first upload of readings and is frozen then.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

Array = NDArray[np.float64]


def noise_sum(B: Array, r: Array) -> Array:
    """Site's part of ``R = sum_i r_i b_i b_i^T`` (k, k)."""
    return (B * r[:, None]).T @ B


def leverage(B: Array, r: Array, R: Array) -> Array:
    """``h_i = r_i b_i^T R^-1 b_i`` (site): 0 to 1, adding up to k over the network (M,).

    Guarantee: h_i is the R^2 of the best linear read-out, constant in time, of a
    sensor's news from the sums when all news are independent with variances r.

    Examples
    --------
    >>> B = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> leverage(B, np.ones(3), noise_sum(B, np.ones(3))).round(6).tolist()
    [1.0, 0.5, 0.5]
    """
    ridge = 1e-9 * np.trace(R) / len(R) * np.eye(len(R))
    half = solve_triangular(np.linalg.cholesky(R + ridge), B.T, lower=True)
    return r * (half**2).sum(axis=0)


def against_coalition(h: Array, share: float) -> Array:
    """Leverage against the honest rest, when a share of the other sensors subtract their part.

    What shelters a sensor is the others' noise: with odds ``l = h / (1 - h)`` against all of it,
    the odds against the rest are ``l / (1 - share)`` for a coalition spread like the network.

    Examples
    --------
    >>> against_coalition(np.array([0.25, 0.5]), 0.5).round(3).tolist()
    [0.4, 0.667]
    """
    return np.asarray(h / np.maximum(h + (1 - share) * (1 - h), 1e-12))


def cap_with_coalition(cap: Array | float, share: float) -> Array:
    """The leverage at which :func:`against_coalition` gives ``cap``.

    Examples
    --------
    >>> against_coalition(cap_with_coalition(0.5, 0.25), 0.25).round(6).tolist()
    0.5
    """
    odds = (1 - share) * np.asarray(cap) / np.maximum(1 - np.asarray(cap), 1e-12)
    return np.asarray(odds / (1 + odds))


def rescale(a: Array, h: Array, cap: Array | float) -> Array:
    """One iteration of ``a_i^2 = min(1, cap/(1-cap) / l_i)``, ``l_i = h_i/(1-h_i)/a_i^2`` (site).

    Examples
    --------
    >>> rescale(np.ones(2), np.array([0.8, 0.2]), 0.5).round(3).tolist()
    [0.5, 1.0]
    """
    h = np.clip(h, 0.0, 1 - 1e-6)
    odds = h / (1 - h) / np.maximum(a**2, 1e-12)
    return np.sqrt(np.minimum(1.0, cap / (1 - cap) / np.maximum(odds, 1e-12)))


def localise(loadings: Array, n_iter: int = 50) -> Array:
    """Rotation (k, k) that makes the columns of ``loadings @ rotation`` local.

    Maximises ``sum (loadings @ rotation)^4`` over rotations (for whitened loadings the same
    as varimax).  The criterion is convex, so each polar step can only raise it; varimax's
    own iteration can swing between two angles for ever.  The coordinator runs it on the
    *published* bumps over a grid, so no sensor is needed.

    Examples
    --------
    >>> local = np.repeat(np.eye(2), 3, axis=0)
    >>> turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    >>> out = np.abs(local @ turn @ localise(local @ turn))
    >>> np.allclose(np.sort(out, axis=1), [[0, 1]] * 6, atol=1e-6)
    True
    """
    rotation = np.eye(loadings.shape[1])
    for _ in range(n_iter):
        U, _, Vt = np.linalg.svd(loadings.T @ (loadings @ rotation) ** 3)
        rotation = U @ Vt
    return rotation


def whitener(R: Array) -> Array:
    """``R^-1/2`` (coordinator), published for the per-window guard."""
    values, vectors = np.linalg.eigh(R)
    return np.asarray((vectors / np.sqrt(np.maximum(values, 1e-9 * values[-1]))) @ vectors.T)


def window_energy(local: Array, strength: Array) -> Array:
    """Site's part of ``d_tau,c = sum_i (u resp)^2_i,tau bt_ic^2`` (n_windows, k).

    ``local`` is ``bt`` (M, k), ``strength`` is ``u * resp`` averaged in the window (M, n_windows).
    """
    return (strength**2).T @ local**2


def window_leverage(local: Array, strength: Array, d: Array) -> Array:
    """``h_i,tau = (u resp)^2 sum_c bt_ic^2 / d_tau,c`` (site), shape (M, n_windows).

    Examples
    --------
    >>> bt, s = np.eye(2), np.ones((2, 1))
    >>> window_leverage(bt, s, window_energy(bt, s)).round(6).tolist()
    [[1.0], [1.0]]
    """
    inverse = 1.0 / np.maximum(d, 1e-9)
    return strength**2 * (local**2 @ inverse.T)


def clip_news(E: Array, known: Array, at: float) -> Array:
    """Clip each sensor's residuals at ``at`` times their own robust spread (site).

    The spread is 1.4826 x the median absolute residual of the *current* round, so the
    first rounds, whose residual is the whole signal, are not cut to pieces.

    Examples
    --------
    >>> E = np.array([[1.0, -1.0, 1.0, -1.0, 90.0]])
    >>> clip_news(E, np.ones((1, 5)), 3.0).round(4).tolist()
    [[1.0, -1.0, 1.0, -1.0, 4.4478]]
    """
    if not np.isfinite(at):
        return E
    absolute = np.where(known > 0, np.abs(E), np.nan)
    limit = at * 1.4826 * _row_median(absolute)[:, None]
    return np.clip(E, -limit, limit)


def _row_median(X: Array) -> Array:
    """Median of each row without its NaNs (inf, so no clipping, where a row has none)."""
    ordered = np.sort(X, axis=1)
    n = np.isfinite(ordered).sum(axis=1)
    middle = ordered[np.arange(len(X)), np.maximum(n - 1, 0) // 2]
    return np.where(n > 0, middle, np.inf)
