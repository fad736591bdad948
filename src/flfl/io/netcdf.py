"""NetCDF in and out by the CF conventions: stations x time, or the cells of a model grid x time.

A table that was read from NetCDF goes back into the file's own form: its dimensions, attributes,
types and packing. Any other becomes a CF ``timeSeries`` where the sensors' coordinates are known.
xarray is imported here and nowhere else, and only when a NetCDF file is met.
"""

from __future__ import annotations

import re
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
from flfl.io.table import Table

Array = NDArray[np.float64]
CONVENTIONS = "CF-1.8"
_ENGINES = {b"\x89HDF": "h5netcdf", b"CDF\x01": "scipy", b"CDF\x02": "scipy"}
# Attributes by which one variable names others that only describe it.
_HELPERS = ("bounds", "ancillary_variables", "coordinates", "grid_mapping", "cell_measures")
_PLACES: tuple[tuple[CoordinateKind, tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    ("latlon", ("latitude", "lat"), ("longitude", "lon"), ("degree",)),
    ("metric", ("projection_x_coordinate", "x"), ("projection_y_coordinate", "y"),
     ("m", "meter", "metre")),
)  # fmt: skip
_AXES = {
    "latlon": (
        ("latitude", "latitude", "degrees_north"),
        ("longitude", "longitude", "degrees_east"),
    ),
    "metric": (("x", "projection_x_coordinate", "m"), ("y", "projection_y_coordinate", "m")),
}


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
        but the time, the last one running fastest.
    time_dim, time_name : str
        The dimension that is the time, and the variable that holds the times.
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


def import_xarray(path: Path) -> Any:
    """The xarray package with an engine for NetCDF 4; ``path`` is named when they are absent."""
    try:
        import h5netcdf  # noqa: F401
        import xarray
    except ImportError:
        raise InputError(
            "NetCDF needs the packages xarray and h5netcdf, which are not installed",
            where=str(path),
            remedy="Run: pip install 'flfl[netcdf]'",
        ) from None
    return xarray


def read_netcdf(path: Path, data: bytes, parameter: str | None) -> Columns:
    """The times, and one column of numbers a sensor; ``parameter`` names the variable."""
    xarray = import_xarray(path)
    stored = _open(xarray, path, data)
    time_name = _time_variable(stored, path)
    time_dim = str(stored[time_name].dims[0])
    name = _readings_variable(stored, time_dim, parameter, path)
    try:
        with warnings.catch_warnings():
            # A calendar or a fill value that xarray warns of is judged below, by what comes out.
            warnings.simplefilter("ignore")
            decoded = xarray.decode_cf(stored, decode_timedelta=False)
    except Exception as error:
        # Attributes can be anything, and so can what is raised.
        raise InputError(
            f"the file cannot be decoded by the CF conventions ({str(error)[:80]})",
            where=f"{path}, variables {name!r} and {time_name!r}",
            remedy="Correct the attributes, above all the units of the time",
        ) from None
    readings, variable = decoded[name], stored[name]
    others = [str(dim) for dim in variable.dims if dim != time_dim]
    cube = readings.transpose(*others, time_dim).to_numpy()
    matrix = np.array(cube, dtype=np.float64).reshape(-1, cube.shape[-1])
    ids = _ids(decoded, readings, others)
    coordinates, kind = _coordinates(decoded, readings, others)
    unit = str(variable.attrs.get("units", "")).strip()
    # Names that are stored letter by letter become words: in that form they can be written again.
    skeleton = xarray.decode_cf(
        stored.drop_vars(name),
        mask_and_scale=False,
        decode_times=False,
        decode_coords=False,
        decode_timedelta=False,
    )
    form = NetcdfForm(
        skeleton=skeleton,
        variable=name,
        dims=tuple(str(dim) for dim in variable.dims),
        shape=variable.shape,
        time_dim=time_dim,
        time_name=time_name,
        dtype=variable.dtype,
        attributes=dict(variable.attrs),
        encoding=dict(variable.encoding),
    )
    return Columns(
        path=path,
        names=(time_name, *ids),
        arrays=(_times(decoded[time_name], path), *map(pa.array, matrix)),
        format="netcdf",
        time_first=True,
        wide_only=True,
        form=form,
        units=(unit,) * (1 + len(ids)),
        coordinates=coordinates,
        kind=kind,
        notes=(f"The readings are the variable {name!r}.",),
    )


def _open(xarray: Any, path: Path, data: bytes) -> Any:
    """The whole file in memory, nothing decoded."""
    engine = _ENGINES.get(data[:4])
    if engine is None:
        raise InputError(
            "the content is not NetCDF", where=str(path), remedy="Give a NetCDF file (3 or 4)"
        )
    try:
        # From memory: a reader that stumbles leaves no open file behind.
        with xarray.open_dataset(BytesIO(data), engine=engine, decode_cf=False) as opened:
            return opened.load()
    except Exception as error:
        # On damaged bytes the libraries below raise whatever they happen to stumble over.
        reason = str(error).splitlines()[0][:80] if str(error) else type(error).__name__
        raise InputError(
            f"this is not a readable NetCDF file ({reason})",
            where=str(path),
            remedy="Write the file again",
        ) from None


def _time_variable(stored: Any, path: Path) -> str:
    found = [str(name) for name, variable in stored.variables.items() if _is_time(variable)]
    plain = [name for name in found if stored[name].ndim == 1]
    if not plain:
        problem = "no variable holds the times (units such as 'hours since 2024-01-01')"
        if found:
            problem = f"the times in {found[0]!r} differ from station to station"
        raise InputError(
            problem,
            where=str(path),
            remedy="Write the readings as stations x time with one time axis",
        )
    # Of several (a forecast has two) the one that is its own dimension, or is called so.
    return min(plain, key=lambda n: (n not in stored.dims, _attribute(stored[n]) != "time"))


def _is_time(variable: Any) -> bool:
    return " since " in _attribute(variable, "units")


def _attribute(variable: Any, name: str = "standard_name") -> str:
    return str(variable.attrs.get(name, ""))


def _readings_variable(stored: Any, time_dim: str, wanted: str | None, path: Path) -> str:
    """The one variable of numbers along the time, or the one that was asked for."""
    helpers = set(stored.coords) | {
        word
        for variable in stored.variables.values()
        for key in _HELPERS
        for word in _attribute(variable, key).split()
    }
    found = [
        str(name)
        for name, variable in stored.data_vars.items()
        if time_dim in variable.dims
        and variable.dtype.kind in "fiu"
        and name not in helpers
        and not _is_time(variable)
    ]
    if wanted is None and len(found) == 1:
        return found[0]
    if wanted is not None and wanted in found:
        return wanted
    held = "no variable of numbers runs along the time"
    if found:
        held = f"the variables along the time are {listing(found, 12)}"
    raise InputError(
        f"there is no variable {wanted!r}; {held}" if wanted is not None else held,
        where=str(path),
        remedy="Choose one with parameter" if found else "Give a file with readings along the time",
    )


def _times(variable: Any, path: Path) -> pa.Array:
    if not np.issubdtype(variable.dtype, np.datetime64):
        calendar = variable.encoding.get("calendar", variable.attrs.get("calendar", "unknown"))
        raise InputError(
            f"the times follow the calendar {calendar!r}, not the usual one",
            where=f"{path}, variable {str(variable.name)!r}",
            remedy="Convert the file to the standard calendar",
        )
    # By the conventions a time without a zone is in UTC.
    return pa.array(pd.DatetimeIndex(variable.to_numpy()).as_unit("us").tz_localize("UTC"))


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
) -> tuple[Array | None, CoordinateKind | None]:
    """Where the sensors are, when the file tells for every one of them."""
    for kind, first, second, units in _PLACES:
        pair = [_place(decoded, names, dims, units) for names in (first, second)]
        if pair[0] is None or pair[1] is None:
            continue
        # Multiplying by ones spreads a latitude over the longitudes of its row.
        frame = readings.isel({d: 0 for d in readings.dims if d not in dims}, drop=True)
        ones = frame.copy(data=np.ones(frame.shape)).reset_coords(drop=True)
        spread = [(ones * one.reset_coords(drop=True)).transpose(*dims) for one in pair]
        places = np.column_stack([one.to_numpy().astype(np.float64).ravel() for one in spread])
        if np.isfinite(places).all():
            return places, kind
    return None, None


