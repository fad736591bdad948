"""The personal finish: the shared factors again, with the owner's own clean readings.

The owner takes its own noisy copies out of the release and observes its clean readings instead.
Each of its sensors may also get a state of its own for what the factors leave open::

    y_it = p_i . q_t + u_it + e_it,   e_it ~ N(0, c_i)
    u_t = diag(a) u_{t-1} + v_t,      v_t ~ N(0, S_u)

with S_u full, since the sensors of one owner know each other. ``p``, ``a``, ``S_u`` and ``c`` are
fitted by a few steps of expectation maximisation at home. Own states are better near a reading; far
from any, where nothing is left of them, loadings that were fitted without them are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.model.state_space import Dynamics, Posterior, smooth

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

STEPS, FACTOR = 5, 3.0
"""Smoothing passes when everything is fitted, and how far each refit overshoots: plain steps of
expectation maximisation are short."""
MANY, FEW_STEPS = 4, 3
"""An owner of fewer sensors refits its loadings without own states only so often, and plainly."""
LEAST_NOISE = 2e-3
"""Least noise of a sensor, relative to the mean square of its readings."""
MOST_MEMORY = 0.995
REACH = 6
"""Slots to either side at which the pull of a reading on the curve is followed."""
_MEMORY, _SLOW = 0.8, 0.7
"""At the start: memory of a sensor's own state, and its share of what the factors leave open."""


@dataclass(frozen=True)
class Shared:
    """What the network says about the factors without this owner.

    Attributes
    ----------
    information, vector : (N, k, k) and (N, k), see :mod:`flfl.model.state_space`
    dynamics : of the factors
    P, r : (m, k) and (m,) the owner's loadings and residual variances, from its copies
    """

    information: Array
    vector: Array
    dynamics: Dynamics
    P: Array
    r: Array


@dataclass(frozen=True)
class Fit:
    """Parameters of the personal model: ``p`` (m, k), ``c`` (m,), ``a`` (n,), ``S`` (n, n).

    There are n own states: m, or none.
    """

    p: Array
    c: Array
    a: Array
    S: Array

    @property
    def rows(self) -> Array:
        """How the readings see factors and own states (m, k + n)."""
        own = np.eye(len(self.c))[:, : len(self.a)]
        return np.concatenate([self.p, own], axis=1)


@dataclass(frozen=True)
class Curve:
    """The curve of each sensor, (m, N) unless said otherwise.

    Attributes
    ----------
    mean : with the entry's own reading; loo, loo_var : without it
    fall : (m, N, 2 * REACH + 1) share of a reading's pull that is left so many slots away
    """

    mean: Array
    loo: Array
    loo_var: Array
    fall: NDArray[np.float32]


def first_fit(shared: Shared, own_states: bool = True) -> Fit:
    """Start from what the owner published."""
    c = np.maximum(shared.r, 1e-9)
    if not own_states:
        return Fit(shared.P, c, np.empty(0), np.empty((0, 0)))
    a = np.full(len(c), _MEMORY)
    return Fit(shared.P, (1 - _SLOW) * c, a, np.diag((1 - a**2) * _SLOW * c))


def finish(
    Y: Array, J: Mask, shared: Shared, fit: Fit, steps: int | None = None
) -> tuple[Curve, Fit]:
    """The owner's curves given the network and its own clean readings.

    Parameters
    ----------
    Y, J : (m, N) clean readings in the network's units, and where they are used
    fit : parameters to start from, see :func:`first_fit`
    steps : smoothing passes, None for the usual ones; the parameters are refitted between them

    Examples
    --------
    A network that says nothing leaves each sensor to itself:

    >>> N = 40
    >>> quiet = Shared(np.zeros((N, 1, 1)), np.zeros((N, 1)),
    ...                Dynamics(np.eye(1) / 2, np.eye(1)), np.zeros((1, 1)), np.ones(1))
    >>> Y = np.sin(np.arange(N) / 5)[None]
    >>> J = np.arange(N)[None] % 4 > 0
    >>> bool(np.abs(finish(Y, J, quiet, first_fit(quiet))[0].mean - Y)[~J].max() < 0.3)
    True
    """
    # Without a state of its own a lone sensor would slowly pull the factors to itself.
    few = not len(fit.a) and len(Y) < MANY
    factor, usual = (1.0, FEW_STEPS) if few else (FACTOR, STEPS)
    steps = usual if steps is None else steps
    J_ = J.astype(float)
    Y = J_ * Y
    for step in range(steps):
        post = _smooth(Y, J_, shared, fit)
        if step < steps - 1:
            fit = _further(fit, _refit(Y, J_, post, fit), factor if step else 1.0)
    return _curve(Y, J, post, fit), fit


