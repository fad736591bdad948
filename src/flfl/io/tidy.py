"""What agencies' files have around their readings: units, flags, split times, sums, turned tables.

Each step takes the columns of a file and gives back simpler ones, with a note on what it decided. A
step that finds nothing to do gives back what it got.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.io.cells import is_plain_number, is_word
from flfl.io.columns import (
    PARAMETER_NAMES,
    SENSOR_NAMES,
    TEXTUAL,
    UNIT_NAMES,
    VALUE_NAMES,
    Columns,
    drop,
    key,
    listing,
)
from flfl.io.quantities import TYPES, is_quantity, kinds_by_station
from flfl.io.shapes import MIDNIGHT, refuse_places, times_down
from flfl.io.times import TIME_NAMES, looks_like_date, looks_like_time

DATE_NAMES = ("date", "day", "datum", "tag", "fecha", "jour", "date local", "dia", "data")
CLOCK_NAMES = ("time", "hour", "clock", "uhrzeit", "zeit", "stunde", "std", "hora", "heure",
               "hour of day", "time local", "start hour", "hora utc", "hr", "hh", "h")  # fmt: skip
_CLOCK = r"^\s*'?([01]?\d|2[0-4])([:.]?\d{2}|([:.]\d{2}){2})?'?\s*([AaPp][Mm]|UTC)?\s*$"
_MINUTES = ("minute", "minutes", "min", "minuto", "mm", "mn")
_PARTS = (("year", "jahr", "año", "ano", "année", "yyyy", "yy", "yr"),
          ("month", "monat", "mes", "mois", "mm", "mo"),
          ("day", "tag", "día", "dia", "jour", "dd", "dy"))  # fmt: skip
_DAY_OF_YEAR = ("doy", "day of year", "julian day", "jday", "yday", "jd")
_COUNTS = ("no", "nr", "#", "row", "index", "id", "lfd nr", "unnamed: 0", "rownum",
           "record", "recnum", "recno", "record id", "entry id")  # fmt: skip
_NO_SENSOR = re.compile(
    r"year|month|week|day|hour|minute|second|weekday|dow|doy|wochentag|jahr|monat|jday"
    r"|day of (week|year)|julian day|to date|bis|ende|hasta"
    r"|(.* )?(end|eind|fin)( (time|date|hour))?|end .*|date (de )?fin|timestamp end"
    r"|einddatumtijd|(.* )?(utc|tz|timezone|time zone) ?offset"
    r"|time ?zone|tz( cd)?|batt(ery)?.*|rssi|snr|uptime|firmware.*|signal( strength)?"
    r"|lat|latitude|latitud|lon|lng|long|longitude|longitud|alt|altitude|elev|elevation"
)
"""Names (as :func:`~flfl.io.columns.key` has them) of what is no reading in a wide table."""
_ABOUT = re.compile(
    r"(?P<of>.+) (std|stdev|stddev|sd|sem|unc|uncertainty|n|nobs|count|samples|min|max)"
)
"""Names of what is said of the readings of a sensor."""
_REMARKS = ("comment", "comments", "remark", "remarks", "note", "notes", "bemerkung", "bemerkungen",
            "kommentar", "anmerkung", "remarque", "commentaire", "observaciones", "comentario",
            "comentarios", "nota", "notas")  # fmt: skip
_UNIT = re.compile(
    r"[\[(]?\s*(%|°?\s?[cfk]|deg.*|[µμu]g\s?(/|m|\.|\s).*|mg\s?(/|m|\.|\s).*|ng.*|pp[bmt].*|g/.*|[hk]?pa"
    r"|mbar|bar|mmhg|mm|cm|m|km|m/s|km/h|mph|kn|ft|nmi|sec|w/?m.*|lux|db.*|v|mv|1/m|#.*|counts?.*|aqi"
    r"|number|none|n/?a|-)\s*[\])]?",
    re.IGNORECASE,
)
_UNIT_LABEL = re.compile(
    r"|units?|einheit(en)?|unité|unidad(es)?|utc|local|cet|mez|-|\[.*\]|\(.*\)"
    r"|[ymdhst:/. -]{4,}|tt\.mm\..*|jj.*",
    re.IGNORECASE,
)
_UNITS = re.compile(r"(^|[ _])(units?|einheit)([ _.]?\d+)?$", re.IGNORECASE)
_IN_NAME = re.compile(r".*[\[(]\s*([^\[\]()]+?)\s*[\])]\s*")
_JUDGED = re.compile(
    r"(?P<before>.*?)[ _.\-:/]*(?:qc|qa|quality|flags?|status|valid|validity|code)"
    r"(?P<number>[ _.]?\d*)|(?:qc|qa|quality|flags?|status|valid|validity)[ _.\-:/]+(?P<after>.+)",
    re.IGNORECASE,
)
_SUMMARY = re.compile(
    r"(network|all|row|overall|gesamt)?[ _\-]*(total|sum|summe|somme|suma|mean|average|avg|mittel"
    r"(wert)?|moyenne|media|promedio|median)[ _\-]*(of all|all|network|sensors|stations)?",
    re.IGNORECASE,
)


def tidy(columns: Columns, wide: bool = False) -> Columns:
    """All steps that look at a file's columns alone, in their order; ``wide``: as it was said."""
    if columns.format not in TEXTUAL:
        return columns
    refuse_places(columns)
    across = [] if wide else [_across]
    before = [_without_empty, _without_headers, _unit_rows, _dated, *across, _joined_times]
    for step in (*before, _without_remarks, _one_station, _unit_columns):
        columns = step(columns)
    return columns


