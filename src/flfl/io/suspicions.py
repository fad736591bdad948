"""Readings that are probably faults: codes for missing ones, stuck sensors, changes of level.

Each kind is looked for in what the kinds before it leave: a long run of a code is no stuck sensor.
`docs/inputs.md` gives the rules. Nothing here changes a reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl import constants
from flfl.config import SENTINELS
from flfl.errors import InputError
from flfl.io.columns import listing
from flfl.io.table import Table

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_CODES = (-99.9, -99.99, -999.9, -999.99, -9999.9, 999.9, 999.99, 9999.9, 9999.0, 99999.0, 999999.0,
          -8888.0, -7777.0, -32768.0, 32767.0, 65535.0, -1e30, 1e20, 1e30)  # fmt: skip
"""Numbers that loggers and archives write for "no reading": one far-off case is enough."""

_PIECE = 1 << 20
"""Readings looked at together, so that memory stays small."""
_PEELS = 3
"""Codes looked for at either end of a sensor's readings."""


@dataclass(frozen=True, eq=False)
class Suspicion:
    """One kind of oddity: which sensors, how many readings, and the sentence that says so.

    ``cells`` (time x sensor) are the readings themselves where they are probably faults; None where
    the sensor as a whole deserves a look.
    """

    kind: str
    sensors: tuple[str, ...]
    readings: int
    sentence: str
    cells: Mask | None = field(default=None, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(replace(self, cells=None)) | {"fault": self.cells is not None}


def suspicion(
    kind: str, table: Table, sensors: Sequence[int], readings: int, problem: str, cells: Any = None
) -> Suspicion:
    """A suspicion in words; SENSORS in ``problem`` becomes how many have it."""
    ids = table.sensor_ids
    names = [ids[i] for i in sensors]
    have = "1 sensor has" if len(names) == 1 else f"{len(names)} sensors have"
    sentence = f"{problem.replace('SENSORS', have)}: {listing(names)}."
    return Suspicion(kind, tuple(names), int(readings), sentence, cells)


def find_faults(table: Table) -> tuple[Suspicion, ...]:
    """Readings that are probably faults, with their cells.

    Examples
    --------
    >>> from flfl.io.read import from_frame
    >>> readings = np.arange(60.0) % 7 + 1
    >>> readings[30:33] = -99.9
    >>> [found.sentence for found in find_faults(from_frame(readings[:, None]))]
    ['3 of 60 readings (5 %) are -99.9, far from all others: a code for missing, or the end of ...']
    """
    values = table.values.to_numpy(dtype=np.float64, copy=True)
    found = find_codes(table)
    for one in found:
        values[one.cells] = np.nan
    flat = _flat(values)
    if flat.any():
        problem = "SENSORS one constant value"
        found.append(suspicion("flat", table, _columns(flat), flat.sum(), problem, flat))
        values[flat] = np.nan
    stuck, longest = _stuck(values)
    if longest:
        problem = f"SENSORS the same value up to {longest} readings in a row"
        found.append(suspicion("stuck", table, _columns(stuck), stuck.sum(), problem, stuck))
        values[stuck] = np.nan
    step, worst = _step(values)
    if worst is not None:
        sensor, at, factor = worst
        when = table.values.index[at]
        by = f" by a factor of {factor:.2g}" if factor > 1.5 else ""
        problem = f"SENSORS a level that changes{by} and stays so (at {table.sensor_ids[sensor]} "
        problem += f"near {when:%Y-%m-%d})" if isinstance(when, pd.Timestamp) else f"at {when:g})"
        problem += "; the unit or the instrument may be another"
        found.append(suspicion("step", table, _columns(step), step.sum(), problem, step))
    return tuple(found)


def find_codes(table: Table) -> list[Suspicion]:
    """Readings that are probably codes for missing ones, or the end of a scale."""
    found, total = [], int(table.known.sum())
    for code, cells in _codes(table.values.to_numpy(dtype=np.float64)):
        count = int(cells.sum())
        share = f" ({100 * count / total:.2g} %)" if 1000 * count >= total else ""
        problem = f"{count} of {total} readings{share} are {code:g}, far from all others: a code "
        problem += "for missing, or the end of the scale"
        found.append(suspicion("code", table, _columns(cells), count, problem, cells))
    return found


def code_of(fault: Suspicion, table: Table) -> float:
    """The number that a suspicion of kind ``code`` is of."""
    return float(table.values.to_numpy()[fault.cells][0])


def is_known_code(fault: Suspicion, table: Table) -> bool:
    """Whether a suspicion is of a number that archives use for missing readings: -99.9 and such."""
    if fault.kind != "code" or fault.cells is None:
        return False
    code = code_of(fault, table)
    return code in _CODES or re.fullmatch(r"-9{2,}(\.9+)?", f"{code:.10g}") is not None


def warnings(table: Table, faults: Sequence[Suspicion]) -> list[str]:
    """Suspicions in words, for work that uses the readings as they are, and what makes codes
    missing when they are read."""
    # Of a constant sensor the table's own notes tell.
    told = [f"Suspicious: {one.sentence}" for one in faults if one.kind != "flat"]
    if codes := [code_of(one, table) for one in faults if is_known_code(one, table)]:
        named = " ".join(f"missing={code:.10g}" for code in (*codes, *SENTINELS))
        told.append(f"Codes were used as readings; to have them missing, give {named}.")
    return told


def without_faults(table: Table, faults: Sequence[Suspicion]) -> Table:
    """The table with these readings missing."""
    cells = np.zeros(table.values.shape, dtype=bool)
    for one in faults:
        cells |= False if one.cells is None else one.cells
    if not (table.known & ~cells).any():
        problem = "every reading is suspicious; nothing is left to fill from"
        raise InputError(problem, where="suspicious", remedy="Leave suspicious=missing out")
    return replace(table, values=table.values.mask(cells)) if cells.any() else table


def _columns(cells: Mask) -> list[int]:
    return [int(i) for i in np.flatnonzero(cells.any(axis=0))]


def _codes(values: Array) -> Iterator[tuple[float, Mask]]:
    """Values that repeat exactly and are far from all others, with their cells."""
    seen: dict[float, list[int]] = {}
    for i, column in enumerate(values.T):
        for code in _far_off(np.sort(column[~np.isnan(column)])):
            if _stands_apart(column, code):
                seen.setdefault(code, []).append(i)
    below = np.unique(values[values < 0])
    for code in below[:2] if len(below) <= 2 else ():
        # -1 among readings that cannot be negative, with neighbours as high as any reading.
        where = [i for i, c in enumerate(values.T) if no_tail(c, c == code)]
        if where and float(code) not in seen:
            seen[float(code)] = where
    for code, sensors in sorted(seen.items()):
        cells = np.zeros(values.shape, dtype=bool)
        cells[:, sensors] = values[:, sensors] == code
        if cells.sum() >= constants.CODE_REPEATS or code in _CODES:
            yield code, cells


def _far_off(ordered: Array) -> Iterator[float]:
    """Least and greatest values that are farther from the rest than its median from its tail."""
    for side in (1.0, -1.0):
        rest = side * ordered[:: int(side)]
        for _ in range(_PEELS):
            others = rest[np.searchsorted(rest, rest[:1], side="right")[0] :] if len(rest) else rest
            if len(others) < constants.CODE_OTHERS:
                break
            tail = others[len(others) // 2] - others[len(others) // 100]
            if not others[0] - rest[0] > (tail or others[-1] - others[0]):
                break
            code = float(side * rest[0])
            if 2 * len(others) > len(ordered) or code in _CODES:
                yield code
            rest = others


def _beside(column: Array, low: Mask) -> Array:
    """The readings before and after each run of some readings."""
    there = ~np.isnan(column)
    known, at = column[there], low[there]
    return np.concatenate([known[:-1][at[1:] & ~at[:-1]], known[1:][at[:-1] & ~at[1:]]])


def _stands_apart(column: Array, code: float) -> bool:
    """Whether readings jump to a value, as to a code, and do not lead up to it, as to a limit."""
    rest = column[(column != code) & ~np.isnan(column)]
    near, middle = float(np.median(_beside(column, column == code))), float(np.median(rest))
    return abs(near - middle) < abs(code - near)


def no_tail(column: Array, low: Mask) -> bool:
    """Whether the readings beside low ones are no lower than most: nothing leads down to them."""
    rest, beside = column[~low & ~np.isnan(column)], _beside(column, low)
    enough = len(rest) >= constants.CODE_OTHERS and len(beside) > 0
    return enough and bool(np.median(beside) > np.quantile(rest, 0.25))


def _flat(values: Array) -> Mask:
    """Readings of sensors that never change, unless most sensors are so."""
    known = ~np.isnan(values)
    constant = np.fmin.reduce(values, axis=0) == np.fmax.reduce(values, axis=0)
    flat = constant & (known.sum(axis=0) >= constants.STUCK_RUN)
    for i in np.flatnonzero(flat):
        flat[i] = not _common(values, int(i), values[known[:, i], i][0])
    return known & flat & (2 * flat.sum() < known.any(axis=0).sum())


def _stuck(values: Array) -> tuple[Mask, int]:
    """Readings in runs of one value that are much longer than a sensor's others, and the longest.

    Where a run of one value goes on with probability p from reading to reading, the longest of n
    runs has about ``log n / log 1/p`` readings.
    """
    cells, longest = np.zeros(values.shape, dtype=bool), 0
    for i, column in enumerate(values.T):
        at = np.flatnonzero(~np.isnan(column))
        if len(at) < constants.STUCK_RUN:
            continue
        known = column[at]
        ends = np.flatnonzero(np.append(known[1:] != known[:-1], True))
        length = np.diff(ends, prepend=-1)
        if length.max() < constants.STUCK_RUN:
            continue
        usual = max(np.log(len(ends)) / np.log(1 / _goes_on(length)), 3.0)
        long = length >= max(constants.STUCK_RUN, constants.STUCK_TIMES * usual)
        for run in np.flatnonzero(long):
            value, others = known[ends[run]], known[ends] == known[ends[run]]
            others[run] = False
            # Low readings stand at the detection limit: this value may be held longer than others.
            usual = _longest(int(length[others].sum()), int(others.sum()))
            if length[run] >= constants.STUCK_TIMES * usual and not _common(values, i, value):
                longest = max(longest, int(length[run]))
                cells[at[ends[run] - length[run] + 1 : ends[run] + 1], i] = True
    return cells, longest


def _longest(readings: int, runs: int) -> float:
    """The longest run that is usual of a value with so many readings in so many runs."""
    again = (readings - runs) / readings if readings else 0.0
    return float(np.log(runs + 1) / np.log(1 / again)) if again else 1.0


def _common(values: Array, sensor: int, value: float) -> bool:
    """Whether other sensors often show a value too: where it does not rain, all read zero."""
    own = values[:, sensor]
    same, known = (values == value).sum(), (~np.isnan(values)).sum()
    same, known = same - (own == value).sum(), known - (~np.isnan(own)).sum()
    return bool(same > constants.COMMON_SHARE * known)


def _goes_on(length: NDArray[np.intp]) -> float:
    """Probability with which a run of one value goes on; long runs may go on more easily."""
    probability, reach = 1e-3, 1
    while (begun := int((length >= reach).sum())) >= constants.STUCK_RUNS:
        share = (length >= 2 * reach).sum() / begun
        probability, reach = max(probability, share ** (1 / reach)), 2 * reach
    return min(float(probability), 0.999)


def _step(values: Array) -> tuple[Mask, tuple[int, int, float] | None]:
    """Readings on the rarer of two levels, and of the clearest step sensor, slot and factor.

    Levels are medians of blocks of slots, relative to the median of all sensors where there are
    three or more; logarithms where readings are positive.
    """
    cells, known = np.zeros(values.shape, dtype=bool), ~np.isnan(values)
    logs = bool((values > 0).sum() > constants.STEP_POSITIVE * known.sum())
    several, centre = known.any(axis=0).sum() >= 3, np.zeros(len(values))
    for rows in (
        np.array_split(np.arange(len(values)), -(-values.size // _PIECE)) if several else ()
    ):
        centre[rows] = _median(_scaled(values[rows], logs), axis=1)
    size = max(len(values) // constants.STEP_BLOCKS, constants.STEP_LEAST)
    clearest, worst = 0.0, None
    for i, column in enumerate(values.T):
        own = _scaled(column, logs)
        x = own - centre
        found = _two_levels(_block_levels(x, size))
        # A step that is lost in the ordinary ups and downs of the readings is none.
        if found is None or not found[3] > _median(np.abs(own - _median(own, 0)), 0):
            continue
        high, middle, ratio, distance, there = found
        few_high = 2 * (high & there).sum() < there.sum()
        rare = (high if few_high else ~high) & there
        beside = rare | np.append(rare[1:], False) | np.insert(rare[:-1], 0, False)
        block = np.arange(len(x)) // size
        over = (x > middle) == few_high
        cells[:, i] = known[:, i] & (rare[block] | (beside[block] & over))
        if ratio > clearest:
            clearest = ratio
            change = np.flatnonzero(np.diff(high[there]))[0] + 1
            at = int(np.flatnonzero(there)[change]) * size
            worst = (i, min(at, len(x) - 1), float(np.exp(distance)) if logs else 0.0)
    return cells, worst


def _scaled(values: Array, logs: bool) -> Array:
    """Readings, or their logarithms where they are positive."""
    return np.log(np.where(values > 0, values, np.nan)) if logs else values


def _block_levels(x: Array, size: int) -> Array:
    """The median of every block of so many slots; NaN where it has too few readings."""
    blocks = np.pad(x, (0, -len(x) % size), constant_values=np.nan).reshape(-1, size)
    enough = (~np.isnan(blocks)).sum(axis=1) >= max(size / 4, 3)
    return np.where(enough, _median(blocks, 1), np.nan)


def _two_levels(level: Array) -> tuple[Mask, float, float, float, Mask] | None:
    """Which blocks are on the higher of two levels, the middle between these, how clear the jump
    is, how far they are apart, and which blocks have a level; None where there is one level."""
    there = ~np.isnan(level)
    y = level[there]
    n = len(y)
    if n < constants.STEP_FEWEST:
        return None
    ordered, k = np.sort(y), np.arange(1, n)
    sums = np.cumsum(ordered)
    apart = (sums[-1] - sums[:-1]) / (n - k) - sums[:-1] / k
    # Otsu's threshold: the split with the largest variance between its sides.
    split = int(np.argmax(k * (n - k) * apart**2))
    middle = (ordered[split] + ordered[split + 1]) / 2
    # Sensors that are multiples of each other differ by rounding alone.
    if not ordered[split] < middle < ordered[split + 1]:
        return None
    high, steps = y > middle, np.abs(np.diff(y))
    jumps = np.flatnonzero(np.diff(high.astype(int)))
    if len(jumps) > 2 or min(split + 1, n - split - 1) < 2:
        return None
    usual = float(np.quantile(np.delete(steps, jumps), 0.95))
    centres = np.median(y[~high]), np.median(y[high])
    spread = 1.4826 * float(np.median(np.abs(y - np.where(high, centres[1], centres[0]))))
    distance, jump = float(centres[1] - centres[0]), float(steps[jumps].min())
    if jump <= constants.STEP_JUMP * usual or distance <= constants.STEP_SPREADS * spread:
        return None
    whole = np.zeros(len(level), dtype=bool)
    whole[there] = high
    return whole, float(middle), jump / max(usual, 1e-300), distance, there


def _median(values: Array, axis: int) -> Array:
    """The median along an axis, NaN left out; of an even number the lower one of the middle two."""
    ordered = np.sort(values, axis=axis)
    count = np.expand_dims((~np.isnan(values)).sum(axis=axis), axis)
    found = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis)
    return np.asarray(found.squeeze(axis))
