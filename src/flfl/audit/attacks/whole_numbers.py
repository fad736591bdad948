"""Posteriors sharpened by what everyone knows of readings: not negative, and multiples of a step.

Adversary: anyone who ended another attack with a Gaussian mean and variance for each reading, in
the readings' own units.

Assumes: the instrument's resolution (``step``) and lower limit are public; so, here, are the
sensor's mean and scale, which the product never sends.

Scored: share of the readings within 1 % of the sensor's standard deviation, before and after,
beside ``guessing``: the best constant that someone who knows the sensor's distribution could
name.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Array = NDArray[np.float64]

TOLERANCE = 0.01
"""A reading counts as exposed within this share of its sensor's standard deviation."""


def truncated_mean(mean: Array, sd: Array, lower: float = 0.0) -> Array:
    """Mean of ``N(mean, sd^2)`` given that the value is at least ``lower``.

    ``mean + sd phi(a) / (1 - Phi(a))`` with ``a = (lower - mean) / sd``; same shapes.

    Examples
    --------
    >>> truncated_mean(np.array([0.0, 50.0]), np.array([1.0, 1.0])).round(3).tolist()
    [0.798, 50.0]
    """
    sd = np.maximum(sd, 1e-12)
    a = (lower - mean) / sd
    # Of logarithms: far below the limit both parts are zero.
    ratio = np.exp(norm.logpdf(a) - norm.logsf(a))
    return np.asarray(np.maximum(mean + sd * ratio, lower))


def on_the_grid(mean: Array, step: Array | float, lower: float = 0.0) -> Array:
    """The likeliest multiple of ``step`` that is at least ``lower``: the nearest one.

    Examples
    --------
    >>> on_the_grid(np.array([-3.0, 1.4, 1.6]), 1.0).tolist()
    [0.0, 1.0, 2.0]
    """
    step = np.asarray(step, dtype=float)
    return np.asarray(np.maximum(np.round(mean / step), np.ceil(lower / step)) * step)


def resolution(readings: Array) -> Array:
    """Step of each sensor (M, 1): the largest of 10, 5, 2, 1, .5, .2, .1, ... that fits them all.

    Examples
    --------
    >>> resolution(np.array([[3.0, 7.0, np.nan], [0.3, 12.1, 2.0]])).ravel().tolist()
    [1.0, 0.1]
    """
    out = np.full((len(readings), 1), 1e-6)
    steps = [digit * 10.0**power for power in range(1, -6, -1) for digit in (5, 2, 1)][2:]
    for i, row in enumerate(readings):
        values = row[~np.isnan(row)]
        fits = (s for s in steps if np.allclose(values, np.round(values / s) * s, atol=1e-6 * s))
        out[i] = next(fits, 1e-6)
    return out


def share_within(estimate: Array, truth: Array) -> float:
    """Share of the known readings that the estimate meets within 1 % of the sensor's sd.

    Both (M, N), NaN in ``truth`` = unknown.

    Examples
    --------
    >>> share_within(np.array([[0.0, 2.0]]), np.array([[0.0, 4.0]]))
    0.5
    """
    known = ~np.isnan(truth)
    sd = np.array(
        [row[on].std() if on.any() else 0.0 for row, on in zip(truth, known, strict=True)]
    )
    close = np.abs(estimate - truth) <= TOLERANCE * sd[:, None] + 1e-12
    return float(close[known].mean())


def share_by_guessing(truth: Array) -> float:
    """The same for the best constant of each sensor, chosen knowing its distribution.

    Examples
    --------
    >>> share_by_guessing(np.array([[1.0, 1.0, 1.0, 9.0]]))
    0.75
    """
    hits = total = 0
    for row in truth:
        values = np.sort(row[~np.isnan(row)])
        if values.size:
            width = 2 * TOLERANCE * values.std() + 1e-12
            hits += int(
                (np.searchsorted(values, values + width, "right") - np.arange(len(values))).max()
            )
            total += len(values)
    return hits / max(total, 1)


def score(
    mean: Array, sd: Array, truth: Array, step: Array, lower: float = 0.0
) -> dict[str, float]:
    """Shares exposed by the posterior mean, truncated at ``lower``, put on the grid, and guessed.

    Parameters
    ----------
    mean, sd : (M, N) posterior in the readings' units; truth : (M, N), NaN = unknown
    step : (M, 1) or a number
    """
    return {
        "posterior": share_within(mean, truth),
        "not_negative": share_within(truncated_mean(mean, sd, lower), truth),
        "whole": share_within(on_the_grid(mean, step, lower), truth),
        "guessing": share_by_guessing(truth),
    }
