"""Sensors' news from the sums of rounds, by independent component analysis.

Adversary: a coordinator that sees only securely summed ``g`` (rounds x N x k) and knows nothing of
the sensors: no gaps, no coordinates, no projection.

Assumes: within a round ``g_t = sum_i b_i s_it`` with b constant in time and the sensors' news
``s_i`` nearly independent and heavy-tailed, which news is. A rank near the number of sensors then
makes the mixture invertible.

Scored: for each sensor the R^2 of the one component that fits its news best, at the slots it
observed. The *audit* finds that match with the truth; the adversary only has the unlabelled
components (knowing a handful of readings is enough to label them). News is meant as it enters the
sums, spikes clipped: a spike that never was sent cannot be read.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

Array = NDArray[np.float64]


def sharpen(g: Array, memory: float = 0.6) -> Array:
    """Take the smoothing in time out of the sums: ``(1 + a^2) g_t - a (g_{t-1} + g_{t+1})``.

    That is the precision of an autoregression with coefficient a: independent shocks are less
    Gaussian than their running means, and easier to tell apart. Shape (N, k) as given.

    Examples
    --------
    >>> sharpen(np.array([[0.25], [0.5], [1.0], [0.5], [0.25]]), 0.5).ravel().tolist()
    [0.0, 0.0, 0.75, 0.0, 0.0]
    """
    padded = np.vstack([g[1:2], g, g[-2:-1]])
    out = (1 + memory**2) * g - memory * (padded[:-2] + padded[2:])
    # At the ends there is one neighbour only.
    out[0], out[-1] = g[0] - memory * g[1], g[-1] - memory * g[-2]
    return np.asarray(out)


def components(sums: Array, seed: int = 0, most: int | None = None) -> Array:
    """Independent components (N, n) of the sums of one round (N, k) or of all (rounds, N, k).

    Rounds are laid side by side; ``most`` bounds n where there are more columns than sensors. The
    unmixing is learned on sharpened sums and applied to the sums themselves.
    """
    columns = sums if sums.ndim == 2 else np.hstack(list(sums))
    varying = columns[:, columns.std(axis=0) > 0]
    n = min(varying.shape[1], most or sums.shape[-1], len(varying) - 1)
    method = FastICA(n, whiten="unit-variance", max_iter=1000, tol=1e-5, random_state=seed)
    with warnings.catch_warnings():
        # Components that have not settled are scored as they are.
        warnings.simplefilter("ignore", ConvergenceWarning)
        method.fit(sharpen(varying))
    return np.asarray(method.transform(varying))


def read_by_best(found: Array, news: Array) -> Array:
    """R^2 (M,) of the best single component (N, n) for each sensor's news (M, N), NaN = unknown.

    Examples
    --------
    >>> news = np.array([[1.0, -1.0, np.nan, 0.0]])
    >>> read_by_best(np.array([[-2.0, 1.0], [2.0, 1.0], [9.0, 0.0], [0.0, -1.0]]), news).round(6)
    array([1.])
    """
    out = np.zeros(len(news))
    for i, row in enumerate(news):
        on = ~np.isnan(row)
        if on.sum() < 3:
            continue
        y, X = row[on] - row[on].mean(), found[on] - found[on].mean(axis=0)
        power = (X**2).sum(axis=0) * (y @ y)
        out[i] = ((X.T @ y) ** 2 / np.maximum(power, 1e-300)).max()
    return out


def score(sums: Array, news: Array, seed: int = 0) -> dict[str, Array]:
    """R^2 of every sensor from the first round, from the last, and from all of them together.

    Parameters
    ----------
    sums : (rounds, N, k) ``g`` of each round, a row a slot; news : (M, N), NaN = unknown
    """
    views = {"first": sums[0], "last": sums[-1], "all": sums}
    return {
        name: read_by_best(components(view, seed, len(news)), news) for name, view in views.items()
    }
