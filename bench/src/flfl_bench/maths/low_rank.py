"""Tables of low rank: shrunken singular values, and one factor given the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def shrink_singular_values(F: Array, threshold: float) -> Array:
    """``E max(S - threshold, 0) V^T`` for ``F = E S V^T``: the proximal step of the nuclear norm.

    Through the Gram matrix of the short side: ``F F^T = E S^2 E^T`` gives
    ``E diag(max(1 - threshold/s, 0)) E^T F``.

    Parameters
    ----------
    F : (M, N) array

    Examples
    --------
    >>> shrink_singular_values(np.diag([5.0, 1.0]), 2.0).round(9) + 0.0
    array([[3., 0.],
           [0., 0.]])
    """
    if F.shape[0] > F.shape[1]:
        return shrink_singular_values(F.T, threshold).T
    squares, E = np.linalg.eigh(F @ F.T)
    s = np.sqrt(np.maximum(squares, 0.0))
    kept = s > threshold
    E = E[:, kept]
    return (E * (1 - threshold / s[kept])) @ (E.T @ F)


def noise_edge(shape: tuple[int, int]) -> float:
    """``sqrt(M) + sqrt(N)``: about the largest singular value of M x N independent unit noise.

    A threshold in this unit means the same for a short and for a long table.

    Examples
    --------
    >>> noise_edge((9, 100))
    13.0
    """
    return float(np.sqrt(shape[0]) + np.sqrt(shape[1]))


def ridge_rows(Y: Array, J: Array, Q: Array, ridge: float) -> Array:
    """``p_i = (sum_known q_j q_j^T + lambda I)^-1 sum_known y_ij q_j`` for every row at once.

    Parameters
    ----------
    Y : (M, N) readings, zero where unknown
    J : (M, N) zeros and ones
    Q : (N, k) the factor that is given

    Returns
    -------
    (M, k) array

    Examples
    --------
    >>> Y, J = np.array([[2.0, 4.0, 0.0]]), np.array([[1.0, 1.0, 0.0]])
    >>> ridge_rows(Y, J, np.array([[1.0], [2.0], [7.0]]), 0.0).tolist()
    [[2.0]]
    """
    k = Q.shape[1]
    outer = (Q[:, :, None] * Q[:, None, :]).reshape(len(Q), k * k)
    gram = (J @ outer).reshape(-1, k, k) + ridge * np.eye(k)
    return np.asarray(np.linalg.solve(gram, (Y @ Q)[:, :, None])[:, :, 0], dtype=np.float64)
