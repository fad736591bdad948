"""What one noisy release costs: its sensitivity from the mechanism itself, its noise from a budget.

Protected is *one reading*: two tables are neighbours when they differ in one reading of one sensor,
anywhere between the limits that the owners declared beforehand. Gaps, places and the number of
readings count as public. Not protected is what many readings of a sensor show together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flfl.errors import FLFLError, InputError
from flfl.model.shared.windows import Windows

Array = NDArray[np.float64]


class BudgetError(FLFLError):
    """A release that would exceed the budget. Nothing was sent."""


def window_gain(length: float, nu: float, windows: Windows) -> float:
    """Most that a unit reading adds to the window means of its sensor's smoothed series (2-norm).

    ``S[s, t] <= exp(-|s - t| / length) / (1 + nu)``, with equality for a lone reading: the
    precision ``T + J / nu`` is an M-matrix, so more readings only make the inverse smaller. The
    bound therefore holds whatever was observed.

    Examples
    --------
    >>> every = Windows(np.arange(9), np.ones(8, int))
    >>> round(window_gain(1e-3, 0.25, every), 6)  # no memory: the reading itself, shrunk
    0.8
    >>> half = Windows(np.arange(0, 9, 2), np.ones(4, int))
    >>> round(window_gain(1e-3, 0.25, half), 6)
    0.4
    """
    a = math.exp(-1.0 / length)
    reach = max(math.ceil(length * 30), 1)
    N, n = windows.n_slots, len(windows)
    window = windows.per_slot(np.arange(n))
    offsets = np.arange(-reach, reach + 1)
    share = a ** np.abs(offsets) / (1 + nu)
    squares = np.zeros(N)
    for start in range(0, N, 4096):
        t = np.arange(start, min(start + 4096, N))
        at = t[:, None] + offsets
        inside = (at >= 0) & (at < N)
        tau = window[np.clip(at, 0, N - 1)]
        first = tau.min()
        width = int(tau.max() - first) + 1
        flat = np.bincount(
            ((t - start)[:, None] * width + tau - first)[inside],
            (share / windows.lengths[tau])[inside],
            len(t) * width,
        )
        squares[t] = (flat.reshape(len(t), width) ** 2).sum(axis=1)
    tail = 2 * a**reach / max(1 - a, 1e-300) / (1 + nu)
    return float(np.sqrt(squares.max(initial=0.0)) + tail)


def centring_gain(readings: Array, windows: Windows) -> Array:
    """What a reading adds through its sensor's own mean, which is subtracted everywhere (M,).

    A smoother's answer to a constant is at most that constant, so the windows' 2-norm is at most
    ``sqrt(n_windows) / n_i``.

    Examples
    --------
    >>> centring_gain(np.array([100.0]), Windows(np.arange(5), np.ones(4, int))).tolist()
    [0.02]
    """
    return math.sqrt(len(windows)) / np.maximum(readings, 1.0)


def noise_multiplier(epsilon: float, delta: float, spent: Sequence[float] = ()) -> float:
    """Noise over sensitivity of one more Gaussian release within the budget.

    Gaussian releases compose exactly: multipliers add up as ``sum 1 / multiplier^2``.

    Parameters
    ----------
    epsilon, delta : the whole budget
    spent : multipliers of earlier releases of the same readings

    Raises
    ------
    BudgetError
        When the earlier releases have used it up.

    Examples
    --------
    >>> one = noise_multiplier(1.0, 1e-6)
    >>> round(one, 2)
    4.22
    >>> bool(noise_multiplier(1.0, 1e-6, [2 * one]) > one)
    True
    """
    loss, guarantee = _accounting()
    most = 1.0 / loss.from_privacy_guarantee(guarantee(epsilon, delta)).standard_deviation ** 2
    left = most - sum(1.0 / m**2 for m in spent)
    if left <= 1e-12 * most:
        raise BudgetError(
            f"earlier releases of these readings have used up epsilon {epsilon:g}; nothing was sent"
        )
    return 1.0 / math.sqrt(left)


def epsilon_spent(multipliers: Sequence[float], delta: float) -> float:
    """Epsilon of several Gaussian releases of the same readings together, at this delta.

    Examples
    --------
    >>> round(epsilon_spent([noise_multiplier(3.0, 1e-6)], 1e-6), 4)
    3.0
    """
    if not multipliers:
        return 0.0
    loss, _ = _accounting()
    together = loss(1.0 / math.sqrt(sum(1.0 / m**2 for m in multipliers)))
    low, high = 0.0, 1.0
    while together.get_delta_for_epsilon(high) > delta:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if together.get_delta_for_epsilon(middle) > delta else (low, middle)
        )
    return high


def check_delta(delta: float, readings: int) -> None:
    """Refuse a delta at which one reading in the table could be shown outright.

    Examples
    --------
    >>> check_delta(1e-7, 1000)
    """
    if not 0 < delta < 1.0 / max(readings, 1):
        raise InputError(
            f"delta {delta:g} is not below 1 / {readings} readings: it would allow a mechanism that"
            " shows one of them outright",
            where="delta",
            remedy=f"Use a delta below {1.0 / max(readings, 1):.1g}",
        )


def _accounting() -> tuple[Any, Any]:
    """The accounting library, or a word on how to get it."""
    try:
        from dp_accounting.pld.common import DifferentialPrivacyParameters
        from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
    except ImportError:
        raise InputError(
            "a privacy budget needs the library dp-accounting",
            where="epsilon",
            remedy="Install the extra: pip install 'flfl[privacy]'",
        ) from None
    return GaussianPrivacyLoss, DifferentialPrivacyParameters
