"""Each sensor alone: interpolation between its own readings. No message, no neighbour."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import PchipInterpolator

from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors


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


class Linear(BaseRecoverer):
    """Straight lines between a sensor's own readings, flat beyond the first and the last.

    Examples
    --------
    >>> Linear().fit_transform(np.array([[1.0], [np.nan], [3.0]])).ravel().tolist()
    [1.0, 2.0, 3.0]
    """

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        return interpolate(Y, positions)


class Pchip(BaseRecoverer):
    """Shape-preserving cubics between a sensor's own readings, flat beyond the ends.

    Examples
    --------
    >>> Pchip().fit_transform(np.array([[1.0], [np.nan], [3.0]])).ravel().tolist()
    [1.0, 2.0, 3.0]
    """

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        out = np.empty_like(Y)
        for i, y in enumerate(Y):
            known = np.flatnonzero(~np.isnan(y))
            if len(known) == 1:
                out[i] = y[known[0]]
                continue
            inside = np.clip(positions, positions[known[0]], positions[known[-1]])
            out[i] = PchipInterpolator(positions[known], y[known])(inside)
        return out


class Mean(BaseRecoverer):
    """A sensor's own mean.

    Examples
    --------
    >>> Mean().fit_transform(np.array([[1.0], [np.nan], [3.0]])).ravel().tolist()
    [1.0, 2.0, 3.0]
    """

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        return np.repeat(np.nanmean(Y, axis=1, keepdims=True), Y.shape[1], axis=1)
