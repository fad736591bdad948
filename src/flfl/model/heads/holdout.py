"""Hold-out that imitates a table's own gaps, and the weights that correct what is left of the difference."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: upper edges of the bins of distance to the nearest observation, in slots
EDGES: tuple[float, ...] = (1, 2, 3, 5, 8, 12, 20, 40)


def gap_lengths(J: Mask) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Sensor and length of every run of unknown slots.

    Examples
    --------
    >>> gap_lengths(np.array([[True, False, False, True, False]]))
    (array([0, 0]), array([2, 1]))
    """
    edge = np.diff(np.pad(~J, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edge == 1)
    _, ends = np.nonzero(edge == -1)
    return rows, ends - starts


def draw_holdout(J: Mask, share: float, rng: np.random.Generator, *, longest: int = 48) -> Mask:
    """Known entries to hide: about `share` of each sensor's, half one by one and half in runs as long as the table's gaps.

    Run lengths are drawn from the table's gaps with probability proportional to their length (a slot to be recovered sits in such a
    gap), capped at
    `longest` slots: a few very long runs would be a noisy hold-out, and beyond that the distance no longer matters. Scattered gaps
    therefore give scattered hold-out, outages give outages.

    Examples
    --------
    >>> J = np.ones((2, 1000), bool); J[:, 100:150] = False
    >>> H = draw_holdout(J, 0.1, np.random.default_rng(0))
    >>> bool((H & ~J).any()), bool(0.05 < H.sum() / J.sum() < 0.2)
    (False, True)
    """
    M, N = J.shape
    _, lengths = gap_lengths(J)
    lengths = np.minimum(lengths, min(longest, max(N // 20, 1)))
    if not len(lengths):
        lengths = np.ones(1, np.intp)
    hidden = J & (rng.random(J.shape) < share / 2)
    mean_drawn = (lengths.astype(float) ** 2).sum() / lengths.sum()
    count = rng.poisson(share / 2 * N / mean_drawn, size=M)
    rows = np.repeat(np.arange(M), count)
    drawn = rng.choice(lengths, size=len(rows), p=lengths / lengths.sum())
    starts = rng.integers(0, np.maximum(N - drawn, 1))
    mark = np.zeros((M, N + 1))
    np.add.at(mark, (rows, starts), 1)
    np.add.at(mark, (rows, np.minimum(starts + drawn, N)), -1)
    hidden |= J & (mark.cumsum(1)[:, :N] > 0)
    return _leave_two(J, hidden)


def _leave_two(J: Mask, hidden: Mask) -> Mask:
    """Hide nothing of a sensor that would be left with fewer than two readings."""
    left = (J & ~hidden).sum(1)
    return hidden & (left >= 2)[:, None]


def distance_bin(distance: Array, edges: tuple[float, ...] = EDGES) -> NDArray[np.intp]:
    """Bin of each distance: 0 for distance <= edges[0], ..., ``len(edges)`` beyond the last.

    Examples
    --------
    >>> distance_bin(np.array([1.0, 2.0, 4.0, np.inf]))
    array([0, 1, 3, 8])
    """
    return np.searchsorted(np.asarray(edges), distance)


def balance(
    bins_holdout: NDArray[np.intp], bins_gap: NDArray[np.intp], size: int, *, most: float = 5.0
) -> Array:
    """Weight of each hold-out entry so that its distances are distributed like those of the gaps to be filled; mean about one.

    Examples
    --------
    >>> balance(np.array([0, 0, 1]), np.array([0, 1]), 2).round(2)
    array([0.75, 0.75, 1.5 ])
    """
    have = np.bincount(bins_holdout, minlength=size) / max(len(bins_holdout), 1)
    want = np.bincount(bins_gap, minlength=size) / max(len(bins_gap), 1)
    ratio = np.divide(want, have, out=np.zeros(size), where=have > 0)
    return np.clip(ratio, 1 / most / 4, most)[bins_holdout]
