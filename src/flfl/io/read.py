"""Readings in: a CSV, Parquet or NetCDF file, a DataFrame or an array becomes a checked table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from flfl.config import ReadingRules
from flfl.errors import InputError
from flfl.io.cells import is_word
from flfl.io.columns import (
    PARAMETER_NAMES,
    SENSOR_NAMES,
    TEXTUAL,
    VALUE_NAMES,
    Columns,
    as_array,
    drop,
    listing,
)
from flfl.io.files import (
    NETCDF_SUFFIXES,
    PARQUET_SUFFIXES,
    READABLE,
    SHEET_SUFFIXES,
    TEXT_SUFFIXES,
    read_bytes,
    suffix_of,
)
from flfl.io.formats.agencies import recognised
from flfl.io.formats.archives import is_several, parts
from flfl.io.formats.parquet import read_parquet
from flfl.io.formats.spreadsheet import read_spreadsheet
from flfl.io.formats.text import looks_like_text, read_text, refuse_web_page
from flfl.io.frames import as_pandas
from flfl.io.long import find_roles, long_table
from flfl.io.merge import merge_tables, named_after_file
from flfl.io.quantities import TYPES, is_quantity, pick_parameter, without_others
from flfl.io.shapes import refuse_parts_of_time
from flfl.io.table import Table
from flfl.io.tidy import is_bare, readings_alone, tidy, without_flags
from flfl.io.times import TIME_NAMES, looks_like_time
from flfl.io.wide import wide_table


def read_readings(path: str | Path, **options: Any) -> Table:
    """Read a table of readings.

    Parameters
    ----------
    path : str or Path
        ``.csv``, ``.txt`` or ``.tsv``, each also with ``.gz``, ``.parquet``, or ``.nc`` (NetCDF).
    options
        How to read it, as :class:`~flfl.config.ReadingRules` says.

    Raises
    ------
    InputError
        With the file, the line and the column at fault, and the remedy.
    """
    rules, path = ReadingRules.check(options), Path(path)
    if not is_several(path):
        table = to_table(_read(path, read_bytes, rules), rules)
        # Arrow keeps what the columns took, as much again as the readings.
        pa.default_memory_pool().release_unused()
        return table
    tables = []
    for part, data in parts(path):
        table = to_table(_read(part, {part: data}.__getitem__, rules), rules)
        generic = table.sensor_ids[0].lower() in (*VALUE_NAMES, part.stem.lower())
        generic = generic or is_quantity(table.sensor_ids[0])
        tables.append(named_after_file(table, part, generic))
    return merge_tables(path, tables, rules.duplicates)


def to_table(columns: Columns, rules: ReadingRules) -> Table:
    """The table in some columns, wide or long."""
    if columns.wide_only:
        given = rules.model_dump(exclude_none=True)
        means_nothing = ("time_column", "sensor_column", "value_column", "time_zone")
        if useless := listing(name for name in means_nothing if name in given):
            problem = f"{useless} means nothing here: NetCDF has variables, and times in UTC"
            remedy = "Leave it out; choose the variable of the readings with parameter"
            raise columns.error(problem, remedy)
        return wide_table(columns, rules)
    odd = rules.layout == "long" or rules.format != "auto" or not is_bare(columns)
    if odd or rules.merges or rules.time_column not in (None, columns.names[0]):
        columns = columns.as_text()
    columns = recognised(columns.kept() if rules.merges else columns, rules.format)
    header = columns.format in TEXTUAL and rules.time_column is None
    if header and columns.find(TIME_NAMES) is None and looks_like_time(columns.names[0]):
        first = columns.names[0]
        problem = f"the first line holds the time {first!r} where column names should be"
        raise columns.error(problem, "Put a header above the readings, such as time,a,b")
    columns = tidy(columns, rules.layout == "wide") if rules.time_column is None else columns
    roles = find_roles(columns, rules)
    if roles is None:
        columns = without_flags(columns, rules.bad_flags)
        if columns.format in TEXTUAL and rules.time_column is None:
            columns, rules = _one_type(columns, rules)
            columns = readings_alone(columns)
            if rules.layout != "wide":
                refuse_parts_of_time(columns, columns.find(TIME_NAMES) or 0)
    seen: dict[str, int] = {}
    for position, name in enumerate(columns.names):
        # pandas writes an index without a name as a first column without a name.
        if not name and position > 0:
            problem, remedy = f"column {position + 1} has no name", "Name the column in the header,"
            remedy += " or remove it (a delimiter at the end of the header makes such a column)"
            raise columns.error(problem, remedy)
        earlier = seen.setdefault(name, position)
        if earlier < position:
            problem = f"columns {earlier + 1} and {position + 1} are both named {name!r}"
            raise columns.error(problem, "Give every sensor its own name")
    if roles is not None:
        if columns.find(PARAMETER_NAMES) is None and is_quantity(columns.names[roles[2]]):
            rules = rules.model_copy(update={"parameter": None})
            columns, roles = without_others(columns, roles)
        return long_table(columns, roles, rules)
    return wide_table(columns, rules)


def _one_type(columns: Columns, rules: ReadingRules) -> tuple[Columns, ReadingRules]:
    """The rows of one quantity of a wide table, where a column of words names it."""
    column = columns.find(TYPES)
    if not column or not is_word(str(columns.arrays[column][0])):
        return columns, rules
    columns, told = pick_parameter(columns, column, rules.parameter)
    return drop(columns, [column], *told), rules.model_copy(update={"parameter": None})


def read_columns(path: str | Path, parameter: str | None = None) -> Columns:
    """Read a file of any format into named columns."""
    return _read(Path(path), read_bytes, ReadingRules(parameter=parameter)).as_text()


def _read(path: Path, content: Callable[[Path], bytes], rules: ReadingRules) -> Columns:
    """Named columns from a file's content; a further format is a line here."""
    suffix, parameter = suffix_of(path), rules.parameter
    if suffix in TEXT_SUFFIXES + SHEET_SUFFIXES:
        data = content(path)
        refuse_web_page(path, data)
        # Many a portal calls its text a spreadsheet.
        if suffix in TEXT_SUFFIXES or looks_like_text(data):
            return read_text(path, data, rules.encoding)
        return read_spreadsheet(path, data, rules.sheet)
    if suffix in PARQUET_SUFFIXES:
        return read_parquet(path, content(path))
    if suffix in NETCDF_SUFFIXES:
        # Loaded when met: the module is large, and what it needs is an extra.
        from flfl.io.formats.netcdf import read_netcdf

        return read_netcdf(path, content(path), parameter)
    known = ", ".join((*READABLE, ".zip"))
    problem = f"the suffix {suffix!r} is not one that can be read" if suffix else "it has no suffix"
    raise InputError(problem, where=str(path), remedy=f"Give a file that ends in {known}")


