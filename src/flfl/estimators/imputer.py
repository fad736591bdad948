"""Any transformer that fills gaps, such as scikit-learn's imputers, under the common contract."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from flfl.errors import InputError
from flfl.estimators.base import BaseRecoverer
from flfl.io.sensors import Sensors

Array = NDArray[np.float64]


class Imputer(BaseRecoverer):
    """A transformer of time x sensor tables with NaN: it is fitted on the table, and fills it.

    Parameters
    ----------
    imputer : transformer
        It is cloned, never fitted itself.
    """

    def __init__(self, imputer: Any = None) -> None:
        self.imputer = imputer

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        filled = np.asarray(clone(self.imputer, safe=False).fit(Y.T).transform(Y.T), dtype=float)
        if filled.shape != Y.T.shape:
            problem = f"the method made a table of {filled.shape} from one of {Y.T.shape}"
            raise InputError(problem, where="method", remedy="It must keep rows and columns")
        return filled.T
