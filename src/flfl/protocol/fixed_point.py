"""Numbers that are to be added up travel as 64-bit integers.

Integer addition is associative: the sum of the sites' answers does not depend on the order in
which they arrive, nor on how regions are grouped into sites.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.errors import OutOfRangeError

__all__ = [
    "FRACTION_BITS",
    "LARGEST",
    "Fixed",
    "OutOfRangeError",
    "add",
    "from_fixed",
    "to_fixed",
]

FRACTION_BITS = 30
"""Resolution 2^-30, about 1e-9."""

LARGEST = 2.0**30
"""Largest magnitude one site may send; :func:`add` also refuses a sum that would not fit."""


@dataclass(frozen=True)
class Fixed:
    """Numbers that a site has put in fixed point itself, so that nobody takes them for counts."""

    values: NDArray[np.int64]


def to_fixed(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round to multiples of 2^-30.

    Raises
    ------
    OutOfRangeError
        For a value that is not finite or beyond :data:`LARGEST`.

    Examples
    --------
    >>> to_fixed(np.array([1.0, -0.5])).tolist()
    [1073741824, -536870912]
    """
    values = np.asarray(values, dtype=np.float64)
    # One reduction serves both checks: a NaN or an infinity fails the comparison too.
    if values.size and not max(float(values.max()), -float(values.min())) <= LARGEST:
        raise OutOfRangeError(f"a number to be summed is not finite or beyond {LARGEST:.0f}")
    return np.rint(values * 2.0**FRACTION_BITS).astype(np.int64)


def from_fixed(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Back to floating point.

    Examples
    --------
    >>> from_fixed(to_fixed(np.array([0.25]))).tolist()
    [0.25]
    """
    return values.astype(np.float64) * 2.0**-FRACTION_BITS


def add(terms: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Exact sum of integer arrays of one shape; refuses to wrap around.

    Examples
    --------
    >>> add([np.array([1]), np.array([2])]).tolist()
    [3]
    """
    room = np.iinfo(np.int64).max // max(len(terms), 1)
    total = np.zeros_like(terms[0])
    if len({term.shape for term in terms}) > 1:
        raise OutOfRangeError("the sites' answers have different shapes")
    for term in terms:
        if term.size and max(int(term.max()), -int(term.min())) > room:
            raise OutOfRangeError("the sum of the sites' answers would not fit in 64 bits")
        total += term
    return total
