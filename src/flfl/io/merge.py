"""Several tables as one: a file for each station, or for each month."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.columns import PLAIN, Written, listing
from flfl.io.grid import infer_grid
from flfl.io.table import Source, Table
from flfl.io.times import time_texts


def merge_tables(path: Path, tables: Sequence[Table], duplicates: str) -> Table:
    """One wide table of all sensors at all times; where two have a reading, ``duplicates`` says."""
    if len(tables) == 1:
        return tables[0]
    kinds = {_kind(table.values.index) for table in tables}
    if len(kinds) > 1:
        problem = f"the files have times of different kinds: {listing(sorted(kinds))}"
        raise InputError(problem, where=str(path), remedy="Name the zone with time_zone")
    index = tables[0].values.index
    for table in tables[1:]:
        index = index.union(table.values.index)
    if isinstance(index, pd.DatetimeIndex):
        index = index.as_unit("us")
    ids = list(dict.fromkeys(name for table in tables for name in table.sensor_ids))
    values, count = np.full((len(index), len(ids)), np.nan), 0
    texts, ceiling = _Texts(len(index), len(ids)), np.full(values.shape, np.nan)
    counts = np.zeros(values.shape, dtype=np.intp)
    for table in tables:
        rows = index.get_indexer(table.values.index)
        for i, name in enumerate(table.sensor_ids):
            column, new = ids.index(name), table.values.iloc[:, i].to_numpy()
            old = values[rows, column]
            clash = ~np.isnan(old) & ~np.isnan(new) & (old != new)
            count += int((~np.isnan(old) & ~np.isnan(new)).sum())
            if clash.any() and duplicates == "refuse":
                problem = f"{int(clash.sum())} readings of {name!r} differ from an earlier file's"
                where = str(path if table.source is None else table.source.path)
                remedy = "Remove one of them, or choose duplicates=mean or duplicates=first"
                raise InputError(problem, where=where, remedy=remedy)
            fresh = np.isnan(old) & ~np.isnan(new)
            values[rows, column] = np.where(clash & (duplicates == "mean"), (old + new) / 2, old)
            values[rows[fresh], column] = new[fresh]
            texts.put(column, rows[fresh], table, i, fresh)
            if table.ceiling is not None:
                ceiling[rows, column] = np.fmin(ceiling[rows, column], table.ceiling[:, i])
            if table.counts is not None:
                counts[rows, column] += table.counts[:, i]
    merged = _described(path, tables, index, ids, values, texts, ceiling, count)
    return replace(merged, counts=counts if counts.any() else None)


def _described(
    path: Path,
    tables: Sequence[Table],
    index: pd.Index,
    ids: list[str],
    values: NDArray[np.float64],
    texts: _Texts,
    ceiling: NDArray[np.float64],
    twice: int,
) -> Table:
    first = tables[0]
    units = dict[str, str]()
    places = dict[str, NDArray[np.float64]]()
    for table in tables:
        units |= dict(zip(table.sensor_ids, table.units or (), strict=False))
        if table.coordinates is not None:
            places |= dict(zip(table.sensor_ids, table.coordinates, strict=True))
    grid = infer_grid(index)
    missing = 100 * float(np.isnan(values).mean())
    plural = "sensor" if len(ids) == 1 else "sensors"
    pace = f"{grid.name} slots" if grid.regular else "slots"
    told = [
        f"{len(tables)} files make a table of {len(ids)} {plural} and {len(index)} {pace} from "
        f"{index[0]} to {index[-1]}; {missing:.1f} % of the cells are missing."
    ]
    told += [f"{twice} readings stand in more than one file."] if twice else []
    # What was said of every file is said once.
    own = [note for table in tables for note in table.notes[1:]]
    told += list(dict.fromkeys(note for note in own if own.count(note) == len(tables)))
    zone = None if first.source is None else first.source.zone
    source = Source(
        path, "csv", "wide", "time", tuple(time_texts(index)), zone, PLAIN, texts.written()
    )
    whole = len(places) == len(ids) and len({table.coordinate_kind for table in tables}) == 1
    return Table(
        values=pd.DataFrame(values, index.rename("time"), ids),
        grid=grid,
        source=source,
        notes=tuple(told),
        units=tuple(units.get(name, "") for name in ids) if any(units.values()) else None,
        ceiling=ceiling if (~np.isnan(ceiling)).any() else None,
        coordinates=np.array([places[name] for name in ids]) if whole else None,
        coordinate_kind=first.coordinate_kind if whole else None,
    )


class _Texts:
    """The texts of observed cells, from whichever file each comes."""

    def __init__(self, slots: int, sensors: int) -> None:
        self.cells = [np.full(slots, None, dtype=object) for _ in range(sensors)]

    def put(
        self, column: int, rows: NDArray[np.intp], table: Table, i: int, at: NDArray[np.bool_]
    ) -> None:
        """Texts of some cells of a table; numbers that have none are written anew."""
        source = table.source
        if source is not None and source.texts is not None:
            given = pc.fill_null(source.texts.columns()[i].filter(pa.array(at)), "")
            plain = (
                given if source.dialect.decimal == "." else pc.replace_substring(given, ",", ".")
            )
            self.cells[column][rows] = plain.to_numpy(zero_copy_only=False)
        else:
            numbers = table.values.iloc[:, i].to_numpy()[at].tolist()
            self.cells[column][rows] = list(map(repr, numbers))

    def written(self) -> Written:
        """One array for each sensor."""
        return Written.of([pa.array(cells, pa.string()) for cells in self.cells])


def _kind(index: pd.Index) -> str:
    if not isinstance(index, pd.DatetimeIndex):
        return "numbers"
    return "local times" if index.tz is None else "times in UTC"


def named_after_file(table: Table, path: Path, generic: bool) -> Table:
    """A table of one sensor under the name of its file, where its own says nothing."""
    if not generic or len(table.sensor_ids) != 1:
        return table
    stem = path.name.split(".")[0]
    return replace(table, values=table.values.set_axis([stem], axis=1))