def _across(columns: Columns) -> Columns:
    return times_down(columns, SENSOR_NAMES, (*DATE_NAMES, *TIME_NAMES))


def is_bare(columns: Columns) -> bool:
    """Whether a file is a time and sensors to the letter: no column has a name that means more."""
    said = {*TIME_NAMES, *DATE_NAMES, *CLOCK_NAMES, *sum(_PARTS, ()), *_COUNTS, *_REMARKS, ""}
    said |= {*PARAMETER_NAMES, *TYPES, *UNIT_NAMES}
    said = set(map(key, said))
    for name in columns.names[1:]:
        beside = _JUDGED.fullmatch(name) or _UNITS.search(name) or _NO_SENSOR.fullmatch(key(name))
        if key(name) in said or beside or is_quantity(name) or _ABOUT.fullmatch(key(name)):
            return False
    return (
        len(columns.names) > 1
        and not kinds_by_station(columns, 0)
        and not looks_like_date(columns.names[1])
    )


def _blank(array: pa.Array) -> bool:
    return not pc.any(pc.not_equal(pc.utf8_trim_whitespace(array), "")).as_py()


def _without_empty(columns: Columns) -> Columns:
    """Columns with neither a name nor a cell go, as a delimiter at the end of a line makes them."""
    empty = [i for i, name in enumerate(columns.names) if i and not name]
    gone = [i for i in empty if _blank(columns.arrays[i])]
    if not gone:
        return columns
    count = "1 column" if len(gone) == 1 else f"{len(gone)} columns"
    return drop(columns, gone, f"{count} without a name and without a cell left out.")


def _without_headers(columns: Columns) -> Columns:
    """Rows that repeat the names of the columns go, as files that were put together have them."""
    same = pc.equal(columns.arrays[0], columns.names[0] or None)
    if not pc.any(same).as_py():
        return columns
    for array, name in zip(columns.arrays[1:], columns.names[1:], strict=True):
        same = pc.and_(same, pc.equal(array, name))
    if pc.all(same).as_py() or not pc.any(same).as_py():
        return columns
    told = f"{pc.sum(same).as_py()} rows repeat the column names; left out."
    left = columns.pick(np.flatnonzero(~same.to_numpy(zero_copy_only=False)))
    return replace(left, notes=(*columns.notes, told))


def _unit_rows(columns: Columns) -> Columns:
    """Rows below the names that hold words only, and no time: units, and what loggers add.

    Units are also taken from names such as ``a (ug/m3)``.
    """
    top = min(5, len(columns.arrays[0]))
    rows = list(takewhile(_is_words, (_row(columns, i) for i in range(top))))
    count, named = len(rows), [row for row in rows if _names_units(row)]
    # Words under every column may also be readings in words; a unit or a time below tells.
    later = str(columns.arrays[columns.find(TIME_NAMES) or 0][count]).strip() if count < top else ""
    words = count and all(is_word(cell) for row in rows for cell in row if cell)
    if named or (words and looks_like_time(later)):
        cells = (named or [()])[0][1:]
        units = ("", *(u.strip("[]() ") if u != "-" and _UNIT.fullmatch(u) else "" for u in cells))
        told = f"The first row names units: {listing(dict.fromkeys(filter(None, units)))}."
        labels = [row[1:] for row in rows if len(set(row[1:])) == len(row) - 1 and all(row[1:])]
        if labels and [*columns.names[1:]] == [str(i) for i in range(1, len(columns.names))]:
            # The columns were numbered; the sensors' names stand below.
            columns = replace(columns, names=(columns.names[0], *labels[0]))
        if not named:
            told = f"What stands below the column names is not read: {listing(rows[0])}."
        columns = columns.pick(np.arange(count, len(columns.arrays[0])))
        return replace(columns, units=units if named else None, notes=(*columns.notes, told))
    inside = [_IN_NAME.fullmatch(name) for name in columns.names[1:]]
    if columns.units is None and inside and all(m and _UNIT.fullmatch(m[1]) for m in inside):
        return replace(columns, units=("", *(m[1] for m in inside if m)))
    return columns


def _row(columns: Columns, row: int) -> tuple[str, ...]:
    return tuple(str(array[row].as_py() or "").strip() for array in columns.arrays)


def _is_words(row: Sequence[str]) -> bool:
    """Whether a row has neither a time nor a number, and something else."""
    return any(row) and not any(map(is_plain_number, row)) and not any(map(looks_like_time, row))


def _names_units(row: Sequence[str]) -> bool:
    first, *rest = row
    named = [cell for cell in rest if cell]
    units = [cell for cell in named if _UNIT.fullmatch(cell)]
    return bool(units) and (
        2 * len(units) >= len(named)
        if not _UNIT_LABEL.fullmatch(first)
        else len(units) == len(named)
    )


def _one_station(columns: Columns) -> Columns:
    """Readings with words beside them, of a station that only the name of the file tells."""
    value, time = columns.find(VALUE_NAMES), columns.find(TIME_NAMES)
    if value is None or time is None or columns.find(SENSOR_NAMES) is not None:
        return columns
    others = [i for i in range(len(columns.names)) if i not in (value, time)]
    if not any(_wordy(columns.arrays[i], columns.names[i]) for i in others):
        return columns
    name = pa.array([columns.path.stem] * len(columns.arrays[0]))
    return replace(
        columns,
        names=(*columns.names, "sensor"),
        arrays=(*columns.arrays, name),
        units=None,
        homes=(*columns.homes, -1) if columns.homes else (),
    )


def _wordy(array: pa.Array, name: str) -> bool:
    """Whether a column that is none of flags or units holds words alone."""
    cells = [str(cell or "").strip() for cell in pc.unique(array).to_pylist()]
    beside = _JUDGED.fullmatch(name) or _UNITS.search(name)
    return not beside and any(cells) and all(map(is_word, filter(None, cells)))


def _unit_columns(columns: Columns) -> Columns:
    """Columns of units beside readings in a wide file: ``PM10, status, unit``."""
    if columns.find(SENSOR_NAMES) is not None:
        return columns
    units, gone = [""] * len(columns.names), list[int]()
    of = -1
    for i, name in enumerate(columns.names):
        if not _UNITS.search(name):
            of = of if _JUDGED.fullmatch(name) else i
            continue
        found = {str(cell or "").strip() for cell in pc.unique(columns.arrays[i]).to_pylist()} - {
            ""
        }
        if of < 1 or len(found) > 1 or any(map(is_plain_number, found)):
            continue
        units[of] = next(iter(found), "")
        gone.append(i)
    return drop(replace(columns, units=tuple(units)), gone) if gone else columns


def _dated(columns: Columns) -> Columns:
    """Year, month and day in three columns as one date."""
    found = [columns.find(names) for names in _PARTS]
    if None in found[1:]:
        found = [found[0], columns.find(_DAY_OF_YEAR)]
    told_already = [n for n in TIME_NAMES if key(n) not in sum(_PARTS, ())]
    whole_time = columns.find(told_already)
    if None in found or (
        whole_time is not None and looks_like_date(str(columns.arrays[whole_time][0]))
    ):
        return columns
    year, *rest = (pc.utf8_trim_whitespace(columns.arrays[i]) for i in found if i is not None)
    whole = [pc.match_substring_regex(year, r"^(19|20)\d{2}$")]
    whole += [pc.match_substring_regex(part, r"^\d{1,3}$") for part in rest]
    if not all(pc.all(one).as_py() for one in whole):
        return columns
    if len(rest) == 1:
        numbered = pc.binary_join_element_wise(year, pc.utf8_lpad(rest[0], 3, "0"), "")
        stamps = pd.to_datetime(numbered.to_pandas(), format="%Y%j", errors="coerce")
        if stamps.isna().any():
            return columns
        days = pa.array(stamps.dt.strftime("%Y-%m-%d"), pa.string())
    else:
        days = pc.binary_join_element_wise(year, *(pc.utf8_lpad(p, 2, "0") for p in rest), "-")
    first, *gone = (i for i in found if i is not None)
    names = tuple("date" if i == first else name for i, name in enumerate(columns.names))
    arrays = tuple(days if i == first else array for i, array in enumerate(columns.arrays))
    several = "three" if len(rest) > 1 else "two"
    told = f"The date is in {several} columns: "
    told += listing([columns.names[i] for i in (first, *gone)])
    return drop(replace(columns, names=names, arrays=arrays), gone, f"{told}.")


