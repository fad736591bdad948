"""NetCDF in and out by the CF conventions: stations x time, or the cells of a model grid x time.

A table from NetCDF goes back into the file's own form; any other becomes a CF ``timeSeries``.
xarray is imported here alone, and only when a NetCDF file is met.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.columns import Columns, CoordinateKind, listing
from flfl.io.files import Writer
from flfl.io.sensors import ID_NAMES, Sensors
from flfl.io.table import FLAGS, Table

CONVENTIONS = "CF-1.8"
_ENGINES = {b"\x89HDF": "h5netcdf", b"CDF\x01": "scipy", b"CDF\x02": "scipy"}
# Attributes by which one variable names others that only describe it.
_HELPERS = ("bounds", "ancillary_variables", "coordinates", "grid_mapping", "cell_measures")
_PLACES: tuple[tuple[CoordinateKind, tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    ("latlon", ("latitude", "lat"), ("longitude", "lon"), ("degree",)),
    ("metric", ("projection_x_coordinate", "x"), ("projection_y_coordinate", "y"), ("m",)),
)
_AXES = {
    "latlon": (("latitude",) * 2 + ("degrees_north",), ("longitude",) * 2 + ("degrees_east",)),
    "metric": (("x", "projection_x_coordinate", "m"), ("y", "projection_y_coordinate", "m")),
}


@dataclass(frozen=True, eq=False)
class NetcdfForm:
    """The file around the readings (``skeleton``, times not decoded), to be written again.

    ``readings`` has their dimensions, shape, attributes and encoding, but no numbers.
    """

    skeleton: Any
    variable: str
    time_name: str
    readings: Any


def import_xarray(path: Path) -> Any:
    """The xarray package with an engine for NetCDF 4; ``path`` is named when they are absent."""
    try:
        import h5netcdf  # noqa: F401
        import xarray
    except ImportError:
        problem = "NetCDF needs the packages xarray and h5netcdf, which are not installed"
        remedy = "Run: pip install 'flfl[netcdf]'"
        raise InputError(problem, where=str(path), remedy=remedy) from None
    return xarray


def read_netcdf(path: Path, data: bytes, parameter: str | None) -> Columns:
    """The times, and one column of numbers a sensor; ``parameter`` names the variable."""
    xarray = import_xarray(path)
    engine = _ENGINES.get(data[:4])
    if engine is None:
        remedy = "Give a NetCDF file (3 or 4)"
        raise InputError("the content is not NetCDF", where=str(path), remedy=remedy)
    try:
        # From memory: a reader that stumbles leaves no open file behind.
        with xarray.open_dataset(BytesIO(data), engine=engine, decode_cf=False) as opened:
            stored = opened.load()
    except Exception as error:
        # On damaged bytes the libraries below raise whatever they happen to stumble over.
        reason = str(error).splitlines()[0][:80] if str(error) else type(error).__name__
        problem = f"this is not a readable NetCDF file ({reason})"
        raise InputError(problem, where=str(path), remedy="Write the file again") from None
    time_name = _time_variable(stored, path)
    time_dim = str(stored[time_name].dims[0])
    name = _readings_variable(stored, time_dim, parameter, path)
    try:
        with warnings.catch_warnings():
            # A calendar or a fill value that xarray warns of is judged below, by what comes out.
            warnings.simplefilter("ignore")
            decoded = xarray.decode_cf(stored, decode_times=False, decode_timedelta=False).load()
            times = xarray.decode_cf(stored[[time_name]], decode_timedelta=False)[time_name].load()
    except Exception as error:
        # Attributes can be anything, and so can what is raised.
        where = f"{path}, variables {name!r} and {time_name!r}"
        problem = f"the file cannot be decoded by the CF conventions ({str(error)[:80]})"
        remedy = "Correct the attributes, above all the units of the time"
        raise InputError(problem, where=where, remedy=remedy) from None
    if not np.issubdtype(times.dtype, np.datetime64):
        calendar = times.encoding.get("calendar", times.attrs.get("calendar", "unknown"))
        where = f"{path}, variable {time_name!r}"
        problem = f"the times follow the calendar {calendar!r}, not the usual one"
        raise InputError(problem, where=where, remedy="Convert the file to the standard calendar")
    # By the conventions a time without a zone is in UTC.
    stamps = pd.DatetimeIndex(times.to_numpy()).as_unit("us").tz_localize("UTC")
    readings = decoded[name]
    others = [str(dim) for dim in readings.dims if dim != time_dim]
    cube = np.array(readings.transpose(*others, time_dim).to_numpy(), dtype=np.float64)
    ids = _ids(decoded, readings, others)
    coordinates, kind = _coordinates(decoded, readings, others)
    unit = _attribute(readings, "units").strip()
    # Everything but the numbers themselves, which the table holds.
    shape = np.broadcast_to(np.nan, readings.shape)
    bare = xarray.Variable(readings.dims, shape, readings.attrs, readings.encoding)
    return Columns(
        path=path,
        names=(time_name, *ids),
        arrays=(pa.array(stamps), *map(pa.array, cube.reshape(-1, cube.shape[-1]))),
        format="netcdf",
        time_first=True,
        wide_only=True,
        form=NetcdfForm(decoded.drop_vars(name), name, time_name, bare),
        units=(unit,) * (1 + len(ids)),
        coordinates=coordinates,
        kind=kind,
        notes=(f"The readings are the variable {name!r}.",),
    )


def _time_variable(stored: Any, path: Path) -> str:
    found = [str(name) for name, held in stored.variables.items() if _is_time(held)]
    plain = [name for name in found if stored[name].ndim == 1]
    if not plain:
        problem = "no variable holds the times (units such as 'hours since 2024-01-01')"
        if found:
            problem = f"the times in {found[0]!r} differ from station to station"
        remedy = "Write the readings as stations x time with one time axis"
        raise InputError(problem, where=str(path), remedy=remedy)
    # Of several (a forecast has two) the one that is its own dimension, or is called so.
    return min(plain, key=lambda n: (n not in stored.dims, _attribute(stored[n]) != "time"))


def _is_time(variable: Any) -> bool:
    return " since " in _attribute(variable, "units")


def _attribute(variable: Any, name: str = "standard_name") -> str:
    return str(variable.attrs.get(name, ""))


def _readings_variable(stored: Any, time_dim: str, wanted: str | None, path: Path) -> str:
    """The one variable of numbers along the time, or the one that was asked for."""
    pairs = product(stored.variables.values(), _HELPERS)
    helpers = {*stored.coords, *(word for pair in pairs for word in _attribute(*pair).split())}
    along = {n: v for n, v in stored.data_vars.items() if time_dim in v.dims and n not in helpers}
    found = [str(n) for n, v in along.items() if v.dtype.kind in "fiu" and not _is_time(v)]
    if wanted in found or (wanted is None and len(found) == 1):
        return wanted or found[0]
    held = f"the variables along the time are {listing(found, 12)}"
    held = held if found else "no variable of numbers runs along the time"
    problem = f"there is no variable {wanted!r}; {held}" if wanted is not None else held
    remedy = "Choose one with parameter" if found else "Give a file with readings along the time"
    raise InputError(problem, where=str(path), remedy=remedy)


def _ids(decoded: Any, readings: Any, dims: Sequence[str]) -> list[str]:
    """One name a sensor: the station's own, or the coordinates of the grid cell."""
    named = [v for v in decoded.variables.values() if _attribute(v, "cf_role") == "timeseries_id"]
    if not dims:
        one = [_text(v.to_numpy().ravel().tolist()[0]) for v in named if v.size == 1]
        return [next(filter(None, one), str(readings.name))]
    long = [dim for dim in dims if readings.sizes[dim] > 1] or list(dims[:1])
    # The variable that names the stations: by its role, its dimension, or a common name.
    known = [decoded.variables[name] for name in (long[0], *ID_NAMES) if name in decoded.variables]
    labels = [v for v in (*named, *known) if v.dims == (long[0],)] if len(long) == 1 else []
    if labels:
        ids = [_text(cell) for cell in labels[0].to_numpy().tolist()]
    else:
        # Cells such as ``52.5_13.25``: the coordinate along each dimension longer than one.
        words = []
        for dim in long:
            own = decoded[dim].to_numpy() if dim in decoded.variables else np.empty(0, dtype=object)
            steps = own.tolist() if own.dtype.kind in "fiu" else range(readings.sizes[dim])
            words.append([f"{step:.10g}" for step in steps])
        ids = ["_".join(cell) for cell in product(*words)]
    return ids if len(set(ids)) == len(ids) and all(ids) else [str(i) for i in range(len(ids))]


