"""The sentences a user needs: what federation buys, and what keeping readings at home costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from flfl.methods import methods
from flfl_bench.statistics import paired_scores

OURS = "flfl"


def headline(rows: pd.DataFrame) -> list[str]:
    """Up to three sentences, each with its figures; fewer where the rows do not tell.

    Examples
    --------
    >>> rows = pd.DataFrame({"data": "D", "pattern": "random", "rate": [0.5, 0.5, 0.9, 0.9],
    ...     "seed": 0, "label": ["flfl", "linear"] * 2, "method": ["flfl", "linear"] * 2,
    ...     "mae": [1.0, 2.0, 3.0, 4.0], "failed": None})
    >>> print(*headline(rows)[0].split(", "), sep="\\n")
    **What federation buys over each sensor alone:** `flfl` has 38 % lower MAE than the best that \
each sensor could do with its own readings (the best of linear in each case; the median of 2 cases
    25 % lower to 50 % lower).
    """
    table = paired_scores(rows)
    kinds = [
        (
            "What federation buys over each sensor alone",
            "the best that each sensor could do with its own readings",
            ["linear", "pchip", "mean"],
        ),
        (
            "What federation buys over each owner alone",
            "each owner with its own sensors",
            ["alone"],
        ),
        (
            "What noisy copies cost against pooling all data",
            "the best method that sees all readings in one place",
            [name for name, method in methods().items() if method.pooled],
        ),
    ]
    return [
        f"**{question}:** `{OURS}` has {sentence}"
        for question, whom, names in kinds
        if (sentence := _against(table, names, whom))
    ]


def _against(table: pd.DataFrame, names: Sequence[str], whom: str) -> str | None:
    """How our error compares to the best of some methods, in the cases that all were run on."""
    there = [name for name in names if name in table.columns]
    if OURS not in table.columns or not there:
        return None
    common = table[[OURS, *there]].dropna()
    ours, best = common[OURS].to_numpy(), common[there].min(axis=1).to_numpy()
    both = np.isfinite(ours) & np.isfinite(best)
    if not both.any():
        return None
    change = ours[both] / best[both] - 1
    lost = int((np.isinf(ours) & np.isfinite(best)).sum())
    return (
        f"{_lower(np.median(change))} MAE than {whom} (the best of {', '.join(there)} in each case;"
        f" the median of {_cases(len(change))}, {_lower(change.max())} to {_lower(change.min())})"
        + (f"; it failed in {_cases(lost)} more." if lost else ".")
    )


def _cases(number: int) -> str:
    return "1 case" if number == 1 else f"{number} cases"


def _lower(change: float) -> str:
    return f"{100 * abs(change):.0f} % {'lower' if change < 0 else 'higher'}"