def _without_remarks(columns: Columns) -> Columns:
    """Sensors alone, without a column that counts the rows and one of remarks."""
    gone = []
    for i, name in enumerate(columns.names):
        lowered = key(name)
        counts = lowered in _COUNTS and len(columns.names) > 2 and _rises(columns.arrays[i])
        gone += [i] if counts or lowered in _REMARKS else []
    if not gone:
        return columns
    left = listing([columns.names[i] for i in gone])
    return drop(columns, gone, f"Left out, for it numbers the rows or holds remarks: {left}.")


def _rises(cells: pa.Array) -> bool:
    """Whether whole numbers grow from row to row."""
    if not pc.all(pc.match_substring_regex(cells, r"^\s*\d{1,15}\s*$")).as_py():
        return False
    numbers = pc.cast(pc.utf8_trim_whitespace(cells), pa.int64()).to_numpy()
    return bool((np.diff(numbers) > 0).all())


def _joined_times(columns: Columns) -> Columns:
    """Date and clock, or date and the number of the hour, as one time."""
    date, clock = columns.find(DATE_NAMES), columns.find(CLOCK_NAMES)
    if date is None or clock is None or date == clock:
        return columns
    hours = columns.arrays[clock]
    some = hours.slice(0, 100)
    if not pc.all(pc.match_substring_regex(some, _CLOCK)).as_py():
        return columns
    days = pc.utf8_trim(pc.utf8_trim_whitespace(columns.arrays[date]), "'\"")
    if not all(looks_like_date(str(day)) for day in days.slice(0, 3).to_pylist()):
        return columns
    hours = pc.utf8_trim(pc.utf8_trim_whitespace(hours), "'\"")
    told = f"The time is in two columns, {columns.names[date]!r} and {columns.names[clock]!r}."
    hours = pc.replace_substring(hours, ".", ":")
    hours = pc.replace_substring_regex(hours, r"^(\d\d)(\d\d)( UTC)?$", r"\1:\2")
    gone, minute = [clock], columns.find(_MINUTES)
    if pc.all(pc.match_substring_regex(hours, r"^\d{1,2}$")).as_py():
        minutes: pa.Array | str = "00"
        if (
            minute is not None
            and pc.all(
                pc.match_substring_regex(columns.arrays[minute], r"^\s*[0-5]?\d\s*$")
            ).as_py()
        ):
            minutes = pc.utf8_lpad(pc.utf8_trim_whitespace(columns.arrays[minute]), 2, "0")
            gone.append(minute)
        hours = pc.binary_join_element_wise(pc.utf8_lpad(hours, 2, "0"), minutes, ":")
        if (
            not pc.any(pc.equal(hours, "00:00")).as_py()
            and pc.any(pc.equal(hours, "24:00")).as_py()
        ):
            told += " Hours 1 to 24 are read as the time at which the hour ends."
    # A day stands without its own midnight: 2024-01-31 00:00:00 is what a spreadsheet makes of it.
    days = pc.replace_substring_regex(days, MIDNIGHT, "")
    days = pc.replace_substring_regex(days, r"^(\d{4})(\d\d)(\d\d)$", r"\1-\2-\3")
    joined = pc.binary_join_element_wise(days, hours, " ")
    arrays = tuple(joined if i == date else array for i, array in enumerate(columns.arrays))
    names = tuple("time" if i == date else name for i, name in enumerate(columns.names))
    if "time" in [name for i, name in enumerate(columns.names) if i not in (date, clock)]:
        names = columns.names
    return drop(replace(columns, names=names, arrays=arrays), gone, told)


def flag_columns(columns: Columns) -> dict[int, int]:
    """Columns of a wide file that judge another one, and which: ``a_flag`` of ``a``."""
    lowered = [name.lower().strip() for name in columns.names]
    found: dict[int, int] = {}
    for i, name in enumerate(lowered[1:], 1):
        match = _JUDGED.fullmatch(name)
        if match is None:
            continue
        of = (match["before"] or match["after"] or "").strip(" _.-:/")
        if of in lowered and lowered.index(of) != i:
            found[i] = lowered.index(of)
        elif not of and i > 1 and i - 1 not in found:
            found[i] = i - 1
    return found


