"""``tvgs``: changes from slot to slot are smooth on the graph; ``graphtrss``: Sobolev smooth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flfl.config import Count, NotNegative, Positive, Share
from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.paper.graph import laplacian
from flfl.paper.objective import Observed
from flfl_bench.maths.graphs import gaussian_weights
from flfl_bench.maths.scaling import common_scaling
from flfl_bench.maths.smooth_recovery import recover_smooth


@dataclass(kw_only=True, eq=False, repr=False)
class TVGS(BaseRecoverer):
    """``min 1/2 |J*X - Y|^2 + alpha/2 tr((X D)^T L (X D))``: batch time-varying graph recovery.

    Central: it pools the readings. ``X D`` are the changes in time and ``L`` the Laplacian of a
    nearest-neighbour graph with weights ``exp(-d^2 / sigma^2)`` on the coordinates as they stand.
    Each sensor's mean is taken out first, which changes nothing where the readings determine the
    answer; at a slot that no sensor of a connected part of the graph observed they do not, and
    the part's mean deviation there is taken to be zero.

    Without coordinates every sensor is linked to every other with the same weight.

    Parameters
    ----------
    alpha : weight of smoothness; it has no unit
    n_neighbors : neighbours that a sensor lists
    tolerance : of the solver, relative to the readings

    Examples
    --------
    >>> X = np.array([[0.0, 5.0], [1.0, np.nan], [0.0, 5.0]])
    >>> round(float(TVGS(alpha=1.0).fit_transform(X)[1, 1]), 3)
    6.0
    """

    alpha: Positive = 0.05
    n_neighbors: Count = 10
    tolerance: Share = 1e-06

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        scaling = common_scaling(Y)
        data = Observed.of(scaling.apply(Y), ~np.isnan(Y))
        W = gaussian_weights(sensors.coordinates, self.n_neighbors, size=len(Y))
        X = recover_smooth(
            data.Y, data.J, self._smoothness(laplacian(W)), self.alpha, tolerance=self.tolerance
        )
        return scaling.undo(X)

    def _smoothness(self, L: Array) -> Array:
        """The matrix between the changes in the objective."""
        return L


@dataclass(kw_only=True, eq=False, repr=False)
class GraphTRSS(TVGS):
    """``min 1/2 |J*X - Y|^2 + alpha/2 tr((X D)^T (L + eps I)^beta (X D))``.

    Central: it pools the readings. ``eps`` asks every sensor for small changes of its own, so that
    a slot that nobody observed is bridged in time, and the solver needs fewer steps. All else,
    the graph without coordinates included, is as in :class:`TVGS`.

    Parameters
    ----------
    alpha : weight of smoothness; it has no unit
    epsilon : eps
    beta : the power; 1 in all published figures
    n_neighbors : neighbours that a sensor lists
    tolerance : of the solver, relative to the readings

    Examples
    --------
    A sensor alone has no neighbour to move with, and is smooth in time:

    >>> X = np.array([[0.0], [np.nan], [2.0]])
    >>> GraphTRSS(alpha=1e-3, epsilon=0.1).fit_transform(X).ravel().round(3).tolist()
    [0.0, 1.0, 2.0]
    """

    epsilon: NotNegative = 0.5
    beta: Positive = 1.0

    def _smoothness(self, L: Array) -> Array:
        S = L + self.epsilon * np.eye(len(L))
        if self.beta == 1:
            return S
        values, E = np.linalg.eigh(S)
        # Rounding puts the zero eigenvalues of L a little below zero.
        return (E * np.maximum(values, 0.0) ** self.beta) @ E.T
