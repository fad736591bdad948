"""Residuals by independent component analysis of the release.

Adversary: somebody who sees the sums alone. Residuals are heavy-tailed and nearly independent, so
nearly as many numbers as sensors let the mixture be undone. Each sensor gets the component that
fits it best; a handful of its readings would be enough to find it.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from flfl.audit.attacks import Guess, received
from flfl.audit.report import read
from flfl.audit.view import Array, Case

MOST = 40
"""Components that are looked for at the most."""


def run(case: Case, copies: bool) -> Guess:
    """The best component for each sensor."""
    heard = received(case, copies)
    found = components(heard.leading(MOST), case.seed)
    e, known = case.wanted.residual, heard.known
    value, best = np.zeros(known.shape), np.full(len(known), -1.0)
    for column in np.hstack([found, -found]).T:
        fits = np.nan_to_num(read(e, np.broadcast_to(column, known.shape), known))
        value[fits > best] = column
        best = np.maximum(best, fits)
    return Guess(value, heard.P @ heard.factors().T)


def components(X: Array, seed: int = 0) -> Array:
    """Independent components (N, n) of whitened columns, found from their changes in time, which
    are less Gaussian."""
    if X.shape[1] < 2:
        return X
    changes = np.diff(X, axis=0, prepend=X[:1])
    method = FastICA(whiten="unit-variance", max_iter=300, tol=1e-4, random_state=seed)
    with warnings.catch_warnings():
        # Components that have not settled are scored as they are.
        warnings.simplefilter("ignore", ConvergenceWarning)
        method.fit(changes)
    return np.asarray((X - X.mean(axis=0)) @ method.components_.T)
