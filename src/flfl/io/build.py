"""From checked readings to a table: the time grid, absent rows, and what was understood."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.grid import Grid, complete_times, infer_grid
from flfl.io.rawfile import RawFile
from flfl.io.table import CoordinateKind, Layout, Source, Table, listing
from flfl.io.texts import Texts
from flfl.io.times import Times, texts_like


@dataclass(eq=False)
class Draft:
    """Readings on their way to a table; ``matrix`` is sensors x slots."""

    raw: RawFile
    times: Times
    time_texts: list[str]
    ids: list[str]
    matrix: NDArray[np.float64]
    notes: list[str]
    texts: Texts | None = None
    order: NDArray[np.intp] | None = None
    layout: Layout = "wide"
    time_column: str = ""
    sensor_column: str | None = None
    value_column: str | None = None
    decimal: str = "."
    by_sensor: bool = False
    columns: tuple[str, ...] = ()
    by_sensor_cells: dict[str, pa.Array] = field(default_factory=dict)
    by_slot_cells: dict[str, pa.Array] = field(default_factory=dict)
    units: tuple[str, ...] | None = None
    coordinates: NDArray[np.float64] | None = None
    coordinate_kind: CoordinateKind | None = None

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Take one time for each slot, in time order."""
        self.times = self.times.take(rows)
        self.time_texts = [self.time_texts[row] for row in rows.tolist()]

    def note_duplicates(self, count: int, what: str, duplicates: str) -> None:
        done = "averaged" if duplicates == "mean" else "dropped in favour of the first known one"
        self.notes.append(f"{count} repeated {what}{'s' * (count != 1)} {done}.")


def build_table(draft: Draft, complete_grid: bool, keep_source: bool = True) -> Table:
    """Check the whole, place it on its grid and describe it."""
    _check_enough(draft)
    grid = infer_grid(draft.times)
    notes = [_summary(draft, grid), *draft.notes]
    notes += _grid_notes(draft, grid, complete_grid)
    if complete_grid:
        grid = _insert_absent(draft, grid)
    notes += _sensor_notes(draft)
    index = draft.times.index.rename(draft.time_column or None)
    return Table(
        values=pd.DataFrame(draft.matrix.T, index=index, columns=draft.ids, copy=False),
        positions=np.asarray(grid.positions, dtype=np.float64),
        step=grid.step,
        source=_source(draft) if keep_source else None,
        notes=tuple(notes),
        order=draft.order,
        units=draft.units,
        coordinates=draft.coordinates,
        coordinate_kind=draft.coordinate_kind,
    )


def _check_enough(draft: Draft) -> None:
    if len(draft.times.index) < 2:
        raise InputError(
            f"there is only one time, {draft.time_texts[0]!r}",
            where=draft.raw.where(),
            remedy="Give at least two rows; gaps are filled from readings at other times",
        )
    if np.isnan(draft.matrix).all():
        raise InputError(
            "every cell is missing, there is no reading at all",
            where=draft.raw.where(),
            remedy="Check the sentinels and the layout, or give another file",
        )


def _insert_absent(draft: Draft, grid: Grid) -> Grid:
    where = draft.raw.where()
    if grid.absent > 100 * len(grid.positions) + 10**6:
        raise InputError(
            f"completing the grid would insert {grid.absent} rows",
            where=where,
            remedy="Leave complete_grid off, or look for a wrong time far from the others",
        )
    index = complete_times(draft.times, grid, where)
    if grid.absent == 0:
        return grid
    place = np.round(grid.positions).astype(np.intp)
    slot = np.full(len(index), -1, dtype=np.intp)
    slot[place] = np.arange(len(place))
    matrix = np.full((len(draft.ids), len(index)), np.nan)
    matrix[:, place] = draft.matrix
    texts = np.array(texts_like(draft.times, draft.time_texts, index), dtype=object)
    texts[place] = draft.time_texts
    draft.time_texts, draft.matrix, draft.order = texts.tolist(), matrix, None
    draft.times = replace(draft.times, index=index, wall=index)
    if draft.texts is not None:
        draft.texts = draft.texts.take(slot)
    there = pa.array(slot, mask=slot < 0)
    draft.by_slot_cells = {n: cells.take(there) for n, cells in draft.by_slot_cells.items()}
    positions = np.arange(len(index), dtype=np.float64)
    return Grid(positions, grid.step, grid.name, True, grid.months)


def _source(draft: Draft) -> Source:
    raw = draft.raw
    if draft.texts is not None:
        draft.texts.slim()
    return Source(
        path=raw.path,
        format=raw.format,
        layout=draft.layout,
        time_column=draft.time_column,
        sensor_column=draft.sensor_column,
        value_column=draft.value_column,
        time_texts=tuple(draft.time_texts),
        delimiter=raw.delimiter,
        decimal=draft.decimal,
        line_end=raw.line_end,
        mark=raw.mark,
        texts=draft.texts,
        by_sensor=draft.by_sensor,
        columns=draft.columns,
        carried_by_sensor=draft.by_sensor_cells,
        carried_by_slot=draft.by_slot_cells,
        zone=draft.times.zone,
        schema=raw.schema,
        netcdf=raw.netcdf,
    )


def _summary(draft: Draft, grid: Grid) -> str:
    sensors, slots = draft.matrix.shape
    missing = 100 * float(np.isnan(draft.matrix).mean())
    pace = f"{grid.name} " if grid.regular else ""
    noun = "sensor" if sensors == 1 else "sensors"
    return (
        f"A {draft.layout} table of {sensors} {noun} and {slots} {pace}slots from "
        f"{draft.time_texts[0]} to {draft.time_texts[-1]}; {missing:.1f} % of the cells are "
        "missing."
    )


def _grid_notes(draft: Draft, grid: Grid, complete_grid: bool) -> list[str]:
    notes = []
    index = draft.times.index
    if isinstance(index, pd.DatetimeIndex) and index.tz is not None:
        notes.append(_zone_note(draft))
    if not grid.regular:
        notes.append(f"The times are irregular; the usual step is {grid.step}.")
    if grid.absent:
        total = grid.absent + len(grid.positions)
        one = grid.absent == 1
        absent = f"{grid.absent} of {total} {grid.name} rows {'is' if one else 'are'} absent"
        done = "it has" if one else "they have"
        stays = "it stays" if one else "they stay"
        fate = f"{done} been inserted" if complete_grid else f"{stays} absent"
        notes.append(f"{absent}; {fate}.")
    return notes


def _zone_note(draft: Draft) -> str:
    zone = draft.times.zone or "UTC"
    if draft.raw.format == "netcdf":
        return "The times are in UTC."
    told = f"The times carry offsets ({zone})" if zone[0] in "+-U" else f"The times are in {zone}"
    return f"{told}; they are held in UTC and written as they were."


def _sensor_notes(draft: Draft) -> list[str]:
    empty, constant = [], []
    for name, row in zip(draft.ids, draft.matrix, strict=True):
        known = row[~np.isnan(row)]
        if len(known) == 0:
            empty.append(name)
        elif len(known) > 1 and known.min() == known.max():
            constant.append(f"{name} ({known[0]:g})")
    notes = []
    if empty:
        notes.append(f"{_sensors(len(empty))} no readings: {listing(empty)}.")
    if constant:
        notes.append(f"{_sensors(len(constant))} one constant value: {listing(constant)}.")
    return notes


def _sensors(count: int) -> str:
    return "1 sensor has" if count == 1 else f"{count} sensors have"
