"""The copier: the only code that sees clean readings on the way out of a site.

``copy_it = limit(T(y_it)) + sigma_i n_it``, rounded to sigma_i / 64. Everything that leaves the
site is a function of these copies.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flfl.ensemble.stacking import resolutions
from flfl.errors import InputError
from flfl.model.transforms import FORWARD, SLOPE, fit_offsets
from flfl.protocol.copy_store import Block, CopyError, CopyStore, Pin, same_readings
from flfl.protocol.noise import NoiseKey

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

FEWEST = 100
"""Readings below which a sensor's own error is not known."""
REACH = 3.0
"""Standard deviations of the forecast within which a reading enters."""
GRAIN = 64
"""Copies are multiples of sigma over this."""
LONGEST_MEAN = 48
"""Longest running mean, in readings, that is looked for."""
LARGEST = 1e30
"""A number beyond that is no reading."""
_UNKNOWN = 1e300
"""Variance before the first copy: infinite, without infinity's arithmetic."""


@dataclass(frozen=True, repr=False)
class Readings:
    """Clean readings of a site's sensors, on a table's grid of slots. They stay at home.

    Attributes
    ----------
    ids : (m,) the sensors' permanent ids, or aliases of them
    instants : (N,) UTC seconds of the slots, strictly increasing
    raw : (m, N) readings in their own units
    known : (m, N) where there is one
    pin : the network's transform, step, origin and season
    """

    ids: tuple[str, ...]
    instants: Index
    raw: Array
    known: Mask
    pin: Pin

    def __post_init__(self) -> None:
        if self.pin.transform not in FORWARD:
            raise InputError(f"there is no transform {self.pin.transform!r}")
        if not (np.diff(self.instants) > 0).all():
            raise CopyError("instants", "the instants of the slots must be strictly increasing")
        if not self.raw.shape == self.known.shape == (len(self.ids), len(self.instants)):
            raise InputError("readings, gaps, ids and instants do not have equal sizes")
        object.__setattr__(self, "known", is_reading(self.raw, self.known))

    @property
    def transformed(self) -> Array:
        """T(y), NaN where there is no reading (m, N)."""
        return np.where(
            self.known, FORWARD[self.pin.transform](np.where(self.known, self.raw, 0.0)), np.nan
        )


@dataclass(frozen=True)
class Copies:
    """What a site lets others see of its readings.

    Attributes
    ----------
    ids : (m,) the sensors
    values : (m, N) copies on the transformed scale, NaN where there is none
    sigma : (m, N) added error of each copy, 0 where there is none
    error : (m,) published error in time of each sensor, NaN for those without copies
    """

    ids: tuple[str, ...]
    values: Array
    sigma: Array
    error: Array

    @property
    def known(self) -> Mask:
        """Where there is a copy (m, N)."""
        return np.isfinite(self.values)


def is_reading(raw: Array, known: Mask) -> Mask:
    """Where there is a reading: NaN, infinity and what is as large as nothing measured are none."""
    return known & (np.abs(np.where(known, raw, np.inf)) < LARGEST)


def ladder_up(x: Array) -> Array:
    """The smallest power of the fourth root of 2 not below x; 0 and NaN stay.

    What is published of a sensor's scale is a rung of a ladder: it says little of its readings.
    Rungs of sqrt(2) would make the noise 19 % louder than it need be on average, these 9 %.

    Examples
    --------
    >>> ladder_up(np.array([0.0, 0.3, 1.0, 1.1, 2.0])).round(3)
    array([0.   , 0.354, 1.   , 1.189, 2.   ])
    """
    out = np.array(x, dtype=float)
    up = np.isfinite(out) & (out > 0)
    rung = np.ceil(4 * np.log2(out[up])).astype(int)
    rung -= _rung(rung - 1) >= out[up]  # the logarithm may err by a bit either way
    rung += _rung(rung) < out[up]
    out[up] = _rung(rung)
    return out


