"""Conjugate gradients for unknowns that are matrices, with the operator given as a function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Operator = Callable[[Array], Array]


def conjugate_gradients(
    apply: Operator,
    right: Array,
    *,
    start: Array | None = None,
    tolerance: float = 1e-6,
    steps: int = 1000,
) -> Array:
    """Solve ``A(X) = B`` for a symmetric, positive semi-definite operator ``A``.

    The inner product is the sum of the products of entries. Where ``A`` is singular but the
    system is consistent, a run from zero ends at the solution of least norm.

    Parameters
    ----------
    apply : ``X -> A(X)``
    right : B, of any shape
    start : first guess, None for zero
    tolerance : stop when ``|B - A(X)| <= tolerance |B|``
    steps : at most this many

    Returns
    -------
    array of the shape of B

    Examples
    --------
    >>> conjugate_gradients(lambda X: 2 * X, np.array([[4.0, -6.0]])).tolist()
    [[2.0, -3.0]]
    """
    X = np.zeros_like(right) if start is None else start.copy()
    R = right.copy() if start is None else right - apply(X)
    enough = (tolerance * float(np.linalg.norm(right))) ** 2
    P, left = R.copy(), _inner(R, R)
    for _ in range(steps):
        if left <= enough:
            break
        image = apply(P)
        curvature = _inner(P, image)
        if curvature <= 0:
            # Rounding has used up what the operator can tell apart.
            break
        length = left / curvature
        X += length * P
        R -= length * image
        left, before = _inner(R, R), left
        P *= left / before
        P += R
    return X


def _inner(A: Array, B: Array) -> float:
    return float(np.vdot(A, B))
