"""The common times of a run. Every site's readings must lie on them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.errors import InputError

Array = NDArray[np.float64]
Index = NDArray[np.int64]
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_STEP = re.compile(r"(\d*)\s*(month|quarter|year|s|min|h|d|w)(ec|econd|ute|our|ay|eek)?s?")
_MONTH = 2_629_746
"""Seconds of a mean month."""
_LARGEST = 10**7
_LONGEST = 8000 * 31_557_600
"""Seconds that a grid may span."""


def _after(stop: str) -> int:
    """The end, in seconds since 1970, of a day, a month or a time that is written so exactly.

    Examples
    --------
    >>> _after("1970-01-01"), _after("1970-01-01T06:00")
    (86400, 21660)
    """
    text = stop.strip().removesuffix("Z").replace(" ", "T")
    try:
        return int((np.datetime64(text) + 1).astype("M8[s]").astype(np.int64))
    except ValueError:
        raise InputError(
            f"{stop!r} is no time",
            where="grid.stop",
            remedy="Write it as 2024-12-31 or 2024-12-31T06:00, in UTC",
        ) from None


@dataclass(frozen=True)
class TimeGrid:
    """So many slots from a start on, in UTC, a step apart.

    Examples
    --------
    >>> TimeGrid("2024-01-31", "1 month", 3).stamps().astype("M8[s]").astype("M8[D]").astype(str)
    array(['2024-01-31', '2024-02-29', '2024-03-31'], dtype='<U28')
    """

    start: str
    step: str
    slots: int

    def __post_init__(self) -> None:
        if not 2 <= self.slots <= _LARGEST:
            raise InputError(f"{self.slots} slots", where="grid.slots", remedy="Give 2 or more")
        seconds, months = self._step()
        if max(seconds, months * 2_678_400) * self.slots > _LONGEST:
            raise InputError(
                f"{self.slots} slots of {self.step[:40]}",
                where="grid.step",
                remedy="Give times that end before the year 9999",
            )
        self._first()

    @classmethod
    def closed(cls, start: str, step: str, until: float, stop: str | None = None) -> int:
        """How many slots have ended by ``until`` (seconds since 1970), and begun by the end of the
        day, or of the time, ``stop``.

        Examples
        --------
        >>> TimeGrid.closed("1970-01-01", "1h", 7200.0), TimeGrid.closed("1970-01-01", "1h", 7199.0)
        (2, 1)
        >>> TimeGrid.closed("1970-01-01", "1h", 1e9, stop="1970-01-02")
        48
        """
        two = cls(start, step, 2)
        first, step_seconds = int(two.stamps()[0]), two.step_seconds
        last = until if stop is None else min(until, _after(stop) + 2 * step_seconds)
        count = int(np.clip((last - first) / step_seconds * 1.1 + 3, 2, _LARGEST))
        stamps = cls(start, step, count).stamps()
        ended = max(int(np.searchsorted(stamps, until, side="right")) - 1, 0)
        return ended if stop is None else min(ended, int(np.searchsorted(stamps, _after(stop))))

    def since(self, days: float, least: int) -> int:
        """The first of the last so many days, or slots, whichever are more."""
        stamps = self.stamps()
        first = int(np.searchsorted(stamps, stamps[-1] - 86400 * days, side="right"))
        return max(min(first, self.slots - least), 0)

    def _first(self) -> np.datetime64:
        text = self.start.strip().removesuffix("Z").replace(" ", "T")
        try:
            return np.datetime64(text, "s")
        except ValueError:
            raise InputError(
                f"{self.start!r} is no time",
                where="grid.start",
                remedy="Write it as 2024-01-31 or 2024-01-31T06:00, in UTC",
            ) from None

    def _step(self) -> tuple[int, int]:
        """Seconds of a step, or months of it."""
        match = _STEP.fullmatch(self.step.strip().lower())
        if match and (count := int(match[1] or 1)):
            return count * _SECONDS.get(match[2], 0), count * _MONTHS.get(match[2], 0)
        raise InputError(
            f"{self.step!r} is no step",
            where="grid.step",
            remedy="Write it as 10min, 1h, 1d, 1w or 1 month",
        )

    @property
    def step_seconds(self) -> int:
        """Seconds of a step, of a mean one for months."""
        seconds, months = self._step()
        return seconds or months * _MONTH

    @property
    def end(self) -> int:
        """When the last slot ends, in seconds since 1970."""
        return int(TimeGrid(self.start, self.step, self.slots + 1).stamps()[-1])

    def stamps(self) -> Index:
        """Seconds since 1970 of every slot (N,)."""
        seconds, months = self._step()
        first, steps = self._first(), np.arange(self.slots)
        if seconds:
            return first.astype(np.int64) + seconds * steps
        # The same day and hour of every month, or the month's last day.
        month = first.astype("M8[M]") + months * steps
        begin, after = month.astype("M8[s]"), (month + 1).astype("M8[s]")
        hour, into = first - first.astype("M8[D]"), first - first.astype("M8[M]").astype("M8[s]")
        last = after - begin - np.timedelta64(86400, "s") + hour
        return (begin + np.minimum(into, last)).astype(np.int64)

    def positions(self) -> Array:
        """Elapsed steps of the slots."""
        return np.arange(self.slots, dtype=float)

    def period(self) -> int:
        """Slots of a season: a day of hours, a week of days, a year of months; 0 for none."""
        seconds, months = self._step()
        if months:
            return 12 // months if 12 % months == 0 else 0
        if seconds == 86400:
            return 7
        slots = 86400 / seconds
        return int(slots) if slots == int(slots) and 2 < slots <= 288 else 0

    def slots_of(self, stamps: Index, where: str) -> Index:
        """The slot of each time, -1 for times before and after the grid."""
        at = np.searchsorted(mine := self.stamps(), stamps).clip(max=self.slots - 1)
        on = mine[at] == stamps
        between = ~on & (stamps > mine[0]) & (stamps < mine[-1])
        if between.any():
            lost = np.datetime64(int(stamps[np.argmax(between)]), "s")
            raise InputError(
                f"{int(between.sum())} readings' times lie between the network's slots, the first"
                f" at {lost}; the network agreed on {self.step} from {self.start}",
                where=where,
                remedy="Average the readings to these times (UTC), or agree on another grid",
            )
        return np.where(on, at, -1)
