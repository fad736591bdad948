"""The state-space model of the shared factors, and exact inference in it.

Model (rows are slots)::

    q_t = A q_{t-1} + w_t,   w_t ~ N(0, S),   q_0 ~ N(0, stationary)

and any Gaussian observation of ``q_t``, given as information ``I_t`` (k, k) and ``h_t`` (k,):
``log p(data_t | q_t) = h_t . q_t - q_t' I_t q_t / 2``. The posterior precision of the whole path is
block tridiagonal with diagonal blocks ``S^-1 + A' S^-1 A + I_t`` and ``-S^-1 A`` below. It is
solved by cyclic reduction: every second slot is eliminated, all of them at once, then every second
of the rest, and so on. That is exact, and takes log2(N) steps of NumPy instead of N. A long series
is solved in pieces that overlap, so that memory is bounded: what is so far away is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from flfl.constants import LARGEST_RADIUS, LEAST_FACTOR_STEP
from flfl.model import Array

_PIECE, _OVERLAP = 2048, 256
"""Slots of a piece, and how many it shares with the next on either side: means of real networks
then err by 1e-6 of their spread, covariances by 1e-10."""


@dataclass(frozen=True)
class Dynamics:
    """``A`` (k, k) and ``S`` (k, k) of the model."""

    A: Array
    S: Array


@dataclass(frozen=True)
class Posterior:
    """The path given the data: ``mean`` (N, k) and ``cov`` (N, k, k).

    ``moments`` (3, k, k) holds ``sum E q_{t+1} q_{t+1}'``, ``sum E q_{t+1} q_t'`` and
    ``sum E q_t q_t'`` over t = 0..N-2.
    """

    mean: Array
    cov: Array
    moments: Array

    def spread(self, P: Array) -> Array:
        """Variance of ``p_i . q_t`` for loadings P (m, k): ``p_i' V_t p_i`` (m, N)."""
        pairs = (P[:, :, None] * P[:, None, :]).reshape(len(P), P.shape[1] ** 2)
        return np.asarray(pairs @ self.cov.reshape(len(self.cov), -1).T)

    def squares(self, W: Array) -> Array:
        """``sum_t w_it E q_t q_t'`` for weights W (m, N): (m, k, k)."""
        N, k = self.mean.shape
        out = W @ self.cov.reshape(N, -1)
        for n in range(0, N, _PIECE):  # the products of means need no table of their own
            m = self.mean[n : n + _PIECE]
            out += W[:, n : n + _PIECE] @ (m[:, :, None] * m[:, None, :]).reshape(len(m), -1)
        return np.asarray(out.reshape(len(W), k, k))


