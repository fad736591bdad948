"""Numbers to text: observed cells in their own words, recovered ones with sensible digits."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.data.table import Table
from flfl.data.texts import Slots

# Cells looked at together when the decimals are counted.
_SCANNED_CELLS = 1 << 21


class CellTexts:
    """The texts of a filled table, made piece by piece so that they never fill the memory."""

    def __init__(
        self,
        table: Table,
        filled: NDArray[np.float64],
        limits: tuple[float, float] = (-np.inf, np.inf),
    ) -> None:
        self.table = table
        self.filled = filled
        self.limits = limits
        self.known = table.known
        source = table.source
        self.decimal = "." if source is None else source.decimal
        self.texts = None if source is None else source.texts

    def cells(self, sensor: int, slots: Slots) -> list[str]:
        """Observed cells as they were, recovered ones rounded, refused ones empty."""
        known = self.known[slots, sensor]
        texts = np.full(len(slots), "", dtype=object)
        texts[~known] = self.numbers(self.filled[slots, sensor][~known], sensor)
        if self.texts is not None:
            column = self.texts.column(sensor, slots)
            texts[known] = column.to_numpy(zero_copy_only=False)[known]
        else:
            texts[known] = [repr(number) for number in self.filled[slots[known], sensor].tolist()]
        result: list[str] = texts.tolist()
        return result

    def numbers(self, numbers: NDArray[np.float64], sensor: int) -> list[str]:
        """Numbers in the units of a sensor; NaN is empty."""
        texts = np.full(len(numbers), "", dtype=object)
        there = ~np.isnan(numbers)
        rounded = np.clip(_round(numbers[there], self.decimals[sensor]), *self.limits)
        words = [repr(number) for number in rounded.tolist()]
        texts[there] = [word.replace(".", self.decimal) for word in words]
        result: list[str] = texts.tolist()
        return result

    @cached_property
    def decimals(self) -> list[int | None]:
        """Decimals of each sensor's observed cells; None when they are written with exponents."""
        slots, sensors = self.filled.shape
        parts = np.array_split(np.arange(slots), -(-slots * sensors // _SCANNED_CELLS))
        found = [[self._decimals_of(i, part) for i in range(sensors)] for part in parts]
        return [_most(one) for one in zip(*found, strict=True)]

    def _decimals_of(self, sensor: int, slots: Slots) -> float:
        """The most decimals among some cells: -1 when none is known, infinite for exponents."""
        known = self.known[slots, sensor]
        if self.texts is not None:
            texts = self.texts.column(sensor, slots).filter(pa.array(known))
        else:
            observed = self.filled[slots[known], sensor].tolist()
            texts = pa.array([repr(number) for number in observed], pa.string())
        if len(texts) == 0:
            return -1
        if pc.any(pc.match_substring_regex(texts, "[eE]")).as_py():
            return np.inf
        texts = pc.utf8_trim_whitespace(texts)
        point = pc.find_substring(texts, self.decimal)
        after = pc.subtract(pc.subtract(pc.binary_length(texts), point), 1)
        return float(pc.max(pc.if_else(pc.less(point, 0), 0, after)).as_py())


def _most(decimals: tuple[float, ...]) -> int | None:
    most = max(decimals)
    if most < 0:
        return 2
    return None if np.isinf(most) else int(most)


def _round(numbers: NDArray[np.float64], decimals: int | None) -> list[float]:
    """Two decimals more than the observed cells have; seven digits where they have exponents."""
    if decimals is None:
        return [float(f"{number:.7g}") for number in numbers.tolist()]
    # A double holds about 15 digits: beyond them rounding does nothing but overflow.
    largest = float(np.abs(numbers).max(initial=1.0))
    digits = min(decimals + 2, 15 - int(np.log10(largest)))
    # Adding zero turns -0.0 into 0.0.
    rounded: list[float] = (np.round(numbers, max(digits, 0)) + 0.0).tolist()
    return rounded
