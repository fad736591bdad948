"""An owner's side of a run: the clean readings, and what it gives out of them.

Only :class:`Owner` holds clean readings. It gives :class:`Outgoing` to the client, which makes
every message from that alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace

import numpy as np

from flfl.constants import MOST_SPREADS, PILOT_LOWEST, SEASON_GAIN
from flfl.ensemble.interpolators import interpolate_linear, neighbours
from flfl.model import Array, Index, Mask
from flfl.model.transforms import BACKWARD, FORWARD, SLOPE, fit_offsets, season_rows
from flfl.protocol.added_error import AddedError, Scale, ladder_up, medians
from flfl.protocol.copier import LARGEST, Copier, Readings, is_reading
from flfl.protocol.copy_store import CopyError
from flfl.protocol.plan import Pin

LEAST_ERROR = 1e-30
"""Errors below that are rounding."""


@dataclass(frozen=True)
class Table:
    """What a site knows of its own m sensors at N slots."""

    name: str  # of the site
    ids: Sequence[str]  # permanent names of the sensors
    raw: Array  # (m, N) readings in their units, anything where unknown
    known: Mask  # (m, N)
    places: Array | None  # (m, 2) on the published map
    positions: Array  # (N,) elapsed steps of the slots
    instants: Index  # (N,) UTC seconds of the slots
    step: int = 3600  # seconds

    def between(self, start: int, stop: int | None = None) -> Table:
        """The table of some slots."""
        at = slice(start, stop)
        return replace(
            self, raw=self.raw[:, at], known=self.known[:, at], positions=self.positions[at],
            instants=self.instants[at],
        )  # fmt: skip


@dataclass(frozen=True)
class Outgoing:
    """All that an owner gives out. Messages are functions of it and of public numbers."""

    sensors: Index  # (m, 4) digests of the permanent ids
    places: Array  # (m, 2)
    vote: int = 0  # the transform and season it prefers, by their number
    negative: bool = False  # whether it has negative readings
    error: Array = field(default_factory=lambda: np.empty(0))  # (m,) 0 for sensors at home
    copies: Array = field(default_factory=lambda: np.empty((0, 0)))  # (m, N) transformed, NaN: none
    sigma: Array = field(default_factory=lambda: np.empty((0, 0)))  # (m, N) their added errors
    arrival: Index = field(default_factory=lambda: np.empty((0, 0), np.int64))  # (m, N) the slot
    # at which each was made: its own, or the last one of the run in which it came late
    late: bool = False  # whether copies that come late are given out


class Owner:
    """Clean readings with their copier, and the owner's own setting of the added error."""

    def __init__(
        self, table: Table, copier: Copier, added_error: AddedError, late: bool = False
    ) -> None:
        self.table = table
        self._copier, self._added, self.store = copier, added_error, copier.store
        places = np.zeros((len(table.ids), 2)) if table.places is None else table.places
        self.public = Outgoing(digests(table.ids), places, late=late)

    def in_units(self, out: Outgoing, transform: str) -> Array:
        """Median added error of each sensor's copies, in the readings' units at its median reading;
        NaN where it has no copies (m,)."""
        slope = SLOPE[transform](medians(self.table.raw, self.table.known))
        return np.asarray(medians(out.sigma, np.isfinite(out.copies)) / slope)

    def vote(self, units: Sequence[tuple[str, int]]) -> Outgoing:
        """Which transform and season this owner's readings prefer: one vote a site, for ever."""
        t = self.table
        pins = [pin for sensor in t.ids if (pin := self.store.held(sensor)[0]) is not None]
        if self.store.vote is None and pins:
            self.store.cast(pins[0].transform, pins[0].season, negative=False)
        elif self.store.vote is None:
            known = is_reading(t.raw, t.known)
            chosen = units[preferred_units(t.raw, known, units, t.positions)]
            self.store.cast(*chosen, negative=bool((t.raw[known] < 0).any()))
        kept = self.store.vote
        assert kept is not None
        # A plan that does not have what it voted for gets the nearest that it has.
        like = [units.index(x) for x in (kept[:2], (kept[0], 0)) if x in units]
        return replace(self.public, vote=like[0] if like else 0, negative=kept[2])

    def copy(
        self, units: tuple[str, int], slots: slice, wish: float, bound: Array | None = None,
        late: Mask | None = None,
    ) -> Outgoing:  # fmt: skip
        """Copies until the end of a stretch of slots, made once and for ever; also of readings that
        came late, where they may (m, N), by an owner who gives them out.

        Of the readings' scale a rung of the ladder counts, else many wishes would find the scale
        itself; and it counts once, at a sensor's first copy, else many windows would find readings.

        ``units`` are the agreed transform and season, ``wish`` the network's added error, a
        multiple, ``bound`` (m,) what the public model leaves open of each sensor, from copies; as
        the last fit left it, where none is given.
        """
        t, (transform, season) = self.table, units
        pin = Pin(transform, t.step, int(t.instants[0]) if len(t.instants) else 0, season)
        readings = Readings(tuple(t.ids), t.instants, t.raw, t.known, pin)
        fresh = Scale.of(t.raw, readings.known, transform, season_rows(t.positions, season))
        # Of sensors without copies from their readings; of the others as it was then.
        numbers = np.column_stack(astuple(fresh))
        for row, sensor in enumerate(readings.ids):
            held_to, kept = self.store.held(sensor)
            numbers[row] = numbers[row] if held_to is None else kept[1:]
        scale = Scale(*numbers.T)
        s = scale.s
        bound = self.store.bounds(t.ids) if bound is None else bound
        quiet = np.clip(np.fmin(bound, s), PILOT_LOWEST * s, s)
        sigma = self._added.sigma(quiet, scale, transform, wish)
        sensible = (sigma == 0) | ((sigma >= LEAST_ERROR) & (sigma <= LARGEST))
        sigma = np.where(sensible, sigma, np.nan)
        error = ladder_up(np.fmax(np.where(s > 0, s, sigma), LEAST_ERROR))
        held, late = np.column_stack([error, numbers]), late if self.public.late else None
        while True:
            try:
                copies = self._copier.copy(readings, sigma, scale.swing, slots, held, late)
                break
            except CopyError as fault:
                # A sensor that must not be copied stays at home instead of stopping the site. It is
                # the last one of that name: an earlier one may have its copies.
                rows = [n for n, sensor in enumerate(t.ids) if sensor == fault.sensor]
                rows = [n for n in rows if np.isfinite(sigma[n])]
                if not rows:
                    raise
                sigma[rows[-1]] = np.nan
        there = copies.known & (np.arange(len(t.instants)) < slots.stop)
        return replace(
            self.public,
            error=np.where(there.any(axis=1), copies.error, 0.0),
            copies=np.where(there, copies.values, np.nan),
            sigma=np.where(there, copies.sigma, 0.0),
            arrival=np.searchsorted(t.instants, copies.arrivals),
        )

    def remember(self, bound: Array | None) -> None:
        """Keep what the public model leaves open of each sensor (m,), for slots to come."""
        if bound is not None:
            self.store.bind(self.table.ids, bound)


