"""``lfa``: plain latent factor analysis by alternating least squares, all data in one place."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.paper.objective import Observed
from flfl.paper.scaling import Scaling
from flfl_bench.baselines._parameters import COUNT, POSITIVE, WHOLE
from flfl_bench.maths.low_rank import ridge_rows


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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "rank": [COUNT],
        "ridge": [POSITIVE],
        "sweeps": [COUNT],
        "random_state": [WHOLE],
    }

    def __init__(
        self,
        *,
        rank: int = 10,
        ridge: float = 3.0,
        sweeps: int = 15,
        random_state: int = 0,
    ) -> None:
        self.rank = rank
        self.ridge = ridge
        self.sweeps = sweeps
        self.random_state = random_state

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        self._validate_params()
        scaling = Scaling.fit(Y)
        Z, known = scaling.apply(Y), ~np.isnan(Y)
        data, rank = Observed.of(Z, known), min(self.rank, *Y.shape)
        Q: Array = np.random.default_rng(self.random_state).standard_normal((Y.shape[1], rank))
        for _ in range(self.sweeps):
            P = ridge_rows(data.Y, data.J, Q, self.ridge)
            Q = ridge_rows(data.Y.T, data.J.T, P, self.ridge)
        return scaling.undo(P @ Q.T)
