"""An owner's estimate of every entry: candidates with and without the network, stacked at home.

Every candidate estimates an entry *without that entry itself*, so its errors on held-out readings
tell how it will do in the gaps. Nothing here leaves the owner.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flfl.ensemble import candidates as local
from flfl.ensemble import intervals, personal, stacking
from flfl.ensemble.holdout import draw_holdout
from flfl.model.transforms import BACKWARD, FORWARD

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

HELD_OUT, MOST_HELD_OUT = 0.05, 0.15
"""Share of the readings that is held out to judge by, and the most that a small owner holds out."""
ENOUGH_HELD_OUT = 1500
"""Held-out readings that an owner would like to have."""
KNEE, LEAST_KNEE = 0.2, 1e-3
"""Errors below this share of the mean absolute error count as squares, above as absolutes."""
FARTHEST = 5.0
"""A held-out reading counts as missed by so many spreads at the most."""
SITE_STRENGTH, SENSOR_STRENGTH = 20.0, 40.0
HALF = 48
"""Slots of one half when held-out readings are judged by weights from the other half."""


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

    def back(self, X: Array) -> Array:
        """Model units to readings (m, N)."""
        return BACKWARD[self.transform](X * self.scale + self.offset)

    def back_at(self, x: Array, rows: Index, slots: Index) -> Array:
        """The same for some entries (n,)."""
        return BACKWARD[self.transform](x * self.scale + self.offset[rows, slots])


@dataclass(frozen=True)
class Home:
    """What an owner has at home.

    Attributes
    ----------
    raw : (m, N) clean readings in their units
    known, held : (m, N) where they are, and which of them are held out to judge by
    units, before : to the model's units, and the same from the readings that are not held out
    guess : (m, N) the public model's curve, to tell spikes by
    phase : (N,) hour or month of each slot
    boost : whether trees correct the stack
    coverage : of the intervals
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

    @cached_property
    def Y(self) -> Array:  # noqa: N802 - the symbol of the maths
        """Readings in the model's units, 0 where unknown (m, N)."""
        return self.units.forward(self.raw, self.known)

    @cached_property
    def Y_before(self) -> Array:  # noqa: N802
        """The same in units that know nothing of the held-out readings."""
        return self.before.forward(self.raw, self.known)


def draw(known: Mask, rng: np.random.Generator) -> Mask:
    """Readings to hold out: a small owner holds out a larger share."""
    share = np.clip(ENOUGH_HELD_OUT / max(int(known.sum()), 1), HELD_OUT, MOST_HELD_OUT)
    return draw_holdout(known, float(share), rng)


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


def recover(home: Home, shared: personal.Shared, rng: np.random.Generator) -> Recovered:
    """Every entry of an owner's table, from its own readings and the network's factors."""
    calm = ~local.spikes(home.Y, home.known, home.guess)
    known, used = home.known & calm, home.known & calm & ~home.held
    starts = personal.first_fit(shared), personal.first_fit(shared, own_states=False)
    made = [personal.finish(home.Y_before, used, shared, start) for start in starts]
    curve, plain = (found for found, _ in made)
    fit = local.candidates(home.Y_before, used, curve, plain)
    curve, plain = (personal.finish(home.Y, known, shared, own, steps=1)[0] for _, own in made)
    final = local.candidates(home.Y, known, curve, plain, fit.dynamics)
    stack = _Stack(home, (used, home.held), fit, final)
    if home.boost:
        stack = stack.boosted(rng)
    return stack.recovered()


