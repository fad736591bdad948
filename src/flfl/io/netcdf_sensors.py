"""The sensors of a NetCDF file: what the dimensions other than the time are called, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flfl.io.sensor_columns import ID_NAMES
from flfl.io.table import CoordinateKind

_PLACES: tuple[tuple[CoordinateKind, tuple[str, ...], tuple[str, ...]], ...] = (
    ("latlon", ("latitude", "lat"), ("longitude", "lon")),
    ("metric", ("projection_x_coordinate", "x"), ("projection_y_coordinate", "y")),
)
_UNITS = {"latlon": ("degree",), "metric": ("m", "meter", "metre")}


def ids_of(decoded: Any, readings: Any, dims: Sequence[str]) -> list[str]:
    """One name a sensor: the station's own, or the coordinates of the grid cell."""
    if not dims:
        return [_one_id(decoded) or str(readings.name)]
    long = [dim for dim in dims if readings.sizes[dim] > 1] or dims[:1]
    label = _label(decoded, long[0]) if len(long) == 1 else None
    if label is not None:
        ids = [_text(cell) for cell in label.to_numpy().tolist()]
    else:
        ids = _grid_ids(decoded, readings, dims)
    if len(set(ids)) < len(ids) or not all(ids):
        ids = [str(i) for i in range(len(ids))]
    return ids


def _one_id(decoded: Any) -> str:
    named = (v for v in decoded.variables.values() if v.attrs.get("cf_role") == "timeseries_id")
    return next((_text(v.to_numpy().ravel().tolist()[0]) for v in named if v.size == 1), "")


def _label(decoded: Any, dim: str) -> Any | None:
    """The variable that names the stations: by its role, its dimension, or a common name."""
    along = {str(n): v for n, v in decoded.variables.items() if v.dims == (dim,)}
    for variable in along.values():
        if variable.attrs.get("cf_role") == "timeseries_id":
            return variable
    if dim in along:
        return along[dim]
    return next((along[name] for name in ID_NAMES if name in along), None)


def _text(cell: Any) -> str:
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace").strip()
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return str(cell).strip()


def _grid_ids(decoded: Any, readings: Any, dims: Sequence[str]) -> list[str]:
    """Cells such as ``52.5_13.25``: the coordinate along each dimension that is longer than one."""
    shape = [readings.sizes[dim] for dim in dims]
    words = []
    for dim, size in zip(dims, shape, strict=True):
        has_own = dim in decoded.variables and decoded[dim].dtype.kind in "fiu"
        steps = decoded[dim].to_numpy().tolist() if has_own else range(size)
        words.append([f"{step:.10g}" for step in steps])
    chosen = [i for i, size in enumerate(shape) if size > 1] or [0]
    places = np.indices(shape).reshape(len(shape), -1)
    return ["_".join(words[i][place[i]] for i in chosen) for place in places.T.tolist()]


def coordinates_of(
    decoded: Any, readings: Any, dims: Sequence[str]
) -> tuple[NDArray[np.float64] | None, CoordinateKind | None]:
    """Where the sensors are, when the file tells for every one of them."""
    for kind, *names in _PLACES:
        pair = [_place(decoded, words, dims, _UNITS[kind]) for words in names]
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
        called = {str(variable.attrs.get("standard_name", "")), str(name).lower()}
        unit = str(variable.attrs.get("units", units[0]))
        fits = variable.dtype.kind in "fiu" and set(variable.dims) <= set(dims)
        if fits and called & set(names) and unit.startswith(tuple(units)):
            return decoded[name]
    return None
