"""Full-rank Kalman-EM for a masked multivariate series.

Model (rows are sensors, columns are slots)::

    x_t = A x_{t-1} + w_t,   w_t ~ N(0, S)          A, S full, M x M
    y_it = x_it + v_it,      v_it ~ N(0, r_i)       only where J_it = 1

The E-step works on the posterior precision of the whole path, which is block tridiagonal with
diagonal blocks ``S^-1 + A' S^-1 A + diag(J_t / r)`` and ``-S^-1 A`` below. Its block Cholesky
needs one inverse and two products a slot forward and two products backward (covariance *and*
lag-one covariance), less than half of a filter with a smoothing pass. Time is cut into chunks
that overlap, so that the recursion runs over all chunks at once and the Python loop is short.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flfl.constants import LARGEST_RADIUS, LEAST_SITE_NOISE
from flfl.model import Array, Index, Mask, state_space
from flfl.model.state_space import second_moments, smooth_whole, stationary, symmetric

_FEW = 3
"""Sensors up to which the loop over slots costs more than the matrices."""
_ROOM = 10_000_000
"""Numbers that a table of matrices may hold at a time, so that many sensors fit in memory."""


@dataclass(frozen=True)
class Dynamics:
    """Parameters of the state-space model: ``A`` (M, M), ``S`` (M, M), ``r`` (M,)."""

    A: Array
    S: Array
    r: Array

    def in_units(self, scale: float) -> Dynamics:
        """The same model of a series that is ``scale`` times as large."""
        return Dynamics(self.A, self.S * scale**2, self.r * scale**2)


@dataclass(frozen=True)
class Smoothed:
    """Posterior of the path, ``mean`` and ``var`` (M, N), and the sums that the M-step needs.

    ``cross`` (M, N) is the covariance of each state with itself a slot later, 0 at the last slot.
    ``S11 = sum E x_{t+1} x_{t+1}'``, ``S10 = sum E x_{t+1} x_t'``, ``S00 = sum E x_t x_t'`` over
    t = 0..N-2, each (M, M).
    """

    mean: Array
    var: Array
    cross: Array
    S11: Array
    S10: Array
    S00: Array


def inverse_spd(X: Array, base: int = 16) -> Array:
    """Inverses of a stack of symmetric positive definite matrices by recursive Schur complements.

    With ``X = [[a, b], [b', d]]`` and ``s = d - b' a^-1 b``: two half-size inverses and four
    products. Batched ``matmul`` is several times as fast as batched LU at these sizes. For
    conditions up to about a thousand, as the blocks of a precision have.

    At or below the size ``base`` LAPACK is called.

    Examples
    --------
    >>> X = np.diag([1.0, 2.0, 4.0])[None] + 0.1
    >>> bool(np.allclose(inverse_spd(X, base=1) @ X, np.eye(3)))
    True
    """
    n = X.shape[-1]
    if n <= base:
        return np.asarray(np.linalg.inv(X))
    h = n // 2
    b = X[..., :h, h:]
    a_inv = inverse_spd(X[..., :h, :h], base)
    ab = a_inv @ b
    s_inv = inverse_spd(X[..., h:, h:] - ab.mT @ b, base)
    abs_ = ab @ s_inv
    out = np.empty_like(X)
    out[..., :h, :h] = a_inv + abs_ @ ab.mT
    out[..., :h, h:] = -abs_
    out[..., h:, :h] = -abs_.mT
    out[..., h:, h:] = s_inv
    return out


def smooth(Y: Array, J: Mask, dyn: Dynamics, *, chunk: int = 256, overlap: int = 48) -> Smoothed:
    """Posterior mean, variance and second moments of the path given the known entries.

    Block recursions on the precision (``E = -S^-1 A``, ``D_t`` its diagonal block,
    ``h_t = J_t y_t / r``)::

        F_t = D_t - E F_{t-1}^-1 E',      f_t = h_t - E F_{t-1}^-1 f_{t-1}          forward
        G_t = -F_t^-1 E',  V_t = F_t^-1 + G_t V_{t+1} G_t',  V_{t,t+1} = G_t V_{t+1}
        x_t = F_t^-1 f_t + G_t x_{t+1}                                               backward

    Each chunk of about ``chunk`` slots is run with ``overlap`` more on both sides: the recursions
    forget their start geometrically. The first and last chunk start and end exactly.

    Y (M, N) has any value where it is not known (J).

    Examples
    --------
    >>> dyn = Dynamics(np.array([[0.5]]), np.array([[0.75]]), np.array([1.0]))
    >>> post = smooth(np.array([[2.0, 0.0, 0.0]]), np.array([[True, False, False]]), dyn)
    >>> np.round(post.mean, 3), np.round(post.var, 3)
    (array([[1.  , 0.5 , 0.25]]), array([[0.5  , 0.875, 0.969]]))
    """
    (M, N), weight = Y.shape, np.where(J, 1.0 / dyn.r[:, None], 0.0)
    vector = weight * np.where(J, Y, 0.0)
    if M <= _FEW:
        return _smooth_few(weight.T, vector.T, dyn)
    count = max(1, round(N / chunk))
    core = -(-N // count)
    pad = overlap if count > 1 else 0
    # The slot of each step of each chunk; what is outside 0..N-1 is padding.
    slots = np.arange(-pad, core + pad)[:, None] + core * np.arange(count)
    found, moments = np.empty((3, N, M)), np.zeros((3, M, M))  # mean, variance, cross
    size = max(1, _ROOM // (len(slots) * M * M))
    for n in range(0, count, size):  # chunks do not need each other
        some = slots[:, n : n + size]
        F_inv, G, f = _forward(weight.T, vector.T, dyn, some)
        moments += _backward(F_inv, G, f, some, pad, found)
    return Smoothed(*found.mT, *moments)


def _smooth_few(weight: Array, vector: Array, dyn: Dynamics) -> Smoothed:
    """:func:`smooth` for few sensors: cyclic reduction is exact, and its loop shorter."""
    I = np.zeros((*weight.shape, weight.shape[1]))  # noqa: E741
    d = np.arange(weight.shape[1])
    I[:, d, d] = weight
    x, V, C = smooth_whole(I, vector, state_space.Dynamics(dyn.A, dyn.S))
    cross = np.concatenate([C[:, d, d], np.zeros((1, len(d)))])
    return Smoothed(x.T, V[:, d, d].T, cross.T, *second_moments(x, V, C))


def _forward(weight: Array, vector: Array, dyn: Dynamics, slots: Index) -> tuple[Array, ...]:
    """``F^-1`` and ``G`` (steps, count, M, M) and ``f`` (steps, count, M) of :func:`smooth`."""
    (steps, count), (N, M) = slots.shape, weight.shape
    inside = (slots >= 0) & (slots < N)
    nearest = np.clip(slots, 0, N - 1)
    weight, h = (np.where(inside[..., None], X[nearest], 0.0) for X in (weight, vector))
    # Of these two LAPACK is sure: errors of the recursion grow with the condition at each level.
    S_inv, prior_inv = (np.linalg.inv(X) for X in (dyn.S, stationary(dyn.A, dyn.S)))
    E_T = -dyn.A.T @ S_inv
    drift = symmetric(dyn.A.T @ S_inv @ dyn.A)
    D, start = symmetric(S_inv) + drift, drift + symmetric(prior_inv)
    first, last, beyond = slots == 0, slots == N - 1, slots > N - 1
    first[0] |= inside[0]  # a recursion starts from the stationary prior
    F_inv, G, f = np.empty((steps, count, M, M)), np.empty((steps, count, M, M)), h.copy()
    F = np.broadcast_to(D, (count, M, M)).copy()
    for s in range(steps):
        if s:
            # Products of a stack and one matrix are one large product.
            F = D + (G[s - 1].mT.reshape(-1, M) @ E_T).reshape(F.shape)
            f[s] += np.einsum("na,nab->nb", f[s - 1], G[s - 1])
        if first[s].any():
            F[first[s]], f[s, first[s]] = start, h[s, first[s]]
        if last[s].any():  # no transition leaves the last slot
            F[last[s]] -= drift
        if beyond[s].any():  # any positive definite block will do, nothing reads it
            F[beyond[s]] = D
        F.reshape(count, M * M)[:, :: M + 1] += weight[s]
        # rounding's asymmetry would otherwise grow from slot to slot
        F_inv[s] = inverse_spd(symmetric(F))
        G[s] = (F_inv[s].reshape(-1, M) @ -E_T).reshape(F.shape)
    return F_inv, G, f


def _backward(F_inv: Array, G: Array, f: Array, slots: Index, pad: int, found: Array) -> Array:
    """Backward recursion of :func:`smooth`: fills mean, variance and cross (3, N, M), returns
    moments.

    They are summed over the pairs of slots whose first is in the core of a chunk.
    """
    (steps, count, M), N = f.shape, found.shape[1]
    moments = np.zeros((3, M, M))
    V, x = np.zeros((count, M, M)), np.zeros((count, M))
    own = np.einsum("snab,snb->sna", F_inv, f)
    for s in range(steps - 1, -1, -1):
        free = (slots[s] < N - 1) & (s < steps - 1)
        if not free.all():  # nothing comes after the last slot
            V, x = V * free[:, None, None], x * free[:, None]
        V_next, x_next = V, x
        GV = G[s] @ V  # cov(x_t, x_{t+1}) given everything
        V = F_inv[s] + GV @ G[s].mT
        x = own[s] + np.einsum("nab,nb->na", G[s], x)
        if pad <= s < steps - pad:
            core = slots[s] < N
            diagonals = [np.diagonal(X, axis1=1, axis2=2) for X in (V, GV)]
            found[:, slots[s, core]] = np.stack([x, *diagonals])[:, core]
            pair = slice(None) if free.all() else free
            after, now = x_next[pair], x[pair]
            spread = np.stack([V_next[pair].sum(0), GV[pair].sum(0).T, V[pair].sum(0)])
            moments += spread + np.stack([after.T @ after, after.T @ now, now.T @ now])
    return moments


def maximise(post: Smoothed, Y: Array, J: Mask, *, diagonal: bool = False) -> Dynamics:
    """M-step from the moments of :func:`smooth`.

    ``A = S10 S00^-1``, ``S = (S11 - A S10' - S10 A' + A S00 A') / (N-1)``, ``r_i`` the mean squared
    residual plus variance. With a ``diagonal`` A each state remembers itself alone, and S joins
    them.
    """
    n = Y.shape[1] - 1
    scale = np.maximum(np.diag(post.S11) / n, 1e-12)
    ridge = 1e-9 * np.diag(np.diag(post.S00) + 1e-12)
    if diagonal:
        A = np.diag(np.clip(np.diag(post.S10) / np.diag(post.S00 + ridge), 0.0, None))
    else:
        A = np.asarray(np.linalg.solve(post.S00 + ridge, post.S10.T)).T
    largest = np.abs(np.linalg.eigvals(A)).max()
    if largest > LARGEST_RADIUS:
        A = A * (LARGEST_RADIUS / largest)
    AS = A @ post.S10.T
    S = (post.S11 - AS - AS.T + A @ post.S00 @ A.T) / n
    S = at_least(symmetric(S) + LEAST_SITE_NOISE * np.diag(scale), 0.5 * LEAST_SITE_NOISE * scale)
    known = np.maximum(J.sum(1), 1)
    r = np.where(J, (Y - post.mean) ** 2 + post.var, 0.0).sum(1) / known
    return Dynamics(A, S, np.maximum(r, LEAST_SITE_NOISE * scale))


def at_least(S: Array, floor: Array) -> Array:
    """S, or the nearest matrix whose variance is nowhere below ``floor`` (M,) in its own units.

    Many sensors on few slots, or moments of pieces, may leave S without a direction or two.

    Examples
    --------
    >>> at_least(np.array([[1.0, 1.0], [1.0, 1.0]]), np.full(2, 0.5))
    array([[1.25, 0.75],
           [0.75, 1.25]])
    """
    root = np.sqrt(floor)
    values, U = np.linalg.eigh(S / np.outer(root, root))
    if values[0] >= 1.0:
        return S
    return np.asarray((U * np.maximum(values, 1.0)) @ U.T * np.outer(root, root))


def initial_dynamics(Y: Array, J: Mask, *, memory: float = 0.9, noise: float = 0.1) -> Dynamics:
    """Start of EM from the covariance C of the linearly interpolated rows.

    ``A = memory I``, ``S = (1 - memory^2) C``, ``r = noise diag C``.
    """
    M, N = Y.shape
    slots = np.arange(N)
    filled = np.zeros((M, N))
    for i in np.flatnonzero(J.any(1)):
        filled[i] = np.interp(slots, slots[J[i]], Y[i, J[i]])
    C = filled @ filled.T / N
    diag = np.maximum(np.diag(C), 1e-9 * max(np.diag(C).max(), 1e-12))
    # where little is known interpolation overstates how alike sensors are
    C = 0.95 * C + np.diag(0.05 * diag + 1e-12)
    return Dynamics(memory * np.eye(M), (1 - memory**2) * C, noise * diag)


def fit_kalman_em(
    Y: Array, J: Mask, *, iterations: int = 12, chunk: int = 256, overlap: int = 48,
    factor: float = 1.0, diagonal: bool = False,
) -> tuple[Dynamics, Smoothed]:  # fmt: skip
    """EM for the full-rank model; returns the parameters and the posterior under them.

    ``iterations`` E-steps are run; the last one is the answer. A ``factor`` of 2.5 makes each
    step 2.5 times as long: 6 such iterations are worth 10 to 12 plain ones.

    Y (M, N) is centred by sensor and without season, and has any value where it is not known (J).
    """
    if min(Y.shape) < 1 or Y.shape[1] < 2:
        raise ValueError(f"Kalman-EM needs at least one sensor and two slots, got {Y.shape}")
    dyn = initial_dynamics(Y, J)
    for n in range(iterations - 1):
        post = smooth(Y, J, dyn, chunk=chunk, overlap=overlap)
        new = maximise(post, Y, J, diagonal=diagonal)
        far = factor if 0 < n < iterations - 2 else 1.0
        A, S = dyn.A + far * (new.A - dyn.A), dyn.S + far * (new.S - dyn.S)
        r = new.r * (new.r / dyn.r) ** (far - 1)  # on the log scale
        # The plain step where S would not stay well positive, or A stable.
        positive = np.linalg.eigvalsh(S)[0] > 0.3 * np.linalg.eigvalsh(new.S)[0]
        stable = np.abs(np.linalg.eigvals(A)).max() < LARGEST_RADIUS
        dyn = Dynamics(A, S, r) if positive and stable else new
    return dyn, smooth(Y, J, dyn, chunk=chunk, overlap=overlap)


def leave_one_out(post: Smoothed, Y: Array, J: Mask, r: Array) -> tuple[Array, Array]:
    """Mean and variance of each entry's state given every *other* known entry, (M, N) each.

    For a known entry with smoothed mean ``x`` and variance ``P``: ``y - (y - x) / (1 - P/r)`` and
    ``P / (1 - P/r)``; for an unknown one the posterior itself. Exact for fixed parameters.

    Examples
    --------
    >>> dyn = Dynamics(np.array([[0.5]]), np.array([[0.75]]), np.array([1.0]))
    >>> Y, J = np.array([[2.0, 4.0]]), np.array([[True, True]])
    >>> mean, var = leave_one_out(smooth(Y, J, dyn), Y, J, dyn.r)
    >>> alone = smooth(Y, np.array([[True, False]]), dyn)
    >>> np.allclose([mean[0, 1], var[0, 1]], [alone.mean[0, 1], alone.var[0, 1]])
    True
    """
    left = np.where(J, np.maximum(1.0 - post.var / r[:, None], 1e-3), 1.0)
    return np.where(J, Y - (Y - post.mean) / left, post.mean), post.var / left