def digests(ids: Sequence[str]) -> Index:
    """Each sensor's permanent id as four numbers (m, 4).

    Examples
    --------
    >>> digests(["a"]).shape
    (1, 4)
    """
    text = b"".join(hashlib.sha256(name.encode()).digest() for name in ids)
    return np.frombuffer(text, "<i8").reshape(-1, 4).astype(np.int64)


def preferred_units(
    raw: Array, known: Mask, units: Sequence[tuple[str, int]], positions: Array
) -> int:
    """Which transform and season have the least interpolation error; a season must earn its place.

    Examples
    --------
    >>> t = np.arange(48.0)
    >>> wave = np.cos(2 * np.pi * t / 4)[None]
    >>> preferred_units(wave, np.ones((1, 48), bool), [("none", 0), ("none", 4)], t)
    1
    """
    errors = [interpolation_error(raw, known, each, positions) for each in units]
    plain = [n for n, (_, period) in enumerate(units) if not period] or list(range(len(units)))
    best = min(plain, key=lambda n: errors[n])
    overall = min(range(len(units)), key=lambda n: errors[n])
    return overall if errors[overall] < SEASON_GAIN * errors[best] else best


def own_units(
    raw: Array, known: Mask, units: Sequence[tuple[str, int]], positions: Array
) -> tuple[str, int]:
    """The transform and season an owner takes for itself: no root or logarithm of negatives."""
    if (raw[known] < 0).any():
        units = [("none", season) for season in dict.fromkeys(season for _, season in units)]
    return units[preferred_units(raw, known, units, positions)]


def interpolation_error(raw: Array, known: Mask, units: tuple[str, int], positions: Array) -> float:
    """Sum of absolute leave-one-out errors, each over its sensor's spread.

    A reading is guessed from the mean of the owner's other sensors and from its own neighbours in
    time. A few spikes do not decide: an error counts for ten spreads at the most.
    """
    transform, period = units
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
    # A logarithm is not undone far beyond the sensor's range, where there may be no number.
    low, high = X.min(axis=1, keepdims=True), X.max(axis=1, keepdims=True)
    at = np.clip(guess + offset, low - (high - low), high + (high - low))
    error = np.abs(np.where(known, BACKWARD[transform](at) - raw, 0.0))
    plain = np.where(known, raw, 0.0)
    n = np.maximum(J.sum(axis=1), 1)
    spread = np.sqrt(np.maximum((plain**2).sum(1) / n - (plain.sum(1) / n) ** 2, 0.0))
    scaled = error / np.where(spread > 0, spread, np.inf)[:, None]
    return float(np.minimum(scaled, MOST_SPREADS).sum())
