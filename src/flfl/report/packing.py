"""The readings of a run for the page: packed for its script, and as cells of the heat map.

Numbers travel as whole numbers of a sensor's own last decimal, so an observed value arrives exactly
as the file gave it. Streams of whole numbers are differenced, split into byte planes and deflated:
about two bytes a reading. ``assets/readings.js`` unpacks them in the browser.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.io.table import FILLED, FLAGS

Array = NDArray[np.float64]
Whole = NDArray[np.int32]

_REFUSED, _FILLED = FLAGS.index("refused"), [FLAGS.index(flag) for flag in FILLED]
_MOST_DECIMALS = 9
_LARGEST = 2**31 - 1
_STEPS_IN_SPREAD = 1000
"""A recovered value is kept to this part of its sensor's spread, or better."""
LEVELS = 4
NOTHING = (LEVELS + 1) ** 2
"""The cell of the heat map for a stretch of time in which the table has no row."""
_MOST_COLUMNS, _MOST_CELLS = 1000, 500_000


def pack(values: Array, codes: NDArray[np.uint8], lower: Array, upper: Array) -> dict[str, Any]:
    """Pack tables of slots x sensors; ``codes`` count along ``FLAGS``.

    ``streams``: ``flags`` (a byte for each cell), ``values`` (cells that are not refused),
    ``below`` and ``above`` (filled cells: from the value to the ends of its interval), each
    sensor by sensor, deflated, in base64. ``decimals``: None where values travel as float32.
    """
    decimals = tuple(
        _decimals(column[code == 0], column[code != _REFUSED])
        for column, code in zip(values.T, codes.T, strict=True)
    )
    filled = np.isin(codes.T, _FILLED)
    low, high = (np.where(np.isfinite(end), end, values).T for end in (lower, upper))
    middle = [_whole(row, d) for row, d in zip(values.T, decimals, strict=True)]
    below = [_reach(row, m, d, -1) for row, m, d in zip(low, middle, decimals, strict=True)]
    above = [_reach(row, m, d, +1) for row, m, d in zip(high, middle, decimals, strict=True)]
    streams = {
        "flags": _text(codes.T.astype(np.uint8).tobytes()),
        "values": _stream(row[code != _REFUSED] for row, code in zip(middle, codes.T, strict=True)),
        "below": _stream(row[here] for row, here in zip(below, filled, strict=True)),
        "above": _stream(row[here] for row, here in zip(above, filled, strict=True)),
    }
    return {"streams": streams, "decimals": decimals}


def flag_codes(flags: pd.DataFrame) -> NDArray[np.uint8]:
    """Flags as their places in ``FLAGS``, slots x sensors.

    Examples
    --------
    >>> flag_codes(pd.DataFrame({"a": ["observed", "refused"]})).tolist()
    [[0], [2]]
    """
    words = flags.to_numpy()
    return np.argmax([words == flag for flag in FLAGS], axis=0).astype(np.uint8)


def stamps(index: pd.Index) -> Array:
    """The places of the slots on the page's time axis: milliseconds since 1970, or numbers."""
    if isinstance(index, pd.DatetimeIndex):
        return index.as_unit("ms").asi8.astype(np.float64)
    return index.to_numpy(dtype=np.float64)


def runs(places: Array) -> list[tuple[float, float, int]]:
    """Runs of equal steps: where each begins, its step, how many places it has.

    Examples
    --------
    >>> runs(np.array([0.0, 1.0, 2.0, 5.0, 7.0]))
    [(0.0, 1.0, 3), (5.0, 2.0, 2)]
    """
    steps = np.diff(places)
    found, first = [], 0
    while first < len(places):
        step = float(steps[first]) if first < len(steps) else 0.0
        other = np.flatnonzero(steps[first:] != step)
        last = first + (int(other[0]) if len(other) else len(steps) - first)
        found.append((float(places[first]), step, last - first + 1))
        first = last + 1
    return found


