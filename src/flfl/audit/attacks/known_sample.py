"""A known sample: some readings of a sensor are in the adversary's hands, it reads the rest.

A published sample or an instrument next door gives 300 readings of a sensor. The adversary fits
a read-out of that sensor's news from everything the coordinator saw, at the slots it knows:

* linear: ridge regression on the sums of all rounds (with lags), m, and what the masks-known
  solver makes of them
* non-linear: kernel ridge regression with a Gaussian kernel on the few leading components of
  the same

Ridge and kernel width are chosen by cross-validation inside the sample.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from flfl.audit.attack import Attack, Case, Finding
from flfl.audit.attacks import masks_known
from flfl.audit.attacks.readouts import distinct_rounds, features
from flfl.audit.view import View

Array = NDArray[np.float64]
Index = NDArray[np.int64]

RIDGES = tuple(10.0 ** np.arange(-6, 3.5, 0.5))
WIDTHS = (0.7, 2.0)
FOLDS = 3
FEW = 8
"""Leading components that the non-linear read-out looks at."""


def seen(view: View) -> Array:
    """All the coordinator saw at each slot (N, f): sums of all rounds, lags of the last, m.

    The known part of each round is taken out, so that what differs between rounds is how they
    mix the same news. Directions count by the root of their size: rounds are nearly alike, and
    the small differences between them are what tells sensors apart.
    """
    g = distinct_rounds(view)
    X = np.hstack([features(g, view, 0), features(g[-1:], view, 1), view.m])
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    U, S, _ = np.linalg.svd(X, full_matrices=False)
    keep = 1e-7 * S[0] < S
    return np.asarray(U[:, keep] * np.sqrt(S[keep] / S[0] * len(X)))


def linear(X: Array, y: Array, known: Index) -> Array:
    """Ridge regression fitted at ``known``: a guess at every slot (N,).

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> guess = linear(X, X @ [1.0, 2.0, 0.0], np.arange(50))
    >>> bool(np.abs(guess - X @ [1.0, 2.0, 0.0]).max() < 0.01)
    True
    """
    X = X - X[known].mean(axis=0)
    sample = X[known]
    return _guess(sample @ sample.T, X @ sample.T, y[known])


def non_linear(X: Array, y: Array, known: Index) -> Array:
    """Kernel ridge regression with ``exp(-d^2 / 2 w^2)``, fitted at ``known`` (N,).

    Examples
    --------
    >>> x = np.random.default_rng(0).uniform(-2, 2, (300, 1))
    >>> guess = non_linear(x, np.abs(x[:, 0]), np.arange(100))
    >>> bool(np.abs(guess - np.abs(x[:, 0])).mean() < 0.1)
    True
    """
    inner = cdist(X[known], X[known], "sqeuclidean")
    units = [2 * width**2 * X.shape[1] for width in WIDTHS]
    found = [(*_choose(np.exp(-inner / unit), y[known]), unit) for unit in units]
    _, ridge, unit = min(found)
    across = np.exp(-cdist(X, X[known], "sqeuclidean") / unit)
    return _guess(np.exp(-inner / unit), across, y[known], ridge)


def _guess(gram: Array, across: Array, y: Array, ridge: float | None = None) -> Array:
    """Fit with the given or the chosen ridge and guess everywhere."""
    ridge = _choose(gram, y)[1] if ridge is None else ridge
    mean = y.mean()
    weights = np.linalg.solve(gram + ridge * np.eye(len(y)), y - mean)
    return np.asarray(mean + across @ weights)


def _choose(gram: Array, y: Array) -> tuple[float, float]:
    """Cross-validated error and ridge (as a multiple of the mean diagonal)."""
    n = len(y)
    fold = np.arange(n) % FOLDS
    level = np.trace(gram) / n
    errors = np.zeros(len(RIDGES))
    for number in range(FOLDS):
        fit, check = fold != number, fold == number
        mean = y[fit].mean()
        values, vectors = np.linalg.eigh(gram[np.ix_(fit, fit)])
        turned = vectors.T @ (y[fit] - mean)
        reach = gram[np.ix_(check, fit)] @ vectors
        shrunk = turned[:, None] / (np.maximum(values, 0)[:, None] + level * np.array(RIDGES))
        errors += ((y[check, None] - mean - reach @ shrunk) ** 2).sum(axis=0)
    return float(errors.min()), level * RIDGES[int(errors.argmin())]


def read(
    view: View, n_known: int, rng: np.random.Generator, solved: Array | None = None
) -> dict[str, Array]:
    """Guessed news (M, N) of each way, NaN at the known readings and where there is none.

    ``solved`` is the masks-known solver's guess, the sharpest thing to look at where it is given.
    """
    X, guess = seen(view), np.full(view.J.shape, np.nan)
    leading = X[:, :FEW] / np.maximum(X[:, :FEW].std(axis=0), 1e-12)
    out = {"linear": guess, "non-linear": guess.copy()}
    for i, row in enumerate(view.J > 0):
        slots = np.flatnonzero(row)
        if len(slots) < 2 * FOLDS + 20:
            continue
        known = rng.choice(slots, min(n_known, len(slots) // 2), replace=False)
        own = np.zeros((len(X), 0)) if solved is None else _own(solved[i])
        at = np.setdiff1d(slots, known)
        for name, way, base in (("linear", linear, X), ("non-linear", non_linear, leading)):
            # A linear read-out of f features weighs the one sharp column among many.
            boost = np.sqrt(base.shape[1]) if name == "linear" else 1.0
            out[name][i, at] = way(np.hstack([base, boost * own]), view.news[i], known)[at]
    return out


def _own(solved: Array) -> Array:
    column = np.nan_to_num(solved)[:, None]
    return np.asarray(column / max(float(column.std()), 1e-12))


def _run(case: Case, attack: Attack) -> list[Finding]:
    view = case.view
    solved = masks_known.everywhere(view)
    found = read(view, case.effort.known, case.rng(attack.name), solved)
    return [
        attack.read(view, guess, np.isfinite(guess), name, sentence=SENTENCE)
        for name, guess in found.items()
    ]


SENTENCE = (
    "With 300 readings of a sensor in hand, it reads {max:.0%} of what else is new at the worst"
    " sensor, {median:.0%} at the median one."
)
ATTACK = Attack(
    "known-sample",
    "the coordinator",
    "300 readings of a sensor, and everything that masks-known does",
    _run,
)
