"""An owner's side of a run: the clean readings, and what it lets out of them.

Only :class:`Owner` holds clean readings. It gives :class:`Outgoing` to the client, which makes
every message from that alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from flfl.ensemble.interpolators import interpolate_linear, neighbours
from flfl.model.transforms import BACKWARD, FORWARD, SLOPE, fit_offsets, season_rows
from flfl.protocol.copier import (
    LARGEST,
    AddedError,
    Copier,
    Copies,
    Readings,
    Scale,
    is_reading,
    ladder_up,
)
from flfl.protocol.copy_store import CopyError, CopyStore, Pin

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
Trial = tuple[str, int]

SEASON_GAIN = 0.98
"""A season must lower the error to this share to be voted for."""
LEAST_SHARE = 0.5
"""The pilot lowers a sensor's noise to this share at the most."""
LEAST_ERROR = 1e-30
"""Errors below that are rounding."""


@dataclass(frozen=True)
class Table:
    """What a site knows of its own sensors.

    Attributes
    ----------
    name : of the site
    ids : permanent names of the sensors
    raw : (m, N) readings in their units, anything where unknown
    known : (m, N)
    places : (m, 2) on the published map, None without positions
    positions : (N,) elapsed steps of the slots
    instants : (N,) UTC seconds of the slots
    step : seconds of a step
    """

    name: str
    ids: Sequence[str]
    raw: Array
    known: Mask
    places: Array | None
    positions: Array
    instants: Index
    step: int = 3600


@dataclass(frozen=True)
class Outgoing:
    """All that an owner lets out. Messages are functions of it and of public numbers.

    Attributes
    ----------
    sensors : (m, 4) digests of the permanent ids; places : (m, 2)
    vote, negative : the transform and season it prefers, and whether it has negative readings
    error : (m,) error in time on the ladder, 0 for sensors that stay at home
    copies : (m, N) noisy copies on the transformed scale, NaN where there is none
    sigma : (m, N) their added errors, 0 where there is none
    """

    sensors: Index
    places: Array
    vote: int = 0
    negative: bool = False
    error: Array = field(default_factory=lambda: np.empty(0))
    copies: Array = field(default_factory=lambda: np.empty((0, 0)))
    sigma: Array = field(default_factory=lambda: np.empty((0, 0)))


class Owner:
    """Clean readings with their copier.

    Parameters
    ----------
    added_error : the owner's own setting, which no plan lowers
    """

    def __init__(self, table: Table, copier: Copier, added_error: AddedError) -> None:
        self.table = table
        self._copier, self._added = copier, added_error
        places = np.zeros((len(table.ids), 2)) if table.places is None else table.places
        self.public = Outgoing(digests(table.ids), places)

    @property
    def store(self) -> CopyStore:
        """Where its copies are kept."""
        return self._copier.store

    def in_units(self, out: Outgoing, transform: str) -> Array:
        """Median added error of each sensor's copies, in the readings' units at its median reading;
        NaN where it has no copies (m,)."""
        t = self.table
        made = np.isfinite(out.copies)
        slope = SLOPE[transform](_medians(t.raw, t.known))
        return np.asarray(_medians(out.sigma, made) / slope)

    def vote(self, trials: Sequence[Trial]) -> Outgoing:
        """Which transform and season this owner's readings prefer: one vote a site, for ever."""
        t = self.table
        pins = [pin for pin in map(self.store.pinned, t.ids) if pin is not None]
        if self.store.vote is None and pins:
            self.store.cast(pins[0].transform, pins[0].season, negative=False)
        elif self.store.vote is None:
            known = is_reading(t.raw, t.known)
            errors = [interpolation_error(t.raw, known, trial, t.positions) for trial in trials]
            chosen = trials[choose_trial(errors, trials)]
            self.store.cast(*chosen, negative=bool((t.raw[known] < 0).any()))
        kept = self.store.vote
        assert kept is not None
        # A plan that does not have what it voted for gets the nearest that it has.
        like = [trials.index(x) for x in (kept[:2], (kept[0], 0)) if x in trials]
        return replace(self.public, vote=like[0] if like else 0, negative=kept[2])

    def copy(self, trial: Trial, slots: slice, wish: float, bound: Array | None = None) -> Outgoing:
        """Copies until the end of a stretch of slots, made once and for ever.

        Of the readings' scale nothing counts but a rung of the ladder, whatever multiple of it a
        network wishes for: else many wishes would find the scale itself. And it counts once, at
        a sensor's first copy: else many windows would find the readings.

        Parameters
        ----------
        trial : agreed transform and season
        wish : the network's added error, a multiple
        bound : (m,) what the public model leaves open of each sensor, from copies; None before
        """
        t = self.table
        readings = Readings(
            tuple(t.ids),
            t.instants,
            t.raw,
            t.known,
            Pin(trial[0], t.step, int(t.instants[0]) if len(t.instants) else 0, trial[1]),
        )
        scale = self._scale(readings, season_rows(t.positions, trial[1]))
        s = scale.s
        quiet = s if bound is None else np.clip(np.fmin(bound, s), LEAST_SHARE * s, s)
        sigma = self._added.stricter(AddedError(wish)).sigma(quiet, scale, trial[0])
        sensible = (sigma == 0) | ((sigma >= LEAST_ERROR) & (sigma <= LARGEST))
        sigma = np.where(sensible, sigma, np.nan)
        error = ladder_up(np.fmax(np.where(s > 0, s, sigma), LEAST_ERROR))
        copies = self._copy(readings, sigma, slots, error, scale)
        there = copies.known & (np.arange(len(t.instants)) < slots.stop)
        return replace(
            self.public,
            error=np.where(there.any(axis=1), copies.error, 0.0),
            copies=np.where(there, copies.values, np.nan),
            sigma=np.where(there, copies.sigma, 0.0),
        )

    def _scale(self, readings: Readings, season: Array) -> Scale:
        """Of sensors without copies from their readings; of the others as it was then."""
        numbers = np.column_stack(astuple(Scale.of(readings, season)))
        for row, sensor in enumerate(readings.ids):
            if self.store.pinned(sensor) is not None:
                numbers[row] = self.store.held(sensor)[1:]
        return Scale(*numbers.T)

    def _copy(
        self, readings: Readings, sigma: Array, slots: slice, error: Array, scale: Scale
    ) -> Copies:
        """Copies; a sensor that must not be copied stays at home instead of stopping the site."""
        held = np.column_stack([error, *astuple(scale)])
        while True:
            try:
                return self._copier.copy(readings, sigma, scale.swing, slots, held)
            except CopyError as fault:
                # The last sensor of that name: an earlier one may have its copies.
                rows = [n for n, sensor in enumerate(readings.ids) if sensor == fault.sensor]
                rows = [n for n in rows if np.isfinite(sigma[n])]
                if not rows:
                    raise
                sigma = np.where(np.arange(len(sigma)) == rows[-1], np.nan, sigma)