@dataclass(frozen=True)
class _Stack:
    """Candidates at held-out entries (``fit``) and everywhere (``final``), and how they combine."""

    home: Home
    masks: tuple[Mask, Mask]
    fit: local.Candidates
    final: local.Candidates
    extra: tuple[Array, Array] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return local.NAMES if self.extra is None else (*local.NAMES, "boosted")

    def values(self) -> tuple[Array, Array]:
        """Candidates (C, m, N) without the held-out readings, and with them."""
        if self.extra is None:
            return self.fit.values, self.final.values
        X, Z = self.extra
        return np.concatenate([self.fit.values, X[None]]), np.concatenate(
            [self.final.values, Z[None]]
        )

    def boosted(self, rng: np.random.Generator) -> _Stack:
        """With one more candidate: trees that correct the mixture of the others."""
        used, held = self.masks
        names = local.LEAVE_ONE_OUT
        judged = _Judged.of(self, len(names))
        W = judged.weights(stacking.default_weights(names)[judged.first])[0]
        X, Z = self.values()
        bases = (
            stacking.combine(X[: len(names)], W, judged.groups[self.fit.bins]),
            stacking.combine(Z[: len(names)], W, judged.groups[self.final.bins]),
        )
        masks = used, held, ~self.home.known
        made = local.boosted(
            self.fit, self.final, bases, self.home.Y_before, masks, self.home.phase, rng
        )
        return _Stack(self.home, self.masks, self.fit, self.final, made)

    def recovered(self) -> Recovered:
        """The stack with its intervals, back in the readings' units."""
        home, judged = self.home, _Judged.of(self, len(self.names))
        X, Z = self.values()
        prior = stacking.default_weights(self.names)[judged.first]
        network, weight, scale = judged.weights(prior)
        rows = judged.at[0]
        everything = np.ones(len(rows), bool)
        W = judged.deviate(network, weight, scale, everything, len(home.Y))
        estimate = stacking.combine(
            Z, W, np.arange(len(home.Y))[:, None], judged.groups[self.final.bins]
        )
        # Honest errors for the intervals: each half of time judged by weights from the other.
        honest = np.empty(len(rows))
        for train, use in judged.halves():
            half = judged.deviate(network, weight, scale, train, len(home.Y))
            honest[use] = stacking.combine(judged.values[:, use], half, rows[use], judged.bins[use])
        return self._with_intervals(judged, estimate, honest, X, Z)

    def _with_intervals(
        self, judged: _Judged, estimate: Array, honest: Array, X: Array, Z: Array
    ) -> Recovered:
        home = self.home
        rows, slots = judged.at
        error = home.Y_before[judged.at] - honest
        features = local.scale_features(self.fit, X)[:, rows, slots]
        near = self.fit.bins[judged.at]
        lengths = stacking.run_lengths(rows, slots)

        def calibrate(chosen: Mask) -> intervals.Calibration:
            return intervals.calibrate(
                features[:, chosen],
                error[chosen],
                near[chosen],
                stacking.BINS,
                level=home.coverage,
                runs=lengths[chosen],
            )

        made = calibrate(np.ones(len(error), bool))
        lower, upper = intervals.interval(
            estimate, local.scale_features(self.final, Z), self.final.bins, made
        )
        hit = np.empty(len(error))
        for train, use in judged.halves():
            low, high = intervals.interval(
                np.zeros(int(use.sum())), features[:, use], near[use], calibrate(train)
            )
            hit[use] = (low <= error[use]) & (error[use] <= high)
        steps = stacking.resolutions(home.raw, home.known)
        guessed = home.before.back_at(honest, rows, slots)
        sums = stacking.snap_sums(guessed, steps[rows], home.raw[judged.at])
        width = stacking.choose_width(sums) if len(rows) else 0.0
        holdout, inside = (np.full(home.Y.shape, np.nan) for _ in range(2))
        holdout[judged.at] = stacking.snap(guessed, steps[rows], width)
        inside[judged.at] = hit
        back = home.units.back
        filled = stacking.snap(back(estimate), steps[:, None], width)
        return Recovered(filled, back(lower), back(upper), holdout, inside)


@dataclass(frozen=True)
class _Judged:
    """Held-out entries: where they are, what each candidate said, how far off it was."""

    at: tuple[Index, Index]
    values: Array
    errors: Array
    groups: Index
    first: Index
    bins: Index
    spread: Array

    @classmethod
    def of(cls, stack: _Stack, count: int) -> _Judged:
        """The first ``count`` candidates at the held-out readings."""
        rows, slots = np.nonzero(stack.masks[1])
        at = rows, slots
        near = stack.fit.bins[at]
        entries = np.bincount(near, minlength=stacking.BINS).astype(float)
        groups = stacking.group_bins(entries)
        size = int(groups[-1]) + 1
        bins = groups[near]
        values = stack.values()[0][:count, rows, slots]
        errors = np.clip(values - stack.home.Y_before[at], -FARTHEST, FARTHEST)
        # Errors within a gap are correlated: so many of them count for one.
        runs = np.bincount(bins, 2 * stacking.run_lengths(rows, slots) - 1, size)
        spread = np.maximum(runs / np.maximum(np.bincount(bins, minlength=size), 1), 1.0)
        # A group is described by the default weights of its middle class of distance.
        first = np.array([int(np.median(np.flatnonzero(groups == g))) for g in range(size)])
        return cls(at, values, errors, groups, first, bins, spread)

    def weights(self, prior: Array) -> tuple[Array, Array, Array]:
        """Weights (groups, C), a robust weight for each entry, and the scale of the errors."""
        n = len(self.bins)
        if not n:
            return prior, np.ones(0), np.ones(len(prior))
        weight = np.ones(n)
        for knee in (None, KNEE):
            size = len(prior)
            G = stacking.error_sums(self.errors, weight, self.bins, size)
            scale = max(float(np.trace(G.sum(axis=0))) / G.shape[-1] / n, 1e-12)
            W = stacking.stacked_weights(G, prior, scale, self.spread)
            if knee is not None:
                mixed = stacking.combine(self.errors, W, self.bins)
                weight = stacking.robust_weight(
                    mixed, max(knee * float(np.abs(mixed).mean()), LEAST_KNEE)
                )
                weight = weight / weight.mean()
        G = stacking.error_sums(self.errors, weight, self.bins, size)
        scale = max(float(np.trace(G.sum(axis=0))) / G.shape[-1] / n, 1e-12)
        W = stacking.stacked_weights(G, prior, scale, self.spread)
        return W, weight, scale * self.spread

    def deviate(
        self, network: Array, weight: Array, scale: Array, chosen: Mask, n_sensors: int
    ) -> Array:
        """Weights of each sensor (m, groups, C), shrunk towards the owner's."""
        return stacking.local_weights(
            self.errors[:, chosen],
            weight[chosen],
            self.bins[chosen],
            self.at[0][chosen],
            n_sensors,
            network,
            scale,
            site_strength=SITE_STRENGTH,
            sensor_strength=SENSOR_STRENGTH,
        )

    def halves(self) -> list[tuple[Mask, Mask]]:
        """Held-out entries to fit on and to judge, twice; no run of slots is split much."""
        half = (self.at[1] // HALF) % 2 == 0
        return [(half, ~half), (~half, half)]
