"""The time grid: how far apart the slots are, and which rows are absent.

Months and years differ in days but count as one step each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import gcd

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.times import Times

MEAN_MONTH = pd.Timedelta(days=30, hours=10, minutes=29, seconds=6)
_NAMES = {
    pd.Timedelta(hours=1): "hourly",
    pd.Timedelta(days=1): "daily",
    pd.Timedelta(weeks=1): "weekly",
}
_MONTH_NAMES = {1: "monthly", 3: "quarterly", 12: "yearly"}
# A finer grid than the usual spacing is believed only when it is not much finer; otherwise the
# times are jittered and a common divisor says nothing.
_FINEST = 4


@dataclass(frozen=True, eq=False)
class Grid:
    """A time grid.

    ``months`` is the length of a step in months on a calendar grid, else 0. ``regular`` says that
    every slot sits on the grid. ``on_wall`` says that the grid follows the clock on the wall.
    """

    positions: NDArray[np.float64]
    step: pd.Timedelta | float
    name: str
    regular: bool
    months: int = 0
    on_wall: bool = False

    @property
    def absent(self) -> int:
        """How many rows of a regular grid are not there."""
        return round(float(self.positions[-1])) + 1 - len(self.positions) if self.regular else 0


def natural_period(grid: Grid) -> int:
    """Slots in the season that a grid suggests: a day of hours, a week of days, a year of months.

    Examples
    --------
    >>> index = pd.date_range("2024-01-01", periods=3, freq="MS")
    >>> natural_period(infer_grid(Times(index, index)))
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


def infer_grid(times: Times) -> Grid:
    """Find the grid of sorted times without repetition (at least two of them).

    Examples
    --------
    >>> index = pd.DatetimeIndex(["2024-01-01", "2024-02-01", "2024-04-01"])
    >>> infer_grid(Times(index, index)).positions
    array([0., 1., 3.])
    """
    if not isinstance(times.index, pd.DatetimeIndex):
        return _number_grid(times.index.to_numpy(dtype=np.float64))
    grid = _clock_grid(times.index)
    if grid.regular or times.wall.equals(times.index):
        return grid
    # Daily and monthly stamps with offsets are uneven in UTC when the clocks change.
    wall = times.wall
    if isinstance(wall, pd.DatetimeIndex) and wall.is_monotonic_increasing and wall.is_unique:
        by_wall = _clock_grid(wall, on_wall=True)
        if by_wall.regular:
            return by_wall
    return grid


def _clock_grid(index: pd.DatetimeIndex, on_wall: bool = False) -> Grid:
    months = _calendar_months(index)
    if months is not None:
        size = reduce(gcd, np.diff(months).tolist())
        step = MEAN_MONTH * size
        return Grid((months - months[0]) / size, step, step_name(step), True, size, on_wall)
    ticks = index.asi8 - index.asi8[0]
    size, regular = _whole_step(np.diff(ticks))
    step = pd.Timedelta(size, unit="us")
    positions = ticks / size
    return Grid(positions, step, step_name(step), regular, 0, on_wall)


def _calendar_months(index: pd.DatetimeIndex) -> NDArray[np.int64] | None:
    """Months since year 0 when every stamp is the same day and hour of its month, else None."""
    wall = index.tz_localize(None) if index.tz is not None else index
    day = wall.day.to_numpy()
    # The 31st is the 30th or the 28th in shorter months.
    same_day = day == np.minimum(day.max(), wall.days_in_month.to_numpy())
    same_hour = (wall - wall.normalize()).nunique() == 1
    months = wall.year.to_numpy(dtype=np.int64) * 12 + wall.month.to_numpy(dtype=np.int64)
    if not (same_day.all() and same_hour and (np.diff(months) > 0).all()):
        return None
    return months


