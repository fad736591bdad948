"""``graphtrss``: as ``tvgs``, with Sobolev smoothness of the changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flfl.config import NotNegative, Positive
from flfl.estimators.base import Array
from flfl_bench.baselines.tvgs import TVGS


@dataclass(kw_only=True, eq=False, repr=False)
class GraphTRSS(TVGS):
    """``min 1/2 |J*X - Y|^2 + alpha/2 tr((X D)^T (L + eps I)^beta (X D))``.

    Central: it pools the readings. ``eps`` asks every sensor for small changes of its own, so that
    a slot that nobody observed is bridged in time, and the solver needs fewer steps. All else,
    the graph without coordinates included, is as in :class:`~flfl_bench.baselines.tvgs.TVGS`.

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
