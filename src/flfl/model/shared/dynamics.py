"""The coordinator's smoother: ``q_t = A q_{t-1} + w_t``, ``w ~ N(0, S)``, in information form.

Inputs are sums only: ``F = sum_i b_i p_i^T``, ``R = sum_i r_i b_i b_i^T``, ``g`` and the
response ``w``.  The mean is one banded Cholesky solve; covariances are stationary
solutions at a few levels of information, mixed slot by slot, so that nothing loops over slots.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded, solve_discrete_lyapunov

from flfl.model.shared.windows import Windows

Array = NDArray[np.float64]
Index = NDArray[np.int64]

REACH = 4
"""Slots of the longest window whose inner couplings are kept exactly."""
LEVELS = 8
"""Levels of information at which covariances are computed; between them V is interpolated."""
RADIUS = 0.999
"""Largest spectral radius of A."""


@dataclass(frozen=True)
class Covariances:
    """Posterior covariances as a mixture of a few stationary ones.

    ``V_t = sum_l weights[t, l] table[l]`` and ``Cov(q_{t+1}, q_t)`` the same with ``lag``.
    """

    table: Array  # (L, k, k)
    lag: Array  # (L, k, k)
    weights: Array  # (N, L), rows add up to one

    def full(self, slots: slice = slice(None)) -> Array:
        """``V_t`` at every slot, or at some (N, k, k)."""
        L, k, _ = self.table.shape
        return (self.weights[slots] @ self.table.reshape(L, -1)).reshape(-1, k, k)

    def quadratic(self, P: Array) -> Array:
        """``p_i V_t p_i^T`` for all sensors and slots (M, N)."""
        return np.einsum("ia,lab,ib->il", P, self.table, P, optimize=True) @ self.weights.T


def stationary(A: Array, S: Array) -> Array:
    """Covariance of q without data: ``Pi = A Pi A^T + S``.

    Examples
    --------
    >>> stationary(np.array([[0.5]]), np.array([[0.75]])).round(6).tolist()
    [[1.0]]
    """
    Pi = solve_discrete_lyapunov(A, S)
    return 0.5 * (Pi + Pi.T)


@dataclass(frozen=True)
class Observation:
    """What windows that release n numbers say about q, for every n that occurs.

    ``C = F_n^T R_n^-1`` (L, k, k, zero beyond column n) and ``C F`` (L, k, k), where F_n and
    R_n are the leading n rows; ``kind`` (n_windows,) tells each window's n.
    """

    C: Array
    CF: Array
    kind: Index

    def apply(self, matrices: Array, X: Array) -> Array:
        """Row tau of ``X`` (n_windows, k) times the transposed matrix of its kind."""
        out = np.empty_like(X)
        for j, matrix in enumerate(matrices):
            out[self.kind == j] = X[self.kind == j] @ matrix.T
        return out

    def average(self, matrices: Array, windows: Windows) -> Array:
        """``C`` or ``C F`` averaged over slots (k, k)."""
        share = np.bincount(self.kind, windows.lengths, len(matrices)) / windows.n_slots
        return np.tensordot(share, matrices, 1)


def observe(F: Array, R: Array, released: Index) -> Observation:
    """``C`` and ``C F`` from the sums ``F = sum b_i p_i^T`` and ``R = sum r_i b_i b_i^T``.

    A relative ridge keeps directions that no sensor carries from dividing by zero.

    Examples
    --------
    >>> o = observe(2 * np.eye(2), 4 * np.eye(2), np.array([1, 2]))
    >>> o.C.round(3).tolist()
    [[[0.5, 0.0], [0.0, 0.0]], [[0.5, 0.0], [0.0, 0.5]]]
    """
    k = len(F)
    counts, kind = np.unique(released, return_inverse=True)
    ridge = 1e-9 * np.trace(R) / k * np.eye(k)
    C = np.zeros((len(counts), k, k))
    for j, n in enumerate(counts):
        C[j, :, :n] = np.linalg.solve((R + ridge)[:n, :n], F[:n]).T
    CF = C @ F
    return Observation(C, 0.5 * (CF + CF.transpose(0, 2, 1)), kind)


def banded_precision(A: Array, S: Array, information: Array, windows: Windows) -> Array:
    """Lower banded form of the posterior precision of q, (bandwidth + 1, N k).

    Diagonal blocks ``S^-1 + A^T S^-1 A + information``, blocks below ``-S^-1 A``.
    A window of D slots observes only its mean: ``information / D`` between *all* its
    slots.  Windows longer than ``REACH`` keep the block-diagonal bound instead, so that
    one long outage does not widen the band; the fixed point is the same.
    ``information`` is (N, k, k), the same at all slots of a window.

    Examples
    --------
    >>> one, two = np.eye(1), Windows(np.arange(3), np.ones(2, int))
    >>> banded_precision(0.5 * one, 0.75 * one, np.zeros((2, 1, 1)), two).round(3).tolist()
    [[1.333, 1.333], [-0.667, 0.0]]
    """
    N, k = information.shape[:2]
    S_inverse = _inverse(S)
    drift = A.T @ S_inverse @ A
    lengths, lags = _window_lags(windows)
    own = information / lengths[:, None, None]
    blocks = own + (S_inverse + drift)
    blocks[0] += _inverse(stationary(A, S)) - S_inverse
    blocks[-1] -= drift
    # One row for each column of the matrix, as LAPACK wants it: no copy is made later.
    band = np.zeros((N, k, (max(len(lags), 1) + 1) * k))
    for c in range(k):
        band[:, c, : k - c] = blocks[:, c:, c]
        band[:-1, c, k - c : 2 * k - c] = -(S_inverse @ A)[:, c]
        for lag, inside in enumerate(lags, start=1):
            band[inside, c, lag * k - c : (lag + 1) * k - c] += own[inside, :, c]
    return band.reshape(N * k, -1).T


def _window_lags(windows: Windows) -> tuple[Array, list[Index]]:
    """Length of each slot's window (1 beyond ``REACH``); the slots whose t + lag is still in it."""
    lengths = windows.lengths
    short = np.where(lengths <= REACH, lengths, 1)
    left = windows.per_slot(windows.edges[1:]) - np.arange(windows.n_slots) - 1
    per_slot = windows.per_slot(short)
    lags = [np.flatnonzero((per_slot > lag) & (left >= lag)) for lag in range(1, int(short.max()))]
    return per_slot.astype(float), lags


