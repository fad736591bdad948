"""Tables out: the same columns as came in, with the gaps filled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.columns import PLAIN, TEXTUAL
from flfl.io.files import (
    NETCDF_SUFFIXES,
    OUTPUT_SUFFIXES,
    PARQUET_SUFFIXES,
    WRITTEN_SHEETS,
    Writer,
    check_writable,
    suffix_of,
    write_files,
)
from flfl.io.formats.parquet import parquet_writer
from flfl.io.formats.spreadsheet import check_sheet_extra, sheet_writer
from flfl.io.formats.text import csv_writer
from flfl.io.grid import unseen
from flfl.io.rows import Original
from flfl.io.sensors import Sensors
from flfl.io.table import FILLED, FLAGS, LongColumn, Table
from flfl.io.times import time_texts

Array = NDArray[np.float64]
Numbers = Array | pd.DataFrame
Slots = NDArray[np.intp]
_TIME, _SENSOR = LongColumn("time", "slot"), LongColumn("sensor", "sensor")
_FLAG_COLUMNS = (_TIME, _SENSOR, LongColumn("value", "cell"))
# Cells written at a time: enough to be quick, little enough to stay small in memory.
_PIECE, _EXPONENT = 1 << 18, 1000


@dataclass(frozen=True, eq=False)
class Provenance:
    """What is said of the cells that were not observed, besides value and interval.

    Attributes
    ----------
    reasons : array or DataFrame
        Time x sensor, why a cell was refused; empty text elsewhere.
    method, run_id : str
    limits : (float, float)
        Between which numbers a recovered value lies, also when it has been rounded.
    methods : array or DataFrame, optional
        What each filled cell comes from; None: from ``method``.
    observed : array, optional
        Which slots somebody in the network observed; None: as the table tells.
    """

    reasons: NDArray[np.object_] | pd.DataFrame
    method: str
    run_id: str
    limits: tuple[float, float] = (-np.inf, np.inf)
    methods: NDArray[np.object_] | pd.DataFrame | None = None
    observed: NDArray[np.bool_] | None = None


def flags_of(
    table: Table, values: Numbers, observed: NDArray[np.bool_] | None = None
) -> NDArray[np.object_]:
    """Say of every cell, time x sensor, what it is: one of `FLAGS`. NaN is refused.

    ``observed``: which slots somebody observed, where the table is only a part of the network.
    """
    refused = np.isnan(np.asarray(values, dtype=np.float64))
    seen = unseen(table.known, table.positions) == 0 if observed is None else observed
    filled = np.where(refused, 2, np.where(seen, 1, 3)[:, None])
    return np.array(FLAGS, dtype=object)[np.where(table.known, 0, filled)]


def check_outputs(
    filled_path: str | Path | None,
    flags_path: str | Path | None,
    inputs: Iterable[str | Path] = (),
    rows_path: str | Path | None = None,
) -> None:
    """Refuse paths that `write_result` could not write, before any work is done."""
    tables = [path for path in (flags_path, rows_path) if path is not None]
    read, paths = list(inputs), [*tables, *([] if filled_path is None else [filled_path])]
    check_writable(*tables, inputs=read)
    check_writable(*paths, inputs=read, suffixes=OUTPUT_SUFFIXES + NETCDF_SUFFIXES)
    for path in paths:
        if suffix_of(path) in WRITTEN_SHEETS:
            check_sheet_extra(Path(path))
    if filled_path is not None and suffix_of(filled_path) in NETCDF_SUFFIXES:
        from flfl.io.formats.netcdf import import_xarray

        import_xarray(Path(filled_path))


def write_result(
    filled_path: str | Path | None,
    flags_path: str | Path | None,
    table: Table,
    values: Numbers,
    lower: Numbers | None = None,
    upper: Numbers | None = None,
    provenance: Provenance | None = None,
    sensors: Sensors | None = None,
    rows_path: str | Path | None = None,
    more: Mapping[str | Path, Writer] | None = None,
) -> None:
    """Write the filled table, its flags, or both; of both, and of ``more`` files, none appears
    without the others.

    Where rows were put together (``table.original``), ``rows_path`` gets the file as it came, with
    what was recovered in the cells that held no reading.

    The filled table has the layout of its source, else wide. In CSV observed cells keep their text,
    recovered ones have up to two decimals more than the sensor's observed ones, refused ones (NaN)
    are empty. The flags have one row per cell: time, sensor, value, flag, lower, upper and, with
    ``provenance``, method, reason and run. NetCDF holds all in one file, with the places of
    ``sensors``.

    The suffix of a path picks the format. ``values``, ``lower`` and ``upper`` are time x sensor;
    observed cells of ``values`` must be equal to the table's and have no interval.
    """
    read = [] if table.source is None else [table.source.path]
    check_outputs(filled_path, flags_path, read, rows_path)
    filled, known = np.asarray(values, dtype=np.float64), table.known
    if filled.shape != known.shape:
        raise ValueError(f"values have shape {filled.shape}, the table {known.shape}")
    # Compared in place: picking the known cells would copy both tables.
    if not ((filled == table.values.to_numpy()) | ~known).all():
        raise ValueError("values differ from the observed readings, which are never altered")
    limits = (-np.inf, np.inf) if provenance is None else provenance.limits
    texts, said = CellTexts(table, filled, known, limits), {}
    writers: dict[str | Path, Writer] = {**(more or {})}
    if flags_path is not None or suffix_of(filled_path or "") in NETCDF_SUFFIXES:
        seen = None if provenance is None else provenance.observed
        said["flag"] = flags = flags_of(table, filled, seen)
        for name, bound in (("lower", lower), ("upper", upper)):
            said[name] = np.where(known, np.nan, np.nan if bound is None else bound)
    if filled_path is not None and suffix_of(filled_path) in NETCDF_SUFFIXES:
        from flfl.io.formats.netcdf import netcdf_writer

        run = [] if provenance is None else [provenance.method, provenance.run_id]
        about = dict(zip(("method", "run_id"), run, strict=False))
        place, layers = sensors or Sensors.of_table(table), {"value": filled, **said}
        writers[filled_path] = netcdf_writer(Path(filled_path), table, layers, place, about)
    elif filled_path is not None:
        long = () if table.source is None else table.source.columns
        writers[filled_path] = _writer(filled_path, texts, long)
    if flags_path is not None:
        if provenance is not None:
            from_ = provenance.method if provenance.methods is None else provenance.methods
            said["method"] = np.where(np.isin(flags, FILLED), from_, "").astype(object)
            said["reason"] = np.where(flags == "refused", np.asarray(provenance.reasons), "")
            said["run_id"] = np.where(flags == "observed", "", provenance.run_id).astype(object)
        if table.counts is not None:
            said["readings"] = table.counts.astype(str).astype(object)
        columns = [LongColumn(name, "cell", cells) for name, cells in said.items()]
        writers[flags_path] = _writer(flags_path, texts, [*_FLAG_COLUMNS, *columns])
    if rows_path is not None:
        writers[rows_path] = _rows_writer(rows_path, texts)
    write_files(writers)


def check_rows(table: Table, where: object) -> Original:
    """The file's rows as they came, or a refusal where they were not kept."""
    if table.original is None:
        problem = "there are no rows but those of the filled table"
        remedy = (
            "Leave it out: it is for one file with step=1h, duplicates=mean or duplicates=first"
        )
        raise InputError(problem, where=str(where), remedy=remedy)
    return table.original


