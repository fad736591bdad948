"""DataFrames in: the same named columns as a file gives, so that the same checks apply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from flfl.errors import InputError
from flfl.io.rawfile import RawFile


def raw_frame(label: str, columns: list[tuple[str, Any]]) -> RawFile:
    """Named pandas columns as a raw file; ``label`` stands for the path in messages."""
    raw = RawFile(Path(label), "parquet", [name.strip() for name, _ in columns], list)
    if not columns or len(columns[0][1]) == 0:
        raise InputError("there are no rows", where=label, remedy="Give at least one")
    arrays = [_arrow(raw, name, series) for name, series in columns]
    raw.load = lambda: arrays
    return raw


def _arrow(raw: RawFile, name: str, series: Any) -> pa.Array:
    try:
        array = pa.array(series.array, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        kinds = {type(cell).__name__ for cell in series.dropna()}
        raise InputError(
            f"the column mixes {', '.join(sorted(kinds))}",
            where=raw.where(column=name),
            remedy="Turn it into numbers, with NaN where one is missing",
        ) from None
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def plain_index(index: pd.Index) -> pd.Index:
    """An index that holds times as stamps, numbers or texts."""
    if isinstance(index, pd.MultiIndex):
        raise InputError(
            "the index has several levels",
            where="the DataFrame",
            remedy="Give one row a time and one column a sensor",
        )
    if isinstance(index, pd.PeriodIndex):
        return pd.DatetimeIndex(index.to_timestamp())
    if isinstance(index, pd.TimedeltaIndex):
        seconds: pd.Index = pd.Index(index.total_seconds())
        return seconds
    return index
