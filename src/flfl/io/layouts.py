"""Wide and long files: which column is what, and the readings as a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.cells import (
    Decimal,
    Duplicates,
    clean,
    decimal_mark,
    gather,
    gather_texts,
    is_numeric,
    to_numbers,
)
from flfl.io.columns import Columns, CoordinateKind, is_text, listing
from flfl.io.grid import Grid, complete_times, infer_grid
from flfl.io.table import LongColumn, Source, Table
from flfl.io.times import TIME_NAMES, DateOrder, Times, read_times, texts_like

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

SENSOR_NAMES = (
    "sensor", "sensor_id", "sensorid", "station", "station_id", "stationid", "site_id",
    "location_id", "locationid", "location", "device", "device_id", "node", "node_id",
)  # fmt: skip
VALUE_NAMES = ("value", "values", "reading", "readings", "measurement", "measurements")
UNIT_NAMES = ("unit", "units")
PARAMETER_NAMES = ("parameter", "pollutant")
COORDINATES: tuple[tuple[CoordinateKind, tuple[str, ...], tuple[str, ...]], ...] = (
    ("latlon", ("latitude", "lat"), ("longitude", "lon", "lng", "long")),
    ("metric", ("x", "x_m", "easting"), ("y", "y_m", "northing")),
)
# What was said of each reading, even where it is the same word throughout: nobody said it of a
# recovered one.
_JUDGEMENT = re.compile(
    r"(?:.*[_ ])?(?:qc|qa|quality|flags?|status|valid|validity|validated|validation"
    r"|verified|verification)(?:[_ ](?:flags?|code|status))?"
)
_LONG_HINT = (
    "; if the file is long (time, sensor, value), name its columns with time_column, "
    "sensor_column and value_column"
)
# A long file whose sensors and times hardly ever meet is a mistaken column, and the grid would
# not fit in memory.
_MOST_CELLS, _LEAST_SHARE = 10**8, 1e-3


@dataclass(frozen=True)
class Rules:
    """How the user wants a file to be read, where there is a choice; see `read_readings`."""

    sentinels: Sequence[float] = ()
    missing_words: Sequence[str] = ()
    duplicates: Duplicates = "refuse"
    complete_grid: bool = False
    parameter: str | None = None
    date_order: DateOrder = "auto"
    time_zone: str | None = None
    decimal: Decimal = "auto"


@dataclass(frozen=True)
class Roles:
    """Positions of the columns of a long file."""

    time: int
    sensor: int
    value: int


@dataclass(frozen=True, eq=False)
class Axis:
    """The slots of a table: one for each different time, in order.

    ``given`` are the times as they were read, and ``slot`` is the slot of each of them.
    """

    times: Times
    grid: Grid
    given: Times
    slot: Rows
    absent: int

    @classmethod
    def of(cls, columns: Columns, given: Times, complete: bool) -> Axis:
        """Sort the times, find their grid and, if wanted, insert the times that it lacks."""
        index = given.index
        keys = index.asi8 if isinstance(index, pd.DatetimeIndex) else index.to_numpy()
        _, first, slot = np.unique(keys, return_index=True, return_inverse=True)
        if len(first) < 2:
            raise columns.error(
                f"there is only one time, {given.texts[0]!r}",
                "Give at least two rows; gaps are filled from readings at other times",
            )
        times = given.take(first)
        grid = infer_grid(times.index, times.wall)
        absent = grid.absent
        if complete:
            index = complete_times(times.index, grid, columns.where())
            if absent:
                place = np.round(grid.positions).astype(np.intp)
                texts = texts_like(times, index)
                texts[place] = times.texts
                times = replace(times, index=index, wall=index, texts=texts)
                grid = replace(grid, positions=np.arange(len(index), dtype=np.float64))
                slot = place[slot]
        return cls(times, grid, given, slot, absent)

    def __len__(self) -> int:
        return len(self.times.index)


def pick_time_column(columns: Columns, name: str | None) -> tuple[int, list[str]]:
    """The time column of a wide file, as named, by a common name, or the first; and notes."""
    if name is not None:
        return columns.named(name, "time_column"), []
    found = 0 if columns.wide_only else columns.find(TIME_NAMES)
    first = columns.names[0]
    if found is not None or columns.time_first or not first:
        return found or 0, []
    if columns.format == "parquet" and is_numeric(columns.arrays[0].type):
        raise columns.error(
            f"no column is known to hold the time, and the first, {first!r}, holds numbers",
            "Name the time column with time_column",
        )
    return 0, [f"No column has a usual name for the time; the first, {first!r}, was taken."]


def find_roles(
    columns: Columns, time: str | None, sensor: str | None, value: str | None, sure: bool
) -> Roles | None:
    """Columns of a long file; None when the file does not look long and need not be."""
    sure = sure or sensor is not None or value is not None
    found = {
        option: columns.find(common) if name is None else columns.named(name, option)
        for option, name, common in (
            ("time_column", time, TIME_NAMES),
            ("sensor_column", sensor, SENSOR_NAMES),
            ("value_column", value, VALUE_NAMES),
        )
    }
    missing = [option for option, column in found.items() if column is None]
    three = missing == ["value_column"] and len(columns.names) == 3
    if three and (sure or _has_text(columns.arrays[found["sensor_column"] or 0])):
        # time, station, PM10: the one column left holds the values.
        found["value_column"] = ({0, 1, 2} - set(found.values())).pop()
        missing = []
    if not missing and len(set(found.values())) == 3:
        return Roles(*(int(column or 0) for column in found.values()))
    if not sure:
        return None
    raise columns.error(
        "a long table needs a time, a sensor and a value column; these columns were found: "
        f"{listing(columns.names, 8)}",
        "Name the columns with " + ", ".join(missing or found),
    )


def _has_text(array: pa.Array) -> bool:
    try:
        pc.cast(array.slice(0, 100), pa.float64())
    except pa.ArrowException:
        return True
    return False


def wide_table(columns: Columns, time: int, rules: Rules, notes: Sequence[str] = ()) -> Table:
    """The table of a wide file."""
    sensors = [i for i in range(len(columns.names)) if i != time]
    if not sensors:
        raise columns.error(
            "there is a time column but no sensor column",
            "Give one column a sensor, separated by comma, semicolon, tab or bar",
        )
    if any(not columns.names[i] for i in sensors):
        raise columns.error("column 1 has no name", "Name it in the header")
    decimal = decimal_mark(columns, sensors, rules.decimal)
    rows = len(columns.arrays[time])
    values = np.empty((len(sensors), rows))
    for row, i in enumerate(sensors):
        values[row] = to_numbers(columns, i, decimal, rules.missing_words, _LONG_HINT)
    found = clean(columns, sensors, values, rules.sentinels)
    given = read_times(
        columns,
        time,
        columns.arrays[time],
        date_order=rules.date_order,
        time_zone=rules.time_zone,
    )
    axis = Axis.of(columns, given, rules.complete_grid)
    texts = [columns.arrays[i] for i in sensors] if columns.format == "csv" else []
    repeated = rows - len(np.unique(axis.slot))
    order = None
    if repeated:
        if rules.duplicates == "refuse":
            raise _duplicate_error(columns, given, np.arange(rows), axis.slot)
        found.append(_duplicates_note(repeated, "row", rules.duplicates))
        values, row_of = gather(
            np.tile(axis.slot, len(sensors)),
            np.repeat(np.arange(len(sensors)), rows),
            values.ravel(),
            (len(sensors), len(axis)),
            rules.duplicates,
        )
        # From rows of all sensors one below another to rows of each.
        row_of -= np.where(row_of < 0, 0, np.arange(len(sensors))[:, None] * rows)
    elif len(axis) > rows or (np.diff(axis.slot) < 0).any():
        if (np.diff(axis.slot) < 0).any():
            found.append("The rows were not in time order; they have been sorted.")
            order = axis.slot if len(axis) == rows else None
        one = np.full(len(axis), -1, dtype=np.intp)
        one[axis.slot] = np.arange(rows)
        values = np.where(one < 0, np.nan, values[:, one])
        row_of = np.broadcast_to(one, values.shape)
    if len(axis) != rows or repeated or order is not None:
        texts = [gather_texts(text, row_of[i], values[i], decimal) for i, text in enumerate(texts)]
    ids = [columns.names[i] for i in sensors]
    source = Source(
        path=columns.path,
        format=columns.format,
        layout="wide",
        time_column=columns.names[time],
        time_texts=tuple(axis.times.texts),
        zone=axis.times.zone,
        dialect=replace(columns.dialect, decimal=decimal),
        texts=tuple(texts),
        form=columns.form,
    )
    table = _table(columns, axis, ids, values, [*columns.notes, *found, *notes], source, rules)
    units = None if columns.units is None else tuple(columns.units[i] for i in sensors)
    return replace(
        table,
        order=order,
        units=units if units and any(units) else None,
        coordinates=columns.coordinates,
        coordinate_kind=columns.kind,
    )


def long_table(columns: Columns, roles: Roles, rules: Rules) -> Table:
    """The table of a long file."""
    used = {roles.time, roles.sensor, roles.value}
    columns, parameter = _pick_parameter(columns, rules.parameter, used)
    code, words = _codes(columns, roles.time, columns.arrays[roles.time])
    given = read_times(
        columns,
        roles.time,
        words,
        lambda i: int(np.flatnonzero(code == i)[0]),
        rules.date_order,
        rules.time_zone,
    )
    sensor, names = _sensor_codes(columns, roles.sensor)
    ids = [str(name) for name in names.to_pylist()]
    decimal = decimal_mark(columns, [roles.value], rules.decimal)
    # A copy: sentinels are taken out in place, and the column may be the file's own memory.
    numbers = np.array(to_numbers(columns, roles.value, decimal, rules.missing_words))
    notes = clean(columns, [roles.value], numbers[None, :], rules.sentinels)
    axis = Axis.of(columns, given, rules.complete_grid)
    shape = (len(ids), len(axis))
    if shape[0] * shape[1] > _MOST_CELLS and len(code) < _LEAST_SHARE * shape[0] * shape[1]:
        raise columns.error(
            f"{len(code)} rows name {shape[0]} sensors and {shape[1]} times, which hardly ever "
            "meet",
            "Check that sensor_column and time_column name the right columns",
        )
    slot = axis.slot[code]
    cell = sensor * len(axis) + slot
    repeated = len(cell) - int(np.count_nonzero(np.bincount(cell)))
    if repeated and rules.duplicates == "refuse":
        raise _duplicate_error(columns, given, code, cell, [ids[i] for i in sensor])
    values, row_of = gather(slot, sensor, numbers, shape, rules.duplicates)
    if repeated:
        notes.append(_duplicates_note(repeated, "reading", rules.duplicates))
    if parameter is not None:
        notes.append(f"The parameter is {parameter}.")
    kept, lost = _long_columns(columns, roles, sensor, slot, shape)
    if lost:
        notes.append(f"Columns that are not used and not carried over: {listing(lost)}.")
    units = _units(columns, kept, used, notes)
    coordinates, kind = _coordinates(columns, kept, notes)
    texts = columns.arrays[roles.value]
    source = Source(
        path=columns.path,
        format=columns.format,
        layout="long",
        time_column=columns.names[roles.time],
        time_texts=tuple(axis.times.texts),
        zone=axis.times.zone,
        dialect=replace(columns.dialect, decimal=decimal),
        texts=tuple(
            gather_texts(texts, row_of[i], values[i], decimal)
            for i in range(len(ids))
            if columns.format == "csv"
        ),
        by_sensor=bool(np.count_nonzero(np.diff(sensor)) < np.count_nonzero(np.diff(slot))),
        columns=kept,
        form=columns.form,
    )
    table = _table(columns, axis, ids, values, notes, source, rules)
    return replace(table, units=units, coordinates=coordinates, coordinate_kind=kind)


def _codes(columns: Columns, column: int, array: pa.Array) -> tuple[Rows, pa.Array]:
    """Which of the different cells each row holds, and those cells; refuses a missing one."""
    coded = array.dictionary_encode()
    if coded.indices.null_count:
        row = int(np.flatnonzero(array.is_null())[0])
        remedy = "Give every row a time and a sensor, or remove the row"
        raise columns.error("the cell is missing", remedy, row, column)
    return coded.indices.to_numpy(zero_copy_only=False).astype(np.intp), coded.dictionary


def _sensor_codes(columns: Columns, column: int) -> tuple[Rows, pa.Array]:
    array = columns.arrays[column]
    if not is_text(array.type):
        array = pc.cast(array, pa.string())
    code, names = _codes(columns, column, pc.utf8_trim_whitespace(array))
    empty = pc.index(names, "").as_py()
    if empty >= 0:
        row = int(np.flatnonzero(code == empty)[0])
        remedy = "Give every row a sensor, or remove the row"
        raise columns.error("the sensor name is missing", remedy, row, column)
    return code, names


def _pick_parameter(
    columns: Columns, parameter: str | None, used: set[int]
) -> tuple[Columns, str | None]:
    """The rows of one parameter, and which; refuses several when none is chosen."""
    column = columns.find(PARAMETER_NAMES)
    if column is None or column in used:
        if parameter is not None:
            problem = f"there is no column parameter to choose {parameter!r} from"
            raise columns.error(problem, "Leave parameter out")
        return columns, None
    cells = pc.utf8_trim_whitespace(pc.cast(columns.arrays[column], pa.string())).fill_null("")
    found = sorted(str(name) for name in pc.unique(cells).to_pylist())
    if parameter is None and len(found) > 1:
        raise columns.error(
            f"the file holds {len(found)} parameters: {listing(found, 12)}",
            f"Choose one with parameter, for example parameter={found[0] or found[1]}",
            column=column,
        )
    if parameter is not None and parameter not in found:
        raise columns.error(
            f"there is no parameter {parameter!r}; the file holds {listing(found, 12)}",
            "Choose one of these with parameter",
            column=column,
        )
    if len(found) > 1:
        columns = columns.pick(np.flatnonzero(pc.equal(cells, parameter)))
    return columns, parameter or found[0] or None


def _long_columns(
    columns: Columns, roles: Roles, sensor: Rows, slot: Rows, shape: tuple[int, int]
) -> tuple[tuple[LongColumn, ...], list[str]]:
    """The columns that can be written again, and the names of those that cannot.

    What depends on the sensor or the time alone (unit, local time) goes along.
    """
    kept, lost = [], []
    for i, (name, array) in enumerate(zip(columns.names, columns.arrays, strict=True)):
        if i == roles.value:
            kept.append(LongColumn(name, "cell"))
        elif i == roles.time:
            kept.append(LongColumn(name, "slot"))
        elif i == roles.sensor:
            kept.append(LongColumn(name, "sensor"))
        elif _JUDGEMENT.fullmatch(name.lower()) or pa.types.is_nested(array.type):
            lost.append(name)
        elif (cells := _one_cell_each(array, sensor, shape[0])) is not None:
            kept.append(LongColumn(name, "sensor", cells))
        elif (cells := _one_cell_each(array, slot, shape[1])) is not None:
            kept.append(LongColumn(name, "slot", cells))
        else:
            lost.append(name)
    return tuple(kept), lost


def _one_cell_each(array: pa.Array, key: Rows, count: int) -> pa.Array | None:
    """The cell that belongs to each key, where all rows of a key agree; else None."""
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    code = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    first = np.full(count, -1, dtype=np.intp)
    first[key[::-1]] = np.arange(len(key))[::-1]
    if not (code[first][key] == code).all():
        return None
    return array.take(pa.array(first, mask=first < 0))


def _units(
    columns: Columns, kept: Sequence[LongColumn], used: set[int], notes: list[str]
) -> tuple[str, ...] | None:
    column = columns.find(UNIT_NAMES)
    if column is None or column in used:
        return None
    of_sensor = {one.name: one.cells for one in kept if one.by == "sensor"}
    cells = of_sensor.get(columns.names[column])
    if cells is None:
        raise columns.error(
            "one sensor has readings in several units",
            "Convert the readings of a sensor to one unit, or remove the column",
            column=column,
        )
    units = tuple(str(unit or "").strip() for unit in cells.to_pylist())
    if len(set(units)) > 1:
        notes.append(f"The sensors are in different units: {listing(sorted(set(units)))}.")
    return units


def _coordinates(
    columns: Columns, kept: Sequence[LongColumn], notes: list[str]
) -> tuple[Array | None, CoordinateKind | None]:
    """Coordinates that the long file itself gives, when every sensor has one place."""
    of_sensor = {one.name: one.cells for one in kept if one.by == "sensor"}
    for kind, *pair in COORDINATES:
        found = [columns.find(names) for names in pair]
        if None in found:
            continue
        cells = [of_sensor.get(columns.names[i]) for i in found if i is not None]
        if any(one is None for one in cells):
            notes.append("The coordinates of a sensor change; they are not used.")
            return None, None
        small = replace(columns, names=("first", "second"), arrays=tuple(cells))
        try:
            decimal = decimal_mark(small, [0, 1])
            places = np.column_stack([to_numbers(small, i, decimal) for i in (0, 1)])
        except InputError:
            places = np.full((1, 2), np.nan)
        most = (90.0, 360.0) if kind == "latlon" else (np.inf, np.inf)
        if np.isfinite(places).all() and (np.abs(places) <= most).all():
            return places, kind
        notes.append("The coordinates in the file are not all there; they are not used.")
        return None, None
    return None, None


def _duplicates_note(count: int, what: str, duplicates: Duplicates) -> str:
    done = "averaged" if duplicates == "mean" else "dropped in favour of the first known one"
    return f"{count} repeated {what}{'s' * (count != 1)} {done}."


def _duplicate_error(
    columns: Columns, given: Times, code: Rows, key: Rows, sensors: Sequence[str] = ()
) -> InputError:
    """Several rows for one key; ``code`` is the time of each row, ``sensors`` its sensor."""
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    repeated = np.flatnonzero(counts[inverse] > 1)
    rows = np.flatnonzero(inverse == inverse[repeated[0]])[:2].tolist()
    remedy = "Remove one of them, or choose duplicates=mean or duplicates=first"
    if sensors:
        remedy += "; if these are two sensors, name the column that tells them apart with "
        remedy += "sensor_column"
    times = given.index[code[repeated]]
    if isinstance(times, pd.DatetimeIndex) and times.tz is None:
        # The small hours of a Sunday in a month in which clocks are set back.
        sunday = (times.day_of_week == 6) & (times.hour <= 3)
        if (sunday & times.month.isin([3, 4, 9, 10, 11])).all():
            remedy = (
                "This looks like the hour that local clocks repeat when daylight saving ends: "
                "write times in UTC or with their offset (2024-10-27T02:00:00+02:00), name the "
                "zone with time_zone, or choose duplicates=mean or duplicates=first"
            )
    whose = f" for the sensor {sensors[rows[0]]!r}" if sensors else ""
    cases = int((counts > 1).sum())
    more = "" if cases == 1 else f" ({cases} such cases)"
    text = given.texts[code[rows[0]]]
    problem = f"the time {text!r} appears more than once{whose}{more}"
    return columns.error_at(problem, remedy, rows)


def _table(
    columns: Columns,
    axis: Axis,
    ids: list[str],
    values: Array,
    notes: Sequence[str],
    source: Source,
    rules: Rules,
) -> Table:
    """Check the whole and describe it; ``values`` is sensors x slots."""
    gaps = np.isnan(values)
    if gaps.all():
        raise columns.error(
            "every cell is missing, there is no reading at all",
            "Check the sentinels and the layout, or give another file",
        )
    grid, texts, sensors = axis.grid, axis.times.texts, len(ids)
    told = [
        f"A {source.layout} table of {sensors} {'sensor' if sensors == 1 else 'sensors'} and "
        f"{len(axis)} {f'{grid.name} ' if grid.regular else ''}slots from {texts[0]} to "
        f"{texts[-1]}; {100 * float(gaps.mean()):.1f} % of the cells are missing.",
        *notes,
    ]
    zone = axis.times.zone
    if zone is not None:
        carry = f"carry offsets ({zone})" if zone[0] in "+-U" else f"are in {zone}"
        held = f"The times {carry}; they are held in UTC and written as they were."
        told.append("The times are in UTC." if columns.format == "netcdf" else held)
    if not grid.regular:
        told.append(f"The times are irregular; the usual step is {grid.step}.")
    if axis.absent:
        total = len(axis) if rules.complete_grid else axis.absent + len(axis)
        one = axis.absent == 1
        stay = "it stays absent" if one else "they stay absent"
        inserted = f"{'it has' if one else 'they have'} been inserted"
        told.append(
            f"{axis.absent} of {total} {grid.name} rows {'is' if one else 'are'} absent; "
            f"{inserted if rules.complete_grid else stay}."
        )
    lowest, highest = (np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1))
    empty = [name for name, low in zip(ids, lowest, strict=True) if np.isnan(low)]
    several = (~gaps).sum(axis=1) > 1
    constant = [f"{ids[i]} ({lowest[i]:g})" for i in np.flatnonzero(several & (lowest == highest))]
    for found, what in ((empty, "no readings"), (constant, "one constant value")):
        if found:
            have = "1 sensor has" if len(found) == 1 else f"{len(found)} sensors have"
            told.append(f"{have} {what}: {listing(found)}.")
    index = axis.times.index.rename(source.time_column or None)
    return Table(
        values=pd.DataFrame(values.T, index=index, columns=ids, copy=False),
        grid=grid,
        source=source,
        notes=tuple(told),
    )
