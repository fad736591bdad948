"""The time grid: how far apart the slots are, and which rows are absent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import gcd

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.errors import InputError

MEAN_MONTH = pd.Timedelta(days=30, hours=10, minutes=29, seconds=6)
_NAMES = {3600: "hourly", 86400: "daily", 604800: "weekly"}
_MONTH_NAMES = {1: "monthly", 3: "quarterly", 12: "yearly"}
# A grid much finer than the usual spacing is not believed: the times are jittered.
_FINEST = 4


@dataclass(frozen=True, eq=False)
class Grid:
    """A time grid.

    ``positions`` are the elapsed time of every slot in steps from 0. ``months`` is the step on a
    calendar grid, else 0; ``step`` is then its mean length. ``regular``: every slot sits on the
    grid. ``on_wall``: the grid follows the clock on the wall, not UTC.
    """

    positions: NDArray[np.float64]
    step: pd.Timedelta | float
    regular: bool
    months: int = 0
    on_wall: bool = False

    @property
    def absent(self) -> int:
        """How many rows of a regular grid are not there."""
        return round(float(self.positions[-1])) + 1 - len(self.positions) if self.regular else 0

    @property
    def name(self) -> str:
        """What the step is called: ``hourly``, ``10-minute``, ``monthly``, ``numbered``.

        Examples
        --------
        >>> infer_grid(pd.date_range("2024-01-01", periods=3, freq="10min")).name
        '10-minute'
        """
        if not isinstance(self.step, pd.Timedelta):
            return "numbered" if self.step == 1 else f"{self.step:g}-unit"
        if self.months:
            return _MONTH_NAMES.get(self.months, f"{self.months}-month")
        seconds = self.step.total_seconds()
        if seconds in _NAMES:
            return _NAMES[int(seconds)]
        for size, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
            if seconds >= size:
                return f"{seconds / size:g}-{word}"
        return f"{seconds:g}-second"


def natural_period(grid: Grid) -> int:
    """Slots in the season that a grid suggests: a day of hours, a week of days, a year of months.

    Examples
    --------
    >>> natural_period(infer_grid(pd.date_range("2024-01-01", periods=3, freq="MS")))
    12
    """
    if not grid.regular or not isinstance(grid.step, pd.Timedelta):
        return 0
    if grid.months:
        return 12 // grid.months if 12 % grid.months == 0 else 0
    day = pd.Timedelta(days=1)
    if grid.step == day:
        return 7
    # Finer than five minutes a day has too many slots for a few harmonics to be worth it.
    slots = day / grid.step
    return int(slots) if slots == int(slots) and 2 < slots <= 288 else 0


def infer_grid(index: pd.Index, wall: pd.Index | None = None) -> Grid:
    """Find the grid of two or more sorted, different times; ``wall`` is the clock on the wall.

    Examples
    --------
    >>> infer_grid(pd.DatetimeIndex(["2024-01-01", "2024-02-01", "2024-04-01"])).positions
    array([0., 1., 3.])
    """
    if not isinstance(index, pd.DatetimeIndex):
        return _number_grid(index.to_numpy(dtype=np.float64))
    grid = _clock_grid(index)
    # Daily and monthly stamps with offsets are uneven in UTC when the clocks change.
    if not grid.regular and isinstance(wall, pd.DatetimeIndex) and wall.is_monotonic_increasing:
        by_wall = _clock_grid(wall, on_wall=not wall.equals(index)) if wall.is_unique else grid
        return by_wall if by_wall.regular else grid
    return grid


def _clock_grid(index: pd.DatetimeIndex, on_wall: bool = False) -> Grid:
    local = index.tz_localize(None) if index.tz is not None else index
    months = local.year.to_numpy(dtype=np.int64) * 12 + local.month.to_numpy(dtype=np.int64)
    day = local.day.to_numpy()
    # A calendar grid: the same day and hour of each month; the 31st is the 28th in a shorter one.
    same_day = day == np.minimum(day.max(), local.days_in_month.to_numpy())
    same_hour = (local - local.normalize()).nunique() == 1
    if same_day.all() and same_hour and (np.diff(months) > 0).all():
        size = reduce(gcd, np.diff(months).tolist())
        return Grid((months - months[0]) / size, MEAN_MONTH * size, True, size, on_wall)
    ticks = index.asi8 - index.asi8[0]
    size, regular = _whole_step(np.diff(ticks))
    return Grid(ticks / size, pd.Timedelta(size, unit=index.unit), regular, 0, on_wall)


def _whole_step(gaps: NDArray[np.int64]) -> tuple[int, bool]:
    """The step of integer gaps, and whether every gap is a whole number of steps."""
    sizes, counts = np.unique(gaps, return_counts=True)
    usual = int(sizes[np.argmax(counts)])
    if not (sizes % usual).any():
        return usual, True
    finest = reduce(gcd, sizes.tolist())
    return (finest, True) if usual <= _FINEST * finest else (int(np.median(gaps)), False)


def _number_grid(numbers: NDArray[np.float64]) -> Grid:
    offsets = numbers - numbers[0]
    if (offsets == np.round(offsets)).all() and offsets[-1] < 2**53:
        size, regular = _whole_step(np.diff(offsets.astype(np.int64)))
        return Grid(offsets / size, float(size), regular)
    gaps = np.diff(offsets)
    # Decimal numbers carry rounding noise: gaps that agree to nine digits are the same gap.
    sizes, counts = np.unique(np.round(gaps / np.median(gaps), 9), return_counts=True)
    step = float(sizes[np.argmax(counts)] * np.median(gaps)) or float(np.median(gaps))
    positions = offsets / step
    regular = bool((np.abs(positions - np.round(positions)) < 1e-3).all())
    regular = regular and bool((np.diff(np.round(positions)) > 0).all())
    return Grid(np.round(positions) if regular else positions, step, regular)


def unseen(known: NDArray[np.bool_], positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many steps each slot that nobody observed is from an observed one; 0 where observed.

    ``known`` is time x sensor. A gap of the only sensor that has readings is no such slot: there is
    nobody else, and the readings on either side of it tell. Beyond the first and last it is.

    Examples
    --------
    >>> known = np.array([[0, 0], [1, 0], [0, 0], [0, 0], [0, 1]], dtype=bool)
    >>> unseen(known, np.arange(5.0)).tolist()
    [1.0, 0.0, 1.0, 1.0, 0.0]
    """
    seen = np.asarray(known.any(axis=1))
    if known.any(axis=0).sum() == 1:
        seen = np.logical_or.accumulate(seen) & np.logical_or.accumulate(seen[::-1])[::-1]
    before = np.maximum.accumulate(np.where(seen, positions, -np.inf))
    after = np.minimum.accumulate(np.where(seen, positions, np.inf)[::-1])[::-1]
    # Times that jitter around their grid are nearly whole steps apart.
    away = np.round(np.minimum(positions - before, after - positions))
    return np.where(seen, 0.0, np.maximum(away, 1.0))


