"""What time it is, and when something is due: explicit, so that a test can let time pass."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from flfl.errors import InputError

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOUR, _DAY, _WEEK = 3600, 86400, 604800
_SCHEDULE = re.compile(
    r"(?:hourly|daily|weekly (mon|tue|wed|thu|fri|sat|sun)[a-z]*) +(\d{1,2})?:(\d{2})"
)


@dataclass(frozen=True)
class Clock:
    """``now`` is UTC, in seconds since 1970: it may jump. ``monotonic`` never goes back."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True)
class Schedule:
    """Every so many seconds, at an offset, in UTC.

    Examples
    --------
    >>> daily = Schedule.parse("daily 03:30")
    >>> daily.last(86400 * 10.0), daily.next(86400 * 10.0)
    (790200, 876600)
    """

    period: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """From ``daily 03:30``, ``hourly :10`` or ``weekly mon 03:30``."""
        match = _SCHEDULE.fullmatch(text.strip().lower())
        word = text.strip().lower().partition(" ")[0]
        hour, minute = (int(match[2] or 0), int(match[3])) if match else (24, 60)
        if match is None or hour > 23 or minute > 59 or (word == "hourly") != (match[2] is None):
            raise InputError(
                f"{text!r} is no schedule",
                remedy='Write "daily 03:30", "hourly :10" or "weekly mon 03:30", in UTC',
            )
        into = 3600 * hour + 60 * minute
        if word == "weekly":
            # The first day of 1970 was a Thursday.
            return cls(_WEEK, (_DAYS.index(match[1]) - 3) % 7 * _DAY + into)
        return cls(_HOUR if word == "hourly" else _DAY, into)

    def last(self, now: float) -> int:
        """When it was due last, at or before a time."""
        return int((now - self.offset) // self.period) * self.period + self.offset

    def next(self, now: float) -> int:
        """When it is due next, after a time."""
        return self.last(now) + self.period
