"""What the sums see of q, direction by direction (coordinator).

A sensor speaks in a window with the strength ``s_i,tau = u_i,tau resp_i,tau``, and the sums see q
through ``F_tau = sum_i s_i,tau b_i p_i^T``.  Where a region is dark, that is far from ``w_tau F``:
some directions are not seen at all.  To send F_tau would give the masks away.  Instead sites
send how much is said along each of k local axes, and the coordinator looks for strengths on
the published map that explain it:

* *stand-ins*: points x of the map with masses ``o_x`` and ``sum_x o_x b_x b_x^T = R``; they look
  to the coordinator like the sensors, wherever those are
* strengths ``s_x,tau`` in [0, 1] of the stand-ins that reproduce the axes' shares
* ``N_tau = sum_x o_x s_x,tau bt_x bt_x^T``, ``bt = turn^T b``: the identity where all speak.
  Then ``R_tau = sum_i s r b b^T`` is nearly ``turn^-T N_tau turn^-1``, and ``F_tau`` nearly
  ``R_tau R^-1 F``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.model.nonnegative import nnls
from flfl.model.shared.dynamics import observe
from flfl.model.shared.windows import Windows

Array = NDArray[np.float64]

FLOOR = 0.02
"""Share of the mean strength that every direction keeps: stand-ins are not the sensors."""
STEPS = 30


@dataclass(frozen=True)
class Sight:
    """How the sums see q in every window.

    Attributes
    ----------
    windows : the cut of time
    w : (n_windows,) mean strength of the sensors
    turn, N : (k, k) and (n_windows, k, k) as above, or None: then ``N_tau = w_tau I``
    """

    windows: Windows
    w: Array
    turn: Array | None = None
    N: Array | None = None

    def pull(self, F: Array, R: Array, g: Array) -> tuple[Array, Array]:
        """``C_tau F_tau`` (n_windows, k, k) and ``C_tau g_tau`` (n_windows, k).

        ``C_tau = F_tau^T R_tau^-1`` on the numbers that the window releases.

        Examples
        --------
        >>> windows = Windows(np.array([0, 1, 2]), np.array([1, 2]))
        >>> F, R, g = 2 * np.eye(2), 4 * np.eye(2), np.ones((2, 2))
        >>> information, vector = Sight(windows, np.array([0.5, 1.0])).pull(F, R, g)
        >>> information[0].round(3).tolist(), vector.round(3).tolist()
        ([[0.5, 0.0], [0.0, 0.0]], [[0.5, 0.0], [0.5, 0.5]])
        """
        if self.N is None or self.turn is None:
            seen = observe(F, R, self.windows.released)
            weight = np.minimum(self.w, 1.0)[:, None, None]
            return weight * seen.CF[seen.kind], seen.apply(seen.C, g)
        # Directions that no sensor carries must not divide by zero.
        R = R + 1e-9 * np.trace(R) / len(R) * np.eye(len(R))
        back = np.linalg.inv(_whitened(self.turn, R))
        R_tau = back.T @ self.N @ back
        F_tau = R_tau @ np.linalg.solve(R, F)
        information, vector = np.zeros_like(self.N), np.zeros_like(g)
        for n in np.unique(self.windows.released):
            at = self.windows.released == n
            C = np.linalg.solve(R_tau[at, :n, :n], F_tau[at, :n]).transpose(0, 2, 1)
            information[at] = C @ F_tau[at, :n]
            vector[at] = (C @ g[at, :n, None])[:, :, 0]
        return 0.5 * (information + information.transpose(0, 2, 1)), vector


def axis_shares(local: Array) -> Array:
    """How a sensor's voice is shared among the axes, ``bt_ic^2 / sum_c bt_ic^2`` (site, (M, k)).

    Examples
    --------
    >>> axis_shares(np.array([[3.0, 1.0], [0.0, 0.0]])).round(6).tolist()
    [[0.9, 0.1], [0.5, 0.5]]
    """
    energy = local**2 + 1e-12 * max(float((local**2).max(initial=0.0)), 1e-300)
    return np.asarray(energy / energy.sum(axis=1, keepdims=True))


def stand_ins(rows: Array) -> tuple[Array, Array]:
    """Those of ``rows`` (x, k), and masses (x,), with ``sum_x o_x rows_x rows_x^T`` near I.

    Examples
    --------
    >>> points, mass = stand_ins(np.array([[1.0, 0.0], [0.0, 2.0], [0.1, 0.1]]))
    >>> points.tolist(), mass.round(3).tolist()
    ([[1.0, 0.0], [0.0, 2.0]], [1.0, 0.25])
    """
    k = rows.shape[1]
    a, b = np.triu_indices(k)
    # Off the diagonal a symmetric matrix counts twice.
    twice = np.where(a == b, 1.0, np.sqrt(2.0))
    mass, _ = nnls((rows[:, a] * rows[:, b] * twice).T, np.eye(k)[a, b] * twice, maxiter=100_000)
    kept = mass > 1e-9 * mass.max(initial=0.0)
    return rows[kept], mass[kept]


def strengths(points: Array, mass: Array, w: Array, shares: Array) -> Array:
    """Strengths in [0, 1] of the stand-ins that explain the axes' ``shares`` (n_windows, x).

    Multiplicative steps from ``w``, the same for all: what the shares do not tell stays even.

    Examples
    --------
    >>> dark = strengths(np.eye(2), np.ones(2), np.array([0.5]), np.array([[1.0, 0.0]]))
    >>> dark.round(3).tolist()
    [[1.0, 0.0]]
    """
    voice = axis_shares(points) * (mass * (points**2).sum(axis=1))[:, None]
    heard = voice / np.maximum(voice.sum(axis=0), 1e-12)  # columns add up to one
    answer = heard / np.maximum(heard.sum(axis=1, keepdims=True), 1e-12)
    s = np.repeat(np.maximum(w, 1e-6)[:, None], len(points), axis=1)
    for _ in range(STEPS):
        s = np.clip(s * ((shares / np.maximum(s @ heard, 1e-12)) @ answer.T), 0.0, 1.0)
    return s


def look(windows: Windows, w: Array, shares: Array, turn: Array, rows: Array) -> Sight:
    """The sight of a run: ``shares`` (n_windows, k) along the axes ``turn``, ``rows`` (x, k) of the
    published map along the same axes."""
    points, mass = stand_ins(rows)
    s = strengths(points, mass, w, shares)
    k = rows.shape[1]
    outer = (mass[:, None, None] * points[:, :, None] * points[:, None, :]).reshape(len(mass), -1)
    N = (s @ outer).reshape(-1, k, k)
    N += FLOOR * np.maximum(w, 1e-6)[:, None, None] * np.eye(k)
    return Sight(windows, w, turn, N)


def movement(before: Array, after: Array, F: Array) -> float:
    """By how much the sums' picture ``F m_t`` moved in the slots that moved most.

    The 99th percentile of ``|F (after_t - before_t)|``, over the root mean square of
    ``|F after_t|``.

    Examples
    --------
    >>> m = np.ones((200, 1))
    >>> still, one_day = m.copy(), m.copy()
    >>> one_day[:24] = 0.0
    >>> movement(still, m, np.eye(1)), movement(one_day, m, np.eye(1))
    (0.0, 1.0)
    """
    size = np.sqrt(((after @ F.T) ** 2).sum(axis=1).mean())
    moved = np.sqrt((((after - before) @ F.T) ** 2).sum(axis=1))
    return float(np.quantile(moved, 0.99) / max(float(size), 1e-300))


def _whitened(turn: Array, R: Array) -> Array:
    """The axes nearest to the columns of ``turn`` with ``axes^T R axes = I``.

    Examples
    --------
    >>> _whitened(np.eye(2), np.diag([4.0, 1.0])).tolist()
    [[0.5, 0.0], [0.0, 1.0]]
    """
    values, vectors = np.linalg.eigh(turn.T @ R @ turn)
    values = np.maximum(values, 1e-9 * values[-1])
    return np.asarray(turn @ ((vectors / np.sqrt(values)) @ vectors.T))
