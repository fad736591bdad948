"""Windows: stretches of time over which the sums are averaged.

They are as long as the counting rule needs.

The coordinator learns one number a slot, how many sensors observed it (a secure sum),
and publishes the windows' edges.  ``edges`` has n_windows + 1 entries, from 0 to N.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Kind = TypeVar("Kind", bound=np.generic)


@dataclass(frozen=True)
class Windows:
    """The published cut of time, and how many numbers each window releases."""

    edges: Index  # (n_windows + 1,)
    released: Index  # (n_windows,) leading components of the projection that are sent

    def __len__(self) -> int:
        return len(self.released)

    @property
    def n_slots(self) -> int:
        """N."""
        return int(self.edges[-1])

    @property
    def lengths(self) -> Index:
        """Slots in each window."""
        return np.diff(self.edges)

    def per_slot(self, values: NDArray[Kind]) -> NDArray[Kind]:
        """Give every slot its window's row: (n_windows, ...) to (N, ...)."""
        return values if len(self) == self.n_slots else np.repeat(values, self.lengths, axis=0)

    def mean(self, X: Array) -> Array:
        """Mean over each window along the last axis: (..., N) to (..., n_windows).

        Examples
        --------
        >>> Windows(np.array([0, 2, 3]), np.array([1, 1])).mean(np.array([1.0, 3.0, 5.0])).tolist()
        [2.0, 5.0]
        """
        if len(self) == self.n_slots:
            return X
        return np.add.reduceat(X, self.edges[:-1], axis=-1) / self.lengths


def cut(counts: Array, rank: int, allowed: float, least: int = 1) -> Windows:
    """Cut time under the counting rule (coordinator).

    Greedy from the left: a window closes as soon as its readings allow ``least`` numbers,
    ``held * allowed >= least``; it then releases ``min(rank, floor(held * allowed))``, so
    dense hours say more than sparse ones.  What remains at the end joins the last window;
    slots that nobody observed are swallowed by the window around them.

    Parameters
    ----------
    counts : (N,) array
        Readings at each slot, summed over all sensors (a secure sum).
    rank : int
        Most numbers a window may release.
    allowed : float
        Numbers per reading, ``0.6 * max_exposure``; inf switches the rule off.
    least : int
        Fewest numbers a window may release.

    Examples
    --------
    >>> w = cut(np.array([3.0, 0.0, 1.0, 4.0, 9.0]), rank=3, allowed=0.5, least=2)
    >>> w.edges.tolist(), w.released.tolist()
    ([0, 3, 4, 5], [2, 2, 3])
    >>> cut(np.array([1.0, 1.0]), 2, 0.3).released.tolist()  # too few readings: nothing is sent
    [0]
    """
    if not np.isfinite(allowed):
        return Windows(np.arange(len(counts) + 1), np.full(len(counts), rank))
    edges, held, kept = [0], 0.0, []
    for t, count in enumerate(np.asarray(counts, float).tolist()):
        held += count
        if held * allowed >= least:
            edges.append(t + 1)
            kept.append(held)
            held = 0.0
    if not kept:  # all readings together allow less than one window
        edges, kept = [0, len(counts)], [held]
    elif edges[-1] != len(counts):
        edges[-1] = len(counts)
        kept[-1] += held
    released = np.minimum(rank, np.floor(np.array(kept) * allowed + 1e-9)).astype(np.int64)
    return Windows(np.array(edges, dtype=np.int64), released)


def numbers_per_reading(counts: Array, windows: Windows) -> Array:
    """``rho`` of every window: numbers released over readings held (n_windows,).

    Examples
    --------
    >>> numbers_per_reading(np.array([5.0, 5.0]), Windows(np.array([0, 2]), np.array([3]))).tolist()
    [0.3]
    """
    held = np.add.reduceat(np.asarray(counts, float), windows.edges[:-1])
    # where nobody observed anything there is no reading to expose
    return np.where(held > 0, windows.released / np.maximum(held, 1.0), 0.0)
