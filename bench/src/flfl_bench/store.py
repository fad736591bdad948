"""Finished cells on disk: one small file each, and the table made of them.

A cell's file appears whole or not at all, so a run that is killed loses nothing but the cells
it was at. The table is made of these files alone, in the order of the experiment: it does not
matter in which order, or in how many runs, they were finished.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from flfl.errors import InputError, explained
from flfl.io.files import Writer, write_files
from flfl_bench.cells import Cell, json_text
from flfl_bench.experiment import Experiment
from flfl_bench.exposure import READ

_TEXT, _REAL, _COUNT = pa.string(), pa.float64(), pa.int64()
SCORES: dict[str, pa.DataType] = {
    "data": _TEXT,
    "pattern": _TEXT,
    "rate": _REAL,
    "seed": _COUNT,
    "label": _TEXT,
    "method": _TEXT,
    "options": _TEXT,
    "settings": _TEXT,
    "block_length": _COUNT,
    "owners": _TEXT,
    "sensors": _COUNT,
    "slots": _COUNT,
    "readings": _COUNT,
    "mae": _REAL,
    "rmse": _REAL,
    "coverage": _REAL,
    "interval_width": _REAL,
    "alone_mae": _REAL,
    "sensor_hidden": pa.list_(pa.int32()),
    "sensor_error": pa.list_(pa.float32()),
    "sensor_alone_error": pa.list_(pa.float32()),
    **dict.fromkeys(READ, _REAL),
    "readings_exposed": _REAL,
    "numbers_per_reading": _REAL,
    "rounds": _COUNT,
    "exchanges": _TEXT,
    "bytes_up": _COUNT,
    "bytes_down": _COUNT,
    "failed": _TEXT,
    "notes": _TEXT,
    "flfl": _TEXT,
    "commit": _TEXT,
    "numpy": _TEXT,
    "scipy": _TEXT,
    "python": _TEXT,
}
"""Columns that are the same whenever the same experiment is run with the same versions."""
TIMINGS: dict[str, pa.DataType] = {
    "seconds": _REAL,
    "tuning_seconds": _REAL,
    "cpu_seconds": _REAL,
    "audit_seconds": _REAL,
    "peak_mb": _REAL,
    "cores": _COUNT,
    "cpu": _TEXT,
}
"""Columns that tell of one run on one machine."""
_METADATA = b"flfl"


class Store:
    """The finished cells of a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.cells = self.folder / "cells"
        with explained("cannot make the folder", where=str(folder), remedy="Choose another --out"):
            self.cells.mkdir(parents=True, exist_ok=True)

    @property
    def rows(self) -> Path:
        """The table of all columns."""
        return self.folder / "rows.parquet"

    def path(self, cell: Cell) -> Path:
        """Where the result of a cell is kept."""
        return self.cells / f"{cell.key}.json"

    def keep(self, cell: Cell, row: Mapping[str, Any]) -> None:
        """Keep the result of a cell, for good."""
        content = json_text({"definition": cell.definition, "row": dict(row)}).encode()
        write_files({self.path(cell): content_writer(content)})

    def find(self, cell: Cell) -> dict[str, Any] | None:
        """The result of a cell, None where it is not finished."""
        path = self.path(cell)
        if not path.exists():
            return None
        try:
            return dict(json.loads(path.read_bytes())["row"])
        except (ValueError, KeyError, TypeError):
            raise InputError(
                "this is not the result of a cell", where=str(path), remedy="Delete the file"
            ) from None

    def discard(self, cells: Iterable[Cell]) -> int:
        """Forget results, so that they are run again; returns how many there were."""
        paths = {self.path(cell) for cell in cells}
        found = [path for path in paths if path.exists()]
        for path in found:
            path.unlink()
        return len(found)

    def table(self, experiment: Experiment) -> pa.Table:
        """All finished cells of the experiment, in its order."""
        found = ((cell, self.find(cell)) for cell in experiment.cells)
        rows = [row | _named(cell) for cell, row in found if row is not None]
        about = {
            "name": experiment.name,
            "title": experiment.title,
            "views": experiment.views,
            "cells": len(experiment.cells),
        }
        schema = pa.schema(
            list((SCORES | TIMINGS).items()), metadata={_METADATA: json_text(about).encode()}
        )
        return pa.Table.from_pylist(rows, schema=schema)

    def write(self, experiment: Experiment) -> pa.Table:
        """Write ``rows.parquet`` and, without what differs from run to run, ``scores.parquet``."""
        table = self.table(experiment)
        scores = self.folder / "scores.parquet"
        write_files({self.rows: _parquet(table), scores: _parquet(table.select(list(SCORES)))})
        return table


def content_writer(content: bytes) -> Writer:
    """Writes these bytes."""

    def write(file: BinaryIO) -> None:
        file.write(content)

    return write


def _parquet(table: pa.Table) -> Writer:
    return lambda file: pa_parquet.write_table(table, file, compression="zstd")


def _named(cell: Cell) -> dict[str, Any]:
    """What the experiment calls the cell; a failed one knows nothing else of itself."""
    return {
        "data": cell.source.name,
        "pattern": cell.pattern,
        "rate": cell.rate,
        "seed": cell.seed,
        "label": cell.label,
        "method": cell.method,
        "options": cell.options,
        "block_length": cell.block_length,
        "owners": cell.owners,
    }


def read_rows(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Rows of a ``rows.parquet``, and what its experiment says of itself."""
    with explained("the file cannot be read", where=str(path), remedy="Check the name"):
        try:
            table = pa_parquet.read_table(path)
        except pa.ArrowInvalid:
            raise InputError("this is no Parquet file", where=str(path)) from None
    metadata = table.schema.metadata or {}
    if _METADATA not in metadata:
        raise InputError(
            "these are no rows of `flfl-bench run`", where=str(path), remedy="Give a rows.parquet"
        )
    missing = [name for name in SCORES | TIMINGS if name not in table.column_names]
    if missing:
        raise InputError(
            f"the column {missing[0]} is missing",
            where=str(path),
            remedy="Give a rows.parquet; a scores.parquet holds no times",
        )
    rows = table.to_pandas()
    for name in rows.columns.intersection([n for n, t in SCORES.items() if t == _TEXT]):
        # pandas says nan where a text is missing.
        rows[name] = rows[name].astype(object).where(rows[name].notna(), None)
    return rows, json.loads(metadata[_METADATA])