def _medians(values: Array, known: Mask) -> Array:
    """Median of each row's known values (m,), NaN where there are none."""
    rows = zip(values, known, strict=True)
    return np.array([np.median(x[k]) if k.any() else np.nan for x, k in rows])


def digests(ids: Sequence[str]) -> Index:
    """Each sensor's permanent id as four numbers (m, 4).

    Examples
    --------
    >>> digests(["a"]).shape
    (1, 4)
    """
    text = b"".join(hashlib.sha256(name.encode()).digest() for name in ids)
    return np.frombuffer(text, "<i8").reshape(-1, 4).astype(np.int64)


def interpolation_error(raw: Array, known: Mask, trial: Trial, positions: Array) -> float:
    """Sum of absolute leave-one-out errors, each over its sensor's spread, under one trial.

    A reading is guessed from the mean of the owner's other sensors and from its own neighbours in
    time. A few spikes do not decide: an error counts for ten spreads at the most.

    Examples
    --------
    >>> t = np.arange(48.0)
    >>> wave = np.cos(2 * np.pi * t / 4)[None]
    >>> plain, seasonal = (
    ...     interpolation_error(wave, np.ones((1, 48), bool), ("none", p), t) for p in (0, 4)
    ... )
    >>> seasonal < plain
    True
    """
    transform, period = trial
    J = known.astype(float)
    X = np.where(known, FORWARD[transform](np.where(known, raw, 0.0)), 0.0)
    rows = season_rows(positions, period)
    offset = fit_offsets(X, J, rows) @ rows
    Y = J * (X - offset)
    others = J.sum(axis=0) - J
    mean = np.where(others > 0, (Y.sum(axis=0) - Y) / np.maximum(others, 1), 0.0)
    power = np.maximum((J * mean**2).sum(1, keepdims=True), 1e-12)
    guess = (Y * mean).sum(1, keepdims=True) / power * mean
    guess = guess + interpolate_linear(neighbours(J * (Y - guess), known, 1))
    error = np.abs(np.where(known, BACKWARD[transform](guess + offset) - raw, 0.0))
    plain = np.where(known, raw, 0.0)
    n = np.maximum(J.sum(axis=1), 1)
    spread = np.sqrt(np.maximum((plain**2).sum(1) / n - (plain.sum(1) / n) ** 2, 0.0))
    return float(np.minimum(error / np.where(spread > 0, spread, np.inf)[:, None], 10.0).sum())


def choose_trial(errors: Sequence[float], trials: Sequence[Trial]) -> int:
    """The trial of least error; a season must earn its place.

    Examples
    --------
    >>> choose_trial([10.0, 9.0, 8.98], [("none", 0), ("sqrt", 0), ("sqrt", 24)])
    1
    """
    plain = [n for n, (_, period) in enumerate(trials) if not period] or list(range(len(trials)))
    best = min(plain, key=lambda n: errors[n])
    overall = min(range(len(trials)), key=lambda n: errors[n])
    return overall if errors[overall] < SEASON_GAIN * errors[best] else best
