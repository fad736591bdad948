"""The sensor's own dense smoother ``S_i``: all of it runs inside a site.

A stationary process with kernel ``exp(-|dt| / length)`` and unit variance has a
tridiagonal precision ``T``; known values carry noise variance ``nu``.  The posterior
mean at every slot is ``S_i(x) = (T + diag(J_i) / nu)^-1 (J_i x / nu)``.

All sensors are solved at once: their tridiagonal systems are laid end to end with
zero coupling, one LAPACK call (``pttrf`` / ``pttrs``) for M * N unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Smoother:
    """Factor of ``T + diag(J) / nu`` for all sensors of a site."""

    diagonal: Array  # (M * N,) pttrf's D
    lower: Array  # (M * N - 1,) pttrf's E
    weights: Array  # (M, N) J / nu, what multiplies a series before the solve


def _precision(shape: tuple[int, int], length: float) -> tuple[Array, Array]:
    """Diagonal (M, N) and sub-diagonal (M, N) of T; the last sub-diagonal is zero."""
    a = float(np.exp(-1.0 / length)) if length > 0 else 0.0
    diagonal = np.full(shape, (1 + a * a) / (1 - a * a))
    diagonal[:, [0, -1]] = 1.0 / (1 - a * a) if shape[1] > 1 else 1.0
    below = np.full(shape, -a / (1 - a * a))
    below[:, -1] = 0.0
    return diagonal, below


def smoother(J: Array, length: float, nu: float) -> Smoother:
    """Factor the smoothers of all rows of ``J`` (M, N), a 0/1 mask or weights.

    Examples
    --------
    >>> s = smoother(np.array([[0.0, 1.0, 0.0]]), length=1.0, nu=0.25)
    >>> smooth(s, np.array([[0.0, 1.0, 0.0]])).round(3).tolist()
    [[0.294, 0.8, 0.294]]
    """
    weights = np.asarray(J, float) / nu
    diagonal, below = _precision(weights.shape, length)
    d, e, info = lapack.dpttrf((diagonal + weights).ravel(), below.ravel()[:-1])
    if info != 0:
        raise np.linalg.LinAlgError("the sensor smoother's precision is not positive definite")
    return Smoother(d, e, weights)


def smooth(factor: Smoother, X: Array) -> Array:
    """``S_i(x_i)`` for every sensor (M, N); values where the weight is zero are ignored."""
    shape = factor.weights.shape
    x, info = lapack.dpttrs(factor.diagonal, factor.lower, (factor.weights * X).ravel())
    if info != 0:
        raise np.linalg.LinAlgError("the sensor smoother's solve failed")
    return np.asarray(x).reshape(shape)


def response(factor: Smoother) -> Array:
    """``resp_it = S_i(1)_t``: near 1 at observations, fading to 0 far from any (M, N).

    Examples
    --------
    >>> s = smoother(np.array([[1.0] + [0.0] * 9]), length=1.0, nu=0.1)
    >>> r = response(s)[0]
    >>> bool(r[0] > 0.9), bool(r[9] < 1e-3)
    (True, True)
    """
    return smooth(factor, np.ones(factor.weights.shape))


def impulse_columns(factor: Smoother, reach: int) -> NDArray[np.float32]:
    """Columns of ``S_i`` around each slot: ``out[i, t, reach + d] = S_i[t + d, t]``.

    Impulses ``2 reach + 1`` slots apart share one solve, so 2 reach + 1 solves give
    every column; what lies beyond ``reach`` is dropped.  Shape (M, N, 2 reach + 1).

    Examples
    --------
    >>> s = smoother(np.ones((1, 7)), length=1.0, nu=0.25)
    >>> columns = impulse_columns(s, reach=2)
    >>> e = np.zeros((1, 7)); e[0, 3] = 1.0
    >>> np.allclose(columns[0, 3], smooth(s, e)[0, 1:6], atol=0.01)
    True
    """
    M, N = factor.weights.shape
    span = 2 * reach + 1
    out = np.zeros((M, N, span), dtype=np.float32)
    for phase in range(span):
        at = np.arange(phase, N, span)
        impulses = np.zeros((M, N))
        impulses[:, at] = 1.0
        padded = np.pad(smooth(factor, impulses), ((0, 0), (reach, reach)))
        out[:, at] = padded[:, at[:, None] + np.arange(span)]
    return out


def log_likelihood(X: Array, J: Array, length: float, nu: float) -> tuple[Array, Array]:
    """Gaussian log-likelihood of each sensor's known values, its variance profiled out.

    ``x ~ N(0, s^2 (K + nu I))`` on the known slots, with ``s^2`` at its maximum:
    ``-n/2 log(s^2) - 1/2 log|K + nu I| - n/2`` (constants dropped).  Returns the
    likelihoods (M,) and ``s^2`` (M,).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1, 400))
    >>> white, _ = log_likelihood(X, np.ones((1, 400)), 0.2, 0.1)
    >>> slow, _ = log_likelihood(X, np.ones((1, 400)), 20.0, 0.1)
    >>> bool(white[0] > slow[0])
    True
    """
    factor = smoother(J, length, nu)
    known = np.asarray(J, float)
    n = np.maximum(known.sum(axis=1), 1.0)
    X = np.where(known > 0, X, 0.0)
    quadratic = ((X - smooth(factor, X)) * X * known).sum(axis=1) / nu
    a2 = np.exp(-2.0 / length)
    # log|K + nu I| = log|T + J/nu| - log|T| + n log nu, and |T| = (1 - a^2)^-(N-1)
    logdet = np.log(factor.diagonal.reshape(known.shape)).sum(axis=1)
    logdet += (known.shape[1] - 1) * np.log1p(-a2) + n * np.log(nu)
    variance = np.maximum(quadratic / n, 1e-300)
    return -0.5 * n * (np.log(variance) + 1) - 0.5 * logdet, variance
