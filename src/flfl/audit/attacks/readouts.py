"""Time-constant read-outs: a linear map from the sums to a sensor's news.

The adversary is assumed to know the news of half of the slots, fits the map there and is scored
on the other half: the limit of any linear read-out that is constant in time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flfl.audit.attack import Attack, Case, Finding
from flfl.audit.view import View, known_part

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

RIDGES = (0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)


def features(g: Sequence[Array], view: View, lags: int) -> Array:
    """Sums of the given rounds with ``-lags..lags`` windows of context, at every slot (N, f)."""
    columns = []
    for one in g:
        padded = np.pad(one, ((lags, lags), (0, 0)))
        columns += [padded[lag : lag + len(one)] for lag in range(2 * lags + 1)]
    return view.windows.per_slot(np.hstack(columns))


def distinct_rounds(view: View) -> list[Array]:
    """The sums of the rounds about the final news; one of several that say the same."""
    kept: list[Array] = []
    for one in reversed(view.rounds):
        z = known_part(view, one)
        if all(np.linalg.norm(z - other) > 1e-3 * np.linalg.norm(other) for other in kept):
            kept.insert(0, z)
    return kept


def variants(view: View) -> dict[str, Array]:
    """What the read-outs look at, by name: (N, f) each."""
    g = [one.g for one in view.rounds]
    some = [g[n] for n in sorted({0, min(2, len(g) - 1), len(g) - 1})]
    both = features(some, view, 1)
    return {
        "last": features(g[-1:], view, 0),
        "1,3,last": features(some, view, 0),
        "lags": features(g[-1:], view, 1),
        "both": both,
        # m is published, and a sensor's own news moves it.
        "both, m": np.hstack([both, view.m]),
        "all rounds": features(distinct_rounds(view), view, 0),
    }


def read_out(
    X: Array, targets: Array, J: Array, rng: np.random.Generator, splits: int = 5
) -> tuple[Array, Array]:
    """R^2 of each sensor and target (M, n_targets), mean over half-splits; guesses of the first
    target (M, N), each from a half that it was not in, NaN where there is none.

    Parameters
    ----------
    X : (N, f) features
    targets : (n_targets, M, N)
    J : (M, N) where there are readings
    """
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    scores = np.empty((splits, targets.shape[1], len(targets)))
    guesses = np.full(J.shape, np.nan)
    for split in range(splits):
        half = rng.random(len(X)) < 0.5
        inner = rng.random(len(X)) < 0.7
        for i, known in enumerate(J > 0):
            y = targets[:, i].T
            parts = known & half & inner, known & half & ~inner, known & ~half
            scores[split, i], guess = _one(X, y, *parts)
            guesses[i, parts[2]] = guess[:, 0]
    return np.asarray(scores.mean(axis=0)), guesses


def _one(X: Array, y: Array, fit: Mask, check: Mask, test: Mask) -> tuple[Array, Array]:
    """R^2 (n_targets,) and guesses on ``test``; ``check`` chooses the ridge, then both fit."""
    if min(fit.sum(), check.sum(), test.sum()) < 5:
        return np.zeros(y.shape[1]), np.zeros((int(test.sum()), y.shape[1]))
    gram, cross = _moments(X, y, fit)
    trial = np.stack([_solve(gram, cross, ridge) for ridge in RIDGES])  # (ridges, f + 1, targets)
    miss = ((y[check] - _guess(X[check], trial)) ** 2).sum(axis=1)
    best = np.asarray(RIDGES)[miss.argmin(axis=0)]
    more, more_cross = _moments(X, y, check)
    gram, cross = gram + more, cross + more_cross
    final = np.stack(
        [_solve(gram, cross[:, [j]], ridge)[:, 0] for j, ridge in enumerate(best)], axis=1
    )
    guess = _guess(X[test], final[None])[0]
    return r_squared(y[test], guess), guess


def _moments(X: Array, y: Array, rows: Mask) -> tuple[Array, Array]:
    Z = np.hstack([np.ones((int(rows.sum()), 1)), X[rows]])
    return Z.T @ Z, Z.T @ y[rows]


def _solve(gram: Array, cross: Array, ridge: float) -> Array:
    penalty = np.full(len(gram), ridge)
    penalty[0] = 1e-9  # the mean is free
    return np.asarray(np.linalg.solve(gram + np.diag(penalty), cross))


def _guess(X: Array, coefficients: Array) -> Array:
    return coefficients[:, None, 0] + X @ coefficients[:, 1:]


def r_squared(truth: Array, guess: Array) -> Array:
    """``1 - SSE / SST`` of each column.

    Examples
    --------
    >>> r_squared(np.array([[1.0], [-1.0]]), np.array([[1.0], [-1.0]])).tolist()
    [1.0]
    """
    total = ((truth - truth.mean(axis=0)) ** 2).sum(axis=0)
    return np.asarray(1 - ((truth - guess) ** 2).sum(axis=0) / np.maximum(total, 1e-12))


def _run(case: Case, attack: Attack) -> list[Finding]:
    view, rng = case.view, case.rng(attack.name)
    targets = view.news[None]
    found = [read_out(X, targets, view.J, rng, case.effort.splits) for X in variants(view).values()]
    scores = np.stack([one[0][:, 0] for one in found])
    best = scores.argmax(axis=0)
    guess = np.stack([one[1] for one in found])[best, np.arange(len(best))]
    return [
        attack.read(view, guess, np.isfinite(guess), scores=scores.max(axis=0), sentence=SENTENCE)
    ]


SENTENCE = (
    "The best linear read-out that could be fitted with half of the readings in hand reads"
    " {max:.0%} of the worst sensor's news, {median:.0%} of the median one's."
)
ATTACK = Attack(
    "readouts",
    "the coordinator",
    "half of a sensor's readings: the other half is read by the best linear map from the sums of"
    " one and several rounds, with lags and m",
    _run,
)
