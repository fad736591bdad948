"""Tables with times across: one column for each time, or for each hour of a day, turned down."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flfl.io.cells import is_plain_number
from flfl.io.columns import Columns, key
from flfl.io.times import looks_like_date

_HOUR = re.compile(
    r"(?P<word>[a-zäöü]*)[ _.]?(?P<hour>[01]?\d|2[0-4])(:00)?[ _.]?(h|hr|uhr)?", re.IGNORECASE
)
_HALF = re.compile(r"(?P<hour>0?[1-9]|1[0-2])(:00)? ?(?P<half>[ap])\.? ?m\.?", re.IGNORECASE)
_MIDDLES = {"mid": 0, "midnight": 0, "noon": 12}
_PLACES = ("lat", "latitude", "latitud", "breite", "breitengrad", "lon", "long", "lng", "longitude",
           "longitud", "länge", "längengrad", "elevation", "elev", "altitude", "alt")  # fmt: skip
_DAY = 24
MIDNIGHT = r"[ T]00:00(:00(\.0+)?)?\s*$"
"""What a spreadsheet puts behind a day."""


def times_down(columns: Columns, sensors: Sequence[str], dates: Sequence[str]) -> Columns:
    """A table with times or hours across as one with a row for each; others as they are.

    ``sensors`` and ``dates`` are common names of the columns that hold these.
    """
    return _hours(columns, sensors, dates) or _turned(columns, sensors) or columns


def _hours(columns: Columns, sensors: Sequence[str], dates: Sequence[str]) -> Columns | None:
    """One row a day (and a station), one column an hour: 1 to 24, H01 to H24 or 00:00 to 23:00."""
    groups: dict[str, dict[int, int]] = {}
    for i, name in enumerate(columns.names):
        if half := _half(name):
            hours = groups.setdefault("", {})
            # Midnight begins a day where it stands first.
            hours[half if hours else half % _DAY] = i
        elif match := _HOUR.fullmatch(name):
            groups.setdefault(match["word"].lower(), {})[int(match["hour"])] = i
    whole = {
        word: hours
        for word, hours in groups.items()
        if len(hours) == _DAY and max(hours) - min(hours) == _DAY - 1
    }
    day = columns.find(dates)
    if not whole or day is None:
        return None
    # Of two sets the one of words judges the other.
    words = [word for word, hours in whole.items() if _letters(columns, list(hours.values()))]
    values = [word for word in whole if word not in words]
    if len(values) != 1:
        return None
    hours = whole[values[0]]
    clock = [f"{hour:02d}:00" for hour in hours]
    days = pc.replace_substring_regex(columns.arrays[day], MIDNIGHT, "")
    # Two such marks say that a day's readings are provisional.
    days = pc.utf8_ltrim(pc.utf8_trim_whitespace(days), "#")
    if pc.any(pc.match_substring(days, ":")).as_py():
        return None
    times = [pc.binary_join_element_wise(days, hour, " ") for hour in clock]
    told = f"One row has the {_DAY} hours of a day; each hour became a row (layout=wide: each is a "
    told += "sensor)."
    if _DAY in hours:
        told += " Hours 1 to 24 are read as the time at which the hour ends."
    more = {"flag": list(whole[words[0]].values())} if words else {}
    gone = {day, *(i for one in whole.values() for i in one.values())}
    return _melted(columns, sensors, times, list(hours.values()), gone, more, told)


def _half(name: str) -> int | None:
    """The hour of the day in a name with AM or PM, 24 where it is midnight; None for others.

    Examples
    --------
    >>> [_half(name) for name in ("Mid", "1:00 AM", "Noon", "11 p.m.", "12:00 AM", "13:00")]
    [24, 1, 12, 23, 24, None]
    """
    if name.lower() in _MIDDLES:
        return _MIDDLES[name.lower()] or _DAY
    match = _HALF.fullmatch(name)
    return match and (int(match["hour"]) % 12 + 12 * (match["half"] in "pP") or _DAY)


def refuse_places(columns: Columns) -> None:
    """Refuse rows below the names that hold the places of the sensors."""
    for row, cell in enumerate(columns.arrays[0].slice(0, 5).to_pylist()):
        beside = [str(array[row]).strip() for array in columns.arrays[1:]]
        if key(str(cell or "")) in _PLACES and any(map(is_plain_number, beside)):
            problem = f"this row holds places ({str(cell).strip()!r}), not readings"
            remedy = "Move such rows into a sensors file (sensor_id, latitude, longitude)"
            raise columns.error(problem, remedy, row)


def refuse_parts_of_time(columns: Columns, time: int) -> None:
    """Refuse a table of one station with days of a month, or years, side by side."""
    names = [name for i, name in enumerate(columns.names) if i != time]
    if not names or not all(re.fullmatch(r"\d{1,4}", name) for name in names):
        return
    numbers = [int(name) for name in names]
    first, last = numbers[0], numbers[-1]
    days = first == 1 and last in range(28, 32)
    years = first >= 1900 and last <= 2100 and len(numbers) > 1
    cell = str(columns.arrays[time][0]).strip()
    if numbers == list(range(first, last + 1)) and (days or years) and not looks_like_date(cell):
        what = "the days of a month" if days else "years"
        problem = f"the columns {names[0]} to {names[-1]} look like {what}, not like sensors"
        remedy = "Write one row for each time, or choose layout=wide if they are sensors"
        raise columns.error(problem, remedy)


def _letters(columns: Columns, which: Sequence[int]) -> bool:
    cells = pa.chunked_array([columns.arrays[i] for i in which])
    return bool(pc.all(pc.match_substring_regex(cells, r"^\s*[A-Za-z]?\s*$")).as_py()) and bool(
        pc.any(pc.match_substring_regex(cells, r"[A-Za-z]")).as_py()
    )


def _turned(columns: Columns, sensors: Sequence[str]) -> Columns | None:
    """One row a sensor, one column a time, perhaps with a name or a unit before them."""
    if not looks_like_date(columns.names[-1]):
        return None
    first = next((i for i, name in enumerate(columns.names) if looks_like_date(name)), 0)
    names = columns.names[first:]
    shown = [str(cell) for cell in columns.arrays[0].slice(0, 20).to_pylist()]
    dated = all(map(looks_like_date, names[:20]))
    if first == 0 or len(names) < 2 or not dated or any(map(looks_like_date, shown)):
        return None
    told = "The table has one row for each sensor and one column for each time; it was turned."
    which = list(range(first, len(columns.names)))
    if first > 1:
        rows = len(columns.arrays[0])
        times = [pa.repeat(name, rows) for name in names]
        return _melted(columns, sensors, times, which, set(which), {}, told)
    cells = np.array([array.to_numpy(zero_copy_only=False) for array in columns.arrays])
    return replace(
        columns,
        names=("time", *(str(name).strip() for name in cells[0])),
        arrays=(pa.array(names), *(pa.array(row, pa.string()) for row in cells[1:].T)),
        place=lambda row: f"column {row + 2}",
        notes=(*columns.notes, told),
        units=None,
        raw=None,
    )


def _melted(
    columns: Columns,
    sensors: Sequence[str],
    times: Sequence[pa.Array],
    which: Sequence[int],
    gone: set[int],
    more: dict[str, list[int]],
    told: str,
) -> Columns:
    """A long table: for each row as many as there are columns ``which``, each with its time; a wide
    one of one sensor where no column names it."""
    rows, across = len(columns.arrays[0]), len(which)
    # Row by row, as the file is read.
    turn = pa.array(np.arange(rows * across).reshape(across, rows).T.ravel())
    again = pa.array(np.repeat(np.arange(rows), across))

    def down(parts: Sequence[pa.Array]) -> pa.Array:
        return pa.concat_arrays(parts).take(turn)

    held = {n: columns.arrays[i] for i, n in enumerate(columns.names) if i not in gone}
    if columns.find(sensors) is None and held:
        first = next(iter(held))
        held = {"sensor": held.pop(first), **held}
    value = "value" if held else columns.path.stem
    made = {"time": down(times)} | {name: cells.take(again) for name, cells in held.items()}
    made[value] = down([columns.arrays[i] for i in which])
    made |= {name: down([columns.arrays[i] for i in at]) for name, at in more.items()}
    if not held:
        made.pop("flag", None)
    return replace(
        columns,
        names=tuple(made),
        arrays=tuple(made.values()),
        place=lambda row: columns.place(row // across),
        notes=(*columns.notes, told),
        units=None,
        raw=None,
        homes=(),
        rows=None,
    )
