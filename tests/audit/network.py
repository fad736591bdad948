"""A small network with a known law, its audited runs, and owners that break the rules."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd

from flfl.audit import Case, watch
from flfl.io.sensors import Sensors
from flfl.model.transforms import FORWARD
from flfl.protocol.noise import NoiseKey
from flfl.protocol.owner import Owner

M, N = 10, 300


@cache
def readings(seed: int = 0, slots: int = N):
    """Two slow factors over a map, and of each sensor a slow and a white residual."""
    rng = np.random.default_rng(seed)
    places = rng.random((M, 2))
    Q, u = np.zeros((slots, 2)), np.zeros((slots, M))
    for t in range(1, slots):
        Q[t] = 0.95 * Q[t - 1] + 0.5 * rng.standard_normal(2)
        u[t] = 0.8 * u[t - 1] + 0.4 * rng.standard_normal(M)
    X = 20 + 2 * Q @ (0.5 + places.T) + u + 0.6 * rng.standard_normal((slots, M))
    X[rng.random(X.shape) > 0.9] = np.nan
    names = tuple(f"s{i}" for i in range(M))
    index = pd.date_range("2024-01-01", periods=slots, freq="h")
    return pd.DataFrame(X, index, names), Sensors(names, places, "metric", sites=names)


def run(**settings) -> Case:
    """An audited run."""
    _, case = watch(*readings(), transformation="none", **settings)
    return case


@cache
def case(added_error: float = 1.0) -> Case:
    """An honest run, made once."""
    return run(added_error=added_error)


class CleanSums(Owner):
    """Makes copies as it should, and sends clean readings."""

    def copy(self, units, *rest):
        out = super().copy(units, *rest)
        if self.table.name != "s3":
            return out
        clean = FORWARD[units[0]](self.table.raw)
        return replace(out, copies=np.where(np.isfinite(out.copies), clean, np.nan))


class _Silent(NoiseKey):
    def normals(self, sensor, context, instants, readings):
        return np.zeros(len(instants))


class _Shared(NoiseKey):
    def normals(self, sensor, context, instants, readings):
        return super().normals("anybody", (), instants, 0.0 * readings)


class NoNoise(Owner):
    """Leaves the noise out of its copies."""

    def __init__(self, table, copier, added_error):
        if table.name == "s3":
            copier._noise = _Silent(bytes(32))
        super().__init__(table, copier, added_error)


class SharedNoise(Owner):
    """Two owners that use one secret, and the same noise for all their sensors."""

    def __init__(self, table, copier, added_error):
        if table.name in ("s3", "s4"):
            copier._noise = _Shared(bytes(32))
        super().__init__(table, copier, added_error)
