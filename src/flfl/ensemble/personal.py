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

from flfl import constants
from flfl.model.state_space import Dynamics, Posterior, smooth

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Shared:
    """What the network says about the factors without this owner, and their dynamics.

    ``information`` (N, k, k) and ``vector`` (N, k) are those of :mod:`flfl.model.state_space`;
    ``P`` (m, k) and ``r`` (m,) the owner's loadings and residual variances, from its copies.
    """

    information: Array
    vector: Array
    dynamics: Dynamics
    P: Array
    r: Array

    @classmethod
    def nothing(cls, Y: Array, J: Mask) -> Shared:
        """No network: a factor of which nothing is known, and nobody depends on."""
        (m, N), n = Y.shape, np.maximum(J.sum(axis=1), 1)
        r = np.maximum(0.5 * np.where(J, Y**2, 0.0).sum(axis=1) / n, 1e-6)
        slow = Dynamics(0.5 * np.eye(1), np.eye(1))
        return cls(np.zeros((N, 1, 1)), np.zeros((N, 1)), slow, np.zeros((m, 1)), r)


@dataclass(frozen=True)
class Fit:
    """Parameters of the personal model with n own states: m, or none.

    ``L`` (m, k + n) is how readings see factors (loadings ``p``) and own states (ones), ``c`` (m,)
    their noise variances, ``a`` (n,) and ``S`` (n, n) memory and step covariance of the own states.
    """

    L: Array
    c: Array
    a: Array
    S: Array


@dataclass(frozen=True)
class Curve:
    """The curve of each sensor (m, N): ``mean`` with the entry's own reading, ``loo`` and its
    variance ``loo_var`` without it.

    ``fall`` (m, N, 2 * reach + 1) is the share of a reading's pull that is left so many slots away.
    """

    mean: Array
    loo: Array
    loo_var: Array
    fall: NDArray[np.float32]


def finish(
    Y: Array, J: Mask, shared: Shared, start: Fit | bool = True, steps: int | None = None
) -> tuple[Curve, Fit]:
    """The owner's curves given the network and its own clean readings, and the parameters.

    Y and J (m, N) are clean readings in the network's units, and where they are used. A bool for
    ``start`` starts from what the owner published, with own states or without. The parameters are
    refitted between the ``steps``, which are smoothing passes (None: the usual number).

    Examples
    --------
    A network that says nothing leaves each sensor to itself:

    >>> N = 40
    >>> quiet = Shared(np.zeros((N, 1, 1)), np.zeros((N, 1)),
    ...                Dynamics(np.eye(1) / 2, np.eye(1)), np.zeros((1, 1)), np.ones(1))
    >>> Y, J = np.sin(np.arange(N) / 5)[None], np.arange(N)[None] % 4 > 0
    >>> bool(np.abs(finish(Y, J, quiet)[0].mean - Y)[~J].max() < 0.3)
    True
    """
    if isinstance(start, Fit):
        fit = start
    else:
        c, m = np.maximum(shared.r, 1e-9), len(shared.r) if start else 0
        a, slow = np.full(m, constants.PERSONAL_MEMORY), constants.PERSONAL_SLOW if m else 0.0
        L = np.concatenate([shared.P, np.eye(len(c))[:, :m]], axis=1)
        fit = Fit(L, (1 - slow) * c, a, np.diag((1 - a**2) * slow * c[:m]))
    # Without a state of its own a lone sensor would slowly pull the factors to itself.
    few = not len(fit.a) and len(Y) < constants.PERSONAL_MANY
    usual = constants.PERSONAL_FEW_STEPS if few else constants.PERSONAL_STEPS
    steps = usual if steps is None else steps
    J_ = J.astype(float)
    Y = J_ * Y
    for step in range(steps):
        post = _smooth(Y, J_, shared, fit)
        if step < steps - 1:
            overshoot = 1.0 if few or not step else constants.PERSONAL_FACTOR
            fit = _refit(Y, J_, post, fit, overshoot)
    return _curve(Y, J, post, fit), fit


