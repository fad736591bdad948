"""``dynamic-factor``: the dynamic factor model of statsmodels, all data in one place."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from statsmodels.tsa.statespace.dynamic_factor_mq import DynamicFactorMQ

from flfl.config import Count
from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.paper.scaling import Scaling

_FEWEST_SLOTS = 4


@dataclass(kw_only=True, eq=False, repr=False)
class DynamicFactor(BaseRecoverer):
    """``y_t = P f_t + e_t``, ``f_t`` a vector autoregression, each ``e_i`` an AR(1), learned by EM.

    Central: it pools the readings. A Python loop of statsmodels' compiled filter with one state a
    sensor beside the factors: about ``n_slots * n_sensors ** 2`` and more for every EM step.

    Parameters
    ----------
    factors : at most one less than there are sensors
    iterations : EM steps, at most

    Examples
    --------
    >>> t = np.arange(150.0)
    >>> X = np.column_stack([np.sin(t / 4), np.cos(t / 4), np.sin(t / 4) + np.cos(t / 4)])
    >>> truth, X[50:60, 2] = X[50:60, 2].copy(), np.nan
    >>> bool(np.abs(DynamicFactor(factors=2).fit_transform(X)[50:60, 2] - truth).max() < 0.1)
    True
    """

    factors: Count = 4
    iterations: Count = 30

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        scaling = Scaling.fit(Y)
        Z = scaling.apply(Y)
        # What never changes has no dynamics: its mean, and nothing to tell the others.
        moving = np.nanmax(Z, axis=1) > np.nanmin(Z, axis=1)
        estimates = np.zeros_like(Z)
        if moving.sum() > 1 and Y.shape[1] > _FEWEST_SLOTS:
            estimates[moving] = self._smoothed(Z[moving])
        return scaling.undo(estimates)

    def _smoothed(self, Z: Array) -> Array:
        with warnings.catch_warnings():
            # It tells of every EM that has not arrived, and of an index without dates.
            warnings.simplefilter("ignore")
            model = DynamicFactorMQ(
                Z.T,
                factors=1,
                factor_multiplicities=min(self.factors, len(Z) - 1),
                standardize=False,
            )
            fitted = model.fit_em(maxiter=self.iterations, disp=False)
            smoothed = fitted.get_prediction(information_set="smoothed").predicted_mean
        return np.asarray(smoothed, dtype=float).reshape(Z.T.shape).T
