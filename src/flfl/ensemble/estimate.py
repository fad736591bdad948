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
from flfl.ensemble.personal import Fit, Shared, finish, follow, regress, told
from flfl.model.state_space import Posterior
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

    def apart(self, one: Array, other: Array) -> Array:
        """How far readings are apart, in model units."""
        change = FORWARD[self.transform]
        return (change(one) - change(other)) / self.scale

    def at(self, rows: Index, slots: Index) -> Units:
        """The same for some entries (n,)."""
        return replace(self, offset=self.offset[rows, slots])

    def back(self, X: Array, limits: tuple[Array, Array] | None = None) -> Array:
        """Model units to readings (m, N), between ``limits`` of readings (m, 1) each; or (n,).

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

    ``raw`` are clean readings in their units, ``known`` where they are and ``held`` (D, m, N) which
    of them are held out to judge by, in one or several draws; ``limits`` (2, m, 1) what is
    plausible for each sensor; ``phase`` (N,) hour or month of each slot; ``boost`` whether trees
    correct the stack; ``coverage`` that of the intervals; ``per_hour`` slots in an hour, 1 where a
    slot is longer.
    """

    raw: Array
    known: Mask
    held: Mask
    limits: Array
    phase: Index
    boost: bool = True
    coverage: float = 0.9
    per_hour: float = 1.0

    @property
    def places(self) -> tuple[Index, Index, Index]:
        """Draw, sensor and slot of each held-out reading (n,)."""
        draw, sensor, slot = np.nonzero(self.held)
        return draw, sensor, slot

    @property
    def truth(self) -> Array:
        """The held-out readings (n,)."""
        _, sensor, slot = self.places
        return self.raw[sensor, slot]

    @property
    def runs(self) -> tuple[Index, Index]:
        """Which run of held-out slots each held-out reading (n,) is in, and the runs' lengths."""
        _, starts, ends = runs(self.held.reshape(-1, self.held.shape[-1]))
        lengths = ends - starts
        return np.repeat(np.arange(len(lengths)), lengths), lengths

    @property
    def stretches(self) -> Index:
        """Which run of slots that some draw holds out each held-out reading (n,) is in: what is
        held out twice is evidence once."""
        ever = self.held.any(axis=0)
        _, sensor, slot = self.places
        begins = ever & ~np.pad(ever, ((0, 0), (1, 0)))[:, :-1]
        return np.cumsum(begins, dtype=np.intp).reshape(ever.shape)[sensor, slot]


@dataclass(frozen=True)
class Frame:
    """How readings are modelled: with the network or by the owner itself.

    ``units`` are the model's, ``before`` the same from the readings that a draw does not hold out;
    ``shared`` is what the network says (None: nothing), ``guess`` (m, N) the public model's curve,
    to tell spikes by.
    """

    units: Units
    before: tuple[Units, ...]
    guess: Array
    shared: Shared | None = None


@dataclass(frozen=True)
class Stack:
    """An estimate of every entry (m, N) in the readings' units, and what tells how good it is.

    ``honest`` (n,) are estimates of the held-out readings with weights that were fitted on the
    other half of them, ``calm`` (m, N) the readings that are no spikes. For the intervals:
    ``features`` (F, n) and ``near`` (n,) at the held-out readings, made without them, and (F, m, N)
    and (m, N) with them. ``site`` are the owner's own curves, without those of each draw and with
    all. ``told`` (m, N) is how much less the network tells in a slot than where it is judged, from
    1 to 0.
    """

    frame: Frame
    estimate: Array
    honest: Array
    calm: Mask
    features: tuple[Array, Array]
    near: tuple[Index, Index]
    site: tuple[tuple[Curve, ...], Curve]
    told: Array


@dataclass(frozen=True)
class Held:
    """The candidates (C, n) at the held-out readings, made without them; their errors there, and
    what tells of these (:class:`Stack`)."""

    values: Array
    errors: Array
    near: Index
    features: Array


