"""Residuals by independent component analysis of the release.

Adversary: somebody who sees the sums alone and knows nothing of the sensors. Residuals are heavy-
tailed and nearly independent, so where there are nearly as many numbers as sensors the mixture can
be undone. The audit gives every sensor the component that fits it best; knowing a handful of its
readings is enough to find it.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from flfl.audit.attack import Array, Case, Guess, read

MOST = 40
"""Components that are looked for at the most."""


def run(case: Case, copies: bool) -> Guess:
    """The best component for each sensor."""
    heard = case.copies if copies else case.release
    found = components(heard.leading(MOST), case.seed)
    e, known = case.wanted.residual, heard.known
    value = np.zeros(known.shape)
    best = np.full(len(known), -1.0)
    for column in found.T:
        for sign in (1.0, -1.0):
            guess = np.broadcast_to(sign * column, known.shape)
            fits = np.nan_to_num(read(e, guess, known))
            value[fits > best] = sign * column
            best = np.maximum(best, fits)
    return Guess(value, case.picture(heard)[1])


def components(X: Array, seed: int = 0) -> Array:
    """Independent components (N, n) of whitened columns, those of changes in time.

    Changes are less Gaussian than the course of things, and easier to tell apart.
    """
    if X.shape[1] < 2:
        return X
    changes = np.diff(X, axis=0, prepend=X[:1])
    method = FastICA(whiten="unit-variance", max_iter=300, tol=1e-4, random_state=seed)
    with warnings.catch_warnings():
        # Components that have not settled are scored as they are.
        warnings.simplefilter("ignore", ConvergenceWarning)
        method.fit(changes)
    return np.asarray((X - X.mean(axis=0)) @ method.components_.T)
