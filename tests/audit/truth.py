"""What only the owners know, put together from a finished run to score attacks on it."""

import numpy as np

from flfl.model.shared.guard import clip_news
from flfl.model.shared.units import to_units


def model_readings(model, X):
    """(Y in model units, J as 0.0 and 1.0, P, r), each with a row a sensor."""
    raw = X.to_numpy().T
    k = model.settings_.rank
    P, r, held = np.zeros((len(raw), k)), np.zeros(len(raw)), np.zeros(raw.shape, dtype=bool)
    for name, (_, memory) in model.remembered_.sites.items():
        home = model.partition_.members(name)
        P[home], r[home], held[home] = memory.P, memory.r, memory.held
    J = (~np.isnan(raw) & ~held).astype(float)
    settings = model.settings_
    positions = np.arange(raw.shape[1], dtype=float)
    Y, _ = to_units(raw, J, settings.transform, settings.period, positions)
    return Y / settings.scale, J, P, r


def spoken_news(model, X, clip=3.0):
    """News as it enters the sums of a run without guard (M, N): clipped, NaN where unknown."""
    Y, J, P, _ = model_readings(model, X)
    m = model.remembered_.published.state.m
    return np.where(J > 0, clip_news(J * (Y - P @ m.T), J, clip), np.nan)
