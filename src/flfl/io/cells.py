"""Cells: text to numbers, missing marks, sentinels, and readings to a time x sensor grid."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.io.columns import Columns, is_text

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Duplicates = Literal["refuse", "mean", "first"]
Decimal = Literal["auto", "point", "comma"]

# What pandas reads as missing, in lower case; first as most files write it.
_QUICK_MARKS = ("", "NaN", "nan", "NA", "N/A", "null", "NULL", "None")
_MISSING_MARKS = (
    "", "nan", "-nan", "na", "n/a", "<na>", "#n/a", "#na", "null", "none", "nil",
    "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan",
)  # fmt: skip
_DECIMAL_COMMA = r"^[+-]?\d*,\d*([eE][+-]?\d+)?$"
_THOUSANDS = r"^[+-]?[1-9]\d{0,2},\d{3}$"


def to_numbers(
    columns: Columns,
    column: int,
    decimal: str = ".",
    missing_words: Sequence[str] = (),
    hint: str = "",
) -> Array:
    """The numbers of one column, NaN where missing; refuses text.

    Parameters
    ----------
    columns : Columns
    column : int
    decimal : str
        The decimal mark.
    missing_words : sequence of str
        Further words, in lower case, that stand for a missing reading.
    hint : str
        What else may be wrong where a cell is no number.
    """
    array = columns.arrays[column]
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    if is_numeric(array.type):
        numbers: Array = pc.cast(array, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return numbers
    if not is_text(array.type):
        raise columns.error(
            f"the column holds {array.type}, not numbers",
            "Remove the column, or turn it into numbers",
            column=column,
        )
    try:
        return _cast(_without(array, array, _QUICK_MARKS), decimal)
    except pa.ArrowInvalid:
        pass
    # Rare marks and stray blanks are worth a second look, but not on every good file.
    array = pc.utf8_trim_whitespace(array)
    array = _without(array, pc.utf8_lower(array), (*_MISSING_MARKS, *missing_words))
    try:
        return _cast(array, decimal)
    except pa.ArrowInvalid:
        row = _first_text(array, decimal)
    text = str(array[row])
    if decimal == "." and re.fullmatch(_DECIMAL_COMMA, text):
        hint = "; choose decimal=comma if it has a decimal comma" + hint
    elif row == 0 and text[:1].isalpha():
        hint = "; if the row names units, remove it" + hint
    commas = " (the file writes decimal commas)" if decimal == "," else ""
    raise columns.error(
        f"{text[:40]!r} is not a number",
        f"Correct the cell{commas}, or leave it empty if the reading is missing; name a word that "
        f"always means so with missing_words{hint}",
        row,
        column,
    )


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _without(array: pa.Array, key: pa.Array, marks: Sequence[str]) -> pa.Array:
    missing = pc.is_in(key, value_set=pa.array(marks, array.type))
    return pc.if_else(missing, pa.scalar(None, array.type), array)


def _cast(array: pa.Array, decimal: str) -> Array:
    if decimal == ",":
        # A point beside decimal commas would be a thousands mark: 1.234 is not 1,234.
        if pc.any(pc.match_substring(array, ".")).as_py():
            raise pa.ArrowInvalid("both marks")
        array = pc.replace_substring(array, ",", ".")
    numbers: Array = pc.cast(array, pa.float64()).to_numpy(zero_copy_only=False)
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


def decimal_mark(columns: Columns, which: Sequence[int], chosen: Decimal = "auto") -> str:
    """``,`` when a file that is not comma-delimited writes numbers like 3,5; else ``.``.

    A file whose commas could all mark thousands (1,234) is refused: it has two readings.
    """
    if chosen != "auto" or columns.format != "csv" or columns.dialect.delimiter == ",":
        return "," if chosen == "comma" else "."
    unsure: tuple[int, int] | None = None
    for column in which:
        texts = pc.utf8_trim_whitespace(columns.arrays[column])
        commas = pc.match_substring_regex(texts, _DECIMAL_COMMA)
        if not pc.any(commas).as_py():
            continue
        thousands = pc.match_substring_regex(texts, _THOUSANDS)
        if pc.any(pc.and_not(commas, thousands)).as_py():
            return ","
        unsure = unsure or (int(pc.index(thousands, True).as_py()), column)
    if unsure is None:
        return "."
    raise columns.error(
        f"{str(columns.arrays[unsure[1]][unsure[0]])!r} can be read with a decimal comma or with a "
        "comma for thousands, and no other cell tells which",
        "Choose decimal=comma if it is a decimal comma, or write the numbers without thousands "
        "marks",
        *unsure,
    )


def clean(
    columns: Columns, which: Sequence[int], values: Array, sentinels: Sequence[float]
) -> list[str]:
    """Refuse the first infinite reading, set sentinels to NaN in place, and say how many.

    ``values`` holds one row for each of the columns ``which``.
    """
    infinite = np.argwhere(np.isinf(values))
    if len(infinite):
        sensor, row = infinite[0].tolist()
        remedy = "Leave the cell empty if the reading is missing"
        raise columns.error("the reading is infinite", remedy, row, which[sensor])
    notes = []
    for sentinel in sentinels:
        found = values == sentinel
        count = int(found.sum())
        if count:
            values[found] = np.nan
            plural = "value" if count == 1 else "values"
            notes.append(f"{count} {plural} equal to {sentinel:g} read as missing.")
    return notes


def gather(
    slot: Rows, sensor: Rows, values: Array, shape: tuple[int, int], duplicates: Duplicates
) -> tuple[Array, Rows]:
    """Put readings (slot, sensor, value) on a sensors x slots grid.

    Several readings of one cell become their mean, or the first one that is known.

    Returns
    -------
    grid : float array, sensors x slots
        NaN where no reading is known.
    row : integer array, sensors x slots
        Which reading a cell is a plain copy of; -1 where it is none or a mean of several.
    """
    sensors, slots = shape
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
    return grid.reshape(shape), row.reshape(shape)


def gather_texts(texts: pa.Array, row: Rows, numbers: Array, decimal: str) -> pa.Array:
    """Texts of one sensor's cells; a mean of several readings is written out anew."""
    picked = texts.take(pa.array(row, mask=row < 0))
    means = np.flatnonzero((row < 0) & ~np.isnan(numbers))
    if len(means):
        written = np.full(len(row), None, dtype=object)
        written[means] = [repr(mean).replace(".", decimal) for mean in numbers[means].tolist()]
        picked = pc.coalesce(picked, pa.array(written, texts.type))
    return picked
