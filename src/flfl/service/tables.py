"""Reads an owner's source and writes its result, in a process of its own.

Table readers are large; a site that waits for months should not be. ``python -m
flfl.service.tables read|write CONFIG FOLDER`` does one thing and ends. What is wrong goes to
stderr as one line.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flfl.ensemble.estimate import Recovered
from flfl.errors import FLFLError, InputError
from flfl.io.files import PARQUET_SUFFIXES, TEXT_SUFFIXES, suffix_of
from flfl.io.read import SENTINELS, from_frame, read_readings
from flfl.io.sensors import Sensors, read_sensors
from flfl.io.table import Table
from flfl.io.write import write_result
from flfl.service.config import OutSettings, ReadingSettings, SiteConfig, read_config
from flfl.service.grid import TimeGrid
from flfl.service.sources import Snapshot, align, load_arrays

READINGS, RESULT = "readings.npz", "result.npz"


def snapshot(settings: ReadingSettings, grid: TimeGrid) -> Snapshot:
    """The owner's readings on the network's times."""
    chosen = [settings.file, settings.folder, settings.query]
    if sum(one is not None for one in chosen) != 1:
        raise InputError(
            "give one of file, folder and query", where="[readings]", remedy="Remove the others"
        )
    if settings.file is not None:
        tables = [(str(settings.file), _file(settings.file, settings))]
    elif settings.folder is not None:
        tables = [(str(p), _file(p, settings)) for p in _files(settings.folder)]
    else:
        tables = [("the query", _query(settings))]
    ids = tuple(dict.fromkeys(name for _, table in tables for name in table.sensor_ids))
    values = np.full((len(ids), grid.slots), np.nan)
    for where, table in tables:
        rows = [ids.index(name) for name in table.sensor_ids]
        new = align(_stamps(table, where), table.values.to_numpy(), table.sensor_ids, grid, where)
        values[rows] = _joined(values[rows], new, settings.duplicates, where)
    sensors = Sensors.bare(ids)
    if settings.sensors is not None:
        sensors = read_sensors(settings.sensors, ids)
    notes = tuple(note for _, table in tables for note in table.notes)
    return Snapshot(ids, values, sensors.coordinates, sensors.kind or "", notes)


def _file(path: Path, settings: ReadingSettings) -> Table:
    return read_readings(
        path,
        layout=settings.layout,  # type: ignore[arg-type]
        time_column=settings.time_column,
        sensor_column=settings.sensor_column,
        value_column=settings.value_column,
        sentinels=_sentinels(settings),
        duplicates=settings.duplicates,  # type: ignore[arg-type]
    )


def _sentinels(settings: ReadingSettings) -> tuple[float, ...]:
    return SENTINELS if settings.missing is None else tuple(settings.missing)


def _files(folder: Path) -> list[Path]:
    suffixes = (*TEXT_SUFFIXES, *PARQUET_SUFFIXES)
    found = sorted(
        path
        for path in (folder.iterdir() if folder.is_dir() else ())
        if path.is_file() and suffix_of(path) in suffixes and not path.name.startswith(".")
    )
    if not found:
        raise InputError(
            "there is no file of readings in the folder",
            where=str(folder),
            remedy=f"Put files there that end in {', '.join(suffixes)}",
        )
    return found


def _joined(old: Any, new: Any, duplicates: str, where: str) -> Any:
    """A later file adds to the earlier ones; where both have a reading, the rule decides."""
    both = ~np.isnan(old) & ~np.isnan(new) & (old != new)
    if both.any() and duplicates == "refuse":
        raise InputError(
            f"{int(both.sum())} readings differ from those of an earlier file",
            where=where,
            remedy='Remove one of the files, or choose duplicates = "first" or "mean"',
        )
    merged = np.where(np.isnan(old), new, old)
    return np.where(both, (old + new) / 2, merged) if duplicates == "mean" else merged


def _query(settings: ReadingSettings) -> Table:
    try:
        import sqlalchemy
    except ImportError:
        raise InputError(
            "a database needs SQLAlchemy", where="[readings]", remedy="pip install 'flfl[sql]'"
        ) from None
    address = settings.database or os.environ.get("FLFL_DATABASE")
    if not address:
        raise InputError(
            "the query has no database",
            where="[readings]",
            remedy="Give database, or set FLFL_DATABASE to keep the password out of the file",
        )
    try:
        # No pool: one query, and the connection is closed whatever comes of it.
        engine = sqlalchemy.create_engine(address, poolclass=sqlalchemy.pool.NullPool)
        with engine.connect() as connection:
            rows = connection.execute(sqlalchemy.text(settings.query or ""))
            frame = pd.DataFrame(rows.fetchall(), columns=list(rows.keys()))
    except Exception as error:
        # Drivers raise what they like; their text may hold the password, so only its kind is told.
        raise InputError(
            f"the database cannot be read ({type(error).__name__})",
            where="[readings] query",
            remedy="Try the query and the address with the database's own client",
        ) from None
    return from_frame(_wide(frame, settings), sentinels=_sentinels(settings))


def _wide(frame: pd.DataFrame, settings: ReadingSettings) -> pd.DataFrame:
    """Rows of time, sensor, value as a time x sensor table; other tables stay as they are."""
    time = settings.time_column or str(frame.columns[0])
    sensor, value = settings.sensor_column or "sensor", settings.value_column or "value"
    for name in (time, *((sensor, value) if settings.layout == "long" else ())):
        if name not in frame.columns:
            raise InputError(
                f"the query gives no column {name!r}",
                where="[readings] query",
                remedy=f"It gives {', '.join(map(str, frame.columns))}",
            )
    # Drivers give exact decimals and clock times with a zone as objects of Python.
    frame = frame.assign(**{time: pd.to_datetime(frame[time], utc=True).dt.tz_localize(None)})
    if sensor not in frame.columns or value not in frame.columns or settings.layout == "wide":
        return frame.set_index(time).astype(float)
    frame = frame.assign(**{value: pd.to_numeric(frame[value])})
    twice = frame.duplicated([time, sensor])
    if twice.any() and settings.duplicates == "refuse":
        first = frame[twice].iloc[0]
        raise InputError(
            f"sensor {first[sensor]!r} has several readings at {first[time]}",
            where="[readings] query",
            remedy='Change the query, or choose duplicates = "first" or "mean"',
        )
    grouped = frame.groupby([time, sensor])[value]
    single = grouped.mean() if settings.duplicates == "mean" else grouped.first()
    return single.unstack(sensor).rename_axis(columns=None).astype(float)


def _stamps(table: Table, where: str) -> np.ndarray:
    index = table.values.index
    if not isinstance(index, pd.DatetimeIndex):
        raise InputError(
            "the rows have numbers, not times", where=where, remedy="Give the times of the readings"
        )
    ticks = index.as_unit("us").asi8
    if (ticks % 1_000_000).any():
        raise InputError("the times have fractions of seconds", where=where)
    return ticks // 1_000_000


def result_table(taken: Snapshot, grid: TimeGrid) -> Table:
    """The readings of a snapshot as a table."""
    index = pd.DatetimeIndex(grid.stamps().astype("M8[s]"), name="time")
    frame = pd.DataFrame(taken.values.T, index, list(taken.ids))
    return from_frame(frame)


def write_tables(out: OutSettings, taken: Snapshot, grid: TimeGrid, result: Recovered) -> None:
    """The owner's own files, from the readings and what was recovered of those sensors that have
    any."""
    table = result_table(taken, grid)
    known, alive = table.known, taken.alive

    def whole(part: np.ndarray) -> np.ndarray:
        filled = np.full(known.shape, np.nan)
        filled[:, alive] = part.T
        return filled

    estimate, lower, upper = whole(result.estimate), whole(result.lower), whole(result.upper)
    values = np.where(known, table.values.to_numpy(), estimate)
    lower = np.where(known, values, np.minimum(lower, estimate))
    upper = np.where(known, values, np.maximum(upper, estimate))
    write_result(out.file, out.flags, table, values, lower, upper)


def in_this_process(verb: str, path: Path, folder: Path, grid: TimeGrid) -> None:
    """Read or write the tables of the site that the settings at ``path`` describe."""
    config = read_config(path, SiteConfig)
    if verb == "read":
        snapshot(config.readings, grid).save(folder / READINGS)
    else:
        taken, found = Snapshot.load(folder / READINGS), load_arrays(folder / RESULT)
        write_tables(config.out, taken, grid, Recovered(**found))


def main(arguments: list[str]) -> int:
    """``read CONFIG FOLDER GRID`` or ``write CONFIG FOLDER GRID``."""
    try:
        verb, path, folder, grid = arguments
        in_this_process(verb, Path(path), Path(folder), TimeGrid(**json.loads(grid)))
    except FLFLError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
