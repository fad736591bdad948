"""The table of readings: what the rest of the package sees of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.io.columns import PLAIN, CoordinateKind, Dialect, FileFormat, Written
from flfl.io.grid import Grid
from flfl.io.rows import Original

Layout = Literal["wide", "long"]
By = Literal["slot", "sensor", "cell"]
FLAGS = ("observed", "recovered", "refused", "extrapolated")
"""What a cell of a filled table is; an extrapolated one lies in a slot that nobody observed."""
FILLED = ("recovered", "extrapolated")
"""Those that hold a value which nobody measured."""

NOBODY = "nobody observed this slot"
"""Why a cell is refused in a slot without a single reading in the whole network."""


@dataclass(frozen=True, eq=False)
class LongColumn:
    """A column of a long file: ``cells`` for each slot, each sensor, or time x sensor.

    None stands for the table's own times, sensor ids and readings.
    """

    name: str
    by: By
    cells: Any = None


@dataclass(frozen=True, eq=False)
class Source:
    """Where a table came from, with the file's own strings and all that it takes to write it again.

    ``time_column`` and ``time_texts`` are the name of the times, and the time of every slot as the
    file writes it; ``zone`` is that of the times: ``UTC``, ``Europe/Berlin``, ``+02:00``,
    ``+01:00/+02:00`` when it changes, None when the file gives none. ``texts`` are each sensor's
    cells as written, one per slot, without meaning where no reading is known. ``columns`` are those
    of a long file that can be written again, ``by_sensor`` whether sensor follows sensor. ``form``
    is what the format needs to write such a file again: a Parquet schema, a NetCDF skeleton.
    """

    path: Path
    format: FileFormat
    layout: Layout
    time_column: str
    time_texts: tuple[str, ...]
    zone: str | None = None
    dialect: Dialect = PLAIN
    texts: Written | None = None
    by_sensor: bool = False
    columns: tuple[LongColumn, ...] = ()
    form: Any = None


@dataclass(frozen=True, eq=False)
class Table:
    """Readings on a time axis.

    ``values`` is time x sensor, NaN = missing, sensors in file order, the index sorted: times (UTC
    where the file gives offsets) or numbers. ``source`` is None when it did not come from a file;
    ``notes`` say what was understood, in plain sentences. ``order`` has the slots in the order of
    the rows that were given, where that differs from time order. ``ceiling`` (time x sensor, NaN:
    none) is the limit of detection of missing readings that lay below one. Where rows were put
    together, ``counts`` (time x sensor) says how many readings each cell comes from, and
    ``original`` has the rows as they came. ``units``,
    ``coordinates`` and ``coordinate_kind`` are those of every sensor, as far as the file of
    readings itself tells them.
    """

    values: pd.DataFrame
    grid: Grid
    source: Source | None = None
    notes: tuple[str, ...] = ()
    order: NDArray[np.intp] | None = None
    units: tuple[str, ...] | None = None
    ceiling: NDArray[np.float64] | None = None
    coordinates: NDArray[np.float64] | None = None
    coordinate_kind: CoordinateKind | None = None
    counts: NDArray[np.intp] | None = None
    original: Original | None = None

    @property
    def positions(self) -> NDArray[np.float64]:
        """Elapsed time of every slot in steps of the grid."""
        return self.grid.positions

    @property
    def step(self) -> pd.Timedelta | float:
        """One step of the grid."""
        return self.grid.step

    @property
    def unit(self) -> str | None:
        """The unit that all sensors share; None when there is none, or more than one."""
        named = set(self.units or ("",))
        return named.pop() or None if len(named) == 1 else None

    @property
    def sensor_ids(self) -> tuple[str, ...]:
        """Sensor ids in file order."""
        return tuple(self.values.columns)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which cells hold a reading, time x sensor."""
        return np.asarray(~np.isnan(self.values.to_numpy()), dtype=np.bool_)
