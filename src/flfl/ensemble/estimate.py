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
from flfl.ensemble.intervals import Calibration, calibrate, interval
from flfl.ensemble.personal import Shared, finish, first_fit
from flfl.model.transforms import BACKWARD, FORWARD

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]


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
    """What an owner has at home.

    Attributes
    ----------
    raw : (m, N) array
        Clean readings in their units.
    known, held : (m, N) arrays
        Where they are, and which of them are held out to judge by.
    units, before : Units
        The model's units, and the same from the readings that are not held out.
    guess : (m, N) array
        The public model's curve, to tell spikes by.
    phase : (N,) array
        Hour or month of each slot.
    boost : bool
        Whether trees correct the stack.
    coverage : float
        Of the intervals.
    per_hour : float
        Slots in an hour, 1 where a slot is longer.
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
    made = [finish(Y_before, used, shared, first_fit(shared, own)) for own in (True, False)]
    curve, plain = (found for found, _ in made)
    fit = candidates(Y_before, used, curve, plain, None, home.per_hour)
    curve, plain = (finish(Y, known, shared, own, steps=1)[0] for _, own in made)
    final = candidates(Y, known, curve, plain, fit.dynamics, home.per_hour)
    X, Z = fit.values, final.values
    names: tuple[str, ...] = NAMES
    if home.boost:
        own = len(LEAVE_ONE_OUT)
        judged = _judge(home.held, X[:own], Y_before, fit.bins, LEAVE_ONE_OUT)
        bases = (
            _mix(X[:own], judged.weights[judged.groups[fit.bins]]),
            _mix(Z[:own], judged.weights[judged.groups[final.bins]]),
        )
        masks = used, home.held, ~home.known
        trees = boosting.correct(fit, final, bases, Y_before, masks, home.phase, rng)
        X, Z = np.concatenate([X, trees[:1]]), np.concatenate([Z, trees[1:]])
        names = (*NAMES, "boosted")
    judged = _judge(home.held, X, Y_before, fit.bins, names)
    return _recovered(home, judged, (fit, X), (final, Z))


def _mix(values: Array, weights: Array) -> Array:
    """Weighted sum of candidates (C, ...) with weights (..., C)."""
    return np.einsum("c...,...c->...", values, weights)


@dataclass(frozen=True)
class _Judged:
    """Held-out entries: where they are, how far off each candidate was, how they are weighted.

    Attributes
    ----------
    at : pair of (n,) arrays
        Rows and slots.
    lengths : (n,) array
        Length of the run of hidden slots to which each belongs.
    near, bins : (n,) arrays
        Class of distance, and the group of classes that are judged together.
    groups : (classes,) array
        Group of each class.
    truth, values, errors : (n,), (C, n) and (C, n) arrays
        Readings in model units, candidates, and their clipped errors.
    weights : (groups, C) array
        Of the candidates, for the whole owner.
    weight : (n,) array
        Robust weight of each entry.
    scale : (groups,) array
        Mean weighted squared error of a candidate, times how many entries count for one.
    """

    at: tuple[Index, Index]
    lengths: Array
    near: Index
    bins: Index
    groups: Index
    truth: Array
    values: Array
    errors: Array
    weights: Array
    weight: Array
    scale: Array


def _judge(held: Mask, values: Array, Y: Array, near: Index, names: Sequence[str]) -> _Judged:
    """Candidates (C, m, N) at the held-out readings, and the weights that fit them best."""
    rows, slots = at = np.nonzero(held)
    _, starts, ends = runs(held)
    lengths = np.repeat(ends - starts, ends - starts).astype(float)
    groups = stacking.group_bins(np.bincount(near[at], minlength=stacking.BINS).astype(float))
    size, bins = int(groups[-1]) + 1, groups[near[at]]
    truth, there = Y[at], values[:, rows, slots]
    errors = np.clip(there - truth, -constants.ERROR_FARTHEST, constants.ERROR_FARTHEST)
    # Errors within a gap are correlated: so many of them count for one.
    entries = np.maximum(np.bincount(bins, minlength=size), 1)
    spread = np.maximum(np.bincount(bins, 2 * lengths - 1, size) / entries, 1.0)
    # A group is described by the default weights of its middle class of distance.
    middle = [int(np.median(np.flatnonzero(groups == g))) for g in range(size)]
    prior = W = stacking.default_weights(names)[middle]
    weight, scale = np.ones(len(bins)), 1.0
    for robust in (False, True) if len(bins) else ():
        if robust:  # squares of small errors, absolutes of large ones
            mixed = np.abs(_mix(errors, W[bins]))
            knee = max(constants.ERROR_KNEE * float(mixed.mean()), constants.ERROR_LEAST_KNEE)
            weight = 1.0 / np.maximum(mixed, knee)
            weight = weight / weight.mean()
        G = stacking.error_sums(errors, weight, bins, size)
        scale = max(float(np.trace(G.sum(axis=0))) / G.shape[-1] / len(bins), 1e-12)
        W = stacking.stacked_weights(G, prior, scale, spread)
    return _Judged(
        (rows, slots),
        lengths,
        near[at],
        bins,
        groups,
        truth,
        there,
        errors,
        W,
        weight,
        scale * spread,
    )


def _recovered(
    home: Home,
    judged: _Judged,
    before: tuple[Candidates, Array],
    after: tuple[Candidates, Array],
) -> Recovered:
    """The stack with its intervals, back in the readings' units.

    Parameters
    ----------
    before, after : pairs
        Candidates without and with the held-out readings, and their values with the trees' own.
    """
    m, (rows, slots) = len(home.raw), judged.at
    features = scale_features(*before)[:, rows, slots]
    half = (slots // int(constants.HALF_HOURS * home.per_hour)) % 2 == 0
    everything = np.ones(len(rows), bool)

    def weights(chosen: Mask) -> Array:
        """Of each sensor (m, groups, C), shrunk towards the owner's."""
        errors, weight = judged.errors[:, chosen], judged.weight[chosen]
        groups = rows[chosen], judged.bins[chosen]
        return stacking.local_weights(errors, weight, groups, m, judged.weights, judged.scale)

    # Honest errors for the intervals: each half of time judged by weights from the other.
    honest, hit = np.empty(len(rows)), np.empty(len(rows))
    for use in (~half, half):
        mine = weights(~use)[rows[use], judged.bins[use]]
        honest[use] = _mix(judged.values[:, use], mine)
    error, worth = judged.truth - honest, judged.lengths**-0.5

    def calibrated(chosen: Mask) -> Calibration:
        there = features[:, chosen], error[chosen], judged.near[chosen]
        level = home.coverage
        return calibrate(*there, stacking.BINS, level=level, worth=worth[chosen])

    for use in (~half, half):
        centre, scale = np.zeros(int(use.sum())), calibrated(~use)
        low, high = interval(centre, features[:, use], judged.near[use], scale)
        hit[use] = (low <= error[use]) & (error[use] <= high)
    final, Z = after
    estimate = _mix(Z, weights(everything)[np.arange(m)[:, None], judged.groups[final.bins]])
    lower, upper = interval(estimate, scale_features(*after), final.bins, calibrated(everything))
    steps = stacking.resolutions(home.raw, home.known)
    guessed = home.before.back(honest, judged.at)
    width = 0.0
    if len(rows):
        width = stacking.choose_width(guessed, steps[rows], home.raw[judged.at])
    holdout, inside = (np.full(home.raw.shape, np.nan) for _ in range(2))
    holdout[judged.at] = stacking.snap(guessed, steps[rows], width)
    inside[judged.at] = hit
    back = home.units.back
    filled = stacking.snap(back(estimate), steps[:, None], width)
    return Recovered(filled, back(lower), back(upper), holdout, inside)
