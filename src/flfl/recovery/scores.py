"""Errors on hidden readings: over all, by length of the gap, by sensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Array = NDArray[np.float64]
Errors = Mapping[str, Array]
"""Estimate minus reading of each way to recover, time x sensor, NaN where nothing was hidden."""

ALONE = {"alone": "pchip", "linear": "linear"}
"""What each sensor could do by itself: the name of the score, and of the method."""
SITE = "site"
"""The score of what each site could do with its own sensors and nothing shared."""
_SURE = 0.975
_LONGEST_OF_CLASS = (1, 3, 6, 12, 24, 48)


@dataclass(frozen=True)
class GapScore:
    """The self-test in gaps of some lengths.

    Attributes
    ----------
    shortest, longest : slots in the gap; ``longest`` is None where there is no upper end
    count : readings that were hidden in such gaps
    mae : mean absolute error of the method, of each sensor ``alone`` (pchip) and ``linear``, and
        of each ``site`` by itself where that was tried
    """

    shortest: int
    longest: int | None
    count: int
    mae: Mapping[str, float]


@dataclass(frozen=True)
class SensorScore:
    """The self-test of one sensor.

    Attributes
    ----------
    sensor : its name
    count : readings of it that were hidden
    mae : as in :class:`GapScore`; NaN where nothing was hidden
    lead : by how much the method's mean absolute error lies below that of the best other way: the
        sensor alone, or its site alone
    margin : what chance alone may make of that lead, 19 times of 20; NaN where fewer than two gaps
        tell
    """

    sensor: str
    count: int
    mae: Mapping[str, float]
    lead: float
    margin: float

    @property
    def gains(self) -> bool:
        """Whether the lead is more than chance."""
        return self.lead > self.margin

    @property
    def loses(self) -> bool:
        """Whether the other way's lead is more than chance."""
        return -self.lead > self.margin


@dataclass(frozen=True)
class SiteScore:
    """The self-test of one owner.

    Attributes
    ----------
    site : its name
    sensors : how many it has
    count : readings of them that were hidden
    mae : as in :class:`GapScore`; NaN where nothing was hidden
    added_error : of its copies, the median of its sensors; NaN where nothing left it
    """

    site: str
    sensors: int
    count: int
    mae: Mapping[str, float]
    added_error: float


def by_site(
    scores: Sequence[SensorScore], sites: Sequence[str], added_error: Array
) -> tuple[SiteScore, ...]:
    """Sensors' scores by owner, each hidden reading with the same weight.

    Examples
    --------
    >>> sensors = [SensorScore(name, n, {"flfl": e}, 0.0, 0.0) for name, n, e in
    ...            (("a", 10, 1.0), ("b", 30, 2.0), ("c", 0, np.nan))]
    >>> found = by_site(sensors, ["x", "x", "y"], np.array([3.0, 5.0, np.nan]))
    >>> [(score.site, score.sensors, score.mae, score.added_error) for score in found]
    [('x', 2, {'flfl': 1.75}, 4.0), ('y', 1, {'flfl': nan}, nan)]
    """
    found = []
    for site in dict.fromkeys(name for name in sites if name):
        at = [i for i, owner in enumerate(sites) if owner == site]
        tested = [scores[i] for i in at if scores[i].count]
        count = sum(score.count for score in tested)
        mae = {
            way: sum(score.count * score.mae[way] for score in tested) / count if count else np.nan
            for way in scores[at[0]].mae
        }
        added = added_error[at][np.isfinite(added_error[at])]
        median = float(np.median(added)) if len(added) else np.nan
        found.append(SiteScore(site, len(at), count, mae, median))
    return tuple(found)


def overall(error: Array) -> dict[str, float]:
    """Mean absolute and root mean square error."""
    return {
        "mae": float(np.nanmean(np.abs(error))),
        "rmse": float(np.sqrt(np.nanmean(error**2))),
    }


