"""Cells: text to numbers, missing marks, sentinels, and readings to a time x sensor grid."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.marks import MISSING_MARKS
from flfl.io.rawfile import RawFile

Duplicates = Literal["refuse", "mean", "first"]
Decimal = Literal["auto", "point", "comma"]

_QUICK_MARKS = ("", "NaN", "nan", "NA", "N/A", "null", "NULL", "None")
_DECIMAL_COMMA = r"^[+-]?\d*,\d*([eE][+-]?\d+)?$"
_MARK_OF = {".": "", ",": " (the file writes decimal commas)"}
_THOUSANDS = r"^[+-]?[1-9]\d{0,2},\d{3}$"


def to_numbers(
    raw: RawFile, column: int, decimal: str = ".", hint: str = ""
) -> NDArray[np.float64]:
    """The numbers of one column, NaN where missing; refuses text."""
    array, name = raw.columns[column], raw.names[column]
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        numbers = _parse_texts(raw, array, name, decimal, hint)
    elif pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    elif is_numeric(array.type):
        numbers = pc.cast(array, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    else:
        raise InputError(
            f"the column holds {array.type}, not numbers",
            where=raw.where(column=name),
            remedy="Remove the column, or turn it into numbers",
        )
    return np.asarray(numbers, dtype=np.float64)


def refuse_infinite(raw: RawFile, columns: Sequence[int], matrix: NDArray[np.float64]) -> None:
    """Refuse the first infinite reading of a sensors x rows matrix."""
    infinite = np.argwhere(np.isinf(matrix))
    if len(infinite):
        sensor, row = infinite[0].tolist()
        raise InputError(
            "the reading is infinite",
            where=raw.where(row, raw.names[columns[sensor]]),
            remedy="Leave the cell empty if the reading is missing",
        )


def is_numeric(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _parse_texts(
    raw: RawFile, array: pa.Array, name: str, decimal: str, hint: str
) -> NDArray[np.float64]:
    array = _without(array, pc.is_in(array, value_set=pa.array(_QUICK_MARKS, array.type)))
    try:
        return _cast(array, decimal)
    except pa.ArrowInvalid:
        pass
    # Rare marks and stray blanks are worth a second look, but not on every good file.
    array = pc.utf8_trim_whitespace(array)
    lowered = pc.utf8_lower(array)
    marks = pa.array(MISSING_MARKS + raw.missing_words, array.type)
    array = _without(array, pc.is_in(lowered, value_set=marks))
    try:
        return _cast(array, decimal)
    except pa.ArrowInvalid:
        row = _first_text(array, decimal)
        text = str(array[row])
        raise InputError(
            f"{text[:40]!r} is not a number",
            where=raw.where(row, name),
            remedy=f"Correct the cell{_MARK_OF[decimal]}, or leave it empty if the reading is "
            "missing; name a word that always means so with missing_words"
            f"{_guess(row, text, decimal)}{hint}",
        ) from None


def _guess(row: int, text: str, decimal: str) -> str:
    """What such a cell often is, and what to do then."""
    if decimal == "." and re.fullmatch(_DECIMAL_COMMA, text):
        return "; choose decimal=comma if it has a decimal comma"
    if row == 0 and text[:1].isalpha():
        return "; if the row names units, remove it"
    return ""


def _without(array: pa.Array, missing: pa.Array) -> pa.Array:
    if not pc.any(missing).as_py():
        return array
    return pc.if_else(missing, pa.scalar(None, array.type), array)


def _cast(array: pa.Array, decimal: str) -> NDArray[np.float64]:
    if decimal == ",":
        # A point beside decimal commas would be a thousands mark: 1.234 is not 1,234.
        if pc.any(pc.match_substring(array, ".")).as_py():
            raise pa.ArrowInvalid("both marks")
        array = pc.replace_substring(array, ",", ".")
    numbers: NDArray[np.float64] = pc.cast(array, pa.float64()).to_numpy(zero_copy_only=False)
    return numbers


def _first_text(array: pa.Array, decimal: str) -> int:
    """Row of the first cell that is no number, by halving."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _cast(array.slice(low, middle - low), decimal)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def decimal_mark(raw: RawFile, columns: Sequence[int], chosen: Decimal = "auto") -> str:
    """``,`` when a file that is not comma-delimited writes numbers like 3,5; else ``.``.

    A file whose commas could all mark thousands (1,234) is refused: it has two readings.
    """
    if chosen != "auto" or raw.format != "csv" or raw.delimiter == ",":
        return "," if chosen == "comma" else "."
    unsure: tuple[int, int] | None = None
    for column in columns:
        texts = pc.utf8_trim_whitespace(raw.columns[column])
        if pc.any(pc.match_substring_regex(texts, _DECIMAL_COMMA)).as_py():
            thousands = pc.match_substring_regex(texts, _THOUSANDS)
            if pc.any(
                pc.and_not(pc.match_substring_regex(texts, _DECIMAL_COMMA), thousands)
            ).as_py():
                return ","
            unsure = unsure or (column, int(pc.index(thousands, True).as_py()))
    if unsure is not None:
        column, row = unsure
        raise InputError(
            f"{str(raw.columns[column][row])!r} can be read with a decimal comma or with a comma "
            "for thousands, and no other cell tells which",
            where=raw.where(row, raw.names[column]),
            remedy="Choose decimal=comma if it is a decimal comma, or write the numbers without "
            "thousands marks",
        )
    return "."


