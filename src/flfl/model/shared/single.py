"""The coordinator's model from one release alone: no rounds, no latent vectors from the sites.

A factor model is free to choose the coordinates of q. Here they are those in which ``F = M I``,
what the projection itself would give; each sensor fits its latent vector to the result at home.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flfl.model.shared import dynamics
from flfl.model.shared.windows import Windows

Array = NDArray[np.float64]

STEPS = 15
_LEAST = 0.02
"""Smallest variance of the news, in model units."""


def fit_single(
    g: Array, F: Array, R: Array, w: Array, noise: float, cut: Windows, A: Array, S: Array
) -> tuple[Array, Array, Array, Array]:
    """``m`` (N, k), ``A``, ``S`` and the whole noise matrix, by EM on one release.

    ``g_tau = w_tau F q_tau + e``, ``e ~ N(0, rho w_tau R + noise I)``: ``rho``, the news' variance,
    is learned with the dynamics; ``noise`` is the known variance of the noise that was added.

    Parameters
    ----------
    g : (n_windows, k) the release; F, R : (k, k) sums that depend on places only
    w : (n_windows,) mean response; noise : variance; cut : windows
    A, S : (k, k) to start from

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> q = np.zeros((300, 1))
    >>> for t in range(1, 300): q[t] = 0.95 * q[t - 1] + 0.3 * rng.standard_normal(1)
    >>> one, every = np.eye(1), Windows(np.arange(301), np.ones(300, int))
    >>> g = 8 * q + 4 * rng.standard_normal((300, 1))
    >>> m, *_ = fit_single(g, 8 * one, 8 * one, np.ones(300), 16.0, every, 0.9 * one, 0.1 * one)
    >>> bool(np.abs(m - q).mean() < 0.7 * np.abs(g / 8 - q).mean())
    True
    """
    k = len(F)
    sent = np.arange(k) < cut.released[:, None]
    scale = float(np.trace(R)) / k
    rho = 0.5
    for step in range(STEPS):
        total = rho * R + noise * np.eye(k)
        seen = dynamics.observe(F, total, cut.released)
        # News shrinks with the sensors that speak; added noise does not.
        trust = w * (rho * scale + noise) / np.maximum(w * rho * scale + noise, 1e-300)
        trust = np.where(w > 0, trust, 0.0)
        information = cut.per_slot((w * trust)[:, None, None] * seen.CF[seen.kind])
        vector = cut.per_slot(trust[:, None] * seen.apply(seen.C, g))
        m = dynamics.smoothed_mean(A, S, information, vector, cut)
        cov = dynamics.published_covariances(A, S, F, total, w * trust, 1.0, cut)
        if step == STEPS - 1:
            break
        A, S = dynamics.learn(m, cov)
        left = g - w[:, None] * (cut.mean(m.T).T @ F.T)
        spread = np.einsum("lab,tl->tab", F @ cov.table @ F.T, cov.weights, optimize=True)
        doubt = cut.mean(np.einsum("taa->at", spread)).T * (w**2)[:, None]
        excess = ((left**2 + doubt) * sent).sum() - noise * sent.sum()
        rho = max(excess / max((sent * w[:, None] * np.diag(R)).sum(), 1e-300), _LEAST)
    return m, A, S, total
