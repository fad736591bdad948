"""Was this sensor's series part of the fit? Membership inference on the released factors.

Adversary: anyone who sees the published ``m`` (N x k) and holds a candidate series, for instance
from an archive.

Assumes: the candidate is known at enough slots, on the run's time grid.

Scored: AUC of telling members from non-members by how well m fits the candidate; 0.5 is chance.
Two statistics: the share of the series that a ridge regression on m leaves unexplained, and the
same for its changes from slot to slot, where a member's own news shows most. To be fair, score each
sensor once as a member and once as a non-member (two runs that leave out one half each): sensors
differ in how well any network explains them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flfl.audit.attacks.who_observed import auc

Array = NDArray[np.float64]


def unexplained(series: Array, m: Array, ridge: float = 1.0) -> Array:
    """Share of each series' variance that a regression on m leaves (M,), in leave-one-out errors.

    ``e_t / (1 - h_t)`` with the leverage h of the regression, so that many factors do not
    flatter.

    Parameters
    ----------
    series : (M, N), NaN = unknown; m : (N, k)

    Examples
    --------
    >>> t = np.arange(50.0)
    >>> m = np.sin(t)[:, None]
    >>> unexplained(np.vstack([2 * m.T, np.cos(t)[None]]), m, 1e-9).round(1).tolist()
    [0.0, 1.1]
    """
    out = np.ones(len(series))
    for i, row in enumerate(series):
        on = ~np.isnan(row)
        if on.sum() < 3:
            continue
        y = row[on] - row[on].mean()
        X = m[on] - m[on].mean(axis=0)
        inverse = np.linalg.inv(X.T @ X + ridge * np.eye(X.shape[1]))
        leverage = np.einsum("tk,kl,tl->t", X, inverse, X, optimize=True) + 1 / len(y)
        error = (y - X @ (inverse @ (X.T @ y))) / np.maximum(1 - leverage, 1e-3)
        out[i] = (error @ error) / max(float(y @ y), 1e-300)
    return out


def changes(series: Array) -> Array:
    """Change from each slot to the next (M, N - 1); NaN unless both are known.

    Examples
    --------
    >>> changes(np.array([[1.0, 3.0, np.nan]])).tolist()
    [[2.0, nan]]
    """
    return np.diff(series, axis=1)


def score(members: Array, others: Array, m: Array) -> dict[str, float]:
    """AUC by level and by changes; members and others (any number, N), NaN = unknown."""
    labels = np.arange(len(members) + len(others)) < len(members)
    both = np.vstack([members, others])
    return {
        "level": auc(-unexplained(both, m), labels),
        "changes": auc(-unexplained(changes(both), np.diff(m, axis=0)), labels),
    }


def pooled_score(runs: list[tuple[Array, Array, Array]]) -> dict[str, float]:
    """The same over several runs, each (members, others, m), pooled before the AUC."""
    out = {}
    for name, of, by in (
        ("level", np.asarray, np.asarray),
        ("changes", changes, lambda m: np.diff(m, axis=0)),
    ):
        inside = [-unexplained(of(a), by(m)) for a, _, m in runs]
        outside = [-unexplained(of(b), by(m)) for _, b, m in runs]
        values = np.concatenate(inside + outside)
        out[name] = auc(values, np.arange(len(values)) < sum(map(len, inside)))
    return out
