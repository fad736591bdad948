"""Automatic choices that cost no round: one secure sum of local errors, then rules.

Transform and season: every site predicts its own known readings from its *other* sensors and
from the neighbours in time of the residual, leaving the reading itself out, once for each
candidate; the sums of absolute errors (in raw units) over the network decide.
Rank, windows, smoother: rules on the number of readings a slot and on how far a reading reaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.model.shared import sensor_step as step
from flfl.model.shared import smoothers
from flfl.model.shared.units import BACKWARD, FORWARD, periodic_mean

Array = NDArray[np.float64]

LENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0)


def local_errors(raw: Array, J: Array, transform: str, period: int, positions: Array) -> float:
    """Site's part of a trial: sum of absolute leave-one-out errors, in the readings' units.

    Each known reading is guessed from the site's other sensors and from its own neighbours in
    time. ``raw`` (M, N) must be finite where J is 1; ``period`` 0 is no season.
    """
    known = np.where(J > 0, raw, 0.0)
    Z = J * FORWARD[transform](known)
    centre = (Z.sum(1) / np.maximum(J.sum(1), 1))[:, None]
    Y = J * (Z - centre)
    season = periodic_mean(Y, J, period, positions) if period else np.zeros_like(Y)
    Y = J * (Y - season)
    guess = step.others_guess(Y, J, smoothers.smoother(J, 3.0, 0.1))
    guess += step.neighbour_guess(J * (Y - guess), J)
    error = J * (BACKWARD[transform](guess + season + centre) - known)
    # One spike a thousand times the rest must not decide: cap at each sensor's own scale.
    scale = (J * np.abs(known)).sum(1, keepdims=True) / np.maximum(J.sum(1, keepdims=True), 1)
    return float(np.minimum(np.abs(error), 10 * scale).sum())


def choose_trial(errors: Array, trials: Sequence[tuple[str, int]]) -> int:
    """The trial of least error; a season must earn its place by half a per cent.

    Examples
    --------
    >>> choose_trial(np.array([10.0, 9.0, 8.98]), [("none", 0), ("sqrt", 0), ("sqrt", 24)])
    1
    """
    plain = [n for n, (_, period) in enumerate(trials) if not period] or list(range(len(trials)))
    best = min(plain, key=lambda n: float(errors[n]))
    overall = int(np.argmin(errors))
    return overall if errors[overall] < 0.995 * errors[best] else best


def memory_likelihood(Y: Array, J: Array, nu: float = 0.3) -> Array:
    """Site's part of the log-likelihoods of the local residual's memory, one a candidate length."""
    factor = smoothers.smoother(J, 3.0, 0.1)
    E = J * (Y - step.others_guess(Y, J, factor))
    spread = 5 * np.sqrt((E**2).sum(1) / np.maximum(J.sum(1), 1))[:, None]
    E = np.clip(E, -spread, spread)
    return np.array([smoothers.log_likelihood(E, J, length, nu)[0].sum() for length in LENGTHS])


@dataclass(frozen=True)
class Plan:
    """What the rules decide before the first round."""

    rank: int
    least: int
    rounds: int
    inner: int


def smoother(memory: float, max_exposure: float) -> tuple[float, float]:
    """Length and noise of S_i from the news' memory (slots): short memory, short smoother.

    Examples
    --------
    >>> smoother(1.0, 0.5), smoother(8.0, 0.5)
    ((1.0, 0.1), (3.0, 0.1))
    """
    if memory > 2.0:
        return 3.0, 0.1
    # A trusted coordinator may see the readings nearly as they are.
    return (0.5, 0.03) if max_exposure >= 1 else (1.0, 0.1)


def gain(length: float, max_exposure: float) -> float:
    """Weight of the sums against the dynamics: what the windows average away counts again."""
    return 1.0 if max_exposure >= 1 and length > 1.0 else 1.6


def gap_sums(J: Array) -> Array:
    """Site's part of the mean gap length: missing slots, and gaps (2,).

    Examples
    --------
    >>> gap_sums(np.array([[1.0, 0.0, 0.0, 1.0, 0.0]])).tolist()
    [3.0, 2.0]
    """
    missing = J <= 0
    starts = missing & ~np.pad(missing, ((0, 0), (1, 0)))[:, :-1]
    return np.array([missing.sum(), starts.sum()], dtype=float)


def mean_gap(sums: Array) -> float:
    """Mean length of a gap, from the network's :func:`gap_sums`.

    Examples
    --------
    >>> mean_gap(np.array([6.0, 2.0]))
    3.0
    """
    return float(sums[0] / max(sums[1], 1.0))


def plan(
    counts: Array,
    speakers: Array,
    n_sensors: int,
    length: float,
    max_exposure: float = 0.5,
    mean_gap: float = 1.0,
) -> Plan:
    """Rank and window size from two secure sums a slot.

    ``counts`` (N,) readings, ``speakers`` (N,) sum of responses.  A window should gather
    about as many readings as there are sensors with something to say: D about speakers /
    readings, and no longer than needed for nine numbers.

    Examples
    --------
    >>> plan(np.full(100, 30.0), np.full(100, 33.0), 36, 3.0).rank
    11
    """
    seen = counts > 0
    n = float(counts[seen].mean()) if seen.any() else 1.0
    reach = float(speakers[seen].mean()) / n if seen.any() else 1.0
    inner = 3 if length <= 1.0 else 1
    sparse = n < 0.3 * n_sensors
    if max_exposure >= 1:
        # long gaps: high ranks learn the sensors' own news, which is absent inside a gap
        most = 60 if length <= 1 else (10 if mean_gap > 6 else 20)
        rank = max(int(np.clip(round(1.1 * n + 4), 1, min(n_sensors - 1, most))), 1)
        return Plan(rank, rank, 10 if sparse else 8, inner)
    numbers = 0.6 * max_exposure * n
    D = int(np.clip(round(min(1.3 * reach, 9.0 / max(numbers, 1e-9))), 1, 4))
    rank = int(np.clip(np.ceil(1.2 * numbers * D), 1, max(n_sensors - 1, 1)))
    least = int(np.clip(0.7 * numbers * D, 1, rank))
    return Plan(rank, least, 8 if sparse else 6, inner)
