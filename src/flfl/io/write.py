"""Tables out: the same columns as came in, with the gaps filled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.io.columns import PLAIN
from flfl.io.csv_files import csv_writer
from flfl.io.files import (
    NETCDF_SUFFIXES,
    OUTPUT_SUFFIXES,
    PARQUET_SUFFIXES,
    Writer,
    check_writable,
    suffix_of,
    write_files,
)
from flfl.io.parquet import parquet_writer
from flfl.io.sensors import Sensors
from flfl.io.table import LongColumn, Table
from flfl.io.times import time_texts

FLAGS = ("observed", "recovered", "refused")
Array = NDArray[np.float64]
Numbers = Array | pd.DataFrame
Cells = Callable[[int, NDArray[np.intp]], pa.Array]
"""The cells of one sensor at some slots, as text or as typed values."""

_FLAG_COLUMNS = (
    LongColumn("time", "slot"),
    LongColumn("sensor", "sensor"),
    LongColumn("value", "cell"),
)
# Cells written at a time: enough to be quick, little enough to stay small in memory.
_PIECE = 1 << 19


@dataclass(frozen=True, eq=False)
class Provenance:
    """What is said of the cells that were not observed, besides value and interval.

    Attributes
    ----------
    reasons : array or DataFrame
        Time x sensor, why a cell was refused; empty text elsewhere.
    method : str
        What recovered the recovered ones.
    run_id : str
        The name of the run.
    limits : (float, float)
        Between which numbers a recovered value lies, also when it has been rounded.
    """

    reasons: NDArray[np.object_] | pd.DataFrame
    method: str
    run_id: str
    limits: tuple[float, float] = (-np.inf, np.inf)


def flags_of(table: Table, values: Numbers) -> NDArray[np.object_]:
    """Say of every cell whether it was observed, recovered, or refused (still NaN).

    Returns
    -------
    object array, time x sensor, of ``observed``, ``recovered`` or ``refused``
    """
    refused = np.isnan(np.asarray(values, dtype=np.float64))
    return np.array(FLAGS, dtype=object)[np.where(table.known, 0, np.where(refused, 2, 1))]


def check_outputs(
    filled_path: str | Path | None,
    flags_path: str | Path | None,
    inputs: Iterable[str | Path] = (),
) -> None:
    """Refuse paths that `write_result` could not write, before any work is done."""
    read = list(inputs)
    if flags_path is not None:
        check_writable(flags_path, inputs=read)
    if filled_path is not None:
        others = [] if flags_path is None else [flags_path]
        suffixes = OUTPUT_SUFFIXES + NETCDF_SUFFIXES
        check_writable(*others, filled_path, inputs=read, suffixes=suffixes)
        if suffix_of(filled_path) in NETCDF_SUFFIXES:
            from flfl.io.netcdf import import_xarray

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
) -> None:
    """Write the filled table, its flags, or both; of both, neither appears without the other.

    The filled table has the layout of its source (wide when it has none). In CSV, observed cells
    keep their text, recovered ones have up to two decimals more than the observed ones of the same
    sensor, and refused ones (NaN) are empty. The flags are one row a cell: time, sensor, value,
    flag, lower, upper and, with ``provenance``, the method of a recovered cell, the reason of a
    refused one and the run of both. NetCDF holds values, flags and intervals in one file. The
    suffix picks the format.

    Parameters
    ----------
    filled_path, flags_path : str or Path or None
    table : Table
        The table that was read.
    values, lower, upper : time x sensor
        Observed cells of ``values`` must be equal to the table's; they have no interval.
    provenance : Provenance, optional
    sensors : Sensors, optional
        Where the sensors stand, for NetCDF.
    """
    check_outputs(filled_path, flags_path, [] if table.source is None else [table.source.path])
    filled = _numbers(table, "values", values)
    # Compared in place: picking the known cells would copy both tables.
    if not ((filled == table.values.to_numpy()) | ~table.known).all():
        raise ValueError("values differ from the observed readings, which are never altered")
    extra: dict[str, NDArray[Any]] = {}
    netcdf = filled_path is not None and suffix_of(filled_path) in NETCDF_SUFFIXES
    if flags_path is not None or netcdf:
        extra["flag"] = flags_of(table, filled)
        for name, bound in (("lower", lower), ("upper", upper)):
            given = np.nan if bound is None else _numbers(table, name, bound)
            extra[name] = np.where(table.known, np.nan, given)
    limits = (-np.inf, np.inf) if provenance is None else provenance.limits
    texts = CellTexts(table, filled, limits)
    writers: dict[str | Path, Writer] = {}
    if filled_path is not None and netcdf:
        from flfl.io.netcdf import netcdf_writer

        about = {}
        if provenance is not None:
            about = {"method": provenance.method, "run_id": provenance.run_id}
        place = Sensors.of_table(table) if sensors is None else sensors
        layers = {"value": filled, **extra}
        writers[filled_path] = netcdf_writer(Path(filled_path), table, layers, place, about)
    elif filled_path is not None:
        long = table.source is not None and table.source.layout == "long"
        columns = table.source.columns if table.source is not None and long else None
        writers[filled_path] = _writer(Path(filled_path), texts, columns, {})
    if flags_path is not None:
        if provenance is not None:
            extra |= _origin(extra["flag"], provenance)
        writers[flags_path] = _writer(Path(flags_path), texts, _FLAG_COLUMNS, extra)
    write_files(writers)


def _numbers(table: Table, name: str, given: Numbers) -> Array:
    numbers = np.asarray(given, dtype=np.float64)
    if numbers.shape != table.values.shape:
        raise ValueError(f"{name} has shape {numbers.shape}, the table {table.values.shape}")
    return numbers


def _origin(flags: NDArray[Any], provenance: Provenance) -> dict[str, NDArray[Any]]:
    reasons = np.asarray(provenance.reasons, dtype=object)
    return {
        "method": np.where(flags == "recovered", provenance.method, "").astype(object),
        "reason": np.where(flags == "refused", reasons, ""),
        "run_id": np.where(flags == "observed", "", provenance.run_id).astype(object),
    }


@dataclass(frozen=True, eq=False)
class CellTexts:
    """The texts of a filled table: observed cells as the file has them, the others as numbers."""

    table: Table
    filled: Array
    limits: tuple[float, float] = (-np.inf, np.inf)

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        return self.table.known

    @property
    def mark(self) -> str:
        return "." if self.table.source is None else self.table.source.dialect.decimal

    def cells(self, sensor: int, slots: NDArray[np.intp]) -> pa.Array:
        """Observed cells as they were, recovered ones rounded, refused ones empty."""
        known = self.known[slots, sensor]
        if known.all():
            return self.observed(sensor, slots)
        gaps = self.numbers(sensor, np.where(known, np.nan, self.filled[slots, sensor]))
        return pc.if_else(known, self.observed(sensor, slots), gaps)

    def observed(self, sensor: int, slots: NDArray[np.intp]) -> pa.Array:
        """The texts of observed cells; what it gives for others means nothing."""
        source = self.table.source
        if source is not None and source.texts:
            return source.texts[sensor].take(pa.array(slots))
        return pa.array([repr(number) for number in self.filled[slots, sensor].tolist()])

    def numbers(self, sensor: int, numbers: Array) -> pa.Array:
        """Numbers in the units of a sensor; NaN is empty."""
        there = ~np.isnan(numbers)
        rounded = np.clip(_round(numbers[there], self.decimals[sensor]), *self.limits)
        texts = np.full(len(numbers), "", dtype=object)
        texts[there] = [repr(number).replace(".", self.mark) for number in rounded.tolist()]
        return pa.array(texts, pa.string())

    @cached_property
    def decimals(self) -> list[int | None]:
        """Decimals of each sensor's observed cells; None when they are written with exponents."""
        return [self._decimals(sensor) for sensor in range(self.filled.shape[1])]

    def _decimals(self, sensor: int) -> int | None:
        slots = np.flatnonzero(self.known[:, sensor])
        if len(slots) == 0:
            return 2
        texts = pc.utf8_trim_whitespace(self.observed(sensor, slots))
        if pc.any(pc.match_substring_regex(texts, "[eE]")).as_py():
            return None
        point = pc.find_substring(texts, self.mark).to_numpy()
        after = pc.binary_length(texts).to_numpy() - point - 1
        return int(np.where(point < 0, 0, after).max())


