"""Long files: one row for each reading, with its time and its sensor."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.config import ReadingRules
from flfl.errors import InputError
from flfl.io import tidy
from flfl.io.assemble import assemble
from flfl.io.axis import read_axis, refuse_scattered, repeats
from flfl.io.cells import (
    clean,
    decimal_mark,
    gather,
    is_number,
    is_word,
    limits_of,
    on_grid,
    to_numbers,
)
from flfl.io.columns import (
    PARAMETER_NAMES,
    SENSOR_NAMES,
    TEXTUAL,
    UNIT_NAMES,
    VALUE_NAMES,
    Columns,
    Written,
    listing,
)
from flfl.io.places import COORDINATES, read_places
from flfl.io.quantities import pick_parameter, value_column
from flfl.io.rows import Original
from flfl.io.table import By, LongColumn, Table
from flfl.io.times import TIME_NAMES

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

# What a cell of the columns of time, sensor and value belongs to.
_HELD: tuple[By, ...] = ("slot", "sensor", "cell")
# What was said of each reading, which nobody said of a recovered one.
_JUDGEMENT = re.compile(
    r"(?:.*[_ ])?(?:qc|qa|quality|flags?|status|valid|validity|validated|validation"
    r"|verified|verification|validité|qualité|gültigkeit)(?:[_ ](?:flags?|code|status))?"
)
# Sensors and times that hardly ever meet are a mistaken column, and a grid beyond memory.
_MOST_CELLS, _LEAST_SHARE = 10**8, 1e-3


def find_roles(columns: Columns, rules: ReadingRules) -> tuple[int, int, int] | None:
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
        found["value_column"] = value_column(columns, used, rules.parameter)
    positions = [column for column in found.values() if column is not None]
    if len(set(positions)) == 3:
        return positions[0], positions[1], positions[2]
    if missing == ["value_column"] and not sure and len(set(positions)) == 2:
        others = [i for i in range(len(columns.names)) if i not in positions]
        words = [
            i
            for i in others
            if any(map(is_word, map(str, columns.arrays[i].slice(0, 20).to_pylist())))
        ]
        left = [columns.names[i] for i in others if i not in words or len(words) == len(others)]
        problem = "a time and a sensor are there, but no column is known to hold the readings: "
        remedy = f"Name it with value_column, for example value_column={left[0]!r}"
        remedy += ", or choose layout=wide if each column is a sensor"
        raise columns.error(problem + listing(left, 8), remedy)
    if not sure:
        return None
    problem = "a long table needs a time, a sensor and a value column; these columns were found: "
    remedy = "Name the columns with " + ", ".join(missing or found)
    raise columns.error(problem + listing(columns.names, 8), remedy)


def long_table(columns: Columns, roles: tuple[int, int, int], rules: ReadingRules) -> Table:
    """The table of a long file; ``roles`` are its columns of time, sensor and value."""
    time, who, value = roles
    notes, picked = list[str](), columns.find(PARAMETER_NAMES)
    if picked is not None and picked not in roles:
        columns, notes = pick_parameter(columns, picked, rules.parameter)
    elif rules.parameter is not None:
        problem = f"there is no column parameter to choose {rules.parameter!r} from"
        raise columns.error(problem, "Leave parameter out")
    code, words = _codes(columns, time, columns.arrays[time], "time")
    names = pc.utf8_trim_whitespace(pc.cast(columns.arrays[who], pa.string()))
    sensor, found = _codes(columns, who, names, "sensor name")
    ids = [str(name) for name in found.to_pylist()]
    decimal = decimal_mark(columns, [value], rules.decimal)
    # A copy: sentinels are taken out in place, and the column may be the file's own memory.
    below = dict[int, Array]()
    numbers = np.array(to_numbers(columns, value, decimal, rules.words, "", below))
    notes = [*columns.notes, *clean(columns, [value], numbers[None, :], rules.sentinels), *notes]
    limits, told = limits_of(below, [value], numbers[None, :], rules.censored)
    notes += [*told, *_judged(columns, roles, numbers, rules.bad_flags)]
    axis = read_axis(columns, time, words, code, rules)
    slot, sensors, slots = axis.slot[code], len(ids), len(axis.times.texts)
    if sensors * slots > _MOST_CELLS and len(code) < _LEAST_SHARE * sensors * slots:
        problem = f"{len(code)} rows name {sensors} sensors and {slots} times, which hardly ever "
        remedy = "Check that sensor_column and time_column name the right columns"
        raise columns.error(problem + "meet", remedy)
    cell = sensor * slots + slot
    if rules.step is None:
        refuse_scattered(columns, axis, code, sensor, sensors)
        notes += repeats(columns, axis.given, code, cell, numbers[None, :], rules, (ids, sensor))
    cells = columns.arrays[value] if columns.format in TEXTUAL else None
    values, texts = gather(cell, numbers, sensors * slots, rules.several, cells, decimal)
    kept, lost = _long_columns(columns, roles, (slot, sensor), (slots, sensors))
    if lost:
        notes.append(f"Columns that are not used and not carried over: {listing(lost)}.")
    by_sensor = bool(np.count_nonzero(np.diff(sensor)) < np.count_nonzero(np.diff(slot)))
    columns = _units(_coordinates(columns, kept, ids, notes), kept, notes)
    values = values.reshape(sensors, slots)
    own = texts and Written.of([texts[i * slots :][:slots] for i in range(sensors)])
    table = assemble(columns, time, axis, ids, values, own, decimal, notes, rules, kept, by_sensor)
    if rules.merges:
        known = cell[~np.isnan(numbers)]
        counts = np.bincount(known, minlength=sensors * slots).reshape(sensors, slots).T
        original = Original.of(columns, [value], numbers[None, :], slot, sensor[None, :])
        table = replace(table, counts=counts, original=original)
    if limits is None:
        return table
    ceiling = on_grid(cell, limits[0], sensors * slots).reshape(sensors, slots).T
    return replace(table, ceiling=ceiling)


def _judged(
    columns: Columns, roles: tuple[int, ...], numbers: Array, bad: Sequence[str]
) -> list[str]:
    """Notes on what columns of flags say; readings with ``bad`` flags become missing in place."""
    told = []
    for i, name in enumerate(columns.names):
        if i in roles or not _JUDGEMENT.fullmatch(name.lower()):
            continue
        cells = pc.utf8_trim_whitespace(pc.cast(columns.arrays[i], pa.string())).fill_null("")
        hit, said = tidy.flagged(cells, bad)
        numbers[hit] = np.nan
        if len(said) > 1 or hit.any():
            told.append(tidy.flags_note(name, said, int(hit.sum()), bad))
    return told


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
