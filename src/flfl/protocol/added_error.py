"""The added error: how much noise each sensor's copies get, and what that guarantees.

``sigma_i`` is a multiple of the sensor's own leave-one-out error in time, or a number in the
readings' units. All that is taken from clean readings is rounded up a ladder: it says little of
them. The guarantees are about readings that differ by d. There is none for slow events or events
common to several sensors: those show more, with the square root of the number of readings.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import numpy as np

from flfl.constants import ERROR_CLIP, FEWEST_READINGS, RUNGS
from flfl.ensemble.stacking import resolutions
from flfl.errors import InputError
from flfl.model import Array, Mask
from flfl.model.transforms import FORWARD, SLOPE, fit_offsets


def ladder_up(x: Array) -> Array:
    """The smallest power of the fourth root of 2 not below x; 0 and NaN stay.

    Examples
    --------
    >>> ladder_up(np.array([0.0, 0.3, 1.0, 1.1, 2.0])).round(3)
    array([0.   , 0.354, 1.   , 1.189, 2.   ])
    """
    # The same bits everywhere: sigma is part of the noise's key.
    between = np.array([1.0, 1.189207115002721, 1.4142135623730951, 1.681792830507429])
    out = np.array(x, dtype=float)
    up = np.isfinite(out) & (out > 0)
    # The logarithm may err by a bit either way: the rung below, the nearest and the one above.
    k = np.ceil(RUNGS * np.log2(out[up])).astype(int) + np.array([[-1], [0], [1]])
    rungs = np.ldexp(between[k % RUNGS], k // RUNGS)
    out[up] = np.where(rungs >= out[up], rungs, np.inf).min(axis=0)
    return out


def error_in_time(X: Array, known: Mask) -> Array:
    """Root mean square leave-one-out error of each sensor's readings from its own neighbours (m,).

    ``e_t = x_t - ((c - t) x_a + (t - a) x_c) / (c - a)``, a and c the known slots before and after
    t. Errors are clipped at 4 x 1.4826 x their median size, where that is above 0. NaN for sensors
    with fewer than 100 readings.

    Examples
    --------
    >>> X = np.tile([0.0, 1.0], 100)[None]
    >>> error_in_time(X, np.isfinite(X)), error_in_time(X[:, :90], np.isfinite(X[:, :90]))
    (array([1.]), array([nan]))
    """
    rows, slots = np.nonzero(known)
    x = X[rows, slots]
    t = np.flatnonzero(rows[2:] == rows[:-2]) + 1  # neighbours on both sides
    before, after = slots[t] - slots[t - 1], slots[t + 1] - slots[t]
    e = np.abs(x[t] - (after * x[t - 1] + before * x[t + 1]) / (before + after))
    ends = np.searchsorted(rows[t], np.arange(len(X) + 1))
    s = np.full(len(X), np.nan)
    for i in np.flatnonzero(known.sum(1) >= FEWEST_READINGS):
        own = e[ends[i] : ends[i + 1]]
        most = ERROR_CLIP * np.median(own)
        s[i] = np.sqrt(np.mean(np.minimum(own, most) ** 2 if most > 0 else own**2))
    return s


def medians(values: Array, known: Mask) -> Array:
    """Median of each row's known values (m,), NaN where there are none."""
    rows = zip(values, known, strict=True)
    return np.array([np.median(x[k]) if k.any() else np.nan for x, k in rows])


@dataclass(frozen=True)
class Scale:
    """What sensors' noise is measured by: rungs of the ladder (m,), NaN where unknown.

    It is taken once, at a sensor's first copy: taken anew for every table, it would tell about the
    clean readings of each. It is the error in time without the season (s) and with it (swing, at
    least s), the resolution on the transformed scale (steps), and the slope at the median reading.
    """

    s: Array
    swing: Array
    steps: Array
    slope: Array

    @classmethod
    def of(cls, raw: Array, known: Mask, transform: str, season: Array) -> Scale:
        """From clean readings (m, N) and the rows of a season (n, N)."""
        X, J = FORWARD[transform](np.where(known, raw, 0.0)), known.astype(float)
        X = np.where(known, X, 0.0)
        s = ladder_up(error_in_time(X - fit_offsets(X, J, season) @ season, known))
        swing = ladder_up(np.fmax(error_in_time(X, known), s))
        slope = ladder_up(SLOPE[transform](medians(raw, known)))
        made = cls(s, swing, s, slope)
        steps = made.transformed(resolutions(raw, known), transform)
        return cls(s, swing, ladder_up(steps), slope)

    def transformed(self, amount: Array, transform: str) -> Array:
        """Lengths in the readings' units on the transformed scale (m,)."""
        # A square root is too steep near 0 for a slope there to say how far a length reaches.
        return np.asarray(amount * np.minimum(self.slope, SLOPE[transform](amount)))