def _place(decoded: Any, names: Sequence[str], dims: Sequence[str], units: Sequence[str]) -> Any:
    for name, variable in decoded.variables.items():
        called = {_attribute(variable), str(name).lower()}
        unit = _attribute(variable, "units") or units[0]
        fits = variable.dtype.kind in "fiu" and set(variable.dims) <= set(dims)
        if fits and called & set(names) and unit.startswith(tuple(units)):
            return decoded[name]
    return None


def netcdf_writer(
    path: Path,
    table: Table,
    layers: Mapping[str, NDArray[Any]],
    sensors: Sensors,
    about: Mapping[str, str],
) -> Writer:
    """Writes a NetCDF 4 file.

    Parameters
    ----------
    path : Path
    table : Table
    layers : mapping
        Time x sensor: ``value``, ``flag`` (words) and ``lower`` and ``upper``, NaN where observed.
    sensors : Sensors
    about : mapping
        The method and the run.
    """
    xarray = import_xarray(path)
    form = None if table.source is None else table.source.form
    if isinstance(form, NetcdfForm) and _fits(form, table):
        dataset = _in_form(xarray, form, table, layers)
    else:
        dataset = _time_series(xarray, table, layers, sensors, form)
    attributes = dataset.attrs
    attributes.setdefault("Conventions", CONVENTIONS)
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


