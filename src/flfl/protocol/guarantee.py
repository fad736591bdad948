"""What an added error means, in the words of several fields.

All of it is about copies with Gaussian noise of standard deviation sigma on readings that differ
by d. It is a modest guarantee for large d, and none for slow events or events common to several
sensors or quantities: those show more, with the square root of the number of readings.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from flfl.errors import InputError


def gaussian_dp(d: float, sigma: float, readings: int = 1) -> float:
    """The mu of mu-Gaussian differential privacy: ``mu = sqrt(w) d / sigma`` over w readings.

    Guarantees: telling two tables apart that differ by at most d at w readings is at least as hard
    as telling N(0, 1) from N(mu, 1), for whoever knows everything else.

    Examples
    --------
    >>> gaussian_dp(2.0, 1.0), gaussian_dp(2.0, 1.0, readings=4), gaussian_dp(2.0, 0.0)
    (2.0, 4.0, inf)
    """
    if d == 0 or readings == 0:
        return 0.0
    return float(np.sqrt(readings) * abs(d) / sigma) if sigma > 0 else float("inf")


def told_apart(d: float, sigma: float, readings: int = 1) -> float:
    """Share of right guesses, at best, between two values: ``Phi(sqrt(w) d / (2 sigma))``.

    Examples
    --------
    >>> [round(100 * told_apart(d, 1.0)) for d in (0, 1, 2, 3)]
    [50, 69, 84, 93]
    """
    return float(ndtr(gaussian_dp(d, sigma, readings) / 2))


def epsilon(mu: float, delta: float) -> float:
    """The epsilon of (epsilon, delta)-differential privacy that mu-Gaussian privacy gives.

    Solves ``delta = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)``, in logarithms.

    Examples
    --------
    >>> [round(epsilon(mu, 1e-5), 1) for mu in (1.0, 2.0, 3.0)]
    [4.4, 10.0, 16.7]
    """
    if not (mu >= 0 and 0 < delta < 1):
        raise InputError(f"mu must not be negative, and delta between 0 and 1: {mu}, {delta}")
    if np.isinf(mu):
        return mu
    if mu == 0 or 2 * ndtr(mu / 2) - 1 <= delta:
        return 0.0

    def excess(eps: float) -> float:
        first = log_ndtr(-eps / mu + mu / 2)
        second = eps + log_ndtr(-eps / mu - mu / 2)
        return float(first + np.log(-np.expm1(second - first)) - np.log(delta))

    # There the first term alone is below delta: Phi(-x) <= exp(-x^2/2) / 2.
    most = mu**2 / 2 + mu * np.sqrt(2 * np.log(1 / delta))
    return cast(float, brentq(excess, 0.0, most, xtol=1e-10))


def read_at_most(multiple: float) -> float:
    """Share (R^2) of what is unforeseen of a reading that its copy shows: ``1 / (1 + beta^2)``.

    For ``sigma = beta s``, s the sensor's leave-one-out error in time. It holds in the *mean over
    readings* and for Gaussian residuals of variance at most s^2, against a reader who knows all
    else. Skewed residuals and volatile hours show more; the limit of a spike may show less.

    Examples
    --------
    >>> read_at_most(1.0), read_at_most(2.0), read_at_most(0.0)
    (0.5, 0.2, 1.0)
    """
    return 1.0 / (1.0 + multiple**2)
