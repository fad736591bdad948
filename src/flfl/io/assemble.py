"""What both layouts end with: the table, checked as a whole and described in notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.config import ReadingRules
from flfl.io.axis import Axis
from flfl.io.columns import Columns, Written, listing
from flfl.io.table import LongColumn, Source, Table

Array = NDArray[np.float64]


def assemble(
    columns: Columns,
    time: int,
    axis: Axis,
    ids: list[str],
    values: Array,
    texts: Written | None,
    decimal: str,
    notes: Sequence[str],
    rules: ReadingRules,
    long: tuple[LongColumn, ...] = (),
    by_sensor: bool = False,
) -> Table:
    """Check the whole and describe it; ``values`` is sensors x slots."""
    known = (~np.isnan(values)).sum(axis=1)
    if not known.any():
        remedy = "Check the sentinels and the layout, or give another file"
        raise columns.error("every cell is missing, there is no reading at all", remedy)
    grid, times, absent = axis.grid, axis.times.texts, axis.absent
    count = "1 sensor" if len(ids) == 1 else f"{len(ids)} sensors"
    pace = f"{grid.name} slots" if grid.regular else "slots"
    what = f"A {'long' if long else 'wide'} table of {count} and {len(times)} {pace}"
    missing = f"{100 * (values.size - known.sum()) / values.size:.1f} % of the cells are missing"
    told = [f"{what} from {times[0]} to {times[-1]}; {missing}.", *notes]
    told += [*(axis.notes or axis.times.notes)]
    zone = axis.times.zone
    if zone is not None:
        carry = f"carry offsets ({zone})" if zone[0] in "+-U" else f"are in {zone}"
        held = f"The times {carry}; they are held in UTC and written as they were."
        told.append("The times are in UTC." if columns.format == "netcdf" else held)
    if not grid.regular:
        told.append(
            f"The times are irregular; the usual step is {grid.step}. step=1h, or another, "
            "puts them on a grid."
        )
    if absent:
        total = len(times) if rules.complete_grid else absent + len(times)
        words = "is it stays has" if absent == 1 else "are they stay have"
        be, they, stay, have = words.split()
        fate = f"{have} been inserted" if rules.complete_grid else f"{stay} absent"
        told.append(f"{absent} of {total} {grid.name} rows {be} absent; {they} {fate}.")
    low, high = np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1)
    constant = np.flatnonzero((low == high) & (known > 1))
    for found, what in (
        ([ids[i] for i in np.flatnonzero(np.isnan(low))], "no readings"),
        ([f"{ids[i]} ({low[i]:g})" for i in constant], "one constant value"),
    ):
        if found:
            have = "1 sensor has" if len(found) == 1 else f"{len(found)} sensors have"
            told.append(f"{have} {what}: {listing(found)}.")
    dialect = replace(columns.dialect, decimal=decimal)
    if columns.format == "sheet" and decimal == ",":
        # As text a comma would not tell cells from decimals.
        dialect = replace(dialect, delimiter=";")
    source = Source(
        path=columns.path,
        format=columns.format,
        layout="long" if long else "wide",
        time_column=columns.names[time],
        time_texts=tuple(times),
        zone=zone,
        dialect=dialect,
        texts=texts,
        columns=long,
        by_sensor=by_sensor,
        form=columns.form,
    )
    index = axis.times.index.rename(source.time_column or None)
    return Table(
        values=pd.DataFrame(values.T, index=index, columns=ids, copy=False),
        grid=grid,
        source=source,
        notes=tuple(told),
        units=columns.units,
        coordinates=columns.coordinates,
        coordinate_kind=columns.kind,
    )