def _fits(form: NetcdfForm, table: Table) -> bool:
    """Whether every row and sensor still has its place in the file's form."""
    sizes = dict(zip(form.dims, form.shape, strict=True))
    rows = len(table.values) if table.order is None else len(table.order)
    return sizes.pop(form.time_dim) == rows and np.prod([*sizes.values()], dtype=int) == len(
        table.sensor_ids
    )


def _in_form(xarray: Any, form: NetcdfForm, table: Table, layers: Mapping[str, Any]) -> Any:
    """The source's own dataset with the readings put back and three variables more."""
    rows = slice(None) if table.order is None else table.order
    time = form.dims.index(form.time_dim)
    others = [size for i, size in enumerate(form.shape) if i != time]

    def place(cells: NDArray[Any]) -> NDArray[Any]:
        return np.moveaxis(cells[rows].reshape(-1, *others), 0, time)

    dataset = form.skeleton.copy()
    for variable in dataset.variables.values():
        # As it was stored: no fill value is made up for what had none.
        variable.encoding.setdefault("_FillValue", None)
    _mend(xarray, dataset, form.time_name)
    attributes = dict(form.attributes)
    extra = _ancillary(xarray, form.variable, form.dims, place, layers, attributes)
    earlier = str(attributes.get("ancillary_variables", "")).split()
    attributes["ancillary_variables"] = " ".join(dict.fromkeys([*earlier, *extra]))
    stored = _stored(place(layers["value"]), form)
    encoding = {"_FillValue": None, **form.encoding}
    dataset[form.variable] = xarray.Variable(form.dims, stored, attributes, encoding)
    return dataset.assign(extra)


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
    xarray: Any,
    name: str,
    dims: tuple[str, ...],
    place: Callable[[NDArray[Any]], NDArray[Any]],
    layers: Mapping[str, NDArray[Any]],
    like: Mapping[str, Any],
) -> dict[str, Any]:
    """Flags and intervals, with what the readings say of their place and unit."""
    shared = {key: like[key] for key in ("coordinates", "grid_mapping") if key in like}
    meanings = ("observed", "recovered", "refused")
    codes = np.zeros(layers["flag"].shape, dtype=np.int8)
    for code, meaning in enumerate(meanings):
        codes[layers["flag"] == meaning] = code
    flag = {
        "standard_name": "status_flag",
        "long_name": f"whether each value of {name} was observed",
        "flag_values": np.arange(len(meanings), dtype=np.int8),
        "flag_meanings": " ".join(meanings),
    }
    found = {
        f"{name}_flag": xarray.Variable(dims, place(codes), shared | flag, {"_FillValue": None})
    }
    unit = {"units": like["units"]} if "units" in like else {}
    for end in ("lower", "upper"):
        words = {"long_name": f"{end} end of the interval of recovered values of {name}"}
        found[f"{name}_{end}"] = xarray.Variable(
            dims, place(layers[end]), shared | unit | words, {"_FillValue": np.nan, "zlib": True}
        )
    return found


