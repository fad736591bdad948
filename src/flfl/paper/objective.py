"""The gradient of the paper's objective: as printed, as it should be, and as its text says.

For the C sensors of one region, with ``Omega`` the known entries::

    E(P, Q) =   sum_Omega (y_ij - p_i . q_j)^2
              + lambda  sum_Omega (|p_i|^2 + |q_j|^2)
              + z1      sum_Omega ((L P Q^T)_ij)^2
              + z2      sum_Omega ((P Q^T D)_ij)^2

``D`` has one column fewer than there are slots, so the last slot has no temporal term.
The paper's text says otherwise than this equation: there the smoothness is that of the *whole*
recovered matrix, ``z1 |L P Q^T|^2 + z2 |P Q^T D|^2`` over every sensor and slot.
The network's objective is the sum over regions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flfl.paper.graph import difference, difference_adjoint, path_laplacian

Array = NDArray[np.float64]
Rule = Literal["paper", "exact", "whole"]


@dataclass(frozen=True)
class Weights:
    """Weights of the objective: ``ridge`` = lambda, ``spatial`` = z1, ``temporal`` = z2."""

    ridge: float = 0.0
    spatial: float = 0.0
    temporal: float = 0.0


@dataclass(frozen=True)
class Observed:
    """Readings Y (C, N), zero where unknown, and their mask J in floats, as a bool would be
    converted in every round; known entries of each sensor (C, 1) and at each slot (N, 1)."""

    Y: Array
    J: Array
    per_sensor: Array
    per_slot: Array

    @classmethod
    def of(cls, Y: Array, known: NDArray[np.bool_]) -> Observed:
        """Keep the known entries of ``Y``; the others may hold anything, NaN included."""
        J = known.astype(np.float64)
        return cls(np.where(known, Y, 0.0), J, J.sum(1)[:, None], J.sum(0)[:, None])

    def rows(self, selection: slice) -> Observed:
        """The same for some of the sensors."""
        J = self.J[selection]
        return Observed(self.Y[selection], J, self.per_sensor[selection], J.sum(0)[:, None])

    def residual(self, P: Array, Q: Array) -> Array:
        """``J * (Y - P Q^T)``, (C, N)."""
        E = P @ Q.T
        np.subtract(self.Y, E, out=E)
        E *= self.J
        return E


def gradient(
    data: Observed,
    P: Array,
    Q: Array,
    L: Array,
    weights: Weights,
    rule: Rule = "exact",
    rows: slice = slice(None),
) -> tuple[Array, Array]:
    """Gradient of ``E`` for P, and the part of the chosen sensors for Q.

    ``rule="exact"`` is the derivative of ``E`` above. ``rule="paper"`` is the pair of
    formulas as printed: ``c_ij = y_ij - p_i.q_j - z1 (L L^T)_i P q_j - z2 p_i (Q^T D D^T)_j`` on
    known entries, then ``-2 c_ij q_j + 2 lambda p_i`` and ``-2 c_ij p_i + 2 lambda q_j`` summed.
    The two agree when L is symmetric and every entry is known; otherwise the printed pair
    leaves out what an entry's smoothness terms owe to its neighbours. ``rule="whole"`` is the
    derivative of ``E`` with the smoothness of the whole matrix; for a symmetric L it is the
    printed pair with its smoothness terms at every slot.

    P (C, k) and L (C, C) are of the whole region, Q is (N, k); ``grad_P`` (len(rows), k) and
    ``grad_Q`` (N, k) are of the sensors in ``rows`` only: the paper lets one move at a time.

    Examples
    --------
    >>> data = Observed.of(np.array([[1.0, 5.0]]), np.array([[True, True]]))
    >>> one = np.ones((1, 1))
    >>> grad_P, grad_Q = gradient(data, 2 * one, np.array([[1.0], [2.0]]), 0 * one, Weights())
    >>> grad_P.tolist(), grad_Q.ravel().tolist()
    ([[-2.0]], [4.0, -4.0])
    """
    own = data if rows == slice(None) else data.rows(rows)
    grad_P, grad_Q = RULES[rule](data, own, P, Q, L, weights, rows)
    if weights.ridge:
        grad_P += 2 * weights.ridge * own.per_sensor * P[rows]
        grad_Q += 2 * weights.ridge * own.per_slot * Q
    return grad_P, grad_Q


def _printed_terms(
    data: Observed, own: Observed, P: Array, Q: Array, L: Array, weights: Weights, rows: slice
) -> tuple[Array, Array]:
    """``-2 C Q`` and ``-2 C^T P`` with the printed ``C = (c_ij)``."""
    left = P[rows]
    if weights.spatial and L.any():
        left = left + weights.spatial * (L @ (L.T @ P))[rows]
    C = left @ Q.T
    if weights.temporal:
        C += (weights.temporal * P[rows]) @ path_laplacian(Q).T
    np.subtract(own.Y, C, out=C)
    C *= own.J
    # The factor -2 goes to the small side of each product.
    return C @ (-2 * Q), C.T @ (-2 * P[rows])


def _exact_terms(
    data: Observed, own: Observed, P: Array, Q: Array, L: Array, weights: Weights, rows: slice
) -> tuple[Array, Array]:
    """The true derivative of the fit and of the two smoothness terms."""
    A = own.residual(P[rows], Q)
    grad_P, grad_Q = -2 * (A @ Q), -2 * (A.T @ P[rows])
    if weights.spatial and L.any():
        # An entry of sensor i' holds p_i of its neighbour i: the whole region's terms count.
        LP = L @ P
        B = data.J * (LP @ Q.T)
        grad_P += 2 * weights.spatial * (L.T @ (B @ Q))[rows]
        grad_Q += 2 * weights.spatial * (B[rows].T @ LP[rows])
    if weights.temporal:
        steps = difference(Q)
        C = own.J[:, :-1] * (P[rows] @ steps.T)
        grad_P += 2 * weights.temporal * (C @ steps)
        grad_Q += 2 * weights.temporal * difference_adjoint(C.T @ P[rows])
    return grad_P, grad_Q


def _whole_terms(
    data: Observed, own: Observed, P: Array, Q: Array, L: Array, weights: Weights, rows: slice
) -> tuple[Array, Array]:
    """``2 E Q`` and ``2 E^T P``, ``E = J (X - Y) + z1 L^T L X + z2 X D D^T`` with ``X = P Q^T``."""
    X = P[rows] @ Q.T
    E = own.J * (X - own.Y)
    if weights.spatial and L.any():
        E += (weights.spatial * (L.T @ (L @ P))[rows]) @ Q.T
    if weights.temporal:
        E += weights.temporal * path_laplacian(X.T).T
    return E @ (2 * Q), E.T @ (2 * P[rows])


RULES: Mapping[Rule, Callable[..., tuple[Array, Array]]]
"""How all terms but the ridge are differentiated."""
RULES = {"paper": _printed_terms, "exact": _exact_terms, "whole": _whole_terms}


def sensor_curvature(data: Observed, Q: Array, L: Array, weights: Weights) -> Array:
    """Matrices H (C, k, k): a step ``-H_i^-1 grad_i / 2`` of all p_i at once lowers ``E``.

    ``H_i = Q^T J_i Q + lambda n_i + z1 h_i Q^T Q + z2 Q^T D D^T Q`` is half of the second
    derivative by p_i under the rule ``whole``, but for ``h_i = sum_i' |L^T L|_ii'``, which bounds
    what the neighbours' steps do. The rule ``exact`` bends less.

    Examples
    --------
    >>> data = Observed.of(np.array([[1.0, 5.0]]), np.array([[True, False]]))
    >>> sensor_curvature(data, np.array([[3.0], [2.0]]), np.zeros((1, 1)), Weights()).tolist()
    [[[9.0]]]
    """
    C, k = len(data.Y), Q.shape[1]
    H = np.empty((C, k, k))
    for i, row in enumerate(data.J > 0):
        known = Q[row]
        np.matmul(known.T, known, out=H[i])
    H += weights.ridge * data.per_sensor[:, :, None] * np.eye(k)
    H += weights.spatial * np.abs(L.T @ L).sum(axis=1)[:, None, None] * (Q.T @ Q)
    H += weights.temporal * (Q.T @ path_laplacian(Q))
    return H


def slot_curvature(data: Observed, P: Array, L: Array, weights: Weights) -> float:
    """A bound c on half of the second derivative by Q: ``-grad_Q / 2c`` lowers ``E``.

    ``c = |(1 + 4 z2) P^T P + z1 P^T L^T L P| + lambda max_j n_j``, in the spectral norm: no entry
    of the mask is above 1, no eigenvalue of ``D D^T`` above 4. Bounds of regions add up.

    Examples
    --------
    >>> data = Observed.of(np.array([[1.0, 5.0]]), np.array([[True, True]]))
    >>> slot_curvature(data, np.array([[3.0]]), np.zeros((1, 1)), Weights(0.5, 0.0, 1.0))
    45.5
    """
    LP = L @ P
    bend = (1 + 4 * weights.temporal) * (P.T @ P) + weights.spatial * (LP.T @ LP)
    return float(np.linalg.norm(bend, 2) + weights.ridge * data.per_slot.max())
