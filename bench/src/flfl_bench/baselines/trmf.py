"""``trmf``: factors in time that predict themselves, all data in one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flfl.config import Count, Positive
from flfl.estimators.base import Array, BaseRecoverer
from flfl.estimators.interpolation import interpolate
from flfl.io.sensors import Sensors
from flfl.paper.objective import Observed
from flfl.paper.scaling import Scaling
from flfl_bench.maths.autoregression import Autoregression
from flfl_bench.maths.linear_solve import conjugate_gradients
from flfl_bench.maths.low_rank import ridge_rows

_INNER = 20
"""Conjugate gradient steps for the time factors in each sweep."""


@dataclass(kw_only=True, eq=False, repr=False)
class TRMF(BaseRecoverer):
    """Temporal regularised matrix factorisation, on standardised readings.

    ``min 1/2 sum_known (y_it - w_i.x_t)^2 + ridge/2 |W|^2 + temporal/2 (sum_t |x_t - sum_l
    theta_l * x_{t-l}|^2 + eta |X|^2) + ridge/2 |Theta|^2``, an autoregression of its own for each
    latent dimension.

    Central: it pools the readings. Lags are 1, 2 and the season that the time grid suggests, if
    any. All time factors are solved for together by conjugate gradients, where the published
    solver sweeps over the slots one by one; factors start from the principal directions of the
    interpolated readings.

    Parameters
    ----------
    rank : latent dimensions, or as many as the table can hold
    ridge : lambda_w = lambda_theta
    temporal_weight : lambda_x
    damping : eta
    sweeps : alternations between W, X and Theta

    Examples
    --------
    >>> X = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0])
    >>> X[4, 1] = np.nan
    >>> filled = TRMF(rank=1, ridge=1e-3, temporal_weight=0.1).fit_transform(X)[4, 1]  # hid 10
    >>> bool(abs(filled - 10) < 0.5)
    True
    """

    rank: Count = 10
    ridge: Positive = 1.0
    temporal_weight: Positive = 1.0
    damping: Positive = 0.03
    sweeps: Count = 10

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        scaling = Scaling.fit(Y)
        scaled = scaling.apply(Y)
        data = Observed.of(scaled, ~np.isnan(Y))
        rank = min(self.rank, *Y.shape)
        lags = tuple(lag for lag in sorted({1, 2, self.period_}) if 0 < lag < Y.shape[1])
        # Columns of W: the directions in which interpolated readings vary most.
        guess = interpolate(scaled, positions)
        W = np.linalg.eigh(guess @ guess.T)[1][:, -rank:]
        X = guess.T @ W
        for _ in range(self.sweeps):
            past = Autoregression.fit(X, lags, self.ridge / self.temporal_weight)
            W, X = self._balance(W, X, past)
            X = self._time_factors(data, W, past, X)
            W = ridge_rows(data.Y, data.J, X, self.ridge)
        return scaling.undo(W @ X.T)

    def _balance(self, W: Array, X: Array, past: Autoregression) -> tuple[Array, Array]:
        """``W c, X / c`` of least penalty, a ``c`` for each dimension: the product stays.

        Alternation alone moves between the two scales so slowly that it never gets there.
        """
        smooth = (past.residual(X) ** 2).sum(axis=0) + self.damping * (X**2).sum(axis=0)
        heavy = self.ridge * (W**2).sum(axis=0)
        # A dimension that has died out has no scale.
        c = (self.temporal_weight * smooth / np.where(heavy > 0, heavy, 1.0)) ** 0.25
        c = np.where((heavy > 0) & (c > 0), c, 1.0)
        return W * c, X / c

    def _time_factors(self, data: Observed, W: Array, past: Autoregression, X: Array) -> Array:
        """All slots together: ``sum_i J_it w_i w_i^T x_t + temporal (B^T B + eta) X = Y^T W``."""
        J_T = np.ascontiguousarray(data.J.T)

        def apply(X: Array) -> Array:
            smooth = past.residual_adjoint(past.residual(X)) + self.damping * X
            return (J_T * (X @ W.T)) @ W + self.temporal_weight * smooth

        return conjugate_gradients(apply, data.Y.T @ W, start=X, tolerance=1e-4, steps=_INNER)
