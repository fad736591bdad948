"""Spreadsheets. In (.xlsx, .xlsm, .xls, .ods): every cell as the text that CSV would have. Out
(.xlsx, .ods): numbers as numbers, times as times."""

from __future__ import annotations

import csv
import datetime
import importlib.util
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from flfl.errors import InputError
from flfl.io.columns import PLAIN, Columns, listing
from flfl.io.files import Writer, suffix_of
from flfl.io.formats.text import read_text
from flfl.io.times import looks_like_date


def read_spreadsheet(path: Path, data: bytes, sheet: str | None = None) -> Columns:
    """The table of one sheet: the one that is named, or the only one that holds a table."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        problem, remedy = "a spreadsheet needs python-calamine", "pip install 'flfl[spreadsheet]'"
        raise InputError(problem, where=str(path), remedy=remedy) from None
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
        names = [name for name in book.sheet_names if sheet in (None, name)]
        sheets = {name: book.get_sheet_by_name(name).to_python() for name in names}
    except (CalamineError, ValueError, OSError) as error:
        problem = f"this is not a readable spreadsheet ({str(error)[:80]})"
        raise InputError(problem, where=str(path), remedy="Save the file again") from None
    if sheet is not None and not sheets:
        problem = f"there is no sheet {sheet!r}; the sheets are {listing(book.sheet_names)}"
        raise InputError(problem, where=str(path), remedy="Give sheet one of these names")
    tables, reasons = dict[str, Columns](), dict[str, str]()
    for name, rows in sheets.items():
        # A sheet of notes has no rows of several cells below one another.
        wide = [sum(cell != "" for cell in row) for row in rows]
        if sum(count >= 2 for count in wide) < 3 and sheet is None:
            continue
        try:
            tables[name] = _columns(Path(f"{path}, sheet {name}"), rows)
        except InputError as error:
            reasons[name] = str(error)
    if len(tables) > 1:
        tables = _with_times(tables) or tables
    if len(tables) != 1:
        problem = f"the sheets {listing(tables)} hold tables" if tables else "no sheet has a table"
        problem = next(iter(reasons.values()), problem) if not tables else problem
        remedy = f"Choose one with sheet, for example sheet={next(iter(tables), 'Sheet1')!r}"
        raise InputError(problem, where=str(path), remedy=remedy)
    ((name, columns),) = tables.items()
    told = [f"The table is in the sheet {name!r}."] if len(book.sheet_names) > 1 else []
    return _at(columns, path, told)


_ENGINES = {".xlsx": "openpyxl", ".ods": "odf"}
_LARGEST = (1_048_576, 16_384)
"""Rows and columns that a sheet can have."""


def check_sheet_extra(path: Path) -> None:
    """Refuse to go on where the package that writes such a sheet is not installed."""
    if importlib.util.find_spec(_ENGINES[suffix_of(path)]) is None:
        problem, remedy = "writing a spreadsheet needs a package", "pip install 'flfl[spreadsheet]'"
        raise InputError(problem, where=str(path), remedy=remedy)


def sheet_writer(
    path: Path,
    names: Sequence[str],
    blocks: Iterable[Sequence[pa.Array]],
    numbers: Collection[int],
    decimal: str = ".",
    moments: Mapping[str, datetime.datetime] | None = None,
) -> Writer:
    """Writes a header, and blocks of columns of text one below another into one sheet.

    The columns ``numbers`` hold numbers; the first column's texts become the times ``moments``.
    """
    check_sheet_extra(path)
    parts = [
        pd.DataFrame(
            {
                i: _typed(cells, i in numbers, decimal, moments if i == 0 else None)
                for i, cells in enumerate(block)
            }
        )
        for block in blocks
    ]
    frame = pd.concat(parts, ignore_index=True).set_axis(list(names), axis=1)
    if len(frame) >= _LARGEST[0] or frame.shape[1] > _LARGEST[1]:
        problem = f"a sheet does not hold {len(frame)} rows and {frame.shape[1]} columns"
        raise InputError(problem, where=str(path), remedy="Write .csv or .parquet")
    engine: Any = _ENGINES[suffix_of(path)]
    return lambda file: frame.to_excel(file, sheet_name="readings", index=False, engine=engine)


def _typed(
    cells: pa.Array, number: bool, decimal: str, moments: Mapping[str, datetime.datetime] | None
) -> Any:
    texts = pd.Series(pc.cast(cells, pa.string()).to_pandas(), dtype=object)
    if number:
        return pd.to_numeric(texts.str.replace(decimal, ".").replace("", None), errors="coerce")
    return texts.map(lambda text: moments.get(text, text)) if moments else texts


def _with_times(tables: dict[str, Columns]) -> dict[str, Columns]:
    """Those with a time in their first column."""
    return {name: one for name, one in tables.items() if looks_like_date(str(one.arrays[0][-1]))}


def _at(columns: Columns, path: Path, notes: list[str]) -> Columns:
    return replace(
        columns, path=path, format="sheet", dialect=PLAIN, notes=(*columns.notes, *notes)
    )


def _columns(path: Path, rows: list[list[Any]]) -> Columns:
    """The same search for header, titles and remarks as in a text file."""
    lines = io.StringIO()
    csv.writer(lines, delimiter="\t", lineterminator="\n").writerows(
        [[_text(cell) for cell in row] for row in rows]
    )
    return read_text(path, lines.getvalue().encode("utf-8"))


def _text(cell: Any) -> str:
    """A cell as text: a number in the fewest digits that give it back, a time in ISO 8601."""
    if isinstance(cell, bool):
        return str(cell)
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(cell)
    if isinstance(cell, datetime.datetime):
        # A spreadsheet's day number is rounded to microseconds.
        rounded = (cell + datetime.timedelta(microseconds=500_000)).replace(microsecond=0)
        return rounded.isoformat(sep=" ")
    if isinstance(cell, datetime.timedelta):
        seconds = round(cell.total_seconds())
        return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    return str(cell).replace("\t", " ").replace("\n", " ")
