"""Prediction intervals: hold-out quantiles of the error in units of a local scale.

The quantiles are taken by class of distance to the nearest observation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

LEAST = 150
"""Hold-out entries that a quantile needs; a bin with fewer borrows from its neighbours."""
_UNTOLD = 3.0
"""Mean deviations to either side where too few errors tell of a quantile."""


@dataclass(frozen=True)
class Calibration:
    """``coefficients`` (F,) of the scale, ``lower`` and ``upper`` (bins,) of error / scale."""

    coefficients: Array
    lower: Array
    upper: Array


def fit_scale(features: Array, error: Array) -> Array:
    """Non-negative coefficients (F,) of ``|error| ~ c . features``, with features (F, n).

    Two fits: the second weights each entry by the inverse of the first one's scale.

    Examples
    --------
    >>> fit_scale(np.array([[1.0, 2.0, 4.0]]), np.array([2.0, -4.0, 8.0])).round(2)
    array([2.])
    """
    # The package takes 17 MB: a site loads it after its largest arrays are gone.
    from scipy.optimize import nnls

    F = features.T
    start = nnls(F, np.abs(error))[0]
    weight = 1.0 / np.maximum(F @ start, 1e-3 * max(float(np.abs(error).mean()), 1e-300))
    return np.asarray(nnls(F * weight[:, None], np.abs(error) * weight)[0])


def _conformal(ratios: Array, level: float, worth: float) -> float:
    """Upper quantile with the conformal correction for ``worth`` values, at most the largest."""
    rank = np.ceil(level * (1.0 + 1.0 / worth) * len(ratios))
    return float(np.sort(ratios)[int(min(rank, len(ratios))) - 1])


def calibrate(
    features: Array,
    error: Array,
    bins: Index,
    size: int,
    *,
    level: float = 0.9,
    runs: Array | None = None,
) -> Calibration:
    """Scale and asymmetric quantiles of ``(truth - estimate) / scale`` in each distance bin.

    Coverage is that of split conformal prediction as far as hold-out and gaps are alike.

    Parameters
    ----------
    features : (F, n) at hold-out entries: what tells how uncertain an entry is
    error : (n,) truth minus estimate, in model units
    bins : (n,) distance bin, below ``size``
    level : coverage
    runs : (n,) length of the run of hidden slots to which each entry belongs: the errors of a
        run are alike, so the n of a run are worth sqrt(n) of them. None: 1

    Examples
    --------
    >>> e = np.random.default_rng(0).standard_normal(4000)
    >>> c = calibrate(np.ones((1, 4000)), e, np.zeros(4000, int), 1)
    >>> low, high = interval(np.zeros(4000), np.ones((1, 4000)), np.zeros(4000, int), c)
    >>> bool(abs(np.mean((low < e) & (e < high)) - 0.9) < 0.01)
    True
    """
    if not len(error):
        even = np.full(len(features), 1.0 / len(features))
        return Calibration(even, np.full(size, -_UNTOLD), np.full(size, _UNTOLD))
    coefficients = fit_scale(features, error)
    ratio = error / np.maximum(coefficients @ features, 1e-12)
    worth = np.ones(len(error)) if runs is None else runs**-0.5
    lower, upper = np.empty(size), np.empty(size)
    tail = (1 - level) / 2
    for b in range(size):
        reach = 0
        while (chosen := np.abs(bins - b) <= reach).sum() < LEAST and reach < size:
            reach += 1
        n = float(worth[chosen].sum())
        # The tail is made smaller by what so few independent errors leave open.
        lower[b] = -_conformal(-ratio[chosen], 1 - tail, n)
        upper[b] = _conformal(ratio[chosen], 1 - tail, n)
        if n < 1 / tail - 1:
            # No quantile so far out is among so few, and their signs say nothing.
            lower[b], upper[b] = min(lower[b], -_UNTOLD), max(upper[b], _UNTOLD)
    return Calibration(coefficients, lower, upper)


def interval(
    estimate: Array, features: Array, bins: Index, calibration: Calibration
) -> tuple[Array, Array]:
    """Lower and upper end in model units, shaped like ``estimate``, which lies inside.

    Back-transform both ends with the same monotone function.

    Examples
    --------
    >>> c = Calibration(np.array([2.0]), np.array([-1.0]), np.array([1.5]))
    >>> interval(np.array([10.0]), np.ones((1, 1)), np.array([0]), c)
    (array([8.]), array([13.]))
    """
    scale = np.einsum("f,f...->...", calibration.coefficients, features)
    low = estimate + np.minimum(calibration.lower[bins], 0.0) * scale
    return low, estimate + np.maximum(calibration.upper[bins], 0.0) * scale