@dataclass(frozen=True)
class AddedError:
    """An owner's setting: a multiple of each sensor's own error in time (0 means that the
    coordinator is trusted), or a number in the readings' own units instead."""

    multiple: float = 1.0
    units: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.multiple < np.inf or not (self.units is None or 0 < self.units < np.inf):
            raise InputError("an added error is a multiple from 0 on, or a number of units above 0")

    @classmethod
    def parse(cls, text: str) -> AddedError:
        """From a multiple, or from a number and a unit.

        Examples
        --------
        >>> AddedError.parse("0.5").multiple, AddedError.parse("2 ug/m3").units
        (0.5, 2.0)
        """
        parts = re.fullmatch(r"\s*([\d.]+(?:e[-+]?\d+)?)\s*(.*?)\s*", text)
        with suppress(ValueError):  # of float and, as an InputError, of the setting itself
            value = float(parts[1] if parts else text)
            return cls(units=value) if parts and parts[2] else cls(multiple=value)
        raise InputError(
            f"{text!r} is no added error",
            remedy='Give a multiple of each sensor\'s own error ("1"), a number with a unit '
            '("2 ug/m3"), or "0" to trust the coordinator',
        )

    def sigma(self, s: Array, scale: Scale, transform: str, wish: float = 0.0) -> Array:
        """Added error of each sensor (m,) on the transformed scale; NaN: it stays at home.

        ``sigma_i = ladder_up(max(multiple s_i, steps_i))``, or with units converted by the slope. A
        sensor stays at home when nothing says how much to add. Nobody lowers an owner's setting: a
        network's wish, a multiple, counts where it adds more.
        """
        bases = [multiple * s for multiple in (self.multiple, wish)]
        if self.units is not None:
            bases[0] = scale.transformed(np.full(len(s), self.units), transform)
        trusted = (self.units is None and self.multiple == 0, wish == 0)
        least = [np.maximum(base, scale.steps) for base in bases]
        own, other = (
            0.0 * s if exact else ladder_up(np.where(lowest > 0, lowest, np.nan))
            for lowest, exact in zip(least, trusted, strict=True)
        )
        return np.where(np.isnan(other), own, np.maximum(own, other))


def gaussian_dp(d: float, sigma: float, readings: int = 1) -> float:
    """The mu of mu-Gaussian differential privacy: ``mu = sqrt(w) d / sigma`` over w readings.

    Two tables that differ by at most d at w readings are at least as hard to tell apart as N(0, 1)
    and N(mu, 1), for whoever knows everything else.

    Examples
    --------
    >>> gaussian_dp(2.0, 1.0), gaussian_dp(2.0, 1.0, readings=4), gaussian_dp(2.0, 0.0)
    (2.0, 4.0, inf)
    """
    if d == 0 or readings == 0:
        return 0.0
    return float(np.sqrt(readings) * abs(d) / sigma) if sigma > 0 else float("inf")


def best_guess(d: float, sigma: float, readings: int = 1) -> float:
    """Share of right guesses, at best, between two values: ``Phi(sqrt(w) d / (2 sigma))``.

    Examples
    --------
    >>> [round(100 * best_guess(d, 1.0)) for d in (0, 1, 2, 3)]
    [50, 69, 84, 93]
    """
    return 0.5 * math.erfc(-gaussian_dp(d, sigma, readings) / 2 / math.sqrt(2))


def epsilon(mu: float, delta: float) -> float:
    """The epsilon of (epsilon, delta)-differential privacy that mu-Gaussian privacy gives.

    Solves ``delta = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)``, in logarithms.

    Examples
    --------
    >>> [round(epsilon(mu, 1e-5), 1) for mu in (1.0, 2.0, 3.0)]
    [4.4, 10.0, 16.7]
    """
    from scipy.optimize import brentq  # large, and no site needs it
    from scipy.special import log_ndtr, ndtr

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
    """Share (R^2) of a reading's unpredictable part that its copy shows: ``1 / (1 + beta^2)``.

    For ``sigma = beta s``, s the sensor's leave-one-out error in time: in the *mean over readings*,
    for Gaussian residuals of variance at most s^2, against a reader who knows all else. Skewed
    residuals and volatile hours show more.

    Examples
    --------
    >>> read_at_most(1.0), read_at_most(2.0), read_at_most(0.0)
    (0.5, 0.2, 1.0)
    """
    return 1.0 / (1.0 + multiple**2)