def _text(cell: Any) -> str:
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace").strip()
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return str(cell).strip()


def _coordinates(
    decoded: Any, readings: Any, dims: Sequence[str]
) -> tuple[NDArray[np.float64] | None, CoordinateKind | None]:
    """Where the sensors are, when the file tells for every one of them."""
    sizes = {dim: readings.sizes[dim] for dim in dims}
    for kind, *axes, units in _PLACES:
        places = []
        for names in axes:
            for name, variable in decoded.variables.items():
                called = {_attribute(variable), str(name).lower()} & set(names)
                unit = (_attribute(variable, "units") or units[0]).startswith(units)
                if called and unit and variable.dtype.kind in "fiu" and {*variable.dims} <= {*dims}:
                    # A latitude is spread over the longitudes of its row.
                    places.append(variable.set_dims(sizes).transpose(*dims).to_numpy().ravel())
                    break
        if len(places) == 2 and np.isfinite(places).all():
            return np.column_stack(places).astype(np.float64), kind
    return None, None


def netcdf_writer(
    path: Path,
    table: Table,
    layers: Mapping[str, NDArray[Any]],
    sensors: Sensors,
    about: Mapping[str, str],
) -> Writer:
    """Writes NetCDF 4: the time x sensor ``layers`` value, flag (words), lower and upper."""
    xarray = import_xarray(path)
    form = None if table.source is None else table.source.form
    rows = len(table.values) if table.order is None else len(table.order)
    # Rows that were inserted or merged have no place in the file's own form.
    if isinstance(form, NetcdfForm) and form.readings.size == rows * len(table.sensor_ids):
        dataset = _in_form(xarray, form, table, layers)
    else:
        dataset = _time_series(xarray, table, layers, sensors, form)
    (attributes := dataset.attrs).setdefault("Conventions", CONVENTIONS)
    name = "" if table.source is None else f" of {table.source.path.name}"
    attributes.setdefault("title", f"Readings{name} with recovered values")
    # No date among them, so that the same run gives the same bytes.
    words = [f"flfl {version('flfl')}: gaps filled", *(f"{k}={v}" for k, v in about.items())]
    earlier = [attributes["history"]] if attributes.get("history") else []
    attributes["history"] = "\n".join([*earlier, " ".join(words)])
    attributes |= {f"flfl_{key}": value for key, value in about.items()}

    def write(file: BinaryIO) -> None:
        # The library writes to a name, and older ones to nothing else.
        with tempfile.TemporaryDirectory() as folder:
            staged = Path(folder) / "staged.nc"
            dataset.to_netcdf(staged, engine="h5netcdf")
            with staged.open("rb") as finished:
                shutil.copyfileobj(finished, file)

    return write


