"""Cells: text to numbers, missing marks, sentinels, and readings to a time x sensor grid."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.config import Aggregate, Censored, Decimal, Duplicates
from flfl.io.columns import TEXTUAL, Columns

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

# What pandas reads as missing, in lower case; first as most files write it.
QUICK_MARKS = ["", "NaN", "nan", "NA", "N/A", "null", "NULL", "None"]
_QUICK_MARKS = pa.array(QUICK_MARKS)
_MISSING_MARKS = (
    "", "-", "--", "---", "nan", "-nan", "na", "n/a", "<na>", "#n/a", "#na", "null", "none", "nil",
    "n.v.", "k.a.", "k. a.", "no data", "nodata", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan",
)  # fmt: skip
_DECIMAL_COMMA = r"^[+-]?\d*,\d*([eE][+-]?\d+)?$"
_BELOW = r"^<\s*\d*[.,]?\d+$"
_BELOW_WORDS = r"^(<\s*(lod|loq|lld|mdl|dl|nwg|bg|ld)|bdl|lod|nd|n\.d\.|below (detection|lod).*)$"
_THOUSANDS = r"^[+-]?[1-9]\d{0,2},\d{3}$"


def to_numbers(
    columns: Columns,
    column: int,
    decimal: str = ".",
    missing_words: Sequence[str] = (),
    hint: str = "",
    below: dict[int, Array] | None = None,
) -> Array:
    """The numbers of one column, NaN where missing; refuses text, with a ``hint`` at the cause.

    Readings below a limit of detection (``<2.0``, ``<LOD``) are missing too, and their limits (inf:
    not given, NaN: none) are added to ``below`` under the column's number.
    """
    array = columns.arrays[column]
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    kind = array.type
    if kind == pa.float64():
        numbers: Array = array.to_numpy(zero_copy_only=False)
        return numbers
    if not pa.types.is_string(kind):
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            return _cast(array, ".", safe=False)
        if pa.types.is_null(kind):
            return np.full(len(array), np.nan)
        remedy = "Remove the column, or turn it into numbers"
        raise columns.error(f"the column holds {kind}, not numbers", remedy, column=column)
    nothing = pa.scalar(None, pa.string())
    try:
        # Nothing is missing, or the reader of the format has told so already.
        return _cast(array, decimal)
    except pa.ArrowInvalid:
        pass
    try:
        return _cast(pc.if_else(pc.is_in(array, _QUICK_MARKS), nothing, array), decimal)
    except pa.ArrowInvalid:
        pass
    # Rare marks and stray blanks are worth a second look, but not on every good file.
    marks = pa.array([*_MISSING_MARKS, *(word.strip().lower() for word in missing_words)])
    array = pc.replace_substring(pc.utf8_trim_whitespace(array), "\u2212", "-")
    array = pc.if_else(pc.is_in(pc.utf8_lower(array), marks), nothing, array)
    if below is not None:
        array, limits = _censored(array)
        below |= {} if limits is None else {column: limits}
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
    remedy = f"Correct the cell{commas}, or leave it empty if the reading is missing"
    if re.search(r"\d[,. '\u00a0]\d{3}\b", text):
        remedy += "; write numbers without thousands marks"
    elif not re.search(r"\d", text):
        words = _words_among_numbers(columns) if hint else []
        named = " and ".join(f"missing={word!r}" for word in words or [text[:40]])
        one = (
            "words that always mean so are" if len(words) > 1 else "a word that always means so is"
        )
        remedy += f"; {one} named by {named}"
    remedy += hint
    raise columns.error(f"{text[:40]!r} is not a number", remedy, row, column=column)


def _words_among_numbers(columns: Columns) -> list[str]:
    """The words in the columns of a wide table that hold numbers for the most part."""
    words = dict[str, None]()
    for array in columns.arrays:
        cells = [str(one or "").strip() for one in array.slice(0, 10_000).to_pylist()]
        odd = [one for one in cells if is_word(one)]
        if 2 * len(odd) < len(cells):
            words |= dict.fromkeys(one[:40] for one in odd)
    return list(words)[:8]


def _censored(array: pa.Array) -> tuple[pa.Array, Array | None]:
    """The texts without those that stand for a reading below a limit, and these limits."""
    lowered = pc.utf8_lower(array)
    number, word = (pc.match_substring_regex(lowered, p) for p in (_BELOW, _BELOW_WORDS))
    either = pc.fill_null(pc.or_(number, word), False)
    if not pc.any(either).as_py():
        return array, None
    digits = pc.replace_substring(pc.replace_substring_regex(array, r"^<\s*", ""), ",", ".")
    nothing = pa.scalar(None, pa.string())
    limits = pc.cast(pc.if_else(number, digits, nothing), pa.float64())
    known = limits.to_numpy(zero_copy_only=False)
    unknown = pc.fill_null(word, False).to_numpy(zero_copy_only=False)
    return pc.if_else(either, nothing, array), np.where(unknown, np.inf, known)


def _cast(array: pa.Array, decimal: str, safe: bool = True) -> Array:
    if decimal == ",":
        # A point beside decimal commas would be a thousands mark: 1.234 is not 1,234.
        if pc.any(pc.match_substring(array, ".")).as_py():
            raise pa.ArrowInvalid("both marks")
        array = pc.replace_substring(array, ",", ".")
    numbers: Array = pc.cast(array, pa.float64(), safe=safe).to_numpy(zero_copy_only=False)
    return numbers


def is_number(array: pa.Array) -> bool:
    """Whether the cells are numbers, by their type or as texts."""
    try:
        return len(_cast(array, ".")) > 0 and not pa.types.is_temporal(array.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False


def is_word(text: str) -> bool:
    """Whether a text is neither a number nor nothing.

    Examples
    --------
    >>> [is_word(text) for text in ("valid", "1,5", "n/a", "--", "")]
    [True, False, False, False, False]
    """
    return text.strip().lower() not in _MISSING_MARKS and not is_plain_number(text)


def is_plain_number(text: str) -> bool:
    """Whether a text is a number, with either decimal mark.

    Examples
    --------
    >>> [is_plain_number(text) for text in ("-1.5", "1,5", "1e-3", "a1", "1_2", "")]
    [True, True, True, False, False, False]
    """
    try:
        float(text.strip().replace(",", "."))
    except ValueError:
        return False
    return "_" not in text


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
    commas = columns.format == "csv" and columns.dialect.delimiter == ","
    if chosen != "auto" or columns.format not in TEXTUAL or commas or columns.split is not None:
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
    row, column = unsure
    problem = f"{str(columns.arrays[column][row])!r} can be read with a decimal comma or with a "
    problem += "comma for thousands, and no other cell tells which"
    remedy = (
        "Choose decimal=comma if it is a decimal comma, or write the numbers without thousands "
    )
    raise columns.error(problem, remedy + "marks", row, column=column)


def clean(
    columns: Columns, which: Sequence[int], values: Array, sentinels: Sequence[float]
) -> list[str]:
    """Refuse an infinite reading, set sentinels in ``values`` (columns x rows) to NaN, say so."""
    if not values.size:
        return []
    low, high = np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None)
    if np.isinf(low) or np.isinf(high):
        sensor, row = np.argwhere(np.isinf(values))[0].tolist()
        remedy = "Leave the cell empty if the reading is missing"
        raise columns.error("the reading is infinite", remedy, row, column=which[sensor])
    notes = []
    # Most tables hold none: their least and greatest reading tell.
    for sentinel in (number for number in sentinels if low <= number <= high):
        found = values == sentinel
        if count := int(found.sum()):
            values[found] = np.nan
            plural = "value" if count == 1 else "values"
            notes.append(f"{count} {plural} equal to {sentinel:g} read as missing.")
    return notes


def gather(
    cell: Rows,
    values: Array,
    cells: int,
    duplicates: Duplicates | Aggregate,
    texts: pa.Array | None = None,
    decimal: str = ".",
) -> tuple[Array, pa.Array | None]:
    """Put readings, each with its cell, on a grid of so many cells; their texts go along.

    Several readings of one cell become the first known one or the last, or their mean or median,
    with a new text.
    """
    known = np.flatnonzero(~np.isnan(values))
    cell = cell[known]
    row = np.full(cells, -1, dtype=np.intp)
    # Assigning backwards lets the first reading of a cell win.
    turn = 1 if duplicates == "last" else -1
    row[cell[::turn]] = known[::turn]
    grid = np.where(row < 0, np.nan, values[row])
    count = np.bincount(cell, minlength=cells)
    several = np.flatnonzero(count > 1) if duplicates in ("mean", "median") else count[:0]
    if len(several):
        if duplicates == "median":
            order = np.lexsort((values[known], cell))
            first = np.cumsum(count) - count
            ordered = values[known][order]
            low, high = ((first + (count - 1 + up) // 2)[several] for up in (0, 1))
            means = ordered[low] / 2 + ordered[high] / 2
        else:
            # Dividing before adding cannot overflow.
            shares = values[known] / count[cell]
            means = np.bincount(cell, weights=shares, minlength=cells)[several]
        several, means = several[means != grid[several]], means[means != grid[several]]
        grid[several] = means
    if texts is not None:
        texts = texts.take(pa.array(row, mask=row < 0))
    if texts is not None and len(several):
        written = np.full(cells, None, dtype=object)
        written[several] = [repr(mean).replace(".", decimal) for mean in means.tolist()]
        texts = pc.coalesce(pa.array(written, texts.type), texts)
    return grid, texts


def limits_of(
    below: dict[int, Array], which: Sequence[int], values: Array, censored: Censored
) -> tuple[Array | None, list[str]]:
    """Limits of detection of the readings below one (as ``values``), and a note on them.

    With ``half`` the readings become half of their limits, in place.
    """
    if not below:
        return None, []
    limits = np.full(values.shape, np.nan)
    for i, found in below.items():
        limits[list(which).index(i)] = found
    count, known = int((~np.isnan(limits)).sum()), np.isfinite(limits)
    plural = "reading lies" if count == 1 else "readings lie"
    what = "missing and never filled above the limit; censored=half takes half of it"
    if censored == "half":
        values[known] = limits[known] / 2
        limits[known], what = np.nan, "half the limit"
    limits[np.isinf(limits)] = np.nan
    told = f"{count} {plural} below a limit of detection: {what}."
    return (limits if (~np.isnan(limits)).any() else None), [told]


def on_grid(cell: Rows, limits: Array, cells: int) -> Array:
    """The limits on a grid of so many cells, each at its cell."""
    grid = np.full(cells, np.nan)
    there = ~np.isnan(limits)
    grid[cell[there]] = limits[there]
    return grid