def by_gap_length(errors: Errors, lengths: Array) -> tuple[GapScore, ...]:
    """Scores in classes of gap length (time x sensor, in slots); empty classes are left out.

    Examples
    --------
    >>> errors = {"flfl": np.array([[1.0, -3.0]]), "linear": np.array([[2.0, 8.0]])}
    >>> [(s.shortest, s.longest, s.mae) for s in by_gap_length(errors, np.array([[1.0, 60.0]]))]
    [(1, 1, {'flfl': 1.0, 'linear': 2.0}), (49, None, {'flfl': 3.0, 'linear': 8.0})]
    """
    hidden = ~np.isnan(next(iter(errors.values())))
    group = np.searchsorted(_LONGEST_OF_CLASS, lengths[hidden])
    counts = np.bincount(group, minlength=len(_LONGEST_OF_CLASS) + 1)
    sums = {
        name: np.bincount(group, np.abs(error[hidden]), len(counts))
        for name, error in errors.items()
    }
    shortest = (1, *(longest + 1 for longest in _LONGEST_OF_CLASS))
    return tuple(
        GapScore(
            shortest[i],
            (*_LONGEST_OF_CLASS, None)[i],
            int(counts[i]),
            {name: float(total[i] / counts[i]) for name, total in sums.items()},
        )
        for i in np.flatnonzero(counts)
    )


def by_sensor(errors: Errors, names: Sequence[object], method: str) -> tuple[SensorScore, ...]:
    """Scores of each column, beside the best of the other ways.

    Examples
    --------
    >>> two = np.array([[2.0, np.nan], [np.nan, np.nan], [2.2, np.nan], [np.nan, np.nan]])
    >>> errors = {"flfl": two / 2, "alone": two, "linear": two}
    >>> [(s.sensor, s.count, s.gains, s.loses) for s in by_sensor(errors, ["a", "b"], "flfl")]
    [('a', 2, True, False), ('b', 0, False, False)]
    """
    counts = (~np.isnan(errors[method])).sum(axis=0)
    means = {
        name: np.where(counts, np.nansum(np.abs(error), axis=0) / np.maximum(counts, 1), np.nan)
        for name, error in errors.items()
    }
    others = [name for name in errors if name != method] or [method]
    best = np.argmin([means[name] for name in others], axis=0)
    scores = []
    for i, name in enumerate(names):
        best_other = errors[others[best[i]]][:, i]
        lead, margin = _lead(np.abs(best_other) - np.abs(errors[method][:, i]))
        mae = {way: float(mean[i]) for way, mean in means.items()}
        scores.append(SensorScore(str(name), int(counts[i]), mae, lead, margin))
    return tuple(scores)


def _lead(differences: Array) -> tuple[float, float]:
    """Mean of the differences along time (NaN: none), and half its 95 % interval.

    The errors inside one gap are alike, so each run of hidden readings counts as one draw: with
    ``s_g`` its sum and ``n_g`` its length, the variance of the mean ``m`` over G runs is
    ``G / (G - 1) sum_g (s_g - n_g m)^2 / n^2``.

    Examples
    --------
    >>> lead, margin = _lead(np.array([1.0, np.nan, 3.0, np.nan, 2.0]))
    >>> lead, round(margin, 3)  # 4.303 standard errors with two degrees of freedom
    (2.0, 2.484)
    >>> _lead(np.array([1.0, 3.0]))
    (2.0, nan)
    """
    tested = ~np.isnan(differences)
    run = np.cumsum(tested & ~np.concatenate([[False], tested[:-1]]))[tested] - 1
    if not len(run):
        return np.nan, np.nan
    mean = float(differences[tested].mean())
    lengths, runs = np.bincount(run), int(run[-1]) + 1
    if runs < 2:
        return mean, np.nan
    off = np.bincount(run, differences[tested]) - lengths * mean
    deviation = np.sqrt(runs / (runs - 1) * (off**2).sum()) / len(run)
    return mean, float(stdtrit(runs - 1, _SURE) * deviation)
