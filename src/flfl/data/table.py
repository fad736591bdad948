"""The table of readings: what the rest of the package sees of a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

FileFormat = Literal["csv", "parquet"]
Layout = Literal["wide", "long"]


@dataclass(frozen=True, eq=False)
class Source:
    """Where a table came from, with enough kept to write it back in its own words.

    Attributes
    ----------
    path : Path
        The file that was read.
    format : {"csv", "parquet"}
    layout : {"wide", "long"}
    time_column, sensor_column, value_column : str or None
        Column names; the last two are None in the wide layout.
    time_texts : tuple of str
        The time of every slot as the file writes it.
    delimiter, decimal, line_end : str
        How the CSV file was written.
    texts : pyarrow.Table or None
        Slots x sensors, the text of every observed cell, null where missing. None for Parquet,
        which has no text to keep.
    by_sensor : bool
        A long file that lists one sensor after another, not one time after another.
    """

    path: Path
    format: FileFormat
    layout: Layout
    time_column: str
    sensor_column: str | None
    value_column: str | None
    time_texts: tuple[str, ...]
    delimiter: str = ","
    decimal: str = "."
    line_end: str = "\n"
    texts: pa.Table | None = None
    by_sensor: bool = False


@dataclass(frozen=True, eq=False)
class Table:
    """Readings on a time axis.

    Attributes
    ----------
    values : DataFrame
        Time x sensor, float64, NaN = missing, columns are sensor ids in file order, the index is
        sorted: times (UTC where the file gives offsets) or numbers.
    positions : float array
        Elapsed time of every slot in steps of the grid, the first is 0. An absent row leaves a
        jump.
    step : Timedelta or float
        One step of the grid. A month counts as one step (its mean length is given here).
    source : Source or None
        None when the table did not come from a file.
    order : integer array or None
        Slots in the order of the rows that were given, where that differs from time order.
    notes : tuple of str
        What was understood, in plain sentences.
    """

    values: pd.DataFrame
    positions: NDArray[np.float64]
    step: pd.Timedelta | float
    source: Source | None = None
    notes: tuple[str, ...] = ()
    order: NDArray[np.intp] | None = None

    @property
    def sensor_ids(self) -> tuple[str, ...]:
        """Sensor ids in file order."""
        return tuple(self.values.columns)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which cells hold a reading, time x sensor."""
        return np.asarray(~np.isnan(self.values.to_numpy()), dtype=np.bool_)


def listing(names: Iterable[object], limit: int = 5) -> str:
    """Join names for a sentence, and count what does not fit.

    Examples
    --------
    >>> listing(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    words = [str(name) for name in names]
    shown = ", ".join(words[:limit])
    return shown if len(words) <= limit else f"{shown} and {len(words) - limit} more"
