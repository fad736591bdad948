"""Least squares with coefficients that are not negative."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def nnls(A: Array, b: Array, maxiter: int | None = None) -> tuple[Array, float]:
    """``argmin_{x >= 0} |A x - b|`` and the norm of what is left.

    Examples
    --------
    >>> x, rest = nnls(np.eye(2), np.array([1.0, -2.0]))
    >>> x.tolist(), rest
    ([1.0, 0.0], 2.0)
    """
    # The package around it takes 17 MB: a site loads it after its largest arrays are gone.
    from scipy.optimize import nnls as solve

    x, rest = solve(A, b, maxiter=maxiter)
    return x, float(rest)