def _time_series(
    xarray: Any, table: Table, layers: Mapping[str, Any], sensors: Sensors, form: Any
) -> Any:
    """A CF ``timeSeries``: station x time, both of them coordinates."""
    if isinstance(form, NetcdfForm):
        name, kept = form.variable, ("long_name", "standard_name", "units")
        told = {key: form.attributes[key] for key in kept if key in form.attributes}
    else:
        name, told = _variable_name(table), {} if table.unit is None else {"units": table.unit}
    # Slots that are merely numbered have no time, and then it is no time series either.
    index = table.values.index
    along = "time" if isinstance(index, pd.DatetimeIndex) else "slot"
    dims = ("station", along)
    ids = np.array(sensors.ids, dtype=object)
    station = xarray.Variable(("station",), ids, {"long_name": "name of the station"})
    places = {"station_name": station}
    if sensors.coordinates is not None and sensors.kind is not None:
        for column, (key, standard, unit) in enumerate(_AXES[sensors.kind]):
            words = {"standard_name": standard, "long_name": f"{key} of the station", "units": unit}
            numbers = sensors.coordinates[:, column]
            places[key] = xarray.Variable(("station",), numbers, words, {"_FillValue": None})
    like = {"long_name": name.replace("_", " "), **told, "coordinates": " ".join(places)}
    extra = _ancillary(xarray, name, dims, np.transpose, layers, like)
    attributes = like | {"ancillary_variables": " ".join(extra)}
    readings = xarray.Variable(
        dims, layers["value"].T, attributes, {"_FillValue": np.nan, "zlib": True}
    )
    slots = {along: _slots(xarray, index, along)}
    dataset = xarray.Dataset({**places, **slots, name: readings, **extra})
    if along == "time" and sensors.coordinates is not None:
        dataset["station_name"].attrs["cf_role"] = "timeseries_id"
        dataset.attrs["featureType"] = "timeSeries"
    if table.units is not None and table.unit is None:
        dataset["station_units"] = xarray.Variable(
            ("station",), list(table.units), {"long_name": "unit of the readings of each station"}
        )
    return dataset.reset_coords()


def _slots(xarray: Any, index: pd.Index, name: str) -> Any:
    """The times, or the numbers of the slots."""
    if isinstance(index, pd.DatetimeIndex):
        numbers = index.as_unit("us").asi8 / 1e6
        words = {
            "standard_name": "time",
            "long_name": "time" if index.tz is None else "time in UTC",
            "units": "seconds since 1970-01-01 00:00:00",
            "calendar": "standard",
            "axis": "T",
        }
    else:
        numbers, words = index.to_numpy(dtype=np.float64), {"long_name": "number", "units": "1"}
    return xarray.Variable((name,), numbers, words, {"_FillValue": None})


def _variable_name(table: Table) -> str:
    """The name of a long file's column of values where NetCDF allows it, else a plain word."""
    columns = () if table.source is None else table.source.columns
    named = next((column.name for column in columns if column.by == "cell"), "")
    plain = re.sub(r"\W+", "_", named, flags=re.ASCII).strip("_")
    taken = {"time", "slot", "station", "station_name", "latitude", "longitude", "x", "y"}
    return plain if re.match(r"[A-Za-z]", plain) and plain not in taken else "reading"
