"""One stack: an owner's estimate of every entry from candidates with or without the network.

Every candidate estimates an entry *without that entry itself*, so its errors on held-out readings
tell how it will do in the gaps. Nothing here leaves the owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flfl import constants
from flfl.ensemble import boosting, stacking
from flfl.ensemble.boosting import Trees
from flfl.ensemble.candidates import (
    LEAVE_ONE_OUT,
    NAMES,
    Candidates,
    candidates,
    scale_features,
    spikes,
)
from flfl.ensemble.holdout import runs
from flfl.ensemble.joint import Curve, Joint, fit_joint
from flfl.ensemble.personal import Fit, Shared, finish, follow
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
    ``features`` (F, n) and ``near`` (n,) at the held-out readings, made without them, and (F, m, N)
    and (m, N) with them. ``site`` are the owner's own curves, without and with them.
    """

    frame: Frame
    estimate: Array
    honest: Array
    calm: Mask
    features: tuple[Array, Array]
    near: tuple[Index, Index]
    site: tuple[Curve, Curve]


@dataclass(frozen=True)
class Held:
    """The candidates (C, n) at the held-out readings, made without them; their errors there, and
    what tells of these (:class:`Stack`)."""

    values: Array
    errors: Array
    near: Index
    features: Array


@dataclass(frozen=True)
class Learned:
    """What is learned without the held-out readings: the network's curves and the joint model of
    what they leave, the owner's own curves, and the trees with the weights of what they correct."""

    followed: tuple[Array, Joint] | None
    finished: Fit | None
    rest: Joint
    site: tuple[Curve, Joint | None]
    trees: tuple[Trees, Index, Array] | None


def halves(home: Home) -> Mask:
    """Which held-out readings (n,) are in one of two halves in time; each judges the other."""
    return (np.nonzero(home.held)[1] // int(constants.HALF_HOURS * home.per_hour)) % 2 == 0


def stack(home: Home, frame: Frame, rng: np.random.Generator, own: Stack | None = None) -> Stack:
    """Every entry of an owner's table, from its own readings and what the network says.

    ``own`` is the stack of the owner by itself: where the units are alike, its joint model is used.
    """
    low, high = home.limits
    Y, Y_before = (u.centred(home.raw, home.known) for u in (frame.units, frame.before))
    calm = ~spikes(Y, home.known, frame.guess)
    given = _own_curves(frame, own)
    held, learned = _learn(home, frame, Y_before, home.known & calm & ~home.held, given[0], rng)
    final, site = _final(home, frame, Y, home.known & calm, given[1], learned)
    Z = final.values
    if learned.trees is not None:
        trees, groups, W = learned.trees
        base = np.einsum(MIX, Z[: len(LEAVE_ONE_OUT)], W[groups[final.bins]])
        Z = np.concatenate([Z, trees.corrected(final, base, ~home.known)[None]])
    honest, estimate = _stacked(home, held, final.bins, Z)
    return Stack(
        frame,
        frame.units.back(estimate, (low, high)),
        frame.before.back(honest, (low, high))[home.held],
        calm,
        (held.features, scale_features(final.deviations, final.silent, Z)),
        (held.near, final.bins),
        (learned.site[0], site),
    )


def _own_curves(frame: Frame, own: Stack | None) -> tuple[Curve | None, Curve | None]:
    """The owner's own curves in a frame's units, where these differ by a factor only."""
    if own is None:
        return None, None
    new, old = frame.units, own.frame.units
    if new.transform != old.transform or not np.array_equal(new.offset, old.offset):
        return None, None
    before, after = (curve.times(old.scale / new.scale) for curve in own.site)
    return before, after


def _learn(
    home: Home, frame: Frame, Y: Array, used: Mask, site: Curve | None, rng: np.random.Generator
) -> tuple[Held, Learned]:
    """Candidates from the readings that are not held out (m, N), looked at where they are."""
    shared, held, joint, followed, finished = frame.shared, home.held, None, None, None
    if site is None:
        site, joint = fit_joint(Y, used, pull=False)
    curves = None
    if shared is not None:
        curve, followed = follow(Y, used, shared)
        plain, finished = finish(Y, used, shared)
        curves = curve, plain
    made = _clipped(home, frame.before, candidates(Y, used, site, curves, None, home.per_hour))
    values, near, truth = made.values[:, held], made.bins[held], Y[held]
    trees = None
    if home.boost:
        first = len(LEAVE_ONE_OUT)
        groups, W, _, _ = _judge(home, _errors(values[:first], truth), near, LEAVE_ONE_OUT)
        base = np.einsum(MIX, made.values[:first], W[groups[made.bins]])
        trees = boosting.train(made, base, Y, used, home.phase, rng), groups, W
        boosted = trees[0].corrected(made, base, held)[held]
        values = np.concatenate([values, boosted[None]])
    features = scale_features(made.deviations[:, held], made.silent[held], values)
    found = Held(values, _errors(values, truth), near, features)
    return found, Learned(followed, finished, made.rest, (site, joint), trees)


def _final(
    home: Home, frame: Frame, Y: Array, known: Mask, site: Curve | None, learned: Learned
) -> tuple[Candidates, Curve]:
    """Candidates with what was learned, from all readings, and the owner's own curves."""
    shared, curves = frame.shared, None
    if site is None:
        site, _ = fit_joint(Y, known, learned.site[1], pull=False)
    if shared is not None:
        curve, _ = follow(Y, known, shared, learned.followed)
        plain, _ = finish(Y, known, shared, learned.finished, steps=1)
        curves = curve, plain
    made = candidates(Y, known, site, curves, learned.rest, home.per_hour)
    return _clipped(home, frame.units, made), site


def _clipped(home: Home, units: Units, made: Candidates) -> Candidates:
    """Candidates within what is plausible."""
    low, high = (units.forward(limit) for limit in home.limits)
    return replace(made, values=np.clip(made.values, low, high, out=made.values))


def _errors(values: Array, truth: Array) -> Array:
    return np.clip(values - truth, -constants.ERROR_FARTHEST, constants.ERROR_FARTHEST)


def _judge(
    home: Home, errors: Array, near: Index, names: Sequence[str]
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
    _, starts, ends = runs(home.held)
    lengths = np.repeat(ends - starts, ends - starts).astype(float)
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


def _stacked(home: Home, found: Held, bins: Index, Z: Array) -> tuple[Array, Array]:
    """The stack at the held-out readings, honestly, and everywhere, (m, N) in model units.

    ``bins`` (m, N) and ``Z`` (C, m, N) are classes of distance and candidates from all readings.
    Each half of time is judged by weights from the other.
    """
    held, m, half = home.held, len(home.raw), halves(home)
    names = (*NAMES, "boosted")[: len(found.values)]
    groups, common, weight, scale = _judge(home, found.errors, found.near, names)
    near, rows = groups[found.near], np.nonzero(held)[0]
    # Weights of each sensor (m, groups, C), shrunk towards the owner's.
    weights = []
    for part in (half, ~half, np.ones(len(rows), bool)):
        at = rows[part], near[part]
        own = stacking.local_weights(found.errors[:, part], weight[part], at, m, common, scale)
        weights.append(own)
    honest = np.zeros(held.shape)
    each = np.empty(len(rows))
    for use, W in ((~half, weights[0]), (half, weights[1])):
        each[use] = np.einsum(MIX, found.values[:, use], W[rows[use], near[use]])
    honest[held] = each
    return honest, np.einsum(MIX, Z, weights[2][np.arange(m)[:, None], groups[bins]])
