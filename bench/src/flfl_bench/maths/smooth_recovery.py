"""Recovery by smooth changes: what moves from slot to slot is alike at neighbouring sensors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flfl.paper.graph import path_laplacian
from flfl_bench.maths.linear_solve import conjugate_gradients

Array = NDArray[np.float64]


def recover_smooth(
    Y: Array,
    J: Array,
    S: Array,
    alpha: float,
    *,
    pull: float = 0.0,
    towards: Array | None = None,
    start: Array | None = None,
    tolerance: float = 1e-6,
    steps: int = 2000,
) -> Array:
    """Minimise ``1/2 |J*X - Y|^2 + alpha/2 tr((X D)^T S (X D)) + pull/2 |X - T|^2``.

    Solves ``J*X + alpha S X D D^T + pull X = Y + pull T`` by conjugate gradients on the matrix,
    transposed in memory so that differences in time are slices of whole rows.

    Parameters
    ----------
    Y : (M, N) readings, zero where unknown
    J : (M, N) zeros and ones
    S : (M, M) symmetric, positive semi-definite: the Laplacian, or a function of it
    alpha : weight of smoothness
    pull, towards : weight of the last term, and its T; an ADMM step needs them
    start : first guess

    Returns
    -------
    (M, N) array. A value that neither readings nor smoothness determine is zero at ``pull`` 0.

    Examples
    --------
    Two linked sensors move alike: the second is recovered from the first.

    >>> L = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> Y, J = np.array([[0.0, 1.0, 0.0], [5.0, 0.0, 5.0]]), np.ones((2, 3))
    >>> J[1, 1] = 0.0
    >>> recover_smooth(Y, J, L, 1.0)[1].round(3).tolist()
    [5.0, 6.0, 5.0]
    """
    J_T, S_alpha = np.ascontiguousarray(J.T), alpha * S

    def apply(X: Array) -> Array:
        out = path_laplacian(X) @ S_alpha
        out += J_T * X
        if pull:
            out += pull * X
        return out

    right = Y if towards is None else Y + pull * towards
    return conjugate_gradients(
        apply,
        np.ascontiguousarray(right.T),
        start=None if start is None else np.ascontiguousarray(start.T),
        tolerance=tolerance,
        steps=steps,
    ).T
