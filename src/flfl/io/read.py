"""Readings in: a CSV, Parquet or NetCDF file, a DataFrame or an array becomes a checked table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.cells import Decimal, Duplicates
from flfl.io.columns import Columns, as_array
from flfl.io.csv_files import read_csv
from flfl.io.files import NETCDF_SUFFIXES, PARQUET_SUFFIXES, TEXT_SUFFIXES, read_bytes, suffix_of
from flfl.io.layouts import Rules, find_roles, long_table, wide_table
from flfl.io.parquet import read_parquet
from flfl.io.table import Table
from flfl.io.times import TIME_NAMES, DateOrder, looks_like_time

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
    _check_choice("layout", layout, LayoutChoice)
    _check_choice("duplicates", duplicates, Duplicates)
    _check_choice("date_order", date_order, DateOrder)
    _check_choice("decimal", decimal, Decimal)
    words = tuple(word.strip().lower() for word in missing_words)
    rules = Rules(
        sentinels, words, duplicates, complete_grid, parameter, date_order, time_zone, decimal
    )
    columns = read_columns(path, parameter)
    if columns.wide_only:
        given = {
            "time_column": time_column, "sensor_column": sensor_column,
            "value_column": value_column, "time_zone": time_zone,
        }  # fmt: skip
        useless = [name for name, value in given.items() if value is not None]
        if useless:
            raise columns.error(
                f"{', '.join(useless)} means nothing here: NetCDF has variables, and times in UTC",
                "Leave it out; choose the variable of the readings with parameter",
            )
        return wide_table(columns, None, rules)
    if time_column is None and columns.format == "csv":
        _check_header(columns)
    _check_names(columns)
    roles = find_roles(columns, time_column, sensor_column, value_column, layout)
    if roles is not None:
        return long_table(columns, roles, rules)
    if parameter is not None:
        problem = f"a wide table has no parameter to choose; {parameter!r} was asked for"
        raise columns.error(problem, "Leave parameter out")
    return wide_table(columns, time_column, rules)


def read_columns(path: str | Path, parameter: str | None = None) -> Columns:
    """Read a file of any format into named columns.

    A further format is a function from a path and its bytes to `Columns`, and a line here.
    """
    path = Path(path)
    suffix = suffix_of(path)
    if suffix in TEXT_SUFFIXES:
        return read_csv(path, read_bytes(path))
    if suffix in PARQUET_SUFFIXES:
        return read_parquet(path, read_bytes(path))
    if suffix in NETCDF_SUFFIXES:
        # Loaded when met: the module is large, and what it needs is an extra.
        from flfl.io.netcdf import read_netcdf

        return read_netcdf(path, read_bytes(path), parameter)
    known = ", ".join(TEXT_SUFFIXES + PARQUET_SUFFIXES + NETCDF_SUFFIXES)
    raise InputError(
        f"the suffix {suffix!r} is not one that can be read" if suffix else "it has no suffix",
        where=str(path),
        remedy=f"Give a file that ends in {known}",
    )


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
    _check_choice("duplicates", duplicates, Duplicates)
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
    index = frame.index
    if isinstance(index, pd.MultiIndex):
        raise InputError(
            "the index has several levels",
            where=label,
            remedy="Give one row a time and one column a sensor",
        )
    if isinstance(index, pd.PeriodIndex):
        index = pd.DatetimeIndex(index.to_timestamp())
    elif isinstance(index, pd.TimedeltaIndex):
        index = pd.Index(index.total_seconds())
    ids = [str(name).strip() for name in frame.columns]
    time = "" if frame.index.name is None or str(frame.index.name) in ids else frame.index.name
    parts = [(str(time), index.to_series())]
    parts += [(name, frame.iloc[:, i]) for i, name in enumerate(ids)]
    columns = frame_columns(label, parts)
    _check_names(columns)
    rules = Rules(sentinels, duplicates=duplicates, complete_grid=complete_grid)
    return replace(wide_table(columns, None, rules), source=None)


def with_time_index(frame: pd.DataFrame) -> pd.DataFrame:
    """The times in the index, where a row count is the index and a column holds them."""
    if isinstance(frame.index, pd.RangeIndex):
        for name in frame.columns:
            if str(name).lower() in TIME_NAMES and not pd.api.types.is_numeric_dtype(frame[name]):
                return frame.set_index(name)
    return frame


def frame_columns(label: str, parts: Sequence[tuple[str, Any]]) -> Columns:
    """Named pandas columns, so that the same checks apply; ``label`` names them in messages."""
    if not parts or len(parts[0][1]) == 0:
        raise InputError("there are no rows", where=label, remedy="Give at least one")
    arrays = []
    for name, series in parts:
        try:
            array = pa.array(series.array, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError):
            kinds = {type(cell).__name__ for cell in series.dropna()}
            raise InputError(
                f"the column mixes {', '.join(sorted(kinds))}",
                where=f"{label}, column {name!r}",
                remedy="Turn it into numbers, with NaN where one is missing",
            ) from None
        arrays.append(as_array(array))
    names = tuple(name.strip() for name, _ in parts)
    return Columns(Path(label), names, tuple(arrays), "parquet", time_first=True)


def _check_choice(name: str, given: str, choices: Any) -> None:
    allowed = get_args(choices)
    if given not in allowed:
        raise InputError(
            f"{given!r} is not one of {', '.join(allowed)}",
            where=name,
            remedy=f"Choose {name}={allowed[0]}",
        )


def _check_header(columns: Columns) -> None:
    """Refuse a file without a header, and a date and a clock in columns of their own."""
    names = columns.names
    if columns.find(TIME_NAMES) is None and looks_like_time(names[0]):
        raise columns.error(
            f"the first line holds the time {names[0]!r} where column names should be",
            "Put a header above the readings, such as time,a,b",
        )
    date, clock = columns.find(("date", "day")), columns.find(("time", "hour", "clock"))
    if date is None or clock is None:
        return
    first = str(columns.arrays[clock][0])
    if re.fullmatch(r"\s*\d{1,2}(:\d{2}){0,2}\s*([AaPp][Mm])?\s*", first):
        raise columns.error(
            f"the time is in two columns, {names[date]!r} and {names[clock]!r}",
            "Join them in one column, such as 2024-01-31 06:00, or name the one that is the time "
            "with time_column",
            0,
        )


def _check_names(columns: Columns) -> None:
    seen: dict[str, int] = {}
    for position, name in enumerate(columns.names, start=1):
        # pandas writes an index without a name as a first column without a name.
        if not name and position > 1:
            raise columns.error(
                f"column {position} has no name",
                "Name the column in the header, or remove it (a delimiter at the end of the header "
                "makes such a column)",
            )
        if name in seen:
            problem = f"columns {seen[name]} and {position} are both named {name!r}"
            raise columns.error(problem, "Give every sensor its own name")
        seen[name] = position
