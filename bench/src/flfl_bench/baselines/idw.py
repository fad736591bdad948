"""``idw``: the others' deviations at that slot, the nearer the heavier."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flfl.config import NotNegative
from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.paper.objective import Observed
from flfl_bench.maths.graphs import inverse_distances


@dataclass(kw_only=True, eq=False, repr=False)
class IDW(BaseRecoverer):
    """``x_it = m_i + sum_j d_ij^-p (y_jt - m_j) / sum_j d_ij^-p`` over the others observed at t.

    Central: it pools the readings. What is spread over the map is each sensor's deviation from its
    own mean ``m``, as is done with stations of different levels: the plain readings of a
    roadside and of a park would be mixed up otherwise. Where nobody is observed the estimate is
    the sensor's own mean. Without coordinates all sensors weigh the same.

    Parameters
    ----------
    power : p

    Examples
    --------
    >>> X = np.array([[0.0, 5.0], [1.0, np.nan], [2.0, 7.0]])
    >>> float(IDW().fit_transform(X)[1, 1])
    6.0
    """

    power: NotNegative = 2.0

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        mean = np.nanmean(Y, axis=1, keepdims=True)
        data = Observed.of(Y - mean, ~np.isnan(Y))
        W = inverse_distances(sensors.coordinates, sensors.kind, self.power, size=len(Y))
        total = W @ data.J
        # Where nobody is observed 0 / 1 leaves the mean.
        return mean + (W @ data.Y) / np.where(total > 0, total, 1.0)
