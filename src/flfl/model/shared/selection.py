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
from flfl.model.shared.units import FORWARD, Units, known_mean, periodic_mean, robust_limits

Array = NDArray[np.float64]

LENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Memories, in slots, among which the likelihood chooses."""
_NOISE = 0.3
"""White noise of the news, relative to its slow part, while the likelihood chooses a memory."""
_MARGIN = 0.95
"""Share of the count that is used: news that neighbours share is read better than leverage says."""
_SOLVE = 1.2e8
"""Multiplications that a solve of the coordinator may cost: about a second."""


def local_errors(raw: Array, J: Array, transform: str, period: int, positions: Array) -> float:
    """Site's part of a trial: sum of absolute leave-one-out errors, each over its sensor's spread.

    Each known reading is guessed from the site's other sensors and from its own neighbours in
    time. ``raw`` (M, N) must be finite where J is 1; ``period`` 0 is no season.

    Examples
    --------
    >>> t = np.arange(9.0)
    >>> raw = np.array([[5.0] * 4 + [14.0] + [5.0] * 4])
    >>> small, large = (local_errors(c * raw, np.ones((1, 9)), "none", 0, t) for c in (1, 1000))
    >>> bool(np.isclose(small, large))
    True
    """
    # One spike a thousand times the rest must not decide.
    middle, width = robust_limits(np.where(J > 0, raw, 0.0), J)
    J = J * ~_glitches(np.where(J > 0, raw, 0.0) - middle, J > 0, width / 2)
    known = J * np.clip(np.where(J > 0, raw, 0.0), middle - width, middle + width)
    Z = J * FORWARD[transform](known)
    centre, season = known_mean(Z, J), np.zeros_like(Z)
    if period:
        season = periodic_mean(J * (Z - centre), J, period, positions)
    units = Units(transform, centre, season)
    Y = units.forward(known, J > 0)
    guess = step.others_guess(Y, J, smoothers.smoother(J, 3.0, 0.1))
    guess += step.neighbour_guess(J * (Y - guess), J)
    error = J * (units.back(guess) - known)
    spread = np.sqrt(known_mean((J * (known - known_mean(known, J))) ** 2, J))
    # A constant sensor says nothing.
    share = np.abs(error) / np.where(spread > 0, spread, np.inf)
    return float(np.minimum(share, 10.0).sum())


def _glitches(
    X: Array, known: NDArray[np.bool_], width: Array, rises: float = 0.15
) -> NDArray[np.bool_]:
    """Known values beyond ``width`` (M, 1) that neither neighbour has risen towards (M, N).

    Left in, they would favour whatever transformation flattens them best.

    Examples
    --------
    >>> X = np.array([[0.0, 9.0, 0.0, 4.0, 9.0, 0.0]])
    >>> _glitches(X, np.ones((1, 6), bool), np.array([[5.0]])).astype(int).tolist()
    [[0, 1, 0, 0, 0, 0]]
    """
    found = np.zeros(X.shape, dtype=bool)
    for i, row in enumerate(known):
        x = X[i, row]
        beside = np.pad(x, 1)
        feet = np.maximum(np.sign(x) * beside[:-2], np.sign(x) * beside[2:])
        found[i, row] = (np.abs(x) > width[i]) & (feet < rises * np.abs(x))
    return found


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


def memory_likelihood(Y: Array, J: Array) -> Array:
    """Site's part of the log-likelihoods of the news' memory, one for each of ``LENGTHS``."""
    factor = smoothers.smoother(J, 3.0, 0.1)
    E = J * (Y - step.others_guess(Y, J, factor))
    spread = 5 * np.sqrt((E**2).sum(1) / np.maximum(J.sum(1), 1))[:, None]
    E = np.clip(E, -spread, spread)
    return np.array([smoothers.log_likelihood(E, J, length, _NOISE)[0].sum() for length in LENGTHS])


@dataclass(frozen=True)
class Plan:
    """What the rules decide before the first round.

    Attributes
    ----------
    rank : factors, and the most numbers a window releases
    least : fewest numbers a window releases
    rounds : of the shared fit, at most
    inner : times the coordinator relearns its dynamics in a round
    allowed : most numbers a reading, in every window
    """

    rank: int
    least: int
    rounds: int
    inner: int
    allowed: float


def smoother(memory: float, max_exposure: float) -> tuple[float, float]:
    """Length and noise of S_i from the news' memory (slots): short memory, short smoother.

    Examples
    --------
    >>> smoother(1.0, 0.5), smoother(8.0, 0.5)
    ((1.0, 0.1), (3.0, 0.1))
    """
    if memory > 4.0:
        return 3.0, 0.1
    # A trusted coordinator may see the readings nearly as they are.
    return (0.5, 0.03) if max_exposure >= 1 else (1.0, 0.1)


def remembered_numbers(allowed: float, memory: float, gap: float) -> float:
    """Numbers a reading when a sensor's successive readings, ``gap`` slots apart, are alike.

    News that decays with ``exp(-dt / memory)`` beside some white noise has the correlation
    ``a = exp(-gap / memory) / (1 + noise)`` from one reading to the next. Numbers that all go
    to its slowest directions, a share rho of them, hold ``(2/pi) atan((1+a)/(1-a) tan(pi rho/2))``
    of its energy. The rho returned brings that back to ``allowed``.

    Examples
    --------
    >>> [round(remembered_numbers(0.3, memory, 10.0), 3) for memory in (1.0, 8.0, 16.0)]
    [0.3, 0.2, 0.133]
    """
    a = np.exp(-gap / memory) / (1 + _NOISE)
    return float(2 / np.pi * np.arctan((1 - a) / (1 + a) * np.tan(0.5 * np.pi * allowed)))


def plan(
    counts: Array,
    speakers: Array,
    n_sensors: int,
    max_exposure: float = 0.5,
    memory: float = LENGTHS[0],
) -> Plan:
    """Rank, windows and rounds from two sums a slot.

    ``counts`` (N,) readings, ``speakers`` (N,) sum of responses. A window should gather about as
    many readings as there are sensors with something to say: D about speakers / readings, and
    no longer than needed for nine numbers. Where readings are sparse, windows and smoothers keep
    the slow part of the news alone, and an adversary who knows its ``memory`` (slots) would fill in
    the rest: fewer numbers are released then. With a trusted coordinator the rank is bounded by
    the cost of a solve, about ``N k^3``.

    Examples
    --------
    >>> plan(np.full(100, 30.0), np.full(100, 33.0), 36).rank
    11
    """
    seen = counts > 0
    n = float(counts[seen].mean()) if seen.any() else 1.0
    reach = float(speakers[seen].mean()) / n if seen.any() else 1.0
    sparse = n < 0.3 * n_sensors
    # A short series is cheap to smooth, and its dynamics are learned from few slots.
    inner = 3 if len(counts) < 4000 else 1
    if max_exposure >= 1:
        most = min(n_sensors - 1, int((_SOLVE / len(counts)) ** (1 / 3)))
        rank = max(int(np.clip(round(1.1 * n + 4), 1, max(most, 1))), 1)
        return Plan(rank, rank, 10 if sparse else 8, inner, float("inf"))
    allowed = _MARGIN * 0.6 * max_exposure
    if sparse:
        gap = n_sensors / n
        # Readings cannot tell a memory shorter than the gap between them from none.
        allowed = remembered_numbers(allowed, max(memory, gap), gap)
    numbers = allowed * n
    D = int(np.clip(round(min(1.3 * reach, 9.0 / max(numbers, 1e-9))), 1, 4))
    rank = int(np.clip(np.ceil(1.2 * numbers * D), 1, max(n_sensors - 1, 1)))
    least = int(np.clip(0.7 * numbers * D, 1, rank))
    return Plan(rank, least, 8 if sparse else 6, inner, allowed)
