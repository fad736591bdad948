"""``lrds``: low rank and smooth changes on the graph together, all data in one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flfl.config import Count, NotNegative, Share
from flfl.estimators.base import Array, BaseRecoverer
from flfl.estimators.interpolation import interpolate
from flfl.io.sensors import Sensors
from flfl.paper.graph import laplacian
from flfl.paper.objective import Observed
from flfl_bench.maths.graphs import gaussian_weights
from flfl_bench.maths.low_rank import noise_edge, shrink_singular_values
from flfl_bench.maths.scaling import common_scaling
from flfl_bench.maths.smooth_recovery import recover_smooth

_PENALTY = 0.05
"""ADMM's rho at least, for readings of unit spread."""
_INNER = 15
"""Conjugate gradient steps in each step of ADMM; each starts where the last ended."""


@dataclass(kw_only=True, eq=False, repr=False)
class LRDS(BaseRecoverer):
    """``min 1/2 |J*X - Y|^2 + alpha/2 tr((X D)^T L (X D)) + tau |X|_*``.

    Central: it pools the readings. The nuclear norm holds the table together globally, the second
    term (as in :class:`~flfl_bench.baselines.tvgs.TVGS`) from neighbour to neighbour.
    Solved by ADMM on the split ``X = Z``, from interpolated readings. Readings are freed of each
    sensor's mean and divided by one spread for all.

    Parameters
    ----------
    alpha : weight of smoothness; it has no unit
    shrinkage : tau in units of ``sqrt(n_sensors) + sqrt(n_slots)``, about the largest singular
        value of a table of unit noise
    n_neighbors : neighbours that a sensor lists
    tolerance : stop when both ``X - Z`` and the change of Z are below this share
    steps : of ADMM, at most

    Examples
    --------
    >>> X = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0])
    >>> X[4, 1] = np.nan
    >>> filled = LRDS(alpha=0.01, shrinkage=1e-3).fit_transform(X)[4, 1]  # 10 was hidden
    >>> bool(abs(filled - 10) < 0.5)
    True
    """

    alpha: NotNegative = 0.05
    shrinkage: NotNegative = 0.05
    n_neighbors: Count = 10
    tolerance: Share = 0.001
    steps: Count = 100

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        scaling = common_scaling(Y)
        scaled = scaling.apply(Y)
        L = laplacian(gaussian_weights(sensors.coordinates, self.n_neighbors, size=len(Y)))
        data = Observed.of(scaled, ~np.isnan(Y))
        return scaling.undo(self._split(data, L, interpolate(scaled, positions)))

    def _split(self, data: Observed, L: Array, X: Array) -> Array:
        """ADMM from X: a smooth step, a step of low rank, and what they differ by."""
        tau = self.shrinkage * noise_edge(X.shape)
        # A strong shrinkage moves in too large steps under a weak penalty.
        rho = max(_PENALTY, 2 * self.shrinkage)
        Z, U = X, np.zeros_like(X)
        for _ in range(self.steps):
            X = recover_smooth(
                data.Y, data.J, L, self.alpha,
                pull=rho, towards=Z - U, start=X, tolerance=1e-5, steps=_INNER,
            )  # fmt: skip
            last, Z = Z, shrink_singular_values(X + U, tau / rho)
            U = U + X - Z
            enough = self.tolerance * float(np.linalg.norm(X))
            if max(float(np.linalg.norm(X - Z)), float(np.linalg.norm(Z - last))) <= enough:
                break
        return X
