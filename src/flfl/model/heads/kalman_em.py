"""Full-rank Kalman-EM for a masked multivariate series.

Model (rows are sensors, columns are slots)::

    x_t = A x_{t-1} + w_t,   w_t ~ N(0, S)          A, S full, M x M
    y_it = x_it + v_it,      v_it ~ N(0, r_i)       only where J_it = 1

The E-step works on the posterior precision of the whole path, which is block tridiagonal with diagonal blocks
``S^-1 + A' S^-1 A + diag(J_t / r)`` and off-diagonal blocks ``-S^-1 A``. Its block Cholesky needs one inverse and two products a
slot forward and two products backward (covariance *and* lag-one covariance), less than half of a filter with an RTS pass.
Time is cut into chunks that overlap, so that the recursion runs over all chunks at once and the Python loop is a few hundred steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Dynamics:
    """Parameters of the state-space model: ``A`` (M, M), ``S`` (M, M), ``r`` (M,)."""

    A: Array
    S: Array
    r: Array


@dataclass(frozen=True)
class Smoothed:
    """Posterior of the path: ``mean`` (M, N), ``var`` (M, N), and the sums that the M-step needs (each M x M).

    ``S11 = sum E x_{t+1} x_{t+1}'``, ``S10 = sum E x_{t+1} x_t'``, ``S00 = sum E x_t x_t'`` over t = 0..N-2.
    """

    mean: Array
    var: Array
    S11: Array
    S10: Array
    S00: Array


def inverse_spd(X: Array, base: int = 10) -> Array:
    """Inverses of a stack of symmetric positive definite matrices by recursive Schur complements.

    With ``X = [[a, b], [b', d]]`` and ``s = d - b' a^-1 b``: two half-size inverses and four products. Batched ``matmul`` is an order
    of magnitude faster than batched LU at these sizes, hence the recursion.

    Parameters
    ----------
    X : (..., n, n) array
    base : size at or below which LAPACK is called

    Examples
    --------
    >>> X = np.diag([1.0, 2.0, 4.0])[None] + 0.1
    >>> bool(np.allclose(inverse_spd(X, base=1) @ X, np.eye(3)))
    True
    """
    n = X.shape[-1]
    if n <= base:
        return np.linalg.inv(X)
    h = n // 2
    b = X[..., :h, h:]
    a_inv = inverse_spd(X[..., :h, :h], base)
    ab = a_inv @ b
    s_inv = inverse_spd(X[..., h:, h:] - np.swapaxes(ab, -1, -2) @ b, base)
    abs_ = ab @ s_inv
    out = np.empty_like(X)
    out[..., :h, :h] = a_inv + abs_ @ np.swapaxes(ab, -1, -2)
    out[..., :h, h:] = -abs_
    out[..., h:, :h] = -np.swapaxes(abs_, -1, -2)
    out[..., h:, h:] = s_inv
    return out


def _chunk_slots(N: int, chunk: int, overlap: int) -> tuple[NDArray[np.intp], int]:
    """Slot of each step of each chunk, (steps, chunks), and the overlap; slots outside 0..N-1 are padding."""
    count = max(1, round(N / chunk))
    core = -(-N // count)
    if count == 1:
        overlap = 0
    steps = np.arange(-overlap, core + overlap)
    return steps[:, None] + core * np.arange(count)[None, :], overlap


def smooth(
    Y: Array, J: NDArray[np.bool_], dyn: Dynamics, *, chunk: int = 256, overlap: int = 48
) -> Smoothed:
    """Posterior mean, variance and second moments of the path given the known entries.

    Block recursions on the precision (``E = -S^-1 A``, ``D_t`` its diagonal block, ``h_t = J_t y_t / r``)::

        F_t = D_t - E F_{t-1}^-1 E',      f_t = h_t - E F_{t-1}^-1 f_{t-1}          forward
        G_t = -F_t^-1 E',  V_t = F_t^-1 + G_t V_{t+1} G_t',  V_{t,t+1} = G_t V_{t+1}
        x_t = F_t^-1 f_t + G_t x_{t+1}                                               backward

    Each chunk of about `chunk` slots is run with `overlap` more on both sides: the recursions forget their start geometrically.
    The first and last chunk start and end exactly.

    Parameters
    ----------
    Y : (M, N) readings, any value where unknown
    J : (M, N) bool, known entries
    dyn : parameters
    chunk, overlap : slots

    Examples
    --------
    >>> dyn = Dynamics(np.array([[0.5]]), np.array([[0.75]]), np.array([1.0]))
    >>> post = smooth(np.array([[2.0, 0.0, 0.0]]), np.array([[True, False, False]]), dyn)
    >>> np.round(post.mean, 3), np.round(post.var, 3)
    (array([[1.  , 0.5 , 0.25]]), array([[0.5  , 0.875, 0.969]]))
    """
    M, N = Y.shape
    slots, pad = _chunk_slots(N, chunk, overlap)
    steps, count = slots.shape
    inside = (slots >= 0) & (slots < N)
    at = np.clip(slots, 0, N - 1)
    info = np.where(J, 1.0 / dyn.r[:, None], 0.0).T  # N x M
    weight = np.where(inside[..., None], info[at], 0.0)
    h = weight * np.where(J, Y, 0.0).T[at]

    S_inv = inverse_spd(dyn.S)
    E = -S_inv @ dyn.A
    E_T = np.ascontiguousarray(E.T)
    ASA = dyn.A.T @ S_inv @ dyn.A
    D = S_inv + 0.5 * (ASA + ASA.T)
    start = inverse_spd(_stationary(dyn.A, dyn.S))  # prior precision of a chunk's first state

    F_inv = np.empty((steps, count, M, M))
    G = np.empty((steps, count, M, M))
    f = np.empty((steps, count, M))
    diagonal = np.arange(M)
    final = slots == N - 1
    for s in range(steps):
        F = (
            np.broadcast_to(D, (count, M, M)).copy()
            if s == 0
            else D + G[s - 1].swapaxes(-1, -2) @ E_T
        )
        f[s] = h[s]
        if s > 0:
            f[s] += (f[s - 1][:, None, :] @ G[s - 1])[:, 0]
        fresh = (slots[s] == 0) | ((s == 0) & inside[s])
        if fresh.any():
            F[fresh] = D - S_inv + start
            f[s, fresh] = h[s, fresh]
        if final[s].any():  # no transition leaves the last slot
            F[final[s]] -= D - S_inv
        beyond = slots[s] >= N
        if (
            beyond.any()
        ):  # padding after the end: any positive definite block will do, nothing reads it
            F[beyond] = D
        F[:, diagonal, diagonal] += weight[s]
        F = 0.5 * (
            F + F.swapaxes(-1, -2)
        )  # rounding's asymmetry would otherwise grow from slot to slot
        F_inv[s] = inverse_spd(F)
        np.matmul(F_inv[s], -E_T, out=G[s])
    return _backward(F_inv, G, f, slots, pad, N)


def _backward(
    F_inv: Array, G: Array, f: Array, slots: NDArray[np.intp], pad: int, N: int
) -> Smoothed:
    """Backward recursion of `smooth`; moments are summed over the pairs of slots whose first is in the core of a chunk."""
    steps, count, M = f.shape
    mean, var = np.empty((N, M)), np.empty((N, M))
    S11, S10, S00 = np.zeros((3, M, M))
    V, x = np.zeros((count, M, M)), np.zeros((count, M))
    for s in range(steps - 1, -1, -1):
        free = (slots[s] < N - 1) & (s < steps - 1)
        GV = G[s] @ V  # cov(x_t, x_{t+1}) given everything
        step = GV @ G[s].swapaxes(-1, -2)
        step[~free] = 0.0
        mu = (F_inv[s] @ f[s][..., None])[..., 0] + np.where(
            free[:, None], (G[s] @ x[..., None])[..., 0], 0.0
        )
        V_next, x_next = V, x
        V, x = F_inv[s] + step, mu
        if not pad <= s < steps - pad:
            continue
        core = slots[s] < N
        t = slots[s][core]
        mean[t], var[t] = x[core], np.diagonal(V, axis1=1, axis2=2)[core]
        pair = core & free
        S00 += V[pair].sum(0) + x[pair].T @ x[pair]
        S11 += V_next[pair].sum(0) + x_next[pair].T @ x_next[pair]
        S10 += GV[pair].sum(0).T + x_next[pair].T @ x[pair]
    return Smoothed(mean.T, var.T, S11, S10, S00)


def _stationary(A: Array, S: Array, doublings: int = 12) -> Array:
    """Stationary covariance ``V = A V A' + S`` by doubling (4,096 steps of the recursion)."""
    V = S.copy()
    for _ in range(doublings):
        V = V + A @ V @ A.T
        A = A @ A
    return 0.5 * (V + V.T)


def maximise(
    post: Smoothed, Y: Array, J: NDArray[np.bool_], *, floor: float = 1e-4, radius: float = 0.999
) -> Dynamics:
    """M-step: ``A = S10 S00^-1``, ``S = (S11 - A S10') / (N-1)``, ``r_i`` = mean squared residual plus variance.

    Parameters
    ----------
    post : moments from `smooth`
    floor : least noise and process variance, relative to the sensor's mean square
    radius : largest spectral radius allowed for A

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.standard_normal((2, 50))
    >>> dyn = initial_dynamics(Y, np.ones((2, 50), bool))
    >>> maximise(smooth(Y, np.ones((2, 50), bool), dyn), Y, np.ones((2, 50), bool)).A.shape
    (2, 2)
    """
    n = Y.shape[1] - 1
    scale = np.maximum(np.diag(post.S11) / n, 1e-12)
    A = np.linalg.solve(post.S00 + 1e-9 * np.diag(np.diag(post.S00) + 1e-12), post.S10.T).T
    largest = np.abs(np.linalg.eigvals(A)).max()
    if largest > radius:
        A = A * (radius / largest)
    AS = A @ post.S10.T
    S = (post.S11 - AS - AS.T + A @ post.S00 @ A.T) / n
    S = 0.5 * (S + S.T) + floor * np.diag(scale)
    known = np.maximum(J.sum(1), 1)
    r = np.where(J, (Y - post.mean) ** 2 + post.var, 0.0).sum(1) / known
    return Dynamics(A, S, np.maximum(r, floor * scale))


def initial_dynamics(
    Y: Array, J: NDArray[np.bool_], *, memory: float = 0.9, noise: float = 0.1
) -> Dynamics:
    """Start of EM: covariance C of the linearly interpolated rows, ``A = memory I``, ``S = (1 - memory^2) C``, ``r = noise diag C``.

    Examples
    --------
    >>> initial_dynamics(np.array([[1.0, 0.0, -1.0]]), np.array([[True, False, True]])).A
    array([[0.9]])
    """
    M, N = Y.shape
    slots = np.arange(N)
    filled = np.zeros((M, N))
    for i in np.flatnonzero(J.any(1)):
        filled[i] = np.interp(slots, slots[J[i]], Y[i, J[i]])
    C = filled @ filled.T / N
    diag = np.maximum(np.diag(C), 1e-9 * max(np.diag(C).max(), 1e-12))
    C = 0.95 * C + np.diag(
        0.05 * diag + 1e-12
    )  # interpolation overstates how alike sensors are when little is known
    return Dynamics(memory * np.eye(M), (1 - memory**2) * C, noise * diag)


def _overshoot(old: Dynamics, new: Dynamics, factor: float) -> Dynamics:
    """Go `factor` times as far as the EM step went (noise on the log scale); the plain step where S would not stay well positive."""
    A = old.A + factor * (new.A - old.A)
    S = old.S + factor * (new.S - old.S)
    r = new.r * (new.r / old.r) ** (factor - 1)
    safe = (
        np.linalg.eigvalsh(S)[0] > 0.3 * np.linalg.eigvalsh(new.S)[0]
        and np.abs(np.linalg.eigvals(A)).max() < 0.999
    )
    return Dynamics(A, S, r) if safe else new


def fit_kalman_em(
    Y: Array,
    J: NDArray[np.bool_],
    *,
    iterations: int = 12,
    chunk: int = 256,
    overlap: int = 48,
    floor: float = 1e-4,
    factor: float = 1.0,
) -> tuple[Dynamics, Smoothed]:
    """EM for the full-rank model; returns the parameters and the posterior under them.

    Y should be centred per sensor (and deseasonalised). ``iterations`` E-steps are run; the last one is the answer. A `factor` of 2.5 makes
    each step 2.5 times as long: 6 such iterations are worth 10 to 12 plain ones.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> walk = np.cumsum(rng.standard_normal((1, 300)), axis=1)
    >>> Y = np.repeat(walk - walk.mean(), 3, axis=0)
    >>> J = rng.random(Y.shape) < 0.5
    >>> dyn, post = fit_kalman_em(Y, J, iterations=6)
    >>> bool(np.abs(post.mean - Y)[~J].mean() < 0.5)
    True
    """
    if min(Y.shape) < 1 or Y.shape[1] < 2:
        raise ValueError(f"Kalman-EM needs at least one sensor and two slots, got {Y.shape}")
    dyn = initial_dynamics(Y, J)
    for n in range(iterations - 1):
        new = maximise(smooth(Y, J, dyn, chunk=chunk, overlap=overlap), Y, J, floor=floor)
        dyn = _overshoot(dyn, new, factor if 0 < n < iterations - 2 else 1.0)
    return dyn, smooth(Y, J, dyn, chunk=chunk, overlap=overlap)


def leave_one_out(post: Smoothed, Y: Array, J: NDArray[np.bool_], r: Array) -> tuple[Array, Array]:
    """Mean and variance of each entry's state given every *other* known entry.

    For a known entry with smoothed mean ``x`` and variance ``P``: ``y - (y - x) / (1 - P/r)`` and ``P / (1 - P/r)``; for an unknown
    one the posterior itself. Exact for fixed parameters, no refit.

    Examples
    --------
    >>> dyn = Dynamics(np.array([[0.5]]), np.array([[0.75]]), np.array([1.0]))
    >>> Y, J = np.array([[2.0, 4.0]]), np.array([[True, True]])
    >>> mean, var = leave_one_out(smooth(Y, J, dyn), Y, J, dyn.r)
    >>> alone = smooth(Y, np.array([[True, False]]), dyn)
    >>> bool(np.isclose(mean[0, 1], alone.mean[0, 1])), bool(np.isclose(var[0, 1], alone.var[0, 1]))
    (True, True)
    """
    left = np.where(J, np.maximum(1.0 - post.var / r[:, None], 1e-3), 1.0)
    return np.where(J, Y - (Y - post.mean) / left, post.mean), post.var / left


@dataclass(frozen=True)
class SiteHead:
    """Joint estimate of a site's residuals: posterior ``mean``, ``var`` and their leave-one-out versions, each (M_s, N)."""

    mean: Array
    var: Array
    loo_mean: Array
    loo_var: Array


def site_head(
    R: Array,
    J: NDArray[np.bool_],
    dyn: Dynamics | None = None,
    *,
    iterations: int | None = None,
    factor: float = 2.5,
    chunk: int = 64,
    overlap: int = 12,
) -> tuple[SiteHead, Dynamics]:
    """Kalman-EM on the residuals of the sensors of one site (or, with `dyn` given, one smoothing pass under those parameters).

    By default 6 long steps, 12 for a short series, where they are cheap and the noise is learned slowly.
    Residuals forget fast, so short chunks and overlaps do, and many small chunks at a time keep the Python loop short.

    Parameters
    ----------
    R : (M_s, N) residuals ``y - p . m``, any value where unknown
    J : (M_s, N) known entries

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> R = np.repeat(rng.standard_normal((1, 200)), 3, axis=0) + 0.1 * rng.standard_normal((3, 200))
    >>> J = rng.random(R.shape) < 0.6
    >>> head, dyn = site_head(R, J)
    >>> bool(np.abs(head.loo_mean - R)[J].mean() < np.abs(R[J]).mean())
    True
    """
    scale = np.sqrt(np.where(J, R**2, 0.0).sum() / max(J.sum(), 1)) or 1.0
    Z = np.where(J, R, 0.0) / scale
    if dyn is None:
        iterations = iterations or (6 if R.shape[1] > 3000 else 12)
        dyn, post = fit_kalman_em(
            Z, J, iterations=iterations, chunk=chunk, overlap=overlap, factor=factor
        )
    else:
        dyn = Dynamics(dyn.A, dyn.S / scale**2, dyn.r / scale**2)
        post = smooth(Z, J, dyn, chunk=chunk, overlap=overlap)
    loo_mean, loo_var = leave_one_out(post, Z, J, dyn.r)
    head = SiteHead(post.mean * scale, post.var * scale**2, loo_mean * scale, loo_var * scale**2)
    return head, Dynamics(dyn.A, dyn.S * scale**2, dyn.r * scale**2)


def impute(
    Y: Array, J: NDArray[np.bool_], *, period: int = 1, iterations: int = 12
) -> tuple[Array, Array]:
    """The central baseline ``kalman-em``: mean and standard deviation of every entry, in the (transformed) units of Y.

    Removes each sensor's mean at each phase of `period` (1: a plain mean), scales by the network's standard deviation, runs EM.

    Examples
    --------
    >>> Y = np.tile(np.array([[1.0, 2.0], [3.0, 5.0]]), 20)
    >>> mean, sd = impute(Y, np.ones(Y.shape, bool), period=2, iterations=2)
    >>> bool(np.allclose(mean, Y)), mean.shape
    (True, (2, 40))
    """
    known = np.where(J, Y, 0.0)
    centre = np.zeros(Y.shape)
    overall = known.sum(1) / np.maximum(J.sum(1), 1)
    for phase in range(period):
        at = slice(phase, None, period)
        count = J[:, at].sum(1)
        centre[:, at] = np.where(count > 0, known[:, at].sum(1) / np.maximum(count, 1), overall)[
            :, None
        ]
    Z = np.where(J, Y - centre, 0.0)
    scale = np.sqrt((Z**2).sum() / max(J.sum(), 1)) or 1.0
    if scale < 1e-12:  # nothing varies: the means are the answer
        return centre, np.zeros(Y.shape)
    chunk = 512 if Y.shape[1] > 4000 else 128
    _, post = fit_kalman_em(Z / scale, J, iterations=iterations, chunk=chunk)
    return post.mean * scale + centre, np.sqrt(post.var) * scale
