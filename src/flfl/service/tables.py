"""Reads an owner's source (a file, a folder or a database) and writes its result."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.config import OutSettings, ReadingSettings
from flfl.ensemble.recovery import METHODS, Recovered
from flfl.errors import InputError
from flfl.io.files import PARQUET_SUFFIXES, SHEET_SUFFIXES, TEXT_SUFFIXES, check_writable, suffix_of
from flfl.io.grid import unseen
from flfl.io.layouts import SENTINELS, Rules
from flfl.io.read import frame_columns, from_frame, read_readings, to_table
from flfl.io.sensors import read_sensors
from flfl.io.table import NOBODY, Table
from flfl.io.write import Provenance, write_result
from flfl.service.grid import TimeGrid
from flfl.service.home import Snapshot

Array = NDArray[np.float64]
_LEAST_ROOM = 2**22
"""Bytes that an output's disk must have left."""


def read_source(settings: ReadingSettings, grid: TimeGrid) -> Snapshot:
    """The owner's readings on the network's times."""
    if settings.query is not None:
        tables = [("the query", _query(settings))]
    else:
        paths = [settings.file] if settings.file is not None else _files(settings.folder)
        tables = [(str(path), read_readings(path, **_rules(settings))) for path in paths]
    ids = list(dict.fromkeys(name for _, table in tables for name in table.sensor_ids))
    values = np.full((len(ids), grid.slots), np.nan)
    for where, table in tables:
        rows = [ids.index(name) for name in table.sensor_ids]
        new = _aligned(table, grid, where)
        values[rows] = _joined(values[rows], new, settings.duplicates, where)
    if settings.sensors is None:
        return Snapshot(ids, values, None, "")
    sensors = read_sensors(settings.sensors, ids)
    return Snapshot(ids, values, sensors.coordinates, sensors.kind or "")


def _rules(settings: ReadingSettings) -> dict[str, Any]:
    names = {"layout", "time_column", "sensor_column", "value_column", "duplicates"}
    missing = SENTINELS if settings.missing is None else settings.missing
    return settings.model_dump(include=names) | {"sentinels": missing}


def _files(folder: Path | None) -> list[Path]:
    suffixes = (*TEXT_SUFFIXES, *SHEET_SUFFIXES, *PARQUET_SUFFIXES)
    found = sorted(
        path
        for path in (folder.iterdir() if folder is not None and folder.is_dir() else ())
        if path.is_file() and suffix_of(path) in suffixes and not path.name.startswith(".")
    )
    if not found:
        raise InputError(
            "there is no file of readings in the folder",
            where=str(folder),
            remedy=f"Put files there that end in {', '.join(suffixes)}",
        )
    return found


def _aligned(table: Table, grid: TimeGrid, where: str) -> Array:
    """A table's readings at their slots (m, N)."""
    index = table.values.index
    if not isinstance(index, pd.DatetimeIndex):
        raise InputError(
            "the rows have numbers, not times", where=where, remedy="Give the times of the readings"
        )
    ticks = index.as_unit("us").asi8
    if (ticks % 1_000_000).any():
        raise InputError("the times have fractions of seconds", where=where)
    slots = grid.slots_of(ticks // 1_000_000, where)
    inside = slots >= 0
    if not inside.any():
        raise InputError(
            f"no reading lies within the network's times, {grid.slots} slots of {grid.step} from"
            f" {grid.start}",
            where=where,
            remedy="Check the times (UTC), or agree on another grid",
        )
    values = np.full((len(table.sensor_ids), grid.slots), np.nan)
    values[:, slots[inside]] = table.values.to_numpy()[inside].T
    return values


def _joined(old: Array, new: Array, duplicates: str, where: str) -> Array:
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
    columns = frame_columns("the query", [(str(name), frame[name]) for name in frame])
    return to_table(columns, Rules.check(_rules(settings)))


def check_output(out: OutSettings) -> None:
    """Refuse an output that cannot be written: no folder, no right, no room."""
    paths = [path for path in (out.file, out.flags) if path is not None]
    check_writable(*paths)
    for path in paths:
        size = 2 * path.stat().st_size if path.exists() else 0
        free = shutil.disk_usage(path.resolve().parent).free
        if free < max(size, _LEAST_ROOM):
            raise InputError(
                f"there are {free / 1e6:.0f} MB left", where=str(path), remedy="Make room"
            )


def write_tables(
    out: OutSettings,
    taken: Snapshot,
    grid: TimeGrid,
    result: Recovered,
    others: NDArray[np.bool_],
    run: str,
) -> None:
    """The owner's own files, from its readings and what was recovered of sensors that have any.

    ``others``: in which slots the network has readings, as far as that is public.
    """
    index = pd.DatetimeIndex(grid.stamps().astype("M8[s]"), name="time")
    table = from_frame(pd.DataFrame(taken.values.T, index, taken.ids))
    known = table.known

    def whole(part: Array) -> Array:
        filled = np.full(known.shape, np.nan)
        filled[:, taken.alive] = part.T
        return filled

    estimate, lower, upper = whole(result.estimate), whole(result.lower), whole(result.upper)
    seen = np.pad(others, (0, len(known) - len(others)))
    away = unseen(np.column_stack([known, seen]), table.positions)
    reasons = np.full(known.shape, "", dtype=object)
    reasons[away > out.extrapolate] = NOBODY
    reasons[:, ~taken.alive] = "no reading"
    values = np.where(known, table.values.to_numpy(), np.where(reasons == "", estimate, np.nan))
    filled = ~known & ~np.isnan(values)
    lower = np.where(filled, np.minimum(lower, estimate), values)
    upper = np.where(filled, np.maximum(upper, estimate), values)
    came = np.array(METHODS, dtype=object)[np.nan_to_num(whole(result.method)).astype(int)]
    reasons = np.where(known, "", reasons)
    about = Provenance(reasons, "flfl", run, methods=came, observed=away == 0)
    write_result(out.file, out.flags, table, values, lower, upper, about)
