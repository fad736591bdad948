"""Wide and long files: which column is what, and the readings as sensors x slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.build import Draft
from flfl.io.carried import carry, pick_parameter
from flfl.io.cells import (
    Decimal,
    Duplicates,
    decimal_mark,
    drop_sentinels,
    gather,
    gather_texts,
    is_numeric,
    refuse_infinite,
    to_numbers,
)
from flfl.io.csvfile import parse_numbers, refuse_title
from flfl.io.rawfile import RawFile
from flfl.io.stamps import duplicate_error, read_times, refuse_null, unique_times
from flfl.io.table import listing
from flfl.io.texts import ColumnTexts, line_texts
from flfl.io.times import ANY_TIMES, TIME_NAMES, TimeRules

SENSOR_NAMES = (
    "sensor", "sensor_id", "sensorid", "station", "station_id", "stationid", "site_id",
    "location_id", "locationid", "location", "device", "device_id", "node", "node_id",
)  # fmt: skip
VALUE_NAMES = ("value", "values", "reading", "readings", "measurement", "measurements")
_WIDE_HINT = (
    "; if the file is long (time, sensor, value), name its columns with time_column, "
    "sensor_column and value_column"
)
# A long file whose sensors and times hardly ever meet is a mistaken column, and the grid would
# not fit in memory.
_MOST_CELLS, _LEAST_SHARE = 10**8, 1e-3


@dataclass(frozen=True)
class Rules:
    """How the user wants a file to be read, where there is a choice."""

    sentinels: Sequence[float] = ()
    duplicates: Duplicates = "refuse"
    decimal: Decimal = "auto"
    times: TimeRules = ANY_TIMES
    parameter: str | None = None


@dataclass(frozen=True)
class LongColumns:
    """Positions of the columns of a long file."""

    time: int
    sensor: int
    value: int


def pick_time_column(raw: RawFile, name: str | None) -> tuple[int, list[str]]:
    """The time column of a wide file, as named, by a common name, or the first; and notes."""
    if name is not None:
        return raw.named(name, "time_column"), []
    found = raw.find(TIME_NAMES)
    if found is not None or raw.indexed or not raw.names[0]:
        return found or 0, []
    if raw.format == "parquet" and is_numeric(raw.columns[0].type):
        raise InputError(
            f"no column is known to hold the time, and the first, {raw.names[0]!r}, holds numbers",
            where=raw.where(),
            remedy="Name the time column with time_column",
        )
    return 0, [f"No column has a usual name for the time; the first, {raw.names[0]!r}, was taken."]


def find_long_columns(
    raw: RawFile, time: str | None, sensor: str | None, value: str | None, sure: bool
) -> LongColumns | None:
    """Columns of a long file; None when the file does not look long and need not be."""
    found: dict[str, int | None] = {}
    for option, name, common in (
        ("time_column", time, TIME_NAMES),
        ("sensor_column", sensor, SENSOR_NAMES),
        ("value_column", value, VALUE_NAMES),
    ):
        given = None if name is None else raw.named(name, option)
        found[option] = raw.find(common) if given is None else given
    missing = [option for option, column in found.items() if column is None]
    if missing == ["value_column"] and len(raw.names) == 3 and (sure or _has_text(raw, found)):
        # time, station, PM10: the one column left holds the values.
        found["value_column"] = ({0, 1, 2} - set(found.values())).pop()
        missing = []
    if not missing:
        columns = LongColumns(*(int(column or 0) for column in found.values()))
        if len({columns.time, columns.sensor, columns.value}) == 3:
            return columns
    if not sure:
        return None
    raise InputError(
        "a long table needs a time, a sensor and a value column; these columns were found: "
        f"{listing(raw.names, 8)}",
        where=raw.where(),
        remedy="Name the columns with " + ", ".join(missing or found),
    )


def _has_text(raw: RawFile, found: dict[str, int | None]) -> bool:
    array = raw.columns[found["sensor_column"] or 0].slice(0, 100)
    try:
        pc.cast(array, pa.float64())
    except pa.ArrowException:
        return True
    return False


def draft_wide(raw: RawFile, time: int, rules: Rules) -> Draft:
    """Readings of a wide file."""
    sensors = [i for i in range(len(raw.names)) if i != time]
    if not sensors:
        refuse_title(raw)
        raise InputError(
            "there is a time column but no sensor column",
            where=raw.where(),
            remedy="Give one column a sensor, separated by comma, semicolon, tab or bar",
        )
    if any(not raw.names[i] for i in sensors):
        raise InputError("column 1 has no name", where=raw.where(), remedy="Name it in the header")
    cells, matrix, decimal = _wide_cells(raw, time, sensors, rules.decimal)
    times, texts = read_times(raw, time, cells, lambda i: i, rules.times)
    notes = drop_sentinels(matrix, rules.sentinels)
    draft = Draft(raw, times, texts, [raw.names[i] for i in sensors], matrix, list(notes))
    draft.time_column, draft.decimal = raw.names[time], decimal
    if raw.format == "csv":
        lines = line_texts(raw, sensors, len(texts))
        draft.texts = lines or ColumnTexts([raw.columns[i] for i in sensors])
    if raw.schema is not None:
        draft.units = _stored_units(raw.schema, draft.ids)
    return sort_slots(draft, rules.duplicates)


def _stored_units(schema: pa.Schema, ids: Sequence[str]) -> tuple[str, ...] | None:
    """Units in the metadata of Parquet columns."""
    told = {field.name.strip(): (field.metadata or {}).get(b"units", b"") for field in schema}
    units = tuple(told[name].decode("utf-8", "replace") for name in ids)
    return units if any(units) else None


def _wide_cells(
    raw: RawFile, time: int, sensors: Sequence[int], chosen: Decimal
) -> tuple[pa.Array, NDArray[np.float64], str]:
    """The time cells, the readings as sensors x rows, and the decimal mark."""
    quick = parse_numbers(raw, time) if raw.format == "csv" and chosen != "comma" else None
    if quick is not None:
        refuse_infinite(raw, sensors, quick[1])
        return *quick, "."
    decimal = decimal_mark(raw, sensors, chosen)
    matrix = np.empty((len(sensors), raw.rows))
    for row, column in enumerate(sensors):
        matrix[row] = to_numbers(raw, column, decimal, _WIDE_HINT)
    refuse_infinite(raw, sensors, matrix)
    return raw.columns[time], matrix, decimal


def sort_slots(draft: Draft, duplicates: Duplicates) -> Draft:
    """Put the slots of a wide draft in time order, with repeated times as the rule says."""
    keys, first, slot = unique_times(draft.times.index)
    if len(keys) == len(slot):
        if (np.diff(slot) > 0).all():
            return draft
        draft.order = slot
        draft.notes.append("The rows were not in time order; they have been sorted.")
        draft.matrix = draft.matrix[:, first]
        if draft.texts is not None:
            draft.texts = draft.texts.take(first)
    else:
        if duplicates == "refuse":
            raise duplicate_error(draft.raw, draft.times, draft.time_texts, slot, slot, None)
        _merge_rows(draft, slot, len(keys), duplicates)
    draft.keep(first)
    return draft


def _merge_rows(draft: Draft, slot: NDArray[np.intp], slots: int, duplicates: Duplicates) -> None:
    sensors, rows = draft.matrix.shape
    grid, row = gather(
        np.tile(slot, sensors),
        np.repeat(np.arange(sensors), rows),
        draft.matrix.ravel(),
        (slots, sensors),
        duplicates,
    )
    draft.note_duplicates(rows - slots, "row", duplicates)
    if draft.texts is not None:
        local = np.where(row < 0, -1, row - np.arange(sensors)[:, None] * rows)
        every = np.arange(rows)
        draft.texts = ColumnTexts(
            [
                gather_texts(draft.texts.column(i, every), local[i], grid[i], draft.decimal)
                for i in range(sensors)
            ]
        )
    draft.matrix = grid


def draft_long(raw: RawFile, columns: LongColumns, rules: Rules) -> Draft:
    """Readings of a long file."""
    used = {columns.time, columns.sensor, columns.value}
    parameter = pick_parameter(raw, rules.parameter, used)
    coded = raw.columns[columns.time].dictionary_encode()
    code = coded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.intp)
    refuse_null(raw, columns.time, coded.indices.null_count)
    times, texts = read_times(
        raw,
        columns.time,
        coded.dictionary,
        lambda i: int(np.flatnonzero(code == i)[0]),
        rules.times,
    )
    keys, first, slot_of_code = unique_times(times.index)
    slot = slot_of_code[code]
    sensor, ids = _sensor_codes(raw, columns.sensor)
    decimal = decimal_mark(raw, [columns.value], rules.decimal)
    # A copy: sentinels are taken out in place, and the column may be the file's own memory.
    values = np.array(to_numbers(raw, columns.value, decimal))
    refuse_infinite(raw, [columns.value], values[None, :])
    notes = list(drop_sentinels(values, rules.sentinels))
    slots, sensors = len(keys), len(ids)
    _check_meeting(raw, slots, sensors)
    cell = sensor * slots + slot
    repeated = len(cell) - int(np.count_nonzero(np.bincount(cell, minlength=1)))
    if repeated and rules.duplicates == "refuse":
        raise duplicate_error(raw, times, texts, cell, code, [ids[i] for i in sensor])
    grid, row = gather(slot, sensor, values, (slots, sensors), rules.duplicates)
    draft = Draft(raw, times, texts, ids, grid, notes)
    if repeated:
        draft.note_duplicates(repeated, "reading", rules.duplicates)
    if parameter is not None:
        draft.notes.append(f"The parameter is {parameter}.")
    _describe_long(draft, columns, slot, sensor)
    carry(draft, used, sensor, slot, slots)
    draft.decimal = decimal
    if raw.format == "csv":
        column = raw.columns[columns.value]
        draft.texts = ColumnTexts(
            [gather_texts(column, row[i], grid[i], decimal) for i in range(sensors)]
        )
    draft.keep(first)
    return draft


def _describe_long(
    draft: Draft, columns: LongColumns, slot: NDArray[np.intp], sensor: NDArray[np.intp]
) -> None:
    names = draft.raw.names
    draft.layout = "long"
    draft.time_column = names[columns.time]
    draft.sensor_column, draft.value_column = names[columns.sensor], names[columns.value]
    draft.by_sensor = bool(np.count_nonzero(np.diff(sensor)) < np.count_nonzero(np.diff(slot)))


def _sensor_codes(raw: RawFile, column: int) -> tuple[NDArray[np.intp], list[str]]:
    array = raw.columns[column]
    if not pa.types.is_string(array.type):
        array = pc.cast(array, pa.string())
    coded = pc.utf8_trim_whitespace(array).dictionary_encode()
    refuse_null(raw, column, coded.indices.null_count)
    ids = [str(name) for name in coded.dictionary.to_pylist()]
    code: NDArray[np.intp] = coded.indices.to_numpy(zero_copy_only=False).astype(np.intp)
    if "" in ids:
        row = int(np.flatnonzero(code == ids.index(""))[0])
        raise InputError(
            "the sensor name is missing",
            where=raw.where(row, raw.names[column]),
            remedy="Give every row a sensor, or remove the row",
        )
    return code, ids


def _check_meeting(raw: RawFile, slots: int, sensors: int) -> None:
    if slots * sensors > _MOST_CELLS and raw.rows < _LEAST_SHARE * slots * sensors:
        raise InputError(
            f"{raw.rows} rows name {sensors} sensors and {slots} times, which hardly ever meet",
            where=raw.where(),
            remedy="Check that sensor_column and time_column name the right columns",
        )
