"""An owner's estimate of every entry: candidates with and without the network, stacked at home.

Every candidate estimates an entry *without that entry itself*, so its errors on held-out readings
tell how it will do in the gaps. Nothing here leaves the owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl import constants
from flfl.ensemble import boosting, stacking
from flfl.ensemble.candidates import (
    LEAVE_ONE_OUT,
    NAMES,
    Candidates,
    candidates,
    scale_features,
    spikes,
)
from flfl.ensemble.holdout import runs
from flfl.ensemble.intervals import calibrate, interval
from flfl.ensemble.personal import Shared, finish
from flfl.model.transforms import BACKWARD, FORWARD

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

MIX = "c...,...c->..."
"""Weighted sum of candidates (C, ...) with weights (..., C)."""


@dataclass(frozen=True)
class Units:
    """The way back to the readings' units: ``back(x * scale + offset)``, offset (m, N)."""

    transform: str
    offset: Array
    scale: float

    def forward(self, raw: Array, known: Mask) -> Array:
        """Readings to model units, zero where unknown (m, N)."""
        Z = FORWARD[self.transform](np.where(known, raw, 0.0))
        return np.where(known, (Z - self.offset) / self.scale, 0.0)

    def back(self, X: Array, at: tuple[Index, Index] | None = None) -> Array:
        """Model units to readings (m, N), or those of the entries ``at`` (n,)."""
        offset = self.offset if at is None else self.offset[at]
        return BACKWARD[self.transform](X * self.scale + offset)


@dataclass(frozen=True)
class Home:
    """What an owner has at home, (m, N) unless said otherwise.

    ``raw`` are clean readings in their units, ``known`` where they are and ``held`` which of them
    are held out to judge by; ``units`` are the model's, ``before`` the same from the readings that
    are not held out; ``guess`` is the public model's curve, to tell spikes by; ``phase`` (N,) hour
    or month of each slot; ``boost`` whether trees correct the stack; ``coverage`` that of the
    intervals; ``per_hour`` slots in an hour, 1 where a slot is longer.
    """

    raw: Array
    known: Mask
    held: Mask
    units: Units
    before: Units
    guess: Array
    phase: Index
    boost: bool = True
    coverage: float = 0.9
    per_hour: float = 1.0


@dataclass(frozen=True)
class Recovered:
    """An owner's result in the readings' units, each (m, N).

    ``holdout`` holds the estimates of the held-out readings (NaN elsewhere), made with weights
    that were fitted on the other half of them; ``inside`` tells whether the reading lay in an
    interval calibrated on the other half (NaN elsewhere).
    """

    estimate: Array
    lower: Array
    upper: Array
    holdout: Array
    inside: Array


def recover(home: Home, shared: Shared, rng: np.random.Generator) -> Recovered:
    """Every entry of an owner's table, from its own readings and the network's factors."""
    Y, Y_before = (units.forward(home.raw, home.known) for units in (home.units, home.before))
    calm = ~spikes(Y, home.known, home.guess)
    known, used = home.known & calm, home.known & calm & ~home.held
    made = [finish(Y_before, used, shared, own_states) for own_states in (True, False)]
    curve, plain = (found for found, _ in made)
    fit = candidates(Y_before, used, curve, plain, None, home.per_hour)
    curve, plain = (finish(Y, known, shared, own, steps=1)[0] for _, own in made)
    final = candidates(Y, known, curve, plain, fit.dynamics, home.per_hour)
    X, Z = fit.values, final.values
    names: tuple[str, ...] = NAMES
    _, starts, ends = runs(home.held)
    lengths = np.repeat(ends - starts, ends - starts).astype(float)
    truth, near, most = Y_before[home.held], fit.bins[home.held], constants.ERROR_FARTHEST
    errors = np.clip(X[:, home.held] - truth, -most, most)
    if home.boost:
        own = len(LEAVE_ONE_OUT)
        groups, W, _, _ = _judge(errors[:own], lengths, near, LEAVE_ONE_OUT)
        bases = (
            np.einsum(MIX, X[:own], W[groups[fit.bins]]),
            np.einsum(MIX, Z[:own], W[groups[final.bins]]),
        )
        masks = used, home.held, ~home.known
        trees = boosting.correct(fit, final, bases, Y_before, masks, home.phase, rng)
        X, Z = np.concatenate([X, trees[:1]]), np.concatenate([Z, trees[1:]])
        names = (*NAMES, "boosted")
        errors = np.clip(X[:, home.held] - truth, -most, most)
    judged = _judge(errors, lengths, near, names)
    return _recovered(home, truth, errors, lengths, judged, (fit, X), (final, Z))