def _round(numbers: Array, decimals: int | None) -> list[float]:
    """Two decimals more than the observed cells have; seven digits where they have exponents."""
    if decimals is None:
        return [float(f"{number:.7g}") for number in numbers.tolist()]
    # A double holds about 15 digits: beyond them rounding does nothing but overflow.
    largest = float(np.abs(numbers).max(initial=1.0))
    digits = min(decimals + 2, 15 - int(np.log10(largest)))
    # Adding zero turns -0.0 into 0.0.
    rounded: list[float] = (np.round(numbers, max(digits, 0)) + 0.0).tolist()
    return rounded


def _writer(
    path: Path,
    texts: CellTexts,
    columns: Sequence[LongColumn] | None,
    extra: dict[str, NDArray[Any]],
) -> Writer:
    """Writes CSV or Parquet: wide, or long with these columns and those of ``extra``."""
    table, source = texts.table, texts.table.source
    typed = suffix_of(path) in PARQUET_SUFFIXES
    times = _times(table, typed)
    if columns is None:
        named = table.values.index.name if source is None else source.time_column
        names = ["time" if named is None or (typed and not named) else str(named)]
        names += table.sensor_ids
        blocks = _wide_blocks(texts, times, typed)
    else:
        names = [*(column.name for column in columns), *extra]
        blocks = _long_blocks(texts, times, columns, extra, typed)
    if typed:
        schema = None if source is None or extra else source.form
        schema = schema if isinstance(schema, pa.Schema) else None
        return parquet_writer(names, next(blocks), schema)
    dialect = PLAIN if source is None else source.dialect
    if suffix_of(path).startswith(".tsv"):
        dialect = replace(dialect, delimiter="\t")
    return csv_writer(names, blocks, dialect)


