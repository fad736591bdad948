"""The heat map's cells: shares of what was observed, recovered and refused."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.uint8]

LEVELS = 4
NOTHING = (LEVELS + 1) ** 2
"""The cell of a stretch of time in which the table has no row."""
_MOST_COLUMNS = 1000
_MOST_CELLS = 500_000


def coverage(codes: Codes, places: Array, step: float) -> Codes:
    """Shares of recovered and refused slots in stretches of equal length.

    Parameters
    ----------
    codes : slots x sensors, 0 observed, 1 recovered, 2 refused
    places : float array, where the slots are on the time axis
    step : the usual distance between slots

    Returns
    -------
    sensors x stretches: ``recovered + 5 * refused``, each share in quarters, and `NOTHING` where
    there is no slot

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
    recovered, refused = (
        _quarters(
            np.add.reduceat((codes == code).astype(int), _starts(column), axis=0), slots[slots > 0]
        )
        for code in (1, 2)
    )
    cells = np.full((rows, columns), NOTHING, dtype=np.uint8)
    cells[:, slots > 0] = (recovered + (LEVELS + 1) * refused).T
    return _close_cracks(cells, slots, places, width, step)


def _starts(column: NDArray[np.int_]) -> NDArray[np.intp]:
    return np.flatnonzero(np.diff(column, prepend=-1))


def _quarters(count: NDArray[np.int_], slots: NDArray[np.int_]) -> Codes:
    """Shares in quarters; a little is never shown as none."""
    return np.ceil(LEVELS * count / slots[:, None]).astype(np.uint8)


def _close_cracks(
    cells: Codes, slots: NDArray[np.int_], places: Array, width: float, step: float
) -> Codes:
    """Months differ in length: a stretch that falls between two of them shows the one before."""
    centres = places[0] - step / 2 + width * (np.arange(len(slots)) + 0.5)
    before = np.searchsorted(places, centres, side="right") - 1
    near = centres - places[np.maximum(before, 0)] < 0.75 * step
    cracks = np.flatnonzero((slots == 0) & (before >= 0) & near)
    for column in cracks[cracks > 0]:
        cells[:, column] = cells[:, column - 1]
    return cells
