"""Values that a person would want to look at before anything is filled from them.

Nothing here changes a reading: each finding is a sentence, with the sensors it is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.io.table import Table, listing

# So few negative readings among the rest are more likely faults than a quantity below zero.
_FEW_NEGATIVE = 0.01
# A day of hours without the least change.
_STUCK_RUN = 24
# Interquartile ranges from the median.
_FAR = 10.0
# How many times the median level of all sensors one sensor's level is when its unit is in doubt.
_OTHER_UNIT = 100.0
_ENOUGH = 20


@dataclass(frozen=True)
class Suspicion:
    """One kind of oddity: which sensors, how many readings, and the sentence that says so."""

    kind: str
    sensors: tuple[str, ...]
    readings: int
    sentence: str


@dataclass(frozen=True, eq=False)
class _Column:
    """What is asked of one sensor."""

    negative: int
    stuck: int
    far: int
    farthest: float
    median: float
    whole: bool
    count: int


def find_suspicions(table: Table) -> tuple[Suspicion, ...]:
    """Look for faults in the readings of a table.

    Examples
    --------
    >>> from flfl.io.read import from_frame
    >>> readings = np.arange(60.0) % 7 + 1
    >>> readings[30] = 900.0
    >>> [found.kind for found in find_suspicions(from_frame(readings[:, None]))]
    ['far outside']
    """
    values = table.values.to_numpy()
    columns = [_look_at(values[:, i]) for i in range(values.shape[1])]
    ids = table.sensor_ids
    found = [
        *_negative(ids, columns),
        *_stuck(ids, columns),
        *_far(ids, columns),
        *_level(ids, columns),
        *_whole(ids, columns),
        *_repeats(ids, values),
    ]
    return tuple(found)


def _look_at(series: NDArray[np.float64]) -> _Column:
    known = series[~np.isnan(series)]
    if len(known) < _ENOUGH:
        return _Column(int((known < 0).sum()), 0, 0, np.nan, np.nan, False, len(known))
    low, median, high = np.quantile(known, [0.25, 0.5, 0.75])
    away = np.abs(known - median)
    far = away > _FAR * (high - low) if high > low else np.zeros(len(known), dtype=bool)
    return _Column(
        negative=int((known < 0).sum()),
        stuck=_longest_run(known) if known.min() < known.max() else 0,
        far=int(far.sum()),
        farthest=float(known[np.argmax(away)]),
        median=float(median),
        whole=bool((known == np.round(known)).all()),
        count=len(known),
    )


def _longest_run(known: NDArray[np.float64]) -> int:
    """The longest run of one value, unless the sensor often shows it (rain is mostly zero)."""
    ends = np.flatnonzero(np.concatenate([known[1:] != known[:-1], [True]]))
    lengths = np.diff(ends, prepend=-1)
    longest = int(np.argmax(lengths))
    run, value = int(lengths[longest]), known[ends[longest]]
    elsewhere = int((known == value).sum()) - run
    return 0 if elsewhere > run else run


def _negative(ids: Sequence[str], columns: Sequence[_Column]) -> Iterator[Suspicion]:
    count, total = sum(c.negative for c in columns), sum(c.count for c in columns)
    if 0 < count <= _FEW_NEGATIVE * total:
        yield _found(
            "negative",
            [name for name, c in zip(ids, columns, strict=True) if c.negative],
            count,
            f"{count} of {total} readings {_are(count)} negative and all others are not; if the "
            "quantity cannot be, they are faults",
        )


def _stuck(ids: Sequence[str], columns: Sequence[_Column]) -> Iterator[Suspicion]:
    runs = {n: c.stuck for n, c in zip(ids, columns, strict=True) if c.stuck >= _STUCK_RUN}
    if runs:
        yield _found(
            "stuck",
            list(runs),
            sum(runs.values()),
            f"{_sensors(len(runs))} the same value up to {max(runs.values())} readings in a row",
        )


def _far(ids: Sequence[str], columns: Sequence[_Column]) -> Iterator[Suspicion]:
    far = {name: c for name, c in zip(ids, columns, strict=True) if c.far}
    if far:
        count = sum(c.far for c in far.values())
        name, worst = max(far.items(), key=lambda item: abs(item[1].farthest - item[1].median))
        yield _found(
            "far outside",
            list(far),
            count,
            f"{count} {'reading is' if count == 1 else 'readings are'} more than {_FAR:g} "
            f"interquartile ranges from the sensor's median, for example {worst.farthest:g} at "
            f"{name} (median {worst.median:g})",
        )


def _level(ids: Sequence[str], columns: Sequence[_Column]) -> Iterator[Suspicion]:
    levels = np.abs([c.median for c in columns])
    known = levels[np.isfinite(levels)]
    if len(known) < 3 or np.median(known) == 0:
        return
    ratio = levels / np.median(known)
    odd = [n for n, r in zip(ids, ratio, strict=True) if r > _OTHER_UNIT or 0 < r < 1 / _OTHER_UNIT]
    if odd:
        yield _found(
            "another level",
            odd,
            sum(c.count for n, c in zip(ids, columns, strict=True) if n in set(odd)),
            f"{_sensors(len(odd))} a level a hundred times that of the others or a hundredth of "
            "it; the unit may be another",
        )


def _whole(ids: Sequence[str], columns: Sequence[_Column]) -> Iterator[Suspicion]:
    whole = [name for name, c in zip(ids, columns, strict=True) if c.whole]
    if whole and 2 * len(whole) <= sum(c.count >= _ENOUGH for c in columns):
        yield _found(
            "rounded",
            whole,
            sum(c.count for c in columns if c.whole),
            f"{_sensors(len(whole))} whole numbers only, where others have decimals",
        )


def _repeats(ids: Sequence[str], values: NDArray[np.float64]) -> Iterator[Suspicion]:
    """Sensors whose readings are the very same."""
    groups: dict[int, list[int]] = {}
    for i in range(values.shape[1]):
        if np.count_nonzero(~np.isnan(values[:, i])) >= _ENOUGH:
            # One bit pattern for every NaN, so that equal columns are equal bytes.
            groups.setdefault(hash(np.nan_to_num(values[:, i], nan=np.inf).tobytes()), []).append(i)
    same = [ids[i] for group in groups.values() if len(group) > 1 for i in group]
    if same:
        yield _found(
            "repeated",
            same,
            sum(int(np.count_nonzero(~np.isnan(values[:, ids.index(name)]))) for name in same),
            f"{len(same)} sensors have exactly the readings of another",
        )


def _found(kind: str, sensors: list[str], readings: int, problem: str) -> Suspicion:
    return Suspicion(kind, tuple(sensors), readings, f"{problem}: {listing(sensors)}.")


def _sensors(count: int) -> str:
    return "1 sensor has" if count == 1 else f"{count} sensors have"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
