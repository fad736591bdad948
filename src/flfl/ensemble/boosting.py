"""Trees that correct a base estimate, pooled over the sensors of a site.

Every feature of an entry is made *without that entry itself*, so the trees learn on known entries
what they will meet in the gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor

from flfl.ensemble.interpolators import Neighbours

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]
Table = NDArray[np.float32]

TREES, LEAVES, RATE = 80, 15, 0.12
LEAST_IN_LEAF = 40
FAR = 100.0
"""Slots beyond which a neighbour is just far."""


@dataclass(frozen=True)
class Evidence:
    """All that is known about every entry without that entry itself, (M, N) unless said otherwise.

    Attributes
    ----------
    base : the estimate to correct
    candidates : (C, M, N) other estimates in the same units
    near : the neighbouring readings
    deviations : (D, M, N) standard deviations of candidates
    slopes : (2, M, N) how the shared curve rises to the slot and from it
    phase : (N,) hour or month
    near_curve : (2 * depth, M, N) the shared curve plus the neighbours' residuals, minus the base
    """

    base: Array
    candidates: Array
    near: Neighbours
    deviations: Array
    slopes: Array
    phase: Index
    near_curve: Array


def features(evidence: Evidence, rows: Index, slots: Index) -> Table:
    """Feature table of the entries (rows, slots), all relative to the base: trees see differences.

    Columns: candidates - base, neighbouring readings - base (NaN where absent), their distances,
    log deviations, the shared curve's slopes before and after, base, phase, sensor, near_curve.

    Examples
    --------
    >>> from flfl.ensemble.interpolators import neighbours
    >>> Y, J = np.arange(6.0)[None], np.ones((1, 6), bool)
    >>> near = neighbours(Y, J, 1)
    >>> rise = np.ones((2, 1, 6))
    >>> e = Evidence(Y, Y[None] + 1, near, Y[None] + 1, rise, np.arange(6), np.zeros((0, 1, 6)))
    >>> features(e, np.array([0]), np.array([2])).round(2)
    array([[ 1. , -1. ,  1. ,  1. ,  1. ,  1.1,  1. ,  1. ,  2. ,  2. ,  0. ]],
          dtype=float32)
    """
    at = (slice(None), rows, slots)
    base = evidence.base[rows, slots]
    distance = evidence.near.distance[at]
    table = np.concatenate(
        [
            evidence.candidates[at] - base,
            np.where(np.isfinite(distance), evidence.near.value[at] - base, np.nan),
            np.minimum(distance, FAR),
            np.log(np.maximum(evidence.deviations[at], 1e-6)),
            evidence.slopes[at],
            [base, evidence.phase[slots], rows],
            evidence.near_curve[at],
        ]
    )
    return table.T.astype(np.float32, order="C")


def training_rows(J: Mask, rng: np.random.Generator, most: int) -> tuple[Index, Index]:
    """At most ``most`` known entries, drawn without replacement: their rows and slots.

    Examples
    --------
    >>> rows, slots = training_rows(np.array([[True, False, True]]), np.random.default_rng(0), 1)
    >>> len(rows), bool(slots[0] != 1)
    (1, True)
    """
    flat = np.flatnonzero(J)
    if len(flat) > most:
        flat = np.sort(rng.choice(flat, most, replace=False))
    rows, slots = np.unravel_index(flat, J.shape)
    return rows, slots


def fit_boosted(X: Table, target: Array) -> HistGradientBoostingRegressor:
    """Trees for ``target = y - base``.

    Absolute error: its minimiser is the median, which a monotone back-transform keeps.

    Examples
    --------
    >>> X = np.linspace(0, 1, 400, dtype=np.float32)[:, None]
    >>> model = fit_boosted(X, (X[:, 0] > 0.5) * 1.0)
    >>> model.predict(X[[0, -1]]).round(1) + 0.0
    array([0., 1.])
    """
    # Large: a site loads it when a run comes to its trees, and only then.
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        loss="absolute_error",
        max_iter=TREES,
        max_leaf_nodes=LEAVES,
        learning_rate=RATE,
        min_samples_leaf=min(LEAST_IN_LEAF, max(len(X) // 20, 1)),
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
    )
    # a neighbour that no training row has: the trees take a constant, but not a column of NaN
    nothing = np.isnan(X).all(axis=0)
    return model.fit(np.where(nothing, np.float32(0.0), X), target)
