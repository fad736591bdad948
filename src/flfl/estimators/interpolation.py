"""Each sensor alone: interpolation between its own readings. No message, no neighbour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.interpolate import PchipInterpolator

from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors

Kind = Literal["linear", "pchip", "mean"]


def interpolate(Y: Array, positions: Array, kind: Kind = "linear") -> Array:
    """Each sensor's own readings interpolated, flat beyond the first and the last.

    Straight lines, shape-preserving cubics (``"pchip"``), or the sensor's ``"mean"`` everywhere, of
    readings Y (M, N) at positions (N,). NaN is missing; a row of NaN stays one.

    Examples
    --------
    >>> interpolate(np.array([[np.nan, 1.0, np.nan, 3.0]]), np.arange(4.0)).tolist()
    [[1.0, 1.0, 2.0, 3.0]]
    """
    out = np.full(Y.shape, np.nan)
    for row, y in zip(out, Y, strict=True):
        known = ~np.isnan(y)
        at, values = positions[known], y[known]
        if kind == "mean" and len(at):
            row[:] = values.mean()
        elif kind == "pchip" and len(at) > 1:
            row[:] = PchipInterpolator(at, values)(np.clip(positions, at[0], at[-1]))
        elif len(at):
            row[:] = np.interp(positions, at, values)
    return out


@dataclass(kw_only=True, eq=False, repr=False)
class Interpolation(BaseRecoverer):
    """Each sensor's own readings interpolated; see :func:`interpolate`."""

    kind: Kind = "linear"

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        return interpolate(Y, positions, self.kind)
