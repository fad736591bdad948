"""Hold-out that imitates a table's own gaps, and the classes of distance by which it is judged."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

EDGES: tuple[float, ...] = (1, 2, 3, 5, 8, 12, 20, 40)
"""Upper edges of the bins of distance to the nearest observation, in slots."""
LONGEST = 48
"""Slots in the longest run that is hidden: a few very long ones would be a noisy hold-out, and
beyond that the distance no longer matters."""
TOGETHER = 0.9
"""Share of a site's sensors that must be silent for the site to count as silent ..."""
LASTING = 24
"""... for more than so many slots: shorter ones happen by chance."""


def gap_lengths(J: Mask) -> Index:
    """Length of every run of unknown slots.

    Examples
    --------
    >>> gap_lengths(np.array([[True, False, False, True, False]])).tolist()
    [2, 1]
    """
    edge = np.diff(np.pad(~J, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    return np.nonzero(edge == -1)[1] - np.nonzero(edge == 1)[1]


def silent_together(J: Mask) -> tuple[Index, float]:
    """Lengths of the runs in which (nearly) a whole site is silent, and their share of all gaps.

    Examples
    --------
    >>> J = np.ones((2, 100), bool); J[:, 10:50] = False; J[0, 60:70] = False
    >>> lengths, share = silent_together(J)
    >>> lengths.tolist(), round(share, 2)
    ([40], 0.89)
    """
    if len(J) < 2:  # a lone sensor has nobody to fall silent with
        return np.zeros(0, np.intp), 0.0
    silent = (~J).mean(0) >= TOGETHER
    edge = np.diff(np.pad(silent, 1).astype(np.int8))
    starts, ends = np.nonzero(edge == 1)[0], np.nonzero(edge == -1)[0]
    long = ends - starts > LASTING
    gaps = np.concatenate([[0], np.cumsum((~J).sum(0))])
    share = (gaps[ends] - gaps[starts])[long].sum() / max(gaps[-1], 1)
    return (ends - starts)[long], float(share)


def draw_holdout(J: Mask, share: float, rng: np.random.Generator) -> Mask:
    """Known entries to hide (M, N): about ``share`` of each sensor's.

    Half one by one, half in runs as long as the table's gaps, drawn with probability
    proportional to their length (a slot to be recovered sits in such a gap). Scattered gaps
    therefore give scattered hold-out, outages give outages; where a site's sensors fall silent
    together, so do those held out. A sensor keeps at least two readings.

    Examples
    --------
    >>> J = np.ones((2, 1000), bool); J[:, 100:150] = False
    >>> H = draw_holdout(J, 0.1, np.random.default_rng(0))
    >>> bool((H & ~J).any()), bool(0.05 < H.sum() / J.sum() < 0.2)
    (False, True)
    """
    most = min(LONGEST, max(J.shape[1] // 20, 1))
    lengths = np.minimum(gap_lengths(J), most)
    if not len(lengths):
        lengths = np.ones(1, np.intp)
    together, part = silent_together(J)
    hidden = J & (rng.random(J.shape) < share / 2)
    hidden |= J & _draw_runs(J.shape, lengths, (1 - part) * share / 2, rng)
    if len(together):
        site = (1, J.shape[1])
        # Few such runs fit in, and the intervals need to see some: twice as much of them.
        hidden |= J & _draw_runs(site, np.minimum(together, most), part * share, rng)
    left = (J & ~hidden).sum(1)
    return hidden & (left >= 2)[:, None]


def _draw_runs(
    shape: tuple[int, ...], lengths: Index, share: float, rng: np.random.Generator
) -> Mask:
    """Runs of slots that cover about ``share`` of each row."""
    M, N = shape
    mean_drawn = (lengths.astype(float) ** 2).sum() / lengths.sum()
    rows = np.repeat(np.arange(M), rng.poisson(share * N / mean_drawn, size=M))
    drawn = rng.choice(lengths, size=len(rows), p=lengths / lengths.sum())
    starts = rng.integers(0, np.maximum(N - drawn, 1))
    mark = np.zeros((M, N + 1))
    np.add.at(mark, (rows, starts), 1)
    np.add.at(mark, (rows, np.minimum(starts + drawn, N)), -1)
    return mark.cumsum(1)[:, :N] > 0


def distance_bin(distance: Array) -> Index:
    """Bin of each distance: 0 for distance <= EDGES[0], ..., ``len(EDGES)`` beyond the last.

    Examples
    --------
    >>> distance_bin(np.array([1.0, 2.0, 4.0, np.inf]))
    array([0, 1, 3, 8])
    """
    return np.searchsorted(np.asarray(EDGES), distance)