def drop_sentinels(values: NDArray[np.float64], sentinels: Sequence[float]) -> tuple[str, ...]:
    """Set values equal to a sentinel to NaN, in place; say how many."""
    notes = []
    for sentinel in sentinels:
        found = values == sentinel
        count = int(found.sum())
        if count:
            values[found] = np.nan
            plural = "value" if count == 1 else "values"
            notes.append(f"{count} {plural} equal to {sentinel:g} read as missing.")
    return tuple(notes)


def gather(
    slot: NDArray[np.intp],
    sensor: NDArray[np.intp],
    values: NDArray[np.float64],
    shape: tuple[int, int],
    duplicates: Duplicates,
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Put readings (slot, sensor, value) on a sensors x slots grid.

    Several readings of one cell become their mean, or the first one that is known.

    Returns
    -------
    grid : float array, sensors x slots
        NaN where no reading is known.
    row : integer array, sensors x slots
        Which reading a cell is a plain copy of; -1 where it is none or a mean of several.
    """
    slots, sensors = shape
    known = np.flatnonzero(~np.isnan(values))
    cell = sensor[known] * slots + slot[known]
    grid = np.full(sensors * slots, np.nan)
    row = np.full(sensors * slots, -1, dtype=np.intp)
    # Assigning backwards lets the first reading of a cell win.
    row[cell[::-1]] = known[::-1]
    filled = row >= 0
    grid[filled] = values[row[filled]]
    if duplicates == "mean":
        count = np.bincount(cell, minlength=len(grid))
        several = count > 1
        if several.any():
            # Dividing before adding cannot overflow.
            shares = values[known] / count[cell]
            means = np.bincount(cell, weights=shares, minlength=len(grid))[several]
            alike = means == grid[several]
            grid[several] = means
            row[np.flatnonzero(several)[~alike]] = -1
    return grid.reshape(sensors, slots), row.reshape(sensors, slots)


def gather_texts(
    texts: pa.Array, row: NDArray[np.intp], grid: NDArray[np.float64], decimal: str
) -> pa.Array:
    """Texts of one sensor's cells; a mean of several readings is written out anew."""
    picked = texts.take(pa.array(row, mask=row < 0))
    means = np.flatnonzero((row < 0) & ~np.isnan(grid))
    if len(means):
        written = np.full(len(row), None, dtype=object)
        written[means] = [repr(mean).replace(".", decimal) for mean in grid[means].tolist()]
        picked = pc.coalesce(picked, pa.array(written, texts.type))
    return picked