@dataclass(frozen=True)
class Heard:
    """What is learned with the network: loadings on the factors as it has them, what it then says
    of the sensors (m, N), the joint model of what that leaves, and the personal fit."""

    fit: Fit
    said: Array
    left: Joint
    finished: Fit


@dataclass(frozen=True)
class Learned:
    """What is learned without the held-out readings: with the network, the joint model of what it
    leaves, the owner's own curves, and the trees with the weights of what they correct."""

    heard: Heard | None
    rest: Joint
    site: tuple[Curve, Joint | None]
    trees: tuple[Trees, Index, Array] | None


def halves(home: Home) -> Mask:
    """Which held-out readings (n,) are in one of two halves in time; each judges the other."""
    return (home.places[2] // int(constants.HALF_HOURS * home.per_hour)) % 2 == 0


def stack(home: Home, frame: Frame, rng: np.random.Generator, own: Stack | None = None) -> Stack:
    """Every entry of an owner's table, from its own readings and what the network says.

    ``own`` is the stack of the owner by itself: where the units are alike, its joint model is used.
    """
    Y = frame.units.centred(home.raw, home.known)
    calm = ~spikes(Y, home.known, frame.guess)
    before, after = _own_curves(frame, own)
    post = None if frame.shared is None else frame.shared.posterior
    draws = [_learn(home, frame, post, n, calm, before[n], rng) for n in range(len(home.held))]
    held, learned = _joined([found for found, _ in draws]), draws[0][1]
    final, site = _final(home, frame, Y, home.known & calm, after, learned)
    Z = final.values
    if learned.trees is not None:
        trees, groups, W = learned.trees
        base = np.einsum(MIX, Z[: len(LEAVE_ONE_OUT)], W[groups[final.bins]])
        Z = np.concatenate([Z, trees.corrected(final, base, ~home.known)[None]])
    honest, estimate = _stacked(home, held, final.bins, Z)
    return Stack(
        frame,
        frame.units.back(estimate, (home.limits[0], home.limits[1])),
        _readings(home, frame, honest),
        calm,
        (held.features, scale_features(final.deviations, final.silent, Z)),
        (held.near, final.bins),
        (tuple(one.site[0] for _, one in draws), site),
        _told(home, frame.shared, post, learned),
    )


def _told(home: Home, shared: Shared | None, post: Posterior | None, learned: Learned) -> Array:
    """How much the network tells in each slot (m, N), relative to a sensor's held-out readings."""
    if shared is None or post is None or learned.heard is None:
        return np.ones(home.raw.shape)
    share, (_, sensor, slot) = told(learned.heard.fit.P, post, shared.dynamics), home.places
    usual = np.array(
        [
            np.median(share[i, slot[sensor == i]]) if (sensor == i).any() else 0.0
            for i in range(len(share))
        ]
    )
    return np.clip(share / np.maximum(usual, 1e-12)[:, None], 0.0, 1.0)


def _readings(home: Home, frame: Frame, honest: Array) -> Array:
    """Estimates of the held-out readings (n,) from model units, each in those of its draw."""
    draw, rows, slots = home.places
    low, high = home.limits[:, rows, 0]
    parts = []
    for n, units in enumerate(frame.before):
        at = draw == n
        there = units.at(rows[at], slots[at])
        parts.append(there.back(honest[at], (low[at], high[at])))
    return np.concatenate(parts)


def _joined(draws: Sequence[Held]) -> Held:
    """The held-out readings of all draws, one after the other."""
    return Held(
        np.concatenate([one.values for one in draws], axis=1),
        np.concatenate([one.errors for one in draws], axis=1),
        np.concatenate([one.near for one in draws]),
        np.concatenate([one.features for one in draws], axis=1),
    )


def _own_curves(frame: Frame, own: Stack | None) -> tuple[Sequence[Curve | None], Curve | None]:
    """The owner's own curves in a frame's units, where these differ by a factor only."""
    if own is not None:
        new, old = frame.units, own.frame.units
        if new.transform == old.transform and np.array_equal(new.offset, old.offset):
            before, after = own.site
            factor = old.scale / new.scale
            return [curve.times(factor) for curve in before], after.times(factor)
    return [None] * len(frame.before), None


def _learn(
    home: Home,
    frame: Frame,
    post: Posterior | None,
    draw: int,
    calm: Mask,
    site: Curve | None,
    rng: np.random.Generator,
) -> tuple[Held, Learned]:
    """Candidates from the calm readings that a draw does not hold out, looked at where they are."""
    shared, held, units = frame.shared, home.held[draw], frame.before[draw]
    joint, heard, curves = None, None, None
    Y, used = units.centred(home.raw, home.known), home.known & calm & ~held
    if site is None:
        site, joint = fit_joint(Y, used, pull=False)
    if shared is not None and post is not None:
        fit = regress(Y, used, post, shared.r)
        said = fit.P @ post.mean.T
        curve, left = follow(Y, used, said)
        plain, finished = finish(Y, used, shared, fit)
        heard, curves = Heard(fit, said, left, finished), (curve, plain)
    made = _clipped(home, units, candidates(Y, used, site, curves, None, home.per_hour))
    values, near, truth = made.values[:, held], made.bins[held], Y[held]
    trees = None
    if home.boost:
        first = len(LEAVE_ONE_OUT)
        one = replace(home, held=held[None])
        groups, W, _, _ = _judge(one, _errors(values[:first], truth), near, LEAVE_ONE_OUT)
        base = np.einsum(MIX, made.values[:first], W[groups[made.bins]])
        trees = boosting.train(made, base, Y, used, home.phase, rng), groups, W
        boosted = trees[0].corrected(made, base, held)[held]
        values = np.concatenate([values, boosted[None]])
    features = scale_features(made.deviations[:, held], made.silent[held], values)
    found = Held(values, _errors(values, truth), near, features)
    return found, Learned(heard, made.rest, (site, joint), trees)


def _final(
    home: Home, frame: Frame, Y: Array, known: Mask, site: Curve | None, learned: Learned
) -> tuple[Candidates, Curve]:
    """Candidates with what was learned, from all readings, and the owner's own curves."""
    shared, heard, curves = frame.shared, learned.heard, None
    if site is None:
        site, _ = fit_joint(Y, known, learned.site[1], pull=False)
    if shared is not None and heard is not None:
        curve, _ = follow(Y, known, heard.said, heard.left)
        plain, _ = finish(Y, known, shared, heard.finished, steps=1)
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
    run, lengths_of = home.runs
    lengths = lengths_of[run].astype(float)
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
    """The stack at the held-out readings (n,), honestly, and everywhere (m, N), in model units.

    ``bins`` (m, N) and ``Z`` (C, m, N) are classes of distance and candidates from all readings.
    Each half of time is judged by weights from the other.
    """
    m, half, (_, rows, _) = len(home.raw), halves(home), home.places
    names = (*NAMES, "boosted")[: len(found.values)]
    groups, common, weight, scale = _judge(home, found.errors, found.near, names)
    near = groups[found.near]
    # Weights of each sensor (m, groups, C), shrunk towards the owner's.
    weights = []
    for part in (half, ~half, np.ones(len(rows), bool)):
        at = rows[part], near[part]
        own = stacking.local_weights(found.errors[:, part], weight[part], at, m, common, scale)
        weights.append(own)
    honest = np.empty(len(rows))
    for use, W in ((~half, weights[0]), (half, weights[1])):
        honest[use] = np.einsum(MIX, found.values[:, use], W[rows[use], near[use]])
    return honest, np.einsum(MIX, Z, weights[2][np.arange(m)[:, None], groups[bins]])