def without_flags(columns: Columns, bad: Sequence[str]) -> Columns:
    """Readings alone, those with ``bad`` flags missing."""
    found = flag_columns(columns)
    if not found:
        return columns
    arrays, words, lost = list(columns.arrays), Counter[str](), 0
    for flag, of in found.items():
        cells = pc.utf8_trim_whitespace(pc.cast(columns.arrays[flag], pa.string())).fill_null("")
        hit, said = flagged(cells, bad)
        words, lost = words + said, lost + int(hit.sum())
        arrays[of] = pc.if_else(pa.array(hit), "", arrays[of]) if bad else arrays[of]
    names = listing([columns.names[i] for i in found], 3)
    told = flags_note(names, words, lost, bad)
    return drop(replace(columns, arrays=tuple(arrays)), list(found), told)


def flagged(cells: pa.Array, bad: Sequence[str]) -> tuple[NDArray[np.bool_], Counter[str]]:
    """Which cells of a column of flags are ``bad``, and how often each word is there."""
    wanted = pa.array([word.strip().lower() for word in bad], pa.string())
    hit = pc.is_in(pc.utf8_lower(cells), wanted).to_numpy(zero_copy_only=False)
    counts = cells.value_counts().to_pylist()
    return hit, Counter({str(pair["values"]): int(pair["counts"]) for pair in counts})


def flags_note(names: str, words: Counter[str], lost: int, bad: Sequence[str]) -> str:
    """What columns of flags say, and what that meant."""
    shown = ", ".join(f"{w or 'empty'} ({n})" for w, n in words.most_common(6))
    means = "bad_flags names those that mean missing."
    means = f"{lost} readings flagged {listing(bad)} are missing." if bad else means
    return f"Flag columns are not sensors: {names}. They say {shown}; {means}"


def readings_alone(columns: Columns) -> Columns:
    """The columns of a wide table without those that hold no readings: other times, parts of the
    time, places, what a logger says of itself, what is said of a sensor's readings."""
    time = columns.find(TIME_NAMES) or 0
    keys = [key(name) for name in columns.names]
    gone = []
    for i, name in enumerate(keys):
        about = _ABOUT.fullmatch(name)
        named = _NO_SENSOR.fullmatch(name) or (about and about["of"] in keys)
        if i != time and (named or _dates(columns.arrays[i])):
            gone.append(i)
    if not gone or len(gone) == len(keys) - 1:
        return columns
    left = listing([columns.names[i] for i in gone], 8)
    told = f"Left out, for they hold no readings (time_column keeps every other column): {left}."
    return drop(columns, gone, told)


def _dates(cells: pa.Array) -> bool:
    """Whether a column holds dates, by its first cells."""
    if not pa.types.is_string(cells.type):
        return False
    some = [str(cell) for cell in cells.slice(0, 20).to_pylist() if str(cell or "").strip()]
    return len(some) > 1 and all(map(looks_like_date, some))


def summary_columns(names: Sequence[str], values: NDArray[np.float64]) -> list[int]:
    """Sensors (rows of ``values``) that are the sum or the mean of all others, or are called so."""
    count = len(names)
    if count < 3:
        return []
    suspects = {i for i, name in enumerate(names) if _SUMMARY.fullmatch(name.strip())}
    found, values = [], values[:, :500]
    for i in sorted({*suspects, 0, count - 1}):
        rest = np.delete(values, [i, *(suspects - {i})], axis=0)
        known = ~np.isnan(rest)
        both = known.any(axis=0) & ~np.isnan(values[i])
        if both.sum() < 2 or len(rest) < 2:
            continue
        with np.errstate(over="ignore"):
            total = np.nansum(rest[:, both], axis=0)
        mean = total / known[:, both].sum(axis=0)
        own = values[i, both]
        slack = 0.51 * 10.0 ** -_decimals(own) + 1e-9 * np.abs(own)
        agrees = max((np.abs(own - other) <= slack).mean() for other in (total, mean))
        # Equal to the mean of others throughout is no sensor, whatever it is called.
        if i in suspects or (agrees > 0.95 and both.sum() >= 5 and np.ptp(own) > 0):
            found.append(i)
    return found


def _decimals(values: NDArray[np.float64]) -> int:
    with np.errstate(over="ignore", invalid="ignore"):
        return next((d for d in range(6) if np.allclose(values, np.round(values, d), 0, 1e-9)), 6)
