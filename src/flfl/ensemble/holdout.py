"""Hold-out that imitates a table's own gaps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flfl import constants

Index = NDArray[np.intp]
Mask = NDArray[np.bool_]


def runs(mask: Mask) -> tuple[Index, Index, Index]:
    """Rows, starts and ends of the runs of true entries in each row of a mask.

    Examples
    --------
    >>> [found.tolist() for found in runs(np.array([[True, True, False, True]]))]
    [[0, 0], [0, 3], [2, 4]]
    """
    edge = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edge == 1)
    return rows, starts, np.nonzero(edge == -1)[1]


def draw_holdouts(J: Mask, rng: np.random.Generator, *, per_hour: float = 1.0) -> Mask:
    """Known entries to hide, in several draws (D, M, N) where one holds few.

    Each is a :func:`draw_holdout`. A sensor with some hundred readings has one or two long runs in
    a draw: too little to tell what is better in its gaps from chance. With still fewer readings the
    same ones would be drawn again and again, which is no more evidence.
    """
    first = draw_holdout(J, rng, per_hour=per_hour)
    wanted = -(-constants.HELD_OUT_IN_ALL // max(int(first.sum()), 1))
    usual = np.median(J.sum(axis=1))
    most = min(constants.MOST_DRAWS, 1 + int(usual) // constants.READINGS_A_DRAW)
    draws = min(max(wanted, 1), most)
    more = [draw_holdout(J, rng, per_hour=per_hour) for _ in range(draws - 1)]
    return np.stack([first, *more])


def draw_holdout(
    J: Mask, rng: np.random.Generator, *, share: float | None = None, per_hour: float = 1.0
) -> Mask:
    """Known entries to hide (M, N): about ``share`` of each sensor's.

    Half one by one, half in runs as long as the table's gaps, drawn with probability
    proportional to their length (a slot to be recovered sits in such a gap). Scattered gaps
    therefore give scattered hold-out, outages give outages; where a site's sensors fall silent
    together, so do those held out. A sensor keeps at least two readings. Without a ``share`` it is
    small, larger for an owner with few readings; ``per_hour`` are slots, 1 where one is longer.
    """
    M, N = J.shape
    if share is None:
        wanted = constants.ENOUGH_HELD_OUT / max(int(J.sum()), 1)
        share = float(np.clip(wanted, constants.HELD_OUT, constants.MOST_HELD_OUT))
    most = min(int(constants.LONGEST_HELD_OUT_HOURS * per_hour), max(N // 20, 1))
    _, starts, ends = runs(~J)
    lengths = np.minimum(ends - starts, most) if len(starts) else np.ones(1, np.intp)
    # Runs in which (nearly) a whole site is silent, and their share of all gaps. A lone sensor has
    # nobody to fall silent with.
    silent = ((~J).mean(0, keepdims=True) >= constants.SILENT_SHARE) & (M > 1)
    _, starts, ends = runs(silent)
    long = ends - starts > constants.SILENT_HOURS * per_hour
    gaps = np.concatenate([[0], np.cumsum((~J).sum(0))])
    part = float((gaps[ends] - gaps[starts])[long].sum() / max(gaps[-1], 1))
    together = np.minimum((ends - starts)[long], most)
    hidden = J & (rng.random(J.shape) < share / 2)
    hidden |= J & _draw_runs((M, N), lengths, (1 - part) * share / 2, rng)
    if len(together):
        # Few such runs fit in, and the intervals need to see some: twice as much of them.
        hidden |= J & _draw_runs((1, N), together, part * share, rng)
    left = (J & ~hidden).sum(1)
    return hidden & (left >= 2)[:, None]


def _draw_runs(
    shape: tuple[int, int], lengths: Index, share: float, rng: np.random.Generator
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