def filled_rows(table: Table, values: Numbers, limits: tuple[float, float]) -> list[pa.Array]:
    """The columns of the file as it came, filled; in a text file as text, else as numbers."""
    original, filled = check_rows(table, "rows"), np.asarray(values, dtype=np.float64)
    put = filled[original.slot, original.sensor]
    # A slot that has a reading of the sensor says it of all its rows.
    written = np.full(len(put) if original.raw.format in TEXTUAL else 0, "", dtype=object)
    texts = CellTexts(table, filled, table.known, limits)
    for sensor in np.unique(original.sensor) if len(written) else ():
        at = original.sensor == sensor
        written[at] = texts.numbers(int(sensor), put[at]).to_pylist()
    return original.filled(written, put)


def _rows_writer(path: str | Path, texts: CellTexts) -> Writer:
    table = texts.table
    arrays, raw = filled_rows(table, texts.filled, texts.limits), check_rows(table, path).raw
    if suffix_of(path) in PARQUET_SUFFIXES:
        return parquet_writer(raw.names, arrays, raw.form)
    cells = [pc.fill_null(pc.cast(array, pa.string()), "") for array in arrays]
    if suffix_of(path) in WRITTEN_SHEETS:
        held = check_rows(table, path).homes
        return sheet_writer(Path(path), raw.names, [cells], held, texts.mark)
    return csv_writer(raw.names, [cells], raw.dialect)


