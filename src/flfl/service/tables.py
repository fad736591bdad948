"""Reads an owner's source (a file, a folder or a database) and writes its result."""

from __future__ import annotations

import logging
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.config import OutSettings, ReadingRules, ReadingSettings
from flfl.ensemble.recovery import METHODS, Recovered
from flfl.errors import InputError
from flfl.io.files import Writer, check_writable
from flfl.io.grid import unseen
from flfl.io.read import frame_columns, from_frame, read_readings, to_table
from flfl.io.sensors import read_sensors
from flfl.io.suspicions import find_codes, is_known_code
from flfl.io.table import NOBODY, Table
from flfl.io.write import Provenance, write_result
from flfl.service.diary import Diary, stamp
from flfl.service.grid import TimeGrid
from flfl.service.home import Snapshot
from flfl.service.night import Night, gained, page_and_scores

_LOG = logging.getLogger("flfl.site")
Array = NDArray[np.float64]
_NO_READING = "no reading"
WORDS = ("", *METHODS, NOBODY, _NO_READING)
"""What a cell comes from, or why it is empty, by number, for the page's process."""
_LEAST_ROOM = 2**22
"""Bytes that an output's disk must have left."""


def read_source(settings: ReadingSettings, grid: TimeGrid) -> Snapshot:
    """The owner's readings on the network's times."""
    where, table = source_table(settings)
    codes = [one.readings for one in find_codes(table) if is_known_code(one, table)]
    if codes:
        _LOG.warning(
            "%d readings are numbers that archives write for missing ones, and are used as they"
            " are; `missing` in [readings] makes them missing, `flfl inspect` shows them",
            sum(codes),
        )
    ids, values = list(table.sensor_ids), aligned(table, grid, where)
    if settings.sensors is None:
        return Snapshot(ids, values, None, "")
    sensors = read_sensors(settings.sensors, ids)
    return Snapshot(ids, values, sensors.coordinates, sensors.kind or "")


def source_table(settings: ReadingSettings) -> tuple[str, Table]:
    """The owner's readings as they are, and where they are."""
    if settings.query is not None:
        return "the query", _query(settings)
    where = str(settings.file or settings.folder)
    return where, read_readings(where, **settings.rules)


def aligned(table: Table, grid: TimeGrid, where: str) -> Array:
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
    return to_table(columns, ReadingRules.check(settings.rules))


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
    night: Night | None = None,
    diary: Diary | None = None,
) -> None:
    """The owner's own files, from its readings and what was recovered of sensors that have any.

    ``others``: in which slots the network has readings, as far as that is public. With a ``night``
    and the ``diary`` its page and scores too, where they are wanted, and a line in the diary.
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
    reasons[:, ~taken.alive] = _NO_READING
    values = np.where(known, table.values.to_numpy(), np.where(reasons == "", estimate, np.nan))
    filled = ~known & ~np.isnan(values)
    lower = np.where(filled, np.minimum(lower, estimate), values)
    upper = np.where(filled, np.maximum(upper, estimate), values)
    came = np.array(METHODS, dtype=object)[np.nan_to_num(whole(result.method)).astype(int)]
    reasons = np.where(known, "", reasons)
    about = Provenance(reasons, "flfl", run, methods=came, observed=away == 0)
    more: dict[str | Path, Writer] = {}
    if night is not None and diary is not None:
        tests = [whole(part) for part in (result.holdout, result.inside, result.site_holdout)]
        counted = {"sensors": len(taken.ids), "slots": len(known), "gaps": int((~known).sum()),
                   "filled": int(filled.sum())}  # fmt: skip
        figures: dict[str, Any] = counted | gained(table.values.to_numpy(), tests[0], tests[2])
        if out.page is not None or out.scores is not None:
            parts = {"filled": values, "lower": lower, "upper": upper, "observed": away == 0,
                     "holdout": tests[0], "inside": tests[1], "site_holdout": tests[2],
                     "reasons": _numbered(reasons), "stamps": grid.stamps(), "run": run,
                     "page": out.page is not None,
                     "methods": _numbered(np.where(filled, came, ""))}  # fmt: skip
            more = _shown(out, taken, night, diary, parts, figures)
    write_result(out.file, out.flags, table, values, lower, upper, about, more=more)
    if night is not None and diary is not None:
        diary.record(run, **figures)


def _shown(
    out: OutSettings,
    taken: Snapshot,
    night: Night,
    diary: Diary,
    parts: dict[str, Any],
    figures: dict[str, Any],
) -> dict[str | Path, Writer]:
    """Writers of the owner's page and scores, as far as they are wanted and can be made."""
    added = np.full(len(taken.ids), np.nan)
    if night.added_error is not None:
        added[taken.alive] = night.added_error
    runs = [one.model_dump() for one in diary.runs if one.run != parts["run"]]
    now = {"run": parts["run"], "ended": stamp(), "failed": "", **figures}
    about = vars(night) | vars(taken) | {"nights": [*runs, now], "added_error": added}
    if (made := page_and_scores(about | parts)) is None:
        return {}
    wanted = zip((out.page, out.scores), made, strict=True)
    return {path: partial(_put, data) for path, data in wanted if path is not None}


def _numbered(cells: NDArray[np.object_]) -> NDArray[np.uint8]:
    return np.select([cells == word for word in WORDS], np.arange(len(WORDS), dtype=np.uint8))


def _put(data: bytes, file: BinaryIO) -> None:
    file.write(data)