def _judge(
    errors: Array, lengths: Array, near: Index, names: Sequence[str]
) -> tuple[Index, Array, Array, Array]:
    """How an owner weights its candidates by their errors (C, n) at the held-out readings.

    Returns
    -------
    groups : (classes,) array
        Which classes of distance are judged together.
    W : (groups, C) array
        Weights of the candidates.
    weight : (n,) array
        Robust weight of each held-out entry.
    scale : (groups,) array
        Mean weighted squared error of a candidate, times how many entries count for one.
    """
    groups = stacking.group_bins(np.bincount(near, minlength=stacking.BINS).astype(float))
    size, bins = int(groups[-1]) + 1, groups[near]
    # Errors within a gap are correlated: so many of them count for one.
    entries = np.maximum(np.bincount(bins, minlength=size), 1)
    spread = np.maximum(np.bincount(bins, 2 * lengths - 1, size) / entries, 1.0)
    # A group is described by the default weights of its middle class of distance.
    middle = [int(np.median(np.flatnonzero(groups == g))) for g in range(size)]
    prior = W = stacking.default_weights(names)[middle]
    weight, scale = np.ones(len(bins)), 1.0
    for robust in (False, True) if len(bins) else ():
        if robust:  # squares of small errors, absolutes of large ones
            mixed = np.abs(np.einsum(MIX, errors, W[bins]))
            knee = max(constants.ERROR_KNEE * float(mixed.mean()), constants.ERROR_LEAST_KNEE)
            weight = 1.0 / np.maximum(mixed, knee)
            weight = weight / weight.mean()
        G = stacking.error_sums(errors, weight, bins, size)
        scale = max(float(np.trace(G.sum(axis=0))) / G.shape[-1] / len(bins), 1e-12)
        W = stacking.stacked_weights(G, prior, scale, spread)
    return groups, W, weight, scale * spread


def _recovered(
    home: Home,
    truth: Array,
    errors: Array,
    lengths: Array,
    judged: tuple[Index, Array, Array, Array],
    before: tuple[Candidates, Array],
    after: tuple[Candidates, Array],
) -> Recovered:
    """The stack with its intervals, back in the readings' units.

    ``truth`` (n,), ``errors`` (C, n) and ``lengths`` of runs (n,) are those of the held-out
    readings; ``before`` and ``after`` candidates without and with them, and their values with the
    trees' own.
    """
    (fit, X), (final, Z), held, m = before, after, home.held, len(home.raw)
    (groups, network, weight, scale), (rows, slots) = judged, np.nonzero(held)
    near = fit.bins[held]
    half = (slots // int(constants.HALF_HOURS * home.per_hour)) % 2 == 0
    parts = half, ~half, np.ones(len(rows), bool)
    # Weights of each sensor (m, groups, C), shrunk towards the owner's.
    weights = []
    for part in parts:
        at = rows[part], groups[near[part]]
        own = stacking.local_weights(errors[:, part], weight[part], at, m, network, scale)
        weights.append(own)
    # Honest errors for the intervals: each half of time judged by weights from the other.
    honest, hit = np.empty(len(rows)), np.empty(len(rows))
    for use, W in zip(parts[1::-1], weights, strict=False):
        honest[use] = np.einsum(MIX, X[:, held][:, use], W[rows[use], groups[near[use]]])
    error, worth = truth - honest, lengths**-0.5
    features, level = scale_features(*before)[:, held], home.coverage
    scales = []
    for part in parts:
        there = features[:, part], error[part], near[part]
        scales.append(calibrate(*there, stacking.BINS, level=level, worth=worth[part]))
    for use, found in zip(parts[1::-1], scales, strict=False):
        low, high = interval(np.zeros(int(use.sum())), features[:, use], near[use], found)
        hit[use] = (low <= error[use]) & (error[use] <= high)
    estimate = np.einsum(MIX, Z, weights[2][np.arange(m)[:, None], groups[final.bins]])
    lower, upper = interval(estimate, scale_features(*after), final.bins, scales[2])
    steps = stacking.resolutions(home.raw, home.known)
    guessed, width = home.before.back(honest, (rows, slots)), 0.0
    if len(rows):
        width = stacking.choose_width(guessed, steps[rows], home.raw[held])
    holdout, inside = (np.full(home.raw.shape, np.nan) for _ in range(2))
    holdout[held], inside[held] = stacking.snap(guessed, steps[rows], width), hit
    back = home.units.back
    filled = stacking.snap(back(estimate), steps[:, None], width)
    return Recovered(filled, back(lower), back(upper), holdout, inside)
