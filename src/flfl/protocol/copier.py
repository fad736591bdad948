"""The copier: the only code that sees clean readings on the way out of a site.

``copy_it = limit(T(y_it)) + sigma_i n_it``, rounded to sigma_i / 64. Everything that leaves the
site is a function of these copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from flfl import constants
from flfl.errors import InputError
from flfl.model import Array, Index, Mask, Words
from flfl.model.transforms import FORWARD
from flfl.protocol.added_error import ladder_up
from flfl.protocol.copy_store import Block, CopyError, CopyStore
from flfl.protocol.noise import NoiseKey
from flfl.protocol.plan import Pin

Redraw = Callable[[int, Index, Array], Array]

LARGEST = 1e30
"""A number beyond that is no reading."""
UNKNOWN = 1e300
"""Variance before the first copy: infinite, without infinity's arithmetic."""


def is_reading(raw: Array, known: Mask) -> Mask:
    """Where there is a reading: NaN, infinity and what is as large as nothing measured are none."""
    return known & (np.abs(np.where(known, raw, np.inf)) < LARGEST)


@dataclass(frozen=True, repr=False)
class Readings:
    """Clean readings of a site's sensors (m, N), by ids or aliases and by UTC seconds (N,). They
    stay at home. ``pin`` is the network's transform, step, origin and season."""

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


@dataclass(frozen=True)
class Copies:
    """Copies on the transformed scale (m, N), NaN where there is none, their added errors (m, N),
    each sensor's published error in time (m,), and the instants at which they were made: their own,
    or that of the last slot when they came late (m, N)."""

    values: Array
    sigma: Array
    error: Array
    arrivals: Index

    @property
    def known(self) -> Mask:
        """Where there is a copy (m, N)."""
        return np.isfinite(self.values)


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
    fewest = 2 * constants.FEWEST_READINGS
    if there.sum() < fewest:
        return 0
    # One long event must not look like the shape of all.
    most = constants.ERROR_CLIP * np.median(np.abs(d[there])) or np.inf
    d = np.where(there, np.clip(d, -most, most), 0.0)
    size = 2 ** int(np.ceil(np.log2(len(d) + constants.LONGEST_MEAN + 2)))
    # sum_t x_t x_{t+l} for the lags l from 0, of the differences and of where they are
    products, pairs = (
        np.fft.irfft(np.abs(np.fft.rfft(x, size)) ** 2, size)[: constants.LONGEST_MEAN + 2]
        for x in (d, there.astype(float))
    )
    lagged = np.where(pairs >= fewest, products / np.maximum(pairs, 0.5), 0.0)
    if lagged[0] <= 0:
        return 0
    r, lags = lagged / lagged[0], np.arange(len(lagged))
    w = int(np.argmin(r[2 : constants.LONGEST_MEAN + 1])) + 2
    elsewhere = np.abs(r[(lags > 1) & (np.abs(lags - w) > 1)]).max()
    dips = r[w] < constants.MEAN_DIP and r[w + 1] > r[w] + constants.MEAN_RISE
    return w if dips and elsewhere < constants.MEAN_REST else 0


def same_readings(tags: Words, others: Mapping[str, Words]) -> str | None:
    """The first of some sensors with equal tags (0: none) at most of their common stamps.

    Examples
    --------
    >>> tags = np.arange(1, 31, dtype=np.uint64)
    >>> same_readings(tags, {"a": tags + np.uint64(1), "b": tags})
    'b'
    """
    for name, other in others.items():
        common = (tags != 0) & (other != 0)
        equal = (tags == other)[common]
        if len(equal) >= constants.COMMON_STAMPS and equal.mean() > constants.EQUAL_SHARE:
            return name
    return None