def seen(m: Array, windows: Windows) -> Array:
    """What the sums see of m: its window means (N, k); m itself in windows beyond ``REACH``.

    Examples
    --------
    >>> two = Windows(np.array([0, 2, 3]), np.ones(2, int))
    >>> seen(np.array([[1.0], [3.0], [4.0]]), two).tolist()
    [[2.0], [2.0], [4.0]]
    """
    if len(windows) == windows.n_slots:
        return m
    means = windows.per_slot(windows.mean(m.T).T)
    return np.where(windows.per_slot(windows.lengths > REACH)[:, None], m, means)


def smoothed_mean(A: Array, S: Array, information: Array, vector: Array, windows: Windows) -> Array:
    """Posterior mean of q (N, k), from ``information`` (N, k, k) and information ``vector`` (N, k).

    Examples
    --------
    >>> one = np.eye(1)
    >>> two = Windows(np.arange(3), np.ones(2, int))
    >>> info, vector = np.array([[[0.0]], [[1.0]]]), np.array([[0.0], [2.0]])
    >>> smoothed_mean(0.5 * one, 0.75 * one, info, vector, two).round(3).ravel().tolist()
    [0.5, 1.0]
    """
    band = banded_precision(A, S, information, windows)
    factor = cholesky_banded(band, overwrite_ab=True, lower=True, check_finite=False)
    solved = cho_solve_banded((factor, True), vector.reshape(-1), check_finite=False)
    return np.asarray(solved).reshape(vector.shape)


def covariances(A: Array, S: Array, information: Array, share: Array) -> Covariances:
    """Covariances of q where the share of information is ``share`` (N,), by levels.

    Levels are quantiles of the locally smoothed share; between two levels V is
    interpolated linearly.

    Examples
    --------
    >>> one = np.eye(1)
    >>> c = covariances(0.9 * one, 0.19 * one, one, np.ones(50))
    >>> bool(0 < c.full()[25, 0, 0] < 1)
    True
    """
    local = _local_mean(np.asarray(share, float))
    levels = np.unique(np.quantile(local, np.linspace(0.0, 1.0, LEVELS)).round(6))
    V, G = _posterior(A, S, information, levels)
    return Covariances(V, V @ G.transpose(0, 2, 1), _between(local, levels))


def _between(x: Array, levels: Array) -> Array:
    """Weights (N, L) by which each x lies between the levels; rows add up to one."""
    weights = np.zeros((len(x), len(levels)))
    if len(levels) == 1:
        weights[:] = 1.0
        return weights
    right = np.clip(np.searchsorted(levels, x), 1, len(levels) - 1)
    part = np.clip((x - levels[right - 1]) / (levels[right] - levels[right - 1]), 0, 1)
    rows = np.arange(len(x))
    weights[rows, right] = part
    weights[rows, right - 1] = 1 - part
    return weights


def published_covariances(
    A: Array, S: Array, F: Array, R: Array, w: Array, gain: float, windows: Windows
) -> Covariances:
    """Covariances of q from what the coordinator publishes: they need not travel.

    Coordinator and sites call this with the same numbers and get the same bits.
    """
    observation = observe(F, R, windows.released)
    share = gain * windows.per_slot(np.minimum(w, 1.0))
    return covariances(A, S, observation.average(observation.CF, windows), share)