def _smooth(Y: Array, J: Array, shared: Shared, fit: Fit) -> Posterior:
    """Posterior of factors and own states together."""
    N, k = shared.vector.shape
    L = fit.rows
    m, size = L.shape
    own = (L[:, :, None] * L[:, None, :]).reshape(m, -1) / fit.c[:, None]
    information = (J.T @ own).reshape(N, size, size)
    information[:, :k, :k] += shared.information
    vector = (J * Y / fit.c[:, None]).T @ L
    vector[:, :k] += shared.vector
    A, S = np.zeros((size, size)), np.zeros((size, size))
    A[:k, :k], S[:k, :k] = shared.dynamics.A, shared.dynamics.S
    A[k:, k:], S[k:, k:] = np.diag(fit.a), fit.S
    return smooth(information, vector, Dynamics(A, S))


def _refit(Y: Array, J: Array, post: Posterior, fit: Fit) -> Fit:
    """Loadings, noise and own dynamics that explain the posterior."""
    (m, k), N = fit.p.shape, Y.shape[1]
    q, n = post.mean[:, :k], np.maximum(J.sum(axis=1), 1)
    target = (J * Y) @ q
    if len(fit.a):
        target -= (J * post.mean[:, k:].T) @ q + np.einsum("it,tia->ia", J, post.cov[:, k:, :k])
    # p_i regresses y - u on q, both uncertain together
    squares = (q[:, :, None] * q[:, None, :] + post.cov[:, :k, :k]).reshape(N, -1)
    H = (J @ squares).reshape(m, k, k) + fit.c[:, None, None] * np.eye(k)
    p = np.asarray(np.linalg.solve(H, target[..., None])[..., 0], dtype=float)
    x, v = _states(post, Fit(p, fit.c, fit.a, fit.S).rows)
    square = (J * ((Y - x) ** 2 + v)).sum(axis=1) / n
    c = np.maximum(square, LEAST_NOISE * (Y**2).sum(axis=1) / n + 1e-12)
    if not len(fit.a):
        return Fit(p, c, fit.a, fit.S)
    S11, S10, S00 = (moment[k:, k:] for moment in post.moments)
    a = np.clip(np.diag(S10) / np.maximum(np.diag(S00), 1e-12), 0.0, MOST_MEMORY)
    aS = a[:, None] * S10.T
    S = (S11 - aS - aS.T + a[:, None] * S00 * a) / max(N - 1, 1)
    S = 0.5 * (S + S.T)
    S += np.diag(1e-4 * np.abs(np.diag(S)) + 1e-9 * (1e-9 + (Y**2).sum(axis=1) / n))
    return Fit(p, c, a, S)


def _further(old: Fit, new: Fit, factor: float) -> Fit:
    """Go ``factor`` times as far as a step went, noise on the log scale; not if S suffers."""
    c = new.c * np.clip((new.c / old.c) ** (factor - 1), 0.25, 4.0)
    a = np.clip(old.a + factor * (new.a - old.a), 0.0, MOST_MEMORY)
    S = old.S + factor * (new.S - old.S)
    if len(S) and np.linalg.eigvalsh(S)[0] <= 0.3 * np.linalg.eigvalsh(new.S)[0]:
        a, S = new.a, new.S
    return Fit(old.p + factor * (new.p - old.p), c, a, S)


def _states(post: Posterior, L: Array) -> tuple[Array, Array]:
    """Mean and variance of ``p . q + u`` (m, N)."""
    cov = np.einsum("ia,tab,ib->it", L, post.cov, L, optimize=True)
    return L @ post.mean.T, cov


def _curve(Y: Array, J: Mask, post: Posterior, fit: Fit) -> Curve:
    """Leave-one-out: ``h = v / c``, ``x_loo = x - h (y - x) / (1 - h)``, exact for fixed p."""
    L = fit.rows
    x, v = _states(post, L)
    h = np.where(J, np.minimum(v / fit.c[:, None], 0.999), 0.0)
    loo = np.where(J, x - h * (Y - x) / (1 - h), x)
    cross = np.einsum("ia,tab,ib->it", L, post.cross, L, optimize=True)
    return Curve(x, loo, v / (1 - h), _fall(v, cross))


def _fall(v: Array, cross: Array) -> NDArray[np.float32]:
    """How the pull of a reading falls off: cov(x_t, x_s) / var(x_t), chained from slot to slot."""
    m, N = v.shape
    fall = np.zeros((m, N, 2 * REACH + 1), np.float32)
    fall[:, :, REACH] = 1.0
    safe = np.maximum(v, 1e-300)
    ahead, back = cross / safe[:, :-1], cross / safe[:, 1:]  # t to t + 1, and t + 1 to t
    for lag in range(1, REACH + 1):
        fall[:, :-lag, REACH + lag] = fall[:, :-lag, REACH + lag - 1] * ahead[:, lag - 1 :]
        fall[:, lag:, REACH - lag] = fall[:, lag:, REACH - lag + 1] * back[:, : N - lag]
    return fall
