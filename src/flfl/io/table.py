"""The table of readings: what the rest of the package sees of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    from flfl.io.texts import Texts

FileFormat = Literal["csv", "parquet", "netcdf"]
Layout = Literal["wide", "long"]
CoordinateKind = Literal["latlon", "metric"]


@dataclass(frozen=True, eq=False)
class NetcdfForm:
    """The NetCDF file around the readings, so that it can be written again.

    Attributes
    ----------
    skeleton : xarray.Dataset
        Everything but the readings, as stored: no time decoded, nothing scaled, every attribute
        and encoding kept. The times in it have the order and the number of the file's.
    variable : str
        Name of the variable that holds the readings.
    dims, shape : tuple
        Its dimensions and their lengths, in the order of the file. The sensors are all dimensions
        but the time, the last one running fastest (and in wide order: slots x sensors).
    time_dim : str
        The dimension that is the time.
    time_name : str
        The variable that holds the times, in ``skeleton``.
    dtype : numpy.dtype
        How a reading is stored.
    attributes, encoding : mapping
        Of the variable as stored: ``units``, ``_FillValue``, ``scale_factor``, chunk sizes, ….
    """

    skeleton: Any
    variable: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    time_dim: str
    time_name: str
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any]
    encoding: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Source:
    """Where a table came from, with enough kept to write it back in its own words.

    Attributes
    ----------
    path : Path
        The file that was read.
    format : {"csv", "parquet", "netcdf"}
    layout : {"wide", "long"}
    time_column, sensor_column, value_column : str or None
        Column names; the last two are None in the wide layout.
    time_texts : tuple of str
        The time of every slot as the file writes it.
    delimiter, decimal, line_end, mark : str
        How the CSV file was written.
    texts : Texts or None
        The text of every observed cell. None for Parquet and NetCDF, which have no text to keep.
    by_sensor : bool
        A long file that lists one sensor after another, not one time after another.
    columns : tuple of str
        The columns of a long file in its order, as far as they can be written again: time, sensor,
        value and the carried ones.
    carried_by_sensor : mapping of str to pyarrow.Array
        Other columns of a long file whose cell depends on the sensor alone (unit, latitude, …):
        one cell a sensor, in the order of the table.
    carried_by_slot : mapping of str to pyarrow.Array
        Other columns whose cell depends on the time alone (local time): one cell a slot.
    zone : str or None
        The zone or offset in which the file gives its times: ``UTC``, ``Europe/Berlin``,
        ``+02:00``, or ``+01:00/+02:00`` when it changes. None when it gives none.
    schema : pyarrow.Schema or None
        Of a Parquet file: the stored types, zone and metadata, columns in the order of the file.
    netcdf : NetcdfForm or None
        Of a NetCDF file: everything around the readings.
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
    mark: str = ""
    texts: Texts | None = None
    by_sensor: bool = False
    columns: tuple[str, ...] = ()
    carried_by_sensor: Mapping[str, pa.Array] = field(default_factory=dict)
    carried_by_slot: Mapping[str, pa.Array] = field(default_factory=dict)
    zone: str | None = None
    schema: pa.Schema | None = None
    netcdf: NetcdfForm | None = None


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
    units : tuple of str or None
        The unit of every sensor as the file names it, empty where it names none. None when the
        file says nothing of units.
    coordinates : float array, sensors x 2, or None
        Where the sensors stand, when the file of readings itself says so.
    coordinate_kind : {"latlon", "metric"} or None
        Latitude and longitude in degrees, or x and y in metres.
    """

    values: pd.DataFrame
    positions: NDArray[np.float64]
    step: pd.Timedelta | float
    source: Source | None = None
    notes: tuple[str, ...] = ()
    order: NDArray[np.intp] | None = None
    units: tuple[str, ...] | None = None
    coordinates: NDArray[np.float64] | None = None
    coordinate_kind: CoordinateKind | None = None

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
