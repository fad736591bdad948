"""A small network with a known law: two slow factors over a map, and white news of each sensor."""

import numpy as np

from flfl.data.sensors import Sensors

N = 400


def readings(M: int, rate: float, seed: int = 0, sites: int | None = None, N: int = N):
    """(N, M) time x sensor, NaN = missing, and the sensors."""
    rng = np.random.default_rng(seed)
    places = rng.random((M, 2))
    Q = np.empty((N, 2))
    Q[0] = 0
    for t in range(1, N):
        Q[t] = 0.95 * Q[t - 1] + 0.3 * rng.standard_normal(2)
    X = Q @ (0.5 + places.T) + 0.5 * rng.standard_normal((N, M))
    X[rng.random(X.shape) > rate] = np.nan
    owners = None if sites is None else tuple(f"site{i % sites}" for i in range(M))
    return X, Sensors(tuple(str(i) for i in range(M)), places, "metric", sites=owners)
