"""Prediction intervals: hold-out quantiles of the error in units of a local scale.

The quantiles are taken by class of distance to the nearest reading.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl import constants

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class Calibration:
    """``coefficients`` (F,) of the scale, ``lower`` and ``upper`` (bins,) of error / scale."""

    coefficients: Array
    lower: Array
    upper: Array


def calibrate(
    features: Array, error: Array, bins: Index, size: int, *, level: float, worth: Array
) -> Calibration:
    """Scale and asymmetric quantiles of ``(truth - estimate) / scale`` in each distance bin.

    Coverage is that of split conformal prediction as far as hold-out and gaps are alike. The scale
    is ``c . features`` with c >= 0 fitted to ``|error|`` twice: the second fit weights each entry
    by the inverse of the first one's scale.

    Features (F, n) tell how uncertain hold-out entries are; error (n,) is truth minus estimate,
    bins (n,) their distance bins, ``worth`` (n,) how many independent errors each stands for (those
    within a gap are correlated), ``level`` the coverage.
    """
    least, unknown = constants.QUANTILE_LEAST, constants.QUANTILE_UNKNOWN
    if not len(error):
        even = np.full(len(features), 1.0 / len(features))
        return Calibration(even, np.full(size, -unknown), np.full(size, unknown))
    # Large: loaded when a run comes to it.
    from scipy.optimize import nnls

    F, size_of = features.T, np.abs(error)
    # A few errors would be explained by any feature that is small there and large elsewhere: some
    # more rows say that every feature explains its part of the mean error.
    usual, mean = np.sqrt((F**2).mean(axis=0)), max(float(size_of.mean()), 1e-9)
    rows = np.sqrt(constants.SCALE_STRENGTH) * np.diag(usual)
    part = np.full(len(usual), np.sqrt(constants.SCALE_STRENGTH) * mean / len(usual))
    first = nnls(np.vstack([F, rows]), np.append(size_of, part))[0]
    weight = 1 / np.maximum(F @ first, 1e-3 * mean)
    middle = float(np.sqrt((weight**2).mean()))
    F_, wanted = F * weight[:, None], size_of * weight
    coefficients = nnls(np.vstack([F_, middle * rows]), np.append(wanted, middle * part))[0]
    ratio = error / np.maximum(coefficients @ features, 1e-12)
    ends, tail = np.empty((2, size)), (1 - level) / 2
    for b in range(size):
        reach = 0
        while (chosen := np.abs(bins - b) <= reach).sum() < least and reach < size:
            reach += 1
        n, count = float(worth[chosen].sum()), int(chosen.sum())
        # Conformal: the tail is made smaller by what so few independent errors leave open.
        rank = min(np.ceil((1 - tail) * (1.0 + 1.0 / n) * count), count)
        for end, sign in zip(ends, (-1.0, 1.0), strict=True):
            end[b] = sign * np.sort(sign * ratio[chosen])[int(rank) - 1]
        if n < 1 / tail - 1:
            # No quantile so far out is among so few, and their signs say nothing.
            ends[:, b] = min(ends[0, b], -unknown), max(ends[1, b], unknown)
    return Calibration(coefficients, *ends)


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
