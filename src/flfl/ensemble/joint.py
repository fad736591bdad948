"""An owner's joint model: its sensors trust each other, so each helps the others.

Kalman-EM with one state a sensor costs the cube of their number. So an owner of many sensors has a
model for each group of sensors that are alike, and learns it on some of a long table's slots.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl import constants
from flfl.model import Array, Index, Mask
from flfl.model.kalman_em import Dynamics, fit_kalman_em, leave_one_out, smooth

Fall = NDArray[np.float32]


@dataclass(frozen=True)
class Joint:
    """Groups of sensors, and the dynamics of each."""

    groups: tuple[Index, ...]
    dynamics: tuple[Dynamics, ...]


@dataclass(frozen=True)
class Curve:
    """The curve of each sensor (m, N): ``mean`` with the entry's own reading, ``loo`` and its
    variance ``loo_var`` without it.

    ``fall`` (m, N, 2 * reach + 1) is the share of a reading's pull that is left so many slots away.
    """

    mean: Array
    loo: Array
    loo_var: Array
    fall: Fall

    @classmethod
    def constant(cls, mean: Array, var: Array) -> Curve:
        """A curve that no reading pulls."""
        return cls(mean, mean, var, np.empty((*mean.shape, 0), np.float32))

    def times(self, factor: float) -> Curve:
        """The same curve in other units."""
        return Curve(self.mean * factor, self.loo * factor, self.loo_var * factor**2, self.fall)


def fit_joint(
    R: Array, J: Mask, joint: Joint | None = None, *, diagonal: bool = False, pull: bool = True
) -> tuple[Curve, Joint]:
    """Curves of some sensors (m, N) from each other's past and future, and the model.

    ``R`` (m, N) is centred, with any value where it is not known (J). With ``joint``, learned
    before, it is one smoothing pass. ``diagonal``: a sensor's past tells of itself alone, which
    takes fewer readings to learn. Without ``pull`` nothing is told of how a pull falls off.
    """
    (m, N), scale = R.shape, _scale(R, J)
    Z = np.where(J, R, 0.0) / scale
    groups = alike(Z, J, group_size(m, N)) if joint is None else joint.groups
    found, made = np.empty((4, m, N)), []
    for n, rows in enumerate(groups):
        Y, known = Z[rows], J[rows]
        dyn = _learn(Y, known, diagonal) if joint is None else joint.dynamics[n].in_units(1 / scale)
        post = smooth(Y, known, dyn, chunk=constants.SITE_CHUNK, overlap=constants.SITE_OVERLAP)
        loo, loo_var = leave_one_out(post, Y, known, dyn.r)
        found[:, rows] = post.mean * scale, loo * scale, loo_var * scale**2, post.var
        # The pull of a reading falls off as cov(x_t, x_s) / var(x_t), chained from slot to slot.
        made.append((dyn.in_units(scale), post.cross))
    cross = np.empty((m, N))
    for rows, (_, part) in zip(groups, made, strict=True):
        cross[rows] = part
    mean, loo, loo_var, var = found
    fall = falls(var, cross) if pull else np.empty((m, N, 0), np.float32)
    return Curve(mean, loo, loo_var, fall), Joint(groups, tuple(d for d, _ in made))


def group_size(m: int, N: int) -> int:
    """How many of m sensors a group has at the most: all, where that is little work for N slots.

    >>> group_size(53, 1826), group_size(53, 100), group_size(100, 5000)
    (53, 16, 16)
    """
    little = m**3 * N <= constants.SITE_WORK and m <= min(constants.SITE_MOST, N // 4)
    return m if little else constants.SITE_GROUP


def _scale(R: Array, J: Mask) -> float:
    return float(np.sqrt(np.where(J, R**2, 0.0).sum() / max(J.sum(), 1))) or 1.0


def _learn(Y: Array, J: Mask, diagonal: bool) -> Dynamics:
    """Residuals forget fast, so short chunks and overlaps do, and many chunks at a time keep the
    Python loop short."""
    slots = some_slots(Y.shape[1], constants.LEARN_SLOTS)
    long = Y.shape[1] > constants.SITE_LONG
    dyn, _ = fit_kalman_em(
        Y[:, slots],
        J[:, slots],
        iterations=constants.SITE_STEPS if long else constants.SITE_STEPS_SHORT,
        chunk=constants.SITE_CHUNK,
        overlap=constants.SITE_OVERLAP,
        factor=constants.SITE_FACTOR,
        diagonal=diagonal,
    )
    return dyn


def some_slots(N: int, most: int, pieces: int = 8) -> Index:
    """About ``most`` of N slots to learn from: pieces that are spread over the whole time.

    Where one piece ends and the next begins, a model sees a step that is none: seven of them.

    >>> some_slots(4, 9), some_slots(100, 4, pieces=2)
    (array([0, 1, 2, 3]), array([ 0,  1, 98, 99]))
    """
    if most >= N:
        return np.arange(N)
    length = most // pieces
    starts = np.round(np.linspace(0, N - length, pieces)).astype(np.intp)
    return (starts[:, None] + np.arange(length)).ravel()


def alike(Z: Array, J: Mask, most: int) -> tuple[Index, ...]:
    """Groups of at most so many sensors that vary together.

    All are halved along the direction in which their correlations differ most, again and again.

    Examples
    --------
    >>> Z = np.array([[1.0, -1, 1], [1, 2, -3], [1, -1, 1.1], [1, 2, -3.1]])
    >>> alike(Z, np.ones((4, 3), bool), 2)
    (array([0, 2]), array([1, 3]))
    """
    every = np.arange(len(Z))
    if len(Z) <= most:
        return (every,)
    known = J.astype(float)
    C = (Z * known) @ (Z * known).T / np.maximum(known @ known.T, 1.0)
    sd = np.sqrt(np.maximum(np.diag(C), 1e-12))
    C = np.clip(C / np.outer(sd, sd), -1.0, 1.0)
    groups = [every]
    while any(len(rows) > most for rows in groups):
        groups = [half for rows in groups for half in _halves(C, rows, most)]
    return tuple(sorted(groups, key=lambda rows: int(rows[0])))


def _halves(C: Array, rows: Index, most: int) -> list[Index]:
    if len(rows) <= most:
        return [rows]
    part = C[np.ix_(rows, rows)]
    part = part - part.mean(axis=0) - part.mean(axis=1)[:, None] + part.mean()
    order = np.argsort(np.linalg.eigh(part)[1][:, -1], kind="stable")
    return [np.sort(rows[half]) for half in np.array_split(order, 2)]


def falls(v: Array, cross: Array) -> Fall:
    """``Curve.fall`` from the variance of each entry and its covariance with the next (m, N)."""
    (m, N), reach = v.shape, constants.PULL_REACH
    safe = np.maximum(v, 1e-300)
    ahead, back = cross[:, :-1] / safe[:, :-1], cross[:, :-1] / safe[:, 1:]  # to t + 1, and back
    fall = np.zeros((m, N, 2 * reach + 1), np.float32)
    fall[:, :, reach] = 1.0
    for lag in range(1, min(reach, N - 1) + 1):
        fall[:, :-lag, reach + lag] = fall[:, :-lag, reach + lag - 1] * ahead[:, lag - 1 :]
        fall[:, lag:, reach - lag] = fall[:, lag:, reach - lag + 1] * back[:, : N - lag]
    return fall
