"""Demšar's diagram of mean ranks: which methods the tests do not tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from flfl_bench import statistics
from flfl_bench.canvas import OUR_COLOUR
from flfl_bench.figures import Picture
from flfl_bench.headline import OURS


def critical_differences(rows: pd.DataFrame, metric: str = "mae") -> Picture | None:
    """Mean ranks on an axis; a bar joins methods that are not told apart (Nemenyi, 5 %)."""
    found = statistics.rank(statistics.paired_scores(rows, metric))
    if found is None:
        return None
    labels, values = list(found.ranks), list(found.ranks.values())
    count, half = len(labels), -(-len(labels) // 2)
    bars = _cliques(values, found.critical_difference)
    deepest = 0.4 + 0.3 * len(bars) + 0.55 * half

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        axis.axis("off")
        axis.set(ylim=(deepest + 0.2, -2.2), xlim=(1 - 0.5 * count, 1.5 * count))
        _rank_axis(axis, count, found.critical_difference)
        for number, (label, value) in enumerate(zip(labels, values, strict=True)):
            left = number < half
            depth = deepest - 0.55 * (half - 1 - (number if left else count - 1 - number))
            edge, colour = (0.5 if left else count + 0.5), OUR_COLOUR if label == OURS else "black"
            axis.plot([value, value, edge], [0, depth, depth], color=colour, linewidth=0.6)
            axis.text(
                edge, depth, f"{label}  {value:.1f} " if left else f" {value:.1f}  {label}",
                ha="right" if left else "left", va="center", fontsize=6, color=colour,
                fontweight="bold" if label == OURS else "normal",
            )  # fmt: skip
        for number, (first, last) in enumerate(bars):
            ours = labels.index(OURS) in range(first, last + 1) if OURS in labels else False
            axis.plot(
                [values[first] - 0.1, values[last] + 0.1], [0.4 + 0.3 * number] * 2,
                color=OUR_COLOUR if ours else "black", linewidth=2, solid_capstyle="butt",
            )  # fmt: skip

    caption = (
        f"Mean ranks of {metric.upper()} over {found.cases} cases; a bar joins methods that"
        " Nemenyi's test does not tell apart at 5 %"
    )
    return Picture("ranks", caption, draw, 0.25 * (deepest + 2.4))


def _rank_axis(axis: Any, count: int, difference: float) -> None:
    """Ranks from 1 on, and the length of the critical difference above them."""
    axis.plot([1, count], [0, 0], color="black", linewidth=0.8)
    for tick in range(1, count + 1):
        axis.plot([tick, tick], [0, -0.2], color="black", linewidth=0.6)
        if tick == 1 or tick == count or (tick % 5 == 0 if count > 10 else True):
            axis.text(tick, -0.35, str(tick), ha="center", va="bottom", fontsize=6)
    axis.plot([1, 1 + difference], [-1.6, -1.6], "k|-", linewidth=1, markersize=4)
    axis.text(
        1 + difference, -1.6, f"  critical difference {difference:.1f}", va="center", fontsize=6
    )


def _cliques(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """First and last of every largest group of sorted ranks closer than the difference.

    Examples
    --------
    >>> _cliques([1.0, 1.5, 3.0, 3.2], 1.6)
    [(0, 1), (1, 2), (2, 3)]
    """
    groups: list[tuple[int, int]] = []
    for first, value in enumerate(ranks):
        last = max(n for n, other in enumerate(ranks) if other - value <= difference)
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups
