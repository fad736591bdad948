"""What is not to be filled, and the limits of what is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import AfterValidator

from flfl.config import Settings, Whole
from flfl.errors import InputError
from flfl.io.columns import listing
from flfl.io.grid import unseen
from flfl.io.suspicions import Suspicion, is_known_code, without_faults
from flfl.io.table import NOBODY, Table

Array = NDArray[np.float64]

_UNITS: dict[str, Literal["s", "min", "h", "D", "W"]]
_UNITS = {"s": "s", "min": "min", "h": "h", "d": "D", "w": "W"}
_WRITTEN = re.compile(rf"(?P<number>\d+|\d+\.\d+(?=\s*[a-z]))\s*(?P<unit>{'|'.join(_UNITS)}|)")

NO_READING = "no reading"
TOO_FEW = "too few readings"
NO_ESTIMATE = "no estimate"


def _slots_or_duration(given: object) -> int | pd.Timedelta:
    if isinstance(given, pd.Timedelta) and given >= pd.Timedelta(0):
        return given
    if isinstance(given, Integral) and not isinstance(given, bool) and int(given) >= 0:
        return int(given)
    written = _WRITTEN.fullmatch(given.strip().lower()) if isinstance(given, str) else None
    if written is None:
        problem = f"{given!r} is neither slots nor a duration"
        raise InputError(problem, remedy="Give 12, 6h or 2d")
    if written["unit"]:
        return pd.Timedelta(float(written["number"]), unit=_UNITS[written["unit"]])
    return int(written["number"])


def _gap(given: Any) -> Any:
    if given is not None:
        _slots_or_duration(given)
    return given


def _limits(given: Any) -> tuple[float, float]:
    """Two numbers from a pair, infinite where it is open."""
    pair = (None, None) if given is None else tuple(given) if isinstance(given, Sequence) else ()
    if len(pair) != 2 or not all(end is None or isinstance(end, Real) for end in pair):
        raise InputError(
            f"{given!r} is not a pair of limits",
            remedy="Give two numbers, or None for an open end: (0, 500), (0, None)",
        )
    low, high = (
        open_end if end is None else float(end)
        for end, open_end in zip(pair, (-np.inf, np.inf), strict=True)
    )
    if not low < high:
        raise InputError(f"{low:g} is not below {high:g}", remedy="Give the lower one first")
    return low, high


class Rules(Settings):
    """When a cell is refused, and where recovered values must lie. Observed ones are always kept.

    Gaps longer than ``max_gap`` are refused whole: a number of slots, or a duration such as
    ``"6h"`` or ``"2d"``. Sensors with fewer than ``min_readings`` stay unfilled. A slot that nobody
    observed is refused, unless it is within ``extrapolate`` slots of one that somebody did.
    ``bounds`` are the physical limits of what is measured, from a pair; None is an open end.

    Examples
    --------
    >>> Rules.check({"bounds": (0, None)}).bounds
    (0.0, inf)
    >>> Rules.check({"max_gap": "soon"})
    Traceback (most recent call last):
    flfl.errors.InputError: max_gap: 'soon' is neither slots nor a duration. Give 12, 6h or 2d.
    """

    max_gap: Annotated[Any, AfterValidator(_gap)] = None
    min_readings: Whole = 0
    extrapolate: Whole = 0
    bounds: Annotated[Any, AfterValidator(_limits)] = (-np.inf, np.inf)

    def reasons(self, table: Table) -> NDArray[np.object_]:
        """Why each unknown cell (time x sensor) is refused; empty text where it is not."""
        readings = table.known.sum(axis=0)
        why = np.full(table.values.shape, "", dtype=object)
        if self.max_gap is not None:
            limit, step = _slots_or_duration(self.max_gap), table.step
            if isinstance(limit, int):
                steps = float(limit)
            elif isinstance(step, pd.Timedelta):
                steps = limit / step + 1e-9
            else:
                raise InputError(
                    f"the slots are numbered, so {self.max_gap} says nothing about them",
                    where="max_gap",
                    remedy="Give a number of slots",
                )
            given = str(self.max_gap).strip()
            slots = f" slot{'s' * (given != '1')}" if given.isdecimal() else ""
            long = gap_lengths(table.known, table.positions) > steps
            why[long] = f"gap longer than {given}{slots}"
        why[unseen(table.known, table.positions) > self.extrapolate] = NOBODY
        why[:, readings < self.min_readings] = TOO_FEW
        why[:, readings == 0] = NO_READING
        why[table.known] = ""
        return why

    def notes(self, table: Table) -> list[str]:
        """What the limits say of the readings themselves."""
        low, high = self.bounds
        values = table.values.to_numpy()
        outside = (values < low) | (values > high)
        if not outside.any():
            return []
        names = listing(table.values.columns[np.flatnonzero(outside.any(axis=0))])
        return [f"{int(outside.sum())} readings lie outside the bounds and are kept: {names}"]


def treated(table: Table, faults: Sequence[Suspicion], suspicious: str) -> Table:
    """The table as it is used: probable faults kept, or missing; well-known codes are refused until
    somebody says which of the two."""
    if suspicious not in ("auto", "keep", "missing"):
        problem = f"{suspicious!r} is not a way to treat suspicious readings"
        raise InputError(problem, where="suspicious", remedy="Give auto, keep or missing")
    if suspicious == "auto" and (codes := [one for one in faults if is_known_code(one, table)]):
        where = "the readings" if table.source is None else str(table.source.path)
        remedy = "Choose suspicious=missing if they stand for missing readings, suspicious=keep if"
        raise InputError(codes[0].sentence.rstrip("."), where=where, remedy=f"{remedy} not")
    return without_faults(table, faults) if suspicious == "missing" else table


def fault_notes(faults: Sequence[Suspicion], suspicious: str) -> list[str]:
    """What the readings are suspected of, and what was done with them."""
    # Of a constant sensor the table's own notes tell.
    said = [f"Suspicious: {one.sentence}" for one in faults if one.kind != "flat"]
    kept = "Suspicious readings were used as they are; suspicious=missing treats them as missing."
    number = sum(one.readings for one in faults)
    gone = f"{number} suspicious reading{'s' * (number != 1)} treated as missing."
    return [*said, gone if suspicious == "missing" else kept] if faults else []


def caution(faults: Sequence[Suspicion], table: Table) -> str:
    """What to look at before any score, where more than a few readings are probably faults."""
    share = sum(one.readings for one in faults) / table.known.sum()
    words = f"{100 * share:.0f} % of the readings are probably faults and were used as they are: "
    return f"{words}look at them first. " if share >= 0.01 else ""


def count_reasons(reasons: NDArray[np.object_]) -> dict[str, int]:
    """How often each reason occurs; the empty one is none."""
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
    """
    at = positions[:, None]
    before = np.maximum.accumulate(np.where(known, at, positions[0] - 1), axis=0)
    after = np.where(known, at, positions[-1] + 1)
    after = np.minimum.accumulate(after[::-1], axis=0)[::-1]
    # Times that jitter around their grid have gaps of nearly whole lengths.
    return np.where(known, 0.0, np.maximum(np.round(after - before - 1), 1.0))
