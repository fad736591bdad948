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
Single = NDArray[np.float32]

IMPULSE_REACH = 10
"""Slots on either side over which one reading is followed."""
_SLOTS = 1024
"""Slots at a time where matrices of each of them are at hand."""
SENSOR_REACH = 24
"""The same for all readings of a sensor together."""
FAST = 0.75
"""A lone impulse is fast, and S_i answers fast changes less than the slow ones w stands for."""
NEUMANN_STEPS = 4


def own_spread(u: Array, factor: Smoother, windows: Windows) -> Single:
    """How a unit reading at t spreads over the information vector at t + d (M, N, 2 reach + 1).

    Smoothed, weighted by u, averaged in windows: ``phi_it(d)`` below.
    """
    return _window_spread(impulse_columns(factor, IMPULSE_REACH), u, windows)


def own_gain(
    spread: Single,
    B: Array,
    windows: Windows,
    seen: Observation,
    A: Array,
    S: Array,
    cov: Covariances,
    level: float,
    gain: float,
) -> Single:
    """``K_it`` for all sensors of a site and all slots, (M, N, k).

    ``K_it = V_t Vbar^-1 sum_d G_d (gain C b_i) phi_it(d)``, where ``G_d`` is the posterior
    covariance between slots d apart at the mean ``level`` of information (gain times mean w)
    and ``phi_it`` is ``spread``, from :func:`own_spread`.  C and C F are means over the windows'
    kinds.  Within about 20 % of the exact derivative.
    """
    taps = _taps(B, windows, seen, A, S, level, gain, IMPULSE_REACH)
    K = np.matmul(spread, taps.astype(np.float32))
    mean_V, _ = posterior_gain(A, S, seen.average(seen.CF, windows), level)
    relative = np.linalg.inv(mean_V)
    # A year of hours with k = 20 is 28 MB of covariances: a few slots at a time.
    for start in range(0, K.shape[1], _SLOTS):
        here = slice(start, start + _SLOTS)
        local = (cov.full(here) @ relative).astype(np.float32)
        K[:, here] = np.matmul(local[None], K[:, here, :, None])[..., 0]
    return K


def own_fall(
    spread: Single,
    P: Array,
    B: Array,
    windows: Windows,
    seen: Observation,
    A: Array,
    S: Array,
    level: float,
    gain: float,
) -> Single:
    """Share of a reading's pull on its curve that is left d slots away (M, N, 2 reach + 1).

    ``p_i . dm_{t+d}/dy_it`` over the same at d = 0, for d = -reach..reach; as K is found, but
    with ``Cov(q_{t+d}, q_{t+j})`` in place of ``Cov(q_t, q_{t+j})``.
    """
    reach = IMPULSE_REACH
    taps = _taps(B, windows, seen, A, S, level, gain, 2 * reach)
    own = np.einsum("ida,ia->id", taps, P).astype(np.float32)
    d = np.arange(2 * reach + 1)
    pull = np.matmul(spread, own[:, d[:, None] - d + 2 * reach])
    middle = pull[:, :, reach : reach + 1]
    some = np.abs(middle) > 1e-6
    return np.where(some, np.clip(pull / np.where(some, middle, 1.0), -1.0, 1.5), 0.0)


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
    gain: float,
) -> Array:
    """``m - m^(-i)``: what each sensor's own readings, all of them, added to q (M, N, k).

    ``T_i e = sum_d G_d (gain C b_i) (u_i window_mean(S_i e))_{t+d}`` is the sensor's pull on m;
    without it the residual would have been larger, ``e^- = e + p_i . T_i e^-`` (a few Neumann
    steps), and ``m - m^(-i) = T_i e^-``.  Regressing y_i on ``m^(-i)`` gives the p_i that is
    right inside a long gap, where the sensor itself says nothing.  Stationary, like K.
    """
    taps = _taps(B, windows, seen, A, S, level, gain, SENSOR_REACH)
    own_taps = np.einsum("ida,ia->id", taps, P)

    def said(X: Array) -> Array:
        """What the sums hear of X around every slot (M, N, 2 reach + 1)."""
        heard = windows.per_slot((u * windows.mean(smooth(factor, X))).T).T
        padded = np.pad(heard, ((0, 0), (SENSOR_REACH, SENSOR_REACH)))
        return np.lib.stride_tricks.sliding_window_view(padded, 2 * SENSOR_REACH + 1, axis=1)

    alone = J * E
    for _ in range(NEUMANN_STEPS):
        alone = J * (E + np.matmul(said(alone), own_taps[:, :, None])[:, :, 0])
    return np.asarray(np.matmul(said(alone), taps))


def _taps(
    B: Array,
    windows: Windows,
    seen: Observation,
    A: Array,
    S: Array,
    level: float,
    gain: float,
    reach: int,
) -> Array:
    """``G_d (gain C b_i)`` for d = -reach..reach: how a sensor pulls on m nearby (M, span, k)."""
    V, G = posterior_gain(A, S, seen.average(seen.CF, windows), FAST * level)
    direction = gain * (B @ seen.average(seen.C, windows).T)
    return np.asarray(np.einsum("dab,ib->ida", _lagged(V, G, reach), direction, optimize=True))


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


def _window_spread(columns: Single, u: Array, windows: Windows) -> Single:
    """Average each column of the smoother in the windows, times u; same shape (M, N, span).

    ``columns[i, t, d]`` is the answer at slot t + d - span // 2 to an impulse at t.
    """
    M, N, span = columns.shape
    t = np.arange(N)[:, None]
    slot = np.clip(t + np.arange(span) - span // 2, 0, N - 1)
    if len(windows) == N:
        return columns * u.astype(np.float32)[:, slot]
    window = windows.per_slot(np.arange(len(windows)))[slot]
    low = np.clip(windows.edges[window] - t + span // 2, 0, span)
    high = np.clip(windows.edges[window + 1] - t + span // 2, 0, span)
    running = np.zeros((M, N, span + 1), np.float32)
    np.cumsum(columns, axis=2, out=running[:, :, 1:])
    running = running.reshape(M, -1)
    row = t * (span + 1)
    held = running.take(row + high, axis=1) - running.take(row + low, axis=1)
    share = (u / windows.lengths).astype(np.float32)
    return held * share.take(window, axis=1)