def from_frame(readings: Any, **options: Any) -> Table:
    """Take a table of Python (:mod:`flfl.io.frames`), wide or long, with the checks of a file.

    The index holds the times or, where it is a plain row count, a column with a common name such as
    ``time``. An array has slots and sensors 0, 1, 2, … Missing are NaN and, as in a file, -999 and
    -9999. ``options`` are :class:`~flfl.config.ReadingRules`.

    Examples
    --------
    >>> table = from_frame(np.array([[1.0, 2.0], [np.nan, 3.0]]))
    >>> table.sensor_ids, table.positions.tolist()
    (('0', '1'), [0.0, 1.0])
    """
    rules = ReadingRules.check(options)
    label = "the array" if isinstance(readings, np.ndarray | list) else "the DataFrame"
    readings, _ = as_pandas(readings)
    if is_long(readings, rules):
        columns = frame_columns(label, [(str(n), readings[n]) for n in readings.columns])
        return replace(to_table(replace(columns, time_first=False), rules), source=None)
    rules = rules.model_copy(update={"layout": "wide"})
    frame = with_time_index(readings)
    index = frame.index
    if isinstance(index, pd.MultiIndex):
        remedy = "Give one row a time and one column a sensor"
        raise InputError("the index has several levels", where=label, remedy=remedy)
    if isinstance(index, pd.PeriodIndex):
        index = pd.DatetimeIndex(index.to_timestamp())
    elif isinstance(index, pd.TimedeltaIndex):
        index = pd.Index(index.total_seconds())
    ids = [str(name).strip() for name in frame.columns]
    time = "" if frame.index.name is None or str(frame.index.name) in ids else frame.index.name
    parts = [(str(time), index.to_series())]
    parts += [(name, frame.iloc[:, i]) for i, name in enumerate(ids)]
    return replace(to_table(frame_columns(label, parts), rules), source=None)


def is_long(frame: pd.DataFrame, rules: ReadingRules | None = None) -> bool:
    """Whether a DataFrame has a row for each reading: columns of time, sensor and value."""
    rules = rules or ReadingRules()
    if rules.layout != "auto" or rules.sensor_column or rules.value_column:
        return rules.layout == "long" or bool(rules.sensor_column or rules.value_column)
    names = {str(name).strip().lower() for name in frame.columns}
    common = (TIME_NAMES, SENSOR_NAMES, VALUE_NAMES)
    return len(names) < 50 and all(names & set(words) for words in common)


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
