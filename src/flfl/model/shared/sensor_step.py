"""What a site does for its own sensors once ``m`` and the covariances are published.

Nothing here leaves the site except through ``F = sum b_i p_i^T``, ``R = sum r_i b_i b_i^T``
and ``g``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flfl.model.heads.interpolation import neighbours
from flfl.model.shared.dynamics import Covariances
from flfl.model.shared.guard import clip_news
from flfl.model.shared.smoothers import Smoother, response, smooth
from flfl.model.shared.windows import Windows

Array = NDArray[np.float64]
Pair = tuple[NDArray[np.intp], NDArray[np.intp]]


def student_weights(E2: Array, r: Array, dof: float) -> Array:
    """EM weights of a Student-t noise: ``(dof + 1) / (dof + e^2 / r)`` (M, N).

    Examples
    --------
    >>> student_weights(np.array([[0.0, 100.0]]), np.ones(1), 4.0).round(3).tolist()
    [[1.25, 0.048]]
    """
    return (dof + 1.0) / (dof + E2 / np.maximum(r, 1e-12)[:, None])


def fit_loadings(
    Y: Array,
    W: Array,
    m: Array,
    cov: Covariances,
    r: Array,
    ridge: float = 1.0,
    most: float = np.inf,
) -> tuple[Array, Array]:
    """``p_i = (sum_t W_it (m_t m_t^T + V_t) + ridge r_i I)^-1 sum_t W_it y_it m_t``.

    Guarantee: the influence of every reading on its ``p_i`` is at most ``most``, whatever m is.

    Parameters
    ----------
    Y : (M, N) readings minus their mean, anything finite where W is zero.
    W : (M, N) mask times robust weights.
    m : (N, k) mean of q; cov : its covariances; r : (M,) noise variances.
    most : largest influence ``h_it = W_it m_t^T G_i^-1 m_t``, with G_i the matrix above: the share
        of the reading that p_i carries. Readings beyond it are weighted down; should the cut m
        still lean on a few slots, the ridge grows until it does not.

    Returns
    -------
    (M, k) array, and (M,) the mean influence of each sensor's readings

    Examples
    --------
    >>> m = np.array([[1.0], [2.0], [3.0]])
    >>> none = Covariances(np.zeros((1, 1, 1)), np.zeros((1, 1, 1)), np.ones((3, 1)))
    >>> P, h = fit_loadings(2 * m.T, np.ones((1, 3)), m, none, np.zeros(1))
    >>> P.round(6).tolist(), h.round(6).tolist()
    ([[2.0]], [0.333333])
    >>> spike = np.array([[0.0], [9.0], [0.0]])
    >>> P, h = fit_loadings(2 * m.T, np.ones((1, 3)), spike, none, np.ones(1), most=0.1)
    >>> bool(3 * h[0] <= 0.1), bool(P[0, 0] < 0.1)
    (True, True)
    """
    k = m.shape[1]
    upper = np.triu_indices(k)
    products = m[:, upper[0]] * m[:, upper[1]]
    diagonal = ridge * r + 1e-9
    for _ in range(_TRIES):
        gram = _gram(W, products, upper, cov, diagonal)
        h = _influence(W, gram, products, upper)
        if not np.isfinite(most) or h.max(initial=0.0) <= most:
            break
        over = np.any(h > most, axis=1)
        # Down-weighting alone converges slowly where few slots carry everything.
        W = W * np.minimum(1.0, 0.9 * most / np.maximum(h, 1e-300))
        diagonal = np.where(over, 2.0 * diagonal, diagonal)
    else:
        # No cut of this m is even enough: these sensors learn nothing from it.
        W = np.where(np.any(h > most, axis=1)[:, None], 0.0, W)
        gram = _gram(W, products, upper, cov, diagonal)
        h = _influence(W, gram, products, upper)
    P = np.asarray(np.linalg.solve(gram, ((W * Y) @ m)[:, :, None])[:, :, 0])
    return P, h.sum(axis=1) / np.maximum((W > 0).sum(axis=1), 1)


_TRIES = 12
"""Rounds of weighting down before a sensor gives up on an m."""


def _gram(W: Array, products: Array, upper: Pair, cov: Covariances, diagonal: Array) -> Array:
    """``sum_t W_it (m_t m_t^T + V_t) + diagonal_i I`` (M, k, k)."""
    k = cov.table.shape[1]
    gram = np.empty((len(W), k, k))
    gram[:, upper[0], upper[1]] = gram[:, upper[1], upper[0]] = W @ products
    gram += np.tensordot(W @ cov.weights, cov.table, 1)
    return gram + diagonal[:, None, None] * np.eye(k)


def _influence(W: Array, gram: Array, products: Array, upper: Pair) -> Array:
    """``h_it = W_it m_t^T G_i^-1 m_t`` of all readings, by one product (M, N)."""
    inverse = np.linalg.inv(gram)
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)
    return np.asarray(W * ((inverse[:, upper[0], upper[1]] * twice) @ products.T))


def sensor_step(
    Y: Array,
    J: Array,
    P: Array,
    r: Array,
    m: Array,
    cov: Covariances,
    ridge: float = 1.0,
    dof: float = 4.0,
    most: float = np.inf,
) -> tuple[Array, Array, Array]:
    """New ``p_i`` (M, k), ``r_i`` (M,) and the mean influence (M,) of all sensors of a site.

    ``r_i = sum W ((y - p.m)^2 + p V p^T) / sum J`` is the scale of the Student noise. ``most`` as
    in :func:`fit_loadings`.

    Examples
    --------
    >>> m = np.array([[1.0], [-1.0], [2.0]])
    >>> none = Covariances(np.zeros((1, 1, 1)), np.zeros((1, 1, 1)), np.ones((3, 1)))
    >>> P, r, _ = sensor_step(m.T, np.ones((1, 3)), np.ones((1, 1)), np.ones(1), m, none, ridge=0.0)
    >>> P.round(3).tolist(), bool(r[0] < 1e-6)
    ([[1.0]], True)
    """
    W = J * student_weights((Y - P @ m.T) ** 2 + cov.quadratic(P), r, dof)
    P, h = fit_loadings(Y, W, m, cov, r, ridge, most)
    squares = (Y - P @ m.T) ** 2 + cov.quadratic(P)
    r_new = (W * squares).sum(axis=1) / np.maximum(J.sum(axis=1), 1.0)
    return P, np.maximum(r_new, 1e-8), h


def predictive_step(
    Y: Array, J: Array, P: Array, r: Array, Z: Array, ridge: float = 1.0, dof: float = 4.0
) -> tuple[Array, Array]:
    """``p_i`` and ``r_i`` from q *without* the sensor's own readings, ``Z = m - own`` (M, N, k).

    A plain robust ridge regression of y_i on Z_i: no covariance term, since the same noisy Z
    is what the sensor predicts with.  This is the p_i to use inside gaps.

    Examples
    --------
    >>> Z = np.array([[[1.0], [-1.0], [2.0]]])
    >>> Y, J, one = Z[:, :, 0], np.ones((1, 3)), np.ones((1, 1))
    >>> predictive_step(Y, J, one, one[0], Z, ridge=0.0)[0].round(3).tolist()
    [[1.0]]
    """
    E2 = (Y - np.einsum("itk,ik->it", Z, P, optimize=True)) ** 2
    W = J * student_weights(E2, r, dof)
    gram = np.matmul((Z * W[:, :, None]).transpose(0, 2, 1), Z)
    gram += (ridge * r + 1e-9)[:, None, None] * np.eye(Z.shape[2])
    right = np.einsum("itk,it->ik", Z, W * Y, optimize=True)
    P = np.asarray(np.linalg.solve(gram, right[:, :, None])[:, :, 0])
    E2 = (Y - np.einsum("itk,ik->it", Z, P, optimize=True)) ** 2
    return P, np.maximum((W * E2).sum(1) / np.maximum(J.sum(1), 1.0), 1e-8)


def news_sum(
    Y: Array,
    J: Array,
    P: Array,
    B: Array,
    u: Array,
    m: Array,
    factor: Smoother,
    windows: Windows,
    clip: float,
) -> Array:
    """Site's part of ``g_tau = sum_i b_i u_i,tau mean_tau[S_i(clip(y_i - p_i . m))]``.

    The only place where readings enter a message.  Shape (n_windows, k); components that a
    window does not release are zero and need not be sent.
    """
    E = clip_news(J * (Y - P @ m.T), J, clip)
    g = (u * windows.mean(smooth(factor, E))).T @ B
    return np.asarray(g * (np.arange(B.shape[1]) < windows.released[:, None]))


def tame(Y: Array, J: Array, factor: Smoother, clip: float) -> Array:
    """Readings whose news is cut at ``clip`` robust deviations, once and for all (M, N).

    The news is what neither the site's other sensors nor the reading's own neighbours in time
    foretell, so that nothing of the network is needed to know it.

    Examples
    --------
    >>> from flfl.model.shared.smoothers import smoother
    >>> Y = np.array([[0.0, 0.1, -0.1, 9.0, 0.1, 0.0, -0.1, 0.0]])
    >>> J = np.ones_like(Y)
    >>> bool(tame(Y, J, smoother(J, 3.0, 0.1), 3.0)[0, 3] < 3)
    True
    """
    guess = others_guess(Y, J, factor)
    guess += median_guess(J * (Y - guess), J)
    return J * (guess + clip_news(J * (Y - guess), J, clip))


def median_guess(E: Array, J: Array) -> Array:
    """Median of two known neighbours on each side in time: one spike does not move it (M, N).

    Examples
    --------
    >>> median_guess(np.array([[1.0, 2.0, 99.0, 2.0, 3.0]]), np.ones((1, 5)))[0, 1:4].tolist()
    [2.0, 2.0, 3.0]
    """
    near = neighbours(E, J > 0)
    values = np.where(np.isfinite(near.distance), near.value, np.nan)
    values[:, np.isnan(values).all(axis=0)] = 0.0
    return np.asarray(np.nanmedian(values, axis=0))


def window_response(factor: Smoother, windows: Windows) -> Array:
    """``mean_tau[resp_it]`` (M, n_windows): what the guard and ``w`` are made of."""
    return windows.mean(response(factor))


def others_guess(Y: Array, J: Array, factor: Smoother) -> Array:
    """Each sensor from the site's other sensors' smoothed mean, by one slope a sensor (M, N).

    Zero for a lone sensor.  A sensor's own readings enter only through its slope.
    """
    if len(Y) == 1:
        return np.zeros_like(Y)
    smoothed, resp = smooth(factor, J * Y), response(factor)
    X = (smoothed.sum(0) - smoothed) / np.maximum(resp.sum(0) - resp, 0.05)
    slope = (J * X * Y).sum(1) / np.maximum((J * X * X).sum(1), 1e-300)
    return np.asarray(slope[:, None] * X)


def neighbour_guess(E: Array, J: Array) -> Array:
    """Leave-one-out linear interpolation of each known value from its known neighbours (M, N).

    Examples
    --------
    >>> neighbour_guess(np.array([[0.0, 9.0, 2.0]]), np.ones((1, 3))).tolist()
    [[0.0, 1.0, 0.0]]
    """
    out = np.zeros_like(E)
    for i, known in enumerate(J > 0):
        t = np.flatnonzero(known)
        if len(t) >= 3:
            part = (t[1:-1] - t[:-2]) / (t[2:] - t[:-2])
            out[i, t[1:-1]] = (1 - part) * E[i, t[:-2]] + part * E[i, t[2:]]
    return out


def interpolation_variance(Y: Array, J: Array) -> Array:
    """Variance of the leave-one-out linear interpolation error of each sensor (M,).

    Winsorised: one spike must not set a sensor's noise.

    Examples
    --------
    >>> interpolation_variance(np.array([[0.0, 1.0, 0.0]]), np.ones((1, 3))).round(3).tolist()
    [0.333]
    """
    return _winsorised_variance(J * (Y - neighbour_guess(J * Y, J)), J)


def first_noise(Y: Array, J: Array, factor: Smoother) -> Array:
    """``r_i`` before the first fit: what the site's other sensors leave unexplained (M,).

    A lone sensor takes its interpolation error with a margin: its neighbours in time tell more
    than the others' readings would.

    Examples
    --------
    >>> from flfl.model.shared.smoothers import smoother
    >>> Y, J = np.array([[0.0, 1.0, 0.0]]), np.ones((1, 3))
    >>> first_noise(Y, J, smoother(J, 1.0, 0.1)).tolist()
    [0.5]
    """
    if len(Y) == 1:
        return 1.5 * interpolation_variance(Y, J)
    return _winsorised_variance(J * (Y - others_guess(Y, J, factor)), J)


def _winsorised_variance(E: Array, J: Array) -> Array:
    """Mean square of each row's known values, clipped at four times their root mean square."""
    n = np.maximum(J.sum(1), 1.0)
    limit = 4 * np.sqrt((J * E**2).sum(1) / n)[:, None]
    return np.maximum((J * np.clip(E, -limit, limit) ** 2).sum(1) / n, 1e-6)
