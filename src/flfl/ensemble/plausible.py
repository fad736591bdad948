"""What is plausible for a sensor: its own range, with a margin that its own history justifies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flfl.constants import MARGIN_PARTS, NEAR_ZERO

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def plausible(raw: Array, known: Mask, parts: int = MARGIN_PARTS) -> Array:
    """Least and largest plausible value of each sensor (2, m, 1).

    History is cut into ``parts``. Beyond the largest reading there is room for as much as the part
    that holds it exceeds the largest of the other parts: so far has one part ever gone beyond the
    rest. Below the least likewise; never more than the whole range. A sensor that was always alike
    has no room, and one without readings nothing but zero. Readings that come close to zero and
    never below it are of something that cannot be negative.

    Examples
    --------
    >>> raw = np.array([[1.5, 3.0, 2.0, 4.5]])
    >>> plausible(raw, np.ones((1, 4), bool), parts=2)[:, 0, 0].tolist()
    [1.0, 6.0]
    """
    m, N = raw.shape
    parts = max(min(parts, N), 1)
    edges = np.arange(parts) * N // parts
    signed = np.stack([np.where(known, -raw, -np.inf), np.where(known, raw, -np.inf)])
    most = -np.sort(-np.maximum.reduceat(signed, edges, axis=2), axis=2)  # (2, m, parts)
    top = most[:, :, 0]
    second = most[:, :, 1] if parts > 1 else np.full((2, m), -np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    # Where one part holds all readings nothing tells how far another would go.
    room = np.minimum(np.where(np.isfinite(second), top - second, np.inf), top[0] + top[1])
    low, high = -(top[0] + room[0]), top[1] + room[1]
    positive = (top[0] <= 0) & (-top[0] <= NEAR_ZERO * top[1])
    return np.stack([np.where(positive, np.maximum(low, 0.0), low), high])[:, :, None]