def _rung(k: NDArray[np.int_]) -> Array:
    """2^(k / 4), the same bits everywhere: sigma is part of the noise's key."""
    between = np.array([1.0, 1.189207115002721, 1.4142135623730951, 1.681792830507429])
    return np.ldexp(between[k % 4], k // 4)


def error_in_time(X: Array, known: Mask) -> Array:
    """Root mean square leave-one-out error of each sensor's readings from its own neighbours (m,).

    ``e_t = x_t - ((c - t) x_a + (t - a) x_c) / (c - a)``, a and c the known slots before and after
    t. Errors are clipped at 4 x 1.4826 x their median size, where that is above 0: a few spikes
    do not make a sensor's noise loud. NaN for sensors with fewer than 100 readings.

    Examples
    --------
    >>> X = np.tile([0.0, 1.0], 100)[None]
    >>> error_in_time(X, np.isfinite(X)), error_in_time(X[:, :90], np.isfinite(X[:, :90]))
    (array([1.]), array([nan]))
    """
    rows, slots = np.nonzero(known)
    x = X[rows, slots]
    t = np.flatnonzero(rows[2:] == rows[:-2]) + 1  # neighbours on both sides
    before, after = slots[t] - slots[t - 1], slots[t + 1] - slots[t]
    e = np.abs(x[t] - (after * x[t - 1] + before * x[t + 1]) / (before + after))
    ends = np.searchsorted(rows[t], np.arange(len(X) + 1))
    s = np.full(len(X), np.nan)
    for i in np.flatnonzero(known.sum(1) >= FEWEST):
        own = e[ends[i] : ends[i + 1]]
        most = 4 * 1.4826 * np.median(own)
        s[i] = np.sqrt(np.mean(np.minimum(own, most) ** 2 if most > 0 else own**2))
    return s


@dataclass(frozen=True)
class Scale:
    """What sensors' noise is measured by: rungs of the ladder (m,), NaN where unknown.

    It is taken from clean readings, so it is taken once: the store holds it from a sensor's first
    copy on. Taken anew for every table, it would tell about the readings of each.

    Attributes
    ----------
    s : error in time without the season
    swing : error in time with it, at least s
    steps : resolution, on the transformed scale
    slope : the transform's, at the median reading
    """

    s: Array
    swing: Array
    steps: Array
    slope: Array

    @classmethod
    def of(cls, readings: Readings, season: Array) -> Scale:
        """From clean readings and the rows of a season (n, N)."""
        known, transform = readings.known, readings.pin.transform
        X, J = np.where(known, readings.transformed, 0.0), known.astype(float)
        s = ladder_up(error_in_time(X - fit_offsets(X, J, season) @ season, known))
        swing = ladder_up(np.fmax(error_in_time(X, known), s))
        rows = zip(readings.raw, known, strict=True)
        median = np.array([np.median(y[k]) if k.any() else np.nan for y, k in rows])
        slope = ladder_up(SLOPE[transform](median))
        steps = _scaled(resolutions(readings.raw, known), slope, transform)
        return cls(s, swing, ladder_up(steps), slope)


@dataclass(frozen=True)
class AddedError:
    """An owner's or a network's setting of the added error.

    Attributes
    ----------
    multiple : of each sensor's own error in time; 0 means that the coordinator is trusted
    units : a number in the readings' own units instead
    also : another setting that holds as well
    """

    multiple: float = 1.0
    units: float | None = None
    also: AddedError | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.multiple < np.inf or not (self.units is None or 0 < self.units < np.inf):
            raise InputError("an added error is a multiple from 0 on, or a number of units above 0")

    @classmethod
    def parse(cls, text: str) -> AddedError:
        """From a multiple, or from a number and a unit.

        Examples
        --------
        >>> AddedError.parse("0.5").multiple, AddedError.parse("2 ug/m3").units
        (0.5, 2.0)
        """
        parts = re.fullmatch(r"\s*([\d.]+(?:e[-+]?\d+)?)\s*(.*?)\s*", text)
        with suppress(ValueError):  # of float and, as an InputError, of the setting itself
            value = float(parts[1] if parts else text)
            return cls(units=value) if parts and parts[2] else cls(multiple=value)
        raise InputError(
            f"{text!r} is no added error",
            remedy='Give a multiple of each sensor\'s own error ("1"), a number with a unit '
            '("2 ug/m3"), or "0" to trust the coordinator',
        )

    def stricter(self, network: AddedError) -> AddedError:
        """This owner's setting and a network's, whichever adds more: nobody lowers an owner's."""
        return replace(self, also=self.also.stricter(network) if self.also else network)

    def sigma(self, s: Array, scale: Scale, transform: str) -> Array:
        """Added error of each sensor (m,) on the transformed scale; NaN: it stays at home.

        ``sigma_i = ladder_up(max(multiple s_i, steps_i))``, or with units instead of the multiple,
        converted by the slope. A sensor stays at home when nothing says how much to add: fewer
        than 100 readings, or no error at all, and no ``units``.

        Parameters
        ----------
        s : (m,) errors in time, NaN where unknown
        scale : of the sensors
        """
        if self.units is None and self.multiple == 0:
            own = 0.0 * s
        else:
            base = self.multiple * s
            if self.units is not None:
                base = _scaled(np.full(len(s), self.units), scale.slope, transform)
            own = np.maximum(base, scale.steps)
            own = np.where(own > 0, own, np.nan)
        own = ladder_up(own)
        if self.also is None:
            return own
        other = self.also.sigma(s, scale, transform)
        return np.where(np.isnan(other), own, np.maximum(own, other))


def _scaled(amount: Array, slope: Array, transform: str) -> Array:
    """Lengths in the readings' units on the transformed scale (m,)."""
    # A square root is too steep near 0 for a slope there to say how far a length reaches.
    return np.asarray(amount * np.minimum(slope, SLOPE[transform](amount)))


def running_mean(y: Array) -> int:
    """How many readings a sensor's values (N,), NaN in gaps, are a running mean of; 0 if not.

    For y a mean of w readings x, ``y_t - y_{t-1} = (x_t - x_{t-w}) / w``. Second differences are
    taken, since x itself is smooth: their autocorrelation is -1/2 at lag w and small elsewhere.

    Examples
    --------
    >>> x = np.random.default_rng(0).standard_normal(1000).cumsum()
    >>> running_mean(np.convolve(x, np.ones(8) / 8, "valid")), running_mean(x)
    (8, 0)
    """
    d = np.diff(y, 2)
    there = np.isfinite(d)
    if there.sum() < 2 * FEWEST:
        return 0
    # One long event must not look like the shape of all.
    most = 4 * 1.4826 * np.median(np.abs(d[there])) or np.inf
    d = np.where(there, np.clip(d, -most, most), 0.0)
    pairs = np.maximum(_lagged(there.astype(float)), 0.5)
    lagged = np.where(pairs >= 2 * FEWEST, _lagged(d) / pairs, 0.0)
    if lagged[0] <= 0:
        return 0
    r = lagged / lagged[0]
    w = int(np.argmin(r[2 : LONGEST_MEAN + 1])) + 2
    lags = np.arange(len(r))
    elsewhere = np.abs(r[(lags > 1) & (np.abs(lags - w) > 1)])
    return w if r[w] < -0.4 and elsewhere.max() < 0.25 and r[w + 1] > r[w] + 0.3 else 0


def _lagged(x: Array) -> Array:
    """``sum_t x_t x_{t+l}`` for the lags 0 to ``LONGEST_MEAN + 1``."""
    size = 2 ** int(np.ceil(np.log2(len(x) + LONGEST_MEAN + 2)))
    spectrum = np.abs(np.fft.rfft(x, size)) ** 2
    return np.fft.irfft(spectrum, size)[: LONGEST_MEAN + 2]


@dataclass(frozen=True)
class State:
    """What the copies made so far foretell of each sensor (m,): value, variance, from when."""

    value: Array
    variance: Array
    instant: Index

    @classmethod
    def unknown(cls, m: int) -> State:
        """Before the first copy."""
        return cls(np.zeros(m), np.full(m, _UNKNOWN), np.zeros(m, np.int64))


Redraw = Callable[[int, Index, Array], Array]


def limit_in_order(
    Z: Array,
    new: Mask,
    noise: Array,
    sigma: Array,
    s: Array,
    instants: Index,
    step: int,
    state: State,
    redraw: Redraw | None = None,
) -> tuple[Array, Array, Array]:
    """Copies of new readings in order of time, and the forecast and variance after each (m, N).

    A reading enters within ``f +- 3 sqrt(P + s^2)``, f and P the forecast and its variance from
    copies already made: a random walk of step variance 2 s^2, seen with variance sigma^2. No
    clean reading but its own enters a copy.

    Parameters
    ----------
    Z, noise : (m, N) transformed readings, and standard normals for them
    new : (m, N) where a copy is to be made
    sigma, s : (m,) added error and error in time
    instants, step : (N,) UTC seconds of the slots, and the seconds of a step
    state : what earlier copies foretell
    redraw : noise for limited values, from (slot, sensors, values). What enters defines the copy:
        with the noise of the reading itself, a second copy under another limit would show it.

    Examples
    --------
    >>> Z, zero, one = np.array([[0.0, 0.0, 1000.0]]), np.zeros(1), np.ones(1)
    >>> new, start = np.isfinite(Z), State.unknown(1)
    >>> limit_in_order(Z, new, 0 * Z, zero, one, np.arange(3), 1, start)[0].round(3)
    array([[0.   , 0.   , 5.196]])
    """
    f, P, at = state.value.copy(), state.variance.copy(), state.instant.copy()
    copies, F, V = (np.full(Z.T.shape, np.nan) for _ in range(3))
    drift, s2, sigma2 = 2 * s**2 / step, s**2, sigma**2
    exact, grain = sigma == 0, np.where(sigma == 0, 1.0, sigma / GRAIN)
    Z, new, noise = Z.T.copy(), new.T.copy(), noise.T.copy()  # a slot's numbers side by side
    any_exact = bool(exact.any())
    for t in np.flatnonzero(new.any(1)):
        z, k, n = Z[t], new[t], noise[t]
        ahead = P + drift * (instants[t] - at)
        width = REACH * np.sqrt(ahead + s2)
        inside = np.minimum(np.maximum(z, f - width), f + width)
        limited = k & (inside != z)
        if redraw is not None and limited.any():
            rows = np.flatnonzero(limited)
            n[rows] = redraw(int(t), rows, inside[rows])
        copy = inside + sigma * n
        rounded = np.rint(copy / grain) * grain
        copy = np.where(exact, copy, rounded) if any_exact else rounded
        # Where nothing varies (s = sigma = 0) the gain is 0 / tiny = 0.
        gain = ahead / np.maximum(ahead + sigma2, 1e-300)
        np.copyto(f, f + gain * (copy - f), where=k)
        np.copyto(P, gain * sigma2, where=k)
        np.copyto(at, instants[t], where=k)
        np.copyto(copies[t], copy, where=k)
        F[t], V[t] = f, P
    return copies.T, F.T, V.T


class Copier:
    """Makes a site's copies, with its secret, into its store.

    Guarantees: a reading has one copy, whatever the table says later; no clean reading but its own
    enters a copy; without the secret nothing beyond the copy is learnt from its noise. What comes
    late, at or before a sensor's last copy, is not copied: it is used at home.

    Examples
    --------
    >>> table = Readings(("a",), np.arange(3) * 3600, np.ones((1, 3)), np.ones((1, 3), bool),
    ...                  Pin("none", 3600))
    >>> copier = Copier(bytes(32), CopyStore())
    >>> first = copier.copy(table, np.array([0.5]), np.array([0.5]), slice(0, 2))
    >>> first.known
    array([[ True,  True, False]])
    >>> again = copier.copy(replace(table, raw=2 * table.raw), np.array([1.0]), np.array([1.0]))
    >>> bool((again.values[:, :2] == first.values[:, :2]).all())
    True
    """

    def __init__(self, secret: bytes, store: CopyStore) -> None:
        self._noise = NoiseKey(secret)
        self.store = store

    def copy(
        self,
        readings: Readings,
        sigma: Array,
        s: Array,
        slots: slice = slice(None),
        held: Array | None = None,
    ) -> Copies:
        """The copies of a whole table: stored ones, and new ones for readings in ``slots``.

        Parameters
        ----------
        readings : clean readings
        sigma : (m,) added error for new copies, NaN for sensors that stay at home
        s : (m,) errors in time; where unknown or 0, the added error stands in
        slots : the stretch to copy now
        held : (m, 5) what the store is to hold of sensors without copies so far: the error in time
            to publish, and the four numbers of their :class:`Scale`; None: from ``s``
        """
        s = ladder_up(np.where((s > 0) & np.isfinite(sigma), s, sigma))
        first = self._check_ids(readings, sigma)
        stored = [self.store.read(sensor, readings.instants) for sensor in readings.ids]
        values = np.array([copies for copies, _ in stored]).reshape(readings.raw.shape)
        values[~first] = np.nan
        sigmas = np.array([added for _, added in stored]).reshape(values.shape)
        sigmas = np.where(np.isnan(values), 0.0, sigmas)
        stretch = np.zeros(len(readings.instants), bool)
        stretch[slots] = True
        stretch &= readings.instants > self.store.start
        new = readings.known & stretch & np.isfinite(sigma)[:, None]
        for n, sensor in enumerate(readings.ids):
            last = self.store.last(sensor)
            new[n] &= last is None or readings.instants > last.instant
        speaking = np.flatnonzero(new.any(1))
        if len(speaking):
            tags = self._check_readings(readings, speaking)
            if held is None:
                held = np.column_stack([s, s, s, 0 * s, np.ones_like(s)])
            made = self._make(readings, new, sigma, s, speaking, tags, held)
            values = np.where(new, made, values)
            sigmas = np.where(new, sigma[:, None], sigmas)
        errors = np.array([self.store.error(sensor) for sensor in readings.ids])
        return Copies(readings.ids, values, sigmas, errors)

    def _make(
        self,
        readings: Readings,
        new: Mask,
        sigma: Array,
        s: Array,
        rows: Index,
        tags: NDArray[np.uint64],
        held: Array,
    ) -> Array:
        """New copies of some sensors, into the store; NaN where there is none (m, N)."""
        used = np.flatnonzero(new.any(0))
        part = slice(used[0], used[-1] + 1)
        ids = [self.store.permanent(readings.ids[i]) for i in rows]
        instants, new, tags = readings.instants[part], new[rows, part], tags[:, part]
        raw, Z = readings.raw[rows, part], readings.transformed[rows, part]
        contexts = [(readings.pin.transform, float(sigma[i])) for i in rows]
        noise = np.zeros_like(Z)
        for n, k in enumerate(new):
            noise[n, k] = self._noise.normals(ids[n], contexts[n], instants[k], raw[n, k])

        def redraw(slot: int, sensors: Index, limited: Array) -> Array:
            now = instants[slot : slot + 1]
            drawn = [
                self._noise.normals(ids[n], (*contexts[n], "limited"), now, limited[j : j + 1])
                for j, n in enumerate(sensors)
            ]
            return np.concatenate(drawn)

        state = self._state(ids)
        step = readings.pin.step_seconds
        copies, F, V = limit_in_order(
            Z, new, noise, sigma[rows], s[rows], instants, step, state, redraw=redraw
        )
        with self.store.transaction():
            for n, k in enumerate(new):
                end = np.flatnonzero(k)[-1]
                added = np.full(k.sum(), sigma[rows[n]])
                self.store.pin(ids[n], readings.pin, held[rows[n]])
                self.store.append(
                    ids[n],
                    Block(instants[k], copies[n, k], added, tags[n, k], F[n, end], V[n, end]),
                )
        values = np.full(readings.raw.shape, np.nan)
        values[rows, part] = copies
        return values

    def _state(self, ids: list[str]) -> State:
        """What the stored copies foretell."""
        start = State.unknown(len(ids))
        for n, sensor in enumerate(ids):
            forecast = self.store.last(sensor)
            if forecast is not None:
                start.value[n], start.variance[n] = forecast.value, forecast.variance
                start.instant[n] = forecast.instant
        return start

    def _check_ids(self, readings: Readings, sigma: Array) -> Mask:
        """No sensor twice, and none that was copied in another way.

        Returns which rows are their sensor's first (m,): a second one has no copies.
        """
        names: dict[str, str] = {}
        first = []
        for sensor, added in zip(readings.ids, sigma, strict=True):
            own = self.store.permanent(sensor)
            if own in names and np.isfinite(added):
                raise CopyError(
                    "one sensor twice",
                    f"{names[own]} and {sensor} are one sensor; leave one of them out of the table",
                    sensor,
                )
            first.append(own not in names)
            names.setdefault(own, sensor)
            if self.store.pinned(sensor) is not None:
                self.store.pin(sensor, readings.pin)
        return np.array(first, bool)

    def _check_readings(self, readings: Readings, rows: Index) -> NDArray[np.uint64]:
        """Refuse what would be second copies; returns the tags of the readings (len(rows), N), 0
        where a reading equals the one before it."""
        tags = np.zeros((len(rows), len(readings.instants)), np.uint64)
        # All that was ever copied counts: a table in small pieces must not hide a renaming.
        grid, seen = self.store.tags(readings.instants)
        here = np.searchsorted(grid, readings.instants)
        for n, i in enumerate(rows):
            sensor, k = readings.ids[i], readings.known[i]
            window = running_mean(np.where(k, readings.raw[i], np.nan))
            if window:
                raise CopyError(
                    "running mean",
                    f"{sensor} looks like a running mean over {window} readings: its copies would "
                    "show each of them several times; give the readings themselves, or keep one "
                    f"value in {window} and leave the others empty, or leave the sensor out",
                    sensor,
                )
            at = np.flatnonzero(k)
            k = np.zeros_like(k)
            k[at[1:]] = np.diff(readings.raw[i, at]) != 0  # stuck sensors are not one sensor
            tags[n, k] = self._noise.tags(readings.instants[k], readings.raw[i, k])
            own = self.store.permanent(sensor)
            mine = seen.get(own, np.zeros(len(grid), np.uint64))
            mine[here] = np.where(k, tags[n], mine[here])
            others = {name: other for name, other in seen.items() if name != own}
            twin = same_readings(mine, others)
            if twin is not None and not self.store.is_own(sensor):
                raise CopyError(
                    "renamed",
                    f"{sensor} has the readings of {twin}; give one sensor once, after a renaming "
                    f"with CopyStore.alias({sensor!r}, {twin!r}); if it is an instrument of its "
                    f"own, say so with CopyStore.alias({sensor!r}, {sensor!r})",
                    sensor,
                )
            seen[own] = mine
        return tags
