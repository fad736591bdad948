"""``softimpute``: the nuclear norm fills the table, all data in one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flfl.config import Count, Positive, Share
from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.paper.objective import Observed
from flfl.paper.scaling import Scaling
from flfl_bench.maths.low_rank import noise_edge, shrink_singular_values

_PATH = 5
"""Thresholds from the largest useful one down to the one asked for."""


@dataclass(kw_only=True, eq=False, repr=False)
class SoftImpute(BaseRecoverer):
    """``min 1/2 |J*(X - Y)|^2 + tau |X|_*`` on standardised readings.

    Central: it pools the readings. Gaps are filled with the last estimate and the singular values
    shrunk by tau, again and again, with momentum; tau falls along a short path and every
    step starts from the one before.

    Parameters
    ----------
    shrinkage : tau in units of ``sqrt(n_sensors) + sqrt(n_slots)``, about the largest singular
        value of a table of unit noise
    tolerance : stop when the table changes by less than this share
    steps : at most so many for each tau

    Examples
    --------
    >>> X = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0])
    >>> X[4, 1] = np.nan
    >>> filled = SoftImpute(shrinkage=1e-3).fit_transform(X)[4, 1]  # 10 was hidden
    >>> bool(abs(filled - 10) < 0.5)
    True
    """

    shrinkage: Positive = 0.1
    tolerance: Share = 0.0001
    steps: Count = 100

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        scaling = Scaling.fit(Y)
        data = Observed.of(scaling.apply(Y), ~np.isnan(Y))
        last = self.shrinkage * noise_edge(Y.shape)
        first = max(last, 0.5 * float(np.linalg.norm(data.Y, 2)))
        X = np.zeros_like(data.Y)
        for tau in np.geomspace(first, last, _PATH):
            X = self._descend(data, X, float(tau))
        return scaling.undo(X)

    def _descend(self, data: Observed, X: Array, tau: float) -> Array:
        """Proximal gradient steps of length 1 with momentum, from X."""
        V, pace = X, 1.0
        for _ in range(self.steps):
            last, X = X, shrink_singular_values(V + data.J * (data.Y - V), tau)
            change = X - last
            if float(np.linalg.norm(change)) <= self.tolerance * float(np.linalg.norm(X)):
                break
            pace, before = (1 + np.sqrt(1 + 4 * pace**2)) / 2, pace
            V = X + (before - 1) / pace * change
        return X
