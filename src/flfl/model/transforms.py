"""Transforms and seasons: what is taken off the readings before they are modelled.

A network agrees on one transform and one season for life: the noise of the copies is added on the
transformed scale. Centre and season of a sensor are a constant and a few harmonics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from flfl.constants import HARMONICS, SEASON_RIDGE
from flfl.model import Array

Change = Callable[[Array], Array]
Transform = Literal["none", "sqrt", "log1p"]
TRANSFORMS: tuple[Transform, ...] = ("none", "sqrt", "log1p")


FORWARD: dict[str, Change] = {
    "none": lambda x: x,
    "sqrt": lambda x: np.sqrt(np.maximum(x, 0.0)),
    "log1p": lambda x: np.log1p(np.maximum(x, 0.0)),
}
BACKWARD: dict[str, Change] = {
    "none": lambda z: z,
    "sqrt": lambda z: np.maximum(z, 0.0) ** 2,
    "log1p": lambda z: np.expm1(np.maximum(z, 0.0)),
}
SLOPE: dict[str, Change] = {
    "none": np.ones_like,
    "sqrt": lambda x: 0.5 / np.sqrt(np.maximum(x, 1e-12)),
    "log1p": lambda x: 1.0 / (1.0 + np.maximum(x, 0.0)),
}
"""Derivative of the forward transform: turns an error in the readings' units into one on the
transformed scale."""


def season_rows(positions: Array, period: int) -> Array:
    """A constant and the harmonics of ``period`` steps at every slot (1 + 2 * HARMONICS, N).

    Rows that the period does not have are zero; without a period all but the constant are.

    Examples
    --------
    >>> season_rows(np.arange(3.0), 0).sum(axis=1)[:2].tolist()
    [3.0, 0.0]
    """
    rows = np.zeros((1 + 2 * HARMONICS, len(positions)))
    rows[0] = 1.0
    if period:
        angle = 2 * np.pi * positions / period
        for order in range(1, min(HARMONICS, max(period // 2, 1)) + 1):
            rows[2 * order - 1], rows[2 * order] = np.cos(order * angle), np.sin(order * angle)
    return rows


def fit_offsets(X: Array, J: Array, rows: Array) -> Array:
    """Centre and season of each series (m, 1 + 2 * HARMONICS) by ridge regression.

    X and J (m, N) are the series and 1 where it is known; ``rows`` come from :func:`season_rows`.

    Examples
    --------
    >>> t = np.arange(240.0)
    >>> X = 5.0 + np.cos(2 * np.pi * t / 12)[None]
    >>> fit_offsets(X, np.ones_like(X), season_rows(t, 12))[0, :2].round(2)
    array([5.  , 0.98])
    """
    order = np.concatenate([[0.0], np.repeat(np.arange(1.0, HARMONICS + 1), 2)])
    used = rows.any(axis=1)
    pairs = (rows[:, None] * rows).reshape(-1, rows.shape[1])
    gram = (J @ pairs.T).reshape(len(J), len(rows), len(rows))
    # A constant needs no ridge, but a sensor without readings a matrix that can be solved.
    gram += np.diag(np.where(used, SEASON_RIDGE * order, 1.0) + 1e-9)
    return np.asarray(np.linalg.solve(gram, ((J * X) @ rows.T)[:, :, None])[:, :, 0], dtype=float)
