"""Spreadsheets (.xlsx, .xlsm, .xls, .ods) in: every cell as the text that CSV would have."""

from __future__ import annotations

import csv
import datetime
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

from flfl.errors import InputError
from flfl.io.columns import PLAIN, Columns, listing
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