def posterior_gain(A: Array, S: Array, information: Array, level: float) -> tuple[Array, Array]:
    """Stationary V (k, k), and G with ``Cov(q_t, q_{t+d}) = G^d V``, at one level.

    Examples
    --------
    >>> V, G = posterior_gain(0.5 * np.eye(1), 0.75 * np.eye(1), np.eye(1), 0.0)
    >>> V.round(6).tolist(), G.round(6).tolist()
    ([[1.0]], [[0.5]])
    """
    V, G = _posterior(A, S, information, np.array([level]))
    return V[0], G[0]


def _posterior(A: Array, S: Array, information: Array, levels: Array) -> tuple[Array, Array]:
    """Stationary V and backward gain G (L, k, k).

    The block Cholesky's fixed point ``D = own + drift + S^-1 - cross D^-1 cross^T``; then
    ``G = D^-1 cross^T`` and ``V = sum_j G^j D^-1 G^jT``, by doubling.
    """
    S_inverse = _inverse(S)
    drift, cross = A.T @ S_inverse @ A, S_inverse @ A
    own = levels[:, None, None] * information + drift
    # start at the exact answer for no data; data only shortens the memory
    D = own + _inverse(stationary(A, S))
    for _ in range(40):
        D_next = own + S_inverse - cross @ np.linalg.solve(D, np.broadcast_to(cross.T, D.shape))
        done = np.abs(D_next - D).max() < 1e-8 * np.abs(D).max()
        D = 0.5 * (D_next + D_next.transpose(0, 2, 1))
        if done:
            break
    V = np.asarray(np.linalg.inv(D))
    G = gain = V @ cross.T
    for _ in range(12):
        V = V + G @ V @ G.transpose(0, 2, 1)
        G = G @ G
    return 0.5 * (V + V.transpose(0, 2, 1)), gain


def learn(m: Array, cov: Covariances) -> tuple[Array, Array]:
    """``A`` and ``S`` from the smoothed moments, the spectral radius of A kept below one.

    ``A = S10 S00^-1``, ``S = (S11 - A S10^T - S10 A^T + A S00 A^T) / (N - 1)``, with
    ``S10 = sum_t E q_{t+1} q_t^T`` and so on.

    Examples
    --------
    >>> m = np.cumsum(np.ones((30, 1)), axis=0)
    >>> none = Covariances(np.zeros((1, 1, 1)), np.zeros((1, 1, 1)), np.ones((30, 1)))
    >>> A, S = learn(m, none)
    >>> bool(A[0, 0] < 1), bool(S[0, 0] > 0)
    (True, True)
    """
    k, n = m.shape[1], len(m) - 1
    S00 = m[:-1].T @ m[:-1] + np.tensordot(cov.weights[:-1].sum(0), cov.table, 1)
    S11 = m[1:].T @ m[1:] + np.tensordot(cov.weights[1:].sum(0), cov.table, 1)
    S10 = m[1:].T @ m[:-1] + np.tensordot(cov.weights[:-1].sum(0), cov.lag, 1)
    ridge = 1e-6 * np.trace(S00) / k * np.eye(k)
    A = np.asarray(np.linalg.solve(S00 + ridge, S10.T)).T
    A *= min(1.0, RADIUS / max(np.abs(np.linalg.eigvals(A)).max(), 1e-12))
    S = (S11 - A @ S10.T - S10 @ A.T + A @ S00 @ A.T) / n
    values, vectors = np.linalg.eigh(0.5 * (S + S.T))
    values = np.maximum(values, max(1e-5 * values[-1], 1e-9))
    return A, (vectors * values) @ vectors.T


def forget(m: Array, cov: Covariances) -> tuple[Array, Array]:
    """``A = 0`` and ``S = mean_t E q_t q_t^T``: slots that know nothing of each other.

    Examples
    --------
    >>> none = Covariances(np.zeros((1, 1, 1)), np.zeros((1, 1, 1)), np.ones((4, 1)))
    >>> A, S = forget(np.array([[1.0], [-1.0], [3.0], [1.0]]), none)
    >>> A.tolist(), S.round(3).tolist()
    ([[0.0]], [[3.0]])
    """
    k = m.shape[1]
    spread = m.T @ m / len(m) + np.tensordot(cov.weights.mean(0), cov.table, 1)
    return np.zeros((k, k)), spread + 1e-6 * np.eye(k)


def _inverse(X: Array) -> Array:
    """Inverse of a symmetric positive definite matrix, symmetric to the last bit."""
    inverse = np.asarray(np.linalg.inv(X))
    return 0.5 * (inverse + inverse.T)


def _local_mean(share: Array, reach: int = 3) -> Array:
    """Triangular mean over neighbouring slots: a slot's V also sees its neighbours' data."""
    kernel = 1.0 - np.abs(np.arange(-reach, reach + 1)) / (reach + 1)
    padded = np.pad(share, reach, mode="edge")
    return np.convolve(padded, kernel / kernel.sum(), mode="valid")
