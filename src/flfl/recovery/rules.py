"""What is not to be filled, and the limits of what is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.columns import listing
from flfl.io.table import Table

Array = NDArray[np.float64]
Gap = int | str | pd.Timedelta
Bounds = Sequence[float | None]

_UNITS: dict[str, Literal["s", "min", "h", "D", "W"]] = {
    "s": "s",
    "min": "min",
    "h": "h",
    "d": "D",
    "w": "W",
}
_WRITTEN = re.compile(rf"(?P<number>\d+|\d+\.\d+(?=\s*[a-z]))\s*(?P<unit>{'|'.join(_UNITS)}|)")

NO_READING = "no reading"
TOO_FEW = "too few readings"
NO_ESTIMATE = "no estimate"


@dataclass(frozen=True)
class Rules:
    """When a cell is refused, and where recovered values must lie. Observed ones are always kept.

    Attributes
    ----------
    max_gap : gaps longer than this are refused whole: a number of slots, or a duration such as
        ``"6h"`` or ``"2d"``; None for no limit
    min_readings : sensors with fewer readings stay unfilled
    bounds : physical limits (low, high) of what is measured; None or an infinity is an open end

    Examples
    --------
    >>> Rules(bounds=(0, None)).clip(np.array([-1.0, 7.0])).tolist()
    [0.0, 7.0]
    >>> Rules(max_gap="soon")
    Traceback (most recent call last):
    flfl.errors.InputError: max_gap: 'soon' is neither slots nor a duration. Give 12, 6h or 2d.
    """

    max_gap: Gap | None = None
    min_readings: int = 0
    bounds: Bounds | None = None

    def __post_init__(self) -> None:
        if self.max_gap is not None:
            _slots_or_duration(self.max_gap)
        if not isinstance(self.min_readings, Integral) or self.min_readings < 0:
            raise InputError(
                f"{self.min_readings!r} is no number of readings",
                where="min_readings",
                remedy="Give 0 or more, whole",
            )
        low, high = self.limits
        if not low < high:
            raise InputError(
                f"{low:g} is not below {high:g}", where="bounds", remedy="Give the lower one first"
            )

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds as two numbers, infinite where they are open."""
        given = (None, None) if self.bounds is None else tuple(self.bounds)
        if len(given) != 2 or not all(x is None or isinstance(x, Real) for x in given):
            raise InputError(
                f"{self.bounds!r} is not a pair of limits",
                where="bounds",
                remedy="Give two numbers, or None for an open end: (0, 500), (0, None)",
            )
        low, high = given
        return (-np.inf if low is None else float(low)), (np.inf if high is None else float(high))

    def clip(self, values: Array) -> Array:
        """Values moved into the bounds."""
        return np.clip(values, *self.limits)

    def reasons(self, table: Table) -> NDArray[np.object_]:
        """Why each unknown cell (time x sensor) is refused; empty text where it is not."""
        readings = table.known.sum(axis=0)
        why = np.full(table.values.shape, "", dtype=object)
        longest = self._longest(table)
        if longest is not None:
            why[gap_lengths(table.known, table.positions) > longest] = self.too_long
        why[:, readings < self.min_readings] = TOO_FEW
        why[:, readings == 0] = NO_READING
        why[table.known] = ""
        return why

    def refusals(self, table: Table) -> dict[str, int]:
        """How many cells are refused for each reason."""
        return count_reasons(self.reasons(table))

    @property
    def too_long(self) -> str:
        """How a gap beyond ``max_gap`` is called."""
        given = str(self.max_gap).strip()
        slots = f" slot{'s' * (given != '1')}" if given.isdecimal() else ""
        return f"gap longer than {given}{slots}"

    def notes(self, table: Table) -> list[str]:
        """What the limits say of the readings themselves."""
        low, high = self.limits
        values = table.values.to_numpy()
        outside = (values < low) | (values > high)
        if not outside.any():
            return []
        names = listing(table.values.columns[np.flatnonzero(outside.any(axis=0))])
        return [f"{int(outside.sum())} readings lie outside the bounds and are kept: {names}"]

    def _longest(self, table: Table) -> float | None:
        """Steps of the grid in the longest gap that is filled."""
        if self.max_gap is None:
            return None
        given = _slots_or_duration(self.max_gap)
        if not isinstance(given, pd.Timedelta):
            return float(given)
        if not isinstance(table.step, pd.Timedelta):
            raise InputError(
                f"the slots are numbered, so {self.max_gap} says nothing about them",
                where="max_gap",
                remedy="Give a number of slots",
            )
        return given / table.step + 1e-9


def _slots_or_duration(given: object) -> int | pd.Timedelta:
    if isinstance(given, pd.Timedelta) and given >= pd.Timedelta(0):
        return given
    if isinstance(given, Integral) and not isinstance(given, bool) and int(given) >= 0:
        return int(given)
    written = _WRITTEN.fullmatch(given.strip().lower()) if isinstance(given, str) else None
    if written is None:
        raise InputError(
            f"{given!r} is neither slots nor a duration",
            where="max_gap",
            remedy="Give 12, 6h or 2d",
        )
    if written["unit"]:
        return pd.Timedelta(float(written["number"]), unit=_UNITS[written["unit"]])
    return int(written["number"])


def count_reasons(reasons: NDArray[np.object_]) -> dict[str, int]:
    """How often each reason occurs; the empty one is none.

    Examples
    --------
    >>> count_reasons(np.array(["", "no reading", "no reading"], dtype=object))
    {'no reading': 2}
    """
    counts = pd.Series(reasons[reasons != ""]).value_counts(sort=False)
    return {str(reason): int(count) for reason, count in counts.items()}


def gap_lengths(known: NDArray[np.bool_], positions: Array) -> Array:
    """Length of the gap in which each unknown cell (time x sensor) lies; 0 where known.

    It is counted in steps of the grid from the reading before to the reading after, so rows that
    the table lacks count too. Before the first reading and after the last one the table ends it.

    Examples
    --------
    >>> known = np.array([[True, False, False, True, False]]).T
    >>> gap_lengths(known, np.arange(5.0)).ravel().tolist()
    [0.0, 2.0, 2.0, 0.0, 1.0]
    >>> gap_lengths(known, np.array([0.0, 1.0, 5.0, 6.0, 7.0])).ravel().tolist()
    [0.0, 5.0, 5.0, 0.0, 1.0]
    """
    at = positions[:, None]
    before = np.maximum.accumulate(np.where(known, at, positions[0] - 1), axis=0)
    after = np.where(known, at, positions[-1] + 1)
    after = np.minimum.accumulate(after[::-1], axis=0)[::-1]
    # Times that jitter around their grid have gaps of nearly whole lengths.
    return np.where(known, 0.0, np.maximum(np.round(after - before - 1), 1.0))
