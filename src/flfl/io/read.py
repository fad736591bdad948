"""Readings in: a CSV, Parquet or NetCDF file, a DataFrame or an array becomes a checked table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.build import build_table
from flfl.io.cells import Decimal, Duplicates
from flfl.io.files import load_file, suffix_of
from flfl.io.frames import plain_index, raw_frame
from flfl.io.layouts import (
    LongColumns,
    Rules,
    draft_long,
    draft_wide,
    find_long_columns,
    pick_time_column,
)
from flfl.io.netcdf import draft_netcdf
from flfl.io.rawfile import RawFile, csv_rows
from flfl.io.table import Table
from flfl.io.times import TIME_NAMES, DateOrder, TimeRules, looks_like_time
from flfl.io.xarrays import NETCDF_SUFFIXES

LayoutChoice = Literal["auto", "wide", "long"]
SENTINELS = (-999.0, -9999.0)


def read_readings(
    path: str | Path,
    *,
    layout: LayoutChoice = "auto",
    time_column: str | None = None,
    sensor_column: str | None = None,
    value_column: str | None = None,
    sentinels: Sequence[float] = SENTINELS,
    missing_words: Sequence[str] = (),
    duplicates: Duplicates = "refuse",
    complete_grid: bool = False,
    parameter: str | None = None,
    date_order: DateOrder = "auto",
    time_zone: str | None = None,
    decimal: Decimal = "auto",
) -> Table:
    """Read a table of readings.

    Parameters
    ----------
    path : str or Path
        ``.csv``, ``.txt`` or ``.tsv``, each also with ``.gz``, ``.parquet``, or ``.nc`` (NetCDF).
    layout : {"auto", "wide", "long"}
        Wide: a time column and one column a sensor. Long: time, sensor, value.
    time_column, sensor_column, value_column : str, optional
        Column names; by default they are recognised by common names, and the time is else the
        first column.
    sentinels : sequence of float
        Numbers that stand for a missing reading, besides empty cells and NaN.
    missing_words : sequence of str
        Further texts that do, in any case, such as ``--`` or ``invalid``. In NetCDF there are none.
    duplicates : {"refuse", "mean", "first"}
        What to do with several readings of one sensor at one time: refuse the file, average, or
        keep the first known one.
    complete_grid : bool
        Insert the rows that are absent from a regular time grid. By default they stay absent.
    parameter : str, optional
        Which quantity, when the file holds several: a word of a long file's column ``parameter``,
        or a variable of a NetCDF file.
    date_order : {"auto", "day-first", "month-first"}
        How to read 01/02/2024; by default only where some date of the file tells.
    time_zone : str, optional
        The zone of times that carry no offset, such as Europe/Berlin. They are then held in UTC.
    decimal : {"auto", "point", "comma"}
        The decimal mark; by default a comma where the delimiter is another and the cells tell.

    Raises
    ------
    InputError
        With the file, the line and the column at fault, and the remedy.
    """
    _check_choice("layout", layout, get_args(LayoutChoice))
    _check_choice("duplicates", duplicates, get_args(Duplicates))
    _check_choice("date_order", date_order, get_args(DateOrder))
    _check_choice("decimal", decimal, get_args(Decimal))
    rules = Rules(sentinels, duplicates, decimal, TimeRules(date_order, time_zone), parameter)
    if suffix_of(Path(path)) in NETCDF_SUFFIXES:
        _refuse_columns(path, time_column, sensor_column, value_column, time_zone)
        return build_table(draft_netcdf(Path(path), rules), complete_grid)
    raw = load_file(path)
    raw.missing_words = tuple(word.strip().lower() for word in missing_words)
    if time_column is None:
        _check_header(raw)
        _check_one_time(raw)
    _check_names(raw)
    columns = _long_columns(raw, layout, time_column, sensor_column, value_column)
    if columns is not None:
        draft = draft_long(raw, columns, rules)
    else:
        _refuse_parameter(raw, parameter)
        time, notes = pick_time_column(raw, time_column)
        draft = draft_wide(raw, time, rules)
        draft.notes += notes
    return build_table(draft, complete_grid)


def from_frame(
    readings: pd.DataFrame | NDArray[np.float64],
    *,
    sentinels: Sequence[float] = (),
    duplicates: Duplicates = "refuse",
    complete_grid: bool = False,
) -> Table:
    """Take a time x sensor DataFrame or array, with the same checks as a file.

    The index holds the times; a DataFrame with a plain row count for an index may hold them in a
    column with a common name such as ``time``. An array has slots 0, 1, 2, … and sensors named
    likewise.

    Missing is NaN. Unlike in a file, no number stands for a missing reading unless ``sentinels``
    lists it: whoever made the DataFrame has had the chance to say so, and -999 may be a reading.

    Examples
    --------
    >>> table = from_frame(np.array([[1.0, 2.0], [np.nan, 3.0]]))
    >>> table.sensor_ids, table.positions.tolist()
    (('0', '1'), [0.0, 1.0])
    """
    _check_choice("duplicates", duplicates, get_args(Duplicates))
    raw = _raw_from_frame(readings)
    _check_names(raw)
    draft = draft_wide(raw, 0, Rules(sentinels, duplicates))
    return build_table(draft, complete_grid, keep_source=False)


def _check_choice(name: str, given: str, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise InputError(
            f"{given!r} is not one of {', '.join(allowed)}",
            where=name,
            remedy=f"Choose {name}={allowed[0]}",
        )


def _check_header(raw: RawFile) -> None:
    if raw.format == "csv" and raw.find(TIME_NAMES) is None and looks_like_time(raw.names[0]):
        raise InputError(
            f"the first line holds the time {raw.names[0]!r} where column names should be",
            where=raw.where(),
            remedy="Put a header above the readings, such as time,a,b",
        )


def _check_one_time(raw: RawFile) -> None:
    """Refuse a date and a clock in columns of their own, which only together are the time."""
    date, clock = raw.find(("date", "day")), raw.find(("time", "hour", "clock"))
    if raw.format != "csv" or date is None or clock is None:
        return
    for line, row in islice(csv_rows(raw.data, raw.delimiter), 1, 2):
        if len(row) > clock and re.fullmatch(
            r"\s*\d{1,2}(:\d{2}){0,2}\s*([AaPp][Mm])?\s*", row[clock]
        ):
            raise InputError(
                f"the time is in two columns, {raw.names[date]!r} and {raw.names[clock]!r}",
                where=f"{raw.path}, line {line}",
                remedy="Join them in one column, such as 2024-01-31 06:00, or name the one that "
                "is the time with time_column",
            )


def _refuse_columns(path: str | Path, *given: str | None) -> None:
    names = ("time_column", "sensor_column", "value_column", "time_zone")
    useless = [name for name, value in zip(names, given, strict=True) if value is not None]
    if useless:
        raise InputError(
            f"{', '.join(useless)} means nothing here: NetCDF has variables, and times in UTC",
            where=str(path),
            remedy="Leave it out; choose the variable of the readings with parameter",
        )


def _refuse_parameter(raw: RawFile, parameter: str | None) -> None:
    if parameter is not None:
        raise InputError(
            f"a wide table has no parameter to choose; {parameter!r} was asked for",
            where=raw.where(),
            remedy="Leave parameter out",
        )


def _check_names(raw: RawFile) -> None:
    for position, name in enumerate(raw.names):
        # pandas writes an index without a name as a first column without a name.
        if not name and position > 0:
            raise InputError(
                f"column {position + 1} has no name",
                where=raw.where(),
                remedy="Name the column in the header, or remove it (a delimiter at the end of the "
                "header makes such a column)",
            )
    seen: dict[str, int] = {}
    for position, name in enumerate(raw.names):
        if name in seen:
            raise InputError(
                f"columns {seen[name] + 1} and {position + 1} are both named {name!r}",
                where=raw.where(),
                remedy="Give every sensor its own name",
            )
        seen[name] = position


def _long_columns(
    raw: RawFile, layout: str, time: str | None, sensor: str | None, value: str | None
) -> LongColumns | None:
    if layout == "wide":
        return None
    named = sensor is not None or value is not None
    return find_long_columns(raw, time, sensor, value, sure=named or layout == "long")


def _raw_from_frame(readings: pd.DataFrame | NDArray[np.float64]) -> RawFile:
    label = "the DataFrame" if isinstance(readings, pd.DataFrame) else "the array"
    if not isinstance(readings, pd.DataFrame):
        array = np.asarray(readings)
        if array.ndim != 2:
            raise InputError(
                f"the array has {array.ndim} dimensions, not 2",
                where="readings",
                remedy="Give time x sensor, or a DataFrame",
            )
        readings = pd.DataFrame(array, columns=[str(i) for i in range(array.shape[1])])
    frame = with_time_index(readings)
    ids = [str(name).strip() for name in frame.columns]
    time = "" if frame.index.name is None else str(frame.index.name)
    columns = [("" if time in ids else time, plain_index(frame.index).to_series())]
    columns += [(name, frame.iloc[:, i]) for i, name in enumerate(ids)]
    return raw_frame(label, columns)


def with_time_index(frame: pd.DataFrame) -> pd.DataFrame:
    """The times in the index, where a row count is the index and a column holds them."""
    if isinstance(frame.index, pd.RangeIndex):
        for name in frame.columns:
            if str(name).lower() in TIME_NAMES and not pd.api.types.is_numeric_dtype(frame[name]):
                return frame.set_index(name)
    return frame
