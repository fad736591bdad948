"""From raw readings to model units inside a site: transform, own mean, own season.

``y = (f(raw) - centre_i - season_it) / scale``; the scale is one number for the network, from
a secure sum of squares and counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Change = Callable[[Array], Array]


def _same(x: Array) -> Array:
    return x


FORWARD: dict[str, Change] = {
    "none": _same,
    "sqrt": lambda x: np.sqrt(np.maximum(x, 0.0)),
    "log1p": lambda x: np.log1p(np.maximum(x, 0.0)),
}
BACKWARD: dict[str, Change] = {
    "none": _same,
    "sqrt": lambda z: np.maximum(z, 0.0) ** 2,
    "log1p": lambda z: np.expm1(np.maximum(z, 0.0)),
}


@dataclass(frozen=True)
class Units:
    """A site's way back to raw units; nothing of it is sent."""

    transform: str
    centre: Array  # (M, 1)
    season: Array  # (M, N)
    scale: float = 1.0

    def forward(self, raw: Array, known: NDArray[np.bool_]) -> Array:
        """Raw units to model units, zero where unknown (M, N)."""
        Z = FORWARD[self.transform](np.where(known, raw, 0.0))
        return np.where(known, (Z - self.season - self.centre) / self.scale, 0.0)

    def back(self, X: Array) -> Array:
        """Model units to raw units (M, N)."""
        return BACKWARD[self.transform](X * self.scale + self.season + self.centre)

    def back_at(self, x: Array, rows: Index, slots: Index) -> Array:
        """The same for some entries (n,)."""
        offset = self.season[rows, slots] + self.centre[rows, 0]
        return BACKWARD[self.transform](x * self.scale + offset)


def periodic_mean(
    X: Array, J: Array, period: int, positions: Array, ridge: float = 2.0, harmonics: int = 6
) -> Array:
    """Each sensor's own season by ridge on a few harmonics of ``period`` steps (M, N).

    The ridge of a harmonic grows with its order: a few readings give a smooth season, many a
    sharp one. Six harmonics of twelve months are a mean for every month.

    Examples
    --------
    >>> t = np.arange(240.0)
    >>> X = np.cos(2 * np.pi * t / 12)[None]
    >>> bool(np.abs(periodic_mean(X, np.ones_like(X), 12, t) - X).max() < 0.03)
    True
    """
    angle = 2 * np.pi * positions / period
    orders = range(1, min(harmonics, max(period // 2, 1)) + 1)
    Phi = np.array([f(h * angle) for h in orders for f in (np.cos, np.sin)])
    gram = np.einsum("at,it,bt->iab", Phi, J, Phi, optimize=True)
    gram += ridge * np.diag(np.repeat(orders, 2))
    coefficients = np.linalg.solve(gram, ((J * X) @ Phi.T)[:, :, None])[:, :, 0]
    return np.asarray(coefficients @ Phi)


def robust_limits(X: Array, J: Array, at: float = 6.0) -> tuple[Array, Array]:
    """Median and ``at`` x 1.4826 x median absolute deviation of each sensor's known values (M, 1).

    Examples
    --------
    >>> middle, width = robust_limits(np.array([[1.0, 2.0, 3.0, 100.0]]), np.ones((1, 4)), 1.0)
    >>> float(middle[0, 0]), float(width[0, 0].round(3))
    (2.5, 1.483)
    """
    middle, width = np.zeros((len(X), 1)), np.full((len(X), 1), np.inf)
    for i, known in enumerate(J > 0):
        if known.any():
            middle[i] = np.median(X[i, known])
            spread = np.median(np.abs(X[i, known] - middle[i]))
            # more than half of the readings equal: fall back on the plain deviation
            width[i] = at * (1.4826 * spread if spread > 0 else X[i, known].std())
    return middle, width


def known_mean(X: Array, J: Array) -> Array:
    """Mean of each sensor's known values (M, 1), 0 where there is none.

    Examples
    --------
    >>> known_mean(np.array([[1.0, 3.0, 9.0]]), np.array([[1.0, 1.0, 0.0]])).tolist()
    [[2.0]]
    """
    return (J * X).sum(1, keepdims=True) / np.maximum(J.sum(1, keepdims=True), 1)


def to_units(
    raw: Array, J: Array, transform: str, period: int, positions: Array
) -> tuple[Array, Units]:
    """Centred and deseasoned readings (M, N), zero where unknown, and the way back.

    Spikes are clipped at 6 robust deviations. That touches only what the shared fit sees; heads
    keep the true reading.

    Examples
    --------
    >>> raw, J = np.array([[1.0, 2.0, 3.0]]), np.ones((1, 3))
    >>> Y, units = to_units(raw, J, "none", 0, np.arange(3.0))
    >>> Y.tolist(), units.back(Y).tolist()
    ([[-1.0, 0.0, 1.0]], [[1.0, 2.0, 3.0]])
    """
    Z = np.where(J > 0, FORWARD[transform](np.where(J > 0, raw, 0.0)), 0.0)
    season = np.zeros_like(Z)
    for _ in range(3 if period else 0):  # clip, refit the season, clip what it leaves
        calm = _calm(Z - season, J)
        centre = known_mean(calm, J)
        season = periodic_mean(J * (calm + season - centre), J, period, positions)
    calm = _calm(Z - season, J)
    centre = known_mean(calm, J)
    return J * (calm - centre), Units(transform, centre, season)


def _calm(X: Array, J: Array) -> Array:
    """Each sensor's values without its spikes (M, N)."""
    middle, width = robust_limits(X, J)
    return np.clip(X, middle - width, middle + width)
