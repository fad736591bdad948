"""Wide and long files: which column is what, and the readings as a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.config import Settings
from flfl.errors import InputError
from flfl.io import tidy
from flfl.io.cells import (
    Aggregate,
    Censored,
    Decimal,
    Duplicates,
    clean,
    decimal_mark,
    gather,
    is_number,
    to_numbers,
)
from flfl.io.columns import TEXTUAL, Columns, CoordinateKind, listing
from flfl.io.grid import Grid, complete_times, infer_grid
from flfl.io.table import By, LongColumn, Source, Table
from flfl.io.times import TIME_NAMES, DateOrder, Times, TimeUnit, read_times, texts_like

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

SENSOR_NAMES = (
    "sensor", "sensor_id", "sensorid", "station", "station_id", "stationid", "site_id",
    "location_id", "locationid", "location", "device", "device_id", "node", "node_id",
    "sensor_index", "sensor_number", "station_code", "stationscode", "station_name", "site_name",
    "messstation", "messstelle", "stationsname", "capteur", "code_station", "estacion", "estación",
    "codigo_estacion", "punto_muestreo",
)  # fmt: skip
VALUE_NAMES = (
    "value", "values", "reading", "readings", "measurement", "measurements", "concentration",
    "wert", "messwert", "valeur", "valor",
)  # fmt: skip
SENTINELS = (-999.0, -9999.0)
UNIT_NAMES = ("unit", "units")
PARAMETER_NAMES = ("parameter", "pollutant", "schadstoff", "komponente", "polluant", "magnitud")
COORDINATES: tuple[tuple[CoordinateKind, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "latlon",
        (
            "latitude",
            "lat",
            "latitude_deg",
            "site latitude",
            "breite",
            "breitengrad",
            "geographische breite",
            "geogr. breite",
            "latitud",
        ),
        (
            "longitude",
            "lon",
            "lng",
            "long",
            "longitude_deg",
            "site longitude",
            "länge",
            "laenge",
            "längengrad",
            "laengengrad",
            "geographische länge",
            "geogr. länge",
            "longitud",
        ),
    ),
    (
        "metric",
        ("x", "x_m", "easting", "rechtswert", "ostwert", "coord_x", "utm_x"),
        ("y", "y_m", "northing", "hochwert", "nordwert", "coord_y", "utm_y"),
    ),
)
# What a cell of the columns of time, sensor and value belongs to.
_HELD: tuple[By, ...] = ("slot", "sensor", "cell")
# What was said of each reading, which nobody said of a recovered one.
_JUDGEMENT = re.compile(
    r"(?:.*[_ ])?(?:qc|qa|quality|flags?|status|valid|validity|validated|validation"
    r"|verified|verification)(?:[_ ](?:flags?|code|status))?"
)
_LONG_HINT = (
    "; if the file is long (time, sensor, value), name its columns with time_column, "
    "sensor_column and value_column"
)
# Sensors and times that hardly ever meet are a mistaken column, and a grid beyond memory.
_MOST_CELLS, _LEAST_SHARE = 10**8, 1e-3


class Rules(Settings):
    """How a file of readings is to be read, where there is a choice.

    ``layout``: wide, with a time column and one for each sensor, or long, with time, sensor and
    value; by default columns are recognised by common names, and the time is else the first one.
    ``sentinels`` are numbers, ``missing_words`` texts in any case such as ``--``, that stand for a
    missing reading. ``duplicates``: refuse several readings of one sensor at one time, average
    them, or keep the first known. ``complete_grid`` inserts the rows that are absent from a regular
    time grid. ``parameter`` says which quantity of several: a word of the column ``parameter``, or
    a NetCDF variable. ``date_order`` and ``decimal`` say how to read 01/02/2024 and 1,234, by
    default only where another cell of the file tells; ``time_zone`` is the zone of times that carry
    no offset, such as Europe/Berlin, then held in UTC. ``time_unit`` says what numbers as times
    count. ``encoding``, ``sheet`` and ``format`` are a text's encoding, a spreadsheet's sheet and
    the agency whose layout a file has. Readings below a limit of detection (``<2.0``) are missing,
    or half the limit, as ``censored`` says; ``bad_flags`` are words of flag columns that mean
    missing. ``step`` (``1h``) puts times that are on no grid on one, and ``aggregate`` says what
    several readings of a slot become.
    """

    layout: Literal["auto", "wide", "long"] = "auto"
    time_column: str | None = None
    sensor_column: str | None = None
    value_column: str | None = None
    sentinels: Sequence[float] = SENTINELS
    missing_words: Sequence[str] = ()
    duplicates: Duplicates = "refuse"
    complete_grid: bool = False
    parameter: str | None = None
    date_order: DateOrder = "auto"
    time_zone: str | None = None
    decimal: Decimal = "auto"
    time_unit: TimeUnit = "auto"
    encoding: str | None = None
    sheet: str | None = None
    format: Literal["auto", "plain", "purpleair", "openaq", "eea", "aqs", "uba"] = "auto"
    censored: Censored = "missing"
    bad_flags: Sequence[str] = ()
    step: str | None = None
    aggregate: Aggregate = "mean"


@dataclass(frozen=True, eq=False)
class Axis:
    """The slots of a table; ``given`` are the times as read, and ``slot`` the slot of each."""

    times: Times
    grid: Grid
    given: Times
    slot: Rows
    absent: int
    notes: tuple[str, ...] = ()


def find_roles(columns: Columns, rules: Rules) -> tuple[int, int, int] | None:
    """Columns of a long file; None when it does not look long and need not be."""
    if rules.layout == "wide":
        return None
    sure = rules.layout == "long" or (rules.sensor_column or rules.value_column) is not None
    found = {
        option: columns.find(common) if name is None else columns.named(name, option)
        for option, name, common in (
            ("time_column", rules.time_column, TIME_NAMES),
            ("sensor_column", rules.sensor_column, SENSOR_NAMES),
            ("value_column", rules.value_column, VALUE_NAMES),
        )
    }
    missing = [option for option, column in found.items() if column is None]
    if missing == ["value_column"] and len(columns.names) == 3:
        # time, station, PM10: the one column left holds the values, if the sensors have names.
        some = columns.arrays[found["sensor_column"] or 0].slice(0, 100)
        numbers = not sure and is_number(some)
        found["value_column"] = None if numbers else ({0, 1, 2} - set(found.values())).pop()
    if missing == ["value_column"] and found["value_column"] is None:
        used = [column for column in found.values() if column is not None]
        found["value_column"] = tidy.value_column(columns, used, rules.parameter)
    positions = [column for column in found.values() if column is not None]
    if len(set(positions)) == 3:
        return positions[0], positions[1], positions[2]
    if not sure:
        return None
    problem = "a long table needs a time, a sensor and a value column; these columns were found: "
    remedy = "Name the columns with " + ", ".join(missing or found)
    raise columns.error(problem + listing(columns.names, 8), remedy)


def wide_table(columns: Columns, rules: Rules) -> Table:
    """The table of a wide file."""
    time = None if columns.wide_only else columns.find(TIME_NAMES)
    first, notes = columns.names[0], []
    if rules.time_column is not None:
        time = columns.named(rules.time_column, "time_column")
    elif time is None and first and not columns.time_first:
        if columns.format == "parquet" and is_number(columns.arrays[0]):
            problem = f"no column is known to hold the time; the first, {first!r}, holds numbers"
            raise columns.error(problem, "Name the time column with time_column")
        notes = [f"No column has a usual name for the time; the first, {first!r}, was taken."]
    name = columns.names[time or 0]
    if not columns.wide_only:
        picked = tidy.only_quantity(columns, time or 0, rules.parameter)
        if rules.parameter is not None and picked is columns:
            problem = f"a wide table has no parameter to choose; {rules.parameter!r} was asked for"
            raise columns.error(problem, "Leave parameter out")
        columns = picked
    time = columns.names.index(name)
    sensors = [i for i in range(len(columns.names)) if i != time]
    if not sensors:
        remedy = "Give one column a sensor, separated by comma, semicolon, tab or bar"
        raise columns.error("there is a time column but no sensor column", remedy)
    if not all(columns.names[i] for i in sensors):
        raise columns.error("column 1 has no name", "Name it in the header")
    decimal = decimal_mark(columns, sensors, rules.decimal)
    values, below = np.empty((len(sensors), len(columns.arrays[time]))), dict[int, Array]()
    for row, i in enumerate(sensors):
        values[row] = to_numbers(columns, i, decimal, rules.missing_words, _LONG_HINT, below)
    notes = [*columns.notes, *clean(columns, sensors, values, rules.sentinels), *notes]
    limits, told = _limits(below, sensors, values, rules.censored)
    sensors, values, limits, more = _without_sums(columns, sensors, values, limits)
    notes += [*told, *more]
    rows = np.arange(values.shape[1])
    axis = _axis(columns, time, columns.arrays[time], rows, rules)
    slot, slots = axis.slot, len(axis.times.texts)
    if rules.step is None:
        notes += _repeats(columns, axis.given, rows, slot, rules)
    in_order = bool((np.diff(slot) >= 0).all())
    if not in_order:
        notes.append("The rows were not in time order; they have been sorted.")
    texts = [columns.arrays[i] if columns.format in TEXTUAL else None for i in sensors]
    if not np.array_equal(slot, rows) or slots != len(rows):
        grid, how = np.empty((len(sensors), slots)), _several(rules)
        for i, text in enumerate(texts):
            grid[i], texts[i] = gather(slot, values[i], slots, how, text, decimal)
        values = grid
        if limits is not None:
            limits = np.array([_on_grid(slot, one, slots) for one in limits])
    units = tuple(columns.units[i] for i in sensors) if columns.units is not None else ()
    columns = replace(columns, units=units if any(units) else None)
    ids = [columns.names[i] for i in sensors]
    table = _table(columns, time, axis, ids, values, texts, decimal, notes, rules)
    table = replace(table, ceiling=None if limits is None else limits.T)
    # Rows that were merged, or others inserted among them, have no order of their own.
    whole = slots == len(rows) and np.array_equal(np.sort(slot), rows)
    order = slot if not in_order and whole else None
    return replace(table, order=order)


def long_table(columns: Columns, roles: tuple[int, int, int], rules: Rules) -> Table:
    """The table of a long file; ``roles`` are its columns of time, sensor and value."""
    time, who, value = roles
    columns, notes = _pick_parameter(columns, rules.parameter, roles)
    code, words = _codes(columns, time, columns.arrays[time], "time")
    names = pc.utf8_trim_whitespace(pc.cast(columns.arrays[who], pa.string()))
    sensor, found = _codes(columns, who, names, "sensor name")
    ids = [str(name) for name in found.to_pylist()]
    decimal = decimal_mark(columns, [value], rules.decimal)
    # A copy: sentinels are taken out in place, and the column may be the file's own memory.
    below = dict[int, Array]()
    numbers = np.array(to_numbers(columns, value, decimal, rules.missing_words, "", below))
    notes = [*columns.notes, *clean(columns, [value], numbers[None, :], rules.sentinels), *notes]
    limits, told = _limits(below, [value], numbers[None, :], rules.censored)
    notes += told
    axis = _axis(columns, time, words, code, rules)
    slot, sensors, slots = axis.slot[code], len(ids), len(axis.times.texts)
    if sensors * slots > _MOST_CELLS and len(code) < _LEAST_SHARE * sensors * slots:
        problem = f"{len(code)} rows name {sensors} sensors and {slots} times, which hardly ever "
        remedy = "Check that sensor_column and time_column name the right columns"
        raise columns.error(problem + "meet", remedy)
    cell = sensor * slots + slot
    if rules.step is None:
        _refuse_scattered(columns, axis, code, sensor, sensors)
        notes += _repeats(columns, axis.given, code, cell, rules, [ids[i] for i in sensor])
    cells = columns.arrays[value] if columns.format in TEXTUAL else None
    values, texts = gather(cell, numbers, sensors * slots, _several(rules), cells, decimal)
    kept, lost = _long_columns(columns, roles, (slot, sensor), (slots, sensors))
    if lost:
        notes.append(f"Columns that are not used and not carried over: {listing(lost)}.")
    by_sensor = bool(np.count_nonzero(np.diff(sensor)) < np.count_nonzero(np.diff(slot)))
    columns = _units(_coordinates(columns, kept, ids, notes), kept, notes)
    flat = [None if texts is None else texts[i * slots :][:slots] for i in range(sensors)]
    values = values.reshape(sensors, slots)
    table = _table(columns, time, axis, ids, values, flat, decimal, notes, rules, kept, by_sensor)
    if limits is None:
        return table
    ceiling = _on_grid(cell, limits[0], sensors * slots).reshape(sensors, slots).T
    return replace(table, ceiling=ceiling)


def _several(rules: Rules) -> Duplicates | Aggregate:
    """What becomes of several readings in one slot."""
    return rules.duplicates if rules.step is None else rules.aggregate


def _limits(
    below: dict[int, Array], which: Sequence[int], values: Array, censored: Censored
) -> tuple[Array | None, list[str]]:
    """Limits of detection of the readings below one (as ``values``), and a note on them.

    With ``half`` the readings become half of their limits, in place.
    """
    if not below:
        return None, []
    limits = np.full(values.shape, np.nan)
    for i, found in below.items():
        limits[list(which).index(i)] = found
    count, known = int((~np.isnan(limits)).sum()), np.isfinite(limits)
    plural = "reading lies" if count == 1 else "readings lie"
    what = "missing and never filled above the limit; censored=half takes half of it"
    if censored == "half":
        values[known] = limits[known] / 2
        limits[known], what = np.nan, "half the limit"
    limits[np.isinf(limits)] = np.nan
    told = f"{count} {plural} below a limit of detection: {what}."
    return (limits if (~np.isnan(limits)).any() else None), [told]


def _on_grid(cell: Rows, limits: Array, cells: int) -> Array:
    grid = np.full(cells, np.nan)
    there = ~np.isnan(limits)
    grid[cell[there]] = limits[there]
    return grid


def _without_sums(
    columns: Columns, sensors: list[int], values: Array, limits: Array | None
) -> tuple[list[int], Array, Array | None, list[str]]:
    """Sensors alone, without a column that is the sum or the mean of them."""
    if columns.wide_only or columns.format not in TEXTUAL:
        return sensors, values, limits, []
    gone = tidy.summary_columns([columns.names[i] for i in sensors], values)
    if not gone:
        return sensors, values, limits, []
    names = listing(columns.names[sensors[i]] for i in gone)
    kept = [i for i in range(len(sensors)) if i not in gone]
    left = None if limits is None else limits[kept]
    told = f"Left out, for it is a sum or a mean of the sensors: {names}."
    return [sensors[i] for i in kept], values[kept], left, [told]


def _refuse_scattered(columns: Columns, axis: Axis, code: Rows, sensor: Rows, sensors: int) -> None:
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


def _codes(columns: Columns, column: int, array: pa.Array, what: str) -> tuple[Rows, pa.Array]:
    """Which of the different cells each row holds, and those cells; refuses a missing one."""
    text = array.type == pa.string()
    missing = pc.fill_null(pc.equal(array, ""), True) if text else array.is_null()
    if pc.any(missing).as_py():
        remedy = "Give every row a time and a sensor, or remove the row"
        row = pc.index(missing, True).as_py()
        raise columns.error(f"the {what} is missing", remedy, row, column=column)
    coded = array.dictionary_encode()
    return coded.indices.to_numpy(zero_copy_only=False).astype(np.intp), coded.dictionary


def _axis(columns: Columns, time: int, cells: pa.Array, code: Rows, rules: Rules) -> Axis:
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


def _binned(columns: Columns, given: Times, rules: Rules) -> Axis:
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


def _pick_parameter(
    columns: Columns, parameter: str | None, used: tuple[int, ...]
) -> tuple[Columns, list[str]]:
    """The rows of one parameter, and a note on it; refuses several when none is chosen."""
    column = columns.find(PARAMETER_NAMES)
    if column is None or column in used:
        if parameter is not None:
            problem = f"there is no column parameter to choose {parameter!r} from"
            raise columns.error(problem, "Leave parameter out")
        return columns, []
    cells = pc.utf8_trim_whitespace(pc.cast(columns.arrays[column], pa.string())).fill_null("")
    found = sorted(str(name) for name in pc.unique(cells).to_pylist())
    if len(found) > 1 if parameter is None else parameter not in found:
        lacks = "" if parameter is None else f"there is no parameter {parameter!r}; "
        problem = f"{lacks}the file holds {len(found)} parameters: {listing(found, 12)}"
        remedy = f"Choose one with parameter, for example parameter={found[0] or found[-1]}"
        raise columns.error(problem, remedy, column=column)
    if len(found) > 1:
        columns = columns.pick(np.flatnonzero(pc.equal(cells, parameter)))
    chosen = parameter or found[0]
    return columns, [f"The parameter is {chosen}."] if chosen else []


def _long_columns(
    columns: Columns, roles: tuple[int, ...], keys: tuple[Rows, Rows], counts: tuple[int, int]
) -> tuple[tuple[LongColumn, ...], list[str]]:
    """The columns that depend on sensor or time alone, to be written again, and the others' names.

    ``keys`` are the slot and the sensor of each row, ``counts`` how many there are.
    """
    kept, lost = [], []
    for i, (name, array) in enumerate(zip(columns.names, columns.arrays, strict=True)):
        if i in roles:
            kept.append(LongColumn(name, _HELD[roles.index(i)]))
            continue
        found = None
        if not (_JUDGEMENT.fullmatch(name.lower()) or pa.types.is_nested(array.type)):
            coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
            code = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            for by, key, count in zip(_HELD, keys, counts, strict=False):
                first = np.full(count, -1, dtype=np.intp)
                first[key[::-1]] = np.arange(len(key))[::-1]
                if (code[first][key] == code).all():
                    found = LongColumn(name, by, array.take(pa.array(first, mask=first < 0)))
        lost += [name] if found is None else []
        kept += [] if found is None else [found]
    return tuple(kept), lost


def _units(columns: Columns, kept: Sequence[LongColumn], notes: list[str]) -> Columns:
    """The same with the unit of each sensor, where a column tells."""
    column = columns.find(UNIT_NAMES)
    name = "" if column is None else columns.names[column]
    if column is None or any(one.name == name for one in kept if one.cells is None):
        return columns
    cells = next((one.cells for one in kept if one.by == "sensor" and one.name == name), None)
    if cells is None:
        remedy = "Convert the readings of a sensor to one unit, or remove the column"
        raise columns.error("one sensor has readings in several units", remedy, column=column)
    units = tuple(str(unit or "").strip() for unit in cells.to_pylist())
    if len(set(units)) > 1:
        notes.append(f"The sensors are in different units: {listing(sorted(set(units)))}.")
    return replace(columns, units=units)


def _coordinates(
    columns: Columns, kept: Sequence[LongColumn], ids: list[str], notes: list[str]
) -> Columns:
    """The same with the coordinates that it gives, when every sensor has one place."""
    held = {one.name: one.cells for one in kept if one.by == "sensor" and one.cells is not None}
    small = replace(columns, names=tuple(held), arrays=tuple(held.values()))
    for _, *pair in COORDINATES:
        if None not in map(columns.find, pair) and None in map(small.find, pair):
            notes.append("The coordinates of a sensor change; they are not used.")
            return columns
    try:
        coordinates, kind, told = read_places(small, list(range(len(ids))), ids)
    except InputError:
        return columns
    if coordinates is not None and not np.isfinite(coordinates).all():
        notes.append("The coordinates in the file are not all there; they are not used.")
        return columns
    notes += told
    return replace(columns, coordinates=coordinates, kind=kind)


def read_places(
    columns: Columns, rows: list[int], ids: Sequence[str]
) -> tuple[Array | None, CoordinateKind | None, list[str]]:
    """Where the sensors ``ids`` stand, each described in one of the ``rows``; NaN: nowhere.

    Latitude and longitude that were swapped are put right, with a note: all of them where some
    latitude is beyond 90 degrees, single ones where that brings them to the others.
    """
    for kind, *names in COORDINATES:
        found = [columns.find(words) for words in names]
        pair = [column for column in found if column is not None]
        if not pair:
            continue
        if len(pair) == 1:
            problem = f"there is a column {columns.names[pair[0]]!r} but not the other coordinate"
            raise columns.error(problem, f"Add a column {names[found.index(None)][0]!r}")
        decimal = decimal_mark(columns, pair)
        table = np.column_stack([to_numbers(columns, column, decimal)[rows] for column in pair])
        table, notes = _unswapped(table, ids) if kind == "latlon" else (table, [])
        bounds = ((-90.0, 90.0), (-180.0, 360.0)) if kind == "latlon" else ((-np.inf, np.inf),) * 2
        for values, column, (low, high) in zip(table.T, pair, bounds, strict=True):
            bad = np.flatnonzero((values < low) | (values > high) | np.isinf(values))
            if len(bad):
                i, name = int(bad[0]), columns.names[column]
                wrong = f"{name} {values[i]:g}, outside {low:g} to {high:g}"
                remedy = "Correct it; degrees go in latitude and longitude, metres in x and y"
                problem = f"the sensor {ids[i]!r} has {wrong}"
                raise columns.error(problem, remedy, rows[i], column=column)
        table[np.isnan(table).any(axis=1)] = np.nan
        return table, kind, notes
    return None, None, []


def _unswapped(places: Array, ids: Sequence[str]) -> tuple[Array, list[str]]:
    """Latitudes and longitudes in their columns, and a note on those that were not."""
    known = np.isfinite(places).all(axis=1)
    some = places[known]
    if len(some) and (np.abs(some[:, 0]) > 90).all() and (np.abs(some[:, 1]) <= 90).all():
        told = "Latitude and longitude are swapped throughout; they were put right."
        return places[:, ::-1].copy(), [told]
    if len(some) < 3:
        return places, []
    centre = np.median(some, axis=0)
    as_given, other = (np.hypot(*(turned - centre).T) for turned in (places, places[:, ::-1]))
    spread = max(float(np.nanmedian(as_given)), 0.5)
    swapped = np.flatnonzero(known & (as_given > 10 * spread) & (other < 5 * spread)).tolist()
    if not swapped:
        return places, []
    fixed = places.copy()
    fixed[swapped] = places[swapped][:, ::-1]
    told = f"Latitude and longitude of {listing(ids[i] for i in swapped)} were swapped and are put "
    return fixed, [f"{told}right: so they are near the others."]


def _repeats(
    columns: Columns, given: Times, code: Rows, key: Rows, rules: Rules, sensors: Sequence[str] = ()
) -> list[str]:
    """A note on rows that share a key, or their refusal; ``code`` and ``sensors`` are theirs."""
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    count = len(key) - len(counts)
    if count == 0:
        return []
    if rules.duplicates != "refuse":
        done = {"mean": "averaged", "first": "dropped in favour of the first known one"}
        what = f"{'reading' if sensors else 'row'}{'s' * (count != 1)}"
        return [f"{count} repeated {what} {done[rules.duplicates]}."]
    repeated = np.flatnonzero(counts[inverse] > 1)
    rows = np.flatnonzero(inverse == inverse[repeated[0]])[:2].tolist()
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
    whose = f" for the sensor {sensors[rows[0]]!r}" if sensors else ""
    more = f" ({cases} such cases)" if (cases := int((counts > 1).sum())) > 1 else ""
    problem = f"the time {given.texts[code[rows[0]]]!r} appears more than once{whose}{more}"
    raise columns.error(problem, remedy, *rows)


def _table(
    columns: Columns,
    time: int,
    axis: Axis,
    ids: list[str],
    values: Array,
    texts: Sequence[pa.Array | None],
    decimal: str,
    notes: Sequence[str],
    rules: Rules,
    long: tuple[LongColumn, ...] = (),
    by_sensor: bool = False,
) -> Table:
    """Check the whole and describe it; ``values`` is sensors x slots."""
    gaps = np.isnan(values)
    if gaps.all():
        remedy = "Check the sentinels and the layout, or give another file"
        raise columns.error("every cell is missing, there is no reading at all", remedy)
    grid, times, absent = axis.grid, axis.times.texts, axis.absent
    count = "1 sensor" if len(ids) == 1 else f"{len(ids)} sensors"
    pace = f"{grid.name} slots" if grid.regular else "slots"
    what = f"A {'long' if long else 'wide'} table of {count} and {len(times)} {pace}"
    missing = f"{100 * float(gaps.mean()):.1f} % of the cells are missing"
    told = [f"{what} from {times[0]} to {times[-1]}; {missing}.", *notes]
    told += [*(axis.notes or axis.times.notes)]
    zone = axis.times.zone
    if zone is not None:
        carry = f"carry offsets ({zone})" if zone[0] in "+-U" else f"are in {zone}"
        held = f"The times {carry}; they are held in UTC and written as they were."
        told.append("The times are in UTC." if columns.format == "netcdf" else held)
    if not grid.regular:
        told.append(
            f"The times are irregular; the usual step is {grid.step}. step=1h, or another, "
            "puts them on a grid."
        )
    if absent:
        total = len(times) if rules.complete_grid else absent + len(times)
        words = "is it stays has" if absent == 1 else "are they stay have"
        be, they, stay, have = words.split()
        fate = f"{have} been inserted" if rules.complete_grid else f"{stay} absent"
        told.append(f"{absent} of {total} {grid.name} rows {be} absent; {they} {fate}.")
    low, high = np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1)
    constant = np.flatnonzero((low == high) & ((~gaps).sum(axis=1) > 1))
    for found, what in (
        ([ids[i] for i in np.flatnonzero(np.isnan(low))], "no readings"),
        ([f"{ids[i]} ({low[i]:g})" for i in constant], "one constant value"),
    ):
        if found:
            have = "1 sensor has" if len(found) == 1 else f"{len(found)} sensors have"
            told.append(f"{have} {what}: {listing(found)}.")
    source = Source(
        path=columns.path,
        format=columns.format,
        layout="long" if long else "wide",
        time_column=columns.names[time],
        time_texts=tuple(times),
        zone=zone,
        dialect=replace(columns.dialect, decimal=decimal),
        texts=() if texts[0] is None else tuple(texts),
        columns=long,
        by_sensor=by_sensor,
        form=columns.form,
    )
    index = axis.times.index.rename(source.time_column or None)
    return Table(
        values=pd.DataFrame(values.T, index=index, columns=ids, copy=False),
        grid=grid,
        source=source,
        notes=tuple(told),
        units=columns.units,
        coordinates=columns.coordinates,
        coordinate_kind=columns.kind,
    )