def _whole_step(gaps: NDArray[np.int64]) -> tuple[int, bool]:
    """The step of integer gaps, and whether every gap is a whole number of steps."""
    sizes, counts = np.unique(gaps, return_counts=True)
    usual = int(sizes[np.argmax(counts)])
    if not (sizes % usual).any():
        return usual, True
    finest = reduce(gcd, sizes.tolist())
    if usual <= _FINEST * finest:
        return finest, True
    return int(np.median(gaps)), False


def _number_grid(numbers: NDArray[np.float64]) -> Grid:
    offsets = numbers - numbers[0]
    if (offsets == np.round(offsets)).all() and offsets[-1] < 2**53:
        size, regular = _whole_step(np.diff(offsets.astype(np.int64)))
        return Grid(offsets / size, float(size), step_name(float(size)), regular)
    gaps = np.diff(offsets)
    # Decimal numbers carry rounding noise: gaps that agree to nine digits are the same gap.
    sizes, counts = np.unique(np.round(gaps / np.median(gaps), 9), return_counts=True)
    step = float(sizes[np.argmax(counts)] * np.median(gaps)) or float(np.median(gaps))
    positions = offsets / step
    regular = bool((np.abs(positions - np.round(positions)) < 1e-3).all())
    regular = regular and bool((np.diff(np.round(positions)) > 0).all())
    return Grid(np.round(positions) if regular else positions, step, step_name(step), regular)


def step_name(step: pd.Timedelta | float) -> str:
    """What a step is called: ``hourly``, ``10-minute``, ``monthly``, ``numbered``.

    Examples
    --------
    >>> step_name(pd.Timedelta(minutes=10)), step_name(MEAN_MONTH), step_name(1.0)
    ('10-minute', 'monthly', 'numbered')
    """
    if not isinstance(step, pd.Timedelta):
        return "numbered" if step == 1 else f"{step:g}-unit"
    months = step / MEAN_MONTH
    if months == int(months):
        return _MONTH_NAMES.get(int(months), f"{int(months)}-month")
    if step in _NAMES:
        return _NAMES[step]
    seconds = step.total_seconds()
    for size, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return f"{seconds / size:g}-{word}"
    return f"{seconds:g}-second"


def complete_times(times: Times, grid: Grid, where: str | None) -> pd.Index:
    """All times of a regular grid from the first slot to the last."""
    if not grid.regular:
        raise InputError(
            f"the times are irregular (typical step {grid.step}), so there is no grid to complete",
            where=where,
            remedy="Leave complete_grid off, or resample the readings first",
        )
    if grid.on_wall and grid.absent:
        raise InputError(
            "the grid follows local time across a change of the clocks, so absent rows cannot be "
            "placed",
            where=where,
            remedy="Leave complete_grid off, or give the times in UTC",
        )
    steps = np.arange(round(float(grid.positions[-1])) + 1)
    index = times.index
    if isinstance(index, pd.DatetimeIndex):
        if grid.months:
            return _add_months(index, steps * grid.months)
        stamps = pd.DatetimeIndex(pd.Timestamp(index[0]) + steps * pd.Timedelta(grid.step))
        return stamps.as_unit("us")
    numbers = index.to_numpy(dtype=np.float64)
    complete = numbers[0] + steps * float(grid.step)  # type: ignore[arg-type]
    complete[np.round(grid.positions).astype(int)] = numbers
    completed: pd.Index = pd.Index(complete)
    return completed


def _add_months(index: pd.DatetimeIndex, months: NDArray[np.int64]) -> pd.DatetimeIndex:
    wall = index.tz_localize(None) if index.tz is not None else index
    starts = wall[:1].to_numpy().astype("M8[M]") + months
    first_days = starts.astype("M8[D]")
    length = ((starts + 1).astype("M8[D]") - first_days).astype(np.int64)
    days = np.minimum(int(wall.day.max()), length) - 1
    stamps = pd.DatetimeIndex(first_days + days).as_unit("us") + (wall[0] - wall[0].normalize())
    return stamps.tz_localize("UTC") if index.tz is not None else stamps
