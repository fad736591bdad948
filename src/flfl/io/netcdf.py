"""NetCDF in: stations x time, or the cells of a model grid x time, by the CF conventions."""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flfl.errors import InputError
from flfl.io.build import Draft
from flfl.io.cells import drop_sentinels, refuse_infinite
from flfl.io.files import read_bytes
from flfl.io.layouts import Rules, sort_slots
from flfl.io.netcdf_sensors import coordinates_of, ids_of
from flfl.io.rawfile import RawFile
from flfl.io.table import NetcdfForm, listing
from flfl.io.times import Times, time_texts
from flfl.io.xarrays import import_xarray

_ENGINES = {b"\x89HDF": "h5netcdf", b"CDF\x01": "scipy", b"CDF\x02": "scipy"}
# Attributes by which one variable names others that only describe it.
_HELPERS = ("bounds", "ancillary_variables", "coordinates", "grid_mapping", "cell_measures")


def draft_netcdf(path: Path, rules: Rules) -> Draft:
    """Readings of a NetCDF file."""
    xarray = import_xarray(path)
    stored = _open(xarray, path)
    time_name = _time_variable(stored, path)
    name = _readings_variable(stored, stored[time_name].dims[0], rules.parameter, path)
    variable = stored[name]
    time_dim = str(stored[time_name].dims[0])
    decoded = _decode(xarray, stored, name, time_name, path)
    others = [str(dim) for dim in variable.dims if dim != time_dim]
    cube = decoded[name].transpose(*others, time_dim).to_numpy()
    matrix = np.array(cube, dtype=np.float64).reshape(-1, cube.shape[-1])
    times = _times(decoded[time_name], path)
    ids = ids_of(decoded, decoded[name], others)
    raw = RawFile(path, "netcdf", ids, list)
    raw.netcdf = NetcdfForm(
        skeleton=_words_whole(xarray, stored.drop_vars(name)),
        variable=name,
        dims=tuple(str(dim) for dim in variable.dims),
        shape=variable.shape,
        time_dim=time_dim,
        time_name=time_name,
        dtype=variable.dtype,
        attributes=dict(variable.attrs),
        encoding=dict(variable.encoding),
    )
    refuse_infinite(raw, range(len(ids)), matrix)
    notes = [f"The readings are the variable {name!r}.", *drop_sentinels(matrix, rules.sentinels)]
    draft = Draft(raw, times, time_texts(times.index), ids, matrix, notes)
    draft.time_column = time_name
    unit = str(variable.attrs.get("units", "")).strip()
    draft.units = (unit,) * len(ids) if unit else None
    draft.coordinates, draft.coordinate_kind = coordinates_of(decoded, decoded[name], others)
    return sort_slots(draft, rules.duplicates)


def _open(xarray: Any, path: Path) -> Any:
    """The whole file in memory, nothing decoded."""
    _, data = read_bytes(path)
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
    found = [
        str(name)
        for name, variable in stored.variables.items()
        if " since " in str(variable.attrs.get("units", ""))
    ]
    plain = [name for name in found if stored[name].ndim == 1]
    # Of several (a forecast has two) the one that is its own dimension, or is called so.
    plain.sort(key=lambda name: (name not in stored.dims, _standard_name(stored[name]) != "time"))
    if plain:
        return plain[0]
    problem = "no variable holds the times (units such as 'hours since 2024-01-01')"
    if found:
        problem = f"the times in {found[0]!r} differ from station to station"
    raise InputError(
        problem, where=str(path), remedy="Write the readings as stations x time with one time axis"
    )


def _standard_name(variable: Any) -> str:
    return str(variable.attrs.get("standard_name", ""))


def _readings_variable(stored: Any, time_dim: Any, wanted: str | None, path: Path) -> str:
    """The one variable of numbers along the time, or the one that was asked for."""
    helpers = set(stored.coords) | {
        word
        for variable in stored.variables.values()
        for key in _HELPERS
        for word in str(variable.attrs.get(key, "")).split()
    }
    found = [
        str(name)
        for name, variable in stored.data_vars.items()
        if time_dim in variable.dims
        and variable.dtype.kind in "fiu"
        and name not in helpers
        and " since " not in str(variable.attrs.get("units", ""))
    ]
    if wanted is None and len(found) == 1:
        return found[0]
    if wanted in found and wanted is not None:
        return wanted
    held = "no variable of numbers runs along the time"
    if found:
        held = f"the variables along the time are {listing(found, 12)}"
    raise InputError(
        f"there is no variable {wanted!r}; {held}" if wanted is not None else held,
        where=str(path),
        remedy="Choose one with parameter" if found else "Give a file with readings along the time",
    )


def _decode(xarray: Any, stored: Any, name: str, time_name: str, path: Path) -> Any:
    """The readings, the times and the texts of the labels as values; nothing else changes."""
    try:
        with warnings.catch_warnings():
            # A calendar or a fill value that xarray warns of is judged below, by what comes out.
            warnings.simplefilter("ignore")
            return xarray.decode_cf(stored, decode_timedelta=False)
    except Exception as error:
        # As above: attributes can be anything.
        raise InputError(
            f"the file cannot be decoded by the CF conventions ({str(error)[:80]})",
            where=f"{path}, variables {name!r} and {time_name!r}",
            remedy="Correct the attributes, above all the units of the time",
        ) from None


def _words_whole(xarray: Any, stored: Any) -> Any:
    """Names that are stored letter by letter as words, in which form they can be written again."""
    return xarray.decode_cf(
        stored,
        mask_and_scale=False,
        decode_times=False,
        decode_coords=False,
        decode_timedelta=False,
    )


def _times(variable: Any, path: Path) -> Times:
    if not np.issubdtype(variable.dtype, np.datetime64):
        calendar = variable.encoding.get("calendar", variable.attrs.get("calendar", "unknown"))
        raise InputError(
            f"the times follow the calendar {calendar!r}, not the usual one",
            where=f"{path}, variable {str(variable.name)!r}",
            remedy="Convert the file to the standard calendar",
        )
    index = pd.DatetimeIndex(variable.to_numpy())
    if index.hasnans:
        raise InputError(
            f"a time is missing (row {int(np.flatnonzero(index.isna())[0]) + 1})",
            where=f"{path}, variable {str(variable.name)!r}",
            remedy="Give every slot a time",
        )
    # By the conventions a time without a zone is in UTC.
    index = index.as_unit("us").tz_localize("UTC")
    return Times(index, index.tz_localize(None), zone="UTC")