def _smooth(Y: Array, J: Array, shared: Shared, fit: Fit) -> Posterior:
    """Posterior of factors and own states together."""
    N, k = shared.vector.shape
    L = fit.L
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


def _refit(Y: Array, J: Array, post: Posterior, old: Fit, factor: float) -> Fit:
    """Loadings, noise and own dynamics that explain the posterior, ``factor`` times as far.

    Noise moves on the log scale. The own dynamics overshoot only where S stays positive.
    """
    (m, N), n, most = Y.shape, np.maximum(J.sum(axis=1), 1), constants.PERSONAL_MOST_MEMORY
    k, own = old.L.shape[1] - len(old.a), len(old.a) > 0
    q = post.mean[:, :k]
    target = (J * Y) @ q
    if own:
        target -= (J * post.mean[:, k:].T) @ q + np.einsum("it,tia->ia", J, post.cov[:, k:, :k])
    # p_i regresses y - u on q, both uncertain together
    squares = (q[:, :, None] * q[:, None, :] + post.cov[:, :k, :k]).reshape(N, -1)
    H = (J @ squares).reshape(m, k, k) + old.c[:, None, None] * np.eye(k)
    L = old.L.copy()
    L[:, :k] = np.linalg.solve(H, target[..., None])[..., 0]
    x, v = L @ post.mean.T, np.einsum("ia,tab,ib->it", L, post.cov, L, optimize=True)
    power = (Y**2).sum(axis=1) / n
    c = (J * ((Y - x) ** 2 + v)).sum(axis=1) / n
    c = np.maximum(c, constants.PERSONAL_LEAST_NOISE * (Y**2).sum(axis=1) / n + 1e-12)
    a, S = old.a, old.S
    if own:
        S11, S10, S00 = (moment[k:, k:] for moment in post.moments)
        a = np.clip(np.diag(S10) / np.maximum(np.diag(S00), 1e-12), 0.0, most)
        aS = a[:, None] * S10.T
        S = (S11 - aS - aS.T + a[:, None] * S00 * a) / max(N - 1, 1)
        S = 0.5 * (S + S.T)
        S += np.diag(1e-4 * np.abs(np.diag(S)) + 1e-9 * (1e-9 + power))
        wide = old.S + factor * (S - old.S)
        if np.linalg.eigvalsh(wide)[0] > 0.3 * np.linalg.eigvalsh(S)[0]:
            a, S = np.clip(old.a + factor * (a - old.a), 0.0, most), wide
    c = c * np.clip((c / old.c) ** (factor - 1), 0.25, 4.0)
    return Fit(old.L + factor * (L - old.L), c, a, S)


def _curve(Y: Array, J: Mask, post: Posterior, fit: Fit) -> Curve:
    """Leave-one-out: ``h = v / c``, ``x_loo = x - h (y - x) / (1 - h)``, exact for fixed p.

    The pull of a reading falls off as ``cov(x_t, x_s) / var(x_t)``, chained from slot to slot.
    """
    (m, N), reach = Y.shape, constants.PULL_REACH
    L = fit.L
    x, v = L @ post.mean.T, np.einsum("ia,tab,ib->it", L, post.cov, L, optimize=True)
    h = np.where(J, np.minimum(v / fit.c[:, None], 0.999), 0.0)
    loo = np.where(J, x - h * (Y - x) / (1 - h), x)
    cross = np.einsum("ia,tab,ib->it", L, post.cross, L, optimize=True)
    safe = np.maximum(v, 1e-300)
    ahead, back = cross / safe[:, :-1], cross / safe[:, 1:]  # t to t + 1, and t + 1 to t
    fall = np.zeros((m, N, 2 * reach + 1), np.float32)
    fall[:, :, reach] = 1.0
    for lag in range(1, reach + 1):
        fall[:, :-lag, reach + lag] = fall[:, :-lag, reach + lag - 1] * ahead[:, lag - 1 :]
        fall[:, lag:, reach - lag] = fall[:, lag:, reach - lag + 1] * back[:, : N - lag]
    return Curve(x, loo, v / (1 - h), fall)
