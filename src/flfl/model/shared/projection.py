"""The fixed projection: k numbers a sensor has before any reading is used.

A *site* computes ``B`` (M x k) for its own sensors from what the coordinator
published (knots, width, or a key); coordinates never leave.  The only message is
one k x k secure sum, ``sum_i b_i b_i^T``, used to whiten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def knots_on_box(lower: Array, upper: Array, n_knots: int, side: int = 25) -> Array:
    """Spread knots over a published box (coordinator; no sensor is looked at).

    Farthest-point start, then Lloyd iterations, on a ``side ** dim`` grid.

    Parameters
    ----------
    lower, upper : (dim,) arrays
        Corners of the box the owners agreed to publish.
    n_knots : int
        Number of knots.
    side : int
        Grid points an axis.

    Returns
    -------
    (n_knots, dim) array

    Examples
    --------
    >>> knots_on_box(np.zeros(1), np.ones(1), 2, side=5).ravel().tolist()
    [0.75, 0.125]
    """
    lower, upper = np.asarray(lower, float), np.asarray(upper, float)
    span = np.where(upper > lower, upper - lower, 1.0)
    axes = [np.linspace(0.0, 1.0, side)] * len(span)
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(span))
    knots = _lloyd(grid, _farthest(grid, n_knots))
    return lower + knots * span


def _farthest(grid: Array, n_knots: int) -> Array:
    """Farthest-point subset of ``grid``, starting next to its centre."""
    first = np.argmin(((grid - grid.mean(axis=0)) ** 2).sum(axis=1))
    chosen = [int(first)]
    gap = ((grid - grid[first]) ** 2).sum(axis=1)
    while len(chosen) < n_knots:
        chosen.append(int(np.argmax(gap)))
        gap = np.minimum(gap, ((grid - grid[chosen[-1]]) ** 2).sum(axis=1))
    return grid[chosen]


def _lloyd(grid: Array, knots: Array, n_iter: int = 10) -> Array:
    """A few Lloyd iterations, so that knots leave the border."""
    for _ in range(n_iter):
        nearest = ((grid[:, None] - knots[None]) ** 2).sum(axis=2).argmin(axis=1)
        counts = np.bincount(nearest, minlength=len(knots))
        sums = np.stack([np.bincount(nearest, axis, len(knots)) for axis in grid.T], axis=1)
        knots = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], knots)
    return knots


def bump_width(knots: Array, factor: float = 1.2) -> float:
    """``factor`` times the mean distance of a knot to its nearest other knot.

    Examples
    --------
    >>> bump_width(np.array([[0.0], [1.0], [3.0]]), factor=1.0)
    1.3333333333333333
    """
    if len(knots) < 2:
        return 1.0
    distances = np.sqrt(((knots[:, None] - knots[None]) ** 2).sum(axis=2))
    np.fill_diagonal(distances, np.inf)
    return float(factor * distances.min(axis=1).mean())


def bumps(coordinates: Array, knots: Array, width: float) -> Array:
    """A constant and Gaussian bumps of the sensor's own coordinates (site).

    ``b_i = (1, exp(-|x_i - z_1|^2 / 2 s^2), ...)``, shape (M, 1 + n_knots).

    Examples
    --------
    >>> bumps(np.array([[0.0]]), np.array([[0.0], [1e3]]), 1.0).round(3).tolist()
    [[1.0, 1.0, 0.0]]
    """
    squares = ((coordinates[:, None] - knots[None]) ** 2).sum(axis=2)
    return np.hstack([np.ones((len(coordinates), 1)), np.exp(-squares / (2 * width**2))])


def keyed_vectors(sensor_ids: Sequence[str], rank: int, key: bytes) -> Array:
    """Random numbers from a keyed hash of each sensor's name (site, no coordinates).

    The same name and key give the same row on every machine.

    Examples
    --------
    >>> one = keyed_vectors(["a", "b"], 3, b"key")
    >>> bool(np.array_equal(one[1:], keyed_vectors(["b"], 3, b"key"))), one.shape
    (True, (2, 3))
    """
    rows = []
    for name in sensor_ids:
        digest = hashlib.blake2b(name.encode(), key=key, digest_size=16).digest()
        rng = np.random.default_rng(int.from_bytes(digest, "big"))
        rows.append(np.r_[1.0, rng.standard_normal(max(rank - 1, 0))][:rank])
    return np.array(rows)


def gram(B: Array) -> Array:
    """Site's part of the whitening sum, ``sum_i b_i b_i^T`` (k, k)."""
    return B.T @ B


def whitening(total: Array, n_sensors: int, floor: float = 1e-6) -> Array:
    """Matrix W with ``sum_i (b_i W)(b_i W)^T = M I`` (coordinator).

    Directions with almost no energy are not blown up: eigenvalues are floored at
    ``floor`` times the largest.

    Examples
    --------
    >>> B = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> W = whitening(gram(B), 3)
    >>> np.allclose(gram(B @ W), 3 * np.eye(2))
    True
    """
    values, vectors = np.linalg.eigh(total)
    values = np.maximum(values, floor * values[-1])
    # smoothest (most energy) first
    return np.asarray((vectors / np.sqrt(values / n_sensors))[:, ::-1])


def adaptive(P: Array, r: Array) -> Array:
    """Renewed projection ``b_i = p_i / r_i`` (site); ``C = I`` then: a dense EM step.

    Examples
    --------
    >>> adaptive(np.array([[2.0]]), np.array([4.0])).tolist()
    [[0.5]]
    """
    # A sensor that the model explains almost exactly must not outweigh all others.
    return P / np.maximum(r, 1e-4)[:, None]