def _in_form(xarray: Any, form: NetcdfForm, table: Table, layers: Mapping[str, Any]) -> Any:
    """The source's own dataset with the readings put back and three variables more."""
    readings = form.readings
    time = readings.dims.index(form.skeleton[form.time_name].dims[0])
    others = [size for i, size in enumerate(readings.shape) if i != time]
    rows = slice(None) if table.order is None else table.order

    def place(cells: NDArray[Any]) -> NDArray[Any]:
        return np.moveaxis(cells[rows].reshape(-1, *others), 0, time)

    dataset = form.skeleton.copy()
    for name, variable in dataset.variables.items():
        # As it was stored: no fill value is made up for what had none. A coordinate has no gaps.
        fill = None if name in dataset.dims else variable.encoding.get("_FillValue")
        variable.encoding["_FillValue"] = fill
    dataset[form.time_name].attrs.setdefault("standard_name", "time")
    if dataset[form.time_name].dtype == np.int64:
        # 64-bit whole numbers are unknown to the conventions before version 1.9.
        dataset[form.time_name].encoding["dtype"] = np.dtype(np.float64)
    encoding, values = {"_FillValue": None, **readings.encoding}, layers["value"]
    stored = np.dtype(encoding.get("dtype", np.float64))
    if stored.kind in "iu":
        limits = np.iinfo(stored)
        if encoding["_FillValue"] is None and "missing_value" not in encoding:
            encoding["_FillValue"] = stored.type(limits.min + 1)
        ends = np.array([limits.min, limits.max]) * encoding.get("scale_factor", 1.0)
        values = np.clip(values, *np.sort(ends + encoding.get("add_offset", 0.0)))
    given = xarray.Variable(readings.dims, place(values), dict(readings.attrs), encoding)
    return dataset.assign(_with_flags(xarray, form.variable, given, place, layers))


