"""One stack: an owner's estimate of every entry from candidates with or without the network.

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
from flfl.ensemble.personal import Shared, finish, follow
from flfl.model.transforms import BACKWARD, FORWARD

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

MIX = "c...,...c->..."
"""Weighted sum of candidates (C, ...) with weights (..., C)."""


@dataclass(frozen=True)
class Units:
    """From readings to model units, ``(T(y) - offset) / scale``, and back; offset (m, N)."""

    transform: str
    offset: Array
    scale: float

    def forward(self, raw: Array) -> Array:
        """Readings, or limits of them, in model units (m, N)."""
        return (FORWARD[self.transform](raw) - self.offset) / self.scale

    def centred(self, raw: Array, known: Mask) -> Array:
        """Readings in model units, zero where unknown (m, N)."""
        return np.where(known, self.forward(np.where(known, raw, 0.0)), 0.0)

    def back(self, X: Array, limits: tuple[Array, Array] | None = None) -> Array:
        """Model units to readings (m, N), between ``limits`` of readings (m, 1) each.

        They are kept before the transform is undone: it may blow up what lies beyond them.
        """
        if limits is None:
            return BACKWARD[self.transform](X * self.scale + self.offset)
        low, high = limits
        inside = np.clip(X, self.forward(low), self.forward(high))
        return np.clip(BACKWARD[self.transform](inside * self.scale + self.offset), low, high)


@dataclass(frozen=True)
class Home:
    """What an owner has at home, (m, N) unless said otherwise.

    ``raw`` are clean readings in their units, ``known`` where they are and ``held`` which of them
    are held out to judge by; ``limits`` (2, m, 1) what is plausible for each sensor; ``phase`` (N,)
    hour or month of each slot; ``boost`` whether trees correct the stack; ``coverage`` that of the
    intervals; ``per_hour`` slots in an hour, 1 where a slot is longer.
    """

    raw: Array
    known: Mask
    held: Mask
    limits: Array
    phase: Index
    boost: bool = True
    coverage: float = 0.9
    per_hour: float = 1.0


@dataclass(frozen=True)
class Frame:
    """How readings are modelled: with the network or by the owner itself.

    ``units`` are the model's, ``before`` the same from the readings that are not held out;
    ``shared`` is what the network says (None: nothing), ``guess`` (m, N) the public model's curve,
    to tell spikes by.
    """

    units: Units
    before: Units
    guess: Array
    shared: Shared | None = None


@dataclass(frozen=True)
class Stack:
    """An estimate of every entry (m, N) in the readings' units, and what tells how good it is.

    ``honest`` (n,) are estimates of the held-out readings with weights that were fitted on the
    other half of them, ``calm`` (m, N) the readings that are no spikes. For the intervals:
    ``features`` (F, m, N) and ``near`` (m, N) without the held-out readings and with them.
    """

    frame: Frame
    estimate: Array
    honest: Array
    calm: Mask
    features: tuple[Array, Array]
    near: tuple[Index, Index]


def halves(home: Home) -> Mask:
    """Which held-out readings (n,) are in one of two halves in time; each judges the other."""
    return (np.nonzero(home.held)[1] // int(constants.HALF_HOURS * home.per_hour)) % 2 == 0


def stack(home: Home, frame: Frame, rng: np.random.Generator) -> Stack:
    """Every entry of an owner's table, from its own readings and what the network says."""
    low, high = home.limits
    Y, Y_before = (u.centred(home.raw, home.known) for u in (frame.units, frame.before))
    calm = ~spikes(Y, home.known, frame.guess)
    used, known = home.known & calm & ~home.held, home.known & calm
    fit, final = _candidates(home, frame, (Y_before, used), (Y, known))
    X, Z = (
        np.clip(found.values, units.forward(low), units.forward(high))
        for found, units in ((fit, frame.before), (final, frame.units))
    )
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
    honest, estimate = _stacked(home, errors, judged, (fit, X), (final, Z))
    return Stack(
        frame,
        frame.units.back(estimate, (low, high)),
        frame.before.back(honest, (low, high))[home.held],
        calm,
        (scale_features(fit, X), scale_features(final, Z)),
        (fit.bins, final.bins),
    )


def _candidates(
    home: Home, frame: Frame, before: tuple[Array, Mask], after: tuple[Array, Mask]
) -> tuple[Candidates, Candidates]:
    """Candidates from the readings that are not held out, and with what was learned, from all."""
    shared = frame.shared
    if shared is None:
        fit = candidates(*before, None, None, home.per_hour)
        return fit, candidates(*after, None, fit.dynamics, home.per_hour)
    curve, followed = follow(*before, shared)
    plain, finished = finish(*before, shared)
    fit = candidates(*before, (curve, plain), None, home.per_hour)
    curve, _ = follow(*after, shared, followed)
    plain, _ = finish(*after, shared, finished, steps=1)
    return fit, candidates(*after, (curve, plain), fit.dynamics, home.per_hour)


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


def _stacked(
    home: Home,
    errors: Array,
    judged: tuple[Index, Array, Array, Array],
    before: tuple[Candidates, Array],
    after: tuple[Candidates, Array],
) -> tuple[Array, Array]:
    """The stack at the held-out readings, honestly, and everywhere, (m, N) in model units.

    ``errors`` (C, n) are those of the held-out readings; ``before`` and ``after`` candidates
    without and with them, and their values with the trees' own. Each half of time is judged by
    weights from the other.
    """
    (fit, X), (final, Z), held, m = before, after, home.held, len(home.raw)
    (groups, network, weight, scale), rows = judged, np.nonzero(held)[0]
    near, half = groups[fit.bins[held]], halves(home)
    # Weights of each sensor (m, groups, C), shrunk towards the owner's.
    weights = []
    for part in (half, ~half, np.ones(len(rows), bool)):
        at = rows[part], near[part]
        own = stacking.local_weights(errors[:, part], weight[part], at, m, network, scale)
        weights.append(own)
    found, honest = np.empty(len(rows)), np.zeros(held.shape)
    for use, W in ((~half, weights[0]), (half, weights[1])):
        found[use] = np.einsum(MIX, X[:, held][:, use], W[rows[use], near[use]])
    honest[held] = found
    return honest, np.einsum(MIX, Z, weights[2][np.arange(m)[:, None], groups[final.bins]])