def _times(table: Table, typed: bool) -> pa.Array:
    source = table.source
    if typed and source is not None and isinstance(source.form, pa.Schema):
        place = source.form.get_field_index(source.time_column)
        stored = None if place < 0 else source.form.field(place).type
        typed = stored not in (pa.string(), pa.large_string())
    if typed:
        return pa.array(table.values.index)
    texts = time_texts(table.values.index) if source is None else source.time_texts
    return pa.array(texts, pa.string())


def _wide_blocks(texts: CellTexts, times: pa.Array, typed: bool) -> Iterator[list[pa.Array]]:
    """The time and one column a sensor, rows in the order of the file."""
    filled, order = texts.filled, texts.table.order
    slots, sensors = filled.shape
    rows = np.arange(slots) if order is None else order
    for piece in np.array_split(rows, 1 if typed else -(-filled.size // _PIECE)):
        cells = [
            pa.array(filled[piece, i], from_pandas=True) if typed else texts.cells(i, piece)
            for i in range(sensors)
        ]
        yield [times.take(pa.array(piece)), *cells]


def _long_blocks(
    texts: CellTexts,
    times: pa.Array,
    columns: Sequence[LongColumn],
    extra: dict[str, NDArray[Any]],
    typed: bool,
) -> Iterator[list[pa.Array]]:
    """One row a cell: one sensor after another or, as the source has it, one slot after another."""
    table, filled = texts.table, texts.filled
    slots, sensors = np.arange(filled.shape[0]), np.arange(filled.shape[1])
    by_sensor = table.source is not None and table.source.by_sensor
    pieces = 1 if typed else -(-filled.size // _PIECE)
    if by_sensor:
        blocks = [(slots, part) for part in np.array_split(sensors, min(pieces, len(sensors)))]
    else:
        blocks = [(part, sensors) for part in np.array_split(slots, min(pieces, len(slots)))]
    plain = {"slot": times, "sensor": pa.array(table.sensor_ids, pa.string())}

    def of_cells(numbers: NDArray[Any]) -> Cells:
        if typed or numbers.dtype == object:
            return lambda i, piece: pa.array(numbers[piece, i], from_pandas=True)
        return lambda i, piece: texts.numbers(i, numbers[piece, i])

    value = of_cells(filled) if typed else texts.cells
    for some, chosen in blocks:
        place = np.arange(len(some) * len(chosen)).reshape(len(chosen), len(some))
        turn = pa.array((place if by_sensor else place.T).ravel())
        index = {
            "slot": pa.array(np.tile(some, len(chosen))).take(turn),
            "sensor": pa.array(np.repeat(chosen, len(some))).take(turn),
        }
        block = []
        for column in columns:
            if column.by == "cell":
                block.append(pa.concat_arrays([value(i, some) for i in chosen]).take(turn))
                continue
            held = plain[column.by] if column.cells is None else column.cells
            held = held if typed else pc.fill_null(held.cast(pa.string()), "")
            block.append(held.take(index[column.by]))
        for numbers in extra.values():
            make = of_cells(numbers)
            block.append(pa.concat_arrays([make(i, some) for i in chosen]).take(turn))
        yield block


def write_sensors(path: str | Path, sensors: Sensors) -> None:
    """Write what is known of the sensors, in the form that `read_sensors` reads."""
    check_writable(path)
    columns: dict[str, Any] = {"sensor_id": sensors.ids}
    if sensors.coordinates is not None:
        names = ("latitude", "longitude") if sensors.kind == "latlon" else ("x", "y")
        columns |= dict(zip(names, sensors.coordinates.T.tolist(), strict=True))
    columns |= {"region": sensors.regions, "site": sensors.sites}
    held = {name: cells for name, cells in columns.items() if cells is not None}
    if suffix_of(path) in PARQUET_SUFFIXES:
        writer = parquet_writer(list(held), [pa.array(cells) for cells in held.values()])
    else:
        texts = [pa.array([str(cell) for cell in cells]) for cells in held.values()]
        writer = csv_writer(list(held), [texts], PLAIN)
    write_files({path: writer})
