"""NetCDF out: readings with their flags and intervals beside them, after the CF conventions.

A table that was read from NetCDF goes back into the file's own form: its dimensions, attributes,
types and packing. Any other becomes a CF ``timeSeries`` where the sensors' coordinates are known.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.io.atomic import Writer
from flfl.io.sensors import Sensors
from flfl.io.table import NetcdfForm, Table
from flfl.io.xarrays import import_xarray

Array = NDArray[np.float64]

CONVENTIONS = "CF-1.8"
_EPOCH = "seconds since 1970-01-01 00:00:00"
_WITH_THE_READINGS = ("coordinates", "grid_mapping", "units")
"""Attributes of the readings that hold for their intervals and (but the last) flags too."""


@dataclass(frozen=True, eq=False)
class Layers:
    """What is written of every cell, each time x sensor.

    ``flags`` are positions in ``meanings``; ``lower`` and ``upper`` are NaN where observed.
    """

    values: Array
    flags: NDArray[np.int8]
    meanings: tuple[str, ...]
    lower: Array
    upper: Array


def netcdf_writer(
    path: Path, table: Table, layers: Layers, sensors: Sensors, about: dict[str, str]
) -> Writer:
    """Writes a NetCDF 4 file; ``about`` names method and run."""
    xarray = import_xarray(path)
    form = None if table.source is None else table.source.netcdf
    if form is not None and _fits(form, table):
        dataset = _in_form(xarray, form, table, layers)
    else:
        dataset = _time_series(xarray, table, layers, sensors, form)
    _describe(dataset, table, about)

    def write(file: BinaryIO) -> None:
        # The library writes to a name, and older ones to nothing else.
        with tempfile.TemporaryDirectory() as folder:
            staged = Path(folder) / "staged.nc"
            dataset.to_netcdf(staged, engine="h5netcdf")
            with staged.open("rb") as finished:
                shutil.copyfileobj(finished, file)

    return write


def _describe(dataset: Any, table: Table, about: dict[str, str]) -> None:
    """Global attributes; no date among them, so that the same run gives the same bytes."""
    dataset.attrs.setdefault("Conventions", CONVENTIONS)
    name = "" if table.source is None else f" of {table.source.path.name}"
    dataset.attrs.setdefault("title", f"Readings{name} with recovered values")
    done = " ".join(
        [f"flfl {version('flfl')}: gaps filled", *(f"{k}={v}" for k, v in about.items())]
    )
    earlier = dataset.attrs.get("history")
    dataset.attrs["history"] = f"{earlier}\n{done}" if earlier else done
    dataset.attrs |= {f"flfl_{key}": value for key, value in about.items()}


def _fits(form: NetcdfForm, table: Table) -> bool:
    """Whether every row and sensor still has its place in the file's form."""
    sizes = dict(zip(form.dims, form.shape, strict=True))
    rows = len(table.values) if table.order is None else len(table.order)
    return sizes.pop(form.time_dim) == rows and int(
        np.prod([*sizes.values()], dtype=np.int64)
    ) == len(table.sensor_ids)


def _in_form(xarray: Any, form: NetcdfForm, table: Table, layers: Layers) -> Any:
    """The source's own dataset with the readings put back and three variables more."""
    rows = slice(None) if table.order is None else table.order

    def place(cells: NDArray[Any]) -> NDArray[Any]:
        others = [
            size for name, size in zip(form.dims, form.shape, strict=True) if name != form.time_dim
        ]
        whole = cells[rows].reshape(-1, *others)
        return np.moveaxis(whole, 0, form.dims.index(form.time_dim))

    attributes = dict(form.attributes)
    stored = _stored(place(layers.values), form)
    dataset = form.skeleton.copy()
    for variable in dataset.variables.values():
        # As it was stored: no fill value is made up for what had none.
        variable.encoding.setdefault("_FillValue", None)
    _mend(xarray, dataset, form.time_name)
    extra = _ancillary(xarray, form.variable, form.dims, place, layers, attributes)
    earlier = str(attributes.get("ancillary_variables", "")).split()
    attributes["ancillary_variables"] = " ".join(dict.fromkeys([*earlier, *extra]))
    encoding = dict(form.encoding)
    encoding.setdefault("_FillValue", None)
    dataset[form.variable] = xarray.Variable(form.dims, stored, attributes, encoding)
    for name, variable in extra.items():
        dataset[name] = variable
    return dataset


def _mend(xarray: Any, dataset: Any, time_name: str) -> None:
    """What xarray writes by itself and the conventions forbid, where nothing is lost by it.

    A coordinate has no fill value (it has no gaps), the time is called so, and its numbers are not
    64-bit whole ones, which versions before 1.9 do not know.
    """
    for name in dataset.dims:
        if name in dataset.variables:
            dataset[name].attrs.pop("_FillValue", None)
    time = dataset[time_name].variable
    time.attrs.setdefault("standard_name", "time")
    if time.dtype == np.int64:
        small = np.abs(time.values).max(initial=0) < 2**31
        numbers = time.values.astype(np.int32 if small else np.float64)
        dataset[time_name] = xarray.Variable(time.dims, numbers, time.attrs, {"_FillValue": None})


