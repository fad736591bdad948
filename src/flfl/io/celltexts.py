"""Numbers to text: observed cells in their own words, recovered ones with sensible digits."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flfl.io.table import Table
from flfl.io.texts import Slots

# Cells looked at together when the decimals are counted.
_SCANNED_CELLS = 1 << 19


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
        most = np.max([self._decimals_of(part) for part in parts], axis=0)
        return [2 if m < 0 else None if np.isinf(m) else int(m) for m in most.tolist()]

    def _decimals_of(self, slots: Slots) -> NDArray[np.float64]:
        """The most decimals of each sensor at some slots; -1 for none, infinite for exponents."""
        known = self.known[slots].T
        if self.texts is not None:
            columns = [self.texts.column(i, slots) for i in range(len(known))]
            texts = pc.utf8_trim_whitespace(pa.concat_arrays(columns).fill_null(""))
        else:
            numbers = self.filled[slots].T.ravel().tolist()
            texts = pa.array([repr(number) for number in numbers], pa.string())
        point = pc.find_substring(texts, self.decimal).to_numpy()
        after = pc.binary_length(texts).to_numpy() - point - 1.0
        after[point < 0] = 0
        after[pc.match_substring_regex(texts, "[eE]").to_numpy(zero_copy_only=False)] = np.inf
        return np.where(known, after.reshape(known.shape), -1).max(axis=1)


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
