"""Times: text to points in time, with one reading of them or none, and back to text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.config import DateOrder, TimeUnit
from flfl.errors import InputError
from flfl.io.columns import Columns

# Names a time column goes by (`flfl.io.columns.key`); the first one present is taken.
TIME_NAMES = (
    "timestamp", "datetime", "date time", "time", "timestamp utc", "datetime utc", "time utc",
    "utc date time", "datetimeutc", "date utc", "utc", "time stamp", "created at", "measured at",
    "observed at", "readingdatetime", "local date time", "timestamp start", "start time",
    "date & time", "from date", "start date", "start", "periode start", "begindatumtijd", "beginn",
    "messzeit", "messzeitpunkt", "mess datum", "zeit", "zeitpunkt", "zeitstempel", "datum zeit",
    "datum", "von", "date heure", "horodatage", "date de début", "date de debut", "date debut",
    "heure", "fecha", "fecha y hora", "fecha hora", "marca de tiempo", "data ora", "data hora",
    "epoch", "unix", "unixtime", "unix time", "ts", "date", "day", "month", "year", "tag", "monat",
    "data",
)  # fmt: skip

_CLOCK = r"[T ]\d{1,2}(?::\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?"
_OFFSET = r" ?(?:Z|[+-]\d{2}(?::?\d{2})?)"
# Zones in letters that name one offset wherever they are used: not IST, CST or BST.
_LETTERS = {
    "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "CET": 1, "MEZ": 1, "CEST": 2, "MESZ": 2, "EET": 2,
    "EEST": 3, "EST": -5, "EDT": -4, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
}  # fmt: skip
_ZONE = r" ?\(?([A-Z]{3,4})\)?$"
_HALF = r" ([ap])\.? ?m\.?$"
_ISO = rf"(?P<date>\d{{4}}-\d{{1,2}}(?:-\d{{1,2}})?)(?:(?P<clock>{_CLOCK})(?P<offset>{_OFFSET})?)?"
# The same without an offset, as most files have it.
_ISO_LOCAL = rf"^\d{{4}}-\d{{1,2}}(-\d{{1,2}})?({_CLOCK})?$"
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_COMPACT = {6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_DATES = ("%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d",
          "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%m-%d-%y")  # fmt: skip
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M", "T%H:%M:%S")
_ISO_PATTERNS = ("%Y-%m", "%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S",
                 "%Y-%m-%dT%H:%M:%S")  # fmt: skip
# A day of another zone more or less stays within what Python's own dates can hold.
_YEARS = tuple(np.array(["0002-01-01", "9999-01-01"], "datetime64[us]").astype(np.int64).tolist())

# Months by their first letters in English, German, French and Spanish; "jui" would be two of them.
_MONTHS = {
    word: number
    for number, words in enumerate(
        ("jan jän ene", "feb fév fev", "mar mär mrz", "apr avr abr", "may mai", "jun juin",
         "jul juil", "aug aoû aou ago", "sep", "oct okt", "nov", "dec dez déc dic"), 1)
    for word in words.split()
}  # fmt: skip
_WORD = r"(?P<month>[^\W\d_]{3,})\.?"
_WORDY = (
    rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th|er)?\.?[ \-/]*(?:de )?{_WORD}"
    r"[ \-/,]*(?:de )?(?P<year>\d{4}|\d{2})",
    rf"{_WORD}[ \-]*(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,[ ]*(?P<year>\d{{4}}|\d{{2}})",
    rf"(?P<year>\d{{4}})[ \-/]{_WORD}[ \-/](?P<day>\d{{1,2}})",
    rf"(?P<day>){_WORD}[ \-/]+(?:de )?(?P<year>\d{{4}}|\d{{2}})",
)
_MIDNIGHT = r"(?<=[T ])24(?=:00|$)"
# Seconds since 1970 of the years 1990 to 2100.
_SERIAL = (32_874, 73_051)
"""Days since 1899-12-30, as spreadsheets count them, of the same years."""
_EPOCH = (631_152_000, 4_102_444_800)

_SIZES = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_NO_TIME = pa.array(["", "nan", "nat", "na", "null", "none"])

Mask = NDArray[np.bool_]
Texts = NDArray[np.object_]
Refuse = Callable[[str, str, int], InputError]
"""The refusal of the n-th time: what is wrong, the remedy, and n."""


@dataclass(frozen=True, eq=False)
class Times:
    """Points in time (in microseconds, so that any two tables compare), and the text of each.

    With offsets ``index`` is in UTC and ``wall`` what the clock on the wall showed, else the two
    are the same. ``format`` is the strptime pattern, None for ISO 8601 and numbers. ``zone`` is
    that of the wall clock, ``notes`` say what had to be decided.
    """

    index: pd.Index
    wall: pd.Index
    texts: Texts
    format: str | None = None
    zone: str | None = None
    notes: tuple[str, ...] = ()


def read_times(
    columns: Columns,
    column: int,
    array: pa.Array,
    code: NDArray[np.intp],
    date_order: DateOrder = "auto",
    time_zone: str | None = None,
    time_unit: TimeUnit = "auto",
) -> Times:
    """The different times of a column; ``code`` tells which of them each row has, for messages."""

    def refuse(problem: str, remedy: str, n: int) -> InputError:
        return columns.error(problem, remedy, int(np.flatnonzero(code == n)[0]), column=column)

    missing = np.flatnonzero(array.is_null())
    if len(missing):
        remedy = "Give every row a time and a sensor, or remove the row"
        raise refuse("the cell is missing", remedy, int(missing[0]))
    texts = array.to_numpy(zero_copy_only=False) if array.type == pa.string() else None
    if texts is None:
        times = _typed_times(array, refuse, time_unit)
    else:
        times = parse_times(texts, refuse, date_order, time_unit)
    return times if time_zone is None else in_zone(times, time_zone, refuse)


def _typed_times(array: pa.Array, refuse: Refuse, time_unit: TimeUnit = "auto") -> Times:
    try:
        series = array.to_pandas()
    except (ValueError, LookupError, pa.ArrowException):
        # Such as a zone of which nobody knows, or that is no text.
        raise refuse("the times cannot be decoded", "Write the file again", 0) from None
    if pd.api.types.is_numeric_dtype(series) and not pd.api.types.is_bool_dtype(series):
        index = pd.Index(series.astype("float64"))
        infinite = np.flatnonzero(~np.isfinite(index.to_numpy()))
        if len(infinite):
            raise refuse("a time is infinite", "Remove it", int(infinite[0]))
        return _numbered(index.to_numpy(), time_texts(index), time_unit)
    if not (pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)):
        remedy = "Name the time column with time_column"
        raise refuse(f"the column holds {array.type}, not times", remedy, 0)
    stamps = pd.DatetimeIndex(pd.to_datetime(series)).as_unit("us")
    outside = np.flatnonzero((stamps.asi8 < _YEARS[0]) | (stamps.asi8 > _YEARS[1]))
    if len(outside):
        remedy = "Check the unit in which the times were written"
        raise refuse("a time lies outside the years 2 to 9998", remedy, int(outside[0]))
    texts = time_texts(stamps)
    if stamps.tz is None:
        return Times(stamps, stamps, texts)
    return Times(stamps.tz_convert("UTC"), stamps.tz_localize(None), texts, zone=str(stamps.tz))


def _numbered(numbers: NDArray[np.float64], texts: Texts, unit: TimeUnit) -> Times:
    """Times that are numbers: seconds or milliseconds since 1970, or a count of their own."""
    for name, size in _SIZES.items():
        low, high = (size * end for end in _EPOCH)
        likely = unit == "auto" and bool(((numbers >= low) & (numbers < high)).all())
        if unit == name or likely:
            index = pd.to_datetime(np.round(numbers / size * 1e6), unit="us", utc=True)
            index = index.as_unit("us")
            told = f"The times are {name} since 1970, in UTC"
            told += "; time_unit=number reads them as plain numbers." if likely else "."
            return Times(index, index.tz_localize(None), texts, zone="UTC", notes=(told,))
    near = bool(((numbers >= _SERIAL[0]) & (numbers < _SERIAL[1])).all())
    if unit == "days" or (unit == "auto" and near):
        # A spreadsheet's day number is rounded; nobody measures by the millisecond.
        seconds = np.round(numbers * 86400).astype(np.int64)
        index = (pd.Timestamp("1899-12-30") + pd.to_timedelta(seconds, unit="s")).as_unit("us")
        told = "The times are a spreadsheet's day numbers"
        told += "; time_unit=number reads them as plain numbers." if unit == "auto" else "."
        return Times(index, index, texts, notes=(told,))
    return Times(pd.Index(numbers), pd.Index(numbers), texts)


def _plain(text: str) -> str:
    """A time without quotation marks, with its month as a number, and 24:00 as 00:00."""
    series = pd.Series([text.strip().strip("'\"")], dtype="str")
    return str(_spelled(_halves_and_zones(series))[0].iloc[0])


def _spelled(series: pd.Series[str]) -> tuple[pd.Series[str], Mask]:
    """Months as numbers, 24:00 as 00:00; and where that stands for the next day."""
    first = str(series.iloc[0])
    if re.search(r"[^\W\d_]{3,}", first):
        for pattern in _WORDY:
            if (match := re.match(pattern, first, re.IGNORECASE)) and _month(match["month"]):
                series = series.str.replace(f"^{pattern}", _as_iso, regex=True, flags=re.IGNORECASE)
                break
    found = pc.match_substring_regex(pa.array(series, pa.string()), r"[T ]24(:00|$)")
    late = found.to_numpy(zero_copy_only=False)
    return series.str.replace(_MIDNIGHT, "00", regex=True) if late.any() else series, late


def _month(word: str) -> int:
    """The number of a month's name, 0 where it is none.

    Examples
    --------
    >>> [_month(word) for word in ("Jan", "März", "juillet", "juin", "enero", "août", "time")]
    [1, 3, 7, 6, 1, 8, 0]
    """
    lowered = word.lower()
    return _MONTHS.get(lowered[:4], 0) or _MONTHS.get(lowered[:3], 0)


def _as_iso(match: re.Match[str]) -> str:
    month = _month(match["month"])
    year = match["year"] if len(match["year"]) == 4 else str(2000 + int(match["year"]))
    if not month:
        return match[0]
    return f"{year}-{month:02d}" + (f"-{int(match['day']):02d}" if match["day"] else "")


def parse_times(
    texts: Texts, refuse: Refuse, date_order: DateOrder = "auto", time_unit: TimeUnit = "auto"
) -> Times:
    """Read time texts: ISO 8601, compact digits, common day and month orders, months in words, or
    plain numbers."""
    # Arrow's own functions where they will do: those of pandas go cell by cell.
    trimmed = pc.utf8_trim_whitespace(pa.array(texts, pa.string()))
    series = pd.Series(trimmed.to_numpy(zero_copy_only=False), dtype="str")
    if series.iloc[0][:1] in "'\"":
        series = series.str.strip("'\"")
    series = _halves_and_zones(series)
    series, late = _spelled(series)
    found = _parse(series, texts, refuse, date_order, time_unit)
    if not late.any() or not isinstance(found.index, pd.DatetimeIndex):
        return found
    told = "24:00 is read as 00:00 of the day after."
    day = pd.to_timedelta(np.where(late, 1, 0), unit="D").as_unit("us")
    index, wall = found.index + day, found.wall + day
    return replace(found, index=index, wall=wall, notes=(*found.notes, told))


def _halves_and_zones(series: pd.Series[str]) -> pd.Series[str]:
    """``a. m.`` as AM, and zones in letters as offsets, where the first time has them."""
    first = str(series.iloc[0])
    if re.search(_HALF, first, re.IGNORECASE):
        series = series.str.replace(_HALF, lambda m: f" {m[1]}M", regex=True, flags=re.IGNORECASE)
        return series.str.upper()
    found = re.search(_ZONE, first)
    if found is None or found[1] not in _LETTERS or not looks_like_date(first[: found.start()]):
        return series
    offset = lambda m: f"{_LETTERS[m[1]]:+03d}:00" if m[1] in _LETTERS else m[0]  # noqa: E731
    return series.str.replace(_ZONE, offset, regex=True)


def _parse(
    series: pd.Series[str],
    texts: Texts,
    refuse: Refuse,
    date_order: DateOrder,
    time_unit: TimeUnit,
) -> Times:
    lowered = pc.utf8_lower(pa.array(series, pa.string()))
    empty = np.flatnonzero(pc.is_in(lowered, _NO_TIME))
    if len(empty):
        remedy = "Give every row a time, or remove the row"
        raise refuse("the time is missing", remedy, int(empty[0]))
    size = len(str(series.iloc[0]))
    pattern = _COMPACT.get(size)
    # Digits such as 20240131, when every one of them is a date near our time.
    if pattern is not None and series.str.fullmatch(rf"(19|20)\d{{{size - 2}}}").all():
        parsed = pd.to_datetime(series, format=pattern, errors="coerce")
        if not parsed.isna().any():
            index = pd.DatetimeIndex(parsed).as_unit("us")
            return Times(index, index, texts, pattern)
    try:
        numbers = pc.cast(pa.array(series), pa.float64()).to_numpy(zero_copy_only=False)
        # Beyond this, differences between times are lost in rounding, but for nanoseconds.
        if (np.abs(numbers) < _EPOCH[1] * 1e9).all():
            return _numbered(numbers, texts, time_unit)
    except pa.ArrowInvalid:
        pass
    if series.iloc[:1].str.fullmatch(_ISO).all():
        return _parse_iso(series, texts, refuse)
    return _parse_pattern(series, texts, refuse, date_order)


def looks_like_time(text: str) -> bool:
    """Whether a text on its own could be a time, or a number that stands for one.

    Examples
    --------
    >>> [looks_like_time(text) for text in ("2024-01-31 06:00", "01/02/2024", "17", "time", "")]
    [True, True, True, False, False]
    """
    text = _plain(text)
    return bool(re.fullmatch(f"{_ISO}|{_NUMBER}", text)) or bool(_patterns_for(text))


def looks_like_date(text: str) -> bool:
    """Whether a text could be a date or a time, and is no plain number.

    Examples
    --------
    >>> [looks_like_date(text) for text in ("2024-01-31 06:00", "31.1.24 24:00", "17", "time")]
    [True, True, False, False]
    """
    plain = _plain(text)
    number = re.fullmatch(_NUMBER, plain) and not re.fullmatch(r"(19|20)\d{6}(\d{2,6})?", plain)
    return not number and looks_like_time(plain)


def _parse_iso(series: pd.Series[str], texts: Texts, refuse: Refuse) -> Times:
    if pc.all(pc.match_substring_regex(pa.array(series, pa.string()), _ISO_LOCAL)).as_py():
        wall = pd.to_datetime(series, format="ISO8601", errors="coerce")
        _refuse_first(wall.isna().to_numpy(), series, refuse)
        index = pd.DatetimeIndex(wall).as_unit("us")
        return Times(index, index, texts)
    parts = series.str.extract(f"^(?:{_ISO})$")
    has_offset = parts["offset"].notna().to_numpy()
    local = parts["date"] + parts["clock"].fillna("")
    wall = pd.to_datetime(local, format="ISO8601", errors="coerce")
    _refuse_first(wall.isna().to_numpy(), series, refuse)
    if not has_offset.any():
        index = pd.DatetimeIndex(wall).as_unit("us")
        return Times(index, index, texts)
    if not has_offset.all():
        other = int(np.flatnonzero(has_offset != has_offset[0])[0])
        remedy = "Write all of them with an offset, or none"
        raise refuse("some times carry an offset from UTC and some do not", remedy, other)
    parsed = pd.to_datetime(series, format="ISO8601", errors="coerce", utc=True)
    _refuse_first(parsed.isna().to_numpy(), series, refuse)
    index, clock = pd.DatetimeIndex(parsed).as_unit("us"), pd.DatetimeIndex(wall).as_unit("us")
    offsets = (clock - index.tz_localize(None)).unique() // pd.Timedelta(minutes=1)
    signed = [("-" if m < 0 else "+", *divmod(abs(m), 60)) for m in sorted(offsets)]
    names = [f"{sign}{hours:02d}:{minutes:02d}" for sign, hours, minutes in signed]
    return Times(index, clock, texts, zone="UTC" if names == ["+00:00"] else "/".join(names))


def _parse_pattern(
    series: pd.Series[str], texts: Texts, refuse: Refuse, date_order: DateOrder
) -> Times:
    first = str(series.iloc[0])
    if not (patterns := _patterns_for(first, date_order)):
        _refuse_first(np.ones(1, dtype=bool), series, refuse)
    found = [(pd.to_datetime(series, format=p, errors="coerce"), p) for p in patterns]
    (parsed, pattern), *others = sorted(found, key=lambda one: int(one[0].isna().sum()))
    _refuse_first(parsed.isna().to_numpy(), series, refuse)
    if any(not other.isna().any() and not other.equals(parsed) for other, _ in others):
        problem = f"the date {first!r} can be read as day then month or as month then day, and no "
        remedy = "Choose date_order=day-first or date_order=month-first, or write dates as "
        raise refuse(problem + "other date of the file tells which", remedy + "year-month-day", 0)
    index = pd.DatetimeIndex(parsed).as_unit("us")
    return Times(index, index, texts, pattern)


def _patterns_for(text: str, date_order: DateOrder = "auto") -> list[str]:
    if not re.search(r"\d[./-]\d", text):
        return []
    excluded = {"auto": "-", "day-first": "%m", "month-first": "%d"}[date_order]
    dates = [date for date in _DATES if not date.startswith(excluded)]
    patterns = map("".join, product(dates, _CLOCKS))
    return [p for p in patterns if pd.notna(pd.to_datetime(text, format=p, errors="coerce"))]


def _refuse_first(bad: Mask, series: pd.Series[str], refuse: Refuse) -> None:
    if not bad.any():
        return
    row = int(np.argmax(bad))
    shown = repr(str(series.iloc[row])[:40])
    like = "" if row == 0 else f" like the first one, {str(series.iloc[0])[:40]!r}"
    remedy = "Write all times in one form, for example 2024-01-31 06:00:00"
    raise refuse(f"{shown} cannot be read as a time{like}", remedy, row)


def in_zone(times: Times, name: str, refuse: Refuse) -> Times:
    """The same clock times, read in a zone that the user names; ``index`` is then in UTC.

    An hour that clocks repeat must be there twice, summer time first; one they skip is refused.

    Examples
    --------
    >>> wall = pd.DatetimeIndex(["2024-10-27 02:00", "2024-10-27 02:00"])
    >>> times = Times(wall, wall, time_texts(wall))
    >>> in_zone(times, "Europe/Berlin", InputError).index.hour.tolist()
    [0, 1]
    """
    wall = times.wall
    if not isinstance(wall, pd.DatetimeIndex) or times.zone is not None:
        held = "numbers" if times.zone is None else "offsets of their own"
        problem = f"the times have {held}, so they are not local times of {name}"
        raise refuse(problem, "Leave time_zone out", 0)
    try:
        zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        problem = f"there is no time zone {name!r}"
        remedy = "Give a name such as Europe/Berlin or UTC"
        raise InputError(problem, where="time_zone", remedy=remedy) from None
    early, late = (
        wall.tz_localize(zone, ambiguous=np.full(len(wall), summer), nonexistent="NaT")
        for summer in (True, False)
    )
    repeated = np.asarray(early.notna() & (early != late))
    clock = pd.Series(np.arange(len(wall)), index=wall).groupby(level=0)
    unsure = repeated & (clock.transform("size").to_numpy() != 2)
    for bad, why in (
        (np.asarray(early.isna()), "does not exist: the clocks skip it"),
        (unsure, "comes twice, and the rows do not tell which"),
    ):
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            remedy = "Write the times in UTC or with their offset (2024-10-27T02:00:00+02:00)"
            raise refuse(f"the local time {wall[row]} in {name} {why}", remedy, row)
    second = repeated & ((clock.cumcount().to_numpy() == 1) != (wall[0] > wall[-1]))
    index = early.where(~second, late).tz_convert("UTC").as_unit("us")
    return replace(times, index=index, zone=name)


def time_texts(index: pd.Index) -> Texts:
    """Write times that have no text of their own: ISO 8601, whole numbers without a point."""
    if isinstance(index, pd.DatetimeIndex):
        return np.array([str(text) for text in index.astype(str)], dtype=object)
    numbers = index.to_numpy(dtype=np.float64).tolist()
    texts = [repr(int(n)) if n == int(n) and abs(n) < 2**53 else repr(n) for n in numbers]
    return np.array(texts, dtype=object)


def texts_like(times: Times, added: pd.Index) -> Texts:
    """Write added times in the form in which the file writes its own."""
    if not isinstance(added, pd.DatetimeIndex) or not isinstance(times.wall, pd.DatetimeIndex):
        return time_texts(added)
    wall, ends = added, [""]
    if added.tz is not None and times.zone is not None and not times.zone.count(":") > 1:
        wall = added.tz_convert(times.zone).tz_localize(None)
        offset = "+00:00" if times.zone == "UTC" else times.zone
        ends += ["Z", offset, offset.replace(":", ""), offset[:3]]
    for pattern in [times.format] if times.format else map("".join, product(_ISO_PATTERNS, ends)):
        if times.wall.strftime(pattern).tolist() == times.texts.tolist():
            return np.array([str(text) for text in wall.strftime(pattern)], dtype=object)
    return time_texts(added)