def _time_series(
    xarray: Any, table: Table, layers: Mapping[str, Any], sensors: Sensors, form: Any
) -> Any:
    """A CF ``timeSeries``: station x time, both of them coordinates."""
    told = {} if table.unit is None else {"units": table.unit}
    name = "reading"
    if isinstance(form, NetcdfForm):
        name, kept = form.variable, ("long_name", "standard_name", "units")
        told = {key: form.readings.attrs[key] for key in kept if key in form.readings.attrs}
    plain = {"_FillValue": None}
    ids = np.array(sensors.ids, dtype=object)
    words = {"long_name": "name of the station"}
    coords: dict[str, Any] = {"station_name": ("station", ids, words)}
    if sensors.coordinates is not None and sensors.kind is not None:
        axes = _AXES[sensors.kind]
        for numbers, (key, standard, unit) in zip(sensors.coordinates.T, axes, strict=True):
            words = {"standard_name": standard, "long_name": f"{key} of the station", "units": unit}
            coords[key] = ("station", numbers, words, plain)
    index = table.values.index
    if isinstance(index, pd.DatetimeIndex):
        zone = "time" if index.tz is None else "time in UTC"
        words = {"standard_name": "time", "long_name": zone, "axis": "T", "calendar": "standard",
                 "units": "seconds since 1970-01-01 00:00:00"}  # fmt: skip
        along = ("time", index.as_unit("us").asi8 / 1e6, words, plain)
    else:
        # Slots that are merely numbered have no time, and then it is no time series either.
        along = ("slot", index.to_numpy(dtype=float), {"long_name": "number", "units": "1"}, plain)
    like = {"long_name": name.replace("_", " "), **told, "coordinates": " ".join(coords)}
    packing = {"_FillValue": np.nan, "zlib": True}
    given = xarray.Variable(("station", along[0]), layers["value"].T, like, packing)
    found = _with_flags(xarray, name, given, np.transpose, layers)
    dataset = xarray.Dataset({**coords, along[0]: along, **found})
    if along[0] == "time" and sensors.coordinates is not None:
        dataset["station_name"].attrs["cf_role"] = "timeseries_id"
        dataset.attrs["featureType"] = "timeSeries"
    if table.units is not None and table.unit is None:
        words = {"long_name": "unit of the readings of each station"}
        dataset["station_units"] = ("station", list(table.units), words)
    return dataset.reset_coords()


def _with_flags(
    xarray: Any,
    name: str,
    readings: Any,
    place: Callable[[NDArray[Any]], NDArray[Any]],
    layers: Mapping[str, NDArray[Any]],
) -> dict[str, Any]:
    """The readings, with flags and intervals beside them that share their place and unit."""
    like = readings.attrs
    shared = {key: like[key] for key in ("coordinates", "grid_mapping") if key in like}
    flag = shared | {
        "standard_name": "status_flag",
        "long_name": f"whether each value of {name} was observed",
        "flag_values": np.arange(len(FLAGS), dtype=np.int8),
        "flag_meanings": " ".join(FLAGS),
    }
    codes = sum((layers["flag"] == word) * np.int8(code) for code, word in enumerate(FLAGS))
    held = xarray.Variable(readings.dims, place(np.asarray(codes)), flag, {"_FillValue": None})
    found = {f"{name}_flag": held}
    shared |= {"units": like["units"]} if "units" in like else {}
    for end in ("lower", "upper"):
        words = {"long_name": f"{end} end of the interval of recovered values of {name}"}
        packing = {"_FillValue": np.nan, "zlib": True}
        cells = place(layers[end])
        found[f"{name}_{end}"] = xarray.Variable(readings.dims, cells, shared | words, packing)
    earlier = str(like.get("ancillary_variables", "")).split()
    like["ancillary_variables"] = " ".join(dict.fromkeys([*earlier, *found]))
    return {name: readings, **found}
