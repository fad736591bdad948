"""What an attack is, what it is given, and how it is scored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flfl.audit.channel import Channel, copies_of, release_of, states
from flfl.audit.residual import Residuals, residuals_of
from flfl.audit.view import Truth, View

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

CLOSE = 0.01
"""A reading counts as exposed when it is guessed within this share of its sensor's spread."""
SLOW = 24
"""Slots of a mean that counts as slow; fewer in tables of less than 600 slots."""
FEWEST = 20
"""A sensor with fewer guessed readings, or slow means, has no R^2."""
GROUPS = 20
"""Groups of slots that are left out one by one to tell the statistical error of an R^2."""

COORDINATOR = "the coordinator"
EVERYBODY = "everybody else together"
ALL_BUT_ONE = "somebody who knows all but one reading"


@dataclass(frozen=True)
class Guess:
    """What an attack says: ``value`` (M, N), NaN where it says nothing; its guess of a reading in
    the network's units is ``base + value``."""

    value: Array
    base: Array


@dataclass(frozen=True)
class Case:
    """A run that is attacked."""

    view: View
    truth: Truth
    seed: int = 0

    @cached_property
    def wanted(self) -> Residuals:
        """What attacks look for."""
        return residuals_of(self.view, self.truth)

    @cached_property
    def copies(self) -> Channel:
        """All copies."""
        return copies_of(self.view, self.truth)

    @cached_property
    def release(self) -> Channel:
        """What the coordinator heard; without secure sums each site's part counts as its copies."""
        return release_of(self.view) if self.view.secure else self.copies

    @cached_property
    def volatile(self) -> Mask:
        """The tenth of the slots with the largest residuals (N,)."""
        e, J = self.wanted.residual, self.truth.known
        spread = np.sqrt((e**2).sum(axis=1) / np.maximum(J.sum(axis=1), 1))
        size = ((e / np.maximum(spread, 1e-12)[:, None]) ** 2).sum(axis=0)
        size /= np.maximum(J.sum(axis=0), 1)
        return np.asarray(size >= np.quantile(size, 0.9))

    def picture(self, heard: Channel) -> tuple[Array, Array]:
        """Factors (N, k) as a channel tells them, and the public model's curves (M, N)."""
        noise = np.where(heard.known, heard.r[:, None] + heard.sigma2, 0.0)
        q = states(heard, heard.P, noise, heard.dynamics)
        return q, heard.P @ q.T


Run = Callable[[Case, bool], Guess]
"""An attack on the messages or, if the second argument is true, on the copies themselves."""


@dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes
    ----------
    knows : what the adversary knows besides the messages, in words
    run : guesses from a case
    surprise : whether it is after what only the one reading tells, instead of the residual
    """

    name: str
    adversary: str
    knows: str
    run: Run
    surprise: bool = False


@dataclass(frozen=True)
class Finding:
    """What one attack read. None where it is not about that.

    Attributes
    ----------
    residual_read_max, residual_read_median : R^2 of the residual, worst and median sensor
    worst_sensor : whose residual was read best
    volatile_max, volatile_median : the same in the most volatile tenth of the slots
    slow_max, slow_median : the same of means over 24 slots
    copies_max, copies_median : what the same attack reads from the copies themselves
    excess : by how much the messages beat the copies at most, beyond the statistical error
    readings_exposed : share of the readings guessed within 1 % of the sensor's spread
    guessing_exposes : the same share for the public model's curves
    """

    name: str
    adversary: str
    knows: str
    residual_read_max: float | None = None
    residual_read_median: float | None = None
    worst_sensor: str | None = None
    volatile_max: float | None = None
    volatile_median: float | None = None
    slow_max: float | None = None
    slow_median: float | None = None
    copies_max: float | None = None
    copies_median: float | None = None
    excess: float = 0.0
    excess_sensor: str | None = None
    readings_exposed: float | None = None
    guessing_exposes: float | None = None
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def read(truth: Array, guess: Array, at: Mask, fewest: int = FEWEST) -> Array:
    """R^2 of each row's guess (M,), granted its best scale: the square of a positive correlation.

    NaN for rows with fewer than ``fewest`` guesses.

    Examples
    --------
    >>> truth = np.array([[1.0, -1.0, 2.0, 9.0]])
    >>> at = np.array([[True, True, True, False]])
    >>> read(truth, 0.1 * truth, at, 3), read(truth, -truth, at, 3)
    (array([1.]), array([0.]))
    """
    return np.where(at.sum(axis=1) >= fewest, _r2(_sums(truth, guess, at)), np.nan)


def more_than(truth: Array, guess: Array, other: Array, at: Mask) -> tuple[Array, Array]:
    """By how much a guess beats another in R^2 (M,), and the standard error of that (M,).

    The error comes from leaving out groups of neighbouring slots, the same for both.
    """
    edges = np.linspace(0, truth.shape[1], GROUPS + 1).astype(int)
    groups = [slice(a, b) for a, b in pairwise(edges)]
    totals = []
    for one in (guess, other):
        sums = [_sums(truth[:, group], one[:, group], at[:, group]) for group in groups]
        parts = np.stack(sums, axis=-1)
        whole = parts.sum(axis=-1)
        totals.append((_r2(whole), _r2(whole[..., None] - parts)))
    (mine, mine_without), (its, its_without) = totals
    without = mine_without - its_without
    spread = without - without.mean(axis=1, keepdims=True)
    return mine - its, np.sqrt((GROUPS - 1) / GROUPS * (spread**2).sum(axis=1))


def slow(X: Array, at: Mask) -> tuple[Array, Mask]:
    """Means over 24 slots of the entries that count (M, blocks), and where there are any.

    Examples
    --------
    >>> slow(np.array([[1.0, 3.0, 7.0, 9.0]]), np.array([[True, True, True, False]]))
    (array([[2., 7.]]), array([[ True,  True]]))
    """
    edges = np.arange(0, X.shape[1], int(np.clip(X.shape[1] // 25, 2, SLOW)))
    n = np.add.reduceat(at, edges, axis=1, dtype=float)
    return np.add.reduceat(np.where(at, X, 0.0), edges, axis=1) / np.maximum(n, 1), n > 0


def _sums(truth: Array, guess: Array, at: Mask) -> Array:
    """Count, sums, squares and products of each row (6, M)."""
    t, g = np.where(at, truth, 0.0), np.where(at, guess, 0.0)
    return np.stack([at.sum(1), t.sum(1), g.sum(1), (t * t).sum(1), (g * g).sum(1), (t * g).sum(1)])


def _r2(sums: Array) -> Array:
    n = np.maximum(sums[0], 1.0)
    _, t, g, tt, gg, tg = sums / n
    return np.asarray(np.maximum(tg - t * g, 0.0) ** 2 / _variance(t, tt) / _variance(g, gg))


def _variance(mean: Array, square: Array) -> Array:
    """Infinite for what does not vary: it says nothing."""
    v = square - mean**2
    return np.where(v > 1e-9 * square, v, np.inf)


def worst_and_median(scores: Array) -> tuple[float | None, float | None]:
    """Of the rows that have a score."""
    if not np.isfinite(scores).any():
        return None, None
    return float(np.nanmax(scores)), float(np.nanmedian(scores))


def close(case: Case, guess: Array, at: Mask) -> float | None:
    """Share of the readings that a guess (M, N) in the network's units comes close to."""
    raw = case.truth.raw
    spread = np.array([np.std(row[k]) if k.any() else 1.0 for row, k in zip(raw, at, strict=True)])
    if not at.any():
        return None
    miss = np.abs(case.truth.to_raw(np.where(at, guess, 0.0), case.view.network) - raw)
    return float((miss <= CLOSE * np.maximum(spread, 1e-12)[:, None])[at].mean())