def _stored(values: Array, form: NetcdfForm) -> NDArray[Any]:
    """Numbers as the file packs them: scaled, of its type, its own number for missing ones."""
    attributes = form.attributes
    packed = (values - attributes.get("add_offset", 0)) / attributes.get("scale_factor", 1)
    gaps = np.isnan(packed)
    fill = attributes.get("_FillValue", attributes.get("missing_value"))
    if np.issubdtype(form.dtype, np.integer):
        limits = np.iinfo(form.dtype)
        fill = limits.min + 1 if fill is None else fill
        packed = np.clip(np.rint(packed), limits.min, limits.max)
    fill = np.nan if fill is None else np.asarray(fill).flat[0]
    return np.where(gaps, fill, packed).astype(form.dtype)


def _ancillary(
    xarray: Any, name: str, dims: tuple[str, ...], place: Any, layers: Layers, like: dict[str, Any]
) -> dict[str, Any]:
    """Flags and intervals, with what the readings say of their place and unit."""
    shared = {key: like[key] for key in _WITH_THE_READINGS if key in like}
    of_flags = {key: value for key, value in shared.items() if key != "units"}
    flag = {
        "standard_name": "status_flag",
        "long_name": f"whether each value of {name} was observed",
        "flag_values": np.arange(len(layers.meanings), dtype=np.int8),
        "flag_meanings": " ".join(layers.meanings),
    }
    found = {
        f"{name}_flag": xarray.Variable(
            dims, place(layers.flags), of_flags | flag, {"_FillValue": None}
        )
    }
    for end in ("lower", "upper"):
        words = {"long_name": f"{end} end of the interval of recovered values of {name}"}
        found[f"{name}_{end}"] = xarray.Variable(
            dims, place(getattr(layers, end)), shared | words, {"_FillValue": np.nan, "zlib": True}
        )
    return found


def _time_series(
    xarray: Any, table: Table, layers: Layers, sensors: Sensors, form: NetcdfForm | None
) -> Any:
    """A CF ``timeSeries``: station x time, both of them coordinates."""
    name = _variable_name(table) if form is None else form.variable
    about: dict[str, Any] = {"long_name": name.replace("_", " ")}
    if form is not None:
        kept = ("long_name", "standard_name", "units")
        about |= {key: form.attributes[key] for key in kept if key in form.attributes}
    elif table.unit is not None:
        about["units"] = table.unit
    # Slots that are merely numbered have no time, and then it is no time series either.
    along = "time" if isinstance(table.values.index, pd.DatetimeIndex) else "slot"
    dims = ("station", along)
    coordinates = _coordinates(xarray, sensors)
    where = " ".join(coordinates)
    like = about | {"coordinates": where}
    extra = _ancillary(xarray, name, dims, np.transpose, layers, like)
    attributes = like | {"ancillary_variables": " ".join(extra)}
    readings = xarray.Variable(
        dims, layers.values.T, attributes, {"_FillValue": np.nan, "zlib": True}
    )
    slots = {along: _slots(xarray, table.values.index, along)}
    dataset = xarray.Dataset({**coordinates, **slots, name: readings, **extra})
    if along == "time" and sensors.coordinates is not None:
        dataset["station_name"].attrs["cf_role"] = "timeseries_id"
        dataset.attrs["featureType"] = "timeSeries"
    if table.units is not None and table.unit is None:
        dataset["station_units"] = xarray.Variable(
            ("station",), list(table.units), {"long_name": "unit of the readings of each station"}
        )
    return dataset.reset_coords()


def _coordinates(xarray: Any, sensors: Sensors) -> dict[str, Any]:
    """The stations' names and places."""
    found = {
        "station_name": xarray.Variable(
            ("station",), np.array(sensors.ids, dtype=object), {"long_name": "name of the station"}
        )
    }
    if sensors.coordinates is not None:
        axes = _LATLON if sensors.kind == "latlon" else _METRIC
        for column, (key, words) in enumerate(axes.items()):
            found[key] = xarray.Variable(
                ("station",), sensors.coordinates[:, column], dict(words), {"_FillValue": None}
            )
    return found


def _slots(xarray: Any, index: pd.Index, name: str) -> Any:
    """The times, or the numbers of the slots."""
    if isinstance(index, pd.DatetimeIndex):
        numbers = index.as_unit("us").asi8 / 1e6
        words = {
            "standard_name": "time",
            "long_name": "time" if index.tz is None else "time in UTC",
            "units": _EPOCH,
            "calendar": "standard",
            "axis": "T",
        }
    else:
        numbers, words = index.to_numpy(dtype=np.float64), {"long_name": "number", "units": "1"}
    return xarray.Variable((name,), numbers, words, {"_FillValue": None})


_LATLON = {
    "latitude": {
        "standard_name": "latitude",
        "long_name": "latitude of the station",
        "units": "degrees_north",
    },
    "longitude": {
        "standard_name": "longitude",
        "long_name": "longitude of the station",
        "units": "degrees_east",
    },
}
_METRIC = {
    axis: {
        "standard_name": f"projection_{axis}_coordinate",
        "long_name": f"{axis} of the station",
        "units": "m",
    }
    for axis in ("x", "y")
}


def _variable_name(table: Table) -> str:
    """The name of a long file's column of values where NetCDF allows it, else a plain word."""
    named = None if table.source is None else table.source.value_column
    plain = re.sub(r"\W+", "_", named or "", flags=re.ASCII).strip("_")
    taken = {"time", "slot", "station", "station_name", "latitude", "longitude", "x", "y"}
    return plain if re.match(r"[A-Za-z]", plain) and plain not in taken else "reading"
