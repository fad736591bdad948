"""``iterative`` and ``knn``: scikit-learn's imputers, on slots as rows."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401, it unlocks the next line
from sklearn.impute import IterativeImputer, KNNImputer

from flfl.config import Count, Whole
from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.paper.scaling import Scaling


def with_lags(Z: Array, lags: int) -> Array:
    """Sensors (M, N) as rows of slots (N, M (1 + 2 lags)): now, then before and after.

    Examples
    --------
    >>> with_lags(np.array([[1.0, 2.0, 3.0]]), 1)
    array([[ 1., nan,  2.],
           [ 2.,  1.,  3.],
           [ 3.,  2., nan]])
    """
    blocks = [Z]
    for lag in range(1, lags + 1):
        gap = np.full((len(Z), min(lag, Z.shape[1])), np.nan)
        blocks += [np.hstack([gap, Z[:, :-lag]]), np.hstack([Z[:, lag:], gap])]
    return np.vstack(blocks).T


@dataclass(kw_only=True, eq=False, repr=False)
class _Slots(BaseRecoverer):
    """An imputer of scikit-learn whose rows are slots and whose columns are standardised sensors.

    Central: it pools the readings. It knows no time but what ``lags`` put beside a slot.
    """

    lags: Whole = 0

    @abstractmethod
    def _imputer(self) -> Any:
        """The imputer to fit."""

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        scaling = Scaling.fit(Y)
        X = with_lags(scaling.apply(Y), min(self.lags, Y.shape[1] - 1))
        # A shifted column may have lost the only readings that it had.
        told = ~np.isnan(X).all(axis=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            filled = self._imputer().fit_transform(X[:, told])
        return scaling.undo(np.asarray(filled)[:, : len(Y)].T)


@dataclass(kw_only=True, eq=False, repr=False)
class Iterative(_Slots):
    """Each sensor regressed on the others in turn (Bayesian ridge), again and again.

    Parameters
    ----------
    lags : slots before and after that are columns too
    iterations : at most

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=200)
    >>> X = np.column_stack([a, 2 * a + 1, 3 - a])
    >>> truth, X[:20, 1] = X[:20, 1].copy(), np.nan
    >>> bool(np.abs(Iterative().fit_transform(X)[:20, 1] - truth).max() < 0.01)
    True
    """

    iterations: Count = 10

    def _imputer(self) -> IterativeImputer:
        return IterativeImputer(max_iter=self.iterations, random_state=0)


@dataclass(kw_only=True, eq=False, repr=False)
class KNN(_Slots):
    """The mean of a sensor's readings in the slots that look most alike.

    Parameters
    ----------
    neighbours : slots
    lags : slots before and after by which slots are compared too

    Examples
    --------
    >>> X = np.array([[1.0, 10.0], [1.1, np.nan], [9.0, 50.0]])
    >>> float(KNN(neighbours=1).fit_transform(X)[1, 1])
    10.0
    """

    neighbours: Count = 5

    def _imputer(self) -> KNNImputer:
        return KNNImputer(n_neighbors=self.neighbours, weights="distance")
