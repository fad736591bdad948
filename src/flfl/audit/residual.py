"""The truth that attacks are scored against: what nobody else can foretell of a reading.

*Residual*: a clean reading minus its best prediction from all **other** sensors' clean readings, at
all slots: the exact smoother with the public model, without the sensor, and the sensor's loadings
refitted to it. Slow deviations of a sensor are part of it.

*Surprise*: the residual minus its best prediction from the sensor's own other residuals, before and
after. It is what only this one reading tells, and what 1 / (1 + beta^2) is about.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from flfl.audit.view import Truth, View
from flfl.model.state_space import Dynamics, Posterior, smooth

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

MEMORIES = (0.5, 0.7, 0.85, 0.93, 0.97, 0.99, 0.995)
"""Memories of the states whose sum a residual is taken to be."""
_LAGS = 72
_WHITE = 0.02
"""Least share of a residual that has no memory."""


@dataclass(frozen=True)
class Law:
    """How a sensor's residual behaves in time: states with a memory, and a part without any.

    Attributes
    ----------
    memory, variance : (d,) of each state; white : variance of the part without memory
    """

    memory: Array
    variance: Array
    white: float

    @property
    def dynamics(self) -> Dynamics:
        """Of the states."""
        a = self.memory
        return Dynamics(np.diag(a), np.diag((1 - a**2) * self.variance))

    @property
    def simple(self) -> tuple[float, float]:
        """One state instead of several: its memory and variance."""
        v = float(self.variance.sum())
        return (float(self.memory @ self.variance) / v, v) if v > 0 else (0.5, 0.0)


def law_of(e: Array, known: Mask) -> Law:
    """The law of a series (N,): its autocovariance as a sum of powers, none of them negative.

    Examples
    --------
    >>> e = np.random.default_rng(0).standard_normal(2000)
    >>> law = law_of(e, np.ones(2000, bool))
    >>> bool(law.white > 0.85), bool(law.variance.sum() < 0.15)
    (True, True)
    """
    N, e = len(e), np.where(known, e, 0.0)
    lags = np.arange(min(_LAGS, max(N // 4, 1)) + 1)
    J = known.astype(float)
    pairs = np.array([J[: N - lag] @ J[lag:] for lag in lags])
    cov = np.array([e[: N - lag] @ e[lag:] for lag in lags]) / np.maximum(pairs, 1.0)
    trust = np.sqrt(pairs / max(pairs[0], 1.0))
    powers = np.column_stack([lags == 0, *(a**lags for a in MEMORIES)]).astype(float)
    weights, _ = nnls(powers * trust[:, None], cov * trust)
    kept = weights[1:] > 1e-3 * max(cov[0], 1e-300)
    white = max(float(weights[0]), _WHITE * float(cov[0]), 1e-12)
    return Law(np.array(MEMORIES)[kept], weights[1:][kept], white)


def _own_states(x: Array, noise: Array, law: Law) -> Posterior:
    """The states given a series (N,) seen with noise of some variance, infinite where unseen."""
    d = len(law.memory)
    precision = 1.0 / noise
    information = np.broadcast_to(precision[:, None, None], (len(x), d, d)).copy()
    return smooth(information, np.repeat((precision * x)[:, None], d, axis=1), law.dynamics)


def read_series(x: Array, sigma2: Array, seen: Mask, law: Law) -> Array:
    """Best linear reading of a residual (N,) from a series seen with added noise of its own.

    Examples
    --------
    >>> law = Law(np.empty(0), np.empty(0), 1.0)
    >>> read_series(np.array([2.0, 0.0]), np.ones(2), np.array([True, False]), law)
    array([1., 0.])
    """
    noise = np.where(seen, law.white + sigma2, np.inf)
    x = np.where(seen, x, 0.0)
    slow = np.zeros(len(x))
    if len(law.memory):
        slow = _own_states(x, noise, law).mean.sum(axis=1)
    return slow + np.where(seen, law.white / noise * (x - slow), 0.0)


def without_itself(e: Array, known: Mask, law: Law) -> tuple[Array, Array]:
    """Each entry of a series (N,) from all the others, exactly, and the variance of its error."""
    if not len(law.memory):
        return np.zeros(len(e)), np.full(len(e), law.white)
    post = _own_states(np.where(known, e, 0.0), np.where(known, law.white, np.inf), law)
    x, v = post.mean.sum(axis=1), post.cov.sum(axis=(1, 2))
    h = np.where(known, np.minimum(v / law.white, 0.999), 0.0)
    return np.where(known, x - h * (e - x) / (1 - h), x), v / (1 - h) + law.white


@dataclass(frozen=True)
class Residuals:
    """What attacks look for, (M, N) each, in the network's units; zero where there is no reading.

    Attributes
    ----------
    foretold : from all other sensors' clean readings
    residual : the rest of each reading
    surprise : the rest of that, after the sensor's own other readings
    doubt : variance of the surprise that was to be expected
    laws : (M,) how each sensor's residual behaves in time
    """

    foretold: Array
    residual: Array
    surprise: Array
    doubt: Array
    laws: tuple[Law, ...]


def residuals_of(view: View, truth: Truth) -> Residuals:
    """The truth to score against."""
    foretold = others_tell(view, truth)
    e = np.where(truth.known, truth.clean - foretold, 0.0)
    laws = tuple(law_of(row, known) for row, known in zip(e, truth.known, strict=True))
    own = [without_itself(e[i], truth.known[i], law) for i, law in enumerate(laws)]
    surprise = np.where(truth.known, e - np.array([x for x, _ in own]), 0.0)
    return Residuals(foretold, e, surprise, np.array([v for _, v in own]), laws)


def others_tell(view: View, truth: Truth) -> Array:
    """Each sensor's readings as foretold by all other sensors' clean readings (M, N)."""
    net, Y, J = view.network, truth.clean, truth.known.astype(float)
    P, r = net.P, net.r
    (M, N), k = Y.shape, P.shape[1]
    own = P[:, :, None] * P[:, None, :] / r[:, None, None]
    information = (J.T @ own.reshape(M, -1)).reshape(N, k, k)
    vector = (J * Y / r[:, None]).T @ P
    out = np.zeros((M, N))
    for i in range(M):
        without = information - J[i, :, None, None] * own[i]
        rest = vector - (J[i] * Y[i] / r[i])[:, None] * P[i]
        m = np.column_stack([smooth(without, rest, net.dynamics).mean, np.ones(N)])
        H = m.T @ (J[i, :, None] * m) + r[i] * np.eye(k + 1)
        out[i] = m @ np.linalg.solve(H, m.T @ (J[i] * Y[i]))
    return out
