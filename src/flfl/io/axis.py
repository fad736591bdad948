"""The slots of a table: the different times of its rows, or the grid that they are put on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from flfl.config import ReadingRules
from flfl.errors import InputError
from flfl.io.columns import Columns
from flfl.io.grid import Grid, complete_times, infer_grid
from flfl.io.times import Times, read_times, texts_like

Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Axis:
    """The slots of a table; ``given`` are the times as read, and ``slot`` the slot of each."""

    times: Times
    grid: Grid
    given: Times
    slot: Rows
    absent: int
    notes: tuple[str, ...] = ()


def read_axis(
    columns: Columns, time: int, cells: pa.Array, code: Rows, rules: ReadingRules
) -> Axis:
    """Read the different times (``code``: which each row has), sort them, find their grid."""
    order, zone, unit = rules.date_order, rules.time_zone, rules.time_unit
    given = read_times(columns, time, cells, code, order, zone, unit)
    if rules.step is not None:
        return _binned(columns, given, rules)
    index = given.index
    keys = index.asi8 if isinstance(index, pd.DatetimeIndex) else index.to_numpy()
    _, first, slot = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) < 2:
        remedy = "Give at least two rows; gaps are filled from readings at other times"
        raise columns.error(f"there is only one time, {given.texts[0]!r}", remedy)
    wall, texts = given.wall.take(first), given.texts[first]
    times = replace(given, index=index.take(first), wall=wall, texts=texts)
    grid = infer_grid(times.index, times.wall)
    absent = grid.absent
    if rules.complete_grid:
        whole = complete_times(times.index, grid, str(columns.path))
        if absent:
            place, texts = np.round(grid.positions).astype(np.intp), texts_like(times, whole)
            texts[place] = times.texts
            times = replace(times, index=whole, wall=whole, texts=texts)
            grid = replace(grid, positions=np.arange(len(whole), dtype=np.float64))
            slot = place[slot]
    return Axis(times, grid, given, slot, absent)


def _binned(columns: Columns, given: Times, rules: ReadingRules) -> Axis:
    """All slots of a grid with the given step, and the slot in which each time lies."""
    try:
        step = pd.Timedelta(str(rules.step))
    except ValueError:
        step = pd.Timedelta(0)
    index = given.index
    if step <= pd.Timedelta(0) or not isinstance(index, pd.DatetimeIndex):
        what = f"{rules.step!r} is no step"
        what = what if isinstance(index, pd.DatetimeIndex) else "the times are numbers"
        raise InputError(what, where="step", remedy="Give a step such as 1h, 10min or 1D")
    size, keys = int(step / pd.Timedelta(1, unit="us")), index.asi8
    slot = (keys - keys.min() // size * size) // size
    first = keys.min() // size * size
    count = int(slot.max()) + 1
    if count < 2 or count > 100 * len(keys) + 10**6:
        problem = f"a step of {rules.step} makes {count} slots of {len(keys)} times"
        raise columns.error(problem, "Give another step")
    whole = pd.DatetimeIndex(first + np.arange(count) * size, dtype="M8[us]")
    whole = whole.tz_localize("UTC") if index.tz is not None else whole
    times = replace(given, index=whole, wall=whole, texts=texts_like(given, whole), notes=())
    per_slot = np.bincount(slot, minlength=count)
    note = f"{len(keys)} times were put into {count} slots of {rules.step}, at most "
    note += f"{per_slot.max()} in one; several readings of a slot become their {rules.aggregate}."
    grid = Grid(np.arange(count, dtype=np.float64), step, True)
    return Axis(times, grid, given, slot.astype(np.intp), 0, (*given.notes, note))


def repeats(
    columns: Columns,
    given: Times,
    code: Rows,
    key: Rows,
    values: NDArray[np.float64],
    rules: ReadingRules,
    sensors: tuple[Sequence[str], Rows] | None = None,
) -> list[str]:
    """A note on rows that share a key, or the refusal of those that say different things.

    ``code`` is the time of each row, ``values`` (columns x rows) are its readings, ``sensors`` the
    names and which of them each row is of.
    """
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    count = len(key) - len(first)
    if count == 0:
        return []
    what = f"{'row' if sensors is None else 'reading'}{'s' * (count != 1)}"
    if rules.duplicates != "refuse":
        done = {"mean": "averaged", "first": "dropped in favour of the first known one"}
        return [f"{count} repeated {what} {done[rules.duplicates]}."]
    before = first[inverse]
    again = np.flatnonzero(before != np.arange(len(key)))
    one, other = values[:, again], values[:, before[again]]
    repeated = again[~((one == other) | (np.isnan(one) & np.isnan(other))).all(axis=0)]
    if len(repeated) == 0:
        return [f"{count} {what} repeated, each time with the same content; read once."]
    rows = [int(before[repeated[0]]), int(repeated[0])]
    remedy = "Remove one of them, or choose duplicates=mean or duplicates=first"
    if sensors:
        remedy += "; if these are two sensors, name the column that tells them apart with "
        remedy += "sensor_column"
    times = given.index[code[repeated]]
    if isinstance(times, pd.DatetimeIndex) and times.tz is None:
        # The small hours of a Sunday in a month in which clocks are set back.
        night = (times.day_of_week == 6) & (times.hour <= 3)
        if (night & times.month.isin([3, 4, 9, 10, 11])).all():
            remedy = "This looks like the hour that local clocks repeat when daylight saving ends: "
            remedy += "write times in UTC or with their offset (2024-10-27T02:00:00+02:00), name "
            remedy += "the zone with time_zone, or choose duplicates=mean or duplicates=first"
    whose = "" if sensors is None else f" for the sensor {sensors[0][sensors[1][rows[0]]]!r}"
    cases = len(np.unique(before[repeated]))
    more = f" ({cases} such cases)" if cases > 1 else ""
    problem = f"the time {given.texts[code[rows[0]]]!r} appears more than once{whose}, with "
    problem += f"different readings{more}"
    raise columns.error(problem, remedy, *rows)


def refuse_scattered(columns: Columns, axis: Axis, code: Rows, sensor: Rows, sensors: int) -> None:
    """Refuse sensors whose times hardly ever coincide: each reading would be a slot of its own."""
    slots = len(axis.times.texts)
    together = len(code) / max(slots, 1)
    if axis.grid.regular or sensors < 2 or slots < 20 or together > min(1.5, 0.5 * sensors):
        return
    index = axis.given.index
    keys = index.asi8 if isinstance(index, pd.DatetimeIndex) else index.to_numpy()
    order = np.lexsort((keys[code], sensor))
    steps = np.diff(keys[code][order])[np.diff(sensor[order]) == 0]
    usual = f"{pd.Timedelta(int(np.median(steps)), unit='us').round('min')}"
    problem = f"the sensors have times of their own ({slots} different ones for {len(code)} rows)"
    remedy = f"Give step, for example step=1h, to put them on one grid (usual distance {usual})"
    raise columns.error(problem, remedy)
