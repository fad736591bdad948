"""Leave-one-out ``m``: what q would be without one of the sensor's own readings (site).

``K_it = dm_t / dy_it`` follows from what the coordinator publishes (A, S, C F, C, w, the
windows) and from the sensor's own b, u and smoother; no message.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flfl.model.shared.dynamics import Covariances, Observation, posterior_gain
from flfl.model.shared.smoothers import Smoother, impulse_columns, smooth
from flfl.model.shared.windows import Windows

Array = NDArray[np.float64]


def own_gain(
    B: Array,
    u: Array,
    factor: Smoother,
    windows: Windows,
    seen: Observation,
    A: Array,
    S: Array,
    cov: Covariances,
    level: float,
    gain: float = 1.0,
    reach: int = 10,
    fast: float = 0.75,
) -> NDArray[np.float32]:
    """``K_it`` for all sensors of a site and all slots, (M, N, k).

    ``K_it = V_t Vbar^-1 sum_d G_d (gain C b_i) phi_it(d)``, where ``G_d`` is the posterior
    covariance between slots d apart at the mean ``level`` of information (gain times mean w)
    and ``phi_it`` is how a unit reading at t spreads over the information vector: smoothed,
    weighted by u, averaged in windows.  C and C F are means over the windows' kinds.
    Within about 20 % of the exact derivative.
    """
    spread = _window_spread(impulse_columns(factor, reach), u, windows)
    CF = seen.mean_information(windows.lengths)
    share = np.bincount(seen.kind, windows.lengths, len(seen.C)) / windows.n_slots
    mean_V, _ = posterior_gain(A, S, CF, level)
    # a lone impulse is fast, and S_i answers fast changes less than the slow ones w stands for
    V, G = posterior_gain(A, S, CF, fast * level)
    carried = np.einsum(
        "dab,ib->ida",
        _lagged(V, G, reach),
        gain * (B @ np.tensordot(share, seen.C, 1).T),
        optimize=True,
    )
    K = np.matmul(spread, carried.astype(np.float32))
    local = cov.full() @ np.linalg.inv(mean_V)
    return np.matmul(local[None].astype(np.float32), K[..., None])[..., 0]


def without_sensor(
    E: Array,
    J: Array,
    P: Array,
    B: Array,
    u: Array,
    factor: Smoother,
    windows: Windows,
    seen: Observation,
    A: Array,
    S: Array,
    level: float,
    gain: float = 1.0,
    reach: int = 24,
    fast: float = 0.75,
    n_iter: int = 4,
) -> Array:
    """``m - m^(-i)``: what each sensor's own readings, all of them, added to q (M, N, k).

    ``T_i e = sum_d G_d (gain C b_i) (u_i window_mean(S_i e))_{t+d}`` is the sensor's pull on m;
    without it the residual would have been larger, ``e^- = e + p_i . T_i e^-`` (a few Neumann
    steps), and ``m - m^(-i) = T_i e^-``.  Regressing y_i on ``m^(-i)`` gives the p_i that is
    right inside a long gap, where the sensor itself says nothing.  Stationary, like K.
    """
    CF = seen.mean_information(windows.lengths)
    share = np.bincount(seen.kind, windows.lengths, len(seen.C)) / windows.n_slots
    V, G = posterior_gain(A, S, CF, fast * level)
    direction = gain * (B @ np.tensordot(share, seen.C, 1).T)
    taps = np.einsum("dab,ib->ida", _lagged(V, G, reach), direction, optimize=True)  # (M, span, k)
    own_taps = np.einsum("ida,ia->id", taps, P)

    def pull(X: Array) -> Array:
        said = windows.per_slot((u * windows.mean(smooth(factor, X))).T).T
        padded = np.pad(said, ((0, 0), (reach, reach)))
        return np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis=1)

    alone = J * E
    for _ in range(n_iter):
        alone = J * (E + np.matmul(pull(alone), own_taps[:, :, None])[:, :, 0])
    return np.asarray(np.matmul(pull(alone), taps))


def leave_one_out(m: Array, K: Array, P: Array, E: Array) -> Array:
    """``m_it^loo = m_t - K_it e_it / (1 - p_i . K_it)`` (M, N, k), ``e = y - p . m`` (M, N).

    Examples
    --------
    >>> m, P = np.ones((1, 1)), np.ones((1, 1))
    >>> leave_one_out(m, np.full((1, 1, 1), 0.5), P, np.ones((1, 1))).tolist()
    [[[0.0]]]
    """
    own = np.clip(np.einsum("ik,itk->it", P, K, optimize=True), 0.0, 0.95)
    return m[None] - K * (E / (1 - own))[..., None]


def _lagged(V: Array, G: Array, reach: int) -> Array:
    """``Cov(q_t, q_{t+d})`` for d = -reach..reach."""
    out = np.empty((2 * reach + 1, *V.shape))
    out[reach] = V
    power = np.eye(len(V))
    for d in range(1, reach + 1):
        power = power @ G
        out[reach + d] = power @ V
        out[reach - d] = (power @ V).T
    return out


def _window_spread(columns: NDArray[np.float32], u: Array, windows: Windows) -> NDArray[np.float32]:
    """Average each column of the smoother in the windows, times u; same shape (M, N, span)."""
    M, N, span = columns.shape
    edges = windows.edges
    if len(windows) == N:
        at = np.clip(np.arange(N)[:, None] + np.arange(span) - span // 2, 0, N - 1)
        return columns * u.astype(np.float32)[:, at]
    window = windows.per_slot(np.arange(len(windows)))
    t = np.arange(N)[:, None]
    at = window[np.clip(t + np.arange(span) - span // 2, 0, N - 1)]
    low = np.clip(edges[at] - t + span // 2, 0, span)
    high = np.clip(edges[at + 1] - t + span // 2, 0, span)
    running = np.concatenate([np.zeros((M, N, 1), np.float32), np.cumsum(columns, axis=2)], axis=2)
    rows = np.arange(N)[:, None]
    held = running[:, rows, high] - running[:, rows, low]
    return held * (u[:, at] / np.diff(edges)[at]).astype(np.float32)
