"""Which method is better, by how much, and how sure we can be.

The unit of every test is a *case*: a data set, a pattern and a rate. Seeds of one case are
averaged first, since they share their readings and are no evidence of their own; only seeds that
all methods of the case have count. A method that failed in a case is worse there than any that
did not.

Data sets have units: errors are ranked within a case, and differences between two methods are
logarithms of their ratio, so that no data set counts more for its large numbers. Cases of one data
set are not independent either, which makes every p-value here too small: in how many whole data
sets a method wins is counted beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scikit_posthocs import posthoc_nemenyi_friedman
from scipy import stats
from statsmodels.stats.multitest import multipletests

CASE = ["data", "pattern", "rate"]
LEVEL = 0.95
OURS = "flfl"
"""The label that the others are compared with."""
_FAILED = 1e3
"""The logarithm of an error beyond all others."""


@dataclass(frozen=True)
class Comparison:
    """Our method against another, case by case.

    Attributes
    ----------
    wins, losses, ties : cases in which our error is smaller, larger, equal
    data_wins, data_losses : the same for data sets, by the geometric mean over their cases
    p_value : of the logarithms of their error over ours, two-sided Wilcoxon signed-rank test;
        exact for few cases without ties
    holm : the same, corrected for all comparisons that are made at once (Holm)
    rank_biserial : effect size from -1 to 1: the rank sum of our wins less that of our losses,
        over both; 1 means that we win everywhere
    relative : median over the cases of ``ours / theirs - 1``
    """

    label: str
    wins: int
    losses: int
    ties: int
    data_wins: int
    data_losses: int
    p_value: float
    holm: float
    rank_biserial: float
    relative: float


@dataclass(frozen=True)
class Ranking:
    """Friedman's test over the cases that every method has.

    Attributes
    ----------
    ranks : mean rank by label, 1 is best, in this order
    p_value : of "all methods are alike"
    cases : how many
    nemenyi : labels x labels, p-values of "these two are alike" (Nemenyi)
    critical_difference : mean ranks closer than this are not told apart at 5 %
    """

    ranks: dict[str, float]
    p_value: float
    cases: int
    nemenyi: pd.DataFrame
    critical_difference: float


def scores(rows: pd.DataFrame, metric: str = "mae") -> pd.DataFrame:
    """Cases x labels: the mean over seeds, inf where a seed failed, NaN where none was run.

    Examples
    --------
    >>> case = {"data": "D", "pattern": "random", "rate": 0.5}
    >>> rows = pd.DataFrame({**case, "label": ["a", "a", "b"], "mae": [1.0, 3.0, np.nan],
    ...     "failed": [None, None, "ran away"]})
    >>> scores(rows).to_numpy().tolist()
    [[2.0, inf]]
    """
    value = rows[metric].where(rows["failed"].isna(), np.inf)
    wide = rows.assign(value=value).pivot_table(
        index=CASE, columns="label", values="value", aggfunc="mean", sort=False
    )
    return wide.reindex(columns=list(dict.fromkeys(rows["label"])))


def paired_scores(rows: pd.DataFrame, metric: str = "mae") -> pd.DataFrame:
    """As ``scores``, on the masks that every method of a case was given.

    A slow method has fewer seeds: the others then count with the same ones, or two methods would
    be told apart by their masks. A case in which no mask is common keeps all its rows.

    Examples
    --------
    >>> rows = pd.DataFrame({"data": "D", "pattern": "random", "rate": 0.5,
    ...     "label": ["a", "a", "b"], "seed": [0, 1, 0], "mae": [1.0, 3.0, 2.0], "failed": None})
    >>> paired_scores(rows).to_numpy().tolist()
    [[1.0, 2.0]]
    """
    there = rows.groupby([*CASE, "seed"])["label"].transform("nunique")
    common = there == rows.groupby(CASE)["label"].transform("nunique")
    found = common.groupby([rows[name] for name in CASE]).transform("any")
    return scores(rows[common | ~found], metric)


def compare(table: pd.DataFrame, ours: str) -> list[Comparison]:
    """Our label against every other one of ``scores``, on the cases that both have."""
    found = []
    for label in table.columns.drop(ours):
        pair = table[[ours, label]].dropna()
        if len(pair):
            found.append(_comparison(str(label), pair[ours], pair[label]))
    if not found:
        return []
    adjusted = multipletests([one.p_value for one in found], method="holm")[1]
    return [replace(one, holm=float(p)) for one, p in zip(found, adjusted, strict=True)]


def _comparison(label: str, ours: pd.Series, theirs: pd.Series) -> Comparison:
    difference = log_ratio(theirs, ours)
    by_data = difference.groupby(level="data").mean()
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = (ours / theirs - 1).to_numpy()
    return Comparison(
        label=label,
        wins=int((difference > 0).sum()),
        losses=int((difference < 0).sum()),
        ties=int((difference == 0).sum()),
        data_wins=int((by_data > 0).sum()),
        data_losses=int((by_data < 0).sum()),
        p_value=wilcoxon(difference),
        holm=1.0,
        rank_biserial=rank_biserial(difference),
        relative=float(np.nanmedian(ratio)) if not np.isnan(ratio).all() else 0.0,
    )


def log_ratio(theirs: pd.Series, ours: pd.Series) -> pd.Series:
    """``log(theirs / ours)``: free of units; a failure is an error beyond all others.

    >>> log_ratio(pd.Series([2.0, np.inf, 1.0]), pd.Series([1.0, 1.0, 1.0])).round(2).tolist()
    [0.69, 1000.0, 0.0]
    """
    tiny = np.finfo(float).tiny
    logs = [np.log(error.clip(lower=tiny)).replace(np.inf, _FAILED) for error in (theirs, ours)]
    return logs[0] - logs[1]


def wilcoxon(difference: ArrayLike) -> float:
    """Two-sided p-value of the signed-rank test; 1 where nothing differs.

    >>> wilcoxon(np.arange(1, 13.0)) == 2 / 2**12  # all wins: both signs of the extreme case
    True
    """
    nonzero = np.asarray(difference, dtype=float)
    nonzero = nonzero[nonzero != 0]
    return float(stats.wilcoxon(nonzero).pvalue) if len(nonzero) else 1.0


def rank_biserial(difference: ArrayLike) -> float:
    """Matched-pairs rank-biserial correlation ``(R+ - R-) / (R+ + R-)``.

    >>> round(rank_biserial([2.0, -1.0, 3.0]), 4)  # ranks 1, 2, 3, of which 1 is lost: 4 / 6
    0.6667
    """
    nonzero = np.asarray(difference, dtype=float)
    nonzero = nonzero[nonzero != 0]
    if not len(nonzero):
        return 0.0
    ranks = stats.rankdata(np.abs(nonzero))
    return float((ranks * np.sign(nonzero)).sum() / ranks.sum())


def rank(table: pd.DataFrame) -> Ranking | None:
    """Friedman's test on ``scores``; None for fewer than three methods or two common cases.

    Only the cases that every method was run on count; a failed one ranks last there.
    """
    complete = table.dropna()
    cases, methods = complete.shape
    if methods < 3 or cases < 2:
        return None
    spread = complete.rank(axis=1).rename(columns=str)
    ranks = spread.mean().sort_values(kind="stable")
    alike = spread.nunique(axis=1).max() == 1
    p_value = 1.0 if alike else float(stats.friedmanchisquare(*spread.to_numpy().T).pvalue)
    pairs = posthoc_nemenyi_friedman(spread.to_numpy())
    return Ranking(
        ranks={str(label): float(value) for label, value in ranks.items()},
        p_value=p_value,
        cases=cases,
        nemenyi=pairs.set_axis(spread.columns, axis=0).set_axis(spread.columns, axis=1),
        critical_difference=critical_difference(methods, cases),
    )


def critical_difference(methods: int, cases: int) -> float:
    """Nemenyi's: ``q_0.05 sqrt(k (k + 1) / (6 N))``, q of the studentized range over sqrt(2).

    >>> round(critical_difference(5, 5), 3)  # q as in the tables
    2.728
    """
    q = float(stats.studentized_range.ppf(LEVEL, methods, np.inf)) / np.sqrt(2)
    return float(q * np.sqrt(methods * (methods + 1) / (6 * cases)))


def half_width(values: ArrayLike) -> float:
    """Half of the 95 % interval of a mean over seeds (Student's t); NaN for fewer than two.

    >>> round(half_width([1.0, 2.0, 3.0]), 3)  # 4.303 / sqrt(3)
    2.484
    """
    given = np.asarray(values, dtype=float)
    if len(given) < 2 or not np.isfinite(given).all():
        return float("nan")
    t = float(stats.t.ppf((1 + LEVEL) / 2, len(given) - 1))
    return float(t * given.std(ddof=1) / np.sqrt(len(given)))
