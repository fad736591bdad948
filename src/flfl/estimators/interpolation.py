"""Each sensor alone: interpolation between its own readings. No message, no neighbour."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import PchipInterpolator

from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.model.temporal import interpolate


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
