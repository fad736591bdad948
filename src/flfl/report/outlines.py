"""Coasts and borders for the map: Natural Earth, 1:50 million, thinned to about a mile."""

from __future__ import annotations

import zlib
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

Line = NDArray[np.float64]
_STEPS = 180.0
"""Whole numbers in the file are parts of a degree."""


@cache
def _rings() -> tuple[Line, ...]:
    """Every outline, as points of longitude and latitude.

    The file is deflated: how many outlines (uint32), their lengths (uint16), then the differences
    from point to point (int16) as byte planes, longitudes first.
    """
    data = zlib.decompress((files("flfl.report") / "assets" / "outlines.bin").read_bytes())
    (count,) = np.frombuffer(data, "<u4", 1).tolist()
    lengths = np.frombuffer(data, "<u2", count, 4).astype(int)
    planes = np.frombuffer(data, np.uint8, -1, 4 + 2 * count).reshape(2, 2, -1)
    steps = np.ascontiguousarray(planes.transpose(0, 2, 1)).view("<i2")[..., 0].astype(np.int64)
    ends = np.cumsum(lengths)
    return tuple(
        np.cumsum(steps[:, end - length : end], axis=1).T / _STEPS
        for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)
    )


def outlines(west: float, south: float, east: float, north: float) -> list[Line]:
    """The parts of coasts and borders in a box, each with a point beyond it at either end.

    Examples
    --------
    >>> near = outlines(5.0, 47.0, 16.0, 56.0)
    >>> len(near) > 5, outlines(-31.0, 40.0, -30.0, 41.0)
    (True, [])
    """
    found = []
    for ring in _rings():
        x, y = ring.T
        if x.max() < west or x.min() > east or y.max() < south or y.min() > north:
            continue
        inside = (x >= west) & (x <= east) & (y >= south) & (y <= north)
        # A line may cross a small box without a point in it.
        near = inside | np.append(inside[1:], False) | np.insert(inside[:-1], 0, False)
        at = np.flatnonzero(near)
        for run in np.split(at, np.flatnonzero(np.diff(at) > 1) + 1) if len(at) else ():
            found.append(ring[run])
    return found
