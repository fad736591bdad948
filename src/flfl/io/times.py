"""Time texts to points in time, with one reading of them or none."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import product
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.errors import InputError

# Names a time column goes by, in lower case; the first one present is taken.
TIME_NAMES = (
    "timestamp", "datetime", "date_time", "time", "timestamp_utc", "datetime_utc", "time_utc",
    "datetimeutc", "date_utc", "utc", "date", "day", "month", "year",
)  # fmt: skip

_CLOCK = r"[T ]\d{1,2}(?::\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?"
_OFFSET = r" ?(?:Z|[+-]\d{2}(?::?\d{2})?)"
_ISO = rf"(?P<date>\d{{4}}-\d{{1,2}}(?:-\d{{1,2}})?)(?:(?P<clock>{_CLOCK})(?P<offset>{_OFFSET})?)?"
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_COMPACT = {6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_DATES = ("%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M", "T%H:%M:%S")

Place = Callable[[int], str]
DateOrder = Literal["auto", "day-first", "month-first"]


@dataclass(frozen=True, eq=False)
class Times:
    """Points in time, one for each text.

    ``index`` is in UTC when the texts carry offsets, and ``wall`` is then what the clock on the
    wall showed; without offsets the two are the same. ``format`` is the strptime pattern, or None
    for ISO 8601 and for numbers. ``zone`` names the zone of the wall clock, None where nobody told.
    """

    index: pd.Index
    wall: pd.Index
    format: str | None = None
    zone: str | None = None

    def take(self, rows: NDArray[np.intp]) -> Times:
        """Some of these times."""
        return replace(self, index=self.index.take(rows), wall=self.wall.take(rows))


@dataclass(frozen=True)
class TimeRules:
    """What the user says of the times where a file leaves it open."""

    date_order: DateOrder = "auto"
    time_zone: str | None = None


ANY_TIMES = TimeRules()


def parse_times(texts: NDArray[np.object_], place: Place, rules: TimeRules = ANY_TIMES) -> Times:
    """Read time texts: ISO 8601, compact digits, common day and month orders, or plain numbers.

    Parameters
    ----------
    texts : array of str
    place : callable
        Names the file and line of the n-th text, for messages.
    rules : TimeRules
        The order of day and month, and the zone of times without offset.
    """
    series = pd.Series(texts, dtype="str").str.strip()
    empty = np.flatnonzero(series.str.lower().isin(["", "nan", "nat", "na", "null", "none"]))
    if len(empty):
        raise InputError(
            "the time is missing",
            where=place(int(empty[0])),
            remedy="Give every row a time, or remove the row",
        )
    compact = _parse_compact(series)
    if compact is not None:
        return compact
    numbers = _numbers(series)
    if numbers is not None:
        return Times(numbers, numbers)
    if series.iloc[:1].str.fullmatch(_ISO).all():
        return _parse_iso(series, place)
    return _parse_pattern(series, place, rules.date_order)


def looks_like_time(text: str) -> bool:
    """Whether a text on its own could be a time, or a number that stands for one.

    Examples
    --------
    >>> [looks_like_time(text) for text in ("2024-01-31 06:00", "01/02/2024", "17", "time", "")]
    [True, True, True, False, False]
    """
    text = text.strip()
    return bool(re.fullmatch(f"{_ISO}|{_NUMBER}", text)) or bool(_patterns_for(text))


def _numbers(series: pd.Series[str]) -> pd.Index | None:
    try:
        numbers = pc.cast(pa.array(series), pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    # Beyond this, differences between times are lost in rounding.
    return pd.Index(numbers) if (np.abs(numbers) < 1e18).all() else None


def _parse_compact(series: pd.Series[str]) -> Times | None:
    """Digits such as 20240131 or 2024013106, when every one of them is a date near our time."""
    pattern = _COMPACT.get(len(str(series.iloc[0])))
    if pattern is None or not series.str.fullmatch(r"(19|20)\d+").all():
        return None
    if series.str.len().nunique() > 1:
        return None
    parsed = pd.to_datetime(series, format=pattern, errors="coerce")
    if parsed.isna().any():
        return None
    index = _microseconds(parsed)
    return Times(index, index, pattern)


def _parse_iso(series: pd.Series[str], place: Place) -> Times:
    parts = series.str.extract(f"^(?:{_ISO})$")
    _refuse_first(parts["date"].isna().to_numpy(), series, place)
    has_offset = parts["offset"].notna().to_numpy()
    if has_offset.any() and not has_offset.all():
        raise InputError(
            "some times carry an offset from UTC and some do not",
            where=place(int(np.flatnonzero(has_offset != has_offset[0])[0])),
            remedy="Write all of them with an offset, or none",
        )
    local = parts["date"] + parts["clock"].fillna("")
    wall = pd.to_datetime(local, format="ISO8601", errors="coerce")
    _refuse_first(wall.isna().to_numpy(), series, place)
    if not has_offset.any():
        index = _microseconds(wall)
        return Times(index, index)
    parsed = pd.to_datetime(series, format="ISO8601", errors="coerce", utc=True)
    _refuse_first(parsed.isna().to_numpy(), series, place)
    index, clock = _microseconds(parsed), _microseconds(wall)
    return Times(index, clock, zone=_offsets(clock - index.tz_localize(None)))


def _offsets(found: pd.TimedeltaIndex) -> str:
    """``UTC``, ``+02:00``, or ``+01:00/+02:00`` where the offset changes."""
    minutes = sorted(set((found.unique() // pd.Timedelta(minutes=1)).tolist()))
    names = [f"{'-' if m < 0 else '+'}{abs(m) // 60:02d}:{abs(m) % 60:02d}" for m in minutes]
    return "UTC" if minutes == [0] else "/".join(names)


def _parse_pattern(series: pd.Series[str], place: Place, date_order: DateOrder) -> Times:
    first = str(series.iloc[0])
    found: dict[str, pd.Series[pd.Timestamp]] = {}
    for pattern in _patterns_for(first, date_order):
        found[pattern] = pd.to_datetime(series, format=pattern, errors="coerce")
    if not found:
        _refuse_first(np.ones(1, dtype=bool), series, place)
    whole = {p: parsed for p, parsed in found.items() if not parsed.isna().any()}
    if not whole:
        closest = min(found.values(), key=lambda parsed: int(parsed.isna().sum()))
        _refuse_first(closest.isna().to_numpy(), series, place)
    (pattern, parsed), *others = whole.items()
    if any(not other.equals(parsed) for _, other in others):
        raise InputError(
            f"the date {first!r} can be read as day then month or as month then day, and no other "
            "date of the file tells which",
            where=place(0),
            remedy="Choose date_order=day-first or date_order=month-first, or write dates as "
            "year-month-day",
        )
    index = _microseconds(parsed)
    return Times(index, index, pattern)


def _patterns_for(text: str, date_order: DateOrder = "auto") -> list[str]:
    fits = []
    excluded = {"auto": "-", "day-first": "%m", "month-first": "%d"}[date_order]
    dates = [date for date in _DATES if not date.startswith(excluded)]
    for date, clock in product(dates, _CLOCKS):
        try:
            datetime.strptime(text, date + clock)
        except ValueError:
            continue
        fits.append(date + clock)
    return fits


def _refuse_first(bad: NDArray[np.bool_], series: pd.Series[str], place: Place) -> None:
    if not bad.any():
        return
    row = int(np.flatnonzero(bad)[0])
    shown = repr(str(series.iloc[row])[:40])
    problem = (
        f"{shown} cannot be read as a time"
        if row == 0
        else f"{shown} cannot be read as a time like the first one, {str(series.iloc[0])[:40]!r}"
    )
    remedy = "Write all times in one form, for example 2024-01-31 06:00:00"
    if re.search(r"[T ]24:00", shown):
        remedy = "Write midnight as 00:00 of the day that begins"
    raise InputError(problem, where=place(row), remedy=remedy)


def _microseconds(parsed: pd.Series[pd.Timestamp]) -> pd.DatetimeIndex:
    # One unit for every table, so that tables from different files compare equal.
    return pd.DatetimeIndex(parsed).as_unit("us")


def time_texts(index: pd.Index) -> list[str]:
    """Write times that have no text of their own: ISO 8601, whole numbers without a point."""
    if isinstance(index, pd.DatetimeIndex):
        return [str(text) for text in index.astype(str)]
    numbers = index.to_numpy(dtype=np.float64).tolist()
    return [repr(int(n)) if n == int(n) and abs(n) < 2**53 else repr(n) for n in numbers]


def texts_like(times: Times, texts: list[str], added: pd.Index) -> list[str]:
    """Write added times in the form in which the file writes its own."""
    if not isinstance(added, pd.DatetimeIndex) or not isinstance(times.wall, pd.DatetimeIndex):
        return time_texts(added)
    dates = ("%Y-%m", "%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S",
             "%Y-%m-%dT%H:%M:%S")  # fmt: skip
    ends = [""]
    wall = added
    if added.tz is not None and times.zone is not None and not times.zone.count(":") > 1:
        wall = added.tz_convert(times.zone).tz_localize(None)
        offset = "+00:00" if times.zone == "UTC" else times.zone
        ends += ["Z", offset, offset.replace(":", ""), offset[:3]]
    patterns = [times.format] if times.format else [d + e for d, e in product(dates, ends)]
    for pattern in patterns:
        if times.wall.strftime(pattern).tolist() == texts:
            return [str(text) for text in wall.strftime(pattern)]
    return time_texts(added)
