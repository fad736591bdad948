"""A filled table for whoever wants to publish it: made from copies, without a clean reading."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flfl.model.transforms import BACKWARD, fit_offsets, season_rows
from flfl.protocol import public
from flfl.protocol.owner import Outgoing
from flfl.protocol.public import Network

Array = NDArray[np.float64]

DIGITS = 6
"""Significant digits of what is published: more than the noise leaves of any copy."""


def published(network: Network, out: Outgoing) -> Array:
    """A site's sensors from its copies and the public model, in the readings' units (m, N).

    A copy where there is one, ``p . m`` of the public posterior elsewhere, both back on the scale
    of the readings. NaN for a sensor that stayed at home.

    Guarantees: a function of the copies and of public numbers. Tables with equal copies give equal
    bytes, whatever their readings.
    """
    at = {sensor.tobytes(): row for row, sensor in enumerate(network.sensors)}
    rows, N = np.array([at[sensor.tobytes()] for sensor in out.sensors]), network.n_slots
    C = out.copies[:, :N]
    there = np.isfinite(C)
    season = season_rows(network.positions[:N], network.season)
    in_units = there & (np.arange(N) < network.units_stop[rows, None])
    offset = fit_offsets(np.where(in_units, C, 0.0), in_units.astype(float), season) @ season
    post, _ = public.posterior(network)
    curve = offset + network.scale * (network.P[rows] @ post.mean.T)
    values = BACKWARD[network.transform](np.where(there, C, curve))
    return _rounded(np.where(there.any(axis=1, keepdims=True), values, np.nan))


def _rounded(values: Array) -> Array:
    """Values to so many significant digits; zero and NaN stay.

    Examples
    --------
    >>> _rounded(np.array([1234.56789, -0.0123456789, 0.0])).tolist()
    [1234.57, -0.0123457, 0.0]
    """
    size = np.abs(np.where(np.isfinite(values) & (values != 0), values, 1.0))
    unit = 10.0 ** (DIGITS - 1 - np.floor(np.log10(size)))
    return np.round(values * unit) / unit
