"""``lfa``: plain latent factor analysis by alternating least squares, all data in one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flfl.config import Count, Positive, Whole
from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.paper.objective import Observed
from flfl.paper.scaling import Scaling
from flfl_bench.maths.low_rank import ridge_rows


@dataclass(kw_only=True, eq=False, repr=False)
class LFA(BaseRecoverer):
    """``min sum_known (y_ij - p_i.q_j)^2 + lambda (|P|^2 + |Q|^2)`` on standardised readings.

    Central: it pools the readings.

    Parameters
    ----------
    rank : latent factors, or as many as the table can hold
    ridge : lambda
    sweeps : alternations
    random_state : seed

    Examples
    --------
    >>> X = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0])
    >>> X[4, 1] = np.nan
    >>> filled = LFA(rank=1, ridge=1e-6).fit_transform(X)[4, 1]  # 10 was hidden
    >>> bool(abs(filled - 10) < 0.5)
    True
    """

    rank: Count = 10
    ridge: Positive = 3.0
    sweeps: Count = 15
    random_state: Whole = 0

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        scaling = Scaling.fit(Y)
        Z, known = scaling.apply(Y), ~np.isnan(Y)
        data, rank = Observed.of(Z, known), min(self.rank, *Y.shape)
        Q: Array = np.random.default_rng(self.random_state).standard_normal((Y.shape[1], rank))
        for _ in range(self.sweeps):
            P = ridge_rows(data.Y, data.J, Q, self.ridge)
            Q = ridge_rows(data.Y.T, data.J.T, P, self.ridge)
        return scaling.undo(P @ Q.T)
