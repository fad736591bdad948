"""Errors on hidden readings: over all, by length of the gap, by sensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Errors = Mapping[str, Array]
"""Estimate minus reading of each way to recover, time x sensor, NaN where nothing was hidden."""

ALONE = {"alone": "pchip", "linear": "linear"}
"""What each sensor could do by itself: the name of the score, and of the method."""
_LONGEST_OF_CLASS = (1, 3, 6, 12, 24, 48)


@dataclass(frozen=True)
class GapScore:
    """The self-test in gaps of some lengths.

    Attributes
    ----------
    shortest, longest : slots in the gap; ``longest`` is None where there is no upper end
    count : readings that were hidden in such gaps
    mae : mean absolute error of the method, of each sensor ``alone`` (pchip) and ``linear``
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
    gains : whether the method's error is below the better one of the sensor alone
    """

    sensor: str
    count: int
    mae: Mapping[str, float]
    gains: bool


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
    """Scores of each column; a sensor gains where the method beats the sensor alone both ways.

    Examples
    --------
    >>> two = np.array([[2.0, np.nan]])
    >>> errors = {"flfl": two / 2, "alone": two, "linear": two}
    >>> [(s.sensor, s.count, s.gains) for s in by_sensor(errors, ["a", "b"], "flfl")]
    [('a', 1, True), ('b', 0, False)]
    """
    counts = (~np.isnan(errors[method])).sum(axis=0)
    means = {
        name: np.where(counts, np.nansum(np.abs(error), axis=0) / np.maximum(counts, 1), np.nan)
        for name, error in errors.items()
    }
    gains = means[method] < np.minimum.reduce([means[name] for name in ALONE])
    return tuple(
        SensorScore(
            str(name),
            int(counts[i]),
            {way: float(mean[i]) for way, mean in means.items()},
            bool(gains[i]),
        )
        for i, name in enumerate(names)
    )
