"""A known sample: half of a sensor's residuals are in the adversary's hands, it reads the rest.

Adversary: a coordinator that has part of a sensor's readings. It regresses them on the leading
components of the release and on the Gaussian reading of the sensor, at the slot and four slots to
either side. Each half is read with what was learned on the other.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import RidgeCV

from flfl import constants
from flfl.audit.attacks import Guess, received
from flfl.audit.attacks.gaussian import by_slot
from flfl.audit.view import Array, Case

LAGS = 4
COMPONENTS = 12
_FEWEST = 40


def run(case: Case, copies: bool) -> Guess:
    """Ridge regression, half on half."""
    heard, solved = received(case, copies), by_slot(case, copies)
    common = lagged(heard.leading(COMPONENTS))
    value = np.full(heard.known.shape, np.nan)
    rng = np.random.default_rng(case.seed)
    for i, known in enumerate(heard.known):
        own = lagged(solved.value[i][:, None] / max(float(solved.value[i].std()), 1e-12))
        X, e, at = np.hstack([common, own]), case.wanted.residual[i], np.flatnonzero(known)
        if len(at) >= _FEWEST:
            first = rng.random(len(at)) < 0.5
            for learn, test in ((at[first], at[~first]), (at[~first], at[first])):
                fitted = RidgeCV(constants.AUDIT_RIDGES).fit(X[learn], e[learn])
                value[i, test] = fitted.predict(X[test])
    return Guess(value, solved.base)


def lagged(X: Array) -> Array:
    """Columns at the slot and at four slots to either side, zero beyond the ends."""
    padded = np.pad(X, ((LAGS, LAGS), (0, 0)))
    return np.hstack([padded[start : start + len(X)] for start in range(2 * LAGS + 1)])
