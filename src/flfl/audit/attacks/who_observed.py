"""Who observed when, from the sums that the guard needs.

Adversary: the coordinator of the default method. It knows the coordinates and hence every sensor's
turned projection ``bt`` (M x k), and sees for each window ``d_c = sum_i s_i^2 bt_ic^2`` with
``s_i = u_i resp_i`` (near 1 where sensor i observed, fading to 0 away from its readings), and how
many readings the window holds.

Assumes: the gaps are *not* public (where they are, there is nothing to infer).

Scored: for each sensor the area under the curve (AUC) of the inferred strength against whether it
observed anything in the window: 0.5 is chance. Beside it stands ``counts``, the AUC of the number
of readings alone: if the whole network pauses, everyone knows that of everyone. And the accuracy of
naming the likeliest windows of each sensor, beside its base rate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def infer_strengths(energy: Array, squares: Array, prior: Array, spread: float = 0.25) -> Array:
    """Posterior mean of ``s_i^2`` in every window (M, n_windows), by ridge towards a prior.

    ``x = x0 + V Q^T (Q V Q^T)^-1 (d - Q x0)`` with ``Q = squares^T``: the smallest change to the
    prior that explains the energies; then cut to 0..1.

    Parameters
    ----------
    energy : (n_windows, k); squares : (M, k) ``bt^2``; prior : (n_windows,) mean strength

    Examples
    --------
    >>> infer_strengths(np.array([[4.0, 0.0]]), np.array([[4.0, 0.0], [0.0, 9.0]]),
    ...                 np.array([0.5])).round(3).tolist()
    [[1.0], [0.0]]
    """
    start = np.broadcast_to(prior, (len(squares), len(energy)))
    gram = spread * squares.T @ squares
    gram += 1e-9 * np.trace(gram) / len(gram) * np.eye(len(gram))
    step = spread * squares @ np.linalg.solve(gram, energy.T - squares.T @ start)
    return np.clip(start + step, 0.0, 1.0)


def auc(values: Array, labels: Mask) -> float:
    """Chance that a labelled value exceeds an unlabelled one, ties half; 0.5 if all are alike.

    Examples
    --------
    >>> auc(np.array([1.0, 2.0, 3.0]), np.array([False, True, True]))
    1.0
    """
    n, positive = len(values), int(labels.sum())
    if positive in (0, n):
        return 0.5
    ranks = rankdata(values)[labels].sum()
    return float((ranks - positive * (positive + 1) / 2) / (positive * (n - positive)))


def accuracy(values: Array, labels: Mask) -> float:
    """Share of windows named rightly if as many as there are (a known number) are named, highest
    values first.

    Examples
    --------
    >>> accuracy(np.array([0.9, 0.1, 0.8]), np.array([True, False, False])).__round__(3)
    1.0
    """
    named = np.zeros(len(labels), dtype=bool)
    named[np.argsort(-values, kind="stable")[: int(labels.sum())]] = True
    return float((named == labels).mean())


def score(energy: Array, squares: Array, counts: Array, observed: Mask) -> dict[str, Array]:
    """AUC and accuracy of each sensor (M,), beside counts alone and the base rate.

    Parameters
    ----------
    energy : (n_windows, k); squares : (M, k); counts : (n_windows,) readings in each window
    observed : (M, n_windows) the truth: any reading in the window
    """
    total = squares.sum()
    prior = np.clip(energy.sum(axis=1) / max(float(total), 1e-300), 0.0, 1.0)
    strength = infer_strengths(energy, squares, prior)
    rows = list(zip(strength, observed, strict=True))
    share = observed.mean(axis=1)
    return {
        "auc": np.array([auc(s, o) for s, o in rows]),
        "counts": np.array([auc(counts, o) for o in observed]),
        "accuracy": np.array([accuracy(s, o) for s, o in rows]),
        "base_rate": np.maximum(share, 1 - share),
    }