def smooth(information: Array, vector: Array, dynamics: Dynamics) -> Posterior:
    """Posterior of the path, exactly.

    ``information`` (N, k, k) and ``vector`` (N, k) are zero where a slot was not observed.

    Examples
    --------
    A factor that was seen once, as 2 with variance 1, and is forgotten by half in a slot:

    >>> I, h = np.zeros((3, 1, 1)), np.zeros((3, 1))
    >>> I[0], h[0] = 1.0, 2.0
    >>> post = smooth(I, h, Dynamics(np.array([[0.5]]), np.array([[0.75]])))
    >>> post.mean[:, 0].round(3), post.cov[:, 0, 0].round(3)
    (array([1.  , 0.5 , 0.25]), array([0.5  , 0.875, 0.969]))
    """
    N, k = vector.shape
    mean, cov, moments = np.empty((N, k)), np.empty((N, k, k)), np.zeros((3, k, k))
    count = max(1, round(N / _PIECE))
    edges = [n * N // count for n in range(count + 1)]
    for start, stop in pairwise(edges):
        first, last = max(start - _OVERLAP, 0), min(stop + _OVERLAP, N)
        x, V, C = smooth_whole(information[first:last], vector[first:last], dynamics)
        own, pairs = slice(start - first, stop - first), slice(start - first, stop - first + 1)
        mean[start:stop], cov[start:stop] = x[own], V[own]
        x, V, C = x[pairs], V[pairs], C[own]
        moments += second_moments(x, V, C)
    return Posterior(mean, cov, moments)


def second_moments(x: Array, V: Array, C: Array) -> Array:
    """``Posterior.moments`` of a path with means x, covariances V, and C of neighbouring slots."""
    spread = np.stack([V[1:].sum(0), C.sum(0).T, V[:-1].sum(0)])
    return spread + np.stack([x[1:].T @ x[1:], x[1:].T @ x[:-1], x[:-1].T @ x[:-1]])


def smooth_whole(
    information: Array, vector: Array, dynamics: Dynamics
) -> tuple[Array, Array, Array]:
    """Means (N, k), covariances (N, k, k) and those of neighbouring slots (N - 1, k, k), exactly
    and all at once."""
    A, S = dynamics.A, dynamics.S
    S_inv = symmetric(np.linalg.inv(S))
    V, x = information + S_inv, vector[..., None].copy()
    V[:-1] += symmetric(A.T @ S_inv @ A)
    V[0] += np.linalg.inv(stationary(A, S)) - S_inv
    upper = np.broadcast_to(-A.T @ S_inv, (max(len(V) - 1, 0), *A.shape))
    C = _solve(V, upper, x, np.empty((len(V) // 2, *A.shape)))
    return x[..., 0], V, C


def _solve(D: Array, U: Array, h: Array, spare: Array) -> Array:
    """Solution and selected inverse of a block-tridiagonal system, in the place of its parts.

    It has diagonal blocks D (n, k, k), blocks U (n - 1, k, k) at (t, t + 1), and the right-hand
    side h (n, k, 1). D becomes those blocks of the inverse, h the solution; returns the blocks of
    the inverse beside the diagonal. ``spare`` (n // 2, k, k) is room for products: fresh memory
    costs as much as filling it.
    """
    n, k, _ = h.shape
    if n == 1:
        D[:] = symmetric(np.linalg.inv(D))
        h[:] = D @ h
        return np.empty((0, k, k))
    # Odd slots go. If the last slot is one of them, it has a left neighbour only.
    V, x, V_even, x_even = D[1::2], h[1::2], D[::2], h[::2]
    left, right = U[::2], U[1::2]
    m, both = len(V), len(right)
    room, less = spare[:m], spare[:both]
    V[:] = np.linalg.inv(V)
    # x_j = D_j^-1 h_j + G_left x_{j-1} + G_right x_{j+1}, and the same for covariances.
    np.negative(V, out=room)
    G_left, G_right = room @ left.mT, less @ right
    x[:] = V @ x
    V_even[:m] += np.matmul(left, G_left, out=room)
    V_even[1 : both + 1] += np.matmul(right.mT, G_right, out=less)
    x_even[:m] -= left @ x
    x_even[1 : both + 1] -= right.mT @ x[:both]
    C_even = _solve(V_even, left[:both] @ G_right, x_even, spare)[:both]
    x += G_left @ x_even[:m]
    x[:both] += G_right @ x_even[1 : both + 1]
    C = np.empty((n - 1, k, k))
    to_left, to_right = C[::2], C[1::2]  # cov(x_{j-1}, x_j), cov(x_j, x_{j+1})
    np.matmul(V_even[:m], G_left.mT, out=to_left)
    to_left[:both] += np.matmul(C_even, G_right.mT, out=less)
    np.matmul(G_right, V_even[1 : both + 1], out=to_right)
    to_right += np.matmul(G_left[:both], C_even, out=less)
    V += np.matmul(G_left, to_left, out=room)
    V[:both] += np.matmul(G_right, to_right.mT, out=less)
    room[:] = V.mT
    V += room
    V *= 0.5
    return C


def symmetric(X: NDArray[np.floating]) -> Array:
    """``(X + X') / 2`` of a stack of matrices: rounding must not make them lopsided."""
    return np.asarray(0.5 * (X + X.mT))


def stationary(A: Array, S: Array, doublings: int = 12) -> Array:
    """Stationary covariance ``V = A V A' + S`` by doubling (4,096 steps of the recursion).

    >>> stationary(np.array([[0.5]]), np.array([[0.75]])).round(6)
    array([[1.]])
    """
    V = S.copy()
    for _ in range(doublings):
        V = V + A @ V @ A.T
        A = A @ A
    return symmetric(V)


def learn(moments: Array, n_slots: int) -> Dynamics:
    """Dynamics that explain a posterior: ``A = S10 S00^-1``, ``S`` the mean square of what is left.

    Examples
    --------
    >>> half = np.array([[[1.0]], [[0.5]], [[1.0]]]) * 99
    >>> made = learn(half, 100)
    >>> float(made.A[0, 0].round(3)), float(made.S[0, 0].round(3))
    (0.5, 0.75)
    """
    S11, S10, S00 = moments
    k = len(S00)
    ridge = (1e-9 * np.trace(S00) / k or 1.0) * np.eye(k)  # a single slot has no moments
    A = np.linalg.solve(S00 + ridge, S10.T).T
    A = A * min(1.0, LARGEST_RADIUS / max(np.abs(np.linalg.eigvals(A)).max(), 1e-12))
    AS = A @ S10.T
    S = symmetric((S11 - AS - AS.T + A @ S00 @ A.T) / max(n_slots - 1, 1))
    return Dynamics(A, S + LEAST_FACTOR_STEP * max(np.trace(S) / k, 1e-12) * np.eye(k))


def first_dynamics(k: int, variance: float, memory: float = 0.95) -> Dynamics:
    """Before anything is known: slow factors of the given variance."""
    return Dynamics(memory * np.eye(k), (1 - memory**2) * variance * np.eye(k))
