"""The personal finish: the shared factors again, with the owner's own clean readings.

The owner takes its own noisy copies out of the release. :func:`regress` fits loadings of its clean
readings to what the network then says, which is used twice. :func:`follow` adds a joint model of
what the network leaves open: best near a reading. :func:`finish` observes the clean readings beside
the release::

    y_it = p_i . q_t + e_it,   e_it ~ N(0, c_i)

with ``p`` and ``c`` fitted by a few steps of expectation maximisation: best far from any.

The loadings that the owner published are no start: they were fitted to copies of all its readings,
also of those that are held out to judge by, and would flatter the network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flfl import constants
from flfl.ensemble.joint import Curve, Joint, fit_joint, some_slots
from flfl.model import Array, Index, Mask, loadings
from flfl.model.state_space import Dynamics, Posterior, smooth, stationary


@dataclass(frozen=True)
class Shared:
    """What the network says about the factors without this owner, and their dynamics.

    ``information`` (N, k, k) and ``vector`` (N, k) are those of :mod:`flfl.model.state_space`;
    ``r`` (m,) the residual variances of the owner's sensors, from its copies.
    """

    information: Array
    vector: Array
    dynamics: Dynamics
    r: Array

    @property
    def posterior(self) -> Posterior:
        """The factors given the network alone."""
        return smooth(self.information, self.vector, self.dynamics)

    def at(self, slots: Index) -> Shared:
        """The same at some slots."""
        return Shared(self.information[slots], self.vector[slots], self.dynamics, self.r)


@dataclass(frozen=True)
class Fit:
    """How readings depend on the factors: loadings ``P`` (m, k) and noise variances ``c`` (m,)."""

    P: Array
    c: Array


def regress(Y: Array, J: Mask, post: Posterior, r: Array) -> Fit:
    """Loadings of clean readings (m, N) on the factors as the network alone has them, and noise;
    first that of the copies, ``r`` (m,)."""
    J_, clean, r = J.astype(float), np.zeros(Y.shape), np.maximum(r, 1e-6)
    for _ in range(constants.FOLLOW_STEPS):
        P, r = loadings.fit_loadings(J_ * Y, J_, clean, post, r)
    return Fit(P, r)


def told(P: Array, post: Posterior, dynamics: Dynamics) -> Array:
    """How much of its variance the network tells of each sensor in each slot (m, N).

    ``1 - p' V_t p / p' V p``, with the posterior covariance ``V_t`` of the factors and ``V`` that
    of factors of which nothing is known.

    Examples
    --------
    A factor that was seen once, and is forgotten by half in a slot:

    >>> I, memory = np.zeros((3, 1, 1)), Dynamics(np.array([[0.5]]), np.array([[0.75]]))
    >>> I[0] = 1.0
    >>> told(np.ones((1, 1)), smooth(I, np.zeros((3, 1)), memory), memory).round(3)
    array([[0.5  , 0.125, 0.031]])
    """
    V = stationary(dynamics.A, dynamics.S)
    unknown = np.maximum(((P @ V) * P).sum(axis=1), 1e-300)
    return np.clip(1 - post.spread(P) / unknown[:, None], 0.0, 1.0)


def follow(Y: Array, J: Mask, said: Array, joint: Joint | None = None) -> tuple[Curve, Joint]:
    """The network's curves, with a joint model of what they leave open of the clean readings.

    Y and J (m, N) are clean readings in the network's units, and where they are used; ``said``
    (m, N) is what the network says of them. The joint model is learned, or ``joint`` used again.

    Examples
    --------
    A network that says nothing leaves each sensor to itself:

    >>> Y, J = np.sin(np.arange(40) / 5)[None], np.arange(40)[None] % 4 > 0
    >>> bool(np.abs(follow(Y, J, np.zeros((1, 40)))[0].mean - Y)[~J].max() < 0.3)
    True
    """
    rest, joint = fit_joint(np.where(J, Y - said, 0.0), J, joint, diagonal=True)
    return Curve(said + rest.mean, said + rest.loo, rest.loo_var, rest.fall), joint


def finish(
    Y: Array, J: Mask, shared: Shared, fit: Fit, steps: int | None = None
) -> tuple[Curve, Fit]:
    """The owner's curves given the network and its own clean readings, and the parameters.

    These start from ``fit`` and are refitted, on some slots of a long table, between the ``steps``,
    which are smoothing passes (None: the usual number).
    """
    J_ = J.astype(float)
    Y = J_ * Y
    # A lone sensor would slowly pull the factors to itself.
    few = len(Y) < constants.PERSONAL_MANY
    usual = constants.PERSONAL_FEW_STEPS if few else constants.PERSONAL_STEPS
    steps = usual if steps is None else steps
    slots = some_slots(Y.shape[1], constants.LEARN_SLOTS)
    part = shared.at(slots) if len(slots) < Y.shape[1] else shared
    for step in range(steps - 1):
        overshoot = 1.0 if few or not step else constants.PERSONAL_FACTOR
        post = _smooth(Y[:, slots], J_[:, slots], part, fit)
        fit = _refit(Y[:, slots], J_[:, slots], post, fit, overshoot)
    return _curve(Y, J, _smooth(Y, J_, shared, fit), fit), fit


def _smooth(Y: Array, J: Array, shared: Shared, fit: Fit) -> Posterior:
    """Posterior of the factors, clean readings among what is known of them."""
    P, (m, k) = fit.P, fit.P.shape
    own = (P[:, :, None] * P[:, None, :]).reshape(m, -1) / fit.c[:, None]
    information = (J.T @ own).reshape(-1, k, k)
    information += shared.information
    vector = (J * Y / fit.c[:, None]).T @ P + shared.vector
    return smooth(information, vector, shared.dynamics)


def _refit(Y: Array, J: Array, post: Posterior, old: Fit, factor: float) -> Fit:
    """Loadings and noise that explain the posterior, ``factor`` times as far, noise on the log
    scale."""
    n, k = np.maximum(J.sum(axis=1), 1), old.P.shape[1]
    H = post.squares(J) + old.c[:, None, None] * np.eye(k)
    P = np.asarray(np.linalg.solve(H, ((J * Y) @ post.mean)[..., None])[..., 0], dtype=float)
    c = (J * ((Y - P @ post.mean.T) ** 2 + post.spread(P))).sum(axis=1) / n
    c = np.maximum(c, constants.PERSONAL_LEAST_NOISE * (Y**2).sum(axis=1) / n + 1e-12)
    c = c * np.clip((c / old.c) ** (factor - 1), 0.25, 4.0)
    return Fit(old.P + factor * (P - old.P), c)


def _curve(Y: Array, J: Mask, post: Posterior, fit: Fit) -> Curve:
    """Leave-one-out: ``h = v / c``, ``x_loo = x - h (y - x) / (1 - h)``, exact for fixed p."""
    x, v = fit.P @ post.mean.T, post.spread(fit.P)
    h = np.where(J, np.minimum(v / fit.c[:, None], 0.999), 0.0)
    loo = np.where(J, x - h * (Y - x) / (1 - h), x)
    return replace(Curve.constant(x, v / (1 - h)), loo=loo)