@dataclass(frozen=True, eq=False)
class CellTexts:
    """The texts of a filled table: observed cells as the file has them, the others as numbers."""

    table: Table
    filled: Array
    known: NDArray[np.bool_]
    limits: tuple[float, float]

    def observed(self, slots: Slots) -> list[pa.Array]:
        """The texts of observed cells, sensor by sensor; what is given for others means nothing."""
        texts = None if self.table.source is None else self.table.source.texts
        if texts is None:
            held = self.filled[slots].T.tolist()
            return [pa.array(list(map(repr, cells)), pa.string()) for cells in held]
        first, last = int(slots.min()), int(slots.max()) + 1
        found = texts.rows(first, last)
        if np.array_equal(slots, np.arange(first, last)):
            return found
        return [one.take(pa.array(slots - first)) for one in found]

    def numbers(self, sensor: int, numbers: Array) -> pa.Array:
        """Two decimals more than the observed cells, or seven digits where these have exponents."""
        there = ~np.isnan(numbers)
        given, decimals = numbers[there], self.decimals[sensor]
        if decimals is None:
            rounded = np.array([float(f"{number:.7g}") for number in given.tolist()])
        else:
            # A double holds about 15 digits: beyond them rounding does nothing but overflow.
            largest = float(np.abs(given).max(initial=1.0))
            digits = min(decimals + 2, 15 - int(np.log10(largest)))
            rounded = np.round(given, max(digits, 0)) + 0.0  # no -0.0
        texts = np.full(len(numbers), "", dtype=object)
        clipped = np.clip(rounded, *self.limits).tolist()
        texts[there] = [repr(number).replace(".", self.mark) for number in clipped]
        return pa.array(texts, pa.string())

    @property
    def mark(self) -> str:
        """The decimal mark of the file."""
        return "." if self.table.source is None else self.table.source.dialect.decimal

    @cached_property
    def decimals(self) -> list[int | None]:
        """Decimals of each sensor's observed cells; None when they are written with exponents."""
        original, most = self.table.original, np.full(self.known.shape[1], -1)
        for slots in self.pieces if original is None else ():
            cells = pa.chunked_array(self.observed(slots), pa.string())
            after = _after(cells, self.mark).reshape(len(most), -1)
            most = np.maximum(most, np.where(self.known[slots].T, after, -1).max(axis=1))
        if original is not None:
            # Means have more decimals than anything that was measured.
            found = (_after(original.texts(i), self.mark) for i in range(len(most)))
            most = np.array([after.max(initial=-1) for after in found])
        return [None if many >= _EXPONENT else 2 if many < 0 else many for many in most.tolist()]

    @property
    def pieces(self) -> list[Slots]:
        """The slots in the order of the file's rows, as many as are written at a time."""
        rows = np.arange(len(self.known)) if self.table.order is None else self.table.order
        return np.array_split(rows, -(-self.known.size // _PIECE))


@dataclass(frozen=True, eq=False)
class Piece:
    """Some slots of a filled table, typed or as text."""

    texts: CellTexts
    slots: Slots
    typed: bool

    @cached_property
    def observed(self) -> list[pa.Array]:
        """Texts of observed cells."""
        return self.texts.observed(self.slots)

    def of(self, sensor: int, cells: Any = None) -> pa.Array:
        """A sensor's cells of something time x sensor; None: of the readings."""
        if self.typed or (cells is not None and cells.dtype == object):
            given = self.texts.filled if cells is None else cells
            return pa.array(given[self.slots, sensor], from_pandas=True)
        if cells is not None:
            return self.texts.numbers(sensor, cells[self.slots, sensor])
        known, filled = self.texts.known[self.slots, sensor], self.texts.filled[self.slots, sensor]
        if known.all():
            return self.observed[sensor]
        gaps = self.texts.numbers(sensor, np.where(known, np.nan, filled))
        return pc.if_else(known, self.observed[sensor], gaps)


def _after(texts: pa.Array | pa.ChunkedArray, mark: str) -> NDArray[np.int32]:
    """How many decimals each text has; very many where it has an exponent."""
    texts = pc.utf8_trim_whitespace(pc.fill_null(texts, ""))
    point = pc.find_substring(texts, mark).to_numpy()
    after = np.where(point < 0, 0, pc.binary_length(texts).to_numpy() - point - 1)
    exponent = pc.match_substring(texts, "e", ignore_case=True).to_numpy(zero_copy_only=False)
    return np.where(exponent, _EXPONENT, after)


def _writer(path: str | Path, texts: CellTexts, columns: Sequence[LongColumn]) -> Writer:
    """Writes CSV or Parquet: long with these columns or, without any, wide."""
    table, source, typed = texts.table, texts.table.source, suffix_of(path) in PARQUET_SUFFIXES
    schema = source.form if source is not None and isinstance(source.form, pa.Schema) else None
    stored = dict(zip(schema.names, schema.types, strict=True)) if schema is not None else {}
    index = table.values.index
    time_name = index.name if source is None else source.time_column
    if typed and stored.get(time_name) not in (pa.string(), pa.large_string()):
        times = pa.array(index)
    else:
        times = pa.array(time_texts(index) if source is None else source.time_texts, pa.string())
    if columns:
        names = [column.name for column in columns]
        blocks = _long_blocks(texts, times, columns, typed)
    else:
        unnamed = time_name is None or (typed and not time_name)
        names = ["time" if unnamed else str(time_name), *table.sensor_ids]
        blocks = _wide_blocks(texts, times, typed)
    if typed:  # a table of flags has types of its own
        flags = any(column.by == "cell" and column.cells is not None for column in columns)
        return parquet_writer(names, next(blocks), None if flags else schema)
    dialect = PLAIN if source is None else source.dialect
    if suffix_of(path) in WRITTEN_SHEETS:
        cells = [i for i, one in enumerate(columns) if _is_number(one)] or range(1, len(names))
        naive = isinstance(index, pd.DatetimeIndex) and index.tz is None
        moments = (
            dict(zip(times.to_pylist(), pd.DatetimeIndex(index).to_pydatetime(), strict=True))
            if naive
            else {}
        )
        return sheet_writer(Path(path), names, blocks, cells, dialect.decimal, moments)
    if suffix_of(path).startswith(".tsv"):
        # A line that tells a spreadsheet of another delimiter would be wrong.
        told = dialect.above.lower().startswith("sep=")
        dialect = replace(dialect, delimiter="\t", above="" if told else dialect.above)
    return csv_writer(names, blocks, dialect)


def _is_number(column: LongColumn) -> bool:
    """Whether a column of a long table holds readings, or bounds of them."""
    return column.by == "cell" and (column.cells is None or column.cells.dtype != object)


def _wide_blocks(texts: CellTexts, times: pa.Array, typed: bool) -> Iterator[list[pa.Array]]:
    """The time and one column a sensor, rows in the order of the file."""
    pieces = texts.pieces
    for slots in [np.concatenate(pieces)] if typed else pieces:
        piece = Piece(texts, slots, typed)
        cells = [piece.of(i) for i in range(texts.filled.shape[1])]
        yield [times.take(pa.array(slots)), *cells]


def _long_blocks(
    texts: CellTexts, times: pa.Array, columns: Sequence[LongColumn], typed: bool
) -> Iterator[list[pa.Array]]:
    """One row a cell: one sensor after another or, as the source has it, one slot after another."""
    table = texts.table
    by_sensor = table.source is not None and table.source.by_sensor
    axes = [np.arange(size) for size in texts.filled.shape]
    pieces = np.array_split(axes[by_sensor], 1 if typed else -(-texts.filled.size // _PIECE))
    own = {"slot": times, "sensor": pa.array(table.sensor_ids, pa.string())}
    for piece in filter(len, pieces):
        slots, sensors = (axes[0], piece) if by_sensor else (piece, axes[1])
        place = np.arange(len(slots) * len(sensors)).reshape(len(sensors), len(slots))
        turn = (place if by_sensor else place.T).ravel()
        index = {"slot": np.tile(slots, len(sensors)), "sensor": np.repeat(sensors, len(slots))}
        block, part = [], Piece(texts, slots, typed)
        for column in columns:
            if column.by == "cell":
                cells = [part.of(i, column.cells) for i in sensors]
                block.append(pa.concat_arrays(cells).take(pa.array(turn)))
            else:
                held = own[column.by] if column.cells is None else column.cells
                held = held if typed else pc.fill_null(held.cast(pa.string()), "")
                block.append(held.take(pa.array(index[column.by][turn])))
        yield block


def write_sensors(path: str | Path, sensors: Sensors) -> None:
    """Write what is known of the sensors, in the form that `read_sensors` reads."""
    check_writable(path)
    columns: dict[str, Any] = {"sensor_id": sensors.ids}
    if sensors.coordinates is not None:
        names = ("latitude", "longitude") if sensors.kind == "latlon" else ("x", "y")
        columns |= dict(zip(names, sensors.coordinates.T.tolist(), strict=True))
    columns |= {"region": sensors.regions, "site": sensors.sites}
    held = {name: pa.array(cells) for name, cells in columns.items() if cells is not None}
    texts = [pa.array([str(cell) for cell in cells.to_pylist()]) for cells in held.values()]
    if suffix_of(path) in PARQUET_SUFFIXES:
        writer = parquet_writer(list(held), list(held.values()))
    elif suffix_of(path) in WRITTEN_SHEETS:
        numbers = [i for i, cells in enumerate(held.values()) if pa.types.is_floating(cells.type)]
        writer = sheet_writer(Path(path), list(held), [texts], numbers)
    else:
        delimiter = "\t" if suffix_of(path).startswith(".tsv") else ","
        writer = csv_writer(list(held), [texts], replace(PLAIN, delimiter=delimiter))
    write_files({path: writer})