def limit_in_order(
    Z: Array, new: Mask, noise: Array, sigma: Array, s: Array, instants: Index, step: int,
    start: tuple[Index, Array, Array], redraw: Redraw | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Copies of new readings in order of time (m, N), and the forecast and its variance after them.

    A reading enters within ``f +- 3 sqrt(P + s^2)``, f and P the forecast and its variance from
    copies already made: a random walk of step variance 2 s^2, seen with variance sigma^2. No
    clean reading but its own enters a copy.

    Z (m, N) are transformed readings, ``noise`` standard normals for them, ``new`` where a copy is
    to be made, s (m,) the error in time; ``instants`` (N,) and ``step`` are in seconds; ``start``
    holds the instants of the last copies, and the forecasts and variances after them (m,).
    ``redraw`` gives noise for limited values, from (slot, sensors, values): with the noise of the
    reading itself, a second copy under another limit would show it.

    Examples
    --------
    >>> Z, zero, one = np.array([[0.0, 0.0, 1000.0]]), np.zeros(1), np.ones(1)
    >>> start = np.zeros(1, int), zero, UNKNOWN * one
    >>> limit_in_order(Z, Z >= 0, 0 * Z, zero, one, np.arange(3), 1, start)[0].round(3)
    array([[0.   , 0.   , 5.196]])
    """
    at, f, P = start[0].copy(), start[1].copy(), start[2].copy()
    copies = np.full(Z.T.shape, np.nan)
    drift, s2, sigma2 = constants.LIMIT_STEP * s**2 / step, s**2, sigma**2
    exact, grain = sigma == 0, np.where(sigma == 0, 1.0, sigma / constants.COPY_GRAINS)
    Z, new, noise = Z.T.copy(), new.T.copy(), noise.T.copy()  # a slot's numbers side by side
    any_exact = bool(exact.any())
    for t in np.flatnonzero(new.any(1)):
        z, k, n = Z[t], new[t], noise[t]
        ahead = P + drift * np.abs(instants[t] - at)
        width = constants.LIMIT_REACH * np.sqrt(ahead + s2)
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
    return copies.T, f, P


class Copier:
    """Makes a site's copies, with its secret, into its store.

    A reading has one copy, whatever the table says later, and no clean reading but its own enters
    it. What comes late is not copied: it is used at home, but where late copies are asked for.

    Examples
    --------
    >>> one, half = np.ones((1, 3)), np.array([0.5])
    >>> about, pin = (("a",), np.arange(3) * 3600), Pin("none", 3600)
    >>> copier = Copier(bytes(32), CopyStore())
    >>> first = copier.copy(Readings(*about, one, one > 0, pin), half, half, slice(0, 2))
    >>> again = copier.copy(Readings(*about, 2 * one, one > 0, pin), 2 * half, 2 * half)
    >>> again.values == first.values
    array([[ True,  True, False]])
    """

    def __init__(self, secret: bytes, store: CopyStore) -> None:
        self._noise = NoiseKey(secret)
        self.store = store

    def copy(
        self, readings: Readings, sigma: Array, s: Array, slots: slice = slice(None),
        held: Array | None = None, late: Mask | None = None,
    ) -> Copies:  # fmt: skip
        """The copies of a whole table: stored ones, and new ones for readings in ``slots``, and for
        those without a copy where they may come ``late`` (m, N).

        ``sigma`` (m,) is the added error of new copies, NaN for sensors that stay at home, ``s``
        (m,) the error in time. ``held`` (m, 5) is what the store is to hold of sensors without
        copies so far: the error in time to publish and their scale; from ``s`` if not given.
        """
        ids, instants = readings.ids, readings.instants
        s = ladder_up(np.where((s > 0) & np.isfinite(sigma), s, sigma))
        if held is None:
            held = np.column_stack([s, s, s, 0 * s, np.ones_like(s)])
        first = self._check_ids(readings, sigma)
        stored = [self.store.read(sensor, instants) for sensor in ids]
        values, sigmas = np.reshape(stored, (len(ids), 2, len(instants))).swapaxes(0, 1).copy()
        values[~first] = np.nan
        sigmas[np.isnan(values)] = 0.0
        stretch = np.zeros(len(instants), bool)
        stretch[slots] = True
        may = readings.known & (instants > self.store.start) & np.isfinite(sigma)[:, None]
        may &= np.isnan(values) & first[:, None]
        new, past = may & stretch, may & (False if late is None else late)
        for n, sensor in enumerate(ids):
            last = self.store.last(sensor)
            new[n] &= last is None or instants > last[0]
        arrived = int(instants[stretch][-1]) if stretch.any() else 0
        for which, when in ((new, None), (past & ~new, arrived)):
            if which.any():
                made = self._make(readings, which, sigma, s, held, when)
                values = np.where(which, made, values)
                sigmas = np.where(which, sigma[:, None], sigmas)
        error = np.array([self.store.held(sensor)[1][0] for sensor in ids])
        arrivals = [self.store.arrivals(sensor, instants) for sensor in ids]
        return Copies(values, sigmas, error, np.reshape(arrivals, values.shape))

    def _make(
        self, readings: Readings, new: Mask, sigma: Array, s: Array, held: Array,
        arrived: int | None,
    ) -> Array:  # fmt: skip
        """New copies of some sensors, into the store; NaN where there is none (m, N)."""
        rows = np.flatnonzero(new.any(1))
        tags = self._check_readings(readings, rows)
        used, transform = np.flatnonzero(new.any(0)), readings.pin.transform
        part = slice(used[0], used[-1] + 1)
        ids = [self.store.permanent(readings.ids[i]) for i in rows]
        instants, new, tags = readings.instants[part], new[rows, part], tags[:, part]
        raw = readings.raw[rows, part]
        Z = np.where(new, FORWARD[transform](np.where(new, raw, 0.0)), np.nan)
        noise = np.zeros(raw.shape)
        contexts = [(transform, float(sigma[i])) for i in rows]
        for n, k in enumerate(new):
            noise[n, k] = self._noise.normals(ids[n], contexts[n], instants[k], raw[n, k])

        def redraw(slot: int, sensors: Index, limited: Array) -> Array:
            now = instants[slot : slot + 1]
            about = [(ids[n], (*contexts[n], "limited"), now) for n in sensors]
            drawn = zip(about, limited[:, None], strict=True)
            return np.concatenate([self._noise.normals(*own, value) for own, value in drawn])

        ends = [self.store.last(sensor) or (0, 0.0, UNKNOWN) for sensor in ids]
        at, value, variance = (np.array(column) for column in zip(*ends, strict=True))
        copies, f, P = limit_in_order(
            Z, new, noise, sigma[rows], s[rows], instants, readings.pin.step_seconds,
            (at, value, variance), redraw=redraw,
        )  # fmt: skip
        with self.store.transaction():
            for n, k in enumerate(new):
                added = np.full(k.sum(), sigma[rows[n]])
                self.store.pin(ids[n], readings.pin, held[rows[n]])
                block = Block(instants[k], copies[n, k], added, tags[n, k], f[n], P[n])
                if arrived is None:
                    self.store.append(ids[n], block)
                else:
                    self.store.append_late(ids[n], block, arrived)
        values = np.full(readings.raw.shape, np.nan)
        values[rows, part] = copies
        return values

    def _check_ids(self, readings: Readings, sigma: Array) -> Mask:
        """No sensor twice, and none that was copied in another way. Returns which rows are their
        sensor's first (m,): a second one has no copies."""
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
            if self.store.held(sensor)[0] is not None:
                self.store.pin(sensor, readings.pin)
        return np.array(first, bool)

    def _check_readings(self, readings: Readings, rows: Index) -> Words:
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
            mine = seen.pop(own, np.zeros(len(grid), np.uint64))
            mine[here] = np.where(k, tags[n], mine[here])
            other = same_readings(mine, seen)
            if other is not None and not self.store.is_own(sensor):
                raise CopyError(
                    "renamed",
                    f"{sensor} has the readings of {other}; give one sensor once, after a renaming "
                    f"with CopyStore.alias({sensor!r}, {other!r}); if it is an instrument of its "
                    f"own, say so with CopyStore.alias({sensor!r}, {sensor!r})",
                    sensor,
                )
            seen[own] = mine
        return tags
