"""``cdrec``: the centroid decomposition of ImputeGAP, all data in one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flfl.config import Count
from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.paper.scaling import Scaling


@dataclass(kw_only=True, eq=False, repr=False)
class CDRec(BaseRecoverer):
    """Low rank by the centroid decomposition, gaps filled in with it until they rest.

    Central: it pools the readings. The start is interpolation, so it knows time only by that.

    Parameters
    ----------
    rank : at most one less than there are sensors
    iterations : at most
    """

    rank: Count = 3
    iterations: Count = 100

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        from imputegap.algorithms.cdrec import cdrec

        if len(Y) == 1:
            return np.repeat(np.nanmean(Y, axis=1, keepdims=True), Y.shape[1], axis=1)
        scaling = Scaling.fit(Y)
        filled = cdrec(
            scaling.apply(Y),
            truncation_rank=min(self.rank, len(Y) - 1),
            iterations=self.iterations,
            epsilon=1e-6,
            logs=False,
            verbose=False,
        )
        return scaling.undo(np.asarray(filled, dtype=float))
