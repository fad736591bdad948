"""Latent vectors from differences of rounds, and what their refits say about the readings.

Adversary: the coordinator of the default method with a fixed projection. It knows the sums ``g`` of
every round, the ``m`` it sent, and, as in every claim, the gaps, the coordinates and hence the
scaled projection b, the guard's weights u and each sensor's smoother.

Assumes: under the guard the readings' part of ``g`` is the same in every round, so it cancels:
``g_0 - g_r = sum_i b_i u_i mean_tau[S_i(p_ir . m_r)]`` is linear in the latent vectors, with far
more equations (windows x k) than unknowns (sensors x k).

Scored: relative error of every ``p_i . m``; then the share of each sensor's news (R^2) that its
refits carry. A refit ``p_ir = (sum m m^T + V)^-1 sum_t y_it m_t`` is k functionals of that sensor's
readings alone, no sum over sensors. ``span_share`` bounds what they can tell (an adversary who
knows every functional exactly, robust weights included); ``read_from_refits`` is what one without
those weights reads.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flfl.model.shared.smoothers import Smoother, smooth
from flfl.model.shared.windows import Windows

Array = NDArray[np.float64]


def spoken_factors(m: Array, u: Array, factor: Smoother, windows: Windows) -> Array:
    """``X_i = u_i mean_tau[S_i(m)]`` (M, n_windows, k): what a latent vector multiplies.

    Parameters
    ----------
    m : (N, k); u : (M, n_windows); factor : the smoothers of the M sensors
    """
    shape = factor.weights.shape
    columns = [u * windows.mean(smooth(factor, np.broadcast_to(c, shape))) for c in m.T]
    return np.stack(columns, axis=2)


def solve_vectors(difference: Array, X: Array, B: Array, released: NDArray[np.int64]) -> Array:
    """P (M, k) from ``difference = sum_i X_i p_i b_i^T`` where a component is released.

    Parameters
    ----------
    difference : (n_windows, k) ``g_0 - g_r``; X : (M, n_windows, k); B : (M, k)
    released : (n_windows,) leading components that each window sends

    Examples
    --------
    >>> X = np.array([[[1.0], [2.0]], [[3.0], [1.0]]])
    >>> B, P = np.array([[1.0], [2.0]]), np.array([[5.0], [-1.0]])
    >>> D = np.einsum("itk,ik,il->tl", X, P, B)
    >>> solve_vectors(D, X, B, np.array([1, 1])).round(6).tolist()
    [[5.0], [-1.0]]
    """
    M, _, k = X.shape
    gram, right = np.zeros((M * k, M * k)), np.zeros((M, k))
    for n in np.unique(released):
        on = released == n
        flat = X[:, on].transpose(0, 2, 1).reshape(M * k, -1)
        overlap = B[:, :n] @ B[:, :n].T
        gram += (flat @ flat.T) * np.repeat(np.repeat(overlap, k, axis=0), k, axis=1)
        spoken = np.einsum("tl,il->it", difference[on, :n], B[:, :n])
        right += np.einsum("itk,it->ik", X[:, on], spoken)
    # Columns in their own units: a sensor far from any reading barely speaks.
    size = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    scaled = np.linalg.lstsq(gram / np.outer(size, size), right.ravel() / size, rcond=1e-12)[0]
    return np.asarray((scaled / size).reshape(M, k))


def vectors_by_round(
    sums: Array, means: Array, B: Array, u: Array, factor: Smoother, windows: Windows
) -> Array:
    """``p_i`` of every round after the first (rounds - 1, M, k).

    Parameters
    ----------
    sums : (rounds, n_windows, k); means : (rounds, N, k) the m that each round answered, the first
        one zero
    """
    return np.stack(
        [
            solve_vectors(sums[0] - g, spoken_factors(m, u, factor, windows), B, windows.released)
            for g, m in zip(sums[1:], means[1:], strict=True)
        ]
    )


def relative_errors(found: Array, truth: Array, m: Array) -> Array:
    """``|(p_hat - p) . m| / |p . m|`` of each sensor (M,): what p says about the readings.

    A direction of p along which m does not move is neither found nor of any use.

    Examples
    --------
    >>> m = np.array([[1.0, 0.0], [2.0, 0.0]])
    >>> relative_errors(np.array([[1.5, 7.0]]), np.array([[1.0, 0.0]]), m).tolist()
    [0.5]
    """
    miss, size = (np.linalg.norm(p @ m.T, axis=1) for p in (found - truth, truth))
    return np.asarray(miss / np.maximum(size, 1e-300))


def _basis(functionals: Array) -> Array:
    """Orthonormal rows of the span of (n, T) functionals."""
    _, size, rows = np.linalg.svd(functionals, full_matrices=False)
    return np.asarray(rows[size > 1e-9 * max(size[0], 1e-300)])


def span_share(means: Array, weights: Array, news: Array) -> Array:
    """Share of each sensor's news inside the span of its refits' functionals (M,): a bound.

    ``|Pi e_i|^2 / |e_i|^2`` with Pi the projection on the rows ``w_irt m_rt``. For news like white
    noise it is about ``rounds * k / readings``.

    Parameters
    ----------
    means : (rounds, N, k); weights : (rounds, M, N) of each refit, zero where nothing was observed
    news : (M, N), anything where unobserved

    Examples
    --------
    >>> means, news = np.array([[[1.0], [0.0]]]), np.array([[3.0, 4.0]])
    >>> span_share(means, np.ones((1, 1, 2)), news).round(6).tolist()
    [0.36]
    """
    out = np.zeros(len(news))
    for i in range(len(news)):
        on = weights[:, i].any(axis=0)
        if on.any():
            rows = np.vstack(
                [(w[i, on, None] * m[on]).T for w, m in zip(weights, means, strict=True)]
            )
            inside = _basis(rows) @ news[i, on]
            out[i] = (inside @ inside) / max(float(news[i, on] @ news[i, on]), 1e-300)
    return out


def read_from_refits(
    P: Array, means: Array, spreads: Array, known: Array, noise: float = 1e-2
) -> Array:
    """Each sensor's readings guessed from its latent vectors alone (M, N).

    The equations ``sum_t J m_rt y_t = (sum_t J m_rt m_rt^T + V_ir) p_ir`` for every round, solved
    for the smallest change to the last round's ``p . m``.

    Parameters
    ----------
    P : (rounds, M, k); means : (rounds, N, k); known : (M, N) of 0 and 1
    spreads : (rounds, M, k, k) ``sum_t J V_t``, which follows from what is published
    noise : relative size of the error in the equations (the robust weights are not known)
    """
    out = P[-1] @ means[-1].T
    for i in range(P.shape[1]):
        on = known[i] > 0
        rows = np.vstack([m[on].T for m in means])
        values = np.concatenate(
            [(m[on].T @ m[on] + V[i]) @ p[i] for p, m, V in zip(P, means, spreads, strict=True)]
        )
        miss = values - rows @ out[i, on]
        gram = rows @ rows.T
        gram += noise * np.diag(np.diag(gram)) + 1e-12 * np.trace(gram) * np.eye(len(gram))
        out[i, on] += rows.T @ np.linalg.solve(gram, miss)
    return np.asarray(out)


def news_read(guess: Array, readings: Array, curve: Array, known: Array) -> Array:
    """R^2 of each sensor's news by the guess (M,): squared correlation of the two departures.

    All (M, N); ``curve`` is what the shared model says, ``p . m``.

    Examples
    --------
    >>> y, zero = np.array([[1.0, -1.0, 2.0]]), np.zeros((1, 3))
    >>> news_read(2 * y, y, zero, np.ones((1, 3))).round(6).tolist()
    [1.0]
    """
    out = np.zeros(len(guess))
    for i, on in enumerate(known > 0):
        a, b = (guess - curve)[i, on], (readings - curve)[i, on]
        out[i] = (a @ b) ** 2 / max(float((a @ a) * (b @ b)), 1e-300)
    return out
