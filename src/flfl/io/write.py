"""Tables out: the source's own layout and words, with the gaps filled."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from flfl.io.atomic import OUTPUT_SUFFIXES, Writer, check_writable, write_files
from flfl.io.celltexts import CellTexts
from flfl.io.files import PARQUET_SUFFIXES, suffix_of
from flfl.io.longtexts import Extra, LongTexts, row_pieces
from flfl.io.netcdf_write import Layers, netcdf_writer
from flfl.io.parquet_write import long_writer, parquet_writer, wide_writer
from flfl.io.sensors import Sensors
from flfl.io.table import Source, Table
from flfl.io.times import time_texts
from flfl.io.xarrays import NETCDF_SUFFIXES, import_xarray

__all__ = [
    "FLAGS",
    "Provenance",
    "check_outputs",
    "check_writable",
    "flags_of",
    "write_flags",
    "write_recovered",
    "write_result",
    "write_sensors",
]

FLAGS = ("observed", "recovered", "refused")
Numbers = NDArray[np.float64] | pd.DataFrame
Words = NDArray[np.object_] | pd.DataFrame


@dataclass(frozen=True, eq=False)
class Provenance:
    """What is said of the cells that were not observed, besides value and interval.

    Attributes
    ----------
    reasons : time x sensor, why a cell was refused; empty text elsewhere
    method : what recovered the recovered ones
    run_id : the name of the run
    limits : between which numbers a recovered value lies, also when it has been rounded
    """

    reasons: Words
    method: str
    run_id: str
    limits: tuple[float, float] = (-np.inf, np.inf)


def flags_of(table: Table, values: Numbers) -> NDArray[np.object_]:
    """Say of every cell whether it was observed, recovered, or refused (still NaN).

    Returns
    -------
    object array, time x sensor, of ``observed``, ``recovered`` or ``refused``
    """
    refused = np.isnan(_numbers(table, "values", values))
    code = np.where(table.known, 0, np.where(refused, 2, 1))
    return np.array(FLAGS, dtype=object)[code]


def write_recovered(path: str | Path, table: Table, values: Numbers) -> None:
    """Write the filled table in the layout of its source (wide when it has none).

    Observed cells keep their original text in CSV. Recovered cells have up to two decimals more
    than the observed ones of the same sensor. Refused cells (NaN) are empty. The suffix picks CSV,
    compressed CSV or Parquet. The file appears only when it is complete.

    Parameters
    ----------
    path : str or Path
    table : Table
        The table that was read.
    values : time x sensor
        Observed cells must be equal to the table's.
    """
    write_result(path, None, table, values)


def write_flags(
    path: str | Path,
    table: Table,
    values: Numbers,
    flags: Words | None = None,
    lower: Numbers | None = None,
    upper: Numbers | None = None,
    provenance: Provenance | None = None,
) -> None:
    """Write one row a cell: time, sensor, value, flag, lower, upper[, method, reason, run_id].

    ``flag`` is ``observed``, ``recovered`` or ``refused``; the interval of an observed cell, or
    one that is not given, is empty. With ``provenance`` a recovered cell has its method, a refused
    one the reason, both the run. See `write_recovered` for the rest.
    """
    write_result(None, path, table, values, flags, lower, upper, provenance)


def write_result(
    filled_path: str | Path | None,
    flags_path: str | Path | None,
    table: Table,
    values: Numbers,
    flags: Words | None = None,
    lower: Numbers | None = None,
    upper: Numbers | None = None,
    provenance: Provenance | None = None,
    sensors: Sensors | None = None,
) -> None:
    """Write the filled table, its flags, or both; of both, neither appears without the other.

    NetCDF holds values, flags and intervals in one file, and where the ``sensors`` stand.
    """
    check_outputs(
        filled_path, flags_path, inputs=[] if table.source is None else [table.source.path]
    )
    filled = _numbers(table, "values", values)
    _check_observed(table, filled)
    limits = (-np.inf, np.inf) if provenance is None else provenance.limits
    writers: dict[str | Path, Writer] = {}
    if filled_path is not None:
        path = Path(filled_path)
        if suffix_of(path) in NETCDF_SUFFIXES:
            layers = _layers(filled, _extra(table, filled, flags, lower, upper))
            where = Sensors.of_table(table) if sensors is None else sensors
            writers[path] = netcdf_writer(path, table, layers, where, _about(provenance))
        else:
            writers[path] = _filled_writer(path, table, filled, limits)
    if flags_path is not None:
        extra = _extra(table, filled, flags, lower, upper)
        if provenance is not None:
            extra |= _origin(extra["flag"], provenance)
        names = {name: name for name in ("time", "sensor", "value")}
        writers[flags_path] = _long_writer(Path(flags_path), table, filled, names, extra, limits)
    write_files(writers)


def check_outputs(
    filled_path: str | Path | None,
    flags_path: str | Path | None,
    inputs: Iterable[str | Path] = (),
) -> None:
    """Refuse paths that `write_result` could not write, before any work is done."""
    paths = [path for path in (filled_path, flags_path) if path is not None]
    check_writable(*paths, inputs=inputs, suffixes=OUTPUT_SUFFIXES + NETCDF_SUFFIXES)
    if flags_path is not None:
        check_writable(flags_path)
    if filled_path is not None and suffix_of(Path(filled_path)) in NETCDF_SUFFIXES:
        import_xarray(Path(filled_path))


def write_sensors(path: str | Path, sensors: Sensors) -> None:
    """Write what is known of the sensors, in the form that `read_sensors` reads."""
    check_writable(path)
    columns: dict[str, Any] = {"sensor_id": list(sensors.ids)}
    if sensors.coordinates is not None:
        names = ("latitude", "longitude") if sensors.kind == "latlon" else ("x", "y")
        columns |= {name: sensors.coordinates[:, i].tolist() for i, name in enumerate(names)}
    for name, labels in (("region", sensors.regions), ("site", sensors.sites)):
        if labels is not None:
            columns[name] = list(labels)
    if suffix_of(Path(path)) in PARQUET_SUFFIXES:
        writer = parquet_writer(pa.table(columns))
    else:
        texts = [[str(cell) for cell in column] for column in columns.values()]
        writer = _csv_writer(Path(path), None, list(columns), [texts])
    write_files({path: writer})


def _numbers(table: Table, name: str, given: Numbers) -> NDArray[np.float64]:
    numbers = np.asarray(given, dtype=np.float64)
    if numbers.shape != table.values.shape:
        raise ValueError(f"{name} has shape {numbers.shape}, the table {table.values.shape}")
    return numbers


def _check_observed(table: Table, filled: NDArray[np.float64]) -> None:
    # Compared in place: picking the known cells would copy both tables.
    same = filled == table.values.to_numpy()
    if not (same | ~table.known).all():
        raise ValueError("values differ from the observed readings, which are never altered")


def _extra(
    table: Table,
    filled: NDArray[np.float64],
    flags: Words | None,
    lower: Numbers | None,
    upper: Numbers | None,
) -> Extra:
    words = flags_of(table, filled) if flags is None else np.asarray(flags, dtype=object)
    if words.shape != table.values.shape or not set(pd.unique(words.ravel())) <= set(FLAGS):
        raise ValueError(f"flags must be time x sensor, each one of {', '.join(FLAGS)}")
    extra: Extra = {"flag": words}
    for name, bound in (("lower", lower), ("upper", upper)):
        given = np.nan if bound is None else _numbers(table, name, bound)
        extra[name] = np.where(table.known, np.nan, given)
    return extra


def _origin(flags: NDArray[Any], provenance: Provenance) -> Extra:
    reasons = np.asarray(provenance.reasons, dtype=object)
    if reasons.shape != flags.shape:
        raise ValueError(f"reasons has shape {reasons.shape}, the table {flags.shape}")
    return {
        "method": np.where(flags == "recovered", provenance.method, "").astype(object),
        "reason": np.where(flags == "refused", reasons, ""),
        "run_id": np.where(flags == "observed", "", provenance.run_id).astype(object),
    }


def _layers(filled: NDArray[np.float64], extra: Extra) -> Layers:
    codes = np.zeros(filled.shape, dtype=np.int8)
    for code, flag in enumerate(FLAGS):
        codes[extra["flag"] == flag] = code
    return Layers(filled, codes, FLAGS, extra["lower"], extra["upper"])


def _about(provenance: Provenance | None) -> dict[str, str]:
    if provenance is None:
        return {}
    return {"method": provenance.method, "run_id": provenance.run_id}


def _time_column(table: Table) -> tuple[str, Sequence[str]]:
    if table.source is not None:
        return table.source.time_column, table.source.time_texts
    name = table.values.index.name
    return ("time" if name is None else str(name)), time_texts(table.values.index)


def _filled_writer(
    path: Path, table: Table, filled: NDArray[np.float64], limits: tuple[float, float]
) -> Writer:
    source = table.source
    if source is not None and source.layout == "long":
        return _long_writer(path, table, filled, _long_names(source), {}, limits)
    name, times = _time_column(table)
    rows = np.arange(len(filled)) if table.order is None else table.order
    ids = list(table.sensor_ids)
    if suffix_of(path) in PARQUET_SUFFIXES:
        return wide_writer(table, filled, name or "time", rows)
    texts = CellTexts(table, filled, limits)
    pieces = (
        [[times[slot] for slot in piece], *(texts.cells(i, piece) for i in range(len(ids)))]
        for piece in row_pieces(rows, len(ids))
    )
    return _csv_writer(path, source, [name, *ids], pieces)


def _long_names(source: Source) -> dict[str, str]:
    """The columns of a long file in its order, and what each holds."""
    held = {
        source.time_column: "time",
        source.sensor_column or "": "sensor",
        source.value_column or "": "value",
    }
    for name in source.columns:
        if name in source.carried_by_sensor:
            held[name] = "by sensor"
        elif name in source.carried_by_slot:
            held[name] = "by slot"
    return {name: held[name] for name in source.columns or held if name in held}


def _long_writer(
    path: Path,
    table: Table,
    filled: NDArray[np.float64],
    names: Mapping[str, str],
    extra: Extra,
    limits: tuple[float, float],
) -> Writer:
    if suffix_of(path) in PARQUET_SUFFIXES:
        return long_writer(table, filled, names, extra, _by_sensor(table))
    texts = LongTexts(table, _time_column(table)[1], CellTexts(table, filled, limits), names, extra)
    pieces = texts.by_sensor() if _by_sensor(table) else texts.by_slot()
    return _csv_writer(path, table.source, [*names, *extra], pieces)


def _by_sensor(table: Table) -> bool:
    return table.source is not None and table.source.by_sensor


def _csv_writer(
    path: Path, source: Source | None, header: list[str], pieces: Iterable[list[list[str]]]
) -> Writer:
    delimiter, end = (source.delimiter, source.line_end) if source is not None else (",", "\n")
    if suffix_of(path).startswith(".tsv"):
        delimiter = "\t"

    def write(file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        text.write(source.mark if source is not None else "")
        writer = csv.writer(text, delimiter=delimiter, lineterminator=end)
        writer.writerow(header)
        for columns in pieces:
            writer.writerows(zip(*columns, strict=True))
        # Leave the file open: it is not yet on the disk.
        text.detach()

    return write
