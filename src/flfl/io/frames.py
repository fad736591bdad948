"""Tables of Python: any data frame through narwhals, xarray, NumPy; and back to the same kind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from flfl.errors import InputError
from flfl.io.times import TIME_NAMES

Back = Callable[[pd.DataFrame], Any]
"""Turns a filled time x sensor table into the kind of frame that was given."""

WANTED = (
    "Give a path, a DataFrame (pandas, polars, any that narwhals knows), an xarray.DataArray, a"
    " list of dicts or an array of time x sensor"
)


def as_pandas(given: Any) -> tuple[pd.DataFrame, Back | None]:
    """A table as pandas has it, and the way back; None where it was of pandas or of plain dicts.

    Examples
    --------
    >>> frame, back = as_pandas([[1.0, 2.0], [3.0, 4.0]])
    >>> frame.shape, back(frame).tolist()
    ((2, 2), [[1.0, 2.0], [3.0, 4.0]])
    """
    if isinstance(given, pd.Series):
        given = given.to_frame("value" if given.name is None else given.name)
    if isinstance(given, pd.DataFrame):
        return _levelled(given), None
    if isinstance(given, dict) or (
        isinstance(given, list) and given and all(isinstance(row, dict) for row in given)
    ):
        return _from_dicts(given), None
    xarray = sys.modules.get("xarray")
    if xarray is not None and isinstance(given, xarray.Dataset):
        given = _only_variable(given)
    if xarray is not None and isinstance(given, xarray.DataArray):
        return _from_xarray(given)
    if isinstance(given, np.ndarray | list | tuple):
        return _from_array(given), pd.DataFrame.to_numpy
    import narwhals as nw

    frame = nw.from_native(given, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        problem = f"{_kind(given)} is no table of readings"
        raise InputError(problem, where="readings", remedy=WANTED)
    backend = frame.implementation

    def back(table: pd.DataFrame) -> Any:
        named = table.index.name in frame.columns
        whole = table.reset_index() if named else table
        columns: dict[str, Any]
        columns = {str(name): whole.iloc[:, i] for i, name in enumerate(whole.columns)}
        if named and len(frame) == len(table):
            columns[str(table.index.name)] = frame[str(table.index.name)].to_list()
        elif named and isinstance(table.index, pd.DatetimeIndex):
            columns[str(table.index.name)] = table.index.to_pydatetime().tolist()
        made = {name: _cells(column) for name, column in columns.items()}
        return nw.from_dict(made, backend=backend).to_native()

    return frame.to_pandas(), back


def _levelled(frame: pd.DataFrame) -> pd.DataFrame:
    """Levels of an index as columns: a time and a sensor in each row make a long table."""
    if not isinstance(frame.index, pd.MultiIndex) or None in frame.index.names:
        return frame
    flat = frame.reset_index()
    return flat.rename(columns={frame.columns[0]: "value"}) if frame.shape[1] == 1 else flat


def _from_dicts(given: Any) -> pd.DataFrame:
    try:
        return pd.DataFrame(given)
    except (TypeError, ValueError) as error:
        problem = f"the columns make no table ({str(error)[:60]})"
        raise InputError(problem, where="readings", remedy=WANTED) from None


def _only_variable(given: Any) -> Any:
    """The variable of readings in a Dataset; refuses several."""
    names = [str(name) for name, one in given.data_vars.items() if one.dtype.kind in "fiu"]
    if len(names) != 1:
        problem = f"the Dataset has the variables {', '.join(names) or '(none of numbers)'}"
        remedy = f"Give one of them, for example readings[{(names or ['pm10'])[0]!r}]"
        raise InputError(problem, where="readings", remedy=remedy)
    return given[names[0]]


def _cells(column: Any) -> list[Any]:
    """Plain values; no reading is None."""
    cells = column if isinstance(column, list) else column.tolist()
    return [None if cell != cell else cell for cell in cells]


def _kind(given: Any) -> str:
    kind = type(given)
    article = "an" if kind.__name__[0].lower() in "aeiou" else "a"
    return (
        f"{article} {kind.__name__} ({kind.__module__.split('.')[0]})"
        if given is not None
        else "None"
    )


def _from_array(given: Any) -> pd.DataFrame:
    try:
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        problem = "the array holds something other than numbers"
        raise InputError(problem, where="readings", remedy=WANTED) from None
    if array.ndim != 2:
        problem = f"the array has {array.ndim} dimensions, not 2"
        raise InputError(problem, where="readings", remedy=WANTED)
    return pd.DataFrame(array)


def _from_xarray(given: Any) -> tuple[pd.DataFrame, Back]:
    """Two dimensions, of which one is the time: by its type or by its name, else the first."""
    if given.ndim != 2:
        problem = f"the DataArray has the dimensions {', '.join(map(str, given.dims))}"
        remedy = "Give two, a time and a sensor; stack the others"
        raise InputError(problem, where="readings", remedy=remedy)
    dated = [d for d in given.dims if d in given.coords and given[d].dtype.kind == "M"]
    named = [d for d in given.dims if str(d).lower() in TIME_NAMES]
    time = next(iter([*dated, *named, given.dims[0]]))
    turned = given.transpose(time, ...)

    def back(table: pd.DataFrame) -> Any:
        if len(table) == turned.sizes[time]:
            return turned.copy(data=table.to_numpy()).transpose(*given.dims)
        # Rows were merged or inserted: the times are others.
        coords = {name: one for name, one in turned.coords.items() if time not in one.dims}
        made = type(given)(table.to_numpy(), coords, turned.dims, given.name, given.attrs)
        return made.assign_coords({time: table.index.to_numpy()}).transpose(*given.dims)

    return turned.to_pandas().rename_axis(columns=None), back
