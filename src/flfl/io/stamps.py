"""The time column of a file: its times, and what to say when one comes twice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.rawfile import RawFile
from flfl.io.times import ANY_TIMES, TimeRules, Times, parse_times, time_texts
from flfl.io.zones import in_zone

# A day of another zone more or less stays within what Python's own dates can hold.
_YEARS = tuple(np.array(["0002-01-01", "9999-01-01"], "datetime64[us]").astype(np.int64).tolist())


def refuse_null(raw: RawFile, column: int, count: int) -> None:
    if count:
        row = int(np.flatnonzero(raw.columns[column].is_null())[0])
        raise InputError(
            "the cell is missing",
            where=raw.where(row, raw.names[column]),
            remedy="Give every row a time and a sensor, or remove the row",
        )


def read_times(
    raw: RawFile,
    column: int,
    array: pa.Array,
    row_of: Callable[[int], int],
    rules: TimeRules = ANY_TIMES,
) -> tuple[Times, list[str]]:
    """Parsed times and their texts, one for each cell of ``array``."""
    times, texts = _read_times(raw, column, array, row_of, rules)
    if rules.time_zone is not None:
        name = raw.names[column] or None
        times = in_zone(times, rules.time_zone, lambda i: raw.where(row_of(i), name))
    return times, texts


def _read_times(
    raw: RawFile, column: int, array: pa.Array, row_of: Callable[[int], int], rules: TimeRules
) -> tuple[Times, list[str]]:
    name = raw.names[column]
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        texts = array.to_numpy(zero_copy_only=False)
        if array.null_count == 0:
            times = parse_times(texts, lambda i: raw.where(row_of(i), name or None), rules)
            return times, [str(text) for text in texts]
    refuse_null(raw, column, array.null_count)
    series = array.to_pandas()
    if pd.api.types.is_numeric_dtype(series) and not pd.api.types.is_bool_dtype(series):
        index = pd.Index(series.astype("float64"))
        if not np.isfinite(index.to_numpy()).all():
            raise InputError("a time is infinite", where=raw.where(column=name), remedy="Remove it")
        return Times(index, index), time_texts(index)
    if not (pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)):
        raise InputError(
            f"the column holds {array.type}, not times",
            where=raw.where(column=name),
            remedy="Name the time column with time_column",
        )
    stamps = pd.DatetimeIndex(pd.to_datetime(series)).as_unit("us")
    if len(stamps) and not _YEARS[0] <= stamps.asi8.min() <= stamps.asi8.max() <= _YEARS[1]:
        raise InputError(
            "a time lies outside the years 2 to 9998",
            where=raw.where(column=name),
            remedy="Check the unit in which the times were written",
        )
    if stamps.tz is None:
        return Times(stamps, stamps), time_texts(stamps)
    times = Times(stamps.tz_convert("UTC"), stamps.tz_localize(None), zone=str(stamps.tz))
    return times, time_texts(stamps)


def unique_times(index: pd.Index) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.intp]]:
    keys = index.asi8 if isinstance(index, pd.DatetimeIndex) else index.to_numpy()
    found, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return found, first, inverse


def duplicate_error(
    raw: RawFile,
    times: Times,
    texts: list[str],
    key: NDArray[np.intp],
    time_of_row: NDArray[np.intp],
    sensor_of_row: list[str] | None,
) -> InputError:
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    repeated = np.flatnonzero(counts[inverse] > 1)
    rows = np.flatnonzero(inverse == inverse[repeated[0]])[:2].tolist()
    text = texts[rows[0] if sensor_of_row is None else int(time_of_row[rows[0]])]
    whose = "" if sensor_of_row is None else f" for the sensor {sensor_of_row[rows[0]]!r}"
    cases = int((counts > 1).sum())
    more = "" if cases == 1 else f" ({cases} such cases)"
    remedy = "Remove one of them, or choose duplicates=mean or duplicates=first"
    if sensor_of_row is not None:
        remedy += "; if these are two sensors, name the column that tells them apart with "
        remedy += "sensor_column"
    time_rows = repeated if sensor_of_row is None else time_of_row[repeated]
    if _clocks_went_back(times.index[time_rows]):
        remedy = (
            "This looks like the hour that local clocks repeat when daylight saving ends: write "
            "times in UTC or with their offset (2024-10-27T02:00:00+02:00), name the zone with "
            "time_zone, or choose duplicates=mean or duplicates=first"
        )
    return InputError(
        f"the time {text!r} appears more than once{whose}{more}",
        where=f"{raw.path}, {raw.lines(rows)}",
        remedy=remedy,
    )


def _clocks_went_back(repeated: pd.Index) -> bool:
    """All repeated times fall in the small hours of a day on which clocks are set back."""
    if not isinstance(repeated, pd.DatetimeIndex) or repeated.tz is not None:
        return False
    sunday = (repeated.day_of_week == 6) & (repeated.hour <= 3)
    return bool((sunday & repeated.month.isin([3, 4, 9, 10, 11])).all())