def complete_times(index: pd.Index, grid: Grid, where: str) -> pd.Index:
    """All times of a regular grid from the first slot to the last."""
    problem = remedy = ""
    if not grid.regular:
        problem = f"the times are irregular (typical step {grid.step}), so there is no grid to "
        problem, remedy = problem + "complete", "resample the readings first"
    elif grid.on_wall and grid.absent:
        problem = "the grid follows local time across a change of the clocks, so absent rows "
        problem, remedy = problem + "cannot be placed", "give the times in UTC"
    elif grid.absent > 100 * len(grid.positions) + 10**6:
        problem = f"completing the grid would insert {grid.absent} rows"
        remedy = "look for a wrong time far from the others"
    if problem:
        raise InputError(problem, where=where, remedy=f"Leave complete_grid off, or {remedy}")
    steps = np.arange(round(float(grid.positions[-1])) + 1)
    if not isinstance(grid.step, pd.Timedelta):
        numbers = index.to_numpy(dtype=np.float64)
        complete = numbers[0] + steps * grid.step
        complete[np.round(grid.positions).astype(int)] = numbers
        return pd.Index(complete)
    assert isinstance(index, pd.DatetimeIndex)
    if not grid.months:
        return pd.DatetimeIndex(index[0] + steps * grid.step).as_unit("us")
    # From the latest day of a month, which is earlier in shorter ones.
    last = int(np.argmax(index.day))
    months = ((steps - round(grid.positions[last])) * grid.months).tolist()
    stamps = [index[last] + pd.DateOffset(months=month) for month in months]
    return pd.DatetimeIndex(stamps).as_unit("us")
