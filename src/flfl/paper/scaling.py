"""Per-sensor scaling: local to each sensor, and undone before anything is written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Scaling:
    """Center and scale of every sensor: ``scaled = (value - center) / scale``.

    A constant sensor has scale 1. A sensor without readings has center NaN and scale 1: what is
    undone for it is NaN, since its level is not known.

    Examples
    --------
    >>> scaling = Scaling.fit(np.array([[1.0, 3.0, np.nan], [5.0, 5.0, 5.0]]))
    >>> scaling.center, scaling.scale
    (array([2., 5.]), array([1., 1.]))
    >>> scaling.undo(scaling.apply(np.array([[7.0], [5.0]])))
    array([[7.],
           [5.]])
    """

    center: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def fit(cls, values: NDArray[np.float64]) -> Scaling:
        """Mean and standard deviation of each sensor's known values; NaN = missing."""
        use = ~np.isnan(values)
        count, kept = use.sum(axis=1), np.where(use, values, 0.0)
        # Units of the largest value keep the squares of huge and of tiny readings in range.
        unit = np.abs(kept).max(axis=1, initial=0.0)
        unit = np.where(unit > 0, unit, 1.0)
        share, number = kept / unit[:, None], np.maximum(count, 1)
        mean = share.sum(axis=1) / number
        spread = np.where(use, share - mean[:, None], 0.0)
        deviation = np.sqrt(np.square(spread).sum(axis=1) / number)
        # Rounding alone gives a constant sensor a spread of about 1e-17 of its level.
        scale = np.where(deviation <= 1e-14, 1.0, deviation * unit)
        center = np.where(count > 0, mean * unit, np.nan)
        return cls(center=center, scale=np.where(scale > 0, scale, 1.0))

    def apply(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scale sensors x slots; NaN stays NaN."""
        return (values - self.center[:, None]) / self.scale[:, None]

    def undo(self, scaled: NDArray[np.float64]) -> NDArray[np.float64]:
        """Back to the units of the readings."""
        return scaled * self.scale[:, None] + self.center[:, None]
