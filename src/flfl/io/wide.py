"""Wide files: a column of times and one for each sensor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from flfl.config import ReadingRules
from flfl.io import tidy
from flfl.io.assemble import assemble
from flfl.io.axis import read_axis, repeats
from flfl.io.cells import clean, decimal_mark, gather, is_number, limits_of, on_grid, to_numbers
from flfl.io.columns import TEXTUAL, Columns, Written, listing
from flfl.io.quantities import only_quantity
from flfl.io.rows import Original
from flfl.io.table import Table
from flfl.io.times import TIME_NAMES

Array = NDArray[np.float64]

_LONG_HINT = (
    "; if the file is long (time, sensor, value), name its columns with time_column, "
    "sensor_column and value_column"
)


def wide_table(columns: Columns, rules: ReadingRules) -> Table:
    """The table of a wide file."""
    time = None if columns.wide_only else columns.find(TIME_NAMES)
    first, notes = columns.names[0], []
    if rules.time_column is not None:
        time = columns.named(rules.time_column, "time_column")
    elif time is None and first and not columns.time_first:
        if columns.format == "parquet" and is_number(columns.arrays[0]):
            problem = f"no column is known to hold the time; the first, {first!r}, holds numbers"
            raise columns.error(problem, "Name the time column with time_column")
        notes = [f"No column has a usual name for the time; the first, {first!r}, was taken."]
    name = columns.names[time or 0]
    if not columns.wide_only:
        picked = only_quantity(columns, time or 0, rules.parameter)
        if rules.parameter is not None and picked is columns:
            problem = f"a wide table has no parameter to choose; {rules.parameter!r} was asked for"
            raise columns.error(problem, "Leave parameter out")
        columns = picked
    time = columns.names.index(name)
    sensors = [i for i in range(len(columns.names)) if i != time]
    if not sensors:
        remedy = "Give one column a sensor, separated by comma, semicolon, tab or bar"
        raise columns.error("there is a time column but no sensor column", remedy)
    if not all(columns.names[i] for i in sensors):
        raise columns.error("column 1 has no name", "Name it in the header")
    decimal = decimal_mark(columns, sensors, rules.decimal)
    values, below = columns.numbers, dict[int, Array]()
    if values is None:
        values = np.empty((len(sensors), len(columns.arrays[time])))
        for row, i in enumerate(sensors):
            values[row] = to_numbers(columns, i, decimal, rules.words, _LONG_HINT, below)
    notes = [*columns.notes, *clean(columns, sensors, values, rules.sentinels), *notes]
    limits, told = limits_of(below, sensors, values, rules.censored)
    sensors, values, limits, more = _without_sums(columns, sensors, values, limits)
    notes += [*told, *more]
    rows = np.arange(values.shape[1])
    axis = read_axis(columns, time, columns.arrays[time], rows, rules)
    slot, slots = axis.slot, len(axis.times.texts)
    if rules.step is None:
        notes += repeats(columns, axis.given, rows, slot, values, rules)
    in_order = bool((np.diff(slot) >= 0).all())
    if not in_order:
        notes.append("The rows were not in time order; they have been sorted.")
    original = Original.of(columns, sensors, values, slot, np.arange(len(sensors))[:, None])
    counts = None
    if rules.merges:
        counts = np.array([np.bincount(slot[~np.isnan(one)], minlength=slots) for one in values]).T
    moved = not np.array_equal(slot, rows) or slots != len(rows)
    columns = columns.as_text() if moved else columns
    texts = [columns.arrays[i] for i in sensors] if columns.format in TEXTUAL else None
    if moved:
        found = [
            gather(slot, one, slots, rules.several, None if texts is None else texts[i], decimal)
            for i, one in enumerate(values)
        ]
        values = np.array([numbers for numbers, _ in found])
        texts = texts and [text for _, text in found]
        if limits is not None:
            limits = np.array([on_grid(slot, one, slots) for one in limits])
    units = tuple(columns.units[i] for i in sensors) if columns.units is not None else ()
    columns = replace(columns, units=units if any(units) else None)
    ids = [columns.names[i] for i in sensors]
    written = None if texts is None else Written.of(texts)
    if columns.split is not None:
        written = Written(columns.split, sensors, slots)
    table = assemble(columns, time, axis, ids, values, written, decimal, notes, rules)
    table = replace(table, ceiling=None if limits is None else limits.T)
    # Rows that were merged, or others inserted among them, have no order of their own.
    whole = slots == len(rows) and np.array_equal(np.sort(slot), rows)
    order = slot if not in_order and whole else None
    return replace(table, order=order, counts=counts, original=original)


def _without_sums(
    columns: Columns, sensors: list[int], values: Array, limits: Array | None
) -> tuple[list[int], Array, Array | None, list[str]]:
    """Sensors alone, without a column that is the sum or the mean of them."""
    if columns.wide_only or columns.format not in TEXTUAL:
        return sensors, values, limits, []
    gone = tidy.summary_columns([columns.names[i] for i in sensors], values)
    if not gone:
        return sensors, values, limits, []
    names = listing(columns.names[sensors[i]] for i in gone)
    kept = [i for i in range(len(sensors)) if i not in gone]
    left = None if limits is None else limits[kept]
    told = f"Left out, for it is a sum or a mean of the sensors: {names}."
    return [sensors[i] for i in kept], values[kept], left, [told]