def _decimals(observed: Array, shown: Array) -> int | None:
    """The fewest decimals that keep observed values exact and recovered ones fine enough."""
    if not len(shown):
        return 0
    largest = float(np.abs(shown).max())
    needed = _needed_decimals(observed) if len(observed) else 0
    if needed is None:
        return None
    spread = float(np.std(shown))
    fine = int(np.ceil(np.log10(_STEPS_IN_SPREAD / spread))) if spread > 0 else needed
    wanted = int(np.clip(fine, needed, _MOST_DECIMALS))
    room = int(np.floor(np.log10(_LARGEST / largest))) if largest > 0 else wanted
    return None if room < needed else min(wanted, room)


def _needed_decimals(values: Array) -> int | None:
    """The decimals with which every value is written, if nine are enough; division is correctly
    rounded, here and in the browser, so it gives back the very number that the text meant.

    Examples
    --------
    >>> _needed_decimals(np.array([1.5, 2.25])), _needed_decimals(np.array([1 / 3]))
    (2, None)
    """
    for decimals in range(_MOST_DECIMALS + 1):
        scale = 10.0**decimals
        if np.array_equal(np.rint(values * scale) / scale, values):
            return decimals
    return None


def _whole(values: Array, decimals: int | None) -> Whole:
    known = np.where(np.isnan(values), 0.0, values)
    if decimals is None:
        return known.astype(np.float32).view(np.int32)
    return np.rint(known * 10.0**decimals).astype(np.int32)


def _reach(ends: Array, middle: Whole, decimals: int | None, side: int) -> Whole:
    """From the value to an end of its interval; the end itself where floats travel."""
    if decimals is None:
        return _whole(ends, None)
    known = np.where(np.isnan(ends), 0.0, ends)
    reach = side * (np.rint(known * 10.0**decimals) - middle)
    return np.clip(reach, 0, _LARGEST).astype(np.int32)


def _stream(parts: Iterable[Whole]) -> str:
    numbers = np.concatenate([np.zeros(0, np.int32), *parts])
    # Whole numbers wrap around here and in the browser alike, so the sums come back exactly.
    steps = np.diff(numbers.view(np.uint32), prepend=np.uint32(0)).astype("<u4")
    return _text(steps.view(np.uint8).reshape(-1, 4).T.tobytes())


def _text(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def coverage(codes: NDArray[np.uint8], places: Array, step: float) -> NDArray[np.uint8]:
    """The heat map's cells: shares of recovered and refused slots in stretches of equal length.

    From ``codes`` (slots x sensors: 0 observed, 1 recovered, 2 refused), the slots' places on the
    time axis and their usual step, to sensors x stretches: ``recovered + 5 * refused``, each share
    in quarters, rounded up so that a little is never shown as none; `NOTHING` without a slot.

    Examples
    --------
    >>> codes = np.array([[0], [1], [2], [0]], dtype=np.uint8)
    >>> coverage(codes, np.array([0.0, 1.0, 2.0, 4.0]), 1.0).tolist()
    [[0, 4, 20, 25, 0]]
    """
    rows = codes.shape[1]
    span = places[-1] - places[0] + step
    columns = int(min(round(span / step), _MOST_COLUMNS, max(_MOST_CELLS // rows, 1)))
    width = span / columns
    column = np.minimum(((places - places[0] + step / 2) / width).astype(int), columns - 1)
    slots = np.bincount(column, minlength=columns)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    recovered, refused = (
        np.ceil(LEVELS * np.add.reduceat(cells, starts, dtype=int).T / slots[slots > 0])
        for cells in (np.isin(codes, _FILLED), codes == _REFUSED)
    )
    cells = np.full((rows, columns), NOTHING, dtype=np.uint8)
    cells[:, slots > 0] = recovered + (LEVELS + 1) * refused
    # Months differ in length: a stretch that falls between two of them shows the one before.
    centres = places[0] - step / 2 + width * (np.arange(columns) + 0.5)
    before = np.maximum(np.searchsorted(places, centres, side="right") - 1, 0)
    for crack in np.flatnonzero((slots == 0) & (centres - places[before] < 0.75 * step)):
        cells[:, crack] = cells[:, crack - 1]
    return cells
